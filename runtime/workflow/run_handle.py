"""A run in progress: its task, which can stay paused while no caller waits for it, and the handle that controls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Generic

from pydantic import JsonValue
from typing_extensions import TypeVar

from operad.runtime.events import Event, current_scope
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.call import answers_of, new_answers
from operad.runtime.policies.deadline import ended
from operad.runtime.values.errors import InputError, PausedError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import running_loop
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run

T = TypeVar("T", default=Any, covariant=True)
R = TypeVar("R")

MOMENT = 4
"""Turns of the event loop after which a paused run raises `PausedError`.

An operator that reads the stream of a run inside it learns of a question from that stream: its task is woken in the next
turn, and answers in one of these. Listeners and tasks that they start need no turns: they run before the run is paused.
"""


class LiveRun:
    """Run in its own task, which can stay paused while no caller waits for it.

    Args:
        work: Function that returns the coroutine which executes the run.
        streamed: True if the events have a consumer, which learns from them of questions and the end of the run.
        forget: Function to call when the run has ended and its outcome was delivered. A run that fails while it is
            paused is not forgotten: its error is raised to the caller that resumes it.

    Attributes:
        streamed: True if the events have a consumer.
        task: The task of the run.
        loop: The event loop of the task.
    """

    def __init__(
        self,
        run_id: str,
        run: Run,
        work: Callable[[], Coroutine[Any, Any, WorkflowMessage]],
        *,
        streamed: bool,
        forget: Callable[[LiveRun], object],
    ) -> None:
        self.run_id = run_id
        self.run = run
        self.streamed = streamed
        self.loop = asyncio.get_running_loop()
        self._forget = forget
        self._waiting = 0
        self._is_cancelled = False
        self._going_on: asyncio.Task[WorkflowMessage] | None = None
        self._settled = asyncio.Event()  # set at a pause and at the end
        if not streamed:
            run.on_paused = self._settled.set
        run.live = self
        self.task = self.loop.create_task(work())
        self.task.add_done_callback(self._end)

    async def outcome(self, *, joins: bool = False) -> WorkflowMessage:
        """Wait for the end of the run, and return its message. If the wait is cancelled, the run is cancelled too.

        Args:
            joins: True for a caller that did not start the run: if its wait is cancelled while another caller waits,
                the run continues.

        Raises:
            PausedError: The run waits for a person, and stays paused.
            Exception: The error of the run.
        """
        # A run is settled when it ends, and when all of its work waits for people. Whoever reads its stream inside of the run
        # may answer at once, so a pause is believed only after a few turns of the loop (`MOMENT`), and an answer in between
        # starts the wait again. The last caller that is cancelled cancels the run; the task that `answer` left waiting for
        # the rest of the run does not count as a caller.
        self._waiting += 1
        try:
            while True:
                await self._settled.wait()
                if self.task.done():
                    self._forget(self)
                    return self.task.result()
                for _ in range(MOMENT):
                    await asyncio.sleep(0)
                if self.run.questions.waits():
                    raise PausedError(self.run_id, self.run.questions.open())
                if not self.task.done():
                    self._settled.clear()
        except asyncio.CancelledError:
            continues_alone = self._going_on is not None and not self._going_on.done()
            if not joins or self._waiting - continues_alone == 1:
                await self.cancel()
            raise
        finally:
            self._waiting -= 1
            del self  # breaks the cycle self -> task -> error -> traceback -> this frame -> self

    def answer_now(self, answers: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions of the run, from the thread of its event loop.

        Raises:
            InvalidError: An answer is not valid. No answer was accepted then.
        """
        self.run.questions.answer(answers, by)
        if not self.task.done():
            self._settled.clear()
        self.run.check_paused()

    async def answer(self, answers: Mapping[str, JsonValue], stored: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions of the run, whose answers may be stored already; see `answer_soon`."""
        unread = {each.id: stored[each.id] for each in self.run.questions.open() if each.id in stored.keys() & answers}
        self.answer_soon(unread | new_answers(self.run_id, answers, stored), by)

    def answer_soon(self, answers: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions of the run, from a task of its event loop; it continues without a caller that waits for it.

        Raises:
            InvalidError: An answer is not valid. No answer was accepted then.
        """
        self.answer_now(answers, by)
        if not self.streamed:
            # A run is forgotten only after a caller has waited for its outcome.
            self._going_on = asyncio.ensure_future(self.outcome())
            self._going_on.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def resume(
        self, answers: Mapping[str, JsonValue], stored: Mapping[str, JsonValue], deps: object = None
    ) -> WorkflowMessage:
        """Answer questions of the run, and return its message; see `outcome` for a wait that is cancelled.

        Args:
            stored: Stored answers of the run. Those that the run has not read yet are passed on.
            deps: Deps that replace those of the run once the answers are accepted; None to keep them.

        Raises:
            InvalidError: An answer is not valid. No answer was accepted then.
            PausedError: The run waits for more answers.
            Exception: The error of the run.
        """
        if not self.task.done():
            unread = {each.id: stored[each.id] for each in self.run.questions.open() if each.id in stored}
            self.answer_now(unread | new_answers(self.run_id, answers, stored))
            if deps is not None:  # the operators continue at the next turn of the event loop
                self.run.replace_deps(deps)
        return await self.outcome(joins=True)

    async def cancel(self) -> None:
        """Cancel the run, and wait until it has ended; code inside the run does not wait, because it ends with it."""
        self._is_cancelled = True  # no caller waits for the outcome, even if the run finishes before the cancellation
        self.task.cancel()
        scope = current_scope()
        if scope is not None and any(outer.run is self.run for outer in scope.outwards()):
            return
        await ended(self.task)
        if not self.task.cancelled():
            self.task.exception()  # retrieved, in case the waiting caller left before it was raised

    def _end(self, task: asyncio.Task[WorkflowMessage]) -> None:
        self.run.live = None
        if self.streamed or self._waiting or self._is_cancelled or task.cancelled():
            self._forget(self)
        self._settled.set()


class RunHandle(Generic[T]):
    """Handle of a run in progress, returned by `Workflow.start`.

        run: RunHandle[str] = flow.start("Is this so? The moon has air.")
        async for event in run:
            if isinstance(event, events.Interrupted):
                run.answer({event.interrupt_id: True})
        result = await run

    Iterating yields the events of the run. Until the first iteration, only the last 1,000 events are kept. A consumer
    that falls far behind slows the run down; a run without consumers is not slowed down.

    Attributes:
        run_id: The run's id.
    """

    def __init__(
        self, run_id: str, live: LiveRun, buffer: Buffer, result: Callable[[WorkflowMessage], Result[T]]
    ) -> None:
        self.run_id = run_id
        self._live = live
        self._buffer = buffer
        self._make = result
        self._readers = 0
        self._left = asyncio.Event()
        live.task.add_done_callback(lambda _: buffer.close())

    def __repr__(self) -> str:
        task = self._live.task
        if task.done():
            state = "cancelled" if task.cancelled() else "failed" if task.exception() else "done"
        else:
            state = "waits for answers" if self.questions else "running"
        return f"<RunHandle {self.run_id!r}: {state}>"

    def __await__(self) -> Generator[Any, None, Result[T]]:
        """Wait for the result; if the caller is cancelled, so is the run.

        Raises:
            PausedError: The run waits for a person, and its events have no consumer. Await the handle again after
                `answer`.
            Exception: The errors of `Workflow.aexecute`.
        """
        return self._here(self._result()).__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        if running_loop() is not self._live.loop:
            raise InputError(
                f"the run {self.run_id!r} was started in another event loop: read its events there; its result can be "
                "awaited, and the run answered and cancelled, from any event loop"
            )
        return self._events()

    @property
    def done(self) -> bool:
        """True if the run has ended."""
        return self._live.task.done()

    @property
    def questions(self) -> Sequence[Question]:
        """Open questions of the run."""
        return () if self.done else self._live.run.questions.open()

    def answer(self, answers: JsonLike) -> Awaitable[None]:
        """Answer questions of the run, at once; the awaitable that is returned need not be awaited. Callable from any thread.

        Args:
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.

        Raises:
            InputError: An answer names no question, and not exactly one is open.
            InvalidError: An answer does not fit its question's schema, or the question is unknown. No answer was
                accepted then.
        """
        given, loop = answers_of(answers, self.run_id, lambda: self.questions), self._live.loop
        if running_loop() is loop or self.done:
            self._live.answer_soon(given)
        else:
            asyncio.run_coroutine_threadsafe(self._live.answer(given, {}), loop).result()
        done: asyncio.Future[None] = loop.create_future()
        done.set_result(None)
        return done

    async def cancel(self) -> None:
        """Cancel the run, and wait until it has ended; callable in any event loop."""
        await self._here(self._live.cancel())

    def _here(self, work: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
        """Return a coroutine that does work of the run in the event loop of the run, unless the run has ended.

        It does not hold the handle, which holds the error of the run: that would be a cycle with its traceback.
        """
        return work if self.done else in_loop(self._live.loop, work)

    async def _result(self) -> Result[T]:
        while self._readers and not self.done:  # the readers learn of questions from the events: the run is not paused
            left = asyncio.ensure_future(self._left.wait())
            try:
                await asyncio.wait([self._live.task, left], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await self.cancel()
                raise
            finally:
                left.cancel()
        try:
            return self._make(await self._live.outcome())
        finally:
            del self  # as in `outcome_of`

    async def _events(self) -> AsyncGenerator[Event, None]:
        self._readers += 1
        self._left.clear()
        self._buffer.slows = True
        try:
            while (event := await self._buffer.get()) is not None:
                yield event
            if not self._live.task.cancelled():  # after `cancel`, the events end without an error
                await self._live.task
        finally:
            self._readers -= 1
            if not self._readers:
                self._left.set()
            self._buffer.slows = bool(self._readers)
            self._buffer.look()


async def in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, R]) -> R:
    """Await a coroutine in the event loop that it belongs to."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def outcome_of(live: LiveRun) -> tuple[Run, WorkflowMessage]:
    """Return a run that was started, and its message."""
    try:
        return live.run, await live.outcome()
    finally:
        del live  # live -> task -> error -> traceback -> this frame -> live would wait for the garbage collector
