"""Rounds of a run as a pure state machine: the round that counts, the lessons, and the end of the run.

A live run, and `history`, which derives the events of a stored run, use the same transitions:

| state | event | next state |
|---|---|---|
| any | a round begins | the number is one higher |
| a round is in progress | a verdict of EXECUTION_ERROR, rounds are left | its lesson is added; the blamed operators run again |
| a round is in progress | another verdict, or no rounds are left | over |
| a round is in progress | a verdict at least as good as the best | this round is the best |
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from operad.runtime.events import RoundFinished
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus

Verdict = WorkflowMessage | RoundFinished
"""Verdict that ends a round: a message of an evaluator, or its event."""


class Rounds(Struct, frozen=True):
    """State of the rounds of a run.

        state = Rounds(max_rounds=3).begun().judged(verdict)

    Attributes:
        max_rounds: Maximum number of rounds.
        number: Number of the last round that began, counted from 1; 0 before the first.
        lessons: Lessons so far, the newest last, each lesson once.
        best: Verdict on the best round so far; None if no round had a result.
        best_round: Number of the best round.
        is_over: True if no further round follows.
    """

    max_rounds: int = 1
    number: int = 0
    lessons: tuple[str, ...] = ()
    best: Verdict | None = None
    best_round: int = 0
    is_over: bool = False

    @property
    def lesson(self) -> str | None:
        """All lessons as one text, for the operators in the next round; None without lessons."""
        return "\n".join(self.lessons) or None

    def begun(self) -> Rounds:
        """Return the state after another round has begun."""
        return replace(self, number=self.number + 1)

    def judged(self, verdict: Verdict, *, has_result: bool = True) -> Rounds:
        """Return the state after a verdict on the current round.

        Args:
            verdict: The verdict.
            has_result: True if the round had a result; False if an operator's error ended it.
        """
        is_best = has_result and (self.best is None or _rank(verdict) >= _rank(self.best))
        is_over = verdict.status is not WorkflowStatus.EXECUTION_ERROR or self.number >= self.max_rounds
        lessons = self.lessons
        if verdict.lesson and not is_over:
            lessons = (*(earlier for earlier in lessons if earlier != verdict.lesson), verdict.lesson)
        best, best_round = (verdict, self.number) if is_best else (self.best, self.best_round)
        return replace(self, lessons=lessons, best=best, best_round=best_round, is_over=is_over)


def finished(verdict: WorkflowMessage, *, by_error: bool, has_result: bool) -> RoundFinished:
    """Return the event of a round that ended with a verdict."""
    return RoundFinished(
        status=verdict.status,
        evaluation=verdict.evaluation,
        lesson=verdict.lesson,
        blame=tuple(verdict.blame),
        score=verdict.score,
        by_error=by_error,
        has_result=has_result,
    )


def at_fault(blame: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the ids of the operators that run again: the known ids that are blamed, or all if there are none."""
    return [operator_id for operator_id in known if operator_id in blame] or list(known)


def _rank(verdict: Verdict) -> tuple[int, float]:
    """Return the rank of a verdict: by its status, then by its score."""
    return verdict.status.priority, float("-inf") if verdict.score is None else verdict.score
