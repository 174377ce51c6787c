"""Execution of one run by this process: kept outcomes are replayed, missing steps are executed and kept."""

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
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.values.errors import BudgetError, InputError, OperadError
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.schema_check import check_schema
from operad.runtime.workflow.steps import perform

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="operad-database")
"""Threads for database calls; separate from those of `asyncio.to_thread`, which operators may exhaust."""


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a blocking function in a thread."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, function, *args)


class StepExecutor(Protocol):
    """Executes the steps of a run: in this process, or in workers."""

    async def outcome_of(self, step_id: str, work: Callable[[], Awaitable[str]]) -> str:
        """Execute a step in this process.

        Args:
            step_id: Id of the step among all runs.
            work: Function that does the work and returns its outcome as text.

        Returns:
            The outcome as it is kept, whichever process produced it.
        """
        ...

    def takes(self, node: Node, scope: Scope) -> bool:
        """Return True if workers execute this operator."""
        ...

    async def outcome_elsewhere(self, step_id: str, node: Node, call: OperatorCall, scope: Scope) -> str:
        """Have workers execute an operator; return its outcome as text."""
        ...

    async def look_after(self, run_id: str) -> None:
        """Do periodic work for operators that workers execute."""
        ...

    async def forget(self, step_id: str) -> None:
        """Forget the outcome of a step."""
        ...


class Replay:
    """Keeps the outcomes of a run's operators; see `StepJournal`.

    Args:
        run_id: The run.
        store: The tables of runs.
        codec: Reads and writes kept values.
        kept: Outcomes that are kept already, by key.
        place: Executor of the remaining steps.

    Attributes:
        failed: Error of each failed operator, by key.
    """

    def __init__(self, run_id: str, store: Store, codec: Codec, kept: Mapping[str, str], place: StepExecutor) -> None:
        self.run_id = run_id
        self.failed: list[tuple[BaseException, str]] = []
        self._store = store
        self._codec = codec
        self._kept = dict(kept)
        self._place = place
        self._done: set[str] = set()

    @property
    def done(self) -> int:
        """Number of operators with an outcome; several rounds of an operator count once."""
        return len(self._done)

    def step_id(self, key: str) -> str:
        """Return the id of an operator's work among all runs."""
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
            except InputError as error:  # the operator's message cannot be kept
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
        if isinstance(outcome.error, BudgetError):  # with a larger budget, the run may go on
            await self._place.forget(self.step_id(key))
        return self._settle(key, outcome, scope, replayed=True)

    def _settle(self, key: str, outcome: Outcome, scope: Scope, *, replayed: bool) -> WorkflowMessage:
        """Return the message of an outcome, or raise its error."""
        if replayed:
            with repeating(Repeat(outcome.traced)):
                for event in outcome.events:
                    if isinstance(event, InsightsRecalled) and isinstance(scope.run.insights, RunInsights):
                        event = replace(event, store=scope.run.insights.store.id)  # the run id differs in each process
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
        known = await in_thread(self._store.ask, kept_question(self.run_id, key_of(scope), question))
        return None if known is None else (json.loads(known),)

    async def keep_answer(self, question_id: str, value: JsonValue, scope: Scope) -> None:
        """See `StepJournal.keep_answer`."""
        await in_thread(self._store.answer, self.run_id, key_of(scope), question_id, json.dumps(value))


def kept_question(run_id: str, key: str, question: Question) -> KeptQuestion:
    """Return a question as it is kept."""
    schema = json.dumps(question.schema_) if question.schema_ is not None else ""
    return KeptQuestion(run_id, key, question.id, question.text, schema)


def question_of(kept: KeptQuestion) -> Question:
    """Return a kept question as a `Question`.

    Raises:
        InputError: The JSON Schema of its answer is not valid.
    """
    try:
        schema = json.loads(kept.schema) if kept.schema else None
        if schema is not None:
            check_schema(schema)
        return Question(id=kept.id, text=kept.text, schema_=schema)
    except (OperadError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"question {kept.id!r} of run {kept.run_id!r}: the JSON Schema of its answer is not valid; was it written by another program?"
        ) from error


async def outcome_of_work(work: Callable[[], Awaitable[WorkflowMessage]], scope: Scope) -> Outcome:
    """Run an operator's work and return its outcome, a message or an error.

    Args:
        work: Function that does the work.
        scope: Context of the work; its events become part of the outcome.

    Raises:
        BudgetError: The run exceeded its budget. This outcome is not kept.
    """
    used = scope.usage
    try:
        message, failure = await work(), None
    except BudgetError:
        raise
    except Exception as error:  # noqa: BLE001 - it is an outcome like any other
        message, failure = None, error
    return Outcome(message, failure, _since(scope, used), tuple(scope.kept or ()), traced.get())


def _since(scope: Scope, used: Any) -> Any:
    """Return the usage added to the scope since `used`."""
    now = scope.usage
    if used == NO_USAGE:
        return now
    return type(now)(**{name: getattr(now, name) - getattr(used, name) for name in type(now).model_fields})
