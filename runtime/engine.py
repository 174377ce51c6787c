"""The driver: it runs a plan's nodes concurrently in asyncio tasks.

Most nodes of a wide graph become ready together, and a task for each costs more than a small
node itself. So a worker task awaits ready nodes one after another, and spare workers stand by:
a spare gets its turn only when the worker's node really suspends, and takes over what is ready.
Each calls two more, so that a thousand suspending nodes are all started within some ten turns of
the event loop. All workers together take a few milliseconds of each turn. Every node runs in a copy
of the caller's context: siblings don't see each other's context variables, and the worker's task is
nothing to remember anything by.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any

from operad.runtime.schedule import Plan, Progress

LONGEST_TURN = 0.005
"""Seconds after which workers whose nodes never suspend let the event loop breathe."""

Step = Callable[[int], Coroutine[Any, Any, None]]
"""Runs the node of that number; all its parents have finished."""


async def drive(plan: Plan, step: Step) -> None:
    """Run every node of `plan` with `step`, each as soon as its parents have finished.

    Raises:
        BaseException: What the first failing step raised, unchanged; by then the steps that were
            running have been cancelled and awaited. So too when the caller is cancelled.
    """
    await _Drive(plan, step).run()


class _Drive:
    __slots__ = (
        "_context",
        "_done",
        "_error",
        "_progress",
        "_ready",
        "_spares",
        "_step",
        "_stopped",
        "_turn_ends",
        "_workers",
    )

    def __init__(self, plan: Plan, step: Step) -> None:
        self._step = step
        self._progress = Progress(plan)
        self._ready = deque(plan.roots)
        self._context = copy_context()
        self._workers: set[asyncio.Task[None]] = set()
        self._spares = 0
        self._turn_ends = perf_counter() + LONGEST_TURN
        self._stopped = False
        self._error: BaseException | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        if not self._ready:
            return
        self._call_spare()
        try:
            await self._done
        except asyncio.CancelledError:
            await self._wind_up()
            raise
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # error -> traceback -> this frame -> error would wait for the garbage collector

    async def _wind_up(self) -> None:
        self._stop()
        while self._workers:
            try:
                await asyncio.wait(self._workers)
            except asyncio.CancelledError:
                self._stop()
        self._error = None

    def _call_spare(self) -> None:
        self._spares += 1
        worker = asyncio.get_running_loop().create_task(self._work())
        self._workers.add(worker)
        worker.add_done_callback(self._dismiss)

    def _dismiss(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not self._workers and not self._done.done():
            self._done.set_result(None)

    def _stop(self) -> None:
        self._stopped = True
        self._ready.clear()
        for worker in self._workers:
            worker.cancel()

    async def _work(self) -> None:
        self._spares -= 1
        ready, finish, step, context = self._ready, self._progress.finish, self._step, self._context
        wanted_spares = self._spares + 2
        try:
            while ready:
                if perf_counter() > self._turn_ends:
                    if self._spares:
                        return  # one that stands by goes on
                    self._spares += 1
                    await asyncio.sleep(0)
                    self._spares -= 1
                    self._turn_ends = perf_counter() + LONGEST_TURN
                    continue
                node = ready.popleft()
                while len(ready) > self._spares < wanted_spares:
                    self._call_spare()
                wanted_spares = 2
                await _Isolated(step(node), context.copy())
                if self._stopped:
                    return
                ready.extend(finish(node))
        except BaseException as error:  # noqa: BLE001 - the caller of `drive` gets it
            if not self._stopped:
                self._error = error
                self._stop()


class _Isolated:
    """Awaits a coroutine in a context of its own, within the current task."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, None], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context

    def __await__(self) -> Generator[Any, Any, None]:
        run, coroutine = self._context.run, self._coroutine
        resume: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            try:
                awaited = run(resume, value)
            except StopIteration:
                return
            finally:
                value = None  # an error kept here would hold its traceback, and that this frame
            try:
                value = yield awaited
                resume = coroutine.send
            except GeneratorExit:
                run(coroutine.close)
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                value, resume = error, coroutine.throw
            finally:
                awaited = None  # so would a future with its error
