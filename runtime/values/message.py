"""Messages and jobs: a job goes into a workflow, messages go from operator to operator."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast
from uuid import uuid4

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    field_serializer,
    model_validator,
)

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.fault import Fault, WorkflowStatus, blamed_by, finding_lines, lesson_of, status_text
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.json_like import as_json
from operad.runtime.values.own import own
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    Ids = Sequence[str]  # constructors accept a list; the field is a tuple
else:
    Ids = tuple[str, ...]


def new_id() -> str:
    """Return a new identifier: a random UUID as text."""
    return str(uuid4())


def _as_status(value: object) -> WorkflowStatus:
    return WorkflowStatus(value)


def _as_ids(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_cost(value: object) -> object:
    return 0.0 if value is None else value


def _unpriced_calls(fields: dict[str, Any]) -> int:
    return 0 if fields.get("cost") else fields.get("calls", 0)


def _dollars(dollars: float) -> str:
    """Return an amount of dollars, with six decimals below one; never 0 for a positive amount."""
    if dollars >= 1:
        return f"{dollars:,.2f}"
    if 0 < dollars < 1e-6:
        return "less than 0.000001"
    return f"{dollars:.6f}".rstrip("0").rstrip(".")


class Usage(Value):
    """Usage and cost of model calls. Usages can be added.

        usage = Usage(calls=1, prompt_tokens=200) + Usage(calls=1, completion_tokens=40)
        print(usage.calls, usage.tokens)  # 2 240

    Attributes:
        calls: Number of requests to a model.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written, including those of reasoning.
        seconds: Time spent waiting for models, summed over concurrent calls.
        cost: US dollars, for the calls whose price is known; 0.0 and JSON null if no price is known: see `known_cost`.
        unpriced: Number of calls whose price is unknown. By default, all calls if `cost` is 0, otherwise none.
        cached_tokens: Tokens read that the vendor had cached, which cost less; a part of `prompt_tokens`.
        cache_written_tokens: Tokens read that the vendor wrote into its cache; a part of `prompt_tokens`.
        reasoning_tokens: Tokens of reasoning; a part of `completion_tokens`.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # an endpoint may give its key as a number

    calls: int = Field(default=0, ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    cost: Annotated[float, BeforeValidator(_as_cost)] = Field(default=0.0, ge=0, allow_inf_nan=False)
    unpriced: int = Field(default_factory=_unpriced_calls, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    cache_written_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)

    @property
    def known_cost(self) -> float | None:
        """US dollars; None if models were called, and no price is known."""
        return None if self.unpriced and not self.cost else self.cost

    @field_serializer("cost", when_used="json")
    def _cost_as_json(self, cost: float) -> float | None:
        return self.known_cost

    def money(self) -> str:
        """Return the cost as text: ``0.0123 USD``, ``unknown`` or ``0.0123 USD + 3 calls of unknown price``."""
        if self.known_cost is None:
            return "unknown"
        unpriced_calls = (
            f" + {self.unpriced:,} call{'s' if self.unpriced > 1 else ''} of unknown price" if self.unpriced else ""
        )
        return f"{_dollars(self.cost)} USD{unpriced_calls}"

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            seconds=self.seconds + other.seconds,
            cost=self.cost + other.cost,
            unpriced=self.unpriced + other.unpriced,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()


_STAMP_FIELDS = {"operator_id", "job_id", "usage"}
_TEXT = {"scratchpad", *_STAMP_FIELDS}
_TEXT_AND_OUTPUTS = {"outputs", *_TEXT}
_TEXT_AND_ANSWER = {"answer", *_TEXT_AND_OUTPUTS}

_new = object.__new__
_set_values, _set_names, _set_private, _set_extra = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")
)


def _unvalidated(
    kind: type[WorkflowMessage], values: dict[str, Any], names: AbstractSet[str], private: Any
) -> WorkflowMessage:
    """Return a message with these values of all its fields, of which those named were set.

    Every operator of a run creates messages; pydantic's own `model_construct` takes twenty times as long.
    """
    message = _new(kind)
    _set_values(message, values)
    _set_names(message, names)
    _set_private(message, private)
    _set_extra(message, None)
    return message


class WorkflowMessage(Value):
    """Message of an operator, an evaluator or a whole workflow.

        message = WorkflowMessage(scratchpad="Two claims.", outputs={"claims": ["air", "water"]})
        print(message.text, message.outputs["claims"])

    Attributes:
        scratchpad: The text: an operator's answer; in a verdict, the text that was judged.
        status: The verdict; SUCCESS if there is no evaluator.
        evaluation: Reason for the verdict.
        lesson: Advice for the next attempt; by default that of `faults`.
        outputs: Named values for the operators that follow.
        answer: Name of the output that is the whole answer: ``output`` for a number, a list and any other value that is
            neither text nor an object with fields, ``items`` for a map. None if the answer is the text, or the object
            whose fields are the outputs, whatever their names.
        ports: Ports taken, among those that edges leave from; None for all.
        faults: Faults that an evaluator found; without them, `blame` and `lesson` say which operators run again, and why.
        blame: Ids of the operators at fault; by default those of `faults`.
        unsure: Statements that an evaluator could not verify, because it was not shown what they rest on.
        score: Quality of the work; larger is better. None if it was not measured.
        job_id: Id of the job.
        operator_id: Id of the operator that wrote the message.
        usage: Usage and cost of the operator.
        parts: Messages that this one joins: those of several end operators, in the order in which they were added, or
            of the items of a map.
        item: Item of the list as JSON, in a part of a map's message.
        over: Place of the list, in the message with which a map passes an item to its body: the id of an operator and
            the name of its output, or the name of an input of the job; empty for a list that a function returns. None
            in all other messages.
    """

    scratchpad: str = Field(default="", kw_only=False)
    status: Annotated[WorkflowStatus, BeforeValidator(_as_status)] = WorkflowStatus.SUCCESS
    evaluation: str = ""
    lesson: str = ""
    outputs: dict[str, Any] = Field(default_factory=dict)
    answer: str | None = None
    ports: tuple[str, ...] | None = None
    faults: tuple[Fault, ...] = ()
    blame: Annotated[Ids, BeforeValidator(_as_ids)] = ()
    unsure: tuple[str, ...] = ()
    score: float | None = Field(default=None, allow_inf_nan=False)
    job_id: str = ""
    operator_id: str = ""
    usage: Usage = NO_USAGE
    parts: tuple[WorkflowMessage, ...] = ()
    item: Any = None
    over: tuple[str, ...] | None = None

    _positional: ClassVar[str] = "scratchpad"
    _indifferent: ClassVar[frozenset[str]] = frozenset({"job_id", "operator_id", "faults", "blame", "unsure", "usage"})

    @model_validator(mode="before")
    @classmethod
    def _derived_from_faults(cls, fields: Any) -> Any:
        """Set the blame and the lesson of a message that is given faults only."""
        given = cast("dict[str, Any]", fields)
        if not isinstance(fields, dict) or not given.get("faults"):
            return given
        faults = [Fault.model_validate(fault) for fault in given["faults"]]
        return {"blame": blamed_by(faults), "lesson": lesson_of(faults), **given}

    @property
    def text(self) -> str:
        """The text: the same as `scratchpad`, the name in Chat2Graph."""
        return self.scratchpad

    @property
    def accepted(self) -> bool:
        """True if no evaluator rejected the work."""
        return self.status is WorkflowStatus.SUCCESS

    @property
    def rejected(self) -> bool:
        """True if an evaluator rejected the work; `evaluation` has the reason."""
        return self.status is not WorkflowStatus.SUCCESS

    @property
    def value(self) -> Any:
        """The answer as plain values, which are shared: the text, the output `answer`, or the outputs as an object."""
        if self.answer is not None and self.answer in self.outputs:
            return self.outputs[self.answer]
        return self.outputs or self.scratchpad

    @property
    def holds_values(self) -> bool:
        """True if the message has outputs or parts, which a reader could change; a text cannot change."""
        return bool(self.outputs or self.parts)

    def own(self) -> WorkflowMessage:
        """Return a message whose outputs the reader may change: itself if there are none, otherwise a copy."""
        if not self.holds_values:
            return self
        return self.changed(outputs=own(self.outputs), parts=tuple([part.own() for part in self.parts]))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are equal for messages with the same content; see `Value.fingerprint`."""
        values = super().fingerprint()
        unset = {name for name in ("answer", "item", "over") if getattr(self, name) is None}
        return {name: value for name, value in values.items() if name not in unset} if unset else values

    def _repr_html_(self) -> str:
        """Return the message as HTML, for notebooks."""
        return message_html(self)

    def stamped(self, operator_id: str, job_id: str, usage: Usage) -> WorkflowMessage:
        """Return the message with this operator, job and usage: itself, or a copy."""
        if self.operator_id == operator_id and self.job_id == job_id and self.usage is usage:
            return self
        values = self.__dict__.copy()
        values["operator_id"] = operator_id
        values["job_id"] = job_id
        values["usage"] = usage
        names = self.__pydantic_fields_set__ | _STAMP_FIELDS
        return _unvalidated(self.__class__, values, names, self.__pydantic_private__)

    def changed(self, **fields: Any) -> WorkflowMessage:
        """Return a copy with other values of some fields, without validation: `model_copy`, but faster."""
        values = self.__dict__.copy()
        values.update(fields)
        names = self.__pydantic_fields_set__.union(fields)
        return _unvalidated(self.__class__, values, names, self.__pydantic_private__)

    @classmethod
    def of_text(
        cls,
        text: str,
        operator_id: str,
        job_id: str,
        usage: Usage = NO_USAGE,
        outputs: dict[str, Any] | None = None,
        answer: str | None = None,
        over: tuple[str, ...] | None = None,
    ) -> WorkflowMessage:
        """Return the message of an operator with this text and these outputs, without validation."""
        values = _DEFAULTS.copy()
        values["scratchpad"] = str.__str__(text)  # an Enum member that is a str becomes a plain str
        values["outputs"] = outputs or {}
        values["answer"] = answer
        values["operator_id"] = operator_id
        values["job_id"] = job_id
        values["usage"] = usage
        values["over"] = over
        names = _TEXT_AND_ANSWER if answer else _TEXT_AND_OUTPUTS if outputs else _TEXT
        return _unvalidated(cls, values, names, None)


_DEFAULTS = vars(WorkflowMessage())


def _described(files: Any) -> Any:
    """Return files with paths replaced by descriptions of the files."""
    if isinstance(files, str | Path):
        raise InputError(f"Job(…): files: expected a list, got {str(files)!r}: write files=[{str(files)!r}]")
    if not isinstance(files, list | tuple):
        return files
    return [FileDescriptor.of(each) if isinstance(each, str | Path) else each for each in cast("Sequence[Any]", files)]


class Turn(Value):
    """A message of a conversation.

        Turn(role="user", text="My name is Ada.")

    Attributes:
        role: The author: ``user`` or ``assistant``; or ``summary``, for a summary of the turns before the next one.
        text: The text.
        files: Files of a message of the user; a path stands for ``FileDescriptor.of(path)``.
    """

    role: Literal["user", "assistant", "summary"]
    text: str
    files: Annotated[tuple[FileDescriptor, ...], BeforeValidator(_described)] = ()


class Job(Value):
    """Job: a task for a workflow.

        job = Job("Is this so? The moon has air.", context="For a school book.")

    Attributes:
        goal: The task, in words. May be left out for a job with inputs.
        context: Background for the task.
        id: Id of the job.
        session_id: Id of the conversation.
        assigned_expert_name: Name of the assigned expert, if any.
        files: Files for the task; a path stands for ``FileDescriptor.of(path)``.
        inputs: Named values for the task.
        turns: Earlier turns of the conversation, oldest first; a model receives each as a separate message.
        started_by: What started the run, if not a person or a program: ``schedule TIME`` or ``webhook``.
    """

    goal: str
    context: str = ""
    id: str = Field(default_factory=new_id)
    session_id: str = Field(default_factory=new_id)
    assigned_expert_name: str | None = None
    files: Annotated[tuple[FileDescriptor, ...], BeforeValidator(_described)] = ()
    inputs: Annotated[dict[str, JsonValue], BeforeValidator(as_json)] = Field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    started_by: str = ""

    _of_data: bool = PrivateAttr(default=False)
    """True if the inputs are fields of a model, or outputs of AWEL operators: their names cannot be misspelt."""
    _positional: ClassVar[str] = "goal"
    _indifferent: ClassVar[frozenset[str]] = frozenset({"id", "session_id", "parent_id"})

    if TYPE_CHECKING:  # the fields may have types that JSON can express

        def __init__(self, goal: str = "", **fields: Any) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _goal_of_inputs(cls, fields: Any) -> Any:
        """Set an empty goal if a job has inputs and no goal."""
        if isinstance(fields, dict) and "inputs" in fields:
            return {"goal": "", **cast("dict[str, Any]", fields)}
        return cast("Any", fields)

    def own(self) -> Self:
        """Return a job whose inputs the reader may change: itself if there are none, otherwise a copy."""
        return self.model_copy(update={"inputs": own(self.inputs)}) if self.inputs else self

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are equal for jobs with equal answers; see `Value.fingerprint`."""
        values = super().fingerprint()
        return values if self.turns else {name: value for name, value in values.items() if name != "turns"}


class SubJob(Job):
    """Part of a job, as split by a leader.

        SubJob("Write the letter.", id="write", dependencies=("find",), completion_criteria="It has a greeting.")

    Attributes:
        parent_id: Id of the whole job, also for a part of a part.
        completion_criteria: Criteria for the completion of the part.
        dependencies: Ids of the parts whose results this part needs.
    """

    parent_id: str = ""
    completion_criteria: str = ""
    dependencies: tuple[str, ...] = ()

    _indifferent: ClassVar[frozenset[str]] = Job._indifferent | {"dependencies"}


# HTML of messages for notebooks

MOST_SHOWN = 20_000
"""Maximum length of a displayed text, in characters."""


def message_html(message: WorkflowMessage) -> str:
    """Return a message with all its fields as HTML; texts of operators and models are escaped."""
    fields = [
        ("text", message.scratchpad),
        *(
            (f"output {name}", value if isinstance(value, str) else repr(value))
            for name, value in message.outputs.items()
        ),
        ("evaluation", message.evaluation),
        ("lesson", "" if message.faults else message.lesson),
        ("faults", "\n".join(finding_lines(message.faults, message.blame, message.unsure, {}))),
        ("score", "" if message.score is None else f"{message.score:g}"),
    ]
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{folded(text)}</td></tr>" for label, text in fields if text)
    parts = "".join(
        f"<details><summary>{escape(part.operator_id or 'part')}</summary>{message_html(part)}</details>"
        for part in message.parts
    )
    operator = f" · {escape(message.operator_id)}" if message.operator_id else ""
    head = f"<p><b>{status_text(message.status)}</b>{operator}{used(message.usage)}</p>"
    return f"<div>{head}<table><tbody>{rows}</tbody></table>{parts}</div>"


def used(usage: Usage) -> str:
    """Return calls, tokens and cost as text to append to a name; empty if no model was called."""
    if not usage.calls:
        return ""
    return f" · {usage.calls:,} model call{'s' * (usage.calls != 1)}, {usage.tokens:,} tokens, cost {usage.money()}"


def folded(text: str) -> str:
    """Return a text as HTML: in full if it is one short line, otherwise its first line, with the whole text folded."""
    first, _, rest = text.strip().partition("\n")
    if not rest and len(first) <= 120:
        return escape(first)
    return f"<details><summary>{escape(first[:120])}…</summary><pre>{shown(text)}</pre></details>"


def shown(text: str) -> str:
    """Return a text as HTML, cut to `MOST_SHOWN` characters."""
    more = len(text) - MOST_SHOWN
    return escape(text if more <= 0 else f"{text[:MOST_SHOWN]}… and {more:,} more characters")
