"""Tables of runs, processes and questions, and their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import ValidationError

from operad.runtime.durable.process_ids import is_dead
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.json_schema import check_schema
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.questions import Question

VERSION = 8
"""Version of the tables, to be raised with each change of them. Tables of other versions are refused."""


class Tables:
    """Operad's tables as SQLAlchemy objects.

    Args:
        sa: The package `sqlalchemy`, which is installed with an extra and so not imported here.
    """

    def __init__(self, sa: Any) -> None:
        self._sa = sa
        self._statements: dict[str, tuple[Sequence[str], str]] = {}
        text, number, real, boolean = sa.Text, sa.Integer, sa.Double, sa.Boolean

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
            column("cancelling", boolean),
            column("origin", text, server_default=""),
            column("started_by", text, server_default=""),
        )
        sa.Index("ix_operad_runs_created", self.runs.c.created, self.runs.c.run_id)
        sa.Index("ix_operad_runs_state", self.runs.c.state, self.runs.c.updated)
        self.steps = sa.Table(
            "operad_steps",
            self.all,
            column("run_id", text, primary_key=True),
            column("key", text, primary_key=True),
            sa.Column("outcome", text),
            column("began", real),
            column("ended", real),
        )
        self.events = sa.Table(
            "operad_events",
            self.all,
            column("run_id", text, primary_key=True),
            column("part", number, primary_key=True),
            column("events", sa.LargeBinary),
        )
        self.parts = sa.Table(
            "operad_parts",
            self.all,
            *(column(name, text, primary_key=True) for name in ("run_id", "key", "name")),
            column("value", text),
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
            column("by", text, server_default=""),
            column("tool_call", text, server_default=""),
        )
        self.work = sa.Table(
            "operad_work",
            self.all,
            column("id", text, primary_key=True),
            *(column(name, text) for name in ("run_id", "key", "queue", "version", "channel", "request")),
            column("claim", number),
            *(column(name, text) for name in ("worker", "deaths")),
            sa.Column("outcome", text),
            *(column(name, real) for name in ("created", "began", "ended")),
            sa.UniqueConstraint("run_id", "key"),
        )
        unfinished = self.work.c.ended == 0
        sa.Index("ix_operad_work_waiting", self.work.c.queue, postgresql_where=unfinished, sqlite_where=unfinished)
        self.schedules = sa.Table(
            "operad_schedules",
            self.all,
            column("name", text, primary_key=True),
            column("fired", real),
            column("run_id", text),
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

        self.memories = sa.Table(
            "operad_memories",
            self.all,
            *(column(name, text, primary_key=True) for name in ("namespace", "key")),
            column("text", text),
            column("updated", real),
            column("expires", real),
            column("model", text),
            column("vector", sa.LargeBinary),
            sa.Index("ix_operad_memories_expires", "expires"),
        )

    def statements(self, dialect: Any) -> tuple[Sequence[str], str]:
        """Return the statements that create the tables, and a query without rows that names each column.

        They are compiled once for a dialect, because that takes longer than to execute them.
        """
        if dialect.name not in self._statements:
            sa, every = self._sa, self.all.sorted_tables
            create = [sa.schema.CreateTable(table) for table in every]
            create += [sa.schema.CreateIndex(index) for table in every for index in sorted(table.indexes, key=str)]
            query = sa.select(*(sa.exists(sa.select(*table.c).where(sa.false())) for table in every))
            create, query = [str(each.compile(dialect=dialect)) for each in create], str(query.compile(dialect=dialect))
            self._statements[dialect.name] = create, query
        return self._statements[dialect.name]


@cache
def tables(sa: Any) -> Tables:
    """Return the tables, which the databases of a process share."""
    return Tables(sa)


T = TypeVar("T")

RUNNING, ASKS, FINISHED, FAILED, CANCELLED = "running", "asks", "finished", "failed", "cancelled"
"""States of a run: running or interrupted; waiting for an answer; ended with a message, an error, or a cancellation."""

_RUN_ID = re.compile(r"[\w.][\w.-]{0,99}")

LONG = ("source", "graph", "call", "result", "error")
"""Columns of a run that may be long, and are only read for a single run."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Stored record of a run. Its input and result are texts in the form of `Codec`.

    Attributes:
        source: Source of the workflow, with which a command can resume the run.
        graph: Description of the workflow, to detect changes.
        state: ``running``, ``asks``, ``finished``, ``failed`` or ``cancelled``.
        driver: Id of the process that drives the run; empty if none does.
        drives: Number of times that the run was started or resumed.
        created: Time of the start.
        updated: Time of the last update.
        done: Number of operators that have finished.
        total: Number of operators known so far.
        usage: Usage of the run, as JSON of `Usage`.
        verdict: Status of the run's message; empty until the run has finished.
        result: The run's message and number of rounds; empty until the run has finished.
        error: Text of the error of a failed run.
        failed: Key of the operator at which the run failed.
        cancelling: True if the cancellation of the run was requested.
        origin: For a copy, as JSON: the run, the operator from which it continues, what was changed, and by whom.
        started_by: What started the run, as in `Job.started_by`.
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
    origin: str = ""
    started_by: str = ""

    @property
    def used(self) -> Usage:
        """Usage and cost of the run."""
        with suppress(ValidationError):  # another program wrote it
            return Usage.model_validate_json(self.usage)
        return NO_USAGE


class Origins(NamedTuple):
    """Origins of runs to select.

    Attributes:
        sources: Beginnings of the sources of workflows in files, as JSON.
        programs: Names of workflows in Python, whose runs have no source.
    """

    sources: Collection[str]
    programs: Collection[str]


class EventPart(NamedTuple):
    """Recorded events of a run that were stored together.

    Attributes:
        number: Number of the part in the run, from 1.
        events: The compressed events.
    """

    number: int
    events: bytes


@dataclass(frozen=True, slots=True)
class Executor:
    """Process that drives runs, or executes operators as a worker.

    Attributes:
        kind: ``driver`` or ``worker``.
        process: Identity of the process on its machine; see `process_identity`.
        version: Version of the code.
        queues: Queues that the worker serves.
        concurrency: Maximum number of operators at once per queue.
        doing: Step ids of the operators that the worker is executing.
        started: Time of the start.
        beat: Time of the last heartbeat.
        limit: Seconds without a heartbeat after which the process counts as dead.
        now: Time of the database when this row was read.
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
        """Seconds since the last heartbeat, by the clock of the database."""
        return abs(self.now - self.beat)

    @property
    def alive(self) -> bool:
        """True if the last heartbeat is recent, and the process is not known to have ended.

        This is for display. Before work is taken from a process, a `Watch` makes sure that the process is dead.
        """
        return self.silent <= self.limit and not is_dead(self.process)


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """Stored record of a question that a run has asked.

    Attributes:
        step: Key of the operator that asks.
        id: Id of the question, with which it is answered.
        schema: JSON Schema of the answer, as JSON; empty for any answer.
        answer: The answer, as JSON; None until there is one.
        asked: Time of the question.
        answered: Time of the answer; 0 until then.
        by: Name of the person who answered; empty if it is not known.
        tool_call: The tool call in which it is asked, as in `current_tool_call`; empty outside of one.
    """

    run_id: str
    step: str
    id: str
    text: str
    schema: str = ""
    answer: str | None = None
    asked: float = 0.0
    answered: float = 0.0
    by: str = ""
    tool_call: str = ""


DONE, UNDER_WAY = "SUCCESS", ("ENQUEUED", "PENDING")
"""States of an operator's work: finished with an outcome; waiting in a queue, or running."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """Record of an operator's work, which the driver or a worker did.

    Attributes:
        outcome: Outcome in the form of `Codec`; None until there is one, or if it was not read.
        began: Time at which the work started or, while it waits, was put into a queue.
        ended: Time at which the work ended; 0 until then.
        status: `DONE`, one of `UNDER_WAY`, or another text for work that ended without an outcome.
        queue: Queue of the workers; empty for work of the driver.
    """

    run_id: str
    key: str
    outcome: str | None = None
    began: float = 0.0
    ended: float = 0.0
    status: str = "PENDING"
    queue: str = ""

    @property
    def step_id(self) -> str:
        """Id of the work among all runs."""
        return f"{self.run_id}:{self.key}"


class PartRow(NamedTuple):
    """Part of an operator's unfinished work, which is not repeated when another process continues the run.

    Attributes:
        key: Key of the operator's work.
        name: Attempt and name of the part.
        value: Its value, as JSON.
    """

    run_id: str
    key: str
    name: str
    value: str


def text_of(output: object, step_id: str) -> str:
    """Return the stored outcome of an operator, which must be a text.

    Raises:
        InputError: The outcome is not a text.
    """
    if not isinstance(output, str):
        raise InputError(f"the stored outcome of {step_id!r} is not a text; was it written by another program?")
    return output


def of_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a database row as an instance of a dataclass.

    SQLite allows any type in any column; a value of a wrong type is replaced by the default of the field.
    """
    values: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        value, default = row.get(field.name), "" if field.default is MISSING else field.default
        types: Any = {float: (float, int), bool: (bool, int), type(None): (str, type(None))}
        values[field.name] = value if isinstance(value, types.get(type(default), type(default))) else default
    return kind(**values)


def storable(value: Any) -> Any:
    """Return a value that databases accept: text without zero characters and lone surrogates; others unchanged."""
    return value.replace("\0", "\ufffd").encode(errors="replace").decode() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Retention:
    """Rule for deleting finished runs when another run of their workflow finishes.

    Attributes:
        max_age: Maximum age in seconds, since a run was last updated; None for no limit.
        max_runs: Maximum number of runs to keep, the newest first; None for no limit.
    """

    max_age: float | None = None
    max_runs: int | None = None


def check_id(run_id: str) -> None:
    """Check that a run id is valid.

    Raises:
        InputError: The id is not valid.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise InputError(
            f"a run cannot have the id {run_id[:100]!r}: use letters, digits, '.', '_' and '-', 100 at most, and no '-' first"
        )


def question_of(kept: StoredQuestion) -> Question:
    """Return a stored question as a `Question`.

    Raises:
        InputError: The JSON Schema of its answer is not valid.
    """
    try:
        schema = json.loads(kept.schema) if kept.schema else None
        if schema is not None:
            check_schema(schema)
        return Question(id=kept.id, text=kept.text, schema_=schema)
    except (OperadError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"question {kept.id!r} of run {kept.run_id!r}: the JSON Schema of its answer is not valid; was it written by another program?"
        ) from error
