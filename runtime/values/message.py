"""What travels: a job goes into a workflow, messages go from operator to operator."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, cast
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, field_serializer

from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.fingerprint import fingerprint, name_of


def new_id() -> str:
    """A fresh identifier: a random UUID as text."""
    return str(uuid4())


class Value(BaseModel):
    """A frozen value in which an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")

    _indifferent: ClassVar[frozenset[str]] = frozenset({"id"})
    """The fields that change no answer, and those that hold secrets."""

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two of these count as the same: type and fields, without random ids, secrets and costs.

        Raises:
            InputError: A field has no JSON form.
        """
        fields = type(self).model_fields.keys() - self._indifferent
        return {"type": name_of(type(self))} | {name: fingerprint(getattr(self, name)) for name in fields}


class WorkflowStatus(str, Enum):
    """How a run was judged (Chat2Graph, Workflow module, section 2.3), in falling priority.

        result = flow.run("Is this so? The moon has air.")
        print(result.status is WorkflowStatus.SUCCESS)

    Of several that hold, the first counts.
    """

    EXECUTION_ERROR = "EXECUTION_ERROR"
    INPUT_DATA_ERROR = "INPUT_DATA_ERROR"
    JOB_TOO_COMPLICATED_ERROR = "JOB_TOO_COMPLICATED_ERROR"
    SUCCESS = "SUCCESS"

    @property
    def priority(self) -> int:
        """Its rank when several hold: 0 is the highest."""
        return list(WorkflowStatus).index(self)

    @classmethod
    def _missing_(cls, value: object) -> WorkflowStatus:
        names = [status.value for status in cls]
        raise ValueError(f"{value!r} is not a workflow status{did_you_mean(str(value), names)}: use {', '.join(names)}")


def _as_status(value: object) -> WorkflowStatus:
    return WorkflowStatus(value)


def _as_ids(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_cost(value: object) -> object:
    return 0.0 if value is None else value


def _unpriced(said: dict[str, Any]) -> int:
    return 0 if said.get("cost") else said.get("calls", 0)


def _amount(dollars: float) -> str:
    """Dollars, with six places where they are less than one; never 0 for what is more."""
    if dollars >= 1:
        return f"{dollars:,.2f}"
    if 0 < dollars < 1e-6:
        return "less than 0.000001"
    return f"{dollars:.6f}".rstrip("0").rstrip(".")


class Usage(Value):
    """What model calls cost. Usages add up.

    Attributes:
        calls: Requests to a model.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        seconds: Time spent waiting for models, summed over concurrent calls.
        cost: US dollars, for the calls whose price is known. As JSON null where it is known of none.
        unpriced: Calls of models whose price is unknown. Where it is not said: all of them if `cost` is 0, else none.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # an endpoint may give its key as a number

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: Annotated[float, BeforeValidator(_as_cost)] = 0.0
    unpriced: int = Field(default_factory=_unpriced)

    @property
    def known_cost(self) -> float | None:
        """US dollars; None where models were asked, and of those whose price is known there is nothing to add up."""
        return None if self.unpriced and not self.cost else self.cost

    @field_serializer("cost", when_used="json")
    def _cost_as_json(self, cost: float) -> float | None:
        return self.known_cost

    def money(self) -> str:
        """What it cost, for people: ``0.0123 USD``, ``unknown`` or ``0.0123 USD + 3 calls of unknown price``."""
        if self.known_cost is None:
            return "unknown"
        others = (
            f" + {self.unpriced:,} call{'s' if self.unpriced > 1 else ''} of unknown price" if self.unpriced else ""
        )
        return f"{_amount(self.cost)} USD{others}"

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
        )


NO_USAGE = Usage()


_set = object.__setattr__
_STAMP = {"operator_id", "job_id", "usage"}


class WorkflowMessage(Value):
    """What an operator, an evaluator or a whole workflow says.

        message = WorkflowMessage(scratchpad="Two claims.", outputs={"claims": ["air", "water"]})
        print(message.scratchpad, message.outputs["claims"])

    Attributes:
        scratchpad: The text: an operator's answer; in a verdict, the text that was judged.
        status: The verdict; SUCCESS where nobody judged.
        evaluation: Why that verdict.
        lesson: What to do better next time.
        outputs: Named values for the operators that follow.
        ports: The ways on that are taken, of those that edges leave from; None for all.
        blame: Ids of the operators at fault.
        score: How good the work is; larger is better. None where it was not measured.
        job_id: The job it belongs to.
        operator_id: Who said it.
        usage: What it cost.
        parts: Where it joins several tails of a workflow: their messages, in order of adding.
    """

    scratchpad: str = ""
    status: Annotated[WorkflowStatus, BeforeValidator(_as_status)] = WorkflowStatus.SUCCESS
    evaluation: str = ""
    lesson: str = ""
    outputs: dict[str, Any] = Field(default_factory=dict)
    ports: tuple[str, ...] | None = None
    blame: Annotated[tuple[str, ...], BeforeValidator(_as_ids)] = ()
    score: float | None = Field(default=None, allow_inf_nan=False)
    job_id: str = ""
    operator_id: str = ""
    usage: Usage = NO_USAGE
    parts: tuple[WorkflowMessage, ...] = ()

    _indifferent: ClassVar[frozenset[str]] = frozenset({"job_id", "operator_id", "blame", "usage"})

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from operad.runtime.values.message_html import message_html

        return message_html(cast("Any", self))

    def stamped(self, operator_id: str, job_id: str, usage: Usage) -> WorkflowMessage:
        """The message as one of that operator, on that job, at that cost: itself, or a copy."""
        if self.operator_id == operator_id and self.job_id == job_id and self.usage is usage:
            return self
        copied = self.__class__.__new__(self.__class__)  # model_copy costs more, and every operator pays it
        fields = vars(copied)
        fields.update(vars(self))
        fields["operator_id"], fields["job_id"], fields["usage"] = operator_id, job_id, usage
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__ | _STAMP)
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_private__", self.__pydantic_private__)
        return copied


class StepRecord(Value):
    """The part of an operator in a run.

    Attributes:
        operator_id: The operator.
        instruction: What the operator is there for; empty where it does not say.
        before: The ids of the operators before it.
        message: The operator's message.
    """

    operator_id: str
    instruction: str = ""
    before: tuple[str, ...] = ()
    message: WorkflowMessage = WorkflowMessage()


class Turn(Value):
    """A message of a conversation.

        Turn(role="user", text="My name is Ada.")

    Attributes:
        role: The author: ``user`` or ``assistant``; or ``summary``, for a summary of the turns before the next one.
        text: The text.
    """

    role: Literal["user", "assistant", "summary"]
    text: str


class Job(Value):
    """What is to be done.

        job = Job("Is this so? The moon has air.", context="For a school book.")

    Attributes:
        goal: The task, in words.
        context: What one needs to know for it.
        id: The job's id.
        session_id: The conversation it belongs to.
        assigned_expert_name: The expert that shall do it, if that is settled.
        files: Files that it is about.
        inputs: Named values that it is about.
        turns: The conversation before it, the oldest turn first; a model gets each as a message of its own.
    """

    goal: str
    context: str = ""
    id: str = Field(default_factory=new_id)
    session_id: str = Field(default_factory=new_id)
    assigned_expert_name: str | None = None
    files: tuple[FileDescriptor, ...] = ()
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    turns: tuple[Turn, ...] = ()

    _indifferent: ClassVar[frozenset[str]] = frozenset({"id", "session_id", "parent_id"})

    def __init__(self, *goal: str, **fields: Any) -> None:
        if len(goal) > 1:
            raise InputError(f"Job(…) expects the goal first, and all else by name; got {len(goal)} values")
        super().__init__(**(fields | {"goal": goal[0]} if goal else fields))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are the same for jobs that are answered alike; see `Value.fingerprint`."""
        made = super().fingerprint()
        return made if self.turns else {name: value for name, value in made.items() if name != "turns"}


class SubJob(Job):
    """A part of a job, as a leader splits it.

    Attributes:
        parent_id: The job it is a part of: the whole one, also where it is a part of a part.
        completion_criteria: When it counts as done.
        dependencies: The ids of the parts whose results it needs.
    """

    parent_id: str = ""
    completion_criteria: str = ""
    dependencies: tuple[str, ...] = ()

    _indifferent: ClassVar[frozenset[str]] = Job._indifferent | {"dependencies"}
