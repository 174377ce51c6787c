"""An index of passages: full-text search with SQLite, in memory or in a file, changed file by file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from operad.runtime.knowledge.function_words import FUNCTION_WORDS
from operad.runtime.values.sqlite_file import FileKind, SqliteFile
from operad.runtime.values.words import words

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x6F70616B
"""What marks an SQLite file as an index of ours: "opak"."""

QUERY_CHARS = 20_000
"""How much of a query is looked at, from its beginning."""

QUERY_WORDS = 48
"""How many of its words are searched for: of more, those that the fewest passages hold."""

_INDEX = FileKind(
    name="an index of passages",
    application_id=APPLICATION_ID,
    version=1,
    tables=(
        "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, "
        "mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, skipped TEXT NOT NULL, passages INTEGER NOT NULL)",
        "CREATE TABLE passages (id INTEGER PRIMARY KEY, file INTEGER NOT NULL, text TEXT NOT NULL, "
        "place TEXT NOT NULL, heading TEXT NOT NULL)",
        "CREATE INDEX passages_by_file ON passages (file)",
        # The words come cut and folded; what is left to FTS5 is to stem those of English.
        "CREATE VIRTUAL TABLE found USING fts5(words, tokenize = 'porter ascii')",
        "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(found, row)",
    ),
)

_ASKED = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5(words, tokenize = 'porter ascii')",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_stems USING fts5vocab(temp, asked, instance)",
    "DELETE FROM temp.asked",
)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """What the index knows of a file.

    Attributes:
        size: Bytes.
        mtime_ns: When it was last changed; 0 where its content must be looked at again.
        sha256: Of its content, in hexadecimal.
        skipped: Why its passages could not be told; empty where they were.
        passages: How many it has.
    """

    size: int
    mtime_ns: int
    sha256: str
    skipped: str = ""
    passages: int = 0


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A piece of a file.

    Attributes:
        text: What it says.
        place: Where in the file it stands, as it follows the file's name: ``:12``, `` p.3``.
        heading: What it stands under.
    """

    text: str
    place: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits a query, the file that it is in, and how well it fits (BM25; larger is better)."""

    path: str
    passage: IndexedPassage
    score: float


class PassageIndex:
    """Passages of files, by path. Threads may share one; processes may share a file.

    Args:
        path: An SQLite file, made when it is first needed; None to keep the index in memory.

    Every method raises InputError where the file cannot be used.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._file = SqliteFile(path, _INDEX)

    def check(self) -> None:
        """Look whether the file can be used, if it is there; none is made."""
        self._file.check()

    def files(self) -> dict[str, IndexedFile]:
        """What it knows, by path."""
        with self._file.connection() as connection:
            rows = connection.execute("SELECT path, size, mtime_ns, sha256, skipped, passages FROM files").fetchall()
        return {path: IndexedFile(*rest) for path, *rest in rows}

    def put(self, path: str, file: IndexedFile, passages: Sequence[IndexedPassage]) -> None:
        """Take a file's passages in, in place of earlier ones. They are found by its name and headings, too."""
        name = Path(path).stem
        ready = [(passage, " ".join(words(f"{name}\n{passage.heading}\n{passage.text}"))) for passage in passages]
        with self._file.transaction() as connection:
            _remove(connection, path)
            added = connection.execute(
                "INSERT INTO files (path, size, mtime_ns, sha256, skipped, passages) VALUES (?, ?, ?, ?, ?, ?)",
                (path, file.size, file.mtime_ns, file.sha256, file.skipped, len(passages)),
            )
            for passage, its_words in ready:
                row = connection.execute(
                    "INSERT INTO passages (file, text, place, heading) VALUES (?, ?, ?, ?)",
                    (added.lastrowid, passage.text, passage.place, passage.heading),
                )
                connection.execute("INSERT INTO found (rowid, words) VALUES (?, ?)", (row.lastrowid, its_words))

    def touch(self, path: str, mtime_ns: int) -> None:
        """Note that a file has this time of change, and the same content."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE files SET mtime_ns = ? WHERE path = ?", (mtime_ns, path))

    def remove(self, paths: Iterable[str]) -> None:
        """Forget files."""
        with self._file.transaction() as connection:
            for path in paths:
                _remove(connection, path)

    def search(self, query: str, among: Collection[str], most: int) -> list[Hit]:
        """The passages that fit a query best, the best first.

        Args:
            query: Any text; its words are looked for, each for itself. Function words count where
                there is nothing else.
            among: The files that count.
            most: How many passages are wanted.
        """
        hits: list[Hit] = []
        with self._file.connection() as connection:
            asked = _telling(connection, query[:QUERY_CHARS])
            if not asked:
                return []
            rows = connection.execute(
                "SELECT files.path, passages.text, passages.place, passages.heading, -found.rank FROM found "
                "JOIN passages ON passages.id = found.rowid JOIN files ON files.id = passages.file "
                "WHERE found MATCH ? ORDER BY found.rank",
                (" OR ".join(f'"{word}"' for word in asked),),
            )
            for path, text, place, heading, score in rows:
                if path in among:
                    hits.append(Hit(path, IndexedPassage(text, place, heading), score))
                if len(hits) == most:
                    break
        return hits

    def close(self) -> None:
        """Close the file. The index can be used again; one in memory is empty then."""
        self._file.close()


def _remove(connection: sqlite3.Connection, path: str) -> None:
    row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row:
        connection.execute("DELETE FROM found WHERE rowid IN (SELECT id FROM passages WHERE file = ?)", row)
        connection.execute("DELETE FROM passages WHERE file = ?", row)
        connection.execute("DELETE FROM files WHERE id = ?", row)


def _telling(connection: sqlite3.Connection, query: str) -> list[str]:
    """The words of a query that tell passages apart, the rarest first."""
    in_query = dict.fromkeys(words(query))
    # Among few passages function words are rare ones, and would count for more than what is asked about.
    asked = [word for word in in_query if word not in FUNCTION_WORDS] or list(in_query)
    for statement in _ASKED:  # a table of the query's words, to have them stemmed as the passages' are
        connection.execute(statement)
    connection.executemany("INSERT INTO temp.asked (rowid, words) VALUES (?, ?)", enumerate(asked))
    frequencies: Mapping[str, int] = {
        asked[number]: passages
        for number, passages in connection.execute(
            "SELECT stem.doc, vocabulary.doc FROM temp.asked_stems AS stem "
            "CROSS JOIN vocabulary ON vocabulary.term = stem.term"
        )
    }
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    rarest = sorted(frequencies, key=lambda word: frequencies[word])[:QUERY_WORDS]
    # To BM25, what more than half of the passages hold says next to nothing, and costs the most.
    return [word for word in rarest if frequencies[word] <= total / 2] or rarest
