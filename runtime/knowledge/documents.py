"""Folders and files as a knowledge base: kept in an index, and read again when they change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from operad.runtime.events import PassagesEmbedded, emit
from operad.runtime.knowledge.embeddings import Embeddings, need_numpy, vectors_of
from operad.runtime.knowledge.extract import extract, is_foreign, need_extra
from operad.runtime.knowledge.folders import MAX_FILE_BYTES, Found, is_in, look, roots_of, too_large
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.knowledge.passage_index import Hit, IndexedFile, IndexedPassage, PassageIndex
from operad.runtime.values.errors import InputError, shorten
from operad.runtime.values.fingerprint import name_of

MAX_PASSAGES = 200_000
"""Maximum number of passages it may have."""

MAX_VECTOR_BYTES = 2**30
"""Bytes that the vectors of an index may have: a search holds them in memory."""

EMBEDDING_SECONDS = 600.0
"""Maximum time of one `retrieve` for embedding passages, in seconds; the next one continues."""

EMBEDDED_AT_ONCE = 64
"""Number of passages that are embedded and kept at a time."""

EMBEDDED_QUERY_CHARS = 4_000
"""Number of characters of a query that are embedded, from its beginning."""

SOURCE_CHARS = 300
"""Maximum length of a passage's source, in characters."""

_SETTLED_NS = 2_000_000_000
"""A file that was changed less long ago may change again without a new time of change."""

_BESIDE_INDEX = ("", "-wal", "-shm", "-journal")

log = logging.getLogger(__name__)


class Documents:
    """A knowledge base over files: text and code as they are, .docx, .html, .pdf, .pptx and .xlsx as their text.

        library = Documents("docs")
        [passage] = library.retrieve("When does my refund arrive?").passages
        print(passage.source, passage.text)
        answer = Operator("Answer from the passages.", knowledge_base=library)

    Names that begin with a dot are passed over. Links in folders are not followed. What cannot be
    read is left out, and said in `skipped`. The first `retrieve` reads the files; each one looks
    which of them were added, changed or removed since, and reads those. Threads may share one.

    Args:
        paths: The folders, with all that is in them, and files.
        index: An SQLite file that keeps the index, made when it is first needed, which several
            knowledge bases and processes may share; None to keep it in memory.
        passages: Number of passages a query gets at most, from 1 to 100.
        embeddings: A model that embeds passages and queries, such as `MiniLM` or an `EmbeddingModel`: the search is
            hybrid then. None for full text alone. Vectors are kept in the index, so that a passage is embedded once.

    Raises:
        InputError: A path is empty or does not exist, there is no file in them that can be read,
            as far as names and first bytes tell, or too many; `index` is there and is something
            else; or `passages` is out of its range.
        MissingExtraError: There are files that need the extra ``documents``, or `embeddings` are given and need the
            extra ``embeddings``, which is not installed.
    """

    def __init__(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        index: str | Path | None = None,
        passages: int = 5,
        embeddings: Embeddings | None = None,
    ) -> None:
        if type(passages) is not int or not 1 <= passages <= 100:
            raise InputError(f"passages: must be a whole number from 1 to 100, not {passages!r}")
        if index is not None and not str(index).strip():
            raise InputError("index: is empty; None keeps the index in memory")
        if embeddings is not None:
            need_numpy()
        self._embeddings = embeddings
        self._embedding = threading.Lock()
        self._embedded: object = None
        self._roots = roots_of([paths] if isinstance(paths, str | Path) else paths)
        self._own = {f"{Path(index).expanduser().resolve()}{end}" for end in _BESIDE_INDEX} if index else set[str]()
        self._index = PassageIndex(index)
        self._index.check()
        self._passages = passages
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()
        found = self._look()
        unreadable = dict(found.skipped)
        for path in found.files:  # until one may be read, mostly the first
            problem = _unreadable(path)
            if not problem:
                break
            unreadable[path] = problem
        else:
            raise InputError(
                f"{shorten([str(path) for path in self._roots])}: no file there that can be read"
                + (f"; left out: {_listed(unreadable)}" if unreadable else " (hidden ones don't count)")
            )
        self._skipped = found.skipped

    @property
    def skipped(self) -> Mapping[str, str]:
        """The files and folders that were left out when it last looked, by path, and why."""
        return MappingProxyType(self._skipped)

    def retrieve(self, query: str) -> Knowledge:
        """The passages that fit `query` best, the best first, each with its file and place in it.

        Any text will do. Its words are looked for, each for itself, and rare ones count for more;
        of a long one, only the rarest. Function words count where there is nothing else. With `embeddings`, passages
        without a vector are embedded first, which is told by `PassagesEmbedded` events, and those that mean what the
        query means are found, too; a passage's score then adds both, and may be negative.

        Raises:
            InputError: The query is not text, the index cannot be used, there are too many files or passages, or
                embedding takes longer than `EMBEDDING_SECONDS`: what is done is kept.
            ModelError: The embedding model cannot be asked.
            MissingExtraError: There are files that need the extra ``documents``, which is not installed.
        """
        if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"query: must be text, not {query!r:.100}")
        names = {path: name for path, (name, _) in self._refresh().items()}
        return Knowledge(
            passages=tuple(
                Passage(text=hit.passage.text, source=_source(names[hit.path], hit.passage), score=hit.score)
                for hit in self._search(query, names)
            )
        )

    def _search(self, query: str, among: Collection[str]) -> list[Hit]:
        """The passages of these files that fit a query, the best first: by words, or by words and by meaning."""
        if self._embeddings is None or not query.strip():
            return self._index.search(query, among, self._passages)
        self._embed(self._embeddings, among)
        [vector] = vectors_of([query[:EMBEDDED_QUERY_CHARS]], self._embeddings)
        return self._index.nearest(self._embeddings.identity, vector, among, self._passages, query)

    def _embed(self, embeddings: Embeddings, among: Collection[str]) -> None:
        """Embed the passages of these files that have no vector of this model yet."""
        model, began = embeddings.identity, time.monotonic()
        with self._embedding:  # threads that ask meanwhile wait for the vectors
            if self._embedded == (self._index.state(), len(among)):
                return
            if before := self._index.embed_with(model):
                log.warning("the passages were embedded with %s, and are embedded anew with %s", before, model)
            left = self._index.without_vector(among)
            total = self._index.vector_count() + len(left)
            for start in range(0, len(left), EMBEDDED_AT_ONCE):
                if time.monotonic() - began > EMBEDDING_SECONDS:
                    raise InputError(
                        f"{start:,} of {len(left):,} passages were embedded with {model} in {EMBEDDING_SECONDS:g} s; "
                        "they are kept as long as the index is (an `index` file outlasts the process): ask again to go "
                        "on, or name fewer folders or a faster model"
                    )
                texts = self._index.texts(left[start : start + EMBEDDED_AT_ONCE])
                if not texts:  # another process changed these files meanwhile
                    continue
                vectors = vectors_of(list(texts.values()), embeddings)
                if (size := total * vectors.shape[1] * 4) > MAX_VECTOR_BYTES:
                    raise InputError(
                        f"{total:,} passages with vectors of {vectors.shape[1]:,} numbers take {size:,} bytes, more "
                        f"than {MAX_VECTOR_BYTES:,}; name fewer folders, or a model with shorter vectors"
                    )
                self._index.add_vectors(model, dict(zip(texts, vectors, strict=True)))
                done = min(start + EMBEDDED_AT_ONCE, len(left))
                log.info("embedded %d of %d passages with %s", done, len(left), model)
                emit(PassagesEmbedded(model=model, done=done, total=len(left)))
            self._embedded = (self._index.state(), len(among))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine its answers: names and content of the files, which are read if they changed.

        Raises:
            InputError, MissingExtraError: As `retrieve`.
        """
        content = json.dumps(sorted(self._refresh().values()))
        return {
            "type": name_of(type(self)),
            "files": hashlib.sha256(content.encode()).hexdigest(),
            "passages": self._passages,
            **({"embeddings": self._embeddings.identity} if self._embeddings else {}),
        }

    def close(self) -> None:
        """Close the index. The knowledge base can be used again."""
        self._index.close()

    def _refresh(self) -> dict[str, tuple[str, str]]:
        """Bring the index up to date. Returns name and SHA-256 of each file in it, by path."""
        with self._lock:
            found = self._look()
            known = self._index.files()
            content: dict[str, tuple[str, str]] = {}
            passages = 0
            for path, file in found.files.items():
                before = known.get(path)
                if before and (before.size, before.mtime_ns) == (file.size, file.mtime_ns):
                    now: IndexedFile | str = before
                else:
                    now = self._read(path, before)
                if isinstance(now, str) or now.skipped:
                    found.skipped[path] = now if isinstance(now, str) else now.skipped
                    continue
                content[path] = (file.name, now.sha256)
                passages += now.passages
                if passages > MAX_PASSAGES:
                    raise InputError(
                        f"{shorten([str(path) for path in self._roots])}: more than {MAX_PASSAGES:,} passages; "
                        "name fewer folders or files"
                    )
            gone = [path for path in known if path not in found.files and is_in(Path(path), self._roots)]
            if gone:
                self._index.remove(gone)
            self._tell(found.skipped)
            return content

    def _read(self, path: str, before: IndexedFile | None) -> IndexedFile | str:
        """Take a file into the index as it is now; or say why that cannot be."""
        try:
            with open(path, "rb") as stream:
                state = os.fstat(stream.fileno())
                data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:  # this may pass without a change of the file, so the index doesn't remember it
            return f"cannot be read: {error.strerror or error}"
        if len(data) > MAX_FILE_BYTES:
            return too_large(len(data))
        settled = time.time_ns() - state.st_mtime_ns > _SETTLED_NS
        mtime_ns = state.st_mtime_ns if settled else 0
        sha256 = hashlib.sha256(data).hexdigest()
        if before and before.sha256 == sha256:
            if (before.size, before.mtime_ns) != (len(data), mtime_ns):
                self._index.touch(path, mtime_ns)
            return before
        passages, skipped = list[IndexedPassage](), ""
        try:
            passages = extract(data, path)
        except InputError as error:
            skipped = str(error)
        now = IndexedFile(len(data), mtime_ns, sha256, skipped, len(passages))
        self._index.put(path, now, passages)
        return now

    def _look(self) -> Found:
        found = look(self._roots, self._own)
        for path in found.files:
            need_extra(Path(path).suffix.lower())
        return found

    def _tell(self, skipped: dict[str, str]) -> None:
        self._skipped = skipped
        new = {path: reason for path, reason in skipped.items() if (path, reason) not in self._told}
        if new:
            self._told |= set(new.items())
            log.warning("left out of the knowledge base: %s", _listed(new))


def _unreadable(path: str) -> str:
    """Return the reason for which a file cannot be read, by its first bytes; empty if it may be readable."""
    try:
        with open(path, "rb") as stream:
            return is_foreign(stream.read(1024), path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _source(name: str, passage: IndexedPassage) -> str:
    """On one line and not too long, for it becomes a title."""
    return " ".join(f"{name}{passage.place} {passage.heading}".split())[:SOURCE_CHARS]


def _listed(skipped: Mapping[str, str]) -> str:
    return shorten([f"{path} {reason}" for path, reason in skipped.items()])
