"""Execution of one run by this process: kept outcomes are replayed, missing steps are executed and kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pydantic import JsonValue

from operad.runtime.durable.codec import MAX_TEXT, Codec, Outcome
from operad.runtime.durable.history import Recorder
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import PartRow, StepRow, StoredQuestion, question_of
from operad.runtime.durable.threads import in_thread
from operad.runtime.events import InsightsRecalled, MessageKept, OperatorRetried, Scope
from operad.runtime.events.interrupts import content_of
from operad.runtime.events.journal import bare, key_of
from operad.runtime.events.log import Repeat, repeating, traced
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.values.errors import BudgetError, InputError, OperadError
from operad.runtime.values.json_schema import APPROVAL
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.workflow.attempts import perform

if TYPE_CHECKING:
    from operad.runtime.durable.remote import RemoteExecutor


_logger = logging.getLogger(__name__)


class Replay:
    """Journal of a run, which replays stored outcomes of operators and stores new ones; see `StepJournal`.

    Args:
        codec: Codec of stored values.
        kept: Records of operators whose outcomes are already stored, by key.
        remote: Execution of operators in workers; None to execute all operators in this process.
        is_resumed: True if another process has begun the run, or an earlier drive of this one.

    Attributes:
        failed: Errors of failed operators, each with the operator's key.
        unstored: Error of the database by which an outcome could not be stored; None if there is none.
    """

    def __init__(
        self,
        run_id: str,
        store: Store,
        codec: Codec,
        kept: Mapping[str, StepRow],
        recorder: Recorder,
        remote: RemoteExecutor | None,
        *,
        is_resumed: bool,
    ) -> None:
        self.run_id = run_id
        self.failed: list[tuple[BaseException, str]] = []
        self.unstored: BaseException | None = None
        self._store = store
        self._codec = codec
        self._kept = dict(kept)
        self._recorder = recorder
        self._remote = remote
        self._is_resumed = is_resumed
        self._done: set[str] = set()
        self._parts: dict[str, Mapping[str, str]] = {}

    @property
    def done(self) -> int:
        """Number of operators that have finished; several rounds of an operator count once."""
        return len(self._done)

    async def perform(self, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        """See `StepJournal.perform`."""
        if scope.runs_workflows:
            return await perform(node, call, scope)
        key = key_of(scope)
        if (row := self._kept.pop(key, None)) is not None:
            return self._replay(row, scope, is_part=False)
        if self._remote is not None and self._remote.takes(node, scope):
            return await self._perform_in_worker(self._remote, key, node, call, scope)
        return await self._perform_here(key, lambda: perform(node, call, scope), scope)

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """See `StepJournal.once`."""
        key = key_of(scope, name)
        if (row := self._kept.pop(key, None)) is not None:
            return self._replay(row, scope, is_part=True)
        return await self._perform_here(key, work, scope)

    def _replay(self, row: StepRow, scope: Scope, *, is_part: bool) -> WorkflowMessage:
        """Return the message of a kept outcome, or raise its error."""
        with self._recorder.replaying(row, scope.path, is_part=is_part):
            if not is_part:
                scope.write(MessageKept())
            return self._result_of(row.key, self._codec.load(row.outcome or "", Outcome), scope, replayed=True)

    async def _perform_here(
        self, key: str, work: Callable[[], Awaitable[WorkflowMessage]], scope: Scope
    ) -> WorkflowMessage:
        """Do an operator's work in this process, and store its outcome."""
        with self._recorder.recorded(key) as keep:
            before, scope.kept = scope.kept, []
            try:
                outcome = await outcome_of_work(work, scope)
            finally:
                scope.kept = before
            try:
                text = await in_thread(self._codec.dump, outcome)
            except InputError as error:  # the operator's message cannot be stored
                outcome = Outcome(error=error, usage=outcome.usage)
                text = self._codec.dump(outcome)
            try:
                await keep(text)
            except OperadError as error:
                self.unstored = error
                raise
        return self._result_of(key, outcome, scope, replayed=False)

    async def _perform_in_worker(
        self, remote: RemoteExecutor, key: str, node: Node, call: OperatorCall, scope: Scope
    ) -> WorkflowMessage:
        """Have a worker do an operator's work."""
        step_id = f"{self.run_id}:{key}"
        text = await remote.outcome_of(step_id, node, call, scope)
        outcome = await in_thread(self._codec.load, text, Outcome)
        error = outcome.error
        if isinstance(error, BudgetError) or (error and lacks_deps(error)):  # the resumed run may execute it again
            await remote.forget(step_id)
        return self._result_of(key, outcome, scope, replayed=True)

    def _result_of(self, key: str, outcome: Outcome, scope: Scope, *, replayed: bool) -> WorkflowMessage:
        """Return the message of an outcome, or raise its error; write its events and usage if it is `replayed`."""
        if replayed:
            with repeating(Repeat(outcome.traced)):
                for event in outcome.events:
                    if isinstance(event, InsightsRecalled) and isinstance(scope.run.insights, RunInsights):
                        event = replace(event, store=scope.run.insights.store.id)  # each process has another store id
                    scope.write(event)
                    scope.attempt += isinstance(event, OperatorRetried)
            if outcome.exchange is not None:
                scope.traced().exchange = outcome.exchange
            if outcome.usage != NO_USAGE:
                scope.charge(outcome.usage)
        if outcome.error is not None:
            self.failed.append((outcome.error, key))
            raise outcome.error
        assert outcome.message is not None  # noqa: S101 - an outcome has an error or a message
        self._done.add("/".join(bare(key)[0]))
        return outcome.message

    # Parts

    async def parts(self, scope: Scope) -> Mapping[str, str]:
        """See `StepJournal.parts`."""
        key = key_of(scope)
        if key not in self._parts:
            self._parts[key] = await in_thread(self._store.parts, self.run_id, key) if self._is_resumed else {}
            if self._parts[key]:
                self._recorder.has_parts(key)
        return self._parts[key]

    async def keep_part(self, scope: Scope, name: str, value: str) -> None:
        """See `StepJournal.keep_part`."""
        if (part := kept_part(self.run_id, key_of(scope), name, value)) is None:
            return
        try:
            await self._recorder.keep_part(part)
        except OperadError as error:
            self.unstored = error
            raise

    # Questions

    async def asked_before(self, scope: Scope) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """See `StepJournal.asked_before`."""
        return await asked_before(self._store, self.run_id, key_of(scope))

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """See `StepJournal.answer_to`."""
        known = await in_thread(self._store.ask, kept_question(self.run_id, key_of(scope), question))
        return None if known is None else (json.loads(known),)

    async def keep_answer(self, question: Question, value: JsonValue, scope: Scope, by: str) -> JsonValue:
        """See `StepJournal.keep_answer`."""
        if await in_thread(self._store.answer, self.run_id, key_of(scope), question.id, json.dumps(value), by):
            return value
        kept = await self.answer_to(question, scope)
        return value if kept is None else kept[0]


def allowed_before(questions: Sequence[StoredQuestion]) -> set[tuple[str, str]]:
    """Return the tools that people have allowed for the rest of a run, each with its pin; see `approve`."""
    asked = (question_of(each) for each in questions if each.answer == '"always"')
    return {(each.tool, str((each.schema_ or {})[APPROVAL].get("pin", ""))) for each in asked if each.tool is not None}


def kept_part(run_id: str, key: str, name: str, value: str) -> PartRow | None:
    """Return a part of an operator's work in the form in which it is stored; None if it is too long."""
    if len(value) <= MAX_TEXT:
        return PartRow(run_id, key, name, value)
    _logger.warning("%s:%s: %s would be done again: it has %d characters", run_id, key, name, len(value))
    return None


def kept_question(run_id: str, key: str, question: Question) -> StoredQuestion:
    """Return a question in the form in which it is stored."""
    text, schema, tool_call = content_of(question)
    return StoredQuestion(run_id, key, question.id, text, schema, tool_call=tool_call)


async def asked_before(store: Store, run_id: str, key: str) -> Sequence[tuple[str, tuple[str, str, str]]]:
    """Return the ids and contents of an operator's stored questions."""
    stored = [each for each in await in_thread(store.questions, run_id) if each.step == key]
    return [(each.id, (each.text, each.schema, each.tool_call)) for each in stored]


async def outcome_of_work(work: Callable[[], Awaitable[WorkflowMessage]], scope: Scope) -> Outcome:
    """Run an operator's work, and return its outcome: a message or an error.

    Args:
        work: Function that does the work.
        scope: Context of the work; events of the scope become part of the outcome.

    Raises:
        BudgetError: The run exceeded its budget. This is not stored as an outcome.
        MissingDepsError: The run was not given its deps. This is not stored either.
    """
    used = scope.usage
    try:
        message, failure = await work(), None
    except BudgetError:
        raise
    except Exception as error:
        if lacks_deps(error):
            raise
        message, failure = None, error
    exchange = scope.trace.exchange if scope.trace and message is not None else None
    return Outcome(message, failure, _usage_since(scope, used), tuple(scope.kept or ()), traced.get(), exchange)


def _usage_since(scope: Scope, used: Any) -> Any:
    """Return the usage added to the scope since `used`."""
    now = scope.usage
    if used == NO_USAGE:
        return now
    return type(now)(**{name: getattr(now, name) - getattr(used, name) for name in type(now).model_fields})
