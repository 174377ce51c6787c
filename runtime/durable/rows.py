"""Rows of the tables of runs, processes and questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, TypeVar, cast

from operad.runtime.durable.places import is_dead
from operad.runtime.values.errors import InputError

T = TypeVar("T")

RUNNING, PAUSED, FINISHED, FAILED, CANCELLED = "running", "paused", "finished", "failed", "cancelled"
"""States of a run: in progress or interrupted; waiting for an answer; ended with a message, an error, or by a person."""

LONG = ("source", "graph", "call", "result", "error")
"""Columns of a run that may be long, and are read for a single run only."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """Kept record of a run. Its input and result are texts in the form of `Codec`.

    Attributes:
        run_id: Id of the run.
        workflow: Name of its workflow.
        source: Source of the workflow, with which a command can resume the run.
        graph: Description of the workflow, to detect changes.
        call: Input of the run.
        state: ``running``, ``paused``, ``finished``, ``failed`` or ``cancelled``.
        driver: Process that drives it; empty if none does.
        drives: Number of times it was begun or resumed.
        created: Time of its start.
        updated: Time of its last update.
        done: Number of operators that have finished.
        total: Number of operators known so far.
        usage: Its usage, as text of `Usage`.
        verdict: Status of its message; empty until it has finished.
        result: Its message; empty until it has finished.
        error: Text of the error it failed with.
        failed: Key of the operator at which it failed.
        cancelling: True if its cancellation was requested.
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
    """A process that drives runs, or executes operators as a worker.

    Attributes:
        id: Id of the process.
        kind: ``driver`` or ``worker``.
        process: Its identity on its machine.
        version: Version of the code.
        queues: Queues that it serves.
        concurrency: Maximum number of operators at once.
        doing: Operators that it is executing, with their runs.
        started: Time of its start.
        beat: Time of its last heartbeat.
        limit: Seconds without a heartbeat after which it counts as dead.
        now: The database's time when this row was read.
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
        """Seconds since its last heartbeat, as far as clocks agree."""
        return abs(self.now - self.beat)

    @property
    def alive(self) -> bool:
        """True if it seems to live: its last heartbeat is recent by the clocks, and it is not known to have ended.

        This is for display. Before anything is taken from a process, its death is established by a `Watch`.
        """
        return self.silent <= self.limit and not is_dead(self.process)


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A question asked by a run.

    Attributes:
        run_id: The run.
        step: Key of the operator that asks.
        id: Id to answer it by.
        text: The question.
        schema: JSON Schema of the answer, as JSON; empty for any answer.
        answer: The answer, as JSON; None until there is one.
        asked: Time of the question.
        answered: Time of the answer; 0 until then.
    """

    run_id: str
    step: str
    id: str
    text: str
    schema: str = ""
    answer: str | None = None
    asked: float = 0.0
    answered: float = 0.0


DONE, UNDER_WAY = "SUCCESS", ("ENQUEUED", "PENDING")
"""States of an operator's work, in the words of dbos: it has an outcome; it waits in a queue, or is being done."""

ENDED = (DONE, "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""States of work that has ended."""


class EndedWork(NamedTuple):
    """Work of an operator that a worker has done or given up.

    Attributes:
        step_id: Id of the work among all runs.
        status: One of `ENDED`.
        output: The outcome in the form of `Codec`; None if there is none.
        error: What dbos says of its failure; None for nothing.
    """

    step_id: str
    status: str
    output: object = None
    error: object = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """Record of an operator's work: in Operad's table if the driver did it, in that of dbos if a worker did.

    Attributes:
        run_id: The run.
        key: Key of the work in the run.
        outcome: Its outcome in the form of `Codec`; None until there is one, or if it was not read.
        began: Time at which it began or, while it waits, was put into a queue.
        ended: Time at which it ended; 0 until then.
        status: `DONE`, one of `UNDER_WAY`, or another word of dbos for work that ended without an outcome.
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


def text_of(output: object, step_id: str) -> str:
    """Return the kept outcome of an operator as text.

    Raises:
        InputError: The outcome is not a text.
    """
    if not isinstance(output, str):
        raise InputError(f"the stored outcome of {step_id!r} is not a text; was it written by another program?")
    return output


def of_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a row as a value. SQLite allows any type in any column; a value of a wrong type is ignored."""
    given: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        value, nothing = row.get(field.name), "" if field.default is MISSING else field.default
        wanted: Any = {float: (float, int), bool: (bool, int), type(None): (str, type(None))}
        given[field.name] = value if isinstance(value, wanted.get(type(nothing), type(nothing))) else nothing
    return kind(**given)


def storable(value: Any) -> Any:
    """Return a value that databases accept: a text without zero characters and lone surrogates; others unchanged."""
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
