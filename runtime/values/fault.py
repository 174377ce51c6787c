"""Verdict on a result: its status, its faults with the operators in which they began, and its text for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cached_property

from operad.runtime.values.near_names import did_you_mean
from operad.runtime.values.text import short_line, shortened
from operad.runtime.values.value import Value


class WorkflowStatus(StrEnum):
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


NOT_VERIFIED = "Not verified: "
"""Beginning of the line of an evaluation that lists what could not be verified."""

LONGEST_QUOTE = 300
"""Maximum number of characters of a quote, an advice or a statement."""

MOST_FAULTS = 20
"""Maximum number of faults, and of statements, that are listed."""

MOST_CHANGES = 20
"""Maximum number of lines of the difference between two answers."""

LONGEST_CHANGE = 200
"""Maximum number of characters of such a line."""

MOST_COMPARED = 1_000
"""Maximum number of lines of each text that are compared."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")


def status_text(status: WorkflowStatus) -> str:
    """Return a status for people: ``SUCCESS``, or ``rejected (EXECUTION_ERROR)``."""
    return status.value if status is WorkflowStatus.SUCCESS else f"rejected ({status.value})"


def verdict_text(status: WorkflowStatus, evaluation: str) -> str:
    """Return a verdict for people: ``rejected: too long (EXECUTION_ERROR)``, or ``accepted: short enough``."""
    word, name = ("accepted", "") if status is WorkflowStatus.SUCCESS else ("rejected", f" ({status.value})")
    return f"{word}: {evaluation}{name}" if evaluation else f"{word}{name}"


def reason_in(evaluation: str, unsure: Sequence[str]) -> str:
    """Return an evaluation without the line of the statements that could not be verified, which are listed apart."""
    if not unsure:
        return evaluation
    return "\n".join(line for line in evaluation.splitlines() if not line.startswith(NOT_VERIFIED))


def finding_lines(
    faults: Sequence[Fault], blame: Sequence[str], unsure: Sequence[str], repairs: Mapping[str, str]
) -> Iterator[str]:
    """Yield what a verdict found, a line each: the operators at fault with wrong and right text, and what is unsure.

    Args:
        blame: Places of the blamed operators; those without a fault are named alone.
        unsure: Statements that could not be verified.
        repairs: Places of the operators that run again first, with the reason if they are not blamed.
    """
    for fault in faults[:MOST_FAULTS]:
        yield f"{'at fault' if fault.sure else 'suspected'}: {short_line(fault.place, LONGEST_QUOTE)}"
        for name, text in (("wrong", fault.wrong), ("right", fault.right), ("lesson", fault.lesson)):
            if text:
                yield f"  {name}: {short_line(text, LONGEST_QUOTE)}"
    if len(faults) > MOST_FAULTS:
        yield f"… and {len(faults) - MOST_FAULTS:,} more faults"
    places = {fault.place for fault in faults} | {fault.operator for fault in faults}
    if others := [place for place in blame if place not in places]:
        yield f"at fault: {_listed(others)}"
    for statement in unsure[:MOST_FAULTS]:
        yield f"not verified: {short_line(statement, LONGEST_QUOTE)}"
    if len(unsure) > MOST_FAULTS:
        yield f"… and {len(unsure) - MOST_FAULTS:,} more statements that are not verified"
    for reason in dict.fromkeys(filter(None, repairs.values())):
        yield f"runs again, too, because {short_line(reason, LONGEST_QUOTE)}: {_listed([place for place in repairs if repairs[place] == reason])}"


def changed_lines(before: str, after: str) -> list[str]:
    """Return the difference between two texts, at most `MOST_CHANGES` lines; empty if they are equal.

    Lines that are gone begin with ``- ``, new lines with ``+ ``. Long lines are compared sentence by sentence.
    """
    if before == after:
        return []
    old, new = _pieces(before), _pieces(after)
    lines: list[str] = []
    for kind, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            continue
        gone, fresh = old[old_start:old_end], new[new_start:new_end]
        if len(gone) == len(fresh):  # line by line, so that each change is next to what it replaces
            lines += [line for pair in zip(gone, fresh, strict=True) for line in _pair(*pair)]
        else:
            lines += [*(f"- {shortened(line, LONGEST_CHANGE)}" for line in gone)]
            lines += [*(f"+ {shortened(line, LONGEST_CHANGE)}" for line in fresh)]
    more = len(lines) - MOST_CHANGES
    if more > 1:
        return [*lines[: MOST_CHANGES - 1], f"… and {more + 1:,} more changed lines"]
    return lines or ["(only in white space, or after the part that is compared)"]


def _pair(gone: str, fresh: str) -> tuple[str, str]:
    """Return two lines of a difference, both cut so that the first character that differs is shown."""
    same = next((i for i, (a, b) in enumerate(zip(gone, fresh, strict=False)) if a != b), min(len(gone), len(fresh)))
    start = max(0, same - LONGEST_CHANGE // 2) if max(len(gone), len(fresh)) > LONGEST_CHANGE else 0
    ellipsis = "…" * (start > 0)
    old, new = (shortened(ellipsis + text[start:], LONGEST_CHANGE) for text in (gone, fresh))
    return f"- {old}", f"+ {new}"


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for line in text[: MOST_COMPARED * LONGEST_CHANGE].splitlines():
        pieces += [line] if len(line) <= LONGEST_CHANGE else _SENTENCE_END.split(line)
        if len(pieces) >= MOST_COMPARED:
            break
    return [stripped for piece in pieces[:MOST_COMPARED] if (stripped := piece.strip())]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_FAULTS
    shown = ", ".join(short_line(name, LONGEST_QUOTE) for name in names[:MOST_FAULTS])
    return f"{shown} and {more:,} more" if more > 0 else shown
