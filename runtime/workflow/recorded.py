"""Workflows of recorded operators: an evaluator judges a finished run as if it were part of the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.chat2graph import Executable
from operad.runtime.graph.edges import Function, Port
from operad.runtime.graph.operator import BaseOperator, OperatorGraph
from operad.runtime.values.errors import Issue
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.base_workflow import BaseWorkflow
from operad.runtime.workflow.verdict import place_of

LEFT_OUT = "(did not run)"
"""Port of the edges to operators that did not run, which no recorded message takes."""


class RecordedOperator(BaseOperator[Any]):
    """Operator that returns its recorded message; evaluators see its records as those of the run.

    Args:
        recorded: The record of the operator, then those of the operators inside it.
        operator: The operator of which it is a record; None if it is not known.
    """

    asks_model = False

    def __init__(self, recorded: Sequence[StepRecord], operator: BaseOperator | None = None) -> None:
        self.recorded = recorded
        self._operator = operator
        self.gives_items = operator is not None and operator.gives_items

    def get_id(self) -> str:
        """Return the id of the operator."""
        return self.recorded[0].operator_id

    @property
    def instruction(self) -> str:
        """Purpose of the operator."""
        return self.recorded[0].instruction

    @property
    def ports(self) -> Sequence[str]:
        """The ports of the operator, and the one that is never taken."""
        return (*(self._operator.ports if self._operator else ()), LEFT_OUT)

    @property
    def answer_type(self) -> Any:
        """Type of the operator's answers; None if unknown."""
        return self._operator.answer_type if self._operator else None

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the operator."""
        return (self._operator.read_output if self._operator else super().read_output)(message)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Return the recorded message, without the usage of the recorded run, as it costs nothing now."""
        message = self.recorded[0].message
        return message.changed(usage=NO_USAGE, ports=message.ports or ())


def recorded_workflow(
    records: Sequence[StepRecord],
    evaluators: Sequence[Executable | Function],
    graph: OperatorGraph | None = None,
    *,
    name: str = "recorded",
) -> BaseWorkflow:
    """Return a workflow that runs evaluators on the recorded operators of a run, with the ids and edges of the run.

        judged = recorded_workflow(records, [Evaluator("The answer is polite.")], flow.graph())
        print(judged.run("Write to Tom.").evaluation)

    Args:
        records: Records of the operators, also of those that did not run, and of those inside of others.
        graph: The graph of the workflow that ran; by default, the records say which operators follow each other.
    """
    flow = BaseWorkflow(name=name, max_rounds=1, engine="builtin")
    operators: Mapping[str, BaseOperator] = graph.operators if graph else {}
    own, inner = _by_operator(records, operators)
    before: Mapping[str, Mapping[str, Any]] = (
        graph.before if graph else {key: dict.fromkeys(record.before) for key, record in own.items()}
    )
    steps = {
        key: RecordedOperator(
            [_completed(key, own.get(key), operators.get(key), tuple(before[key])), *inner.get(key, ())],
            operators.get(key),
        )
        for key in operators or own
    }
    for key, step in steps.items():
        previous: list[Any] = []
        for parent, ports in before[key].items():
            if steps[parent].recorded[0].skipped and not step.recorded[0].skipped:
                continue  # it ran without that one
            taken = {LEFT_OUT} if step.recorded[0].skipped else ports
            previous += [Port(steps[parent], port) for port in taken] if taken else [steps[parent]]
        flow.add_operator(step, previous)
    for evaluator in evaluators:
        flow.add_evaluator(evaluator)
    return flow


def _completed(
    key: str, record: StepRecord | None, operator: BaseOperator | None, before: tuple[str, ...]
) -> StepRecord:
    """Return the record of an operator with what is known from the workflow; of one without a record, that it did not run."""
    found = record or StepRecord(operator_id=key, skipped="it did not run")
    changes: dict[str, Any] = {"changed": False, "before": found.before or before}
    if operator is not None:
        changes["instruction"] = found.instruction or operator.instruction
        if found.tool_calls is None and operator.has_tools and not found.skipped:
            changes["tool_calls"] = ()
    return found.model_copy(update=changes)


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


def graph_issues(case: str, records: Sequence[StepRecord], graph: OperatorGraph | None) -> list[Issue]:
    """Return the issues of the records of a labelled case: operators that are missing, unknown, or not connected."""
    ids = [record.operator_id for record in records]
    if not ids:
        return [Issue("steps", "has no answers of operators; write them under steps, by the operators' ids", case)]
    if graph is not None:
        unknown = [each for each in ids if place_of(each, graph.operators) is None]
        return [Issue("steps", f"the workflow has no operator {each!r}", case) for each in unknown]
    known = set(ids)
    return [
        Issue(
            "steps",
            f"operator {record.operator_id!r} follows {parent!r}, which has no answer; if it did not run, write "
            f"{parent}: {{skipped: it did not run}}",
            case,
        )
        for record in records
        for parent in record.before
        if parent not in known
    ]
