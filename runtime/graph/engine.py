"""Built-in engine: runs nodes concurrently in asyncio tasks.

Most nodes of a wide graph become ready together, and a task per node would cost more than a small node
itself. So a worker task awaits ready nodes one after another, and a spare worker stands by. The spare gets its
turn only when the worker's node suspends, and takes over the ready nodes. As long as no node ends, each further
worker starts more spares: a thousand waiting nodes are all started within about fifteen turns of the event loop,
while nodes that suspend only briefly are shared by a few workers. All workers together use a few milliseconds of
each turn.

Every node runs in a copy of the caller's context, so siblings do not see each other's context variables. Nodes
share worker tasks, so a task does not identify a node.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextvars import copy_context
from time import perf_counter
from typing import Any, TypeVar, cast

T = TypeVar("T")

LONGEST_TURN = 0.005
"""Seconds after which workers whose nodes never suspend let other tasks of the event loop run."""

Step = Callable[[int], Coroutine[Any, Any, "Iterable[int] | None"]]
"""Runs the node with the given number. Returns the nodes that may start now, or None to end the run."""

Engine = Callable[[Iterable[int], Step], Awaitable[None]]
"""Function that runs nodes of a plan: it takes the nodes to start with and the step that runs a node."""


async def run_graph(start: Iterable[int], step: Step) -> None:
    """Run the nodes in `start` with `step`, then the nodes that the steps return.

    The run ends when no node runs and none may start, or when a step returns None. In the second case, steps that
    still run are cancelled and awaited.

    Raises:
        BaseException: The error of the first step that failed, unchanged. Running steps have been cancelled and
            awaited by then, as they are when the caller is cancelled.
    """
    ready = deque(start)
    if len(ready) == 1:
        # As long as only one node is ready, it runs in the caller's task, because no other node can run beside it.
        task: Any = asyncio.current_task()
        cancelled = task.cancelling()
        turn_ends = perf_counter() + LONGEST_TURN
        try:
            while len(ready) == 1:
                following = await _in_context(step(ready.popleft()), copy_context().run)
                if task.cancelling() > cancelled:
                    raise asyncio.CancelledError  # the node suppressed the caller's cancellation
                ready.extend(following or ())
                if ready and perf_counter() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = perf_counter() + LONGEST_TURN
        finally:
            del task  # task -> error -> traceback -> this frame -> task would wait for the garbage collector
    if ready:
        await _WorkerPool(ready, step).run()


class _WorkerPool:
    """Worker tasks that run the nodes of one graph concurrently.

    Args:
        ready: Nodes that may start.
    """

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
        """Run all nodes; raise the error of the first step that failed."""
        self._start_spare(clean=True)
        try:
            await self._done
        except asyncio.CancelledError:
            await self._cancel_workers()
            raise
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # error -> traceback -> this frame -> error would wait for the garbage collector

    async def _cancel_workers(self) -> None:
        """Cancel all workers and wait until they have ended."""
        self._stop()
        while self._workers:
            try:
                await asyncio.wait(self._workers)
            except asyncio.CancelledError:
                self._stop()
        self._error = None

    def _start_spare(self, clean: bool) -> None:
        """Start a spare worker.

        Args:
            clean: True if no node has changed the current context, which the task of the worker copies. Otherwise
                the task copies the context of the caller of the pool.
        """
        self._spares += 1
        work = self._work()
        self._workers.add(self._create_task(work) if clean else self._context.run(self._create_task, work))

    def _remove(self, worker: asyncio.Task[Any]) -> None:
        """Remove a worker that ends; the last one ends the run."""
        self._workers.discard(worker)
        if not self._workers and not self._done.done():
            self._done.set_result(None)

    def _stop(self) -> None:
        """Start no more nodes, and cancel all workers."""
        self._stopped = True
        self._ready.clear()
        for worker in self._workers:
            worker.cancel()
            worker.add_done_callback(self._remove)  # a cancelled task that never started cannot remove itself

    async def _work(self) -> None:
        """Run ready nodes one after another until none is left or the pool stops."""
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
                    if self._turn_ends == turn_ends:  # the first worker in the next turn of the event loop
                        self._turn_ends = perf_counter() + LONGEST_TURN
                    continue
                node = ready.popleft()
                while len(ready) > self._spares < wanted_spares:
                    self._start_spare(clean)
                wanted_spares = 1
                # The first node uses the context of the task itself, which saves a copy.
                following = await (step(node) if clean else _in_context(step(node), copy().run))
                clean = False
                if following is None:
                    self._stop()
                if following is None or self._stopped:
                    return
                ready.extend(following)
                self._suspended = 0
        except BaseException as error:  # noqa: BLE001 - raised to the caller of `run_graph`
            if not self._stopped:
                self._error = error
                self._stop()
        finally:
            if not self._stopped:
                self._remove(cast("asyncio.Task[Any]", asyncio.current_task()))


@types.coroutine
def _in_context(coroutine: Coroutine[Any, Any, T], run: Callable[..., Any]) -> Generator[Any, Any, T]:
    """Await a coroutine within the current task, but in another context.

    Args:
        run: The method `Context.run` of that context.
    """
    resume: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = run(resume, value)
        except StopIteration as end:
            return end.value
        finally:
            value = None  # an error would keep its traceback, and with it this frame, alive
        try:
            value = yield awaited
            resume = coroutine.send
        except GeneratorExit:
            run(coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001 - thrown into the coroutine
            value, resume = error, coroutine.throw
        finally:
            awaited = None  # a future with an error would keep this frame alive, too
