"""The driver: it runs nodes concurrently in asyncio tasks, each as soon as another says that it may start.

Most nodes of a wide graph become ready together, and a task for each costs more than a small
node itself. So a worker task awaits ready nodes one after another, and a spare worker stands by:
it gets its turn only when the worker's node really suspends, and takes over what is ready. As long
as no node ends meanwhile, each further one calls more spares, so that a thousand nodes that wait
are all started within some fifteen turns of the event loop, while nodes that suspend for a moment are
shared by a few workers. All workers together take a few milliseconds of each turn. Every node runs
in a copy of the caller's context: siblings don't see each other's context variables, and the
worker's task is nothing to remember anything by.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import copy_context
from time import perf_counter
from typing import Any, TypeVar, cast

T = TypeVar("T")

LONGEST_TURN = 0.005
"""Seconds after which workers whose nodes never suspend let the event loop breathe."""

Step = Callable[[int], Coroutine[Any, Any, "Iterable[int] | None"]]
"""Runs the node of that number. Returns the nodes that may start now, or None when all is done."""


async def run_graph(start: Iterable[int], step: Step) -> None:
    """Run nodes with `step`: those given, then those that the steps return.

    It ends when nothing runs and nothing may start; or when a step returns None: then what still
    runs is cancelled and awaited.

    Raises:
        BaseException: What the first failing step raised, unchanged; by then the steps that were
            running have been cancelled and awaited. So too when the caller is cancelled.
    """
    ready = deque(start)
    if sys.version_info >= (3, 11):
        await _alone(ready, step)
    if ready:
        await _Drive(ready, step).run()


async def _alone(ready: deque[int], step: Step) -> None:
    """Run nodes in the caller's task for as long as there is a single one: nothing can run beside it."""
    task = cast("Any", asyncio.current_task())
    cancelled = task.cancelling()
    turn_ends = perf_counter() + LONGEST_TURN
    try:
        while len(ready) == 1:
            following = await _isolated(step(ready.popleft()), copy_context().run)
            if task.cancelling() > cancelled:
                raise asyncio.CancelledError  # the node has suppressed it
            ready.extend(following or ())
            if perf_counter() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = perf_counter() + LONGEST_TURN
    finally:
        del task  # task -> error -> traceback -> this frame -> task would wait for the garbage collector


class _Drive:
    __slots__ = (
        "_context",
        "_create_task",
        "_done",
        "_error",
        "_ready",
        "_spares",
        "_step",
        "_stopped",
        "_suspended",
        "_turn_ends",
        "_workers",
    )

    def __init__(self, ready: deque[int], step: Step) -> None:
        self._step = step
        self._ready = ready
        self._context = copy_context()
        self._workers: set[asyncio.Task[Any]] = set()
        self._spares = self._suspended = 0
        self._turn_ends = perf_counter() + LONGEST_TURN
        self._stopped = False
        self._error: BaseException | None = None
        loop = asyncio.get_running_loop()
        self._create_task = loop.create_task
        self._done: asyncio.Future[None] = loop.create_future()

    async def run(self) -> None:
        self._call_spare(clean=True)
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

    def _call_spare(self, clean: bool) -> None:
        """Start a worker. Its task copies the context that it is made in, which a node's work must not have marked."""
        self._spares += 1
        work = self._work()
        self._workers.add(self._create_task(work) if clean else self._context.run(self._create_task, work))

    def _dismiss(self, worker: asyncio.Task[Any]) -> None:
        self._workers.discard(worker)
        if not self._workers and not self._done.done():
            self._done.set_result(None)

    def _stop(self) -> None:
        self._stopped = True
        self._ready.clear()
        for worker in self._workers:
            worker.cancel()
            worker.add_done_callback(self._dismiss)  # one that had not begun cannot take its leave itself

    async def _work(self) -> None:
        self._spares -= 1
        self._suspended += 1
        ready, step, copy = self._ready, self._step, self._context.copy
        wanted_spares = self._suspended
        clean = True
        try:
            while ready:
                if perf_counter() > (turn_ends := self._turn_ends):
                    self._spares += 1
                    await asyncio.sleep(0)
                    self._spares -= 1
                    if self._turn_ends == turn_ends:  # the first of the next turn
                        self._turn_ends = perf_counter() + LONGEST_TURN
                    continue
                node = ready.popleft()
                while len(ready) > self._spares < wanted_spares:
                    self._call_spare(clean)
                wanted_spares = 1
                # The first node may have the task's own context.
                following = await (step(node) if clean else _isolated(step(node), copy().run))
                clean = False
                if following is None:
                    self._stop()
                if following is None or self._stopped:
                    return
                ready.extend(following)
                self._suspended = 0
        except BaseException as error:  # noqa: BLE001 - the caller of `run_graph` gets it
            if not self._stopped:
                self._error = error
                self._stop()
        finally:
            if not self._stopped:
                self._dismiss(cast("asyncio.Task[Any]", asyncio.current_task()))


@types.coroutine
def _isolated(coroutine: Coroutine[Any, Any, T], run: Callable[..., Any]) -> Generator[Any, Any, T]:
    """Await a coroutine in a context of its own, by that context's `run`, within the current task."""
    resume: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = run(resume, value)
        except StopIteration as end:
            return end.value
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
