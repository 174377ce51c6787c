"""Group commit: writes of several callers share one transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from operad.runtime.durable.database import is_temporary
from operad.runtime.durable.threads import start_in_thread

Value = TypeVar("Value")


class GroupCommit(Generic[Value]):
    """Queue of values that are written into the database in groups.

    A value is written at once if no other value is being written. Values that arrive meanwhile are written in the next
    transaction, in their order, so that no value waits for others to arrive.

    Args:
        write: Function that writes values in one transaction. It may block.
    """

    def __init__(self, write: Callable[[Sequence[Value]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._ready: list[tuple[Value, Future[None]]] = []
        self._is_writing = False
        self._last: Future[None] | None = None

    async def put(self, value: Value) -> None:
        """Write a value, and wait until it is committed.

        Raises:
            Exception: This value cannot be written.
        """
        await asyncio.wrap_future(self.put_soon(value))

    def put_soon(self, value: Value) -> Future[None]:
        """Start to write a value, and return a future that is done when the value is committed."""
        written = Future[None]()
        with self._lock:
            self._ready.append((value, written))
            self._last = written
            must_start, self._is_writing = not self._is_writing, True
        if must_start:
            start_in_thread(self._write_all)
        return written

    def wait(self) -> None:
        """Wait until all values put so far are committed, or have failed."""
        if (last := self._last) is not None:
            wait([last])

    def _write_all(self) -> None:
        """Write groups of values until no value is ready; runs in a thread."""
        while True:
            with self._lock:
                group, self._ready = self._ready, []
                self._is_writing = bool(group)
            if not group:
                return
            self._write_group([entry for entry in group if entry[1].set_running_or_notify_cancel()])

    def _write_group(self, group: Sequence[tuple[Value, Future[None]]]) -> None:
        """Write a group of values in one transaction; if that fails because of a value, write each value alone."""
        if not group:  # all callers were cancelled
            return
        try:
            self._write([value for value, _ in group])
        except BaseException as error:  # noqa: BLE001 - set as the error of the values' futures
            cause = error.__cause__
            # If the database cannot be reached, each value alone would fail, too, after the same wait.
            is_unreachable = isinstance(cause, Exception) and is_temporary(cause)
            if len(group) > 1 and not is_unreachable:
                for entry in group:
                    self._write_group([entry])
                return
            for _, written in group:
                written.set_exception(error)
            return
        for _, written in group:
            written.set_result(None)
