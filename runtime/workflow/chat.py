"""Chat: a conversation with a workflow that remembers earlier turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from typing_extensions import TypeVar

from operad.runtime.events import Event, RunFinished
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, PausedError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import NO_USAGE, Job, Turn, Usage, WorkflowMessage, new_id
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.answer_stream import answer_text, pieces
from operad.runtime.workflow.base_workflow import BaseWorkflow
from operad.runtime.workflow.chat_store import ChatStore
from operad.runtime.workflow.event_stream import StreamedRun, TextStream, run_events
from operad.runtime.workflow.memory import DEFAULT_TOKENS, Memory
from operad.runtime.workflow.result import Result

T = TypeVar("T", default=Any, covariant=True)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Message of the user that is to be answered.

    Attributes:
        number: The message's number in the conversation, counted from 1.
        job: The message as a job, with the earlier turns.
        usage: Usage of the model calls that summarized earlier turns.
    """

    number: int
    job: Job
    usage: Usage


class Chat(Generic[T]):
    """Conversation with a workflow, created by `Workflow.chat`.

        chat = flow.chat("user-42", store="chats.db")
        chat.send("My name is Ada.")
        print(chat.send("What is my name?").text)

    Each message is one run of the workflow. The prompt includes earlier turns as separate messages, within a budget of
    tokens: the model summarizes older turns, and the summary is stored. One message is answered at a time, in
    all chats of a process with the same store and id. A message whose run fails or is cancelled is not stored.

    Args:
        workflow: The workflow that answers.
        reasoner: The reasoner of the answers and the summaries.
        id: The id of the conversation in its store, and the `session_id` of its jobs; a new one by default.
        store: An SQLite file or a `ChatStore` that stores the turns; by default they are in the memory of this object.
        memory: Maximum number of tokens of the summary, the newest turns and the new message together; 4,000 by
            default.
        deps: Object that functions and tools of the runs get as `RunContext.deps`; it is not stored.

    Attributes:
        id: The id of the conversation.

    Raises:
        InputError: A value has another type.
    """

    def __init__(
        self,
        workflow: BaseWorkflow[T],
        reasoner: Reasoner,
        id: str | None = None,
        *,
        store: ChatStore | str | Path | None = None,
        memory: int | None = None,
        deps: object = None,
    ) -> None:
        if id is not None and (not isinstance(id, str) or not id.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"chat: id: expected a text such as 'user-42'; got {short_repr(id)}")
        self.id = id or new_id()
        self._workflow = workflow
        self._reasoner = reasoner
        self._deps = deps
        self._store = store if isinstance(store, ChatStore) else ChatStore(store)
        self._paused: tuple[str, Usage] | None = None  # the run and the usage of its summary
        self._memory = Memory(workflow, reasoner, DEFAULT_TOKENS if memory is None else memory)

    def __repr__(self) -> str:
        return f"<Chat {self.id!r} with {self._workflow.name!r}>"

    @property
    def turns(self) -> list[Turn]:
        """All turns, the oldest first: each message of the user is followed by its answer."""
        return self._store.turns(self.id)

    def send(self, message: str | Job) -> Result[T]:
        """Send a message, wait for the answer, and return the result; for callers without an event loop.

            result = chat.send("What is my name?")
            print(result.text)

        Arguments and errors are those of `asend`.

        Raises:
            RunningLoopError: An event loop is running here: await `asend` instead.
        """
        return run_sync(partial(self.asend, message), instead="chat.asend(…)")

    async def asend(self, message: str | Job) -> Result[T]:
        """Send a message and return the result of the run that answers it; the usage includes a new summary.

        Args:
            message: A text, or a `Job`, whose goal is the message, with files and inputs.

        Raises:
            InputError: The message has another type; another message is being answered; or another program has added
                to the conversation meanwhile.
            PausedError: The run asks a person. It stays paused; `aresume` continues it, with the `run_id` if another
                message is sent before.
            Exception: The errors of `Workflow.arun`. The message is not stored then, and can be sent again.
        """
        with self._store.single_turn(self.id):
            exchange = await self._opened(message)
            self._paused = None
            with self._pausing(exchange.usage):
                result = await self._workflow.arun(exchange.job, self._reasoner, deps=self._deps)
            return await self._answered(exchange, result)

    def resume(self, answers: JsonLike, run_id: str | None = None) -> Result[T]:
        """Answer the questions of the last message, and return its result; for callers without an event loop.

            try:
                result = chat.send("Pay 9 euros.")
            except PausedError as paused:
                print(paused)
                result = chat.resume("yes")

        Arguments and errors are those of `aresume`.

        Raises:
            RunningLoopError: An event loop is running here: await `aresume` instead.
        """
        return run_sync(partial(self.aresume, answers, run_id), instead="chat.aresume(…)")

    async def aresume(self, answers: JsonLike, run_id: str | None = None) -> Result[T]:
        """Answer the questions of a message whose run is paused, and return its result.

        Args:
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.
            run_id: The run, as named by the `PausedError`, if another object has sent the message, such as in an earlier
                request to a web application; if the workflow is durable, also in another process. By default the run
                of the last `PausedError` of this object, unless the object has sent another message since. The message
                and its answer are stored after the turns that the conversation has by then.

        Raises:
            InputError: No `run_id` is given and no run is the default; or the run has finished, or is not one of this
                conversation.
            InvalidError: An answer does not fit its question's schema, or the question is unknown.
            PausedError: The run waits for more answers.
            Exception: The errors of `Workflow.arun`. The message is not stored then.
        """
        with self._store.single_turn(self.id):
            run_id, exchange = await self._paused_run(run_id)
            with self._pausing(exchange.usage):
                result = await self._workflow.aresume(run_id, answers, self._reasoner, deps=self._deps)
            if self._paused is not None and self._paused[0] == run_id:
                self._paused = None
            return await self._answered(exchange, result)

    def stream(self, message: str | Job) -> TextStream:
        """Send a message and yield the text of the answer, piece by piece.

            for piece in chat.stream("Tell me a story."):
                print(piece, end="", flush=True)

        In an event loop, iterate with ``async for``.

        The pieces come while the model writes if the last operator has no ports and no output type, and no evaluator
        can ask for another round; otherwise at the end. Text that the model writes before it calls tools comes as a
        paragraph before the answer. The message is stored when the run has finished; closing the stream earlier cancels
        the run.

        Arguments and errors are those of `asend`.

        Raises:
            AnswerError: The model broke off, and its repeated answer differs; `turns` has the new answer.
        """
        run = StreamedRun(pauses=True)
        return TextStream(pieces(self._workflow, self._reasoner, self._events(message, run)), run)

    def events(self, message: str | Job) -> AsyncGenerator[Event, None]:
        """Send a message and yield the events of the run that answers it, as `Workflow.stream` does.

        The message is stored when the run has finished. A question of the run is answered with `Workflow.answer`.

        Arguments and errors are those of `asend`, except that a run with a question to a person waits for the answer.
        """
        return self._events(message, StreamedRun())

    async def _events(self, message: str | Job, run: StreamedRun) -> AsyncGenerator[Event, None]:
        with self._store.single_turn(self.id):
            exchange = await self._opened(message)
            call = OperatorCall(self._reasoner, exchange.job, deps=self._deps)
            start = partial(self._workflow._start, call, None)  # pyright: ignore[reportPrivateUsage]
            self._paused = None
            with self._pausing(exchange.usage):
                async with aclosing(run_events(start, run)) as events:
                    async for event in events:
                        if isinstance(event, RunFinished) and not event.path:
                            await self._keep(exchange, event.message)
                        yield event

    def forget(self) -> None:
        """Remove all turns of the conversation from its store."""
        with self._store.single_turn(self.id):
            if self._store.turns(self.id):
                self._store.forget(self.id)

    async def _opened(self, message: str | Job) -> _Exchange:
        """Return a message as a job with the earlier turns; a new summary of them is stored at once."""
        if not isinstance(message, str | Job):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"expected a text or a Job; got {short_repr(message)}")
        job = Job(message) if isinstance(message, str) else message
        if not job.goal.strip():
            raise InputError(f"chat {self.id!r}: the message is empty")
        last, turns = await asyncio.to_thread(self._store.latest, self.id)
        recalled = await self._memory.recall(turns, job.goal)
        if recalled.summarized:
            newer = sum(turn.role == "user" for turn in recalled.turns)
            await asyncio.to_thread(self._store.summarize, self.id, last - newer, recalled.turns[0].text)
        job = job.model_copy(update={"turns": recalled.turns, "session_id": self.id})
        return _Exchange(last + 1, job, recalled.usage)

    async def _paused_run(self, run_id: str | None) -> tuple[str, _Exchange]:
        """Return the id and the message of a paused run, as the next message of the conversation."""
        paused, usage = self._paused or (None, NO_USAGE)
        run_id = paused if run_id is None else run_id
        if run_id is None:
            told = "for an earlier message or one of another object, give the run_id of its PausedError"
            raise InputError(f"chat {self.id!r}: no message waits for answers; {told}")
        runs = self._workflow._runs  # pyright: ignore[reportPrivateUsage]
        job = await asyncio.to_thread(runs.unfinished_job, run_id)
        if job.session_id != self.id:
            raise InputError(f"chat {self.id!r}: the run {run_id!r} is not one of this conversation")
        last, _ = await asyncio.to_thread(self._store.latest, self.id)
        return run_id, _Exchange(last + 1, job, usage if run_id == paused else NO_USAGE)

    @contextmanager
    def _pausing(self, usage: Usage) -> Generator[None, None, None]:
        """Remember the run of a message if it pauses, and the usage of the message's summary."""
        try:
            yield
        except PausedError as paused:
            self._paused = paused.run_id, usage
            raise

    async def _answered(self, exchange: _Exchange, result: Result[T]) -> Result[T]:
        """Store the answer, and return the result with the usage of the summary."""
        await self._keep(exchange, result.message)
        usage = result.usage + exchange.usage
        return replace(result, message=result.message.model_copy(update={"usage": usage}))

    async def _keep(self, exchange: _Exchange, message: WorkflowMessage) -> None:
        """Store a message of the user with the answer in the run's message."""
        asked, answer = Turn(role="user", text=exchange.job.goal, files=exchange.job.files), answer_text(message)
        await asyncio.to_thread(self._store.add, self.id, exchange.number, asked, answer)
