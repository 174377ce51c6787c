"""RunHandle: a run in progress, to wait for, watch, answer and cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from operad.runtime.events import Event
from operad.runtime.events.stream import Buffer
from operad.runtime.values.errors import InputError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import running_loop
from operad.runtime.workflow.live import LiveRun, in_loop
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run_input import answers_of

T = TypeVar("T", default=Any, covariant=True)
R = TypeVar("R")


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
            asyncio.run_coroutine_threadsafe(self._live.answer(given), loop).result()
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
            del self  # as in `runner.outcome_of`

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
