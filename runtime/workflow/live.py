"""A run that is going on: waited for, paused, resumed, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from pydantic import JsonValue

from operad.runtime.events import current_scope
from operad.runtime.policies.deadline import ended
from operad.runtime.values.errors import InputError, PausedError, did_you_mean
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.run import Run

T = TypeVar("T")

MOMENT = 3
"""Turns of the event loop in which a listener may answer a question immediately."""


class LiveRun:
    """A run in a task of its own, which can stay paused without a waiting caller.

    Args:
        run_id: Id of the run.
        run: The run.
        work: Coroutine that drives it.
        streamed: True if its events have a consumer, which learns of its questions and its end.
        forget: Called when it has ended and a caller knows: one that fails while it waits for a
            person keeps its error for the caller that resumes it.

    Attributes:
        run: The run.
        streamed: True if its events have a consumer.
        task: The run's task.
        loop: The event loop that it runs in.
    """

    def __init__(
        self,
        run_id: str,
        run: Run,
        work: Callable[[], Coroutine[Any, Any, WorkflowMessage]],
        *,
        streamed: bool,
        forget: Callable[[], object],
    ) -> None:
        self.run = run
        self.streamed = streamed
        self.loop = asyncio.get_running_loop()
        self._run_id = run_id
        self._forget = forget
        self._waiting = 0
        self._is_cancelled = False
        self._going_on: asyncio.Task[WorkflowMessage] | None = None
        self._settled: asyncio.Future[None] = self.loop.create_future()
        if not streamed:
            run.on_paused = self._settle
        self.task = asyncio.ensure_future(work())
        self.task.add_done_callback(self._end)

    async def outcome(self) -> WorkflowMessage:
        """Return its message, once it has ended.

        Raises:
            PausedError: It waits for a person, and stays paused.
            Exception: The error it failed with.
        """
        self._waiting += 1
        try:
            while True:
                await self._settled
                if self.task.done():
                    self._forget()
                    return self.task.result()
                for _ in range(MOMENT):
                    await asyncio.sleep(0)
                if self.run.questions.waits():
                    raise PausedError(self._run_id, self.run.questions.open())
                if self._settled.done():
                    self._settled = self.loop.create_future()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            self._waiting -= 1
            del self  # self -> task -> error -> traceback -> this frame -> self

    async def answer(self, answers: Mapping[str, JsonValue]) -> None:
        """Answer its questions, and let it continue; further events show the effect.

        Raises:
            InvalidError: An answer is not valid; none was given.
        """
        self.run.questions.answer(answers)
        if not self.streamed:
            if self._settled.done():
                self._settled = self.loop.create_future()
            self.run.look_whether_paused()
            self._going_on = asyncio.ensure_future(
                self.outcome()
            )  # a caller must wait for it, or it is never forgotten
            self._going_on.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def resume(self, answers: Mapping[str, JsonValue]) -> WorkflowMessage | None:
        """Answer its questions, and wait for its result, unless it is streamed.

        Raises:
            InvalidError: An answer is not valid; none was given.
            PausedError: It waits for more answers.
            Exception: The error it failed with.
        """
        if self.task.done():
            return await self.outcome()
        self.run.questions.answer(answers)
        if self.streamed:
            return None
        if self._settled.done():
            self._settled = self.loop.create_future()
        self.run.look_whether_paused()
        return await self.outcome()

    async def cancel(self) -> None:
        """End it, and wait until all in it has ended; unless what asks for it is a part of it, and ends with it."""
        self._is_cancelled = True  # no caller asks for it any more, even if it finishes before it is cancelled
        self.task.cancel()
        scope = current_scope()
        if scope is not None and any(outer.run is self.run for outer in scope.outwards()):
            return
        await ended(self.task)
        if not self.task.cancelled():
            self.task.exception()  # retrieved, in case the waiting caller left before it was raised

    def _end(self, task: asyncio.Task[WorkflowMessage]) -> None:
        if self.streamed or self._waiting or self._is_cancelled or task.cancelled():
            self._forget()
        self._settle()

    def _settle(self) -> None:
        if not self._settled.done():
            self._settled.set_result(None)


class LiveRuns:
    """The runs of a workflow that go on in this process, by id.

    Args:
        workflow: The workflow's name, for errors.
    """

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._runs: dict[str, LiveRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._runs

    def get(self, run_id: str) -> LiveRun | None:
        """Return a run, or None where none with this id goes on."""
        return self._runs.get(run_id)

    def refuse_second(self, run_id: str, *, unless_done: bool) -> None:
        """Refuse an id that a run has already.

        Args:
            run_id: The id.
            unless_done: True to accept the id of a run that has ended, although its result was not requested.

        Raises:
            InputError: A run with this id is in progress.
        """
        going = self._runs.get(run_id)
        if going is not None and not (unless_done and going.task.done()):
            raise InputError(
                f"workflow {self._workflow!r}: a run with the id {run_id!r} is going on; give each its own"
            )

    def start(
        self, run_id: str, run: Run, work: Callable[[], Coroutine[Any, Any, WorkflowMessage]], *, streamed: bool
    ) -> LiveRun:
        """Start a run in the running event loop; it is forgotten once it has ended and a caller knows.

        Args:
            run_id: Its id.
            run: The run.
            work: Function that returns the coroutine of the run.
            streamed: True if its events have a consumer.
        """
        live = self._runs[run_id] = LiveRun(run_id, run, work, streamed=streamed, forget=partial(self.forget, run_id))
        return live

    def forget(self, run_id: str) -> None:
        """Forget a run."""
        self._runs.pop(run_id, None)

    def find(self, run_id: str) -> LiveRun:
        """Return a run.

        Raises:
            InputError: None with this id goes on.
        """
        live = self._runs.get(run_id)
        if live is None or live.loop.is_closed():
            hint = did_you_mean(run_id, self._runs)
            raise InputError(
                f"workflow {self._workflow!r}: no run with the id {run_id!r} is going on{hint}; "
                "the run has ended, or its event loop was closed"
            )
        return live

    async def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """See `LiveRun.answer`; from any event loop."""
        live = self.find(run_id)
        await _in_loop(live.loop, live.answer(answers))

    async def resume(self, run_id: str, answers: Mapping[str, JsonValue]) -> WorkflowMessage | None:
        """See `LiveRun.resume`; from any event loop."""
        live = self.find(run_id)
        return await _in_loop(live.loop, live.resume(answers))

    async def cancel(self, run_id: str) -> None:
        """See `LiveRun.cancel`; from any event loop."""
        live = self.find(run_id)
        await _in_loop(live.loop, live.cancel())


async def _in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in the event loop that it belongs to."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
