"""Outcomes of operators that later rounds keep, if what the operators receive has not changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic_core import to_jsonable_python

from operad.runtime.events.trace import Trace
from operad.runtime.graph.build import Build
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.schedule import Skip
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.places import place_of


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
        return self.inputs is not None and same_messages(self.inputs, inputs)


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
            and same_messages(self.call.messages, call.messages)
            and same_messages(self.call.previous, call.previous)
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


def same_messages(first: Sequence[WorkflowMessage], second: Sequence[WorkflowMessage]) -> bool:
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
