"""What stands in the tables that runs are kept in, a row each: runs, processes, questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast

from operad.runtime.durable.places import is_dead

T = TypeVar("T")

RUNNING, PAUSED, FINISHED, FAILED, CANCELLED = "running", "paused", "finished", "failed", "cancelled"
"""What a run is: under way or interrupted, waiting for a person, ended with a message, with an error, by a person."""

LONG = ("source", "graph", "call", "result", "error")
"""What of a run may be long, and is looked up for one run alone."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What is kept of a run as a whole. What it was given and what came of it is text, as `Codec` writes it.

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


def of_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """A row as a value. SQLite keeps anything in any column; what is not of its field's type counts as nothing."""
    given: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        value, nothing = row.get(field.name), "" if field.default is MISSING else field.default
        wanted: Any = {float: (float, int), bool: (bool, int), type(None): (str, type(None))}
        given[field.name] = value if isinstance(value, wanted.get(type(nothing), type(nothing))) else nothing
    return kind(**given)
