"""Fake clock for tests: an event loop whose time jumps over every wait.

All times in a run are those of the event loop: `loop.time`, `asyncio.sleep`, timeouts. On a loop that jumps to its
next timer whenever it has nothing else to do, a run of an hour takes milliseconds, with the same order of events.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from operad.runtime.values.errors import OperadError, RunningLoopError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import TypeVarTuple

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds of real time to wait for data from a server on this machine before the clock jumps."""

_THREADS_FACTOR = 2.0
"""Factor of the time to wait while threads work: a thread will return a result, a descriptor may just be open."""


_SLICES = 20
"""Number of parts of a wait. On a busy machine each part takes longer, which gives other threads and processes time."""


class DeadlockError(OperadError):
    """Every task waits, and nothing is left that could wake one.

    Example:
        try:
            run_on_fake_clock(asyncio.Event().wait())
        except DeadlockError as error:
            print(error)
    """


class FakeClockLoop(asyncio.SelectorEventLoop):
    """Event loop whose time starts at 0 and only jumps from timer to timer.

        loop = FakeClockLoop()
        loop.run_until_complete(asyncio.sleep(3600))  # takes no time
        print(loop.time())  # 3600.0
        loop.close()

    The loop jumps when no callback is ready. If data may arrive from outside (a socket or pipe is read or written, or
    an executor is running a function), it first waits for them in real time. It does not wait for threads that were
    not started by `asyncio.to_thread` or `run_in_executor`.

    Args:
        patience: Seconds of real time without data from outside before a jump; twice as long while an executor works.

    Raises:
        DeadlockError: While the loop runs: there is no timer to jump to, and no data can arrive from outside.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._now = 0.0
        self._patience = patience
        self._jobs = 0
        super().__init__(_JumpingSelector(self._wait_or_jump))

    def time(self) -> float:
        """Return the seconds since the loop was created, counting only time that tasks waited."""
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call a function in an executor, as any event loop does; the clock waits for the function."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    async def shutdown_default_executor(self, *timeout: Any, **named: Any) -> None:
        """Shut down the default executor, as any event loop does; the clock waits for its threads."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor(*timeout, **named)
        finally:
            self._jobs -= 1

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _wait_or_jump(self, select: _Select, descriptors: int, seconds: float | None) -> _Selected:
        """Return I/O events that arrive within the patience of the loop; if there are none, advance the clock.

        Args:
            select: Function that waits for I/O events, for a number of seconds of real time.
            descriptors: Number of sockets and pipes that are read or written.
            seconds: Seconds until the next timer; None if there is no timer.
        """
        if seconds is None:
            if descriptors or self._jobs:
                return select(None)
            # Another thread may be about to use call_soon_threadsafe.
            selected = select(self._patience * _THREADS_FACTOR) if threading.active_count() > 1 else []
            if not selected:
                raise DeadlockError(f"every task waits, and nothing is left that could wake one:{_waiting_tasks(self)}")
            return selected
        if descriptors or self._jobs:
            patience = self._patience * (_THREADS_FACTOR if self._jobs else 1)
            for _ in range(_SLICES):
                if selected := select(min(patience, seconds) / _SLICES):
                    return selected
        target = self._now + seconds
        # After some months, a float is coarser than the resolution of the loop, and the timer would never be due.
        self._now = target if target + 1e-9 > target else math.nextafter(target, math.inf)
        return []


def run_on_fake_clock(main: Coroutine[Any, Any, T], *, patience: float = PATIENCE) -> T:
    """Run a coroutine as `asyncio.run` does, but on a new `FakeClockLoop`, on which waiting takes no time.

    A test that calls this function is not a coroutine function, also with pytest-asyncio:

        def test_a_slow_tool_is_given_up_after_a_minute():
            async def main():
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.sleep(3600), timeout=60)
                assert asyncio.get_running_loop().time() == 60

            run_on_fake_clock(main())

    Args:
        main: The coroutine. Tasks that it leaves behind are cancelled.
        patience: Seconds of real time without data from outside before the clock jumps.

    Returns:
        The result of the coroutine.

    Raises:
        DeadlockError: Every task waits, and there is no timer or data that could wake one.
        RunningLoopError: An event loop is running in the calling thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        main.close()
        raise RunningLoopError("an event loop is running here: call run_on_fake_clock from a plain function")
    loop = FakeClockLoop(patience)
    try:
        try:
            return loop.run_until_complete(main)
        finally:
            loop.run_until_complete(_cancel_remaining(loop))
    finally:
        loop.close()


async def _cancel_remaining(loop: FakeClockLoop) -> None:
    """Cancel the remaining tasks and close generators, as `asyncio.run` does at its end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for task in left:
        if not task.cancelled() and (error := task.exception()):
            loop.call_exception_handler({"message": "a task failed when cancelled", "exception": error, "task": task})
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def _waiting_tasks(loop: FakeClockLoop) -> str:
    """Return the names of all tasks and the lines at which they wait, for an error."""
    lines: list[str] = []
    for task in asyncio.all_tasks(loop):
        for frame in task.get_stack(limit=1):
            code = frame.f_code
            lines.append(f"\n  {task.get_name()}, in {code.co_name} ({code.co_filename}:{frame.f_lineno})")
    return "".join(sorted(lines))


_Selected = list[tuple[selectors.SelectorKey, int]]
_Select = Callable[[float | None], _Selected]


class _JumpingSelector(selectors.DefaultSelector):
    """Selector that calls `wait_or_jump` instead of waiting when no I/O event is ready."""

    def __init__(self, wait_or_jump: Callable[[_Select, int, float | None], _Selected]) -> None:
        super().__init__()
        self._wait_or_jump = wait_or_jump

    def select(self, timeout: float | None = None) -> _Selected:
        selected = super().select(0)
        if selected or (timeout is not None and timeout <= 0):
            return selected
        descriptors = len(self.get_map()) - 1  # without the loop's own descriptor, through which threads wake it
        return self._wait_or_jump(super().select, descriptors, timeout)
