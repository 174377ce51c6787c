"""Group commit: values that are ready together are written together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from operad.runtime.durable.database import passes
from operad.runtime.durable.threads import THREADS

Value = TypeVar("Value")


class GroupCommit(Generic[Value]):
    """Values on their way into the database.

    A value is written at once if nothing is being written. All that come meanwhile are written in the next
    transaction, in their order, so no value waits for others to come.

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
        """Have a value written, and return a future that is done when it is committed."""
        written = Future[None]()
        with self._lock:
            self._ready.append((value, written))
            self._last = written
            begins, self._is_writing = not self._is_writing, True
        if begins:
            THREADS.submit(self._write_all)
        return written

    def wait(self) -> None:
        """Wait until the values put so far are committed, or cannot be written."""
        if (last := self._last) is not None:
            wait([last])

    def _write_all(self) -> None:
        while True:
            with self._lock:
                these, self._ready = self._ready, []
                self._is_writing = bool(these)
            if not these:
                return
            self._write_these([each for each in these if each[1].set_running_or_notify_cancel()])

    def _write_these(self, these: Sequence[tuple[Value, Future[None]]]) -> None:
        if not these:  # their callers were cancelled
            return
        try:
            self._write([value for value, _ in these])
        except BaseException as error:  # noqa: BLE001 - whoever waits for the value is told
            cause = error.__cause__
            is_gone = isinstance(cause, Exception) and passes(
                cause
            )  # each value alone would be waited for as long again
            if len(these) > 1 and not is_gone:  # a value that cannot be written does not concern the others
                for each in these:
                    self._write_these([each])
                return
            for _, written in these:
                written.set_exception(error)
            return
        for _, written in these:
            written.set_result(None)
