"""Typed events: one stream for progress, logs, files and tracing; each can be read back from its plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert
from msgspec.json import Decoder
from pydantic import JsonValue

from operad.runtime.values.fault import Fault
from operad.runtime.values.message import SubJob, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.questions import approved_call, people_in
from operad.runtime.values.value import Value


class Event(Struct, frozen=True, kw_only=True):
    """Base class of events.

    Attributes:
        path: Path of the operator in the run: the ids of the enclosing operators, outermost first, and its own id.
            ``("each[2]", "check")`` is the operator ``check`` in the workflow that the map ``each`` runs for its third
            item.
        operator_id: Id of the operator; empty for an event of a whole workflow.
        round: Round of the workflow, counted from 1.
        attempt: Attempt of the operator in that round, counted from 1.
        seq: Number of the event in the run's stream, counted from 1.
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
        values = {name: plain(getattr(self, name)) for name in self.__struct_fields__}
        return {"event": type(self).__name__, **values}


class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins.

    Attributes:
        goal: Goal of the job.
        operators: Ids of the direct predecessors of each operator, by its id.
        judges: Ids of the evaluators.
        instructions: Purpose of each operator and evaluator that declares one, by its id.
        engine: The engine that runs the workflow, ``dbgpt`` or ``builtin``; empty if unknown, as in
            events of earlier versions.
        ports: For each operator, by the id of a predecessor, the ports from which edges lead to it; edges without ports
            are left out.
        inputs: Named values of the job.
        started_by: What started the run, as in `Job.started_by`.
    """

    workflow: str
    goal: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    inputs: Mapping[str, Any] = {}
    started_by: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """A run ended with the message of the event's `round`; the usage of the message is that of the whole run."""

    message: WorkflowMessage
    seconds: float
    rounds: int


CANCELLED = "it was cancelled"


class RunFailed(Event, frozen=True, kw_only=True):
    """A run ended with an error, or was cancelled; then `error` is ``CANCELLED``.

    Attributes:
        internal: The part of `error` that is the text of an exception which is none of Operad's own; empty for none. It
            is not for clients of a server: see `internal_text`. Other events of errors have the same attribute.
    """

    error: str
    seconds: float
    usage: Usage
    internal: str = ""


class JobSplit(Event, frozen=True, kw_only=True):
    """A leader has split a job, or a part of one, into these parts."""

    sub_jobs: tuple[SubJob, ...]


class OperatorStarted(Event, frozen=True, kw_only=True):
    """An operator begins."""


class OperatorFinished(Event, frozen=True, kw_only=True):
    """An operator ended with a message, which includes its usage."""

    seconds: float
    message: WorkflowMessage


class OperatorFailed(Event, frozen=True, kw_only=True):
    """An operator raised an error."""

    seconds: float
    usage: Usage
    error: str
    internal: str = ""


class OperatorCancelled(Event, frozen=True, kw_only=True):
    """An operator was stopped because the run failed elsewhere or was cancelled."""

    seconds: float
    usage: Usage


class Progress(Event, frozen=True, kw_only=True):
    """An operator has processed `done` of `total` items of a list."""

    done: int
    total: int


class TaskBuilt(Event, frozen=True, kw_only=True):
    """An operator has built its task for the reasoner: `Task.shown`."""

    task: Mapping[str, Any]


class ModelAsked(Event, frozen=True, kw_only=True):
    """A call to a model begins.

    Attributes:
        call_id: Id of the call; unique in the run.
        messages: The conversation so far, in the form of chat completions; images are replaced by their lengths.
        tools: Names of the tools that are offered.
        provider: The vendor, by its prefix, such as ``openai``; of other endpoints, the host.
    """

    call_id: str
    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...] = ()
    provider: str = ""


class TokenStreamed(Event, frozen=True, kw_only=True):
    """A model wrote a piece of text."""

    text: str


class ThinkingStreamed(Event, frozen=True, kw_only=True):
    """A model wrote a piece of its reasoning, which is not a part of the answer."""

    text: str


class SettingsDropped(Event, frozen=True, kw_only=True):
    """A model does not take some settings of a call, which were left out.

    Attributes:
        settings: The settings, each with the reason.
    """

    model: str
    settings: tuple[str, ...]


class ModelAnswered(Event, frozen=True, kw_only=True):
    """A call to a model ended.

    Attributes:
        call_id: Id of the call; empty if its start was not reported.
        text: Text of the answer.
        tool_calls: Tools that it calls, each with its ``name`` and its ``arguments`` as JSON text.
        finish_reason: Reason for the end: ``stop``, ``tools``, ``length`` if the answer was cut off at the maximum
            number of tokens, ``filter`` if a filter stopped it, ``refusal`` if the model refused.
        thinking: Reasoning before the answer, as far as the vendor shows it.
    """

    model: str
    usage: Usage
    call_id: str = ""
    text: str = ""
    tool_calls: tuple[Mapping[str, str], ...] = ()
    finish_reason: str = ""
    thinking: str = ""

    @property
    def cut_off(self) -> bool:
        """True if the answer was cut off at the maximum number of tokens."""
        return self.finish_reason == "length"


class ModelRetried(Event, frozen=True, kw_only=True):
    """A request to a model was refused temporarily, and is sent again after a delay.

    Attributes:
        call_id: Id of the call; empty if its start was not reported.
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
    internal: str = ""


class MaxTurnsReached(Event, frozen=True, kw_only=True):
    """A model used all turns of an operator for tool calls, and gave no answer; the operator fails."""

    model: str
    turns: int
    tool_calls: Mapping[str, int]


class ConversationShortened(Event, frozen=True, kw_only=True):
    """A conversation became too long for its model, so older results of tools are left out except for their beginnings.

    Attributes:
        results: Number of results that were shortened.
        characters: Number of characters that were left out.
    """

    model: str
    results: int
    characters: int


class AnswerRejected(Event, frozen=True, kw_only=True):
    """A model's answer did not fit its schema; the model is asked again."""

    error: str
    repair: int


class ToolCalled(Event, frozen=True, kw_only=True):
    """A tool is called with arguments."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


class ToolReturned(Event, frozen=True, kw_only=True):
    """A tool ended with a result, or with an error, which the model is told."""

    call_id: str
    tool: str
    result: str
    failed: bool
    seconds: float
    internal: str = ""


class OperatorSkipped(Event, frozen=True, kw_only=True):
    """An operator does not run, because no branch that leads to it was taken."""

    reason: str


class OperatorRetried(Event, frozen=True, kw_only=True):
    """An attempt of an operator failed; the next one begins after `delay` seconds."""

    error: str
    delay: float
    internal: str = ""


class FellBack(Event, frozen=True, kw_only=True):
    """The last attempt of an operator failed, and its fallback replaces it."""

    error: str
    to: str
    internal: str = ""


class MessageKept(Event, frozen=True, kw_only=True):
    """An operator finished before the run was interrupted; its message was kept, and it does not run again."""


class CacheHit(Event, frozen=True, kw_only=True):
    """An operator does not run, because its message was found in its cache."""


class KnowledgeRetrieved(Event, frozen=True, kw_only=True):
    """An operator searched its knowledge base; the event has source, score and text of each passage, best first."""

    sources: tuple[str, ...]
    scores: tuple[float, ...]
    texts: tuple[str, ...] = ()


class PassagesEmbedded(Event, frozen=True, kw_only=True):
    """A knowledge base embedded some of its new passages, before a search.

    Attributes:
        model: Name of the embedding model.
        done: Number of new passages embedded so far.
    """

    model: str
    done: int
    total: int


class InsightsRecalled(Event, frozen=True, kw_only=True):
    """An operator looked up insights of earlier runs, in a run with insights.

    Attributes:
        operator: The operator's fingerprint, under which its insights are kept.
        about: The operator's job, shortened.
        insights: Keys of the insights that the operator receives; empty if there are none for this job.
        store: The `Insights` that contain them.
    """

    operator: str
    about: str
    insights: tuple[str, ...]
    texts: tuple[str, ...]
    store: str


class WorkflowEntered(Event, frozen=True, kw_only=True):
    """A workflow inside an operator begins; the fields are those of `RunStarted`.

    Attributes:
        item: Item of a map for which the workflow runs; None outside of maps.
    """

    workflow: str
    operators: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = {}
    engine: str = ""
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    item: Any = None


class Interrupted(Event, frozen=True, kw_only=True):
    """An operator or a tool asks a person and waits until `Workflow.resume` gives the answer.

    Attributes:
        interrupt_id: Id under which the question is answered; unique in the run.
        schema: JSON Schema of the answer; None for any answer.
    """

    interrupt_id: str
    question: str
    schema: Mapping[str, Any] | None = None

    @property
    def tool(self) -> str | None:
        """Name of the tool that is to be allowed; None for other questions."""
        return approved_call(self.schema)[0]

    @property
    def arguments(self) -> Mapping[str, JsonValue]:
        """Arguments with which the tool is to be called; empty for other questions."""
        return approved_call(self.schema)[1]

    @property
    def answer_by(self) -> Sequence[str]:
        """Names of the people who may answer; empty for anyone."""
        return people_in(self.schema)


class Resumed(Event, frozen=True, kw_only=True):
    """A person has answered a question, after `seconds`.

    Attributes:
        by: Name of the person, as the program that passed the answer on gave it; empty if it is not known.
    """

    interrupt_id: str
    seconds: float
    by: str = ""


Listener = Callable[[Event], object]
"""Function that receives events. It is called in the thread of the run and must not block."""


def plain(value: Any) -> Any:
    """Return a field of an event as plain values: texts, numbers, lists and dictionaries."""
    if isinstance(value, Value):
        try:
            return value.model_dump(mode="json", fallback=str)
        except UnicodeEncodeError:  # half a surrogate pair in a name
            return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]  # pyright: ignore
    if isinstance(value, WorkflowStatus):
        return value.value
    return value if value is None or isinstance(value, str | int | float) else str(value)


class RoundStarted(Event, frozen=True, kw_only=True):
    """A round begins: the listed operators run, all others keep their results."""

    operators: tuple[str, ...]


class RoundFinished(Event, frozen=True, kw_only=True):
    """A round was judged.

    Attributes:
        by_error: True if an operator's error ended the round, rather than a verdict.
        has_result: True if the round has a result, which may become the result of the run.
        repairs: Places of the operators that run again first in the next round, with the reason if the verdict does not
            blame them.
    """

    status: WorkflowStatus
    evaluation: str
    lesson: str
    blame: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    unsure: tuple[str, ...] = ()
    score: float | None = None
    by_error: bool = False
    has_result: bool = True
    repairs: Mapping[str, str] = {}

    @property
    def accepted(self) -> bool:
        """True if the round was not rejected."""
        return self.status is WorkflowStatus.SUCCESS


class OperatorKept(Event, frozen=True, kw_only=True):
    """An operator that could have run again in a round keeps its message, because its input did not change."""


class EvidenceCut(Event, frozen=True, kw_only=True):
    """A prompt has only a part of the work of some operators: an evaluator's, or that of an operator behind a port.

    Attributes:
        operators: Ids of these operators, in the order of the graph.
        characters: Number of characters that were left out.
    """

    operators: tuple[str, ...]
    characters: int


class BlameUnknown(Event, frozen=True, kw_only=True):
    """A verdict blames operators that do not exist; `blame` is their names, each with the nearest known one.

    If no existing operator is blamed, all operators run again.
    """

    blame: str


_EVENT_TYPES = {kind.__name__: kind for kind in Event.__subclasses__()}
for _kind in _EVENT_TYPES.values():
    # msgspec describes the fields of a type when it first reads one. A second thread that reads one meanwhile uses half a
    # description, which ends the process (segmentation fault). Hence the types are described here, by the only importer.
    Decoder(_kind)


def read_event(values: Mapping[str, Any]) -> Event | None:
    """Return the event for values as returned by `Event.as_dict`; None if the type of the event is unknown.

    Raises:
        ValueError: The values are not those of an event.
    """
    kind = _EVENT_TYPES.get(str(values.get("event")))
    return kind and convert(values, type=kind, dec_hook=_to_value)


def _to_value(kind: type, value: Any) -> Any:
    return kind.model_validate(value) if issubclass(kind, Value) else value
