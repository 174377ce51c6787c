"""Repeated attempts at an answer: until it fits or, if it was rejected, in the conversation that led to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

from operad.runtime.models.messages import Message
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import fence
from operad.runtime.values.value import Record


class Exchange(Record):
    """Conversation with a model that ended with an answer.

    Attributes:
        messages: The messages, with tool calls and their results; the last one is the answer.
        results: Whole texts of the results of tools, of which the messages may show a part, by the ids of the calls.
    """

    messages: tuple[Message, ...]
    results: Mapping[str, str] = {}


class Rejection(Record):
    """Rejected answer of an operator, which gives a better one in the next round.

    Attributes:
        faults: Faults of the answer. Those that are not `sure` may be those of other operators.
        exchange: Conversation that led to the answer; None if it is not kept, or if what the operator receives has
            changed since.
        verdict: The verdict of an evaluator of the operator's workflow, whose outputs an operator in code may read; None if
            the answer was rejected by an error, or by a workflow around that of the operator.
    """

    answer: WorkflowMessage
    faults: tuple[Fault, ...] = ()
    exchange: Exchange | None = None
    verdict: WorkflowMessage | None = None

    _indifferent: ClassVar[frozenset[str]] = frozenset({"exchange"})


def rejection_text(faults: Sequence[Fault]) -> str:
    """Return what a model is told about its rejected answer, in the conversation that led to the answer."""
    if any(fault.sure for fault in faults):
        head = "Your answer was rejected."
        end = "Keep everything else as it is, and give your whole answer again, in the same form."
    else:
        head = (
            "The result that rests on your answer was rejected, and the fault may have begun with your answer. Check your "
            "answer against what you were given."
        )
        end = (
            "If your answer is wrong, give it again as a whole, corrected, in the same form. If it is right, repeat it "
            "unchanged."
        )
    return "\n\n".join([head, *map(_fault_text, faults), end])


def _fault_text(fault: Fault) -> str:
    lines = [
        f"Wrong:\n{fence(fault.wrong)}" if fault.wrong else "",
        f"Right:\n{fence(fault.right)}" if fault.right else "",
        fault.lesson,
    ]
    return "\n".join(filter(None, lines))


T = TypeVar("T")


class UnfitError(Exception):
    """An answer does not fit; the text says why, for the next attempt."""


async def until_fit(attempt: Callable[[str], Awaitable[T]], tries: int, fault: str = "") -> T:
    """Return the result of the first attempt whose answer fits.

    Args:
        attempt: Function that asks, and reads the answer. It is given the fault of the answer before, and raises
            `UnfitError` for an answer that does not fit. Other errors end the attempts.
        tries: Maximum number of attempts.
        fault: Fault of an answer before the first attempt; empty if there is none.

    Raises:
        UnfitError: No attempt gave an answer that fits; the text is the fault of the last one.
    """
    for _ in range(tries):
        try:
            return await attempt(fault)
        except UnfitError as unfit:
            fault = str(unfit) or "it does not fit"  # an empty fault stands for the first attempt
    raise UnfitError(fault)
