"""Operators of a kept run: their outcomes, and the moments at which they began and ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.outcome import Outcome
from operad.runtime.durable.rows import StepRow, StoredQuestion
from operad.runtime.values.errors import InputError


@dataclass(frozen=True, slots=True)
class StoredStep:
    """Stored record of an operator's work in a run.

    Attributes:
        key: Key of the work in the run.
        outcome: Outcome of the work; None until it has finished.
        began: Time at which the work started or, while it waits, was put into a queue; in seconds since the epoch.
        ended: Time at which the work finished; 0 until then.
        waits: True while the work waits in a queue.
    """

    key: str
    outcome: Outcome | None
    began: float = 0.0
    ended: float = 0.0
    waits: bool = False

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 until the work has finished."""
        return max(0.0, self.ended - self.began)


def moments(
    steps: Sequence[StoredStep], questions: Sequence[StoredQuestion]
) -> Iterator[tuple[float, StoredStep | StoredQuestion, bool]]:
    """Yield the times at which steps and questions began and ended, in order; the flag is True for a beginning.

    At equal times, steps end before others begin, because the end of a step can cause the beginning of another. Times
    of workers' steps are whole milliseconds, but those of questions are not, so questions of a step are moved between
    its beginning and its end.
    """
    moments: list[tuple[float, int, int, int, StoredStep | StoredQuestion, bool]] = []
    indices = {step.key: index for index, step in enumerate(steps)}
    for index, step in enumerate(steps):
        no_duration = _has_no_duration(step)
        if not step.waits:
            moments.append((step.began, 1 if no_duration else 2, index, 0, step, True))
        if step.outcome is not None:
            moments.append((max(step.began, step.ended), 1 if no_duration else 0, index, 2, step, False))
    for question in questions:
        index = indices.get(question.step, len(steps))
        step = steps[index] if index < len(steps) else None
        asked, order = _within(question.asked, step)
        moments.append((asked, order, index, 1, question, True))
        if question.answer is not None:
            answered, order = _within(max(question.asked, question.answered), step)
            moments.append((answered, order, index, 1, question, False))
    for at, _, _, _, record, is_beginning in sorted(moments, key=lambda moment: moment[:4]):
        yield at, record, is_beginning


def _has_no_duration(step: StoredStep) -> bool:
    return step.outcome is not None and step.ended <= step.began


def _within(at: float, step: StoredStep | None) -> tuple[float, int]:
    """Return the time of a question, moved between the start and the end of its step, and its order at that time."""
    if step is None or step.waits:
        return at, 3
    at = max(at, step.began)
    if step.outcome is None or at < step.ended:
        return at, 3
    return max(step.began, step.ended), 1 if _has_no_duration(step) else 0


def kept_step(row: StepRow) -> StoredStep:
    """Return an operator of a run for display; an outcome that cannot be read is shown as an error."""
    outcome = None
    if row.outcome is not None:
        try:
            outcome = Codec().load(row.outcome, Outcome)
        except InputError as error:
            outcome = Outcome(error=error)
    return StoredStep(row.key, outcome, row.began, row.ended if outcome else 0.0, waits=row.status == "ENQUEUED")
