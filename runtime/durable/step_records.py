"""Operators of runs, whether the driver of the run executed them or a worker."""

from __future__ import annotations

from collections.abc import Sequence

from operad.runtime.durable.rows import StepRow
from operad.runtime.durable.step_table import batched
from operad.runtime.durable.store import Store


class StepRecords:
    """Records of operators, which are in one table if a driver executed them, and in another if a worker did.

    Args:
        store: The tables of runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators of a run, in the order of their start.

        Args:
            run_id: The run.
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        tables = (self._store.steps, self._store.work)
        rows = [row for table in tables for row in table.of_run(run_id, outcomes=outcomes)]
        return sorted(rows, key=lambda row: row.began)

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of some operators of a run."""
        self._store.steps.forget(run_id, keys)
        for batch in batched(keys):
            self._store.work.forget(run_id, batch)
