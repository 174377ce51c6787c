"""Operators of a kept run: their outcomes, and the moments at which they began and ended."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.run_owner import text_of
from operad.runtime.durable.store import Store
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operad.runtime.durable.rows import KeptQuestion


def outcome_of(step: WorkflowStatus) -> Outcome:
    """Return the outcome of an operator for display; an unreadable one becomes an error."""
    try:
        return Codec().load(text_of(step.output, step.workflow_id), Outcome)
    except InputError as error:
        return Outcome(error=error)


def kept_step(key: str, row: WorkflowStatus) -> KeptStep:
    """Return an operator of a run."""
    outcome = outcome_of(row) if row.status == "SUCCESS" else None
    ended = (row.completed_at or row.updated_at or 0) / 1000 if outcome else 0.0
    return KeptStep(key, outcome, _began(row), ended, waits=row.status == "ENQUEUED")


def _began(row: WorkflowStatus) -> float:
    """Return the start of an operator, to the millisecond; in SQLite, its request holds the time unless a worker took it."""
    noted = row.dequeued_at or row.created_at or 0
    if row.queue_name is None and noted % 1000 == 0 and row.input:
        with suppress(ValueError, TypeError, LookupError):  # not written by Operad
            began = float(row.input["args"][0])
            if abs(began - noted / 1000) <= 1:
                return began
    return noted / 1000


_AT_ONCE = 500
"""Number of operators that are read or deleted in one statement."""


@dataclass(frozen=True, slots=True)
class KeptStep:
    """Kept record of an operator's work in a run.

    Attributes:
        key: Key of the work in the run.
        outcome: Its outcome; None until it is finished.
        began: Time at which it began or, while it waits, was put into a queue; seconds since the epoch.
        ended: Time at which it finished; 0 until then.
        waits: True while it waits in a queue.
    """

    key: str
    outcome: Outcome | None
    began: float = 0.0
    ended: float = 0.0
    waits: bool = False

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 until it is finished."""
        return max(0.0, self.ended - self.began)


def moments(
    steps: Sequence[KeptStep], questions: Sequence[KeptQuestion]
) -> Iterator[tuple[float, KeptStep | KeptQuestion, bool]]:
    """Times at which steps and questions began and ended, in order, with a flag for a beginning.

    At the same time, steps end before others begin, since the latter follow from the former. Times of steps are whole
    milliseconds, those of questions are not: questions of a step are kept between its beginning and its end.
    """
    moments: list[tuple[float, int, int, int, KeptStep | KeptQuestion, bool]] = []
    places = {step.key: place for place, step in enumerate(steps)}
    for place, step in enumerate(steps):
        at_once = _is_at_once(step)
        if not step.waits:
            moments.append((step.began, 1 if at_once else 2, place, 0, step, True))
        if step.outcome is not None:
            moments.append((max(step.began, step.ended), 1 if at_once else 0, place, 2, step, False))
    for question in questions:
        place = places.get(question.step, len(steps))
        step = steps[place] if place < len(steps) else None
        asked, order = _within(question.asked, step)
        moments.append((asked, order, place, 1, question, True))
        if question.answer is not None:
            answered, order = _within(max(question.asked, question.answered), step)
            moments.append((answered, order, place, 1, question, False))
    for at, _, _, _, what, is_beginning in sorted(moments, key=lambda moment: moment[:4]):
        yield at, what, is_beginning


def _is_at_once(step: KeptStep) -> bool:
    return step.outcome is not None and step.ended <= step.began


def _within(at: float, step: KeptStep | None) -> tuple[float, int]:
    """Return the time of a question moved between the beginning and the end of its step, and its order at that time."""
    if step is None or step.waits:
        return at, 3
    at = max(at, step.began)
    if step.outcome is None or at < step.ended:
        return at, 3
    return max(step.began, step.ended), 1 if _is_at_once(step) else 0


def batched(items: Sequence[str], most: int = _AT_ONCE) -> Iterator[list[str]]:
    """Yield slices of a list, to limit the length of statements."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


def step_rows(
    store: Store, client: DBOSClient, run_id: str, step_ids: Sequence[str], *, load_output: bool = False, **only: Any
) -> Iterator[tuple[str, WorkflowStatus]]:
    """Yield dbos's rows of a run's operators, by key, in order of their beginning."""
    what = {"load_input": False, "load_output": load_output, **only}
    found = [
        step
        for these in batched(step_ids)
        for step in store.insist(partial(client.list_workflows, workflow_ids=these, **what))
    ]
    for step in sorted(found, key=lambda step: step.created_at or 0):
        yield step.workflow_id[len(run_id) + 1 :], step
