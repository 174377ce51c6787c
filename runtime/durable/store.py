"""The tables that runs are kept in, beside those of dbos: runs, processes, questions, take-overs, calls of models.

All times are seconds since the epoch by the database's clock. Each method is one transaction, may block, and may
be called from any thread; a database that is gone for a while is waited for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from operad.runtime.durable.database import Database, patiently
from operad.runtime.durable.places import is_dead
from operad.runtime.durable.schema_version import VERSION, check_not_newer, statements_from
from operad.runtime.policies.limits import LONGEST_HOLD_OFF, WINDOW, Limits
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL

_GRACE = 2.0
"""Seconds that one who waits for a limit may be late and keep its place."""

_SOON = 0.1

T = TypeVar("T")

RUNNING, PAUSED, FINISHED, FAILED, CANCELLED = "running", "paused", "finished", "failed", "cancelled"
"""What a run is: under way or interrupted, waiting for a person, ended with a message, with an error, by a person."""

_CALL, _TOKENS, _HOLD, _PLACE = "call", "tokens", "hold", "place"
"""What counts against limits: a call, tokens, that an endpoint wants no calls, who was there first."""


LONG = ("source", "graph", "call", "result", "error")
"""What of a run may be long, and is looked up for one run alone."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What is kept of a run as a whole. What it was given and what came of it is text, as `Wire` writes it.

    Attributes:
        run_id: Its id.
        workflow: The workflow's name.
        source: What it was made from, so that a command can go on with it.
        graph: The workflow as a JSON value, to see whether it was changed.
        call: What it was given.
        state: ``running``, ``paused``, ``finished``, ``failed`` or ``cancelled``.
        driver: The process that drives it; empty where none does.
        drives: How often it was begun or gone on with.
        created: When it was begun.
        updated: When anything was last noted.
        done: How many operators have finished.
        total: How many there are, as far as is known.
        usage: What it has cost, as `Usage` writes itself.
        verdict: The status of its message; empty until it has finished.
        result: Its message; empty until it has finished.
        error: What it failed with, in words.
        failed: The key of the operator that it failed at.
        cancelling: Whether somebody wants it to end.
    """

    run_id: str
    workflow: str = ""
    source: str = ""
    graph: str = ""
    call: str = ""
    state: str = RUNNING
    driver: str = ""
    drives: int = 1
    created: float = 0.0
    updated: float = 0.0
    done: int = 0
    total: int = 0
    usage: str = ""
    verdict: str = ""
    result: str = ""
    error: str = ""
    failed: str = ""
    cancelling: bool = False


@dataclass(frozen=True, slots=True)
class Executor:
    """A process that drives runs, or works for them.

    Attributes:
        id: Its id.
        kind: ``driver`` or ``worker``.
        process: Its identity on its machine.
        version: Of the code.
        queues: The queues that it serves.
        concurrency: How many operators at once.
        doing: The operators that it is at, with their runs.
        started: When it began.
        beat: Its last sign of life.
        limit: After how many seconds without one it counts as dead.
        now: The database's clock when this was read.
    """

    id: str
    kind: str = "driver"
    process: str = ""
    version: str = ""
    queues: tuple[str, ...] = ()
    concurrency: int = 0
    doing: tuple[str, ...] = ()
    started: float = 0.0
    beat: float = 0.0
    limit: float = 10.0
    now: float = 0.0

    @property
    def silent(self) -> float:
        """Seconds since its last sign of life, as far as clocks agree."""
        return abs(self.now - self.beat)

    @property
    def alive(self) -> bool:
        """Whether it seems to live: it gave a sign of life lately by the clocks, and is not known to have ended.

        This is for people. Whoever takes something from a process makes sure by a `Watch`.
        """
        return self.silent <= self.limit and not is_dead(self.process)


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A question that a run asks.

    Attributes:
        run_id: The run.
        step: The key of the operator that asks.
        id: What the answer is given under.
        text: The question.
        schema: The JSON Schema of the answer, as JSON; empty for any.
        answer: The answer, as JSON; None until there is one.
        asked: When it was asked.
        answered: When it was answered; 0 until then.
    """

    run_id: str
    step: str
    id: str
    text: str
    schema: str = ""
    answer: str | None = None
    asked: float = 0.0
    answered: float = 0.0


class Store(Database):
    """The tables in one database, made when they are not there, and brought to the version of this release.

    Args:
        url: The database, as `database_url` gives it.

    Raises:
        InputError: It cannot be reached or used, or a later release wrote it.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._tables = _Tables(self._sa)
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
        return None if row is None else _of_row(KeptRun, row)

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
            return [_of_row(KeptRun, row) for row in connection.execute(query).mappings()]

    @patiently
    def these(self, run_ids: Sequence[str]) -> Sequence[KeptRun]:
        """The runs with these ids, without what is long in them; those that are not there are left out."""
        query = self._short().where(self._tables.runs.c.run_id.in_(run_ids))
        with self._reader.connect() as connection:
            return [_of_row(KeptRun, row) for row in connection.execute(query).mappings()]

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
            _of_row(
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
            return [_of_row(KeptQuestion, row) for row in connection.execute(query).mappings().all()]

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

    # Calls of models

    @patiently
    def admit(self, key: str, limits: Limits, caller: str, window: float = WINDOW) -> float:
        """Let in a call of a model and note it, or say when to ask again. Who does so in time keeps its place.

        Args:
            key: What the limits are called.
            limits: Those a minute count, not how many at once.
            caller: Who asks.
            window: Seconds over which is counted.

        Returns:
            0 when it is let in; else after how many seconds to ask again.
        """
        sa, table = self._sa, self._tables.calls
        until, mine = table.c.until, (table.c.key == key) & (table.c.kind == _PLACE) & (table.c.caller == caller)
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # there every transaction has the whole database for itself
                number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            now = self._now_in(connection)
            over = (until <= now) | (until > now + 2 * LONGEST_HOLD_OFF)  # the database's clock was put back
            connection.execute(sa.delete(table).where(table.c.key == key, over))
            came = connection.execute(sa.select(table.c.at).where(mine)).scalar() or now
            opens = self._opens(connection, key, limits, came, now)
            connection.execute(sa.delete(table).where(mine))
            if opens > now:
                self._count(connection, key, _PLACE, came, opens + _GRACE, caller=caller)
            elif limits.requests_per_minute is not None:
                self._count(connection, key, _CALL, now, now + window, caller=caller)
            return max(0.0, opens - now)

    def _opens(self, connection: Any, key: str, limits: Limits, came: float, now: float) -> float:
        """When one who came then may be let in, as far as is known; the past where it may be now."""
        sa, table = self._sa, self._tables.calls
        until = table.c.until

        def those(kind: str) -> Any:
            return (table.c.key == key) & (table.c.kind == kind)

        opens = connection.execute(sa.select(sa.func.max(until)).where(those(_HOLD))).scalar() or now
        if (most := limits.requests_per_minute) is not None:
            first = those(_PLACE) & (table.c.at < came)
            before = connection.execute(sa.select(sa.func.count()).select_from(table).where(first)).scalar()
            # Those before it count as let in; when this call of the last minute is over, one more may be.
            last = (
                sa.select(until).where(those(_CALL)).order_by(until.desc()).offset(max(0, most - 1 - before)).limit(1)
            )
            over = connection.execute(last).scalar() or (now + _SOON if before >= most else now)
            opens = max(opens, over)
        if (most := limits.tokens_per_minute) is not None:
            sums = sa.select(sa.func.sum(table.c.tokens), sa.func.min(until)).where(those(_TOKENS))
            tokens, over = connection.execute(sums).one()
            if tokens is not None and tokens >= most:
                opens = max(opens, over)
        return float(opens)

    @patiently
    def spend(self, key: str, tokens: int, window: float = WINDOW) -> None:
        """Note tokens that were read and written."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _TOKENS, now, now + window, tokens=tokens)

    @patiently
    def hold_off(self, key: str, seconds: float) -> None:
        """Let no call in for so many seconds, at most `LONGEST_HOLD_OFF`."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _HOLD, now, now + min(seconds, LONGEST_HOLD_OFF))

    def _count(
        self, connection: Any, key: str, kind: str, at: float, until: float, *, tokens: int = 0, caller: str = ""
    ) -> None:
        values = {"key": key, "kind": kind, "at": at, "until": until, "tokens": tokens, "caller": caller}
        connection.execute(self._sa.insert(self._tables.calls).values(**values))


class _Tables:
    def __init__(self, sa: Any) -> None:
        text, number, real, yes = sa.Text, sa.Integer, sa.Double, sa.Boolean

        def column(name: str, kind: Any, **options: Any) -> Any:
            return sa.Column(name, kind, nullable=False, **options)

        self.all = sa.MetaData()
        self.schema = sa.Table("operad_schema", self.all, column("version", number, primary_key=True))
        self.runs = sa.Table(
            "operad_runs",
            self.all,
            column("run_id", text, primary_key=True),
            *(column(name, text) for name in ("workflow", "source", "graph", "call", "state")),
            column("driver", text, index=True),
            column("drives", number),
            column("created", real),
            column("updated", real),
            column("done", number),
            column("total", number),
            *(column(name, text) for name in ("usage", "verdict", "result", "error", "failed")),
            column("cancelling", yes),
        )
        sa.Index("ix_operad_runs_created", self.runs.c.created, self.runs.c.run_id)
        sa.Index("ix_operad_runs_state", self.runs.c.state, self.runs.c.updated)
        self.events = sa.Table(
            "operad_events",
            self.all,
            column("run_id", text, primary_key=True),
            column("part", number, primary_key=True),
            column("drive", number),
            column("events", sa.LargeBinary),
        )
        self.executors = sa.Table(
            "operad_executors",
            self.all,
            column("id", text, primary_key=True),
            *(column(name, text) for name in ("kind", "process", "version", "queues", "doing")),
            column("concurrency", number),
            column("started", real),
            column("beat", real),
            column("max_silence", real),
        )
        self.questions = sa.Table(
            "operad_questions",
            self.all,
            *(column(name, text, primary_key=True) for name in ("run_id", "step", "id")),
            column("text", text),
            column("schema", text),
            sa.Column("answer", text),
            column("asked", real),
            column("answered", real),
        )
        self.takeovers = sa.Table(
            "operad_takeovers",
            self.all,
            column("step", text, primary_key=True),
            column("executor", text, primary_key=True),
            column("run_id", text, index=True),
            column("at", real),
        )
        self.calls = sa.Table(
            "operad_calls",
            self.all,
            *(column(name, text) for name in ("key", "kind", "caller")),
            column("at", real),
            column("until", real),
            column("tokens", sa.BigInteger),
            sa.Index("operad_calls_counted", "key", "kind", "until"),
        )


def _of_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """A row as a value. SQLite keeps anything in any column; what is not of its field's type counts as nothing."""
    given: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        value, nothing = row.get(field.name), "" if field.default is MISSING else field.default
        wanted: Any = {float: (float, int), bool: (bool, int), type(None): (str, type(None))}
        given[field.name] = value if isinstance(value, wanted.get(type(nothing), type(nothing))) else nothing
    return kind(**given)


def _texts(text: object) -> tuple[str, ...]:
    """Texts that stand in a column as JSON; none, if that is something else."""
    with suppress(ValueError, TypeError, RecursionError):
        return tuple(str(each) for each in json.loads(cast("str", text)))
    return ()


def _storable(value: Any) -> Any:
    """The same; of a text what databases take, which is neither zero characters nor halves of characters."""
    return value.replace("\0", "\ufffd").encode(errors="replace").decode() if isinstance(value, str) else value
