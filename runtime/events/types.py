"""Typed events: one stream for progress, logs, files and tracing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct, convert

from operad.runtime.values.message import (
    SubJob,
    Usage,
    Value,
    WorkflowMessage,
    WorkflowStatus,
)


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
        has_result: Whether the round came to a result, which may be the run's.
    """

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]
    score: float | None = None
    by_error: bool = False
    has_result: bool = True


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


class PassagesEmbedded(Event, frozen=True, kw_only=True):
    """A knowledge base embedded so many of the passages that had no vector yet, before it was searched.

    Attributes:
        model: The model that embeds them.
        done: How many are done.
        total: How many there are.
    """

    model: str
    done: int
    total: int


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


Listener = Callable[[Event], object]
"""Whoever wants to know. It is called in the run's own thread and must not block."""


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
