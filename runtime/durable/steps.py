"""Operators of stored runs: their records and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.database import Database
from operad.runtime.durable.rows import DONE, UNDER_WAY, StepRow, text_of
from operad.runtime.durable.tables import Tables
from operad.runtime.durable.work_table import WorkTable
from operad.runtime.values.errors import InputError

AT_ONCE = 500
"""Maximum number of operators that are read or deleted in one statement."""


class StepTable:
    """Records of operators of runs, which are in one table if drivers executed them, and in another if workers do."""

    def __init__(self, database: Database, tables: Tables, work: WorkTable) -> None:
        self.database = database
        self._tables = tables
        self._work = work

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators of a run, in the order of their start.

        Args:
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        sa, table = self.database.sa, self._tables.steps
        outcome = table.c.outcome if outcomes else sa.null().label("outcome")
        columns = (table.c.key, table.c.began, table.c.ended, table.c.outcome.is_not(None).label("done"), outcome)
        query = sa.select(*columns).where(table.c.run_id == run_id)
        rows = [
            StepRow(
                run_id,
                row.key,
                text_of(row.outcome, f"{run_id}:{row.key}") if outcomes and row.done else None,
                row.began,
                row.ended,
                DONE if row.done else UNDER_WAY[-1],
            )
            for row in self.database.rows(query)
        ]
        return sorted([*rows, *self._work.of_run(run_id, outcomes=outcomes)], key=lambda row: row.began)

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of some operators of a run."""
        table = self._tables.steps
        delete = self.database.sa.delete(table).where(table.c.run_id == run_id)
        self.database.change(*(delete.where(table.c.key.in_(batch)) for batch in batched(keys)))
        for batch in batched(keys):
            self._work.forget(run_id, batch)


def batched(items: Sequence[str], most: int = AT_ONCE) -> Iterator[list[str]]:
    """Return slices of a list with at most `most` items, to limit the length of statements."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


def taken_over(run_id: str) -> InputError:
    """Return the error for a run that another process has taken over."""
    return InputError(f"run {run_id!r} is driven by another process now, which continues it")


@dataclass(frozen=True, slots=True)
class StoredStep:
    """Stored record of an operator's work in a run.

    Attributes:
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
