"""One run, driven by this process: what is kept of it, and how what is not yet is had done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace
from pydantic import JsonValue

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.rows import KeptQuestion
from operad.runtime.durable.store import Store
from operad.runtime.events import InsightsRecalled, MessageKept, OperatorRetried, Scope
from operad.runtime.events.journal import bare, key_of
from operad.runtime.events.repeat import Repeat, repeating, traced
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.insights import RunInsights
from operad.runtime.values.errors import BudgetError, InputError, OperadError
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.schema import check_schema
from operad.runtime.workflow.perform import perform

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="operad-database")
"""In which the database is spoken to: not those of `asyncio.to_thread`, which operators may fill."""


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call what may block."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, function, *args)


class StepExecutor(Protocol):
    """Executes the steps of a run: in this process, or in workers."""

    async def outcome_of(self, step_id: str, work: Callable[[], Awaitable[str]]) -> str:
        """Have it done here.

        Args:
            step_id: What it is known by.
            work: What does it, and says what came of it as text.

        Returns:
            What came of it as it is kept, whoever did it.
        """
        ...

    def takes(self, node: Node, scope: Scope) -> bool:
        """Whether others do this operator's work."""
        ...

    async def outcome_elsewhere(self, step_id: str, node: Node, call: OperatorCall, scope: Scope) -> str:
        """Have others do it."""
        ...

    async def look_after(self, run_id: str) -> None:
        """Now and then: see to what others do."""
        ...

    async def forget(self, step_id: str) -> None:
        """Forget what came of it."""
        ...


class Drive:
    """Keeps what comes of a run's operators; see `StepJournal`.

    Args:
        run_id: The run.
        store: Where it is kept.
        codec: What writes and reads it.
        kept: What is kept already, by key.
        place: Where the rest is had done.

    Attributes:
        failed: The key of each operator that failed, with its error.
    """

    def __init__(self, run_id: str, store: Store, codec: Codec, kept: Mapping[str, str], place: StepExecutor) -> None:
        self.run_id = run_id
        self.failed: list[tuple[BaseException, str]] = []
        self._store = store
        self._codec = codec
        self._kept = dict(kept)
        self._place = place
        self._answers: dict[tuple[str, str], str] = {}
        self._done: set[str] = set()

    @property
    def done(self) -> int:
        """How many operators have said something, however many rounds they did."""
        return len(self._done)

    def know_answers(self, questions: Mapping[tuple[str, str], str]) -> None:
        """Take in answers that are kept, by the key of the operator and the id of the question."""
        self._answers.update(questions)

    def step_id(self, key: str) -> str:
        """What an operator's work is known by among all runs."""
        return f"{self.run_id}:{key}"

    async def perform(self, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        """See `StepJournal.perform`."""
        if scope.around:
            return await perform(node, call, scope)
        key = key_of(scope)
        if (text := self._kept.pop(key, None)) is not None:
            scope.write(MessageKept())
            return self._settle(key, self._codec.load(text, Outcome), scope, replayed=True)
        if self._place.takes(node, scope):
            return await self._elsewhere(key, node, call, scope)
        return await self._here(key, lambda: perform(node, call, scope), scope)

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """See `StepJournal.once`."""
        key = key_of(scope, name)
        if (text := self._kept.pop(key, None)) is not None:
            return self._settle(key, self._codec.load(text, Outcome), scope, replayed=True)
        return await self._here(key, work, scope)

    async def _here(self, key: str, work: Callable[[], Awaitable[WorkflowMessage]], scope: Scope) -> WorkflowMessage:
        made: Outcome | None = None
        made_text = ""

        async def outcome() -> str:
            nonlocal made, made_text
            before, scope.kept = scope.kept, []
            try:
                made = await outcome_of_work(work, scope)
            finally:
                scope.kept = before
            try:
                made_text = await in_thread(self._codec.dump, made)
            except InputError as error:  # what it made cannot be kept
                made = Outcome(error=error, usage=made.usage)
                made_text = self._codec.dump(made)
            return made_text

        text = await self._place.outcome_of(self.step_id(key), outcome)
        if made is not None and text == made_text:
            return self._settle(key, made, scope, replayed=False)
        return self._settle(key, await in_thread(self._codec.load, text, Outcome), scope, replayed=True)

    async def _elsewhere(self, key: str, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        text = await self._place.outcome_elsewhere(self.step_id(key), node, call, scope)
        outcome = await in_thread(self._codec.load, text, Outcome)
        if isinstance(outcome.error, BudgetError):  # with a larger one it may go on
            await self._place.forget(self.step_id(key))
        return self._settle(key, outcome, scope, replayed=True)

    def _settle(self, key: str, outcome: Outcome, scope: Scope, *, replayed: bool) -> WorkflowMessage:
        """The message; or the error, raised."""
        if replayed:
            with repeating(Repeat(outcome.traced)):
                for event in outcome.events:
                    if isinstance(event, InsightsRecalled) and (insights := _insights_of(scope)):
                        event = replace(event, store=insights.store.id)  # which is another in each process
                    scope.write(event)
                    scope.attempt += isinstance(event, OperatorRetried)
            if outcome.usage != NO_USAGE:
                scope.charge(outcome.usage)
        if outcome.error is not None:
            self.failed.append((outcome.error, key))
            raise outcome.error
        assert outcome.message is not None  # noqa: S101 - it is one or the other
        self._done.add("/".join(bare(key)[0]))
        return outcome.message

    # Questions

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """See `StepJournal.answer_to`."""
        key = key_of(scope)
        known = self._answers.get((key, question.id))
        if known is not None:
            return (json.loads(known),)
        schema = json.dumps(question.schema_) if question.schema_ is not None else ""
        await in_thread(self._store.ask, KeptQuestion(self.run_id, key, question.id, question.text, schema))
        return None

    async def keep_answer(self, question_id: str, value: JsonValue, scope: Scope) -> None:
        """See `StepJournal.keep_answer`."""
        key, answer = key_of(scope), json.dumps(value)
        self._answers[key, question_id] = answer
        await in_thread(self._store.answer, self.run_id, key, question_id, answer)


def question_of(kept: KeptQuestion) -> Question:
    """A kept question as one that can be asked.

    Raises:
        InputError: The schema of its answer cannot be used.
    """
    try:
        schema = json.loads(kept.schema) if kept.schema else None
        if schema is not None:
            check_schema(schema)
        return Question(id=kept.id, text=kept.text, schema_=schema)
    except (OperadError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"question {kept.id!r} of run {kept.run_id!r}: the schema of its answer cannot be used; was it written by something else?"
        ) from error


async def outcome_of_work(work: Callable[[], Awaitable[WorkflowMessage]], scope: Scope) -> Outcome:
    """What comes of an operator's work, an error like a message.

    Args:
        work: What does it.
        scope: Where it is done; its events are those that are kept.

    Raises:
        BudgetError: The run has used more than it may, which is nothing to keep.
    """
    used = scope.usage
    try:
        message, failure = await work(), None
    except BudgetError:
        raise
    except Exception as error:  # noqa: BLE001 - it is an outcome like any other
        message, failure = None, error
    return Outcome(message, failure, _since(scope, used), tuple(scope.kept or ()), traced.get())


def _insights_of(scope: Scope) -> RunInsights | None:
    around = (outer.run.insights for outer in scope.outwards())
    return next((each for each in around if isinstance(each, RunInsights)), None)


def _since(scope: Scope, used: Any) -> Any:
    """What the scope has used since then."""
    now = scope.usage
    if used == NO_USAGE:
        return now
    return type(now)(**{name: getattr(now, name) - getattr(used, name) for name in type(now).model_fields})
