"""Reading a conversation of the OpenAI protocol: a goal with earlier turns, or the answer to a question of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from pydantic.json_schema import SkipJsonSchema

from operad.runtime.values.message import Turn
from operad.runtime.values.questions import Question
from operad.runtime.values.typed_answers import WrongAnswerError, describe_answer, read_answer
from operad.server.api.answer_form import AnswerFormat
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.http.problems import RefusedError

_QUESTION_NOTE = re.compile(
    r"\(run ([A-Za-z0-9_][A-Za-z0-9_.-]{0,99}) asks under ([^\n]{1,400}); say the answer\)\s*\Z"
)


class TextPart(BaseModel):
    """A piece of a message: text."""

    type: Literal["text"]
    text: str


class OtherPart(BaseModel):
    """A part of a message that is not text, and is refused."""

    model_config = ConfigDict(extra="allow")

    type: str


class ChatMessage(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart | SkipJsonSchema[OtherPart]], Field(fail_fast=True)] | None = Field(
        default=None, description="Text of the message, or a list of its parts."
    )


class StreamOptions(BaseModel):
    """Options of streaming."""

    model_config = ConfigDict(extra="allow")

    include_usage: StrictBool | None = Field(default=None, description="True for a last chunk with the usage.")


_HAS_TEXT = {"type": "string", "pattern": r"\S"}
_PART = {"type": "object", "required": ["text"], "properties": {"text": _HAS_TEXT}}
WITH_TEXT: dict[str, Any] = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"const": "user"},
        "content": {"anyOf": [_HAS_TEXT, {"type": "array", "contains": _PART}]},
    },
}
"""JSON Schema of a message of a user with a text that is not blank."""


class ChatRequest(BaseModel):
    """Request to continue a conversation with an expert. Fields that are not named here are ignored."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    model: str = Field(description="Name of the expert; GET /v1/models lists them.")
    messages: list[ChatMessage] = Field(
        min_length=1,
        fail_fast=True,  # to name a million faults takes seconds, in which the server answers no other request
        description="The last user message with text is the task; the user and assistant messages before it are the "
        "conversation so far; all others are background information.",
        json_schema_extra={"contains": WITH_TEXT},
    )
    stream: StrictBool | None = Field(default=None, description="True to send the answer in chunks.")
    stream_options: StreamOptions | None = None
    response_format: AnswerFormat | None = Field(default=None, description="Form that the answer has to fit.")
    n: StrictInt | None = Field(
        default=None, description="One answer is given.", json_schema_extra={"minimum": 1, "maximum": 1}
    )


def faults_of(request: ChatRequest) -> Iterator[tuple[str, str]]:
    """Yield the fields that experts do not support, with the reasons."""
    extra: dict[str, Any] = request.model_extra or {}
    if request.n not in (None, 1):
        yield "n", "one answer is given; leave it out"
    for name in ("tools", "functions"):
        if extra.get(name):
            yield name, "experts have tools of their own and call none of yours; leave it out"
    if request.response_format:
        yield from request.response_format.faults("response_format")
    if extra.get("logprobs"):
        yield "logprobs", "are not known here; leave it out"
    for number, message in enumerate(request.messages):
        for place, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if isinstance(part, OtherPart):
                yield not_text(f"messages[{number}].content[{place}]", part.type, "text", "parts")


def not_text(where: str, kind: str, wanted: str, what: str) -> tuple[str, str]:
    """Return the fault of a part of a message, or of a message, that is not text."""
    if kind == wanted:
        needs = "a role and content: a text, or a list of parts" if wanted == "message" else "a text, as `text`"
        return where, f"is {wanted!r}, and must have {needs}"
    return where, f"is {kind[:60]!r}, but only {what} of the type {wanted!r} are accepted; write it as text"


RoleAndText = tuple[str, str]
"""Role and text of a message."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """The request at the end of a conversation.

    Attributes:
        goal: The last message of a user.
        context: Messages of other roles, and those after the goal.
        turns: The messages of users and assistants before the goal.
    """

    goal: str
    context: str
    turns: tuple[Turn, ...]

    @property
    def before(self) -> str:
        """Text of the assistant's message directly before the goal; empty for none."""
        last = self.turns[-1] if self.turns else None
        return last.text if last and last.role == "assistant" else ""


def read_conversation(messages: Sequence[ChatMessage]) -> ChatTurn:
    """Return the request in the messages of a chat.

    Raises:
        RefusedError: No message of a user has text.
    """
    return request_in([(message.role, _text(message)) for message in messages], "messages")


def request_in(messages: Sequence[RoleAndText], param: str, before: Sequence[Turn] = ()) -> ChatTurn:
    """Return the request in messages, given as roles and texts.

    Args:
        param: The field of the request that holds them.

    Raises:
        RefusedError: No message of a user has text.
    """
    goal = next(
        (n for n in reversed(range(len(messages))) if messages[n][0] == "user" and messages[n][1].strip()), None
    )
    if goal is None:
        raise RefusedError(
            400, f"{param}: none of the role 'user' has text; give a user message with the task", param=param
        )
    earlier, later = messages[:goal], messages[goal + 1 :]
    instructions = [text for role, text in earlier if role in ("system", "developer") and text]
    others = [f"{role}: {text}" for role, text in earlier if role == "tool" and text]
    others += [f"{role}, after the message: {text}" for role, text in later if text]
    return ChatTurn(messages[goal][1], "\n\n".join([*instructions, *others]), tuple(_turns(before, earlier)))


def _turns(before: Sequence[Turn], messages: Sequence[RoleAndText]) -> Iterator[Turn]:
    """Yield the turns, with consecutive ones of the same role merged, as some models require."""
    said = (Turn(role=role, text=text) for role, text in messages if role in ("user", "assistant") and text)
    for _, same in groupby([*before, *said], lambda turn: turn.role):
        first, *others = same
        yield Turn(role=first.role, text="\n\n".join(each.text for each in (first, *others))) if others else first


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))


def question_text(run: ServedRun, question: Question, wrong: str = "") -> str:
    """Return a question as a message of the assistant; the next message of the user answers it."""
    return f"{asked_text(question, wrong)}\n\n(run {run.id} asks under {question.id}; say the answer)"


def asked_text(question: Question, wrong: str) -> str:
    """Return a question with the form of its answer, after the fault of the last answer if there is one."""
    form = f" ({wanted})" if (wanted := describe_answer(question.schema_)) else ""
    return f"{wrong}; try again\n\n{question.text}{form}" if wrong else f"{question.text}{form}"


async def answered_run(runs: SeenRuns, turn: ChatTurn) -> tuple[ServedRun, str] | None:
    """Return the run whose question a conversation answers, and the fault of the answer; None if it answers none.

    Raises:
        RefusedError: The run is not known.
    """
    note = _QUESTION_NOTE.search(turn.before)
    if note is None:
        return None
    run_id, question_id = note.groups()
    run = await runs.find(run_id)
    question = next((open_question for open_question in run.questions if open_question.id == question_id), None)
    if question is None:
        return run, ""  # the same turn was sent before: the run's result is sent again
    return run, await answer_question(runs, run, question, turn.goal)


async def answer_question(runs: SeenRuns, run: ServedRun, question: Question, answer: str) -> str:
    """Answer a question of a run with a text.

    Returns:
        The fault of the answer; empty if it was accepted.
    """
    try:
        await runs.answer(run, question.id, read_answer(answer, question.schema_))
    except WrongAnswerError as error:
        return str(error)
    return ""
