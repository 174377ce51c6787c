"""Memory of operators across runs: texts by key and by meaning, in the database of runs, in separate namespaces."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pydantic import JsonValue

from operad.runtime.durable.database import retried
from operad.runtime.durable.database_names import database_url, display_name
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import of_row, storable
from operad.runtime.events import current_scope
from operad.runtime.knowledge.embeddings import Embeddings, need_numpy, vectors_of
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.knowledge.passage_index import IndexedFile, IndexedPassage, PassageIndex
from operad.runtime.policies.cache import cache_key
from operad.runtime.policies.duration import Duration, in_seconds
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.keys_in_text import name_keys
from operad.runtime.values.value import Value

MAX_TEXT = 2_000
"""Maximum length of a memory, in characters."""

MAX_KEY = 100
"""Maximum length of a key, in characters."""

MAX_NAMESPACE = 300
"""Maximum length of a namespace, in characters."""

MAX_RECALLED = 50
"""Maximum number of memories that are recalled at once."""

EMBEDDED_AT_ONCE = 64
"""Number of memories that are embedded in one call of a model."""

_INDEXES = 32
"""Number of namespaces whose search index a `Memory` keeps."""

_INPUT = re.compile(r"\{(\w+)\}")
"""Name of an input in a namespace."""


class Remembered(Value):
    """Text in a memory, with its key.

        memory = Memory("runs.sqlite", namespace="user-42")
        memory.remember("Ada travels by train.", key="travel")
        print([remembered.text for remembered in memory.recall("How does she travel?")])

    Attributes:
        updated: Time at which it was written, in seconds since the epoch.
        score: Relevance for a query; larger is better.
    """

    key: str
    text: str
    updated: float = 0.0
    score: float = 0.0


class Memory:
    """Memory across runs: texts that are remembered under a key, and recalled by key or by meaning.

        memory = Memory("runs.sqlite", namespace="user-{user}")
        answer = Operator("Answer.", long_term_memory=memory)
        memory.of(user="42").remember("Ada travels by train.", key="travel")

    An operator's prompt has the memories for its job, and its model can remember, recall and forget. No method and no
    tool reaches another namespace. Threads, event loops and processes may share a memory.

    Args:
        store: Database as for durable runs: the path of an SQLite file, or the URL of a PostgreSQL database.
        namespace: Name of this part of the store; ``{name}`` is replaced by an input of the run's job.
        embeddings: Model that embeds memories and queries, for hybrid search; None for full-text search alone.
        max_age: Time after which a memory is forgotten, in seconds or as a `timedelta`; None for no limit.
        recalled: Maximum number of memories for a query, from 1 to 50.

    Raises:
        InputError: `store` does not name a database, `namespace` is empty or too long, or `recalled` is out of range.
        MissingExtraError: The extra ``durable``, or ``embeddings`` for `embeddings`, is not installed.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        namespace: str,
        embeddings: Embeddings | None = None,
        max_age: Duration | None = None,
        recalled: int = 5,
    ) -> None:
        if not 1 <= recalled <= MAX_RECALLED:
            raise InputError(f"recalled: must be a whole number from 1 to {MAX_RECALLED}, not {recalled!r}")
        if not namespace.strip() or len(namespace) > MAX_NAMESPACE:
            raise InputError(f"namespace: must have from 1 to {MAX_NAMESPACE} characters, such as 'user-42'")
        if re.search("[{}]", _INPUT.sub("", namespace)):  # as plain text, all users would share one namespace
            raise InputError(
                f"namespace: {namespace!r} has braces around something that is not the name of an input, which has "
                "letters, digits and underscores only, as in 'user-{user}'"
            )
        if embeddings is not None:
            need_numpy()
        self.namespace = storable(namespace)
        self._max_age = _seconds(max_age)
        self._recalled = recalled
        self._shared = _Shared(store, embeddings)

    def of(self, **inputs: str | int) -> Memory:
        """Return the memory with values for the names in its namespace, for use outside of runs.

        Raises:
            InputError: A name has no value, or a value is neither text nor a whole number.
        """
        bound = Memory.__new__(Memory)
        vars(bound).update(vars(self), namespace=_filled(self.namespace, inputs))
        return bound

    def remember(self, text: str, key: str = "", *, max_age: Duration | None = None) -> str:
        """Keep a text, in place of one with the same key, and return the key.

        Args:
            text: The text, at most 2,000 characters.
            key: Name of the memory; by default a hash of the text.
            max_age: Time after which it is forgotten; by default that of the memory.

        Raises:
            InputError: The text is empty, too long or contains a key; or the namespace is full.
        """
        text, key = storable(text).strip(), _key(key)
        if not text or len(text) > MAX_TEXT:
            raise InputError(f"a memory has from 1 to {MAX_TEXT:,} characters, not {len(text):,}: shorten it")
        if len(key) > MAX_KEY:
            raise InputError(f"the key of a memory has at most {MAX_KEY} characters, not {len(key)}")
        if name_keys(f"{key}\n{text}").names:
            raise InputError("the text contains a key or a password, which is not remembered: leave it out")
        key, now = key or cache_key(text)[:16], time.time()
        age = self._max_age if max_age is None else _seconds(max_age)
        self._shared.table.put(MemoryRow(self._namespace(), key, text, now, now + age if age else 0.0))
        return key

    def get(self, key: str) -> Remembered | None:
        """Return the memory with a key; None if there is none, or it has expired."""
        rows = self._shared.table.read(self._namespace(), time.time(), [_key(key)])
        return _remembered(rows[0]) if rows else None

    def recall(self, query: str, most: int | None = None) -> list[Remembered]:
        """Return the memories that fit a query best, best first: by words, and by meaning with `embeddings`.

        Raises:
            ModelError: The call of the embedding model fails.
        """
        most = self._recalled if most is None else max(1, min(most, MAX_RECALLED))
        return self._shared.index(self._namespace()).search(storable(query), most)

    def entries(self) -> list[Remembered]:
        """Return all memories of the namespace, the newest first."""
        rows = self._shared.table.read(self._namespace(), time.time())
        return [_remembered(row) for row in sorted(rows, key=lambda row: -row.updated)]

    def forget(self, *keys: str) -> None:
        """Delete memories.

        Raises:
            InputError: There is no memory with one of the keys, and nothing is deleted.
        """
        namespace, keys = self._namespace(), tuple(map(_key, keys))
        known = list(self._shared.table.stamps(namespace, time.time()))
        if unknown := [key for key in keys if key not in known]:
            told = ", ".join(f"{key!r}{did_you_mean(key, known)}" for key in unknown)
            raise InputError(f"nothing is remembered under {told}; there is {shorten(known) or 'nothing'}")
        self._shared.table.delete(namespace, keys)

    async def aremember(self, text: str, key: str = "", *, max_age: Duration | None = None) -> str:
        """Keep a text, as `remember` does."""
        return await asyncio.to_thread(partial(self.remember, text, key, max_age=max_age))

    async def aget(self, key: str) -> Remembered | None:
        """Return the memory with a key, as `get` does."""
        return await asyncio.to_thread(self.get, key)

    async def arecall(self, query: str, most: int | None = None) -> list[Remembered]:
        """Return the memories that fit a query best, as `recall` does."""
        return await asyncio.to_thread(self.recall, query, most)

    async def aforget(self, *keys: str) -> None:
        """Delete memories, as `forget` does."""
        await asyncio.to_thread(self.forget, *keys)

    def retrieve(self, query: str) -> Knowledge:
        """Return the memories that fit a query as passages, so that a memory can be a knowledge base."""
        found = self.recall(query)
        return Knowledge(
            passages=tuple(Passage(text=each.text, source=f"memory: {each.key}", score=each.score) for each in found)
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools with which a model remembers, recalls and forgets, in this namespace alone."""
        tools = _MemoryTools(self)
        return (Tool.of(tools.remember), Tool.of(tools.recall), Tool.of(tools.forget))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine what is recalled: the namespace and all of its texts.

        Without a run that gives the inputs of the namespace, there are no texts.
        """
        is_bound = current_scope() is not None or not _INPUT.search(self.namespace)
        texts = sorted((each.key, each.text) for each in self.entries()) if is_bound else []
        embeddings = self._shared.embeddings
        return {
            "namespace": self._namespace() if is_bound else self.namespace,
            "texts": sha256(repr(texts).encode()).hexdigest(),
            "recalled": self._recalled,
            "embeddings": embeddings.identity if embeddings else "",
        }

    def close(self) -> None:
        """Close the database. The memory can be used again."""
        self._shared.close()

    def _namespace(self) -> str:
        """Return the namespace, with inputs of the current run."""
        if not _INPUT.search(self.namespace):
            return self.namespace
        scope = current_scope()
        if scope is None:
            raise InputError(
                f"the namespace {self.namespace!r} has names of inputs, and no run is in progress here: use memory.of(…)"
            )
        return _filled(self.namespace, scope.run.root.job.inputs)


class _MemoryTools:
    """Functions of the tools for a memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def remember(self, text: str, key: str = "") -> str:
        """Keep a fact for later conversations, such as a preference of the user; not keys or passwords.

        Args:
            text: One fact, in a sentence that is clear without this conversation.
            key: Short name. A fact under the same name is replaced.
        """
        return f"remembered under {self._memory.remember(text, key)}"

    def recall(self, query: str) -> list[dict[str, str]]:
        """Find facts of earlier conversations, by words, by meaning or by their key.

        Args:
            query: What to look for.
        """
        exact = self._memory.get(query)
        found = [*([exact] if exact else []), *self._memory.recall(query)]
        return list({each.key: {"key": each.key, "text": each.text} for each in found}.values())

    def forget(self, key: str) -> str:
        """Delete a fact that is wrong, or that the user wants to be forgotten.

        Args:
            key: Key of the fact.
        """
        self._memory.forget(key)
        return f"forgot {key}"


class _Shared:
    """Database of a memory, opened on first use, and search indexes of its namespaces."""

    def __init__(self, store: str | Path, embeddings: Embeddings | None) -> None:
        self.embeddings = embeddings
        self._url = database_url(store)
        self._lock = ProcessLock()
        self._store: Store | None = None
        self._indexes: dict[str, _Index] = {}

    def __repr__(self) -> str:
        return f"<memories in {display_name(self._url)}>"

    @property
    def table(self) -> MemoryTable:
        """The table of memories."""
        with self._lock:
            self._store = self._store or Store(self._url)
            return MemoryTable(self._store)

    def index(self, namespace: str) -> _Index:
        """Return the search index of a namespace; those that were used last are kept."""
        with self._lock:
            index = self._indexes.pop(namespace, None) or _Index(self.table, namespace, self.embeddings)
            self._indexes[namespace] = index
            for oldest in list(self._indexes)[:-_INDEXES]:
                del self._indexes[oldest]
            return index

    def close(self) -> None:
        """Close the database and drop the indexes."""
        with self._lock:
            self._indexes.clear()
            if self._store:
                self._store.close()
            self._store = None


class _Index:
    """Search index of a namespace, in memory; before each search, it takes over what changed in the table."""

    def __init__(self, table: MemoryTable, namespace: str, embeddings: Embeddings | None) -> None:
        self._table, self._namespace, self._embeddings = table, namespace, embeddings
        self._lock = ProcessLock()
        self._passages = PassageIndex()
        self._stamps: Mapping[str, float] = {}

    def search(self, query: str, most: int) -> list[Remembered]:
        """Return the memories that fit a query best, best first."""
        with self._lock:
            stamps = self._refresh()
            if self._embeddings is None or not query.strip():
                hits = self._passages.search(query, stamps, most)
            else:
                [vector] = vectors_of([query[:MAX_TEXT]], self._embeddings)
                hits = self._passages.nearest(self._embeddings.identity, vector, stamps, most, query)
        return [
            Remembered(key=hit.path, text=hit.passage.text, updated=stamps[hit.path], score=hit.score) for hit in hits
        ]

    def _refresh(self) -> Mapping[str, float]:
        """Take over new, changed and deleted memories; return the times of all, by key."""
        now = time.time()
        stamps = self._table.stamps(self._namespace, now)
        self._passages.remove(self._stamps.keys() - stamps.keys())
        changed = [key for key, stamp in stamps.items() if self._stamps.get(key) != stamp]
        rows = self._table.read(self._namespace, now, changed) if changed else []
        vectors = self._vectors(rows, self._embeddings) if self._embeddings else {}
        for row in rows:
            self._passages.put(row.key, IndexedFile(len(row.text), 0, ""), [IndexedPassage(row.text)])
        if self._embeddings:
            self._passages.embed_with(self._embeddings.identity)
            texts = self._passages.texts(self._passages.without_vector(stamps))
            self._passages.add_vectors(
                self._embeddings.identity, {number: vectors[text] for number, text in texts.items() if text in vectors}
            )
        self._stamps = stamps
        return stamps

    def _vectors(self, rows: Sequence[MemoryRow], embeddings: Embeddings) -> dict[str, Any]:
        """Return the vector of each text: that of the table, or a new one, which is written there."""
        np, model = need_numpy(), embeddings.identity
        vectors = {row.text: np.frombuffer(row.vector, "<f4") for row in rows if row.model == model and row.vector}
        rest = [row for row in rows if row.text not in vectors]
        for start in range(0, len(rest), EMBEDDED_AT_ONCE):
            part = rest[start : start + EMBEDDED_AT_ONCE]
            for row, vector in zip(part, vectors_of([row.text for row in part], embeddings), strict=True):
                vectors[row.text] = vector
                self._table.put_vector(row, model, vector.astype("<f4").tobytes())
        return vectors


def _key(key: str) -> str:
    """Return a key as it is stored: on one line."""
    return " ".join(storable(key).split())


def _remembered(row: MemoryRow) -> Remembered:
    return Remembered(key=row.key, text=row.text, updated=row.updated)


def _seconds(duration: Duration | None) -> float:
    """Return a duration in seconds; 0 for None."""
    seconds = in_seconds(duration)
    if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
        raise InputError(f"max_age: must be a positive number of seconds or a timedelta, not {duration!r}")
    return cast("float", seconds or 0.0)


def _filled(namespace: str, inputs: Mapping[str, Any]) -> str:
    """Return a namespace with values in place of the names of inputs.

    In a value, everything but letters and digits is escaped, so that no two combinations of values give one namespace.
    """

    def value(match: re.Match[str]) -> str:
        given = inputs.get(match[1])
        fits = isinstance(given, str) or (type(given) is int and given.bit_length() <= MAX_NAMESPACE * 4)
        if not fits or not str(given).strip():
            raise InputError(
                f"the namespace {namespace!r} needs the input {match[1]!r}, as text or a whole number"
                f"{did_you_mean(match[1], inputs)}"
            )
        return re.sub(r"[-_.~]", lambda each: f"%{ord(each[0]):02X}", quote(storable(str(given)), safe=""))

    filled = _INPUT.sub(value, namespace)
    if len(filled) > MAX_NAMESPACE:
        raise InputError(f"the namespace {filled[:50]!r}… has more than {MAX_NAMESPACE} characters")
    return filled


MAX_MEMORIES = 10_000
"""Maximum number of memories of a namespace."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Row of a memory.

    Attributes:
        updated: Time at which it was written, in seconds since the epoch.
        expires: Time from which it is not read any more; 0 for none.
        model: Name of the model of the vector; empty without one.
        vector: Unit vector of the text, as numbers of four bytes.
    """

    namespace: str
    key: str
    text: str
    updated: float = 0.0
    expires: float = 0.0
    model: str = ""
    vector: bytes = b""


class MemoryTable:
    """Table of the memories of all namespaces. Each method is one transaction, and may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self.database = store.database
        self._table = store.memories

    def stamps(self, namespace: str, now: float) -> Mapping[str, float]:
        """Return the times at which the memories of a namespace that have not expired were written, by key."""
        table = self._table
        query = self.database.sa.select(table.c.key, table.c.updated).where(self._alive(namespace, now))
        return {row[0]: row[1] for row in self.database.rows(query)}

    def read(self, namespace: str, now: float, keys: Collection[str] | None = None) -> list[MemoryRow]:
        """Return the memories that have not expired, with these keys or all."""
        query = self.database.sa.select(self._table).where(self._alive(namespace, now))
        query = query if keys is None else query.where(self._table.c.key.in_(keys))
        return [of_row(MemoryRow, row._mapping) for row in self.database.rows(query)]

    @retried
    def put(self, row: MemoryRow) -> None:
        """Write a memory, in place of one with its key. Expired memories of all namespaces are deleted.

        Raises:
            InputError: The namespace has `MAX_MEMORIES` others.
        """
        sa, table = self.database.sa, self._table
        values = {name: getattr(row, name) for name in MemoryRow.__dataclass_fields__}
        of_namespace = table.c.namespace == row.namespace
        expired = sa.and_(table.c.expires > 0, table.c.expires <= row.updated)
        try:
            with self.database.engine.begin() as connection:
                connection.execute(sa.delete(table).where(expired | sa.and_(of_namespace, table.c.key == row.key)))
                if connection.execute(sa.select(sa.func.count()).where(of_namespace)).scalar() >= MAX_MEMORIES:
                    raise InputError(
                        f"the memory {row.namespace!r} has {MAX_MEMORIES:,} entries, which is the maximum; forget some"
                    )
                connection.execute(sa.insert(table).values(values))
        except sa.exc.IntegrityError:  # another process has just written a memory with this key
            self.put(row)

    def put_vector(self, row: MemoryRow, model: str, vector: bytes) -> None:
        """Write the vector of a memory, unless its text has changed."""
        table = self._table
        same = self.database.sa.and_(
            table.c.namespace == row.namespace, table.c.key == row.key, table.c.updated == row.updated
        )
        self.database.change(self.database.sa.update(table).where(same).values(model=model, vector=vector))

    def delete(self, namespace: str, keys: Collection[str]) -> None:
        """Delete the memories with these keys."""
        table = self._table
        self.database.change(
            self.database.sa.delete(table).where(table.c.namespace == namespace, table.c.key.in_(keys))
        )

    def _alive(self, namespace: str, now: float) -> Any:
        table = self._table
        return self.database.sa.and_(table.c.namespace == namespace, (table.c.expires == 0) | (table.c.expires > now))
