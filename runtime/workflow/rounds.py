"""Rounds of a run as a pure state machine: the best round, what is repaired in the next one, and the end of the run.

A run, and a durable run that is resumed over its kept outcomes, use the same transitions:

| state | event | next state |
|---|---|---|
| any | a round begins | the number is one higher |
| a round is in progress | a verdict of EXECUTION_ERROR, rounds are left | `repairs` are the faults to repair next |
| a round is in progress | another verdict, or no rounds are left | over |
| a round is in progress | a verdict at least as good as the best | this round is the best |

The faults to repair follow from the verdict:

| verdict | operators that run again first |
|---|---|
| blames operators | these |
| blames an operator that was repaired in the round before, too | also its predecessors, which are suspected; those of these in the round after |
| blames no operator | the first operator whose work the evaluator did not see whole; otherwise all: suspected |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from operad.runtime.events import RoundFinished
from operad.runtime.values.fault import Fault, blamed_by
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.verdict import faults_of, place_of

AGAIN = "an operator after it was at fault again"
CUT = "no operator was blamed, and the evaluator did not see all of its work"
NO_BLAME = "no operator was blamed"


class Rounds(Struct, frozen=True):
    """State of the rounds of a run.

        state = Rounds(max_rounds=3).begun().judged(verdict)

    Attributes:
        max_rounds: Maximum number of rounds.
        number: Number of the last round that began, counted from 1; 0 before the first.
        best: Verdict on the best round so far; None if no round had a result.
        repairs: Faults to repair in the next round, each with the place of an operator.
        reasons: Reasons for which operators that the verdict does not blame run again, by their places.
        repaired: Number of rounds in a row, up to now, whose verdict blamed a place.
        is_over: True if no further round follows.
    """

    max_rounds: int = 1
    number: int = 0
    best: WorkflowMessage | None = None
    best_round: int = 0
    repairs: tuple[Fault, ...] = ()
    reasons: Mapping[str, str] = {}
    repaired: Mapping[str, int] = {}
    is_over: bool = False

    def begun(self) -> Rounds:
        """Return the state after another round has begun."""
        return replace(self, number=self.number + 1)

    def judged(
        self,
        verdict: WorkflowMessage,
        known: Collection[str] = (),
        before: Mapping[str, Sequence[str]] = {},
        *,
        has_result: bool = True,
        is_final: bool = False,
        cut: Sequence[str] = (),
    ) -> Rounds:
        """Return the state after a verdict on the current round.

        Args:
            known: Ids of the operators and evaluators; faults elsewhere are left out.
            before: The operators that have run, in the order of the graph, each with its direct predecessors.
            has_result: True if the round had a result; False if an operator's error ended it.
            is_final: True if no further round can help.
            cut: Operators of which the evaluator was shown a part only, in the order of the graph.
        """
        is_over = is_final or verdict.status is not WorkflowStatus.EXECUTION_ERROR or self.number >= self.max_rounds
        is_best = (has_result or is_over) and (self.best is None or (has_result and _rank(verdict) >= _rank(self.best)))
        best, best_round = (verdict, self.number) if is_best else (self.best, self.best_round)
        state = replace(self, best=best, best_round=best_round, is_over=is_over, repairs=(), reasons={})
        if is_over:
            return state
        faults = [fault for fault in faults_of(verdict) if place_of(fault.place, known)]
        if not faults:
            repairs, reasons = _suspects(verdict, [place for place in before if place in known], cut)
            return replace(state, repairs=repairs, reasons=reasons, repaired={})
        repaired = {place: self.repaired.get(place, 0) + 1 for place in blamed_by(faults)}
        repairs, reasons = _widened(faults, repaired, before)
        return replace(state, repairs=repairs, reasons=reasons, repaired=repaired)


def finished(verdict: WorkflowMessage, state: Rounds, *, by_error: bool, has_result: bool) -> RoundFinished:
    """Return the event of a round that ended with a verdict, and with a state."""
    return RoundFinished(
        status=verdict.status,
        evaluation=verdict.evaluation,
        lesson=verdict.lesson,
        blame=tuple(verdict.blame),
        faults=verdict.faults,
        unsure=verdict.unsure,
        score=verdict.score,
        by_error=by_error,
        has_result=has_result,
        repairs=state.reasons,
    )


def _widened(
    faults: Sequence[Fault], repaired: Mapping[str, int], before: Mapping[str, Sequence[str]]
) -> tuple[tuple[Fault, ...], Mapping[str, str]]:
    """Return faults to repair: those found, and those of the predecessors of what was repaired in vain."""
    repairs, reasons, blamed = [*faults], dict[str, str](), set(blamed_by(faults))
    for fault in faults:
        places = {fault.place}
        for _ in range(repaired[fault.place] - 1):
            places = {parent for place in places for parent in _predecessors(place, before)}
            for place in sorted(places - blamed - reasons.keys()):
                reasons[place] = AGAIN
                repairs.append(fault.model_copy(update={"operator": place, "item": None, "sure": False}))
    return tuple(repairs), reasons


def _predecessors(place: str, before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the predecessors of a place that have run; those of the operator around it, if its own are not known."""
    found = place
    while found and found not in before:
        around, _, step = found.rpartition("/")
        found = found.removesuffix(step) + whole if (whole := without_index(step)) != step else around
    return [parent for parent in before.get(found, ()) if parent in before]


def _suspects(
    verdict: WorkflowMessage, operators: Sequence[str], cut: Sequence[str]
) -> tuple[tuple[Fault, ...], Mapping[str, str]]:
    """Return the faults to repair after a verdict that blames no operator."""
    suspects, reason = (cut[:1], CUT) if cut else (operators, NO_BLAME)
    lesson = verdict.lesson or verdict.evaluation
    sure = len(suspects) == 1 and not cut
    faults = tuple(Fault(operator=place, lesson=lesson, sure=sure) for place in suspects)
    return faults, dict.fromkeys(suspects, reason)


def _rank(verdict: WorkflowMessage) -> tuple[int, float]:
    """Return the rank of a verdict: by its status, then by its score."""
    return verdict.status.priority, float("-inf") if verdict.score is None else verdict.score
