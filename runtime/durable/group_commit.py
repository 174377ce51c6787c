"""Group commit: writes of several callers share one transaction."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from operad.runtime.durable.database import is_temporary
from operad.runtime.values.errors import InputError

Value = TypeVar("Value")
Result = TypeVar("Result")

MOST = 500
"""Maximum number of values in one transaction."""


@dataclass(frozen=True)
class _Entry(Generic[Value, Result]):
    """Value that waits to be written, its result, and the time of its arrival."""

    value: Value
    result: Future[Result]
    arrived: float


class GroupCommit(Generic[Value, Result]):
    """Queue of values that are written into the database in groups, by a thread of its own.

    A value is written at once if no other value is being written. Values that arrive meanwhile are written in the next
    transaction, in their order, so that no value waits for others to arrive. The thread writes and does nothing else, so
    that callers may wait for it anywhere; it ends when no value is left, so that a database that is never closed keeps no
    thread.

    Args:
        write: Function that writes values in one transaction, and returns their results. It may block.
    """

    def __init__(self, write: Callable[[Sequence[Value]], Sequence[Result]], name: str) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._ready: deque[_Entry[Value, Result]] = deque()
        self._group: Sequence[_Entry[Value, Result]] = ()
        self._is_writing = False
        self._name = name
        self._is_closed = False

    async def put(self, value: Value) -> Result:
        """Write a value, and return its result when it is committed; a cancellation takes it back if it is not written yet.

        Raises:
            Exception: This value cannot be written.
        """
        return await asyncio.wrap_future(self.put_soon(value))

    def put_soon(self, value: Value) -> Future[Result]:
        """Start to write a value, and return a future of its result, which is done when the value is committed."""
        entry = _Entry(value, Future[Result](), time.monotonic())
        # Under one lock, the thread clears `_is_writing` when nothing is ready, and an entry is added after a look at it: an
        # entry is either seen by the thread, or starts the next one. None is left without a writer.
        with self._lock:
            try:
                if self._is_closed:
                    raise RuntimeError("the queue was closed")
                if not self._is_writing:
                    threading.Thread(target=self._write_all, name=self._name).start()
            except RuntimeError as error:  # closed, or no thread can be started, because this process exits
                entry.result.set_exception(_refused(error))
            else:
                self._ready.append(entry)
                self._is_writing = True
        return entry.result

    def close(self) -> None:
        """Write what is ready, and accept no more values."""
        self._is_closed = True

    @property
    def waiting_seconds(self) -> float:
        """Seconds for which the oldest value has waited for its commit; 0 if no value waits."""
        with self._lock:
            oldest = next(iter(self._group or self._ready), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.arrived

    def _write_all(self) -> None:
        """Write groups of values until no value is ready; runs in the thread."""
        while True:
            with self._lock:
                self._group = [self._ready.popleft() for _ in range(min(MOST, len(self._ready)))]
                self._is_writing = bool(self._group)
            if not self._group:
                return
            self._write_group([entry for entry in self._group if entry.result.set_running_or_notify_cancel()])

    def _write_group(self, group: Sequence[_Entry[Value, Result]]) -> None:
        """Write a group of values in one transaction; if that fails because of a value, write each value alone."""
        if not group:  # all callers were cancelled
            return
        try:
            written = list(zip(group, self._write([entry.value for entry in group]), strict=True))
        except BaseException as error:  # noqa: BLE001 - set as the error of the values' futures
            cause = error.__cause__
            # If the database cannot be reached, each value alone would fail, too, after the same wait.
            is_unreachable = isinstance(cause, Exception) and is_temporary(cause)
            if len(group) > 1 and not is_unreachable:
                for entry in group:
                    self._write_group([entry])
                return
            for entry in group:
                entry.result.set_exception(error)
            return
        for entry, result in written:
            entry.result.set_result(result)


def _refused(error: RuntimeError) -> InputError:
    """Return the error for a value that arrives after the end of the thread."""
    refused = InputError(
        "the database was closed, or this process exits, before a run's progress was recorded; resume the run"
    )
    refused.__cause__ = error
    return refused
