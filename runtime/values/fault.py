"""Verdict on a result: its status, and its faults with the operators in which they began."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cached_property

from operad.runtime.values.base_errors import did_you_mean
from operad.runtime.values.value import Value


class WorkflowStatus(str, Enum):
    """Verdict on a run (Chat2Graph, Workflow module, section 2.3), in falling priority.

        result = flow.run("Is this so? The moon has air.")
        print(result.status is WorkflowStatus.SUCCESS)

    If several apply, the first counts.
    """

    EXECUTION_ERROR = "EXECUTION_ERROR"
    INPUT_DATA_ERROR = "INPUT_DATA_ERROR"
    JOB_TOO_COMPLICATED_ERROR = "JOB_TOO_COMPLICATED_ERROR"
    SUCCESS = "SUCCESS"

    @cached_property
    def priority(self) -> int:
        """Rank of the status if several apply: 0 is the highest."""
        return list(WorkflowStatus).index(self)

    @classmethod
    def _missing_(cls, value: object) -> WorkflowStatus:
        names = [status.value for status in cls]
        raise ValueError(f"{value!r} is not a workflow status{did_you_mean(str(value), names)}: use {', '.join(names)}")


class Fault(Value):
    """Fault in the result of an operator, as found by an evaluator.

        fault = Fault(operator="sums", item=3, wrong="total 174.30", right="total 149.40", lesson="Six pieces, not seven.")
        print(fault.place)  # sums[3]

    Attributes:
        operator: Id of the operator; that of an operator in a nested workflow follows the id of the workflow, as in
            ``draft/body``.
        item: Index of the item, counted from 0, if the operator is a map and only this item is at fault.
        wrong: The wrong text, quoted.
        right: What would be right.
        lesson: Advice for the operator.
        sure: False if the operator is only suspected.
    """

    operator: str
    item: int | None = None
    wrong: str = ""
    right: str = ""
    lesson: str = ""
    sure: bool = True

    @property
    def place(self) -> str:
        """The operator with the index of the item: ``sums[3]``, ``draft/body``, or ``facts``."""
        return self.operator if self.item is None else f"{self.operator}[{self.item}]"

    @property
    def advice(self) -> str:
        """The lesson; without one, what would be right."""
        return self.lesson or self.right


def blamed_by(faults: Iterable[Fault]) -> tuple[str, ...]:
    """Return the places of faults, each once."""
    return tuple(dict.fromkeys(fault.place for fault in faults))


def lesson_of(faults: Iterable[Fault]) -> str:
    """Return the advice of faults as one text, a line for each, without repetitions."""
    return "\n".join(dict.fromkeys(fault.advice for fault in faults if fault.advice))
