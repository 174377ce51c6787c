"""Time limits that wait while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from operad.runtime.policies.policy import Timeout

T = TypeVar("T")


class Deadline:
    """A `Timeout` that runs, by the event loop's clock.

    Args:
        timeout: How long.
        expire: What to do then.

    Attributes:
        expired: Why it is over, in words; empty until then.
    """

    def __init__(self, timeout: Timeout, expire: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._expire = expire
        self._began = self._alive = self._loop.time()
        self._pauses = 0
        self._paused_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = ""
        self._look()

    def sign_of_life(self) -> None:
        """Something happened. Any thread may say so."""
        self._alive = self._loop.time()

    def pause(self) -> None:
        """Stop the clock; as often as this is called, `go_on` must be called."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._loop.time()
            self.stop()

    def go_on(self) -> None:
        """Let the clock run again."""
        self._pauses -= 1
        if not self._pauses and not self.expired:
            pause = self._loop.time() - self._paused_at
            self._began += pause
            self._alive += pause
            self._look()

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """See whether time is over, and look again when it may be."""
        run, idle, now = self._timeout.run, self._timeout.idle, self._loop.time()
        if run is not None and now >= self._began + run:
            self.expired = f"ran longer than {run:g} s"
        elif idle is not None and now >= self._alive + idle:
            self.expired = f"gave no sign of life for {idle:g} s"
        if self.expired:
            self._expire()
        elif run is not None or idle is not None:
            ends = (self._began + run if run is not None else None, self._alive + idle if idle is not None else None)
            self._timer = self._loop.call_at(min(end for end in ends if end is not None), self._look)


@contextmanager
def standing_still(deadlines: Iterable[Deadline]) -> Generator[None, None, None]:
    """Meanwhile the clocks of these stand still."""
    with ExitStack() as paused:
        for deadline in list(deadlines):
            deadline.pause()
            paused.callback(deadline.go_on)
        yield


async def within(timeout: Timeout, work: Coroutine[Any, Any, T], deadlines: list[Deadline]) -> T | Deadline:
    """Do the work in a task of its own, and cancel it when its time is over.

    Args:
        timeout: How long it may take.
        work: What to do.
        deadlines: Where the deadline is found meanwhile by whoever pauses it.

    Returns:
        What the work returned; or the deadline, which has expired. By then the work has ended.
    """
    task = asyncio.ensure_future(work)
    deadline = Deadline(timeout, task.cancel)
    deadlines.append(deadline)
    try:
        await ended(task)
    finally:
        deadlines.remove(deadline)
        deadline.stop()
    if deadline.expired:
        if not task.cancelled():
            task.exception()  # seen: that it took too long is what counts
        return deadline
    return task.result()


async def ended(task: asyncio.Future[Any]) -> None:
    """Wait until `task` has ended, whatever comes of it; cancel it when the caller is cancelled, and wait even then.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen: that the caller was cancelled is what counts
        raise cancelled
