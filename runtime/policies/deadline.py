"""Time limits that pause while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from operad.runtime.policies.policy import Timeout

T = TypeVar("T")


class Deadline:
    """A running `Timeout`, by the event loop's clock.

    Args:
        expire: Function to call when a limit is exceeded; it returns False if the work has ended already.

    Attributes:
        expired: Description of the exceeded limit; empty until then.
    """

    def __init__(self, timeout: Timeout, expire: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._expire = expire
        self._began = self._last_sign = self._loop.time()
        self._pauses = 0
        self._paused_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = ""
        self._check_limits()

    def sign_of_life(self) -> None:
        """Restart the idle timer; callable from any thread."""
        self._last_sign = self._loop.time()

    def pause(self) -> None:
        """Pause the clock. Pauses nest: the clock resumes after as many calls of `go_on`."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._loop.time()
            self.stop()

    def go_on(self) -> None:
        """Resume the clock."""
        self._pauses -= 1
        if not self._pauses and not self.expired:
            pause = self._loop.time() - self._paused_at
            self._began += pause
            self._last_sign += pause
            self._check_limits()

    def stop(self) -> None:
        """Stop checking the limits."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _check_limits(self) -> None:
        """Check the limits, and schedule the next check."""
        run, idle, now = self._timeout.run, self._timeout.idle, self._loop.time()
        exceeded = ""
        if run is not None and now >= self._began + run:
            exceeded = f"ran longer than {run:g} s"
        elif idle is not None and now >= self._last_sign + idle:
            exceeded = f"was idle for {idle:g} s"
        if exceeded:
            self.expired = exceeded if self._expire() else ""
        elif run is not None or idle is not None:
            limits = (
                self._began + run if run is not None else None,
                self._last_sign + idle if idle is not None else None,
            )
            self._timer = self._loop.call_at(min(end for end in limits if end is not None), self._check_limits)


@contextmanager
def paused_deadlines(deadlines: Iterable[Deadline]) -> Generator[None, None, None]:
    """Pause the clocks of these deadlines inside this context manager."""
    with ExitStack() as paused:
        for deadline in list(deadlines):
            deadline.pause()
            paused.callback(deadline.go_on)
        yield


async def within(timeout: Timeout, work: Coroutine[Any, Any, T], deadlines: list[Deadline]) -> T | Deadline:
    """Run a coroutine in a task of its own, and cancel it when a time limit is exceeded.

    Args:
        deadlines: List that contains the deadline while the coroutine runs, so that others can pause it.

    Returns:
        The result of the coroutine; or the deadline, if it has expired. The coroutine has ended by then.
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
            task.exception()  # retrieved and ignored: the timeout is reported instead
        return deadline
    return task.result()


async def ended(task: asyncio.Future[Any]) -> None:
    """Wait until a task has ended, with any outcome. If the caller is cancelled, cancel the task and wait for its end.

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
            task.exception()  # retrieved and ignored: the cancellation is raised instead
        raise cancelled
