"""Operators of a stored run, for display."""

from __future__ import annotations

from dataclasses import dataclass

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.outcome import Outcome
from operad.runtime.durable.rows import StepRow
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


def kept_step(row: StepRow) -> StoredStep:
    """Return an operator of a run for display; an outcome that cannot be read is shown as an error."""
    outcome = None
    if row.outcome is not None:
        try:
            outcome = Codec().load(row.outcome, Outcome)
        except InputError as error:
            outcome = Outcome(error=error)
    return StoredStep(row.key, outcome, row.began, row.ended if outcome else 0.0, waits=row.status == "ENQUEUED")
