"""Outcomes of operators, and their records, as evaluators see them, also of operators inside of others.

Later rounds keep an outcome if what the operator receives has not changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic_core import to_jsonable_python

from operad.runtime.events import current_scope
from operad.runtime.events.context import Trace
from operad.runtime.graph.build import Build
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.schedule import Skip
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.verdict import place_of


def records_of(
    build: Build, done: Mapping[int, Done], skipped: Mapping[int, str], changed: Collection[int] = ()
) -> list[StepRecord]:
    """Return the records of the operators of a workflow that ran or were skipped, in the order of the graph.

    The records of operators inside an operator follow its own; their ids are their places, such as ``draft/body``.

    Args:
        done: Outcomes of operators, by number.
        skipped: Reasons for which operators were skipped, by number.
        changed: Operators whose message has changed since the last verdict.
    """
    records: list[StepRecord] = []
    for node in range(build.first_evaluator):
        if recorded := build.nodes[node].operator.recorded:
            records += recorded
            continue
        outcome = done.get(node)
        if outcome is None and node not in skipped:
            continue
        record = _record(build, node, outcome, skipped.get(node, ""), is_changed=node in changed)
        records.append(record)
        inner = outcome.trace.inner if outcome and outcome.trace else {}
        for step, run in sorted(inner.items(), key=lambda each: (len(each[0]), each[0])):
            records += _inside(run, step, record)
    return records


def _record(build: Build, node: int, outcome: Done | None, skipped: str, *, is_changed: bool) -> StepRecord:
    ids, trace = build.plan.ids, outcome and outcome.trace
    has_tools = build.nodes[node].has_tools
    fields = {"message": outcome.message} if outcome else {}
    return StepRecord(
        operator_id=ids[node],
        instruction=build.instructions.get(ids[node], ""),
        before=tuple(ids[parent] for parent in build.plan.parents[node]),
        tool_calls=tuple(trace.calls) if trace and trace.calls else () if has_tools and outcome else None,
        calls_missing=trace.calls_missing if trace else "",
        passages=trace.passages if trace else (),
        skipped=skipped,
        changed=is_changed,
        **fields,
    )


def _inside(run: InnerRun, step: str, around: StepRecord) -> Iterator[StepRecord]:
    """Yield the records of a run inside an operator.

    For an item of a map whose body is one operator, the record has the place of the item; it is left out if the map's
    own record tells all of it.

    Args:
        step: The operator as a step of a path, with the index of a map's item.
    """
    records = records_of(run.build, run.done, dict.fromkeys(run.skipped, "no edge to it was taken"))
    is_item = step != around.operator_id
    if is_item and run.build.first_evaluator == 1:
        records = [
            record.model_copy(update={"operator_id": step, "before": around.before, "instruction": ""})
            for record in records
            if record.tool_calls or record.passages
        ]
        yield from (record.model_copy(update={"changed": around.changed}) for record in records)
        return
    for record in records:
        before = tuple(f"{step}/{parent}" for parent in record.before) or around.before
        place = {"operator_id": f"{step}/{record.operator_id}", "before": before}
        yield record.model_copy(update={**place, "changed": around.changed})


def transcript() -> tuple[StepRecord, ...]:
    """Return the records of the current run's operators, in the order in which the operators were added.

        class Short(Evaluator):
            async def run(self, call: OperatorCall) -> WorkflowMessage:
                total = sum(len(step.message.scratchpad) for step in transcript())
                return WorkflowMessage(evaluation=f"{total} characters", score=min(total / 1000, 1.0))

        print(Workflow(facts >> answer, evaluator=Short("Brief texts.")).run("hello").text)

    With the messages of all operators, not only of the last ones, an evaluator can tell which operator is at fault.
    Operators that did not run, or that run again, are left out. Outside of a run, the transcript is empty.
    """
    scope = current_scope()
    return tuple([step.own() for step in scope.run.transcript()]) if scope else ()


class Done(Struct, frozen=True):
    """Outcome of an operator or an evaluator.

    Attributes:
        inputs: The messages that it received; None if they are not kept.
        trace: Its trace, if there is one.
    """

    message: WorkflowMessage
    inputs: Sequence[WorkflowMessage] | None
    trace: Trace | None

    def received(self, inputs: Sequence[WorkflowMessage]) -> bool:
        """Return True if the operator received the same as now."""
        return self.inputs is not None and _same_messages(self.inputs, inputs)


class InnerRun(Struct, frozen=True):
    """Outcome of a run inside an operator, from which a later round of the workflow around it goes on.

    Attributes:
        done: Outcomes of its operators and evaluators, by number.
        skipped: Operators that did not run.
        lessons: Lessons that the operators have got, by number.
        faults: Faults to repair, as seen from the workflow; one without an operator is a fault of the whole workflow.
    """

    build: Build
    call: OperatorCall
    message: WorkflowMessage
    done: Mapping[int, Done]
    skipped: Mapping[int, Skip]
    lessons: Mapping[int, tuple[str, ...]]
    faults: tuple[Fault, ...] = ()

    def fits(self, build: Build, call: OperatorCall) -> bool:
        """Return True if a run with this input would do the same."""
        return (
            self.build is build
            and self.call.job.id == call.job.id
            and _same_messages(self.call.messages, call.messages)
            and _same_messages(self.call.previous, call.previous)
        )

    def repairs(self) -> tuple[Fault, ...]:
        """Return the faults to repair, each with the place of an operator: any may be at fault if the whole is."""
        ids = self.build.plan.ids
        within = [fault for fault in self.faults if place_of(fault.place, ids)]
        ran = [ids[node] for node in self.done if node < self.build.first_evaluator]
        suspected = [
            fault.model_copy(update={"operator": operator_id, "item": None, "sure": fault.sure and len(ran) == 1})
            for operator_id in ran
            for fault in self.faults
            if fault not in within
        ]
        return (*within, *suspected)

    def with_faults(self, faults: Sequence[Fault]) -> InnerRun:
        """Return the outcome with faults to repair."""
        return replace(self, faults=tuple(faults))


def _same_messages(first: Sequence[WorkflowMessage], second: Sequence[WorkflowMessage]) -> bool:
    """Return True if two lists of messages say the same."""
    return len(first) == len(second) and all(map(same_answer, first, second))


def same_answer(first: WorkflowMessage, second: WorkflowMessage) -> bool:
    """Return True if two messages say the same, whatever it cost; False if their outputs cannot be compared."""
    if first is second:
        return True
    if (first.operator_id, first.scratchpad, first.ports, first.answer, first.status) != (
        (second.operator_id, second.scratchpad, second.ports, second.answer, second.status)
    ):
        return False
    return first.outputs is second.outputs or _text_of(first.outputs) == _text_of(second.outputs) is not None


def _text_of(outputs: Mapping[str, Any]) -> str | None:
    """Return outputs as JSON text, which distinguishes ``1`` from ``1.0`` and ``true``; None if they have no such form."""
    try:
        return json.dumps(to_jsonable_python(outputs, bytes_mode="base64"), sort_keys=True)
    except Exception:  # noqa: BLE001 - values of users may raise anything
        return None
