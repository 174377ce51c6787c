"""Operad's tables of runs, beside those of dbos: runs, operators, processes, questions, take-overs, model calls.

All times are seconds since the epoch by the database's clock. Each method is one transaction, may block, and may
be called from any thread. While the database cannot be reached, methods retry.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.durable.database import patiently
from operad.runtime.durable.rows import LONG, RUNNING, EventPart, Executor, KeptQuestion, KeptRun, of_row, storable
from operad.runtime.durable.schema_version import VERSION, check_not_newer, statements_from
from operad.runtime.durable.step_table import StepTable, batched
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL


_logger = logging.getLogger(__name__)


class Store(StepTable):
    """Tables of runs in one database, created if missing, and migrated to the version of this release.

    Args:
        url: The database, as returned by `database_url`.

    Raises:
        InputError: The database cannot be reached or used, or a later release wrote it.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        if self.insist(self._version, patience=0.0) != VERSION:
            self.insist(self._migrate, patience=0.0)
        self.insist(self._check_columns, patience=0.0)

    def _version(self) -> int:
        with self._reader.connect() as connection:
            return self._version_in(connection)

    def _version_in(self, connection: Any) -> int:
        """Return the version of the tables; 0 if there are none.

        Raises:
            InputError: The version is later than this release knows.
        """
        inspector = self._sa.inspect(connection)
        if not inspector.has_table(self._tables.schema.name):
            return int(inspector.has_table(self._tables.runs.name))
        version = connection.execute(self._sa.select(self._tables.schema.c.version)).scalar()
        if not isinstance(version, int) or version < 1:
            raise InputError(
                f"{self.name}: the table operad_schema holds no version; was it written by another program?"
            )
        check_not_newer(self.name, version)
        return version

    def _migrate(self) -> None:
        """Create missing tables, or migrate tables of an earlier version."""
        sa = self._sa
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # two processes may create the tables at the same time
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7263911)"))
            version = self._version_in(connection)
            if not version:
                self._tables.all.create_all(connection)
                connection.execute(sa.insert(self._tables.schema).values(version=VERSION))
            elif version < VERSION:
                for statement in statements_from(version, sqlite=self._is_sqlite):
                    connection.execute(sa.text(statement))

    def _check_columns(self) -> None:
        """Raise an error if a table or column is missing, so that it does not occur in the middle of a run."""
        sa = self._sa
        tables = (sa.exists(sa.select(*table.c).where(sa.false())) for table in self._tables.all.sorted_tables)
        with self._reader.connect() as connection:
            connection.execute(sa.select(*tables))

    # Runs

    @patiently
    def run(self, run_id: str) -> KeptRun | None:
        """Return the run with this id, or None."""
        table = self._tables.runs
        with self._reader.connect() as connection:
            row = connection.execute(self._sa.select(table).where(table.c.run_id == run_id)).mappings().first()
        return None if row is None else of_row(KeptRun, row)

    @patiently
    def runs(self, limit: int | None = None, after: str = "", states: Collection[str] = ()) -> Sequence[KeptRun]:
        """Return runs, the newest first, without their long columns (`LONG`).

        Args:
            limit: Maximum number; None for all.
            after: Id of a run; the runs after it are returned.
            states: States to include; empty for all.
        """
        sa, table = self._sa, self._tables.runs
        query = self._select_short().order_by(table.c.created.desc(), table.c.run_id.desc()).limit(limit)
        if after:
            last = sa.select(table.c.created).where(table.c.run_id == after).scalar_subquery()
            query = query.where(sa.tuple_(table.c.created, table.c.run_id) < sa.tuple_(last, after))
        if states:
            query = query.where(table.c.state.in_(states))
        with self._reader.connect() as connection:
            return [of_row(KeptRun, row) for row in connection.execute(query).mappings()]

    @patiently
    def runs_by_id(self, run_ids: Sequence[str]) -> Sequence[KeptRun]:
        """Return the runs with these ids, without their long columns; missing ones are left out."""
        query = self._select_short().where(self._tables.runs.c.run_id.in_(run_ids))
        with self._reader.connect() as connection:
            return [of_row(KeptRun, row) for row in connection.execute(query).mappings()]

    def _select_short(self) -> Any:
        """Return a query of all runs without their long columns."""
        return self._sa.select(*(column for column in self._tables.runs.c if column.name not in LONG))

    @patiently
    def ended(
        self, state: str, *, seconds: float | None = None, but: int | None = None, workflow: str | None = None
    ) -> Sequence[str]:
        """Return the ids of runs that have ended, the newest first.

        Args:
            state: Final state.
            seconds: Minimum age in seconds since the last update.
            but: Number of the newest runs to skip.
            workflow: Name of the workflow.
        """
        table = self._tables.runs
        query = self._sa.select(table.c.run_id).where(table.c.state == state)
        if workflow is not None:
            query = query.where(table.c.workflow == workflow)
        if but is not None:
            newest = query.order_by(table.c.created.desc(), table.c.run_id.desc()).limit(but)
            query = query.where(table.c.run_id.not_in(newest))
        if seconds is not None:
            query = query.where(table.c.updated <= self._now - seconds)
        with self._reader.connect() as connection:
            return list(connection.execute(query.order_by(table.c.created.desc(), table.c.run_id.desc())).scalars())

    @patiently
    def sources(self, run_ids: Sequence[str]) -> set[str]:
        """Return the distinct sources of these runs."""
        table = self._tables.runs
        query = self._sa.select(table.c.source).where(table.c.run_id.in_(run_ids)).distinct()
        with self._reader.connect() as connection:
            return set(connection.execute(query).scalars())

    @patiently
    def create(self, run: KeptRun) -> bool:
        """Insert a new run; return False if its id exists."""
        table, sa = self._tables.runs, self._sa
        values = {name: storable(getattr(run, name)) for name in KeptRun.__dataclass_fields__} | {
            "created": self._now,
            "updated": self._now,
        }
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(table).values(**values))
        except sa.exc.IntegrityError:
            return False
        return True

    @patiently
    def take(self, run_id: str, before: str, driver: str) -> bool:
        """Make `driver` the driver of a run instead of `before`; return False if `before` no longer drives the run."""
        return self._update_run(
            run_id,
            before,
            driver=driver,
            state=RUNNING,
            error="",
            cancelling=False,
            drives=self._tables.runs.c.drives + 1,
        )

    @patiently
    def update_run(self, run_id: str, holder: str, **values: object) -> bool:
        """Update columns of a run that `holder` drives; return False if `holder` no longer drives the run."""
        return self._update_run(run_id, holder, **values)

    def _update_run(self, run_id: str, holder: str, **values: object) -> bool:
        table = self._tables.runs
        change = self._sa.update(table).where(table.c.run_id == run_id, table.c.driver == holder)
        values = {name: storable(value) for name, value in values.items()}
        with self._engine.begin() as connection:
            return connection.execute(change.values(updated=self._now, **values)).rowcount > 0

    @patiently
    def request_cancel(self, run_id: str) -> None:
        """Request the driver of a run to cancel it."""
        table = self._tables.runs
        with self._engine.begin() as connection:
            connection.execute(self._sa.update(table).where(table.c.run_id == run_id).values(cancelling=True))

    @patiently
    def forget(self, run_ids: Sequence[str]) -> None:
        """Delete runs with their operators, questions and events."""
        tables = self._tables
        with self._engine.begin() as connection:
            for table in (tables.steps, tables.questions, tables.takeovers, tables.events, tables.runs):
                connection.execute(self._sa.delete(table).where(table.c.run_id.in_(run_ids)))

    # Events

    @patiently
    def keep_events(self, run_id: str, drive: int, events: bytes) -> None:
        """Append recorded events to the stored events of a run."""
        sa, table = self._sa, self._tables.events
        last = sa.select(sa.func.coalesce(sa.func.max(table.c.part), 0) + 1).where(table.c.run_id == run_id)
        values = {"run_id": run_id, "part": last.scalar_subquery(), "drive": drive, "events": events}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(table).values(**values))

    @patiently
    def events(self, run_id: str, after: int = 0) -> Sequence[EventPart]:
        """Return the recorded events of a run in order.

        Args:
            run_id: The run.
            after: Number of a part; the parts after it are returned.
        """
        table = self._tables.events
        query = self._sa.select(table.c.part, table.c.drive, table.c.events)
        query = query.where(table.c.run_id == run_id, table.c.part > after).order_by(table.c.part)
        with self._reader.connect() as connection:
            parts = [EventPart(*row) for row in connection.execute(query)]
        return [part for part in parts if isinstance(part.events, bytes)]  # pyright: ignore[reportUnnecessaryIsInstance]

    @patiently
    def has_events(self, run_id: str) -> bool:
        """Return True if events of a run are recorded."""
        table = self._tables.events
        query = self._sa.select(table.c.part).where(table.c.run_id == run_id).limit(1)
        with self._reader.connect() as connection:
            return connection.execute(query).first() is not None

    @patiently
    def forget_events(self, run_id: str) -> None:
        """Delete the recorded events of a run."""
        table = self._tables.events
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(table).where(table.c.run_id == run_id))

    # Processes

    def beat(self, executor: Executor) -> Mapping[str, bool]:
        """Record a heartbeat.

        Returns:
            The runs that the process drives, each with True if its cancellation was requested.

        Raises:
            Exception: The database cannot be reached at the moment.
        """
        sa, table, runs = self._sa, self._tables.executors, self._tables.runs
        values = {
            "kind": executor.kind,
            "process": executor.process,
            "version": executor.version,
            "queues": json.dumps(executor.queues),
            "concurrency": executor.concurrency,
            "doing": json.dumps(executor.doing),
            "beat": self._now,
            "max_silence": executor.limit,
        }
        with self._engine.begin() as connection:
            changed = connection.execute(sa.update(table).where(table.c.id == executor.id).values(**values)).rowcount
            if not changed:
                connection.execute(sa.insert(table).values(id=executor.id, started=self._now, **values))
            held = connection.execute(sa.select(runs.c.run_id, runs.c.cancelling).where(runs.c.driver == executor.id))
            return {row[0]: bool(row[1]) for row in held}

    @patiently
    def executors(self) -> Sequence[Executor]:
        """Return all known processes, the oldest first."""
        table = self._tables.executors
        query = self._sa.select(table, self._now.label("now")).order_by(table.c.started)
        with self._reader.connect() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            of_row(
                Executor,
                {**row, "queues": _texts(row["queues"]), "doing": _texts(row["doing"]), "limit": row["max_silence"]},
            )
            for row in rows
        ]

    @patiently
    def leave(self, executor_id: str) -> None:
        """Remove a process, which then drives no runs, and delete model calls that no longer count against limits."""
        executors, runs, calls = self._tables.executors, self._tables.runs, self._tables.calls
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(executors).where(executors.c.id == executor_id))
            connection.execute(self._sa.update(runs).where(runs.c.driver == executor_id).values(driver=""))
            connection.execute(self._sa.delete(calls).where(calls.c.until <= self._now))

    # Questions

    @patiently
    def ask(self, question: KeptQuestion) -> str | None:
        """Insert a question; return its answer if it was asked before, with the same text and schema, and answered.

        A question with another text or schema replaces the stored question with its id, whose answer is dropped.
        """
        sa, table = self._sa, self._tables.questions
        values = {name: storable(getattr(question, name)) for name in KeptQuestion.__dataclass_fields__}
        values["asked"] = self._now
        same_id = sa.and_(*(table.c[name] == values[name] for name in ("run_id", "step", "id")))
        columns = (table.c.text, table.c.schema, table.c.answer)
        try:
            with self._engine.begin() as connection:
                row = connection.execute(sa.select(*columns).where(same_id)).first()
                if row is None:
                    connection.execute(sa.insert(table).values(values))
                    return None
                if (row.text, row.schema) == (values["text"], values["schema"]):
                    return row.answer
                connection.execute(sa.update(table).where(same_id).values(values))
        except sa.exc.IntegrityError:  # another process has just inserted the question
            return self.ask(question)
        if row.answer is not None:
            _logger.warning("%s: the answer was to %r; the question is now %r", question.id, row.text, question.text)
        return None

    @patiently
    def questions(self, run_id: str) -> Sequence[KeptQuestion]:
        """Return all questions of a run, in the order in which they were asked."""
        table = self._tables.questions
        columns = [table.c[name] for name in KeptQuestion.__dataclass_fields__]
        query = self._sa.select(*columns).where(table.c.run_id == run_id).order_by(table.c.asked)
        with self._reader.connect() as connection:
            return [of_row(KeptQuestion, row) for row in connection.execute(query).mappings().all()]

    @patiently
    def answer(self, run_id: str, step: str, question_id: str, answer: str) -> bool:
        """Record an answer; return False if the question already has one, or does not exist."""
        table = self._tables.questions
        change = self._sa.update(table).where(
            table.c.run_id == run_id, table.c.step == step, table.c.id == question_id, table.c.answer.is_(None)
        )
        with self._engine.begin() as connection:
            return connection.execute(change.values(answer=answer, answered=self._now)).rowcount > 0

    @patiently
    def forget_questions(self, run_id: str, steps: Sequence[str]) -> None:
        """Delete the questions and deaths recorded for operators of a run."""
        sa, table, deaths = self._sa, self._tables.questions, self._tables.takeovers
        with self._engine.begin() as connection:
            for batch in batched(steps):
                step_ids = [f"{run_id}:{step}" for step in batch]
                connection.execute(sa.delete(table).where(table.c.run_id == run_id, table.c.step.in_(batch)))
                connection.execute(sa.delete(deaths).where(deaths.c.step.in_(step_ids)))

    # Take-overs

    @patiently
    def count_takeover(self, run_id: str, step_id: str, executor_id: str) -> Sequence[str]:
        """Record that a process died while executing an operator; return the ids of all processes that did."""
        sa, table = self._sa, self._tables.takeovers
        values = {"run_id": run_id, "step": step_id, "executor": executor_id, "at": self._now}
        with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
            connection.execute(sa.insert(table).values(**values))
        return self.takeovers(step_id)

    @patiently
    def forget_deaths(self, run_id: str) -> None:
        """Delete the deaths recorded for operators of a run."""
        table = self._tables.takeovers
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(table).where(table.c.run_id == run_id))

    @patiently
    def takeovers_of(self, run_id: str) -> Mapping[str, Sequence[str]]:
        """Return the ids of the processes that died while executing operators of a run, by step id."""
        table, by_step = self._tables.takeovers, defaultdict[str, list[str]](list)
        query = self._sa.select(table.c.step, table.c.executor).where(table.c.run_id == run_id).order_by(table.c.at)
        with self._reader.connect() as connection:
            for step_id, executor in connection.execute(query):
                by_step[step_id].append(executor)
        return by_step

    @patiently
    def takeovers(self, step_id: str) -> Sequence[str]:
        """Return the processes that died while executing an operator."""
        table = self._tables.takeovers
        query = self._sa.select(table.c.executor).where(table.c.step == step_id).order_by(table.c.at)
        with self._reader.connect() as connection:
            return list(connection.execute(query).scalars())


def _texts(text: object) -> tuple[str, ...]:
    """Return the texts of a JSON column; empty if it holds anything else."""
    with suppress(ValueError, TypeError, RecursionError):
        return tuple(str(each) for each in json.loads(cast("str", text)))
    return ()
