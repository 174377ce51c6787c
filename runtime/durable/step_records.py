"""Operators of runs, whether the driver of the run executed them or a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING

from operad.runtime.durable.rows import DONE, UNDER_WAY, StepRow, text_of
from operad.runtime.durable.step_table import batched
from operad.runtime.durable.store import Store

if TYPE_CHECKING:
    from dbos import DBOSClient


class StepRecords:
    """Records of operators, which are in Operad's table if a driver executed them, and in dbos's if a worker did.

    Args:
        store: The tables of runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def client(self) -> DBOSClient:
        """Client that reads and writes the tables of dbos; missing tables are created."""
        client = import_module("operad.runtime.durable.dbos_process").client
        return self._store.database.with_retries(partial(client, self._store.database.url), 0.0)

    def close(self) -> None:
        """Close the connections of the client, if it was used."""
        if "client" in vars(self):
            self.client.destroy()

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators of a run, in the order of their start.

        Args:
            run_id: The run.
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        rows = [*self._store.steps.of_run(run_id, outcomes=outcomes), *self._of_workers(run_id, outcomes=outcomes)]
        return sorted(rows, key=lambda row: row.began)

    def _of_workers(self, run_id: str, *, outcomes: bool = False) -> Iterator[StepRow]:
        """Yield the operators of a run that workers, or drivers of an earlier version of Operad, executed."""
        if not self._store.dbos.exist():
            return
        for batch in batched(self._store.dbos.step_ids([run_id])):
            listed = partial(self.client.list_workflows, workflow_ids=batch, load_input=False, load_output=outcomes)
            for step in self._store.database.with_retries(listed):
                done = step.status == DONE
                yield StepRow(
                    run_id,
                    step.workflow_id[len(run_id) + 1 :],
                    text_of(step.output, step.workflow_id) if outcomes and done else None,
                    (step.dequeued_at or step.created_at or 0) / 1000,
                    (step.completed_at or step.updated_at or 0) / 1000 if done else 0.0,
                    step.status,
                    step.queue_name or "",
                )

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of some operators of a run."""
        self._store.steps.forget(run_id, keys)
        if self._store.dbos.exist():
            self._delete_of_workers([f"{run_id}:{key}" for key in keys])

    def forget_runs(self, run_ids: Sequence[str]) -> None:
        """Delete runs with all their records."""
        if self._store.dbos.exist():
            self._delete_of_workers(self._store.dbos.step_ids(run_ids))
        self._store.forget(run_ids)

    def _delete_of_workers(self, step_ids: Sequence[str]) -> None:
        for batch in batched(step_ids):
            self._store.database.with_retries(partial(self.client.delete_workflows, batch))

    def cancel(self, run_id: str) -> None:
        """Have workers drop or stop the unfinished operators of a run."""
        unfinished = [row.step_id for row in self._of_workers(run_id) if row.status in UNDER_WAY]
        if unfinished:
            self.client.cancel_workflows(unfinished)
