"""Knowledge base of folders and files, with an index that is updated when they change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from operad.runtime.events import PassagesEmbedded, emit
from operad.runtime.knowledge.embeddings import Embeddings, need_numpy, vectors_of
from operad.runtime.knowledge.extract import extract, is_foreign, need_extra
from operad.runtime.knowledge.folders import MAX_FILE_BYTES, Found, find_files, is_in, roots_of, too_large
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.knowledge.passage_index import Hit, IndexedFile, IndexedPassage, PassageIndex
from operad.runtime.values.errors import InputError, shorten
from operad.runtime.values.fingerprint import name_of
from operad.runtime.values.forks import ProcessLock

MAX_PASSAGES = 200_000
"""Maximum number of passages of a knowledge base."""

MAX_VECTOR_BYTES = 2**30
"""Maximum size of the vectors of an index, in bytes: a search holds them in memory."""

EMBEDDING_SECONDS = 600.0
"""Maximum time that one `retrieve` spends on embedding passages, in seconds; the next one continues."""

EMBEDDED_AT_ONCE = 64
"""Number of passages that are embedded and stored in one batch."""

EMBEDDED_QUERY_CHARS = 4_000
"""Maximum length of an embedded query, in characters; the rest is ignored."""

SOURCE_CHARS = 300
"""Maximum length of a passage's source, in characters."""

_STABLE_AFTER_NS = 2_000_000_000
"""Age of a change, in nanoseconds, below which a file may change again with the same modification time."""

_BESIDE_INDEX = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files of an SQLite index."""

log = logging.getLogger(__name__)


class Documents:
    """Knowledge base of files: text and code, and the text of .docx, .html, .pdf, .pptx and .xlsx files.

        library = Documents("docs")
        [passage] = library.retrieve("When does my refund arrive?").passages
        print(passage.source, passage.text)
        answer = Operator("Answer from the passages.", knowledge_base=library)

    Files and folders whose names begin with a dot are ignored, and links in folders are not followed. Files that cannot
    be read are listed in `skipped`. The first `retrieve` reads all files; each later one reads those that were added or
    changed. Threads may share a knowledge base.

    Args:
        paths: Folders, which are read with their subfolders, and files.
        index: An SQLite file for the index, created on first use. Several knowledge bases and processes may share it.
            None to keep the index in memory.
        passages: Maximum number of passages for a query, from 1 to 100.
        embeddings: Model that embeds passages and queries, such as `MiniLM` or an `EmbeddingModel`, for hybrid search;
            None for full-text search alone. Vectors are kept in the index, so that each passage is embedded once.

    Raises:
        InputError: A path is empty or does not exist; no file can be read, judging by names and first bytes; there are
            too many files; `index` is not an index; or `passages` is out of range.
        MissingExtraError: A file needs the extra ``documents``, or `embeddings` need the extra ``embeddings``, which is
            not installed.
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
        self._embedding = ProcessLock()
        self._embedded: object = None
        self._roots = roots_of([paths] if isinstance(paths, str | Path) else paths)
        self._own = {f"{Path(index).expanduser().resolve()}{end}" for end in _BESIDE_INDEX} if index else set[str]()
        self._index = PassageIndex(index)
        self._index.check()
        self._passages = passages
        self._lock = ProcessLock()
        self._reported: set[tuple[str, str]] = set()
        found = self._find_files()
        unreadable = dict(found.skipped)
        for path in found.files:  # up to the first readable file
            problem = _reading_problem(path)
            if not problem:
                break
            unreadable[path] = problem
        else:
            raise InputError(
                f"{shorten([str(path) for path in self._roots])}: no file there that can be read"
                + (f"; left out: {_list_skipped(unreadable)}" if unreadable else " (hidden ones don't count)")
            )
        self._skipped = found.skipped

    @property
    def skipped(self) -> Mapping[str, str]:
        """The reasons for which files and folders were left out at the last refresh, by path."""
        return MappingProxyType(self._skipped)

    def retrieve(self, query: str) -> Knowledge:
        """Return the passages that fit a query best, best first, each with its file and its place in the file.

        The query may be any text. Its words are searched independently, and rare words have more weight; of a long
        query, only the rarest words are used. Stopwords count only if the query has no other words. With `embeddings`,
        passages without a vector are embedded first, which emits `PassagesEmbedded` events, and passages of similar
        meaning are found, too. Then the score of a passage is the sum for words and meaning, and may be negative.

        Raises:
            InputError: The query is not text, the index cannot be used, there are too many files or passages, or
                embedding takes longer than `EMBEDDING_SECONDS`; finished vectors are kept.
            ModelError: The call of the embedding model fails.
            MissingExtraError: A file needs the extra ``documents``, which is not installed.
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
        """Return the passages of some files that fit a query, best first: by words, or by words and meaning."""
        if self._embeddings is None or not query.strip():
            return self._index.search(query, among, self._passages)
        self._embed(self._embeddings, among)
        [vector] = vectors_of([query[:EMBEDDED_QUERY_CHARS]], self._embeddings)
        return self._index.nearest(self._embeddings.identity, vector, among, self._passages, query)

    def _embed(self, embeddings: Embeddings, among: Collection[str]) -> None:
        """Embed the passages of some files that have no vector of this model yet."""
        model, start_time = embeddings.identity, time.monotonic()
        with self._embedding:  # other threads wait for the vectors
            if self._embedded == (self._index.state(), len(among)):
                return
            if former_model := self._index.embed_with(model):
                log.warning("the passages were embedded with %s, and are embedded anew with %s", former_model, model)
            todo = self._index.without_vector(among)
            total = self._index.vector_count() + len(todo)
            for start in range(0, len(todo), EMBEDDED_AT_ONCE):
                if time.monotonic() - start_time > EMBEDDING_SECONDS:
                    raise InputError(
                        f"{start:,} of {len(todo):,} passages were embedded with {model} in {EMBEDDING_SECONDS:g} s; "
                        "they are kept as long as the index is (an `index` file outlasts the process): ask again to go "
                        "on, or name fewer folders or a faster model"
                    )
                texts = self._index.texts(todo[start : start + EMBEDDED_AT_ONCE])
                if not texts:  # another process changed these files meanwhile
                    continue
                vectors = vectors_of(list(texts.values()), embeddings)
                if (size := total * vectors.shape[1] * 4) > MAX_VECTOR_BYTES:
                    raise InputError(
                        f"{total:,} passages with vectors of {vectors.shape[1]:,} numbers take {size:,} bytes, more "
                        f"than {MAX_VECTOR_BYTES:,}; name fewer folders, or a model with shorter vectors"
                    )
                self._index.add_vectors(model, dict(zip(texts, vectors, strict=True)))
                done = min(start + EMBEDDED_AT_ONCE, len(todo))
                log.info("embedded %d of %d passages with %s", done, len(todo), model)
                emit(PassagesEmbedded(model=model, done=done, total=len(todo)))
            self._embedded = (self._index.state(), len(among))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the passages: names and content of the files, which are read if changed.

        Raises:
            InputError, MissingExtraError: As for `retrieve`.
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
        """Update the index, and return name and SHA-256 of each readable file, by path."""
        with self._lock:
            found = self._find_files()
            known = self._index.files()
            content: dict[str, tuple[str, str]] = {}
            passages = 0
            for path, file in found.files.items():
                indexed = known.get(path)
                if indexed and (indexed.size, indexed.mtime_ns) == (file.size, file.mtime_ns):
                    record: IndexedFile | str = indexed
                else:
                    record = self._read(path, indexed)
                if isinstance(record, str) or record.skipped:
                    found.skipped[path] = record if isinstance(record, str) else record.skipped
                    continue
                content[path] = (file.name, record.sha256)
                passages += record.passages
                if passages > MAX_PASSAGES:
                    raise InputError(
                        f"{shorten([str(path) for path in self._roots])}: more than {MAX_PASSAGES:,} passages; "
                        "name fewer folders or files"
                    )
            removed = [path for path in known if path not in found.files and is_in(Path(path), self._roots)]
            if removed:
                self._index.remove(removed)
            self._report_skipped(found.skipped)
            return content

    def _read(self, path: str, known: IndexedFile | None) -> IndexedFile | str:
        """Read a file into the index. Return its record, or the reason for which it cannot be read."""
        try:
            with open(path, "rb") as stream:
                state = os.fstat(stream.fileno())
                data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:  # may be temporary, so the index does not record it
            return f"cannot be read: {error.strerror or error}"
        if len(data) > MAX_FILE_BYTES:
            return too_large(len(data))
        is_stable = time.time_ns() - state.st_mtime_ns > _STABLE_AFTER_NS
        mtime_ns = state.st_mtime_ns if is_stable else 0
        sha256 = hashlib.sha256(data).hexdigest()
        if known and known.sha256 == sha256:
            if (known.size, known.mtime_ns) != (len(data), mtime_ns):
                self._index.touch(path, mtime_ns)
            return known
        passages, skipped = list[IndexedPassage](), ""
        try:
            passages = extract(data, path)
        except InputError as error:
            skipped = str(error)
        record = IndexedFile(len(data), mtime_ns, sha256, skipped, len(passages))
        self._index.put(path, record, passages)
        return record

    def _find_files(self) -> Found:
        """Return the files of the knowledge base.

        Raises:
            MissingExtraError: A package for reading one of them is missing.
        """
        found = find_files(self._roots, self._own)
        for path in found.files:
            need_extra(Path(path).suffix.lower())
        return found

    def _report_skipped(self, skipped: dict[str, str]) -> None:
        """Store the skipped files, and log a warning for those that are new."""
        self._skipped = skipped
        new = {path: reason for path, reason in skipped.items() if (path, reason) not in self._reported}
        if new:
            self._reported |= set(new.items())
            log.warning("left out of the knowledge base: %s", _list_skipped(new))


def _reading_problem(path: str) -> str:
    """Return the reason for which a file cannot be read, by its first bytes; empty if it may be readable."""
    try:
        with open(path, "rb") as stream:
            return is_foreign(stream.read(1024), path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _source(name: str, passage: IndexedPassage) -> str:
    """Return the source of a passage on one line of limited length, because it is used as a title."""
    return " ".join(f"{name}{passage.place} {passage.heading}".split())[:SOURCE_CHARS]


def _list_skipped(skipped: Mapping[str, str]) -> str:
    return shorten([f"{path} {reason}" for path, reason in skipped.items()])
