"""Changes of the runs that this process drives, and of the operators that it executes, which are written together."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NamedTuple

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.tables import RUNNING, PartRow, StepRow, StoredRun, Tables, storable
from operad.runtime.events import Event
from operad.runtime.values.errors import InputError

_logger = logging.getLogger(__name__)


class Progress(NamedTuple):
    """Progress of a run since the last one: its events, and the records that are stored with them.

    Attributes:
        number: Number of these events among those that were stored together, from 1.
        step: Record of an operator.
        values: New values of columns of the run.
        is_whole: True if the events replace those stored before.
        part: A kept part of an operator's work.
        without_parts: Key of an operator's work whose parts, and those of the operators inside, are not needed any more.
    """

    run_id: str
    events: Sequence[Event] = ()
    number: int = 0
    step: StepRow | None = None
    values: Mapping[str, object] = {}
    is_whole: bool = False
    part: PartRow | None = None
    without_parts: str = ""


class TakeOver(NamedTuple):
    """This process becomes the driver of a run, unless the run has changed since it was read.

    Attributes:
        driver: Its driver when it was read; empty if it had none.
        state: Its state when it was read.
    """

    run_id: str
    driver: str
    state: str


Change = StoredRun | TakeOver | Progress
"""A new run, a change of a run's driver, or the progress of a run."""


class RunChanges:
    """Writer of changes of runs into their tables."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self._tables = tables

    def write(self, driver: str, changes: Sequence[Change]) -> Sequence[bool]:
        """Write changes in one transaction, in their order; of several records of an operator, only the last is written.

        The transaction locks the driver of each run. Hence a process that takes a run over reads everything that the
        earlier driver has written, and the earlier driver cannot write any more.

        Args:
            driver: The process that drives the runs.

        Returns:
            For each change, True if it was written; False for a new run whose id exists, for a take-over of a run that
            has changed, and for a change of a run that another process drives.

        Raises:
            InputError: The database refuses a change, or cannot be reached. Nothing is written then.
        """
        rows = [_dumped(each) if isinstance(each, Progress) else None for each in changes]
        return self._write(driver, changes, rows)

    @retried
    def _write(
        self, driver: str, changes: Sequence[Change], event_rows: Sequence[Mapping[str, object] | None]
    ) -> Sequence[bool]:
        with self.database.engine.begin() as connection:
            created = self.create(connection, [each for each in changes if isinstance(each, StoredRun)])
            taken = self._take(connection, driver, [each for each in changes if isinstance(each, TakeOver)])
            run_ids = {each.run_id for each in changes if isinstance(each, Progress)}
            held = set[str]()
            if run_ids:
                held.update(connection.execute(self.held, {"driver": driver, "run_ids": list(run_ids)}).scalars())
            rows = _Rows(driver, created, taken, held)
            written = [rows.take(change, row) for change, row in zip(changes, event_rows, strict=True)]
            for run_id, key in rows.without_parts:
                connection.execute(forget_parts(self.database.sa, self._tables.parts, run_id, key))
            if rows.parts:
                connection.execute(self.keep_part, [each._asdict() for each in rows.parts])
            if rows.steps:
                connection.execute(self._upsert, [_row_of(step) for step in rows.steps.values()])
            for run_id in rows.rewritten:
                connection.execute(self._forget_events, {"of_run": run_id})
            if rows.events:
                connection.execute(self._append, rows.events)
            for names, states in rows.states_by_columns().items():
                connection.execute(self._update(names), states)
        return written

    def create(self, connection: Any, runs: Sequence[StoredRun]) -> set[str]:
        """Insert new runs, and return the ids of those whose ids did not exist."""
        if not runs:
            return set()
        rows = [{name: storable(getattr(run, name)) for name in _GIVEN} for run in runs]
        return set(connection.execute(self._insert, rows).scalars())

    def _take(self, connection: Any, driver: str, takeovers: Sequence[TakeOver]) -> set[str]:
        """Make a process the driver of runs, and delete the records of their operators that have no outcome.

        Returns:
            The ids of the runs that have not changed since they were read, and that the process drives now.
        """
        taken = set[str]()
        for each in sorted(takeovers):
            values = {"driver_now": driver, "of_run": each.run_id, "of_driver": each.driver, "of_state": each.state}
            if connection.execute(self._set_driver, values).rowcount:
                taken.add(each.run_id)
        if taken:
            connection.execute(self._forget_unfinished, {"run_ids": list(taken)})
        return taken

    # These statements are cached, because creating one takes longer than executing it.

    @cached_property
    def _set_driver(self) -> Any:
        """Statement that makes a process the driver of a run, if the run has a certain driver and state."""
        sa, table = self.database.sa, self._tables.runs
        names = (("run_id", "of_run"), ("driver", "of_driver"), ("state", "of_state"))
        is_unchanged = (table.c[name] == sa.bindparam(given) for name, given in names)
        return (
            sa.update(table)
            .where(*is_unchanged)
            .values(
                driver=sa.bindparam("driver_now"),
                drives=table.c.drives + 1,
                state=RUNNING,
                error="",
                cancelling=False,
                updated=self.database.clock,
            )
        )

    @cached_property
    def _forget_unfinished(self) -> Any:
        """Statement that deletes the records of operators that drivers of some runs have begun, but not finished."""
        sa, steps = self.database.sa, self._tables.steps
        of_runs = steps.c.run_id.in_(sa.bindparam("run_ids", expanding=True))
        return sa.delete(steps).where(of_runs, steps.c.outcome.is_(None))

    @cached_property
    def _forget_events(self) -> Any:
        """Statement that deletes the events of a run."""
        table = self._tables.events
        return self.database.sa.delete(table).where(table.c.run_id == self.database.sa.bindparam("of_run"))

    @cached_property
    def held(self) -> Any:
        """Statement that returns, and locks, the runs among some that a process drives."""
        sa, runs = self.database.sa, self._tables.runs
        mine = (runs.c.driver == sa.bindparam("driver")) & runs.c.run_id.in_(sa.bindparam("run_ids", expanding=True))
        return sa.select(runs.c.run_id).where(mine).order_by(runs.c.run_id).with_for_update()

    @cached_property
    def _insert(self) -> Any:
        """Statement that inserts new runs, and returns their ids."""
        table, clock = self._tables.runs, self.database.clock
        statement = self._dialect.insert(table).values(created=clock, updated=clock)
        return statement.on_conflict_do_nothing(index_elements=["run_id"]).returning(table.c.run_id)

    @cached_property
    def _upsert(self) -> Any:
        """Statement that inserts the record of an operator, or updates an existing one."""
        insert = self._dialect.insert(self._tables.steps)
        changed = {name: insert.excluded[name] for name in ("outcome", "began", "ended")}
        return insert.on_conflict_do_update(index_elements=["run_id", "key"], set_=changed)

    @cached_property
    def keep_part(self) -> Any:
        """Statement that keeps a part of an operator's work; the first value counts."""
        names = ["run_id", "key", "name"]
        return self._dialect.insert(self._tables.parts).on_conflict_do_nothing(index_elements=names)

    @cached_property
    def _append(self) -> Any:
        """Statement that adds events, unless an earlier try has added them, whose commit was taken for failed."""
        return self._dialect.insert(self._tables.events).on_conflict_do_nothing(index_elements=["run_id", "part"])

    def _update(self, names: Collection[str]) -> Any:
        """Return the statement that sets columns of a run."""
        if names not in self._updates:
            sa, table = self.database.sa, self._tables.runs
            values = {name: sa.bindparam(f"new_{name}") for name in names} | {"updated": self.database.clock}
            self._updates[names] = sa.update(table).where(table.c.run_id == sa.bindparam("of_run")).values(**values)
        return self._updates[names]

    @cached_property
    def _updates(self) -> dict[Collection[str], Any]:
        return {}

    @property
    def _dialect(self) -> Any:
        return import_module(f"sqlalchemy.dialects.{self.database.engine.dialect.name}")


class _Rows:
    """Rows to write in one transaction.

    Args:
        driver: The process that writes.
        taken: Ids of the runs that the process has taken over in the transaction.
        held: Ids of the runs that the process drives.
    """

    def __init__(self, driver: str, created: set[str], taken: set[str], held: set[str]) -> None:
        self.steps: dict[tuple[str, str], StepRow] = {}
        self.events: list[Mapping[str, object]] = []
        self.rewritten: list[str] = []
        self.parts: list[PartRow] = []
        self.without_parts: list[tuple[str, str]] = []
        self._states: dict[str, dict[str, object]] = defaultdict(dict)
        self._driver, self._created, self._taken, self._held = driver, created, taken, held

    def take(self, change: Change, event_row: Mapping[str, object] | None) -> bool:
        """Add the rows of a change; return False if it must not be written."""
        if isinstance(change, StoredRun | TakeOver):
            begun = self._created if isinstance(change, StoredRun) else self._taken
            is_written = change.run_id in begun
            begun.discard(change.run_id)  # for another such change, the run exists, or has another driver, now
            return is_written
        if change.run_id not in self._held:
            return False
        if change.step is not None:
            self.steps[change.run_id, change.step.key] = change.step
        if change.part is not None:
            self.parts.append(change.part)
        if change.without_parts:
            self.without_parts.append((change.run_id, change.without_parts))
        if change.is_whole:
            self.rewritten.append(change.run_id)
        if event_row is not None:
            self.events.append(event_row)
        if change.values:
            self._states[change.run_id] |= change.values
        if change.values.get("driver", self._driver) != self._driver:
            self._held.discard(change.run_id)  # no later change of this process counts
        return True

    def states_by_columns(self) -> Mapping[tuple[str, ...], Sequence[Mapping[str, object]]]:
        """Return the new values of runs, by the names of their columns."""
        by_columns: dict[tuple[str, ...], list[Mapping[str, object]]] = defaultdict(list)
        for run_id, values in self._states.items():
            row = {f"new_{name}": storable(value) for name, value in values.items()}
            by_columns[tuple(sorted(values))].append({"of_run": run_id, **row})
        return by_columns


def forget_parts(sa: Any, table: Any, run_id: str, key: str) -> Any:
    """Return the statement that deletes the kept parts of an operator's work, and of the operators inside."""
    inside = sa.func.substr(table.c.key, 1, len(key) + 1).in_([f"{key}/", f"{key}~"])
    return sa.delete(table).where(table.c.run_id == run_id, (table.c.key == key) | inside)


_GIVEN = tuple(name for name in StoredRun.__dataclass_fields__ if name not in ("created", "updated"))
"""Columns of a new run; the others are the time of the database's clock."""


def _row_of(step: StepRow) -> Mapping[str, object]:
    names = ("run_id", "key", "began", "ended")
    return {name: getattr(step, name) for name in names} | {"outcome": storable(step.outcome)}


def _dumped(progress: Progress) -> Mapping[str, object] | None:
    """Return the row of events; None if there are none, or if they are too long, which must not lose an outcome."""
    if not progress.events:
        return None
    try:
        text = Codec().dump_events(progress.events)
    except InputError as error:
        _logger.warning("%s: %d events are not recorded: %s", progress.run_id, len(progress.events), error)
        return None
    return {"run_id": progress.run_id, "part": progress.number, "events": zlib.compress(text.encode())}


class RunWriter:
    """Writer of the records of runs and operators, in the order of the calls. The constructor may block.

    A record is written even if the caller is cancelled while it waits, or its event loop is closed.

    Args:
        driver_id: Id of this process. Nothing is written for a run that another process drives.
    """

    def __init__(self, changes: RunChanges, driver_id: str) -> None:
        self._commits = GroupCommit[Change, bool](partial(changes.write, driver_id), "operad-writer")
        self._clock_offset = changes.database.now() - time.time()

    @property
    def waiting_seconds(self) -> float:
        """Seconds for which the oldest record has waited for its commit; 0 if no record waits."""
        return self._commits.waiting_seconds

    async def create(self, run: StoredRun) -> bool:
        """Insert a new run; return False if its id exists."""
        return await committed(self._commits.put_soon(run))

    async def take(self, run: StoredRun) -> bool:
        """Become the driver of a run in place of its driver; return False if the run has changed since it was read."""
        return await committed(self._commits.put_soon(TakeOver(run.run_id, run.driver, run.state)))

    def put_soon(self, progress: Progress) -> Future[bool]:
        """Start to store what happened in a run; see `committed`."""
        return self._commits.put_soon(progress)

    async def release(self, run_id: str) -> None:
        """Stop driving a run, which any process may continue."""
        await committed(self._commits.put_soon(Progress(run_id, values={"driver": ""})))

    def now(self) -> float:
        """Return the time of the database's clock, by its difference from the local clock at the start."""
        return time.time() + self._clock_offset


async def committed(written: Future[bool]) -> bool:
    """Wait until a record is committed; return False if another process drives the run.

    A cancellation ends the wait, not the writing.

    Raises:
        InputError: The record cannot be written.
    """
    return await asyncio.shield(asyncio.wrap_future(written))
