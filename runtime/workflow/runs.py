"""Runs of a workflow by id: those in progress in this process, and those in its store.

A run in progress has a task, which can stay paused while no caller waits for it, and a handle that controls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, cast

from pydantic import JsonValue
from typing_extensions import TypeVar

from operad.runtime.events import Event, current_scope
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.call import OperatorCall, answers_of, new_answers
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.deadline import ended
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, PausedError, did_you_mean
from operad.runtime.values.forks import after_fork, leave_to_parent
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.questions import Question, check_answers
from operad.runtime.values.sync import running_loop
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run

_IN_DATABASE = "operad.runtime.durable.ledger"
"""Module of the ledger. It is imported by name when a database is used, so that other workflows do not import it."""


class RunStore(Protocol):
    """Protocol of a store of durable runs, such as `operad.runtime.durable.Ledger`."""

    @property
    def workers(self) -> object | None:
        """The workers that execute the operators with their own models; None if this process executes them."""
        ...

    async def execute(self, workflow: Any, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Execute a new run, or resume a stored one, and return its message."""
        ...

    def job(self, run_id: str) -> Job:
        """Return the job of a run; may block."""
        ...

    def result(self, run_id: str) -> WorkflowMessage | None:
        """Return the message of a run; None if it has not finished; may block."""
        ...

    def events(self, run_id: str) -> Sequence[Event]:
        """Return the events of a run so far; may block."""
        ...

    def retry(self, run_id: str) -> None:
        """Prepare a failed run to be resumed; raise InputError if it did not fail; may block."""
        ...

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run; may block."""
        ...

    def stored_answers(self, run_id: str) -> Mapping[str, JsonValue]:
        """Return the answers to questions of a run, by question id, without those to open questions; may block."""
        ...

    def answer(self, run_id: str, answers: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions of a run, as a person with a name; may block."""
        ...

    def unfinished(self, run_id: str, graph: WorkflowGraph) -> Collection[BaseOperator] | None:
        """Return the operators of a stored run that have not finished; None if all of them may run; may block."""
        ...

    def to_resume(self, run_id: str, workflow: Any, reasoner: Reasoner) -> OperatorCall | None:
        """Return the input of a run without a driver; None if a process drives the run; may block."""
        ...

    def live_run(self, run_id: str) -> LiveRun | None:
        """Return a run in progress in this process, also if another `Workflow` object started it; None if there is none."""
        ...


def run_store_of(durable: RunStore | str | Path) -> RunStore:
    """Return a store of runs for a database URL, a path or a store.

    Raises:
        InputError: The value is none of these.
    """
    if isinstance(durable, str | Path):
        return cast("RunStore", import_module(_IN_DATABASE).Ledger(durable))
    if not callable(getattr(durable, "execute", None)):
        raise InputError(
            f"durable: expected a URL such as 'sqlite:///runs.db', a path or a Ledger; got {short_repr(durable)}"
        )
    return durable


class Runs:
    """Runs of a workflow, by id: runs in progress in this process, and other runs in the store, if there is one.

    Args:
        workflow: The workflow's name, for errors.

    Attributes:
        store: The ledger that stores runs which start from now on; None for no ledger.
    """

    def __init__(self, workflow: str) -> None:
        self.store: RunStore | None = None
        self._workflow = workflow
        self._live: dict[str, LiveRun] = {}
        after_fork(self._renew)

    def _renew(self) -> None:
        """Forget the runs of the parent, which its event loops drive."""
        leave_to_parent(self._live)
        self._live = {}

    def __len__(self) -> int:
        """Return the number of runs in progress in this process."""
        return len(self._live)

    def start(
        self, run_id: str, run: Run, work: Callable[[], Coroutine[Any, Any, WorkflowMessage]], *, streamed: bool
    ) -> LiveRun:
        """Start a run in the running event loop; it is forgotten once it has ended and a caller got its outcome.

        The id of a stored run can be used again as soon as the run has ended.

        Args:
            work: Function that returns the coroutine of the run.
            streamed: True if the events have a consumer.

        Raises:
            InputError: A run with this id is in progress.
        """
        current = self._live.get(run_id)
        if current is not None and not (self.store is not None and current.task.done()):
            if current.run.questions.waits():
                raise InputError(
                    f"workflow {self._workflow!r}: the run {run_id!r} is paused and waits for answers: continue it with "
                    f"resume({run_id!r}, answers), or give this run another id"
                )
            raise InputError(
                f"workflow {self._workflow!r}: a run with the id {run_id!r} is already in progress; give each run its own id"
            )
        live = self._live[run_id] = LiveRun(run_id, run, work, streamed=streamed, forget=self.forget)
        return live

    def cancel_all(self) -> None:
        """Cancel all runs in progress, without waiting until they have ended; callable from any thread."""
        for live in [*self._live.values()]:
            if not live.loop.is_closed():
                asyncio.run_coroutine_threadsafe(live.cancel(), live.loop)

    def forget(self, live: LiveRun) -> None:
        """Forget a run; a newer run with its id stays."""
        if self._live.get(live.run_id) is live:
            del self._live[live.run_id]

    def get(self, run_id: str) -> LiveRun | None:
        """Return a run in progress in this process, or None."""
        return self._live.get(run_id)

    def find(self, run_id: str) -> LiveRun:
        """Return a run in progress in this process.

        Raises:
            InputError: No run with this id is in progress.
        """
        live = self._live.get(run_id)
        if live is None or live.loop.is_closed():
            hint = did_you_mean(run_id, self._live)
            elsewhere = ""
            if self.store is not None:
                elsewhere = f", or another process drives it: `ledger.cancel({run_id!r})` cancels it there"
            raise InputError(
                f"workflow {self._workflow!r}: no run with the id {run_id!r} is in progress{hint}; "
                f"the run has ended, or its event loop was closed{elsewhere}"
            )
        return live

    def store_of(self, run_id: str) -> RunStore | None:
        """Return the store that has a run; None if the run is in progress in this process, or if there is no store."""
        return None if run_id in self._live else self.store

    async def unfinished(self, run_id: str, graph: Callable[[], WorkflowGraph]) -> Collection[BaseOperator] | None:
        """Return the operators that a stored run has not finished; None if all of them may run."""
        store = self.store_of(run_id)
        if store is None:
            return None
        return await asyncio.to_thread(store.unfinished, run_id, graph())

    def questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run; may block.

        Raises:
            InputError: The run is unknown.
        """
        store = self.store_of(run_id)
        return self.find(run_id).run.questions.open() if store is None else store.open_questions(run_id)

    def unfinished_job(self, run_id: str) -> Job:
        """Return the job of a run that has not finished; may block.

        Raises:
            InputError: The run is unknown, or has finished.
        """
        store = self.store_of(run_id)
        if store is None:
            return self.find(run_id).run.job
        if store.result(run_id) is not None:
            raise InputError(f"workflow {self._workflow!r}: the run {run_id!r} has finished")
        return store.job(run_id)

    async def by_question(self, run_id: str, answers: JsonLike) -> dict[str, JsonValue]:
        """Return a user's answers as a dict by question id; see `answers_of`."""
        given = partial(answers_of, answers, run_id, partial(self.questions, run_id))
        return given() if self.store is None or isinstance(answers, Mapping) else await asyncio.to_thread(given)

    async def answer(self, run_id: str, answers: JsonLike, by: str = "") -> None:
        """Answer questions of a run; can be called in any event loop. See `LiveRun.answer`."""
        given = await self.by_question(run_id, answers)
        store = self.store_of(run_id)
        if store is not None:
            await asyncio.to_thread(store.answer, run_id, given, by)
            return
        live = self.find(run_id)
        if not await self._keep(live, given, by):
            await in_loop(live.loop, live.answer(given, await self._stored_answers(live), by))

    async def resume(
        self, run_id: str, answers: Mapping[str, JsonValue], live: LiveRun | None = None, deps: object = None
    ) -> tuple[Run, WorkflowMessage]:
        """Answer questions of a run in progress in this process, and return the run and its message.

        The method can be called in any event loop; see `LiveRun.resume`.

        Args:
            live: The run, if it was started by another `Workflow` object; None to find it by its id.
            deps: Deps that replace those of the run; None to keep them.

        Raises:
            InputError: The run's stream has a consumer.
        """
        live = live or self.find(run_id)
        self.refuse_streamed(run_id, live)
        if await self._keep(live, answers):
            if deps is not None:
                live.run.replace_deps(deps)
            return live.run, await in_loop(live.loop, live.outcome(joins=True))
        return live.run, await in_loop(live.loop, live.resume(answers, await self._stored_answers(live), deps))

    def refuse_streamed(self, run_id: str, live: LiveRun | None = None) -> None:
        """Refuse to resume a run whose stream has a consumer, which would wait for ever if it waited for the result.

        Raises:
            InputError: The run's stream has a consumer.
        """
        live = live or self._live.get(run_id)
        if live is not None and live.streamed:
            raise InputError(
                f"workflow {self._workflow!r}: the events of run {run_id!r} have a consumer, who receives its end: "
                f"answer with stream.answer(answers), or `await flow.answer({run_id!r}, answers)`"
            )

    async def _stored_answers(self, live: LiveRun) -> Mapping[str, JsonValue]:
        """Return the stored answers of a run in progress, which the run may not have read yet."""
        if self.store is None or live.run.journal is None:
            return {}
        return await asyncio.to_thread(self.store.stored_answers, live.run_id)

    async def _keep(self, live: LiveRun, answers: Mapping[str, JsonValue], by: str = "") -> bool:
        """Store answers before a durable run receives them: an accepted answer outlives this process.

        Another process may answer at the same time, or drive the run by now. Of two answers, the store accepts the first.

        Returns:
            True if the run was resumed, and has not asked these questions again yet: it reads the answers when it does.

        Raises:
            InvalidError: An answer is not valid, or a question has another answer already.
        """
        is_asking = not answers.keys().isdisjoint(question.id for question in live.run.questions.open())
        if self.store is None or not answers or (live.run.journal is None and is_asking):  # a run that is not stored
            return False  # one that begins to resume has no journal yet, and asks nothing
        new = new_answers(live.run_id, answers, await self._stored_answers(live))
        asked = {question.id for question in await asyncio.to_thread(self.store.open_questions, live.run_id)}
        check_answers({each: value for each, value in new.items() if each not in asked}, live.run.questions.open())
        kept = {each: value for each, value in new.items() if each in asked}
        await asyncio.to_thread(self.store.answer, live.run_id, kept, by)
        open_here = {question.id for question in live.run.questions.open()}  # asked meanwhile: its asker waits already
        return kept.keys() == answers.keys() and kept.keys().isdisjoint(open_here)

    async def cancel(self, run_id: str) -> None:
        """Cancel a run in progress in this process; can be called in any event loop. See `LiveRun.cancel`."""
        of_others = self.store.live_run(run_id) if self.store is not None and run_id not in self._live else None
        live = of_others or self.find(run_id)
        await in_loop(live.loop, live.cancel())


T = TypeVar("T", default=Any, covariant=True)
R = TypeVar("R")

_MOMENT = 4
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
                for _ in range(_MOMENT):
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
