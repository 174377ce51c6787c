"""Table of the outcomes of operators that drivers executed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from operad.runtime.durable.database import Database
from operad.runtime.durable.rows import DONE, UNDER_WAY, StepRow, text_of
from operad.runtime.durable.tables import Tables
from operad.runtime.values.errors import InputError

AT_ONCE = 500
"""Maximum number of operators that are read or deleted in one statement."""


class StepTable:
    """Table of the operators that drivers executed; those that workers execute are in `WorkTable`.

    Args:
        database: The database.
        tables: Its tables.
    """

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self._tables = tables

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators that drivers of a run have executed, in the order of their start.

        Args:
            run_id: The run.
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        sa, table = self.database.sa, self._tables.steps
        outcome = table.c.outcome if outcomes else sa.null().label("outcome")
        columns = (table.c.key, table.c.began, table.c.ended, table.c.outcome.is_not(None).label("done"), outcome)
        query = sa.select(*columns).where(table.c.run_id == run_id).order_by(table.c.began)
        return [
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

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of operators that drivers of a run have executed."""
        table = self._tables.steps
        delete = self.database.sa.delete(table).where(table.c.run_id == run_id)
        self.database.change(*(delete.where(table.c.key.in_(batch)) for batch in batched(keys)))


def batched(items: Sequence[str], most: int = AT_ONCE) -> Iterator[list[str]]:
    """Return slices of a list with at most `most` items, to limit the length of statements."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


def taken_over(run_id: str) -> InputError:
    """Return the error for a run that another process has taken over."""
    return InputError(f"run {run_id!r} is driven by another process now, which continues it")
