"""Fault: one wrong part of a result, and the operator with which it began."""

from __future__ import annotations

from collections.abc import Iterable

from operad.runtime.values.value import Value


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
