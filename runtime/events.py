"""What happens in a run, as typed events: one stream for progress, logs, files and tracing.

Whoever runs inside an operator, a reasoner or a tool says `emit(TokenStreamed(text="…"))`; the run that
it belongs to, the operator, the round, the time and a sequence number are filled in from where
the call is made. Outside a run, and in a run that nobody listens to, `emit` only keeps the
account of usage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from contextvars import Token as ContextToken
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import Any

from operad.runtime.message import NO_USAGE, Usage, Value, WorkflowMessage, WorkflowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        run_id: The run it happened in.
        operator_id: The operator it happened in; empty where it concerns the whole run.
        round: The round of the run, counted from 1; an operator's attempt is its round.
        seq: Its place in the run's stream, counted from 1 without gaps.
        time: Seconds since the epoch.
    """

    run_id: str = ""
    operator_id: str = ""
    round: int = 0
    seq: int = 0
    time: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The event as plain values, its type's name first under ``event``."""
        values = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"event": type(self).__name__, **values}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run begins: the workflow's name, its operators and, per operator, those before it."""

    workflow: str
    goal: str
    operators: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """A run ended with a message; its usage is the whole run's."""

    message: WorkflowMessage
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """A run ended with an error, or was cancelled."""

    error: str
    seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted(Event):
    """A round begins in which these operators run; all others keep their results."""

    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFinished(Event):
    """A round was judged."""

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStarted(Event):
    """An operator begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFinished(Event):
    """An operator ended with a message, which bears its usage."""

    seconds: float
    message: WorkflowMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFailed(Event):
    """An operator raised."""

    seconds: float
    usage: Usage
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCancelled(Event):
    """An operator was stopped because the run failed elsewhere or was cancelled."""

    seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """An operator that works through a list has done so many of its items."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStreamed(Event):
    """A model wrote a piece of text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswered(Event):
    """A call to a model ended."""

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRejected(Event):
    """A model's answer did not fit its schema and is asked for again."""

    error: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    """A tool begins, with these arguments."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    """A tool ended: with a result, or with an error that goes back to the model."""

    call_id: str
    tool: str
    result: str
    failed: bool
    seconds: float


Listener = Callable[[Event], None]
"""Whoever wants to know. It is called in the run's own thread and must not block."""


class RunLog:
    """Numbers and dates one run's events and hands them to its listeners."""

    __slots__ = ("_listeners", "_lock", "_seq", "run_id")

    def __init__(self, run_id: str, listeners: tuple[Listener, ...] = ()) -> None:
        self.run_id = run_id
        self._listeners = listeners
        self._seq = 0
        self._lock = Lock()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def write(self, event: Event, operator_id: str = "", round: int = 0) -> None:
        """Complete `event` and hand it to every listener."""
        if not self._listeners:
            return
        with self._lock:  # tools that run in threads write, too
            self._seq += 1
            event = replace(
                event, run_id=self.run_id, operator_id=operator_id, round=round, seq=self._seq, time=time.time()
            )
            for listener in self._listeners:
                listener(event)


@dataclass(slots=True)
class Scope:
    """Where in a run the current code is: one operator in one round, and what it used so far."""

    log: RunLog
    operator_id: str = ""
    round: int = 0
    usage: Usage = field(default=NO_USAGE)


_scope: ContextVar[Scope | None] = ContextVar("operad_scope", default=None)


def enter(scope: Scope) -> ContextToken[Scope | None]:
    """Make `scope` the current one in this context."""
    return _scope.set(scope)


def current_scope() -> Scope | None:
    """The operator run that the current code is part of, or None outside of runs."""
    return _scope.get()


def emit(event: Event) -> None:
    """Say that `event` happened in the operator that the current code runs in."""
    scope = _scope.get()
    if scope is None:
        return
    if isinstance(event, ModelAnswered):
        scope.usage = scope.usage + event.usage
    scope.log.write(event, scope.operator_id, scope.round)


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.model_dump(mode="json", fallback=str)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]  # pyright: ignore
    if isinstance(value, WorkflowStatus):
        return value.value
    return value if value is None or isinstance(value, str | int | float) else str(value)
