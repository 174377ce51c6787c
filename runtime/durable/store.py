"""Tables of runs: runs, operators, work of workers, processes, questions, model calls, firings of schedules.

All times are seconds since the epoch by the database's clock. Each method is one transaction, may block, and may
be called from any thread. While the database cannot be reached, methods retry.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.run_writer import RunChanges, forget_parts
from operad.runtime.durable.shared_limits import CountedCalls
from operad.runtime.durable.tables import (
    ASKS,
    LONG,
    RUNNING,
    VERSION,
    EventPart,
    Executor,
    Origins,
    PartRow,
    StepRow,
    StoredQuestion,
    StoredRun,
    Tables,
    of_row,
    storable,
    tables,
)
from operad.runtime.durable.work_table import StepTable, WorkTable
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL


_logger = logging.getLogger(__name__)


def _of_another_version(version: int) -> str:
    """Return why a database whose tables have another version is refused, and what to do."""
    which = "a later version" if version > VERSION else "an earlier development version"
    remedy = "upgrade operad" if version > VERSION else "finish its runs there"
    return (
        f"{which} of operad wrote this database: its tables have version {version}, and this operad uses version {VERSION}; "
        f"{remedy}, or name another database with --db"
    )


class Store:
    """Tables of runs in one database, created if missing.

    Args:
        url: The database, as returned by `database_url`.
        reading: True for commands that only read: a file that this user may not write is opened for reading, and a
            file of another program is refused.

    Attributes:
        database: The database.
        steps: Records of the operators of runs.
        work: Table of the operators that workers execute.
        changes: Writer of the changes of runs by their drivers.
        calls: Table of counted model calls.
        schedules: Table of the last firings of schedules.
        memories: Definition of the table of memories.

    Raises:
        InputError: The database cannot be reached or used, or another version of Operad wrote it.
    """

    def __init__(self, url: URL, *, reading: bool = False) -> None:
        self.database = Database(url, reading=reading)
        self._reading = reading
        self._tables = tables(self.database.sa)
        self.work = WorkTable(self.database, self._tables)
        self.steps = StepTable(self.database, self._tables, self.work)
        self.changes = RunChanges(self.database, self._tables)
        self.calls = CountedCalls(self.database, self._tables)
        self.schedules = FiredSchedules(self.database, self._tables, self.changes)
        self.memories = self._tables.memories
        self.database.with_retries(self._set_up, patience=0.0)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def _set_up(self) -> None:
        """Create the tables if necessary, and check them."""
        with self.database.reader.connect() as connection:
            version = self._version_in(connection)
            is_foreign = not version and self._reading and self.database.is_sqlite and self._has_tables(connection)
        if is_foreign:
            raise InputError(f"{self.database.name}: is an SQLite file of another program; name another one with --db")
        if not version and self.database.read_only:
            raise InputError(
                f"{self.database.name}: holds no runs, and this user may not write the file; name another database with --db"
            )
        if not version:
            self._create()
        self._check_columns()

    def _has_tables(self, connection: Any) -> bool:
        return bool(self.database.sa.inspect(connection).get_table_names())

    def _version_in(self, connection: Any) -> int:
        """Return the version of the tables; 0 if there are none."""
        inspector = self.database.sa.inspect(connection)
        version = int(inspector.has_table(self._tables.runs.name))  # version 1 was not written
        if inspector.has_table(self._tables.schema.name):
            version = connection.execute(self.database.sa.select(self._tables.schema.c.version)).scalar() or "none"
        if not isinstance(version, int):
            raise InputError(
                f"{self.database.name}: the table operad_schema holds no version; was it written by another program?"
            )
        if version not in (0, VERSION):
            raise InputError(f"{self.database.name}: {_of_another_version(version)}")
        return version

    def _create(self) -> None:
        """Create the tables, unless another process has just created them."""
        sa = self.database.sa
        with self.database.engine.begin() as connection:
            if not self.database.is_sqlite:  # two processes may create the tables at the same time
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7263911)"))
            if not self._version_in(connection):
                for statement in self._tables.statements(connection.dialect)[0]:
                    connection.exec_driver_sql(statement)
                connection.execute(sa.insert(self._tables.schema).values(version=VERSION))

    def _check_columns(self) -> None:
        """Raise an error if a table or column is missing, so that it does not occur in the middle of a run."""
        with self.database.reader.connect() as connection:
            # All rows are read: an open cursor, if anything kept it, would hold a connection to SQLite in its old snapshot.
            connection.exec_driver_sql(self._tables.statements(connection.dialect)[1]).all()

    # Runs

    def run(self, run_id: str) -> StoredRun | None:
        """Return the run with this id, or None."""
        table = self._tables.runs
        rows = self.database.rows(self.database.sa.select(table).where(table.c.run_id == run_id))
        return of_row(StoredRun, rows[0]._mapping) if rows else None

    def runs(
        self,
        limit: int | None = None,
        after: str = "",
        states: Collection[str] = (),
        origins: Origins | None = None,
    ) -> Sequence[StoredRun]:
        """Return runs, the newest first, without their long columns (`LONG`).

        Args:
            limit: Maximum number; None for all.
            after: Id of a run; the runs after it are returned.
            states: States to include; empty for all.
            origins: Origins to include; None for all.
        """
        sa, table = self.database.sa, self._tables.runs
        query = self._select_short().order_by(table.c.created.desc(), table.c.run_id.desc()).limit(limit)
        if after:
            last = sa.select(table.c.created).where(table.c.run_id == after).scalar_subquery()
            query = query.where(sa.tuple_(table.c.created, table.c.run_id) < sa.tuple_(last, after))
        if states:
            query = query.where(table.c.state.in_(states))
        if origins is not None:
            query = query.where(self._is_of(origins))
        return [of_row(StoredRun, row._mapping) for row in self.database.rows(query)]

    def runs_by_id(self, run_ids: Sequence[str]) -> Sequence[StoredRun]:
        """Return the runs with these ids, without their long columns; missing ones are left out."""
        query = self._select_short().where(self._tables.runs.c.run_id.in_(run_ids))
        return [of_row(StoredRun, row._mapping) for row in self.database.rows(query)]

    def runs_of(self, source: str) -> Sequence[StoredRun]:
        """Return the runs whose source, as JSON, begins with a text, the newest first, with their sources.

        The other long columns (`LONG`) are not read.
        """
        table = self._tables.runs
        query = self._select_short().add_columns(table.c.source).where(self._begins(source))
        rows = self.database.rows(query.order_by(table.c.created.desc(), table.c.run_id.desc()))
        return [of_row(StoredRun, row._mapping) for row in rows]

    def _is_of(self, origins: Origins) -> Any:
        """Return the condition that a run has one of these origins."""
        sa, table = self.database.sa, self._tables.runs
        in_python = sa.and_(table.c.source == "null", table.c.workflow.in_(origins.programs))
        return sa.or_(*map(self._begins, origins.sources), in_python)

    def _begins(self, source: str) -> Any:
        """Return the condition that the source of a run begins with a text."""
        return self.database.sa.func.substr(self._tables.runs.c.source, 1, len(source)) == source

    def _select_short(self) -> Any:
        """Return a query of all runs without their long columns."""
        return self.database.sa.select(*(column for column in self._tables.runs.c if column.name not in LONG))

    def ended(
        self, state: str, *, seconds: float | None = None, but: int | None = None, workflow: str | None = None
    ) -> Sequence[str]:
        """Return the ids of runs that have ended, the newest first.

        Args:
            state: Final state.
            seconds: Minimum age in seconds since the last update.
            but: Number of the newest runs to skip.
        """
        table = self._tables.runs
        query = self.database.sa.select(table.c.run_id).where(table.c.state == state)
        if workflow is not None:
            query = query.where(table.c.workflow == workflow)
        if but is not None:
            newest = query.order_by(table.c.created.desc(), table.c.run_id.desc()).limit(but)
            query = query.where(table.c.run_id.not_in(newest))
        if seconds is not None:
            query = query.where(table.c.updated <= self.database.clock - seconds)
        return [row[0] for row in self.database.rows(query.order_by(table.c.created.desc(), table.c.run_id.desc()))]

    def sources(self, run_ids: Sequence[str]) -> set[str]:
        """Return the distinct sources of these runs."""
        table = self._tables.runs
        query = self.database.sa.select(table.c.source).where(table.c.run_id.in_(run_ids)).distinct()
        return {row[0] for row in self.database.rows(query)}

    @retried
    def create(self, run: StoredRun, steps: Sequence[StepRow] = (), questions: Sequence[StoredQuestion] = ()) -> bool:
        """Insert a new run, and for a copy the operators and questions of the other run; return False if its id exists."""
        with self.database.engine.begin() as connection:
            if not self.changes.create(connection, [run]):
                return False
            for copied, records in ((self._tables.steps, steps), (self._tables.questions, questions)):
                rows = [{c.name: getattr(each, c.name) for c in copied.c} | {"run_id": run.run_id} for each in records]
                if rows:
                    connection.execute(self.database.sa.insert(copied), rows)
        return True

    def request_cancel(self, run_id: str) -> None:
        """Request the driver of a run to cancel it."""
        table = self._tables.runs
        self.database.change(self.database.sa.update(table).where(table.c.run_id == run_id).values(cancelling=True))

    def event_parts(self, run_id: str, after: int = 0) -> Sequence[EventPart]:
        """Return the recorded events of a run in order.

        Args:
            after: Number of a part; the parts after it are returned.
        """
        table = self._tables.events
        query = self.database.sa.select(table.c.part, table.c.events)
        query = query.where(table.c.run_id == run_id, table.c.part > after).order_by(table.c.part)
        parts = [EventPart(*row) for row in self.database.rows(query)]
        return [part for part in parts if isinstance(part.events, bytes)]  # pyright: ignore[reportUnnecessaryIsInstance]

    def forget(self, run_ids: Sequence[str]) -> None:
        """Delete runs with their operators, questions and events."""
        tables = self._tables
        all_tables = (tables.steps, tables.parts, tables.work, tables.questions, tables.events, tables.runs)
        self.database.change(*(self.database.sa.delete(each).where(each.c.run_id.in_(run_ids)) for each in all_tables))

    @retried
    def digests(self, pattern: str) -> set[str]:
        """Return all texts that match a pattern in the stored inputs, outcomes and results of all runs."""
        sa, runs, found = self.database.sa, self._tables.runs, set[str]()
        columns = [runs.c.call, runs.c.result, self._tables.steps.c.outcome, self._tables.work.c.outcome]
        with self.database.reader.connect() as connection:
            for column in columns:
                query = sa.select(column).where(column.like("%sha256:%")).execution_options(yield_per=50)
                for text in connection.execute(query).scalars():
                    found.update(re.findall(pattern, str(text)))
        return found

    def parts(self, run_id: str, key: str) -> Mapping[str, str]:
        """Return the kept parts of an operator's work, by name."""
        table = self._tables.parts
        query = self.database.sa.select(table.c.name, table.c.value).where(table.c.run_id == run_id, table.c.key == key)
        return {name: value for name, value in self.database.rows(query) if isinstance(value, str)}

    def keep_part(self, part: PartRow) -> None:
        """Keep a part of an operator's work, unless it is kept already."""
        self.database.change(self.changes.keep_part.values(part._asdict()))

    def forget_parts(self, run_id: str, *keys: str) -> None:
        """Delete the kept parts of the work of operators, and of the operators inside."""
        sa, table = self.database.sa, self._tables.parts
        self.database.change(*(forget_parts(sa, table, run_id, key) for key in keys))

    # Processes

    def beat(self, executor: Executor) -> Mapping[str, bool]:
        """Record a heartbeat.

        Returns:
            The runs that the process drives, each with True if its cancellation was requested.

        Raises:
            Exception: The database cannot be reached at the moment.
        """
        sa, table, runs = self.database.sa, self._tables.executors, self._tables.runs
        values = {
            "kind": executor.kind,
            "process": executor.process,
            "version": executor.version,
            "queues": json.dumps(executor.queues),
            "concurrency": executor.concurrency,
            "doing": json.dumps(executor.doing),
            "beat": self.database.clock,
            "max_silence": executor.limit,
        }
        with self.database.engine.begin() as connection:
            changed = connection.execute(sa.update(table).where(table.c.id == executor.id).values(**values)).rowcount
            if not changed:
                connection.execute(sa.insert(table).values(id=executor.id, started=self.database.clock, **values))
            held = connection.execute(sa.select(runs.c.run_id, runs.c.cancelling).where(runs.c.driver == executor.id))
            return {row[0]: bool(row[1]) for row in held}

    def executors(self) -> Sequence[Executor]:
        """Return all known processes, the oldest first."""
        table = self._tables.executors
        query = self.database.sa.select(table, self.database.clock.label("now")).order_by(table.c.started)
        rows = (row._mapping for row in self.database.rows(query))
        return [
            of_row(
                Executor,
                {**row, "queues": _texts(row["queues"]), "doing": _texts(row["doing"]), "limit": row["max_silence"]},
            )
            for row in rows
        ]

    def leave(self, executor_id: str) -> None:
        """Remove a process, which then drives no runs, workers that died long ago, and model calls that count no more."""
        sa, executors, runs, calls = self.database.sa, self._tables.executors, self._tables.runs, self._tables.calls
        self.database.change(
            sa.delete(executors).where(executors.c.id == executor_id),
            sa.delete(executors).where(
                executors.c.kind == "worker", executors.c.beat < self.database.clock - 10 * executors.c.max_silence
            ),
            sa.update(runs).where(runs.c.driver == executor_id).values(driver=""),
            sa.delete(calls).where(calls.c.until <= self.database.clock),
        )

    # Questions

    @retried
    def ask(self, question: StoredQuestion) -> str | None:
        """Insert a question; return its answer if it was asked before, with the same content, and answered.

        A question with another content replaces the stored question with its id, whose answer is dropped.
        """
        sa, table = self.database.sa, self._tables.questions
        values = {name: storable(getattr(question, name)) for name in StoredQuestion.__dataclass_fields__}
        values["asked"] = self.database.clock
        same_id = sa.and_(*(table.c[name] == values[name] for name in ("run_id", "step", "id")))
        columns = (table.c.text, table.c.schema, table.c.tool_call, table.c.answer)
        try:
            with self.database.engine.begin() as connection:
                row = connection.execute(sa.select(*columns).where(same_id)).first()
                if row is None:
                    connection.execute(sa.insert(table).values(values))
                    return None
                if (row.text, row.schema, row.tool_call) == (values["text"], values["schema"], values["tool_call"]):
                    return row.answer
                connection.execute(sa.update(table).where(same_id).values(values))
        except sa.exc.IntegrityError:  # another process has just inserted the question
            return self.ask(question)
        if row.answer is not None:
            _logger.warning("%s: the answer was to %r; the question is now %r", question.id, row.text, question.text)
        return None

    def questions(self, run_id: str) -> Sequence[StoredQuestion]:
        """Return all questions of a run, in the order in which they were asked."""
        table = self._tables.questions
        columns = [table.c[name] for name in StoredQuestion.__dataclass_fields__]
        query = self.database.sa.select(*columns).where(table.c.run_id == run_id).order_by(table.c.asked)
        return [of_row(StoredQuestion, row._mapping) for row in self.database.rows(query)]

    def asking(self, limit: int, origins: Origins | None = None) -> Sequence[str]:
        """Return the ids of unfinished runs with questions that have no answer, the newest first; see `runs`."""
        sa, table, runs = self.database.sa, self._tables.questions, self._tables.runs
        asks = sa.exists().where(table.c.run_id == runs.c.run_id, table.c.answer.is_(None))
        query = sa.select(runs.c.run_id).where(runs.c.state.in_((RUNNING, ASKS)), asks)
        if origins is not None:
            query = query.where(self._is_of(origins))
        return [row[0] for row in self.database.rows(query.order_by(runs.c.created.desc()).limit(limit))]

    def answer(self, run_id: str, step: str, question_id: str, answer: str, by: str = "") -> bool:
        """Record an answer and who gave it; return False if the question already has one, or does not exist."""
        table = self._tables.questions
        change = self.database.sa.update(table).where(
            table.c.run_id == run_id, table.c.step == step, table.c.id == question_id, table.c.answer.is_(None)
        )
        return self.database.change(change.values(answer=answer, answered=self.database.clock, by=storable(by)))


def _texts(text: object) -> tuple[str, ...]:
    """Return the texts of a JSON column; empty if it holds anything else."""
    with suppress(ValueError, TypeError, RecursionError):
        return tuple(str(each) for each in json.loads(cast("str", text)))
    return ()


class LastFiring(NamedTuple):
    """The last firing of a schedule.

    Attributes:
        at: Time of the schedule that was fired or skipped; before the first one, the time at which it was first served.
        run_id: Id of the run that the last firing started; empty for none.
    """

    at: float
    run_id: str = ""


class FiredSchedules:
    """Table of the last firings of schedules in one database."""

    def __init__(self, database: Database, tables: Tables, changes: RunChanges) -> None:
        self.database = database
        self._table = tables.schedules
        self._changes = changes

    @retried
    def last(self, name: str, now: float) -> LastFiring:
        """Return the last firing of a schedule; one that was not served before counts as fired `now`."""
        sa, table = self.database.sa, self._table
        query = sa.select(table.c.fired, table.c.run_id).where(table.c.name == name)
        try:
            with self.database.engine.begin() as connection:
                row = connection.execute(query).first()
                if row is None:
                    connection.execute(sa.insert(table).values(name=name, fired=now, run_id=""))
        except sa.exc.IntegrityError:  # another server has just inserted it
            return self.last(name, now)
        return LastFiring(now) if row is None else LastFiring(*row)

    @retried
    def fire(self, name: str, since: float, at: float, run: StoredRun | None) -> bool:
        """Record a firing together with its run, which no process drives yet; return False if another server was first.

        Args:
            since: The last firing that the caller knows.
            at: The time of the schedule.
            run: The run, with a new id; None to skip the firing.
        """
        sa, table = self.database.sa, self._table
        values = {"fired": at} | ({"run_id": run.run_id} if run else {})
        with self.database.engine.begin() as connection:
            change = sa.update(table).where(table.c.name == name, table.c.fired == since).values(**values)
            if not connection.execute(change).rowcount:
                # The commit of an earlier try may have been taken for failed.
                last = connection.execute(sa.select(table.c.run_id).where(table.c.name == name)).scalar()
                return run is not None and last == run.run_id
            self._changes.create(connection, [run] if run else [])
        return True
