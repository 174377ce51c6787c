"""Content-addressed cache of answers: in this process, or in an SQLite file that several processes share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from operad.runtime.policies.duration import Duration, in_seconds
from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.fingerprint import fingerprint
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.sqlite_file import FileKind, SqliteFile

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x6F706164
"""Application id that marks an SQLite file as a cache: "opad"."""

_CACHE = FileKind(
    name="a cache",
    application_id=APPLICATION_ID,
    version=1,
    tables=(
        "CREATE TABLE IF NOT EXISTS answers "
        "(key TEXT PRIMARY KEY, stored REAL NOT NULL, message TEXT NOT NULL) WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS answers_by_age ON answers (stored)",
    ),
)


def cache_key(*parts: object) -> str:
    """Return the key of a result that depends on these parts alone: the hexadecimal SHA-256 of their canonical JSON.

    Parts are JSON values and objects with a `fingerprint`. The content of files is read: call the function in a thread
    if files may be large.

    Raises:
        InputError: A part has no JSON form, or a file cannot be read.
    """
    text = json.dumps(fingerprint(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Cache of messages by key, limited in age and number.

        cache = Cache("said.db", max_age=timedelta(days=1))
        facts = Operator("List what the text claims.", policy=Policy(cache=cache))

    Threads and event loops may share a cache; processes may share a file. A message is kept unchanged, with the id of
    its job and its usage.

    Args:
        path: An SQLite file, created on first use; None to keep messages in memory.
        max_age: Seconds, or a `timedelta`, after which a message is forgotten, by the system's clock; None for never.
        max_entries: Maximum number of messages. Beyond it, a cache in memory drops the least recently used message, and
            a file drops the oldest ones, at intervals, so that it may hold a sixteenth more for a while.

    Raises:
        InvalidError: `max_age` is not above 0, or `max_entries` is below 1.
    """

    def __init__(
        self, path: str | Path | None = None, *, max_age: Duration | None = None, max_entries: int = 10_000
    ) -> None:
        issues: list[Issue] = []
        seconds: float | None = in_seconds(max_age)
        if seconds is not None and not seconds > 0:
            issues.append(Issue("cache", f"must be above 0 seconds, or None, not {max_age!r}", "Cache.max_age"))
        if max_entries < 1:
            issues.append(Issue("cache", f"must be at least 1, not {max_entries!r}", "Cache.max_entries"))
        if issues:
            raise InvalidError("cache", issues)
        self._memory = _Memory(seconds, max_entries) if path is None else None
        self._file = None if path is None else _File(path, seconds, max_entries)

    async def get(self, key: str) -> WorkflowMessage | None:
        """Return the message with this key; None if there is no readable and recent one.

        Raises:
            InputError: The file cannot be used.
        """
        if self._memory:
            return self._memory.get(key)
        assert self._file  # noqa: S101 - it is one or the other
        return await asyncio.to_thread(self._file.get, key)

    async def put(self, key: str, message: WorkflowMessage) -> bool:
        """Keep a message, in place of an earlier one with this key.

        Returns:
            True if the message is kept. A file keeps only messages that it can restore exactly, so a message whose
            outputs are not plain JSON values is not kept.

        Raises:
            InputError: The file cannot be used.
        """
        if self._memory:
            return self._memory.put(key, message)
        assert self._file  # noqa: S101 - it is one or the other
        return await asyncio.to_thread(self._file.put, key, message)

    def clear(self) -> None:
        """Forget all messages, for example after the code of an operator was changed. May block.

        Raises:
            InputError: The file cannot be used.
        """
        (self._memory or cast("_File", self._file)).clear()

    def close(self) -> None:
        """Close the file. The cache can be used again."""
        if self._file:
            self._file.close()


class _Memory:
    """Cache in memory; the order of the entries is that of their last use."""

    def __init__(self, max_age: float | None, max_entries: int) -> None:
        self._max_age = max_age
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, WorkflowMessage]] = OrderedDict()

    def get(self, key: str) -> WorkflowMessage | None:
        with self._lock:
            if key not in self._entries:
                return None
            stored, message = self._entries[key]
            if _is_expired(stored, self._max_age):
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return message.own()  # the caller of a run may change its result

    def put(self, key: str, message: WorkflowMessage) -> bool:
        message = message.own()
        with self._lock:
            self._entries[key] = (time.time(), message)
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
            return True

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


class _File:
    """Cache in an SQLite file."""

    def __init__(self, path: str | Path, max_age: float | None, max_entries: int) -> None:
        self._file = SqliteFile(path, _CACHE)
        self._max_age = max_age
        self._max_entries = max_entries
        self._puts = 0

    def get(self, key: str) -> WorkflowMessage | None:
        with self._file.connection() as connection:
            row = connection.execute("SELECT stored, message FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None or _is_expired(row[0], self._max_age):
            return None
        try:
            return WorkflowMessage.model_validate_json(row[1])
        except ValidationError:  # perhaps written by another release; the next `put` replaces it
            return None

    def put(self, key: str, message: WorkflowMessage) -> bool:
        text = _lossless_json(message)
        if text is None:
            return False
        with self._file.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, time.time(), text))
            if self._puts % max(1, self._max_entries // 16) == 0:
                self._remove_old(connection)
            self._puts += 1
        return True

    def clear(self) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM answers")

    def close(self) -> None:
        self._file.close()

    def _remove_old(self, connection: sqlite3.Connection) -> None:
        """Remove expired messages, and the oldest ones beyond the maximum number."""
        if self._max_age is not None:
            connection.execute("DELETE FROM answers WHERE stored < ?", (time.time() - self._max_age,))
        connection.execute(
            "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY stored DESC LIMIT -1 OFFSET ?)",
            (self._max_entries,),
        )


def _is_expired(stored: float, max_age: float | None) -> bool:
    return max_age is not None and time.time() - stored > max_age


def _lossless_json(message: WorkflowMessage) -> str | None:
    """Return a message as JSON; None if it cannot be restored exactly from that."""
    try:
        text = message.model_dump_json()
        restored = WorkflowMessage.model_validate_json(text)
    except (ValueError, RecursionError):
        return None
    # `==` does not distinguish an enum from its text, nor True from 1
    return text if repr(restored) == repr(message) else None
