"""A clock for tests: an event loop whose time jumps over every wait.

All time in a run is the event loop's: `loop.time`, `asyncio.sleep`, timeouts. So a loop that jumps
to its next timer whenever it has nothing else to do makes an hour's run one of milliseconds, with
the same order of events.
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

    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds of real time in which a server on this machine is given the chance to say something."""

_THREADS_PATIENCE = 2.0
"""Multiple of the time for which threads are waited for: they work, where a descriptor may be merely open."""


_SLICES = 20
"""Parts of a wait. On a busy machine this thread comes late out of each part, and so waits longer for others."""


class DeadlockError(OperadError):
    """Every task waits, and nothing is left that could wake one.

    Example:
        try:
            run_on_fake_clock(asyncio.Event().wait())
        except DeadlockError as error:
            print(error)
    """


class FakeClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and stands still, except that it jumps to the next timer.

        loop = FakeClockLoop()
        loop.run_until_complete(asyncio.sleep(3600))  # takes no time
        print(loop.time())  # 3600.0
        loop.close()

    It jumps when no callback is ready. Where something may still come from outside (a socket or
    pipe is being read or written, an executor is at work), it first waits for that in real time.
    A thread that was not started by `asyncio.to_thread` or `run_in_executor` is not waited for.

    Args:
        patience: Seconds of real time without a word from outside before a jump; twice as
            long while an executor is at work.

    Raises:
        DeadlockError: From whatever runs the loop: there is no timer to jump to, and nothing
            may come from outside.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._now = 0.0
        self._patience = patience
        self._jobs = 0
        super().__init__(_Selector(self._quiet))

    def time(self) -> float:
        """Seconds since the loop was made, waits included and work not."""
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]
    ) -> asyncio.Future[T]:
        """As in every event loop; the clock waits for the function."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    async def shutdown_default_executor(self, *timeout: Any, **named: Any) -> None:
        """As in every event loop; the clock waits for the threads."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor(*timeout, **named)
        finally:
            self._jobs -= 1

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _quiet(self, select: _Select, descriptors: int, seconds: float | None) -> _Selected:
        """Wait in real time for events from outside, then advance the clock."""
        if seconds is None:
            if descriptors or self._jobs:
                return select(None)
            # Some other thread may be about to call_soon_threadsafe.
            selected = select(self._patience * _THREADS_PATIENCE) if threading.active_count() > 1 else []
            if not selected:
                raise DeadlockError(f"every task waits, and nothing is left that could wake one:{_waiting(self)}")
            return selected
        if descriptors or self._jobs:
            patience = self._patience * (_THREADS_PATIENCE if self._jobs else 1)
            for _ in range(_SLICES):
                if selected := select(min(patience, seconds) / _SLICES):
                    return selected
        there = self._now + seconds
        # Later than some months a float is coarser than the loop's resolution, and the timer would never be due.
        self._now = there if there + 1e-9 > there else math.nextafter(there, math.inf)
        return []


def run_on_fake_clock(main: Coroutine[Any, Any, T], *, patience: float = PATIENCE) -> T:
    """Run a coroutine as `asyncio.run` does, but on a `FakeClockLoop` of its own: waiting takes no time.

    A test that calls it is a plain function, with pytest-asyncio, too:

        def test_a_slow_tool_is_given_up_after_a_minute():
            async def main():
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.sleep(3600), timeout=60)
                assert asyncio.get_running_loop().time() == 60

            run_on_fake_clock(main())

    Args:
        main: What to run. Tasks that it leaves behind are cancelled.
        patience: Seconds of real time without a word from outside before the clock jumps.

    Returns:
        What it returned.

    Raises:
        DeadlockError: Every task waits, and nothing is left that could wake one.
        RunningLoopError: The caller is inside a running event loop.
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
            loop.run_until_complete(_wind_up(loop))
    finally:
        loop.close()


async def _wind_up(loop: FakeClockLoop) -> None:
    """Cancel remaining tasks and close generators, as `asyncio.run` does at its end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for task in left:
        if not task.cancelled() and (error := task.exception()):
            loop.call_exception_handler({"message": "a task failed when cancelled", "exception": error, "task": task})
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def _waiting(loop: FakeClockLoop) -> str:
    lines: list[str] = []
    for task in asyncio.all_tasks(loop):
        for frame in task.get_stack(limit=1):
            code = frame.f_code
            lines.append(f"\n  {task.get_name()}, in {code.co_name} ({code.co_filename}:{frame.f_lineno})")
    return "".join(sorted(lines))


_Selected = list[tuple[selectors.SelectorKey, int]]
_Select = Callable[[float | None], _Selected]


class _Selector(selectors.DefaultSelector):
    """Polls; where that brings nothing and the loop would wait, it asks `quiet` what to do."""

    def __init__(self, quiet: Callable[[_Select, int, float | None], _Selected]) -> None:
        super().__init__()
        self._quiet = quiet

    def select(self, timeout: float | None = None) -> _Selected:
        selected = super().select(0)
        if selected or (timeout is not None and timeout <= 0):
            return selected
        others = len(self.get_map()) - 1  # one is the loop's own, by which threads wake it
        return self._quiet(super().select, others, timeout)
