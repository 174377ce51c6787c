"""What happens in a run, as typed events: one stream for progress, logs, files and tracing.

Whoever runs inside an operator, a reasoner or a tool says `emit(TokenStreamed(text="…"))`; the run that
it belongs to, the operator's path, the round, the attempt, the time and a sequence number are
filled in from where the call is made. Outside a run `emit` does nothing, and in a run that nobody
listens to it only keeps the account of usage.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, convert
from msgspec.structs import replace

from operad.runtime.values.message import (
    NO_USAGE,
    Contribution,
    Job,
    SubJob,
    Usage,
    Value,
    WorkflowMessage,
    WorkflowStatus,
)

if TYPE_CHECKING:
    from operad.runtime.events.keeper import Keeper
    from operad.runtime.graph.build import Build
    from operad.runtime.knowledge.insights import RunInsights
    from operad.runtime.policies.deadline import Deadline
    from operad.runtime.policies.limits import Limiter, Place, SharedLimits
    from operad.runtime.policies.policy import Budget
    from operad.runtime.values.questions import Questions

_logger = logging.getLogger(__name__)


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened.

    Attributes:
        run_id: The run it happened in.
        path: Where in the run: the ids of the operators around it, outermost first, and that of the
            operator itself. ``("each[2]", "check")`` is the operator ``check`` in the workflow that
            the map ``each`` runs for its third item.
        operator_id: The operator it happened in; empty where it concerns a whole workflow.
        round: The round of the workflow, counted from 1.
        attempt: The operator's attempt in that round, counted from 1.
        seq: Its place in the run's stream, counted from 1.
        time: Seconds since the epoch.
    """

    run_id: str = ""
    path: tuple[str, ...] = ()
    operator_id: str = ""
    round: int = 0
    attempt: int = 0
    seq: int = 0
    time: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The event as plain values, its type's name first under ``event``."""
        values = {name: _plain(getattr(self, name)) for name in self.__struct_fields__}
        return {"event": type(self).__name__, **values}


class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins: the workflow's name, its operators and, per operator, those before it.

    Attributes:
        judges: The ids of its evaluators.
        instructions: What operators and evaluators are there for, of those that say so.
        engine: The engine that runs the workflow, ``dbgpt`` or ``builtin``; empty where it is not known, as in
            events of earlier versions.
    """

    workflow: str
    goal: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """A run ended with a message, that of the event's `round`; its usage is the whole run's."""

    message: WorkflowMessage
    seconds: float
    rounds: int


CANCELLED = "it was cancelled"


class RunFailed(Event, frozen=True, kw_only=True):
    """A run ended with an error, or was cancelled: its error is then ``CANCELLED``."""

    error: str
    seconds: float
    usage: Usage


class JobSplit(Event, frozen=True, kw_only=True):
    """A leader has split a job, or a part of one, into these parts."""

    sub_jobs: tuple[SubJob, ...]


class RoundStarted(Event, frozen=True, kw_only=True):
    """A round begins in which these operators run; all others keep their results."""

    operators: tuple[str, ...]


class RoundFinished(Event, frozen=True, kw_only=True):
    """A round was judged.

    Attributes:
        by_error: Whether it is an operator's error that ended it, and nobody's judgement.
    """

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]
    score: float | None = None
    by_error: bool = False


class BlameUnknown(Event, frozen=True, kw_only=True):
    """A verdict blames who is nobody here: their names, each with the nearest known one.

    Where nobody else is blamed, all operators run again.
    """

    blame: str


class OperatorStarted(Event, frozen=True, kw_only=True):
    """An operator begins."""


class OperatorFinished(Event, frozen=True, kw_only=True):
    """An operator ended with a message, which bears its usage."""

    seconds: float
    message: WorkflowMessage


class OperatorFailed(Event, frozen=True, kw_only=True):
    """An operator raised."""

    seconds: float
    usage: Usage
    error: str


class OperatorCancelled(Event, frozen=True, kw_only=True):
    """An operator was stopped because the run failed elsewhere or was cancelled."""

    seconds: float
    usage: Usage


class Progress(Event, frozen=True, kw_only=True):
    """An operator that works through a list has done so many of its items."""

    done: int
    total: int


class TaskBuilt(Event, frozen=True, kw_only=True):
    """An operator knows what it asks of the reasoner: `Task.shown`."""

    task: Mapping[str, Any]


class ModelAsked(Event, frozen=True, kw_only=True):
    """A call to a model begins.

    Attributes:
        call_id: Which call; unique in the run.
        model: The model's name.
        messages: The conversation so far, as chat completions have it; of images only how long they are.
        tools: The names of the tools that are offered.
    """

    call_id: str
    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...] = ()


class TokenStreamed(Event, frozen=True, kw_only=True):
    """A model wrote a piece of text."""

    text: str


class ModelAnswered(Event, frozen=True, kw_only=True):
    """A call to a model ended.

    Attributes:
        model: The model's name.
        usage: What it cost.
        call_id: Which call; empty where nobody said that it began.
        text: What the model said.
        tool_calls: The tools that it calls, each with its ``name`` and its ``arguments`` as JSON text.
        finish_reason: Why it stopped, in the endpoint's words: ``length`` where it was cut off at the most tokens it
            may write, ``content_filter`` where a filter stopped it.
    """

    model: str
    usage: Usage
    call_id: str = ""
    text: str = ""
    tool_calls: tuple[Mapping[str, str], ...] = ()
    finish_reason: str = ""

    @property
    def cut_off(self) -> bool:
        """Whether the answer was cut off at the most tokens that it may have."""
        return self.finish_reason == "length"


class ModelRetried(Event, frozen=True, kw_only=True):
    """A request to a model was refused for the time being, and is sent again after so many seconds.

    Attributes:
        call_id: Which call; empty where nobody said that it began.
        model: The model's name.
        error: Why it was refused.
        delay: Seconds until it is sent again.
        retry: Which retry of the call, counted from 1.
    """

    call_id: str
    model: str
    error: str
    delay: float
    retry: int


class ModelFailed(Event, frozen=True, kw_only=True):
    """A call to a model failed."""

    call_id: str
    model: str
    error: str


class AnswerRejected(Event, frozen=True, kw_only=True):
    """A model's answer did not fit its schema and is asked for again."""

    error: str
    repair: int


class ToolCalled(Event, frozen=True, kw_only=True):
    """A tool begins, with these arguments."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


class ToolReturned(Event, frozen=True, kw_only=True):
    """A tool ended: with a result, or with an error that goes back to the model."""

    call_id: str
    tool: str
    result: str
    failed: bool
    seconds: float


class OperatorSkipped(Event, frozen=True, kw_only=True):
    """An operator does not run: the way to it was not taken."""

    reason: str


class OperatorRetried(Event, frozen=True, kw_only=True):
    """An attempt failed, and another is made after so many seconds."""

    error: str
    delay: float


class FellBack(Event, frozen=True, kw_only=True):
    """The last attempt failed, and the operator's fallback takes its place."""

    error: str
    to: str


class MessageKept(Event, frozen=True, kw_only=True):
    """An operator had finished when the run was interrupted; its message was kept, and it does not run again."""


class CacheHit(Event, frozen=True, kw_only=True):
    """An operator's message was found in its cache; it does not run."""


class KnowledgeRetrieved(Event, frozen=True, kw_only=True):
    """An operator looked its job up: where the passages stand that it is given, the best first, and how well they fit."""

    sources: tuple[str, ...]
    scores: tuple[float, ...]


class InsightsRecalled(Event, frozen=True, kw_only=True):
    """An operator looked up what earlier runs taught it, in a run with insights.

    Attributes:
        operator: The operator's fingerprint, under which its insights are kept.
        about: Its job, shortened.
        insights: The keys of those that it is shown; none where there are none for this job.
        texts: What these say.
        store: Which `Insights` it looked in.
    """

    operator: str
    about: str
    insights: tuple[str, ...]
    texts: tuple[str, ...]
    store: str


class WorkflowEntered(Event, frozen=True, kw_only=True):
    """A workflow inside an operator begins: what `RunStarted` says of it."""

    workflow: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""


class Interrupted(Event, frozen=True, kw_only=True):
    """An operator or a tool asks a person, and waits for `Workflow.resume` with the answer.

    Attributes:
        interrupt_id: What the answer is given under; unique in the run.
        question: What is asked.
        schema: The JSON Schema of the answer; None for any.
    """

    interrupt_id: str
    question: str
    schema: Mapping[str, Any] | None = None


class Resumed(Event, frozen=True, kw_only=True):
    """A person answered."""

    interrupt_id: str
    seconds: float


Listener = Callable[[Event], None]
"""Whoever wants to know. It is called in the run's own thread and must not block."""


class Buffer(Protocol):
    """A listener that lags behind."""

    @property
    def crowded(self) -> bool:
        """Whether operators that are to start had better wait."""
        ...

    async def room(self) -> None:
        """Wait until it is no longer crowded."""
        ...

    def put(self, event: Event) -> None:
        """Take in an event."""
        ...


class RunLog:
    """Numbers and dates one run's events and hands them to its listeners.

    Args:
        run_id: The run's identity.
        listeners: Who wants to know.
        buffer: One of them, who wants operators not to start while it is crowded.
        outer: The log of the run that this one is part of, if it is; it gets every event, too.
        depth: How many operators it is inside of there.

    Attributes:
        run_id: The run's identity.
        heard: Whether anybody listens.
        buffered: Whether one of those who listen may lag behind.
        now: The run's clock, the event loop's: seconds since some moment.
    """

    __slots__ = (
        "_buffer",
        "_depth",
        "_epoch",
        "_listeners",
        "_lock",
        "_outer",
        "_seq",
        "buffered",
        "heard",
        "now",
        "run_id",
    )

    def __init__(
        self,
        run_id: str,
        listeners: tuple[Listener, ...] = (),
        buffer: Buffer | None = None,
        outer: RunLog | None = None,
        depth: int = 0,
    ) -> None:
        self.run_id = run_id
        self._listeners = (*listeners, buffer.put) if buffer else listeners
        self._buffer = buffer
        self._outer = outer
        self._depth = depth
        self._seq = 0
        self._lock = RLock()  # a listener may emit
        self.heard = bool(self._listeners) or (outer is not None and outer.heard)
        self.buffered = buffer is not None or (outer is not None and outer.buffered)
        self.now = asyncio.get_running_loop().time
        self._epoch = time.time() - self.now()

    def listen(self, listener: Listener) -> None:
        """Have another listener hear all events from now on."""
        self._listeners = (*self._listeners, listener)
        self.heard = True

    def write(
        self,
        event: Event,
        path: tuple[str, ...] = (),
        operator_id: str = "",
        round: int = 0,
        attempt: int = 0,
        *,
        only_here: bool = False,
    ) -> None:
        """Complete `event` and hand it to every listener. One that raises is reported to the log and goes on.

        Args:
            event: What happened.
            path: Where, seen from the outermost run.
            operator_id: In which operator.
            round: In which round.
            attempt: In which attempt.
            only_here: Whether the run around this one shall not hear of it.
        """
        if self._listeners:
            with self._lock:  # tools that run in threads write, too
                self._seq = seq = self._seq + 1
                stamped = replace(
                    event,
                    run_id=self.run_id,
                    path=path[self._depth :] if self._depth else path,
                    operator_id=operator_id,
                    round=round,
                    attempt=attempt,
                    seq=seq,
                    time=self._epoch + self.now(),
                )
                for listener in self._listeners:
                    try:
                        listener(stamped)
                    except (Exception, asyncio.CancelledError) as error:  # who watches a run must not stop it
                        _logger.warning("a listener failed on %s", type(event).__name__, exc_info=error)
        if self._outer is not None and not only_here:
            self._outer.write(event, path, operator_id, round, attempt)

    @property
    def crowded(self) -> bool:
        """Whether a consumer cannot keep up."""
        return (self._buffer is not None and self._buffer.crowded) or (self._outer is not None and self._outer.crowded)

    async def room(self) -> None:
        """Wait until every consumer has caught up."""
        if self._buffer:
            await self._buffer.room()
        if self._outer:
            await self._outer.room()


class RunInProgress(Protocol):
    """A run, as those who work in it see it."""

    log: RunLog
    job: Job
    insights: RunInsights | None
    outer: Scope | None
    questions: Questions
    budget: Budget
    calls: tuple[Limiter, ...]
    shared_limits: SharedLimits | None
    keeper: Keeper | None
    build: Build
    usage: Usage
    workflow: str
    finished: dict[str, WorkflowMessage] | None
    idle: int

    def contributions(self) -> tuple[Contribution, ...]:
        """What operators have said, as it stands."""
        ...

    @property
    def root(self) -> RunInProgress:
        """The outermost run."""
        ...

    def spend(self, usage: Usage) -> None:
        """Add to what it has used."""
        ...

    def check_budget(self, *, by_next: bool = False) -> None:
        """Raise a `BudgetError` if its budget is exceeded, or would be by another model call."""
        ...

    def waiting(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """While one of its operators waits for a person."""
        ...

    def look_whether_paused(self) -> None:
        """See whether all of it waits for a person."""
        ...


class Scope(Struct, kw_only=True, eq=False):
    """Where in a run the current code is.

    Attributes:
        run: The run of the workflow whose operator it is.
        path: The operator's path, as in events.
        operator_id: The operator.
        round: The round.
        attempt: The operator's attempt in that round.
        usage: What it used so far, all attempts and all inside it included.
        deadlines: What limits the time of the attempt, and of tools that it calls.
        place: Its place among the operators that may run at once.
        waits_for: How many workflows run inside it, and questions are open.
        questions: How many questions it has asked.
        around: Whether it does nothing but run workflows, in places of their own.
        kept: The events that are kept with its message; None where no message is.
        key: What it is known by in its run, where the operators around it are in another process.
    """

    run: RunInProgress
    path: tuple[str, ...]
    operator_id: str
    round: int
    attempt: int = 1
    usage: Usage = NO_USAGE
    deadlines: list[Deadline] = []
    place: Place | None = None
    waits_for: int = 0
    questions: int = 0
    around: bool = False
    kept: list[Event] | None = None
    key: str = ""

    def outwards(self) -> Generator[Scope, None, None]:
        """This scope, that of the operator around its workflow, and so on."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.run.outer

    def sign_of_life(self) -> None:
        """Something happens here: whoever waits for that, here or further out, waits anew."""
        for scope in self.outwards():
            for deadline in scope.deadlines:
                deadline.sign_of_life()

    def write(self, event: Event) -> None:
        """Write an event that happened here."""
        if self.kept is not None and not isinstance(event, TokenStreamed | ModelAsked | Interrupted | Resumed):
            self.kept.append(event)
        self.run.log.write(event, self.path, self.operator_id, self.round, self.attempt)

    def charge(self, usage: Usage) -> None:
        """Add to the account of this operator, of its run, and of those around it.

        Raises:
            BudgetError: A run's budget is exceeded.
        """
        for scope in self.outwards():
            scope.usage = scope.usage + usage
            scope.run.spend(usage)
        for scope in self.outwards():
            scope.run.check_budget()


_scope: ContextVar[Scope | None] = ContextVar("operad_scope", default=None)
enter = _scope.set
"""Makes a scope the current one in this context."""


def current_scope() -> Scope | None:
    """The operator run that the current code is part of, or None outside of runs."""
    return _scope.get()


def heard() -> bool:
    """Whether anybody hears what is said where this is called; else an event that is costly to make need not be."""
    scope = _scope.get()
    return scope is not None and (scope.run.log.heard or scope.kept is not None)


def emit(event: Event) -> None:
    """Say that `event` happened in the operator that the current code runs in.

    Raises:
        BudgetError: It is a `ModelAnswered`, and the run's budget is exceeded by it.
    """
    scope = _scope.get()
    if scope is None:
        return
    scope.sign_of_life()
    scope.write(event)
    if isinstance(event, ModelAnswered):
        scope.charge(event.usage)


def read_event(values: Mapping[str, Any]) -> Event | None:
    """The event that `Event.as_dict` gave these values of; None where it is of no type that is known here.

    Raises:
        ValueError: They are not those of an event.
    """
    kind = _kinds().get(str(values.get("event")))
    return kind and convert(values, type=kind, dec_hook=_of_ours)


@cache
def _kinds() -> dict[str, type[Event]]:
    return {kind.__name__: kind for kind in Event.__subclasses__() if kind.__module__ == __name__}


def _of_ours(kind: type, value: Any) -> Any:
    return kind.model_validate(value) if issubclass(kind, Value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        try:
            return value.model_dump(mode="json", fallback=str)
        except UnicodeEncodeError:  # half a surrogate pair in a name
            return _plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]  # pyright: ignore
    if isinstance(value, WorkflowStatus):
        return value.value
    return value if value is None or isinstance(value, str | int | float) else str(value)
