"""Table of operators' outcomes, and queries of the tables of dbos."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, cast

from operad.runtime.durable.counted_calls import CountedCalls
from operad.runtime.durable.database import patiently
from operad.runtime.durable.rows import DONE, ENDED, UNDER_WAY, EndedWork, StepRow, storable, text_of
from operad.runtime.values.errors import InputError

AT_ONCE = 500
"""Maximum number of operators that are read or deleted in one statement."""


class StepTable(CountedCalls):
    """Table of the operators that drivers executed; operators that workers executed are in the tables of dbos."""

    @patiently
    def write_steps(self, driver: str, steps: Sequence[StepRow]) -> None:
        """Write records of operators in one transaction; of several records of an operator, only the last is written.

        The transaction locks the driver of each run. Hence a process that takes a run over reads all outcomes that the
        earlier driver has written, and the earlier driver cannot write any more.

        Args:
            driver: The process that executed the operators.
            steps: The records.

        Raises:
            InputError: Another process drives one of the runs now. Nothing is written then.
        """
        last = {(step.run_id, step.key): step for step in steps}
        run_ids = {run_id for run_id, _ in last}
        rows = [
            {
                "run_id": step.run_id,
                "key": step.key,
                "outcome": storable(step.outcome),
                "began": step.began,
                "ended": step.ended,
            }
            for step in last.values()
        ]
        with self._engine.begin() as connection:
            held = connection.execute(self._held, {"driver": driver, "run_ids": list(run_ids)}).scalars()
            if lost := run_ids.difference(held):
                raise taken_over(min(lost))
            connection.execute(self._upsert, rows)

    @cached_property
    def _held(self) -> Any:
        """Statement that returns, and locks, the runs among some that a process drives.

        It is cached, because creating the statement takes longer than executing it.
        """
        sa, runs = self._sa, self._tables.runs
        mine = (runs.c.driver == sa.bindparam("driver")) & runs.c.run_id.in_(sa.bindparam("run_ids", expanding=True))
        return sa.select(runs.c.run_id).where(mine).with_for_update(read=True)

    @cached_property
    def _upsert(self) -> Any:
        """Statement that inserts a record or updates an existing one."""
        insert = import_module(f"sqlalchemy.dialects.{self._engine.dialect.name}").insert(self._tables.steps)
        changed = {name: insert.excluded[name] for name in ("outcome", "began", "ended")}
        return insert.on_conflict_do_update(index_elements=["run_id", "key"], set_=changed)

    @patiently
    def steps(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators that drivers of a run have executed, in the order of their start.

        Args:
            run_id: The run.
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        sa, table = self._sa, self._tables.steps
        outcome = table.c.outcome if outcomes else sa.null().label("outcome")
        columns = (table.c.key, table.c.began, table.c.ended, table.c.outcome.is_not(None).label("done"), outcome)
        query = sa.select(*columns).where(table.c.run_id == run_id).order_by(table.c.began)
        with self._reader.connect() as connection:
            rows = connection.execute(query).all()
        return [
            StepRow(
                run_id,
                row.key,
                text_of(row.outcome, f"{run_id}:{row.key}") if outcomes and row.done else None,
                row.began,
                row.ended,
                DONE if row.done else UNDER_WAY[-1],
            )
            for row in rows
        ]

    @patiently
    def forget_steps(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of operators that drivers of a run have executed."""
        table = self._tables.steps
        with self._engine.begin() as connection:
            for batch in batched(keys):
                connection.execute(self._sa.delete(table).where(table.c.run_id == run_id, table.c.key.in_(batch)))

    # The tables of dbos

    @patiently
    def has_workers_tables(self) -> bool:
        """Return True if the tables of dbos exist, which a worker or a process that uses workers creates."""
        with self._reader.connect() as connection:
            return self._sa.inspect(connection).has_table("workflow_status", schema=self._schema_of_dbos)

    @property
    def _schema_of_dbos(self) -> str | None:
        return None if self._is_sqlite else "dbos"

    @patiently
    def step_ids(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Return the ids of the operators of some runs in the tables of dbos, which must exist."""
        sa = self._sa
        step = sa.column("workflow_uuid")
        table = sa.table("workflow_status", step, schema=self._schema_of_dbos)
        if self._is_sqlite:  # this form uses the index
            chosen = sa.or_(*((step >= f"{run_id}:") & (step < f"{run_id};") for run_id in run_ids))
        else:
            chosen = sa.func.split_part(step, ":", 1).in_(run_ids)
        with self._reader.connect() as connection:
            return list(connection.execute(sa.select(step).select_from(table).where(chosen)).scalars())

    def ended_work(self, step_ids: Sequence[str]) -> Sequence[EndedWork]:
        """Return the ended work among the work with these ids: executed or given up by workers.

        Raises:
            Exception: The error of the database.
        """
        with self._connect_once() as connection:
            rows = connection.execute(self._ended_work, {"ids": step_ids}).all()
        return [EndedWork(row.id, row.status, _of_json(row.output), _of_json(row.error)) for row in rows]

    @cached_property
    def _ended_work(self) -> Any:
        """Statement that reads ended work; cached, because creating it takes longer than executing it."""
        sa, names = self._sa, ("workflow_uuid", "status", "output", "error")
        work = sa.table("workflow_status", *map(sa.column, names), schema=self._schema_of_dbos)
        result = sa.table("workflow_output", *map(sa.column, names), schema=self._schema_of_dbos)
        columns = (sa.func.coalesce(result.c[name], work.c[name]).label(name) for name in ("output", "error"))
        return (
            sa.select(work.c.workflow_uuid.label("id"), work.c.status, *columns)
            .select_from(work.outerjoin(result, result.c.workflow_uuid == work.c.workflow_uuid))
            .where(work.c.workflow_uuid.in_(sa.bindparam("ids", expanding=True)))
            .where(work.c.status.in_(ENDED))
        )

    @patiently
    def digests(self, pattern: str) -> set[str]:
        """Return all texts that match a pattern in the stored inputs, outcomes and results of all runs."""
        sa, runs, found = self._sa, self._tables.runs, set[str]()
        columns = [runs.c.call, runs.c.result, self._tables.steps.c.outcome]
        if self.has_workers_tables():
            names = ("workflow_output", "workflow_status")
            columns += [sa.table(name, sa.column("output"), schema=self._schema_of_dbos).c.output for name in names]
        with self._reader.connect() as connection:
            for column in columns:
                query = sa.select(column).where(column.like("%sha256:%")).execution_options(yield_per=50)
                for text in connection.execute(query).scalars():
                    found.update(re.findall(pattern, str(text)))
        return found


def _of_json(text: str | None) -> object:
    """Return a value, or the text of an error, that `JsonSerializer` wrote; None if the text is empty or not JSON."""
    try:
        value: object = json.loads(text or "null")
    except ValueError:
        return None
    return cast("dict[str, object]", value).get("$exception") if isinstance(value, dict) else value


def batched(items: Sequence[str], most: int = AT_ONCE) -> Iterator[list[str]]:
    """Return slices of a list with at most `most` items, to limit the length of statements."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


def taken_over(run_id: str) -> InputError:
    """Return the error for a run that another process has taken over."""
    return InputError(f"run {run_id!r} is driven by another process now, which continues it")
