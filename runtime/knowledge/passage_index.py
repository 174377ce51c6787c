"""Index of passages, in memory or in a file: full-text search with SQLite, and vector search."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operad.runtime.knowledge.embeddings import need_numpy
from operad.runtime.values.errors import InputError
from operad.runtime.values.sqlite_file import FileKind, SqliteFile
from operad.runtime.values.words import words

if TYPE_CHECKING:
    import sqlite3


# Stop words: words without relation to the topic of a text.

_ENGLISH = """
a an the this that these those
i me my myself we our ours you your yours he him his she her hers it its itself they them their theirs
one someone somebody something anyone anybody anything
am is are was were be been being do does did doing done don have has had having t s d m ll ve
can cannot could will would shall should may might must
what which who whom whose when where why how whether
of in on at by for with about into to from as than then and or but if because so
not no also just only very too there here any some such other each every all many much more most
please kindly hi hello hey dear thank thanks tell explain give know want wants need needs like help let
wonder wondering ask asks asked asking question questions answer answers possible way
"""

_GERMAN = """
der die das des dem den ein eine einer eines einem einen kein keine keinen dieser diese dieses diesem diesen
ich mich mir mein meine meinen meiner meinem du dich dir dein deine er ihn ihm sein seine sie ihr ihre ihren ihrer ihnen
wir uns unser unsere es man jemand etwas sich
bist ist sind seid waren sei wird werden wurde habe haben hatte tun tut
kann kannst könnt können könnte könnten soll sollte sollen muss müssen darf dürfen will wollen möchte möchten würde
würden mag
wer wen wem wessen welche welcher welches welchen wann wo wohin woher warum wieso weshalb wie wieviel ob
und oder aber denn weil dass wenn als auf aus bei bis durch für gegen mit nach ohne über um unter von vom vor zu zum zur
im am beim ins nicht auch noch nur schon sehr sowie dann doch da hier dort alle jede jeder jedes mehr
bitte hallo danke dank sage sagen erkläre erklären gib geben wissen brauche hilf helfen frage fragen antwort
antworten
"""

_FRENCH = """
le la les un une des du de l d ce cet cette ces au aux
je j me m moi mon ma mes tu te t toi ton ta tes il elle on nous notre nos vous votre vos ils elles leur leurs se s
est sont était être suis êtes sommes sera soit avons avez ont avait avoir peux peut peuvent pouvez pourrais pourrait
pouvoir dois doit doivent faut veux veut voudrais voulez faire fais
que qu qui quoi quel quelle quels quelles quand où pourquoi combien
et ou mais donc ni ne n pas si dans en par pour avec sans sous sur vers chez y à aussi très comme
bonjour salut merci s'il plaît dire dites expliquer expliquez savoir besoin aide aider question réponse répondre
"""

_SPANISH = """
el los las unos unas uno una lo al del este esta estos estas ese esa eso
yo mi mis tú tu tus te él ella ello nosotros usted ustedes ellos ellas su sus se le les nos
es son era soy eres somos ser está están estoy estar ha han he hemos haber hay tengo tiene tener puedo puede pueden
podemos podría poder debo debe deben deber quiero quiere quisiera gustaría hacer hago
qué que quién quien quiénes cuál cual cuáles cuándo cuando dónde donde cómo como cuánto cuánta cuántos cuántas por
y o pero porque si ni de en con sin sobre para a desde hasta entre muy más también ya
hola buenos días gracias favor diga decir explicar explique saber necesito ayuda ayudar pregunta respuesta responder
"""

_CHINESE = """
什么 怎么 怎样 怎么样 怎么办 如何 为什么 为何 哪个 哪些 哪里 哪儿 哪种 谁 多少 几个 是否 是不是 有没有 能不能 可不可以 吗 呢
请问 请 您好 你好 谢谢 麻烦 我想 想知道 我想知道 我要 需要 可以 能够 应该 告诉 告诉我 帮我 帮忙 请告诉我 解释 回答
我 你 您 他 她 我们 你们 他们 这 那 这个 那个 这些 那些 的 了 是 在 有 和 与 或 也 都 就 把 被 对 从 到 但是 因为 所以 如果
"""
# Left out, because they are also topics of texts: ai, bin, car, comment, hat, main, plus, tag, todo, us, war; 说明, 问题.


@cache  # on first use: importing this must not compile the patterns of `words`
def stopwords() -> frozenset[str]:
    """Return articles, pronouns, auxiliaries, question words and words of request, in five languages.

    The languages are English, German, French, Spanish and Chinese. The words are as `words` returns them, so Chinese
    words are pairs of characters.

    >>> "the" in stopwords(), "index" in stopwords()
    (True, False)
    """
    return frozenset(words(" ".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _CHINESE))))


APPLICATION_ID = 0x6F70616B
"""Application id that marks an SQLite file as an index: "opak"."""

QUERY_CHARS = 20_000
"""Maximum length of a query, in characters; the rest is ignored."""

QUERY_WORDS = 48
"""Maximum number of words of a query that are searched; of more words, the rarest are."""

_INDEX = FileKind(
    name="an index of passages",
    application_id=APPLICATION_ID,
    version=2,
    tables=(
        "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, "
        "mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, skipped TEXT NOT NULL, passages INTEGER NOT NULL)",
        # AUTOINCREMENT never reuses an id, so that a vector cannot become that of another passage.
        "CREATE TABLE passages (id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, text TEXT NOT NULL, "
        "place TEXT NOT NULL, heading TEXT NOT NULL)",
        "CREATE INDEX passages_by_file ON passages (file)",
        # The words are already separated and case-folded; FTS5 only stems English words.
        "CREATE VIRTUAL TABLE found USING fts5(words, tokenize = 'porter ascii')",
        "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(found, row)",
        "CREATE TABLE vectors (id INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL UNIQUE, "
        "vector BLOB NOT NULL)",
        "CREATE TABLE embedded (model TEXT NOT NULL, width INTEGER NOT NULL)",  # model of the vectors; at most one row
    ),
)

VECTOR_WEIGHT = 4
"""Weight of vectors beside words: BM25 points for each standard deviation that a cosine is above the mean."""

_LEAST_SPREAD = 1e-6
"""Standard deviation of cosines below which they differ by rounding alone."""

_AT_ONCE = 200
"""Number of passages that are read in one query, until enough belong to the searched files."""

_QUERY_TABLES = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5(words, tokenize = 'porter ascii')",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_stems USING fts5vocab(temp, asked, instance)",
    "DELETE FROM temp.asked",
)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """Record of a file in the index.

    Attributes:
        size: Size in bytes.
        mtime_ns: Modification time, in nanoseconds since the epoch; 0 if the content must be read again.
        sha256: SHA-256 of the content, in hexadecimal.
        skipped: Reason for which the file is left out; empty if it is not.
    """

    size: int
    mtime_ns: int
    sha256: str
    skipped: str = ""
    passages: int = 0


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """Passage of a file.

    Attributes:
        place: Place in the file, as a suffix of the file's name: ``:12``, `` p.3``.
        heading: Headings above the passage.
    """

    text: str
    place: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """Passage that fits a query.

    Attributes:
        score: Relevance; larger is better: BM25 for words, the cosine for vectors, the sum of `PassageIndex.nearest`
            for both.
    """

    path: str
    passage: IndexedPassage
    score: float
    id: int


class PassageIndex:
    """Index of the passages of files. Threads may share an index; processes may share a file.

    Args:
        path: An SQLite file, created on first use; None to keep the index in memory.

    Each method raises InputError if the file cannot be used.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._file = SqliteFile(path, _INDEX)
        self._vectors: _Vectors | None = None

    def check(self) -> None:
        """Check that the file can be used, if it exists; no file is created."""
        self._file.check()

    def files(self) -> dict[str, IndexedFile]:
        """Return the records of files, by path."""
        with self._file.connection() as connection:
            rows = connection.execute("SELECT path, size, mtime_ns, sha256, skipped, passages FROM files").fetchall()
        return {path: IndexedFile(*rest) for path, *rest in rows}

    def put(self, path: str, file: IndexedFile, passages: Sequence[IndexedPassage]) -> None:
        """Store the passages of a file, in place of earlier ones. Words of file name and headings are searched, too."""
        name = Path(path).stem
        indexed = [(passage, " ".join(words(f"{name}\n{passage.heading}\n{passage.text}"))) for passage in passages]
        with self._file.transaction() as connection:
            embedded = _vectors_by_text(connection, path)  # vectors of unchanged passages are kept
            _remove(connection, path)
            added = connection.execute(
                "INSERT INTO files (path, size, mtime_ns, sha256, skipped, passages) VALUES (?, ?, ?, ?, ?, ?)",
                (path, file.size, file.mtime_ns, file.sha256, file.skipped, len(passages)),
            )
            for passage, indexed_words in indexed:
                row = connection.execute(
                    "INSERT INTO passages (file, text, place, heading) VALUES (?, ?, ?, ?)",
                    (added.lastrowid, passage.text, passage.place, passage.heading),
                )
                connection.execute("INSERT INTO found (rowid, words) VALUES (?, ?)", (row.lastrowid, indexed_words))
                if vector := embedded.get((passage.heading, passage.text)):
                    connection.execute("INSERT INTO vectors (passage, vector) VALUES (?, ?)", (row.lastrowid, vector))

    def touch(self, path: str, mtime_ns: int) -> None:
        """Store a new modification time for a file whose content is unchanged."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE files SET mtime_ns = ? WHERE path = ?", (mtime_ns, path))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files with their passages and vectors."""
        with self._file.transaction() as connection:
            for path in paths:
                _remove(connection, path)

    def search(self, query: str, among: Collection[str], most: int) -> list[Hit]:
        """Return the passages that fit a query best, best first.

        Args:
            query: Any text; its words are searched independently. Stopwords count only if there are no other words.
            among: Paths of the files to search.
            most: Maximum number of passages.
        """
        with self._file.connection() as connection:
            rows = connection.execute(
                "SELECT passages.id, files.path, passages.text, passages.place, passages.heading, -found.rank FROM found "
                "JOIN passages ON passages.id = found.rowid JOIN files ON files.id = passages.file "
                "WHERE found MATCH ? ORDER BY found.rank",
                (_match_expression(connection, query),),
            )
            return list(islice(_hits(rows, among), most))

    def state(self) -> object:
        """Return a value that changes when passages or vectors are added, or the model changes."""
        with self._file.connection() as connection:
            return connection.execute(
                "SELECT (SELECT model FROM embedded), (SELECT max(id) FROM passages), (SELECT max(id) FROM vectors)"
            ).fetchone()

    def embed_with(self, model: str) -> str:
        """Set the model of the vectors. Vectors of another model are removed.

        Returns:
            The name of the former model; empty if there was none, or the same.
        """
        with self._file.transaction() as connection:
            former, _ = _model_and_width(connection)
            if former == model:
                return ""
            connection.execute("DELETE FROM vectors")
            connection.execute("DELETE FROM embedded")
            connection.execute("INSERT INTO embedded (model, width) VALUES (?, 0)", (model,))
        return former

    def without_vector(self, among: Collection[str]) -> list[int]:
        """Return the numbers of the passages of some files that have no vector."""
        with self._file.connection() as connection:
            rows = connection.execute(
                "SELECT files.path, passages.id FROM passages JOIN files ON files.id = passages.file "
                "WHERE NOT EXISTS (SELECT * FROM vectors WHERE vectors.passage = passages.id) ORDER BY passages.id"
            )
            return [number for path, number in rows if path in among]

    def vector_count(self) -> int:
        """Return the number of passages that have a vector."""
        with self._file.connection() as connection:
            return connection.execute("SELECT count(*) FROM vectors").fetchone()[0]

    def texts(self, passages: Sequence[int]) -> dict[int, str]:
        """Return the text to embed for each passage, by its number: heading and text. Deleted passages are left out."""
        with self._file.connection() as connection:
            rows = connection.execute(
                "SELECT id, heading, text FROM passages WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(passages)),),
            )
            return {number: f"{heading}\n{text}".strip() for number, heading, text in rows}

    def add_vectors(self, model: str, vectors: Mapping[int, Any]) -> None:
        """Store unit vectors, by number of the passage; vectors of deleted passages are ignored.

        Raises:
            InputError: The index now has vectors of another model, or of another width.
        """
        with self._file.transaction() as connection:
            width = self._width(connection, model)
            for vector in vectors.values():
                width = width or len(vector)
                if len(vector) != width:
                    raise InputError(f"{model}: gives a vector of {len(vector)} numbers; earlier ones have {width}")
            connection.execute("UPDATE embedded SET width = ?", (width,))
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (passage, vector) SELECT id, ? FROM passages WHERE id = ?",
                [(vector.astype("<f4").tobytes(), number) for number, vector in vectors.items()],
            )

    def nearest(self, model: str, vector: Any, among: Collection[str], most: int, query: str = "") -> list[Hit]:
        """Return the passages whose vectors are nearest to a unit vector, nearest first.

        With a query, words are searched, too: the score of a passage is its BM25 score plus `VECTOR_WEIGHT` times the
        number of standard deviations by which its cosine exceeds the mean, which is comparable across models.

        Args:
            vector: Vector of the query.
            among: Paths of the files to search.
            most: Maximum number of passages.
            query: Text whose words are searched, as for `search`; empty for a search by vectors alone.

        Raises:
            InputError: The index now has vectors of another model, or of another width.
        """
        with self._file.connection() as connection:
            width = self._width(connection, model)
            if not width:
                return []
            if len(vector) != width:
                raise InputError(
                    f"{model}: gives a vector of {len(vector)} numbers; those of the passages have {width}"
                )
            numbers, table = self._vector_table(connection, width)
            scores = table @ vector
            if query and len(numbers):
                scores = VECTOR_WEIGHT * (scores - scores.mean()) / max(scores.std(), _LEAST_SPREAD)
                _add_word_scores(connection, query, numbers, scores)
            hits: list[Hit] = []
            order = (-scores).argsort(kind="stable")
            for start in range(0, len(order), _AT_ONCE):
                batch = {int(numbers[row]): float(scores[row]) for row in order[start : start + _AT_ONCE]}
                rows = connection.execute(
                    "SELECT passages.id, files.path, passages.text, passages.place, passages.heading, 0 FROM passages "
                    "JOIN files ON files.id = passages.file WHERE passages.id IN (SELECT value FROM json_each(?))",
                    (json.dumps(list(batch)),),
                )
                hits_by_id = {hit.id: hit for hit in _hits(rows, among)}
                hits += [
                    replace(hits_by_id[number], score=score) for number, score in batch.items() if number in hits_by_id
                ]
                if len(hits) >= most:
                    break
        return hits[:most]

    def _width(self, connection: sqlite3.Connection, model: str) -> int:
        """Return the number of dimensions of the vectors in the index; 0 if there are no vectors."""
        current, width = _model_and_width(connection)
        if current != model:
            raise InputError(
                f"{self._file.path}: the passages are embedded with {current or 'no model'} by now, not with {model}; "
                "knowledge bases with different models need an index file each"
            )
        return width

    def _vector_table(self, connection: sqlite3.Connection, width: int) -> tuple[Any, Any]:
        """Return the numbers of passages with a vector, and the vectors as an array; read again after additions."""
        np = need_numpy()
        state = (connection, *connection.execute("SELECT max(id) FROM vectors").fetchone())
        if self._vectors is None or self._vectors.state != state:
            rows = connection.execute("SELECT passage, vector FROM vectors").fetchall()
            numbers = np.array([number for number, _ in rows], dtype="int64")
            table = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4").reshape(len(rows), width)
            self._vectors = _Vectors(state, numbers, table)
        return self._vectors.numbers, self._vectors.table

    def close(self) -> None:
        """Close the file. The index can be used again; an index in memory is then empty."""
        self._vectors = None
        self._file.close()


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors in memory; some may belong to passages that have been deleted since.

    Attributes:
        state: The connection, and the number of the last vector.
        table: Array with the vector of each passage as a row.
    """

    state: object
    numbers: Any
    table: Any


def _hits(rows: Iterable[tuple[Any, ...]], among: Collection[str]) -> Iterator[Hit]:
    """Yield the hits of database rows that belong to the given files."""
    for number, path, text, place, heading, score in rows:
        if path in among:
            yield Hit(path, IndexedPassage(text, place, heading), score, number)


def _model_and_width(connection: sqlite3.Connection) -> tuple[str, int]:
    """Return the model of the vectors, empty for none, and the number of their dimensions."""
    return connection.execute("SELECT model, width FROM embedded").fetchone() or ("", 0)


def _vectors_by_text(connection: sqlite3.Connection, path: str) -> dict[tuple[str, str], bytes]:
    """Return the vectors of the passages of a file, by heading and text."""
    rows = connection.execute(
        "SELECT passages.heading, passages.text, vectors.vector FROM vectors JOIN passages ON passages.id = vectors.passage "
        "JOIN files ON files.id = passages.file WHERE files.path = ?",
        (path,),
    )
    return {(heading, text): vector for heading, text, vector in rows}


def _remove(connection: sqlite3.Connection, path: str) -> None:
    """Remove a file with its passages and vectors."""
    row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row:
        connection.execute("DELETE FROM found WHERE rowid IN (SELECT id FROM passages WHERE file = ?)", row)
        connection.execute("DELETE FROM vectors WHERE passage IN (SELECT id FROM passages WHERE file = ?)", row)
        connection.execute("DELETE FROM passages WHERE file = ?", row)
        connection.execute("DELETE FROM files WHERE id = ?", row)


def _distinguishing_words(connection: sqlite3.Connection, query: str) -> list[str]:
    """Return the words of a query that distinguish passages, rarest first."""
    in_query = dict.fromkeys(words(query))
    # In a small index stopwords are rare, and would outweigh the words that matter.
    searched = [word for word in in_query if word not in stopwords()] or list(in_query)
    for statement in _QUERY_TABLES:  # a table that stems the words of the query like those of passages
        connection.execute(statement)
    connection.executemany("INSERT INTO temp.asked (rowid, words) VALUES (?, ?)", enumerate(searched))
    frequencies: Mapping[str, int] = {
        searched[number]: passages
        for number, passages in connection.execute(
            "SELECT stem.doc, vocabulary.doc FROM temp.asked_stems AS stem "
            "CROSS JOIN vocabulary ON vocabulary.term = stem.term"
        )
    }
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    rarest = sorted(frequencies, key=lambda word: frequencies[word])[:QUERY_WORDS]
    # Words in more than half of the passages have almost no weight in BM25, and cost the most.
    return [word for word in rarest if frequencies[word] <= total / 2] or rarest


def _match_expression(connection: sqlite3.Connection, query: str) -> str:
    """Return an FTS5 expression of the distinguishing words of a query; it matches nothing if there are none."""
    return " OR ".join(f'"{word}"' for word in _distinguishing_words(connection, query[:QUERY_CHARS]) or [""])


def _add_word_scores(connection: sqlite3.Connection, query: str, numbers: Any, scores: Any) -> None:
    """Add BM25 scores for a query to the scores of the passages with these numbers."""
    np = need_numpy()
    matching = "SELECT rowid, -rank FROM found WHERE found MATCH ?"
    rows = np.array(connection.execute(matching, (_match_expression(connection, query),)).fetchall()).reshape(-1, 2)
    _, places, matches = np.intersect1d(numbers, rows[:, 0], assume_unique=True, return_indices=True)
    scores[places] += rows[matches, 1]
