"""Workflows of recorded operators: an evaluator judges a finished run as if it were part of the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from operad.runtime.events import current_scope
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import Function, Port
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.places import place_of
from operad.runtime.workflow.workflow import BuiltinWorkflow


class RecordedOperator(BaseOperator[Any]):
    """Operator that returns its recorded message, and leaves the trace of its work for evaluators.

    Args:
        record: The record of the operator.
        operator: The operator of which it is a record; None if it is not known.
        recorded: The records of the operators inside it.
    """

    asks_model = False

    def __init__(
        self, record: StepRecord, operator: BaseOperator | None = None, recorded: Sequence[StepRecord] = ()
    ) -> None:
        self.record = record
        self.recorded = recorded
        self._operator = operator
        self.takes_one_port = operator is not None and operator.takes_one_port
        self.gives_items = operator is not None and operator.gives_items

    def get_id(self) -> str:
        """Return the id of the operator."""
        return self.record.operator_id

    @property
    def instruction(self) -> str:
        """Purpose of the operator."""
        return self.record.instruction or (self._operator.instruction if self._operator else "")

    @property
    def has_tools(self) -> bool:
        """True if the operator has tools."""
        return self.record.tool_calls is not None or (self._operator is not None and self._operator.has_tools)

    @property
    def ports(self) -> Sequence[str]:
        """The ports of the operator."""
        return self._operator.ports if self._operator else ()

    @property
    def answer_type(self) -> Any:
        """Type of the operator's answers; None if unknown."""
        return self._operator.answer_type if self._operator else None

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the operator."""
        return (self._operator.read_output if self._operator else super().read_output)(message)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Return the recorded message.

        Raises:
            InputError: The operator has no recorded message.
        """
        record, scope = self.record, current_scope()
        if record.skipped:
            raise InputError(f"operator {record.operator_id!r} has no recorded answer: {record.skipped}")
        if scope is not None and (record.tool_calls or record.calls_missing or record.passages):
            trace = scope.traced()
            trace.calls, trace.calls_missing = [*(record.tool_calls or ())], record.calls_missing
            trace.passages = record.passages
        return record.message.changed(usage=NO_USAGE)  # the calls of the recorded run cost nothing now


def recorded_workflow(
    records: Sequence[StepRecord],
    evaluators: Sequence[Executable | Function],
    graph: WorkflowGraph | None = None,
    *,
    name: str = "recorded",
) -> BuiltinWorkflow:
    """Return a workflow that runs evaluators on the recorded operators of a run, with the ids and edges of the run.

        judged = recorded_workflow(result.transcript, [Evaluator("The answer is polite.")], flow.graph())
        print(judged.run("Write to Tom.").evaluation)

    Args:
        records: Records of the operators; of operators inside of others, those of the outermost suffice.
        evaluators: The evaluators.
        graph: The graph of the workflow that ran; by default, the records say which operators follow each other.
        name: Name of the workflow.
    """
    flow = BuiltinWorkflow(name=name, max_rounds=1)
    operators: Mapping[str, BaseOperator] = graph.operators if graph else {}
    own, inner = _by_operator(records, operators)
    steps = {
        each: RecordedOperator(
            own.get(each, StepRecord(operator_id=each, skipped="it did not run")),
            operators.get(each),
            inner.get(each, ()),
        )
        for each in operators or own
    }
    for each, step in steps.items():
        before: Mapping[str, Any] = graph.before.get(each, {}) if graph else dict.fromkeys(step.record.before)
        previous: list[Any] = []
        for parent, ports in before.items():
            previous += [Port(steps[parent], port) for port in ports] if ports else [steps.get(parent, parent)]
        flow.add_operator(step, previous, join=graph.joins.get(each) if graph else None)
    for evaluator in evaluators:
        flow.add_evaluator(evaluator)
    return flow


def _by_operator(
    records: Sequence[StepRecord], operators: Collection[str]
) -> tuple[dict[str, StepRecord], dict[str, list[StepRecord]]]:
    """Return the records of operators, and those of the operators inside of each, by id."""
    known = operators or [record.operator_id for record in records if "/" not in record.operator_id]
    own: dict[str, StepRecord] = {}
    inner: dict[str, list[StepRecord]] = {}
    for record in records:
        place = place_of(record.operator_id, known)
        if record.operator_id in known:
            own[record.operator_id] = record
        elif place is not None:
            inner.setdefault(place.operator, []).append(record.model_copy(update={"changed": False}))
    return own, inner


def graph_issues(case: str, records: Sequence[StepRecord], graph: WorkflowGraph | None) -> list[Issue]:
    """Return the issues of the records of a labelled case: operators that are missing, unknown, or not connected."""
    ids = [record.operator_id for record in records]
    if not ids:
        return [Issue("steps", "has no answers of operators; write them under steps, by the operators' ids", case)]
    if graph is not None:
        unknown = [each for each in ids if place_of(each, graph.operators) is None]
        return [Issue("steps", f"the workflow has no operator {each!r}", case) for each in unknown]
    known = set(ids)
    return [
        Issue("steps", f"operator {record.operator_id!r} follows {parent!r}, which has no answer", case)
        for record in records
        for parent in record.before
        if parent not in known
    ]
