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
    """Base class of events.

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
        """Return the event as plain values, with the name of its type first, under ``event``."""
        values = {name: _plain(getattr(self, name)) for name in self.__struct_fields__}
        return {"event": type(self).__name__, **values}


class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins: the workflow's name, its operators and, per operator, those before it.

    Attributes:
        judges: The ids of its evaluators.
        instructions: What operators and evaluators are there for, of those that say so.
        engine: The engine that runs the workflow, ``dbgpt`` or ``builtin``; empty if unknown, as in
            events of earlier versions.
        ports: Per operator, the ports that edges to it leave from, by the operator before it; edges without ports are
            left out.
    """

    workflow: str
    goal: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = {}


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
        by_error: True if an operator's error ended it, rather than an evaluator.
        has_result: True if the round came to a result, which may be the run's.
    """

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]
    score: float | None = None
    by_error: bool = False
    has_result: bool = True


class BlameUnknown(Event, frozen=True, kw_only=True):
    """A verdict blames operators that do not exist: their names, each with the nearest known one.

    If no existing operator is blamed, all operators run again.
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
    """An operator has built its task for the reasoner: `Task.shown`."""

    task: Mapping[str, Any]


class ModelAsked(Event, frozen=True, kw_only=True):
    """A call to a model begins.

    Attributes:
        call_id: Id of the call; unique in the run.
        model: Name of the model.
        messages: The conversation so far, in the form of chat completions; images are replaced by their lengths.
        tools: Names of the tools that are offered.
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
        model: Name of the model.
        usage: Its usage.
        call_id: Id of the call; empty if its start was not reported.
        text: Text of the answer.
        tool_calls: Tools that it calls, each with its ``name`` and its ``arguments`` as JSON text.
        finish_reason: Reason for the end, in the endpoint's words: ``length`` if the answer was cut off at the maximum
            number of tokens, ``content_filter`` if a filter stopped it.
    """

    model: str
    usage: Usage
    call_id: str = ""
    text: str = ""
    tool_calls: tuple[Mapping[str, str], ...] = ()
    finish_reason: str = ""

    @property
    def cut_off(self) -> bool:
        """True if the answer was cut off at the maximum number of tokens."""
        return self.finish_reason == "length"


class ModelRetried(Event, frozen=True, kw_only=True):
    """A request to a model was refused temporarily, and is sent again after a delay.

    Attributes:
        call_id: Id of the call; empty if its start was not reported.
        model: Name of the model.
        error: Reason for the refusal.
        delay: Seconds until it is sent again.
        retry: Number of the retry, counted from 1.
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
    """An operator searched its knowledge base: sources of the passages found, the best first, and their scores."""

    sources: tuple[str, ...]
    scores: tuple[float, ...]


class PassagesEmbedded(Event, frozen=True, kw_only=True):
    """A knowledge base embedded some of its new passages, before a search.

    Attributes:
        model: The model that embeds them.
        done: How many are done.
        total: How many there are.
    """

    model: str
    done: int
    total: int


class InsightsRecalled(Event, frozen=True, kw_only=True):
    """An operator looked up insights of earlier runs, in a run with insights.

    Attributes:
        operator: The operator's fingerprint, under which its insights are kept.
        about: Its job, shortened.
        insights: Keys of the insights that it is shown; empty if there are none for this job.
        texts: Texts of these insights.
        store: The `Insights` they come from.
    """

    operator: str
    about: str
    insights: tuple[str, ...]
    texts: tuple[str, ...]
    store: str


class WorkflowEntered(Event, frozen=True, kw_only=True):
    """A workflow inside an operator begins; the fields are those of `RunStarted`.

    Attributes:
        item: Item of a map for which it runs; None for none.
    """

    workflow: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    item: Any = None


class Interrupted(Event, frozen=True, kw_only=True):
    """An operator or a tool asks a person, and waits for `Workflow.resume` with the answer.

    Attributes:
        interrupt_id: Id to answer it by; unique in the run.
        question: The question.
        schema: JSON Schema of the answer; None for any.
    """

    interrupt_id: str
    question: str
    schema: Mapping[str, Any] | None = None


class Resumed(Event, frozen=True, kw_only=True):
    """A person answered."""

    interrupt_id: str
    seconds: float


Listener = Callable[[Event], object]
"""Function that receives events. It is called in the run's own thread and must not block."""


def read_event(values: Mapping[str, Any]) -> Event | None:
    """Return the event with these values, as written by `Event.as_dict`; None if its type is unknown.

    Raises:
        ValueError: They are not the values of an event.
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
