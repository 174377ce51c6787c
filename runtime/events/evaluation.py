"""Events of rounds and verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from operad.runtime.events.types import Event
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowStatus


class RoundStarted(Event, frozen=True, kw_only=True):
    """A round begins: the listed operators run, all others keep their results."""

    operators: tuple[str, ...]


class RoundFinished(Event, frozen=True, kw_only=True):
    """A round was judged.

    Attributes:
        by_error: True if an operator's error ended the round, rather than a verdict.
        has_result: True if the round has a result, which may become the result of the run.
        repairs: Places of the operators that run again first in the next round, with the reason if the verdict does not
            blame them.
    """

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    unsure: tuple[str, ...] = ()
    score: float | None = None
    by_error: bool = False
    has_result: bool = True
    repairs: Mapping[str, str] = {}

    @property
    def accepted(self) -> bool:
        """True if the round was not rejected."""
        return self.status is WorkflowStatus.SUCCESS


class OperatorKept(Event, frozen=True, kw_only=True):
    """An operator that could have run again in a round keeps its message, because its input did not change."""


class EvidenceCut(Event, frozen=True, kw_only=True):
    """An evaluator was shown only a part of the work of some operators, because all of it is too long for its model.

    Attributes:
        operators: Ids of these operators, in the order of the graph.
        characters: Number of characters that were left out.
    """

    operators: tuple[str, ...]
    characters: int


class BlameUnknown(Event, frozen=True, kw_only=True):
    """A verdict blames operators that do not exist; `blame` is their names, each with the nearest known one.

    If no existing operator is blamed, all operators run again.
    """

    blame: str
