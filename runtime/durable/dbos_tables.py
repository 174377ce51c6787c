"""Queries of the tables of dbos, in which the work of workers is recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.rows import ENDED, EndedWork


class DbosTables:
    """Tables of dbos in one database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def exist(self) -> bool:
        """Return True if the tables of dbos exist, which a worker or a process that uses workers creates."""
        with self.database.reader.connect() as connection:
            return self.database.sa.inspect(connection).has_table("workflow_status", schema=self._schema)

    @property
    def _schema(self) -> str | None:
        return None if self.database.is_sqlite else "dbos"

    def step_ids(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Return the ids of the operators of some runs in the tables of dbos, which must exist."""
        sa = self.database.sa
        step = sa.column("workflow_uuid")
        table = sa.table("workflow_status", step, schema=self._schema)
        if self.database.is_sqlite:  # this form uses the index
            chosen = sa.or_(*((step >= f"{run_id}:") & (step < f"{run_id};") for run_id in run_ids))
        else:
            chosen = sa.func.split_part(step, ":", 1).in_(run_ids)
        return [row[0] for row in self.database.rows(sa.select(step).select_from(table).where(chosen))]

    def ended_work(self, step_ids: Sequence[str]) -> Sequence[EndedWork]:
        """Return the ended work among the work with these ids: executed or given up by workers.

        Raises:
            Exception: The error of the database.
        """
        with self.database.connect_once() as connection:
            rows = connection.execute(self._ended_work, {"ids": step_ids}).all()
        return [EndedWork(row.id, row.status, _of_json(row.output), _of_json(row.error)) for row in rows]

    @cached_property
    def _ended_work(self) -> Any:
        """Statement that reads ended work; cached, because creating it takes longer than executing it."""
        sa, names = self.database.sa, ("workflow_uuid", "status", "output", "error")
        work = sa.table("workflow_status", *map(sa.column, names), schema=self._schema)
        result = sa.table("workflow_output", *map(sa.column, names), schema=self._schema)
        columns = (sa.func.coalesce(result.c[name], work.c[name]).label(name) for name in ("output", "error"))
        return (
            sa.select(work.c.workflow_uuid.label("id"), work.c.status, *columns)
            .select_from(work.outerjoin(result, result.c.workflow_uuid == work.c.workflow_uuid))
            .where(work.c.workflow_uuid.in_(sa.bindparam("ids", expanding=True)))
            .where(work.c.status.in_(ENDED))
        )

    def outputs(self) -> Sequence[Any]:
        """Return the columns with the outcomes of workers, for a query; empty if the tables do not exist."""
        if not self.exist():
            return []
        sa, names = self.database.sa, ("workflow_output", "workflow_status")
        return [sa.table(name, sa.column("output"), schema=self._schema).c.output for name in names]


def _of_json(text: str | None) -> object:
    """Return a value, or the text of an error, that `JsonSerializer` wrote; None if the text is empty or not JSON."""
    try:
        value: object = json.loads(text or "null")
    except ValueError:
        return None
    return cast("dict[str, object]", value).get("$exception") if isinstance(value, dict) else value
