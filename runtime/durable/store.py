"""The tables that runs are kept in, beside those of dbos: runs, processes, questions, take-overs, calls of models.

All times are seconds since the epoch by the database's clock. Each method is one transaction, may block, and may
be called from any thread; a database that is gone for a while is waited for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.durable.counted_calls import CountedCalls
from operad.runtime.durable.database import patiently
from operad.runtime.durable.rows import LONG, RUNNING, Executor, KeptQuestion, KeptRun, of_row
from operad.runtime.durable.schema_version import VERSION, check_not_newer, statements_from
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL


class Store(CountedCalls):
    """The tables in one database, made when they are not there, and brought to the version of this release.

    Args:
        url: The database, as `database_url` gives it.

    Raises:
        InputError: It cannot be reached or used, or a later release wrote it.
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
        """The version of the tables; 0 where there are none.

        Raises:
            InputError: It is a later one than this release knows.
        """
        there = self._sa.inspect(connection)
        if not there.has_table(self._tables.schema.name):
            return int(there.has_table(self._tables.runs.name))
        version = connection.execute(self._sa.select(self._tables.schema.c.version)).scalar()
        if not isinstance(version, int) or version < 1:
            raise InputError(
                f"{self.name}: the table operad_schema holds no version; was it written by something else?"
            )
        check_not_newer(self.name, version)
        return version

    def _migrate(self) -> None:
        sa = self._sa
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # two processes that make them at once
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7263911)"))
            version = self._version_in(connection)
            if not version:
                self._tables.all.create_all(connection)
                connection.execute(sa.insert(self._tables.schema).values(version=VERSION))
            elif version < VERSION:
                for statement in statements_from(version, sqlite=self._is_sqlite):
                    connection.execute(sa.text(statement))

    def _check_columns(self) -> None:
        """See that no table or column is missing, now rather than in the middle of a run."""
        sa = self._sa
        each = (sa.exists(sa.select(*table.c).where(sa.false())) for table in self._tables.all.sorted_tables)
        with self._reader.connect() as connection:
            connection.execute(sa.select(*each))

    # Runs

    @patiently
    def run(self, run_id: str) -> KeptRun | None:
        """A run; None where there is none."""
        table = self._tables.runs
        with self._reader.connect() as connection:
            row = connection.execute(self._sa.select(table).where(table.c.run_id == run_id)).mappings().first()
        return None if row is None else of_row(KeptRun, row)

    @patiently
    def runs(self, limit: int | None = None, after: str = "", states: Collection[str] = ()) -> Sequence[KeptRun]:
        """Runs, the newest first, without what is long in them: `LONG`.

        Args:
            limit: How many at most; None for all.
            after: The id of a run: those that come after it.
            states: Those in these states; all, where none is named.
        """
        sa, table = self._sa, self._tables.runs
        query = self._short().order_by(table.c.created.desc(), table.c.run_id.desc()).limit(limit)
        if after:
            last = sa.select(table.c.created).where(table.c.run_id == after).scalar_subquery()
            query = query.where(sa.tuple_(table.c.created, table.c.run_id) < sa.tuple_(last, after))
        if states:
            query = query.where(table.c.state.in_(states))
        with self._reader.connect() as connection:
            return [of_row(KeptRun, row) for row in connection.execute(query).mappings()]

    @patiently
    def these(self, run_ids: Sequence[str]) -> Sequence[KeptRun]:
        """The runs with these ids, without what is long in them; those that are not there are left out."""
        query = self._short().where(self._tables.runs.c.run_id.in_(run_ids))
        with self._reader.connect() as connection:
            return [of_row(KeptRun, row) for row in connection.execute(query).mappings()]

    def _short(self) -> Any:
        return self._sa.select(*(column for column in self._tables.runs.c if column.name not in LONG))

    @patiently
    def ended(
        self, state: str, *, seconds: float | None = None, but: int | None = None, workflow: str | None = None
    ) -> Sequence[str]:
        """The ids of runs that have ended, the newest first.

        Args:
            state: How they have ended.
            seconds: Those of which nothing was noted for so long.
            but: All but so many of the newest.
            workflow: Those of the workflow with this name.
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
        """What these runs were made from."""
        table = self._tables.runs
        query = self._sa.select(table.c.source).where(table.c.run_id.in_(run_ids)).distinct()
        with self._reader.connect() as connection:
            return set(connection.execute(query).scalars())

    @patiently
    def step_ids(self, run_ids: Sequence[str]) -> Sequence[str]:
        """The ids under which dbos knows the operators of these runs."""
        sa = self._sa
        step = sa.column("workflow_uuid")
        if self._is_sqlite:  # its index serves
            table = sa.table("workflow_status", step)
            chosen = sa.or_(*((step >= f"{run_id}:") & (step < f"{run_id};") for run_id in run_ids))
        else:
            table = sa.table("workflow_status", step, schema="dbos")
            chosen = sa.func.split_part(step, ":", 1).in_(run_ids)
        with self._reader.connect() as connection:
            return list(connection.execute(sa.select(step).select_from(table).where(chosen)).scalars())

    @patiently
    def digests(self, pattern: str) -> set[str]:
        """What of this pattern stands in anything that is kept of any run."""
        sa, runs, found = self._sa, self._tables.runs, set[str]()
        step = sa.table("workflow_output", sa.column("output"), schema=None if self._is_sqlite else "dbos")
        whole = sa.table("workflow_status", sa.column("output"), schema=None if self._is_sqlite else "dbos")
        with self._reader.connect() as connection:
            for column in (runs.c.call, runs.c.result, step.c.output, whole.c.output):
                query = sa.select(column).where(column.like("%sha256:%")).execution_options(yield_per=50)
                for text in connection.execute(query).scalars():
                    found.update(re.findall(pattern, str(text)))
        return found

    @patiently
    def create(self, run: KeptRun) -> bool:
        """Note a new run; False where there is one with its id."""
        table, sa = self._tables.runs, self._sa
        values = {name: _storable(getattr(run, name)) for name in KeptRun.__dataclass_fields__} | {
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
        """Have `driver` drive a run in the place of `before`; False where that one does not drive it any more."""
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
    def note(self, run_id: str, holder: str, **values: object) -> bool:
        """Note something about a run that `holder` drives; False where it does not any more."""
        return self._update_run(run_id, holder, **values)

    def _update_run(self, run_id: str, holder: str, **values: object) -> bool:
        table = self._tables.runs
        change = self._sa.update(table).where(table.c.run_id == run_id, table.c.driver == holder)
        values = {name: _storable(value) for name, value in values.items()}
        with self._engine.begin() as connection:
            return connection.execute(change.values(updated=self._now, **values)).rowcount > 0

    @patiently
    def ask_to_end(self, run_id: str) -> None:
        """Have whoever drives a run end it."""
        table = self._tables.runs
        with self._engine.begin() as connection:
            connection.execute(self._sa.update(table).where(table.c.run_id == run_id).values(cancelling=True))

    @patiently
    def forget(self, run_ids: Sequence[str]) -> None:
        """Forget runs with their questions and events."""
        tables = self._tables
        with self._engine.begin() as connection:
            for table in (tables.questions, tables.takeovers, tables.events, tables.runs):
                connection.execute(self._sa.delete(table).where(table.c.run_id.in_(run_ids)))

    # Events

    @patiently
    def keep_events(self, run_id: str, drive: int, events: bytes) -> None:
        """Keep what was heard of a run, after what was heard before."""
        sa, table = self._sa, self._tables.events
        last = sa.select(sa.func.coalesce(sa.func.max(table.c.part), 0) + 1).where(table.c.run_id == run_id)
        values = {"run_id": run_id, "part": last.scalar_subquery(), "drive": drive, "events": events}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(table).values(**values))

    @patiently
    def events(self, run_id: str) -> Sequence[tuple[int, bytes]]:
        """What was heard of a run, in order, each part with the number of its drive."""
        table = self._tables.events
        query = self._sa.select(table.c.drive, table.c.events).where(table.c.run_id == run_id).order_by(table.c.part)
        with self._reader.connect() as connection:
            return [(drive, part) for drive, part in connection.execute(query) if isinstance(part, bytes)]

    @patiently
    def forget_events(self, run_id: str) -> None:
        """Forget what was heard of a run."""
        table = self._tables.events
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(table).where(table.c.run_id == run_id))

    # Processes

    def beat(self, executor: Executor) -> Mapping[str, bool]:
        """Give a sign of life.

        Returns:
            The runs that it drives, and whether somebody wants them to end.

        Raises:
            Exception: The database is gone just now.
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
        """All processes that are known, the oldest first."""
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
        """A process ends, and drives nothing any more. What no longer counts against limits goes, too."""
        executors, runs, calls = self._tables.executors, self._tables.runs, self._tables.calls
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(executors).where(executors.c.id == executor_id))
            connection.execute(self._sa.update(runs).where(runs.c.driver == executor_id).values(driver=""))
            connection.execute(self._sa.delete(calls).where(calls.c.until <= self._now))

    # Questions

    @patiently
    def ask(self, question: KeptQuestion) -> None:
        """Note a question, if it is not noted yet."""
        sa, table = self._sa, self._tables.questions
        values = {name: _storable(getattr(question, name)) for name in KeptQuestion.__dataclass_fields__}
        with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
            connection.execute(sa.insert(table).values({**values, "asked": self._now}))

    @patiently
    def questions(self, run_id: str) -> Sequence[KeptQuestion]:
        """All that a run has asked, in order."""
        table = self._tables.questions
        columns = [table.c[name] for name in KeptQuestion.__dataclass_fields__]
        query = self._sa.select(*columns).where(table.c.run_id == run_id).order_by(table.c.asked)
        with self._reader.connect() as connection:
            return [of_row(KeptQuestion, row) for row in connection.execute(query).mappings().all()]

    @patiently
    def answer(self, run_id: str, step: str, question_id: str, answer: str) -> bool:
        """Note an answer; False where there is one already, or no such question."""
        table = self._tables.questions
        change = self._sa.update(table).where(
            table.c.run_id == run_id, table.c.step == step, table.c.id == question_id, table.c.answer.is_(None)
        )
        with self._engine.begin() as connection:
            return connection.execute(change.values(answer=answer, answered=self._now)).rowcount > 0

    @patiently
    def forget_steps(self, run_id: str, steps: Collection[str]) -> None:
        """Forget what operators of a run asked, and who died over them."""
        table, deaths = self._tables.questions, self._tables.takeovers
        with self._engine.begin() as connection:
            for step in steps:
                connection.execute(self._sa.delete(table).where(table.c.run_id == run_id, table.c.step == step))
                connection.execute(self._sa.delete(deaths).where(deaths.c.step == f"{run_id}:{step}"))

    # Take-overs

    @patiently
    def count_takeover(self, run_id: str, step_id: str, executor_id: str) -> Sequence[str]:
        """Note that a process died over an operator; return all that did."""
        sa, table = self._sa, self._tables.takeovers
        values = {"run_id": run_id, "step": step_id, "executor": executor_id, "at": self._now}
        with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
            connection.execute(sa.insert(table).values(**values))
        return self.takeovers(step_id)

    @patiently
    def forget_deaths(self, run_id: str) -> None:
        """Forget who died over operators of a run."""
        table = self._tables.takeovers
        with self._engine.begin() as connection:
            connection.execute(self._sa.delete(table).where(table.c.run_id == run_id))

    @patiently
    def takeovers(self, step_id: str) -> Sequence[str]:
        """The processes that died over an operator."""
        table = self._tables.takeovers
        query = self._sa.select(table.c.executor).where(table.c.step == step_id).order_by(table.c.at)
        with self._reader.connect() as connection:
            return list(connection.execute(query).scalars())


def _texts(text: object) -> tuple[str, ...]:
    """Texts that stand in a column as JSON; none, if that is something else."""
    with suppress(ValueError, TypeError, RecursionError):
        return tuple(str(each) for each in json.loads(cast("str", text)))
    return ()


def _storable(value: Any) -> Any:
    """The same; of a text what databases take, which is neither zero characters nor halves of characters."""
    return value.replace("\0", "\ufffd").encode(errors="replace").decode() if isinstance(value, str) else value
