"""Reading a conversation of the OpenAI protocol: a goal with earlier turns, or the answer to a question of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from operad.configs.answers import WrongAnswerError, describe_answer, read_answer
from operad.runtime.values.message import Turn
from operad.runtime.values.questions import Question
from operad.server.api.runs import Runs, ServedRun
from operad.server.problems import RefusedError

_ASKED = re.compile(r"\(run ([A-Za-z0-9_][A-Za-z0-9_.-]{0,99}) asks under ([^\n]{1,400}); say the answer\)\s*\Z")


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
    content: str | list[TextPart | SkipJsonSchema[OtherPart]] | None = Field(
        default=None, description="Its text, whole or in pieces."
    )


class StreamOptions(BaseModel):
    """Options of streaming."""

    model_config = ConfigDict(extra="allow")

    include_usage: StrictBool | None = Field(default=None, description="Whether a last chunk says what it has cost.")


HAS_TEXT = {"type": "string", "pattern": r"\S"}
"""The JSON Schema of a text that says something."""

_PART = {"type": "object", "required": ["text"], "properties": {"text": HAS_TEXT}}
_WITH_TEXT: dict[str, Any] = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"const": "user"},
        "content": {"anyOf": [HAS_TEXT, {"type": "array", "contains": _PART}]},
    },
}


class ChatRequest(BaseModel):
    """A conversation that an expert is to go on with. Fields that are not named here change nothing."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    model: str = Field(description="The expert; GET /v1/models lists them.")
    messages: list[ChatMessage] = Field(
        min_length=1,
        description="The last one of a user that has text is what is to be done; those of users and assistants before "
        "it are the conversation so far; all others are what to know for it.",
        json_schema_extra={"contains": _WITH_TEXT},
    )
    stream: StrictBool | None = Field(default=None, description="Whether the answer is sent piece by piece.")
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1, strict=True)] | None = Field(default=None, description="One answer is given.")


def refuse_unable(request: ChatRequest) -> None:
    """Say what is asked for that no expert does.

    Raises:
        RefusedError: Something is.
    """
    extra: dict[str, Any] = request.model_extra or {}
    for name in ("tools", "functions"):
        if extra.get(name):
            raise RefusedError(
                400, f"{name}: experts have tools of their own and call none of yours; leave it out", param=name
            )
    form: Any = extra.get("response_format")
    if form is not None and form != {"type": "text"}:
        raise RefusedError(
            400,
            "response_format: the form of an answer is the expert's own (its output_schema); leave it out",
            param="response_format",
        )
    if extra.get("logprobs"):
        raise RefusedError(400, "logprobs: are not known here; leave it out", param="logprobs")


Said = tuple[str, str]
"""The role of a message, and its text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Request that a conversation ends with.

    Attributes:
        goal: The last message of a user.
        context: Messages of other roles, and those after the goal.
        turns: The messages of users and assistants before it.
    """

    goal: str
    context: str
    turns: tuple[Turn, ...]

    @property
    def before(self) -> str:
        """The text of the assistant right before the goal."""
        last = self.turns[-1] if self.turns else None
        return last.text if last and last.role == "assistant" else ""


def read_conversation(messages: Sequence[ChatMessage]) -> Asked:
    """Read the messages of a chat.

    Raises:
        RefusedError: A message holds something else than text, or no user says anything.
    """
    return asked_in([(message.role, _text(message, number)) for number, message in enumerate(messages)], "messages")


def asked_in(said: Sequence[Said], param: str, before: Sequence[Turn] = ()) -> Asked:
    """Read messages, given as roles and texts.

    Args:
        said: The messages.
        param: The field of the request that holds them.
        before: The turns before all of them.

    Raises:
        RefusedError: No user says anything.
    """
    goal = next((n for n in reversed(range(len(said))) if said[n][0] == "user" and said[n][1].strip()), None)
    if goal is None:
        raise RefusedError(
            400, f"{param}: none of the role 'user' has text; give one that says what is to be done", param=param
        )
    first, last = said[:goal], said[goal + 1 :]
    instructions = [text for role, text in first if role in ("system", "developer") and text]
    others = [f"{role}: {text}" for role, text in first if role == "tool" and text]
    others += [f"{role}, after the message: {text}" for role, text in last if text]
    return Asked(said[goal][1], "\n\n".join([*instructions, *others]), tuple(_turns(before, first)))


def _turns(before: Sequence[Turn], said: Sequence[Said]) -> Iterator[Turn]:
    """The turns, several of one role in a row as one: some models take no others."""
    turns = [*before, *(Turn(role=role, text=text) for role, text in said if role in ("user", "assistant") and text)]
    for number, turn in enumerate(turns):
        if number and turns[number - 1].role == turn.role:
            continue
        same = [turn.text]
        for other in turns[number + 1 :]:
            if other.role != turn.role:
                break
            same.append(other.text)
        yield turn if len(same) == 1 else Turn(role=turn.role, text="\n\n".join(same))


def _text(message: ChatMessage, number: int) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for place, part in enumerate(message.content):
        if not isinstance(part, TextPart):
            where = f"messages[{number}].content[{place}]"
            raise RefusedError(
                400,
                f"{where}: is {part.type[:60]!r}, and only parts of the type 'text' are taken; say it in words",
                param=where,
            )
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))


def asked(run: ServedRun, question: Question, wrong: str = "") -> str:
    """A question as an assistant says it; the next message of a user answers it."""
    form = f" ({wanted})" if (wanted := describe_answer(question.schema_)) else ""
    again = f"{wrong}; try again\n\n" if wrong else ""
    return f"{again}{question.text}{form}\n\n(run {run.id} asks under {question.id}; say the answer)"


async def answered_run(runs: Runs, asked_for: Asked) -> tuple[ServedRun, str] | None:
    """The run whose question the conversation answers, and what is wrong with the answer; None where it answers none.

    Raises:
        RefusedError: The run is not known any more.
    """
    found = _ASKED.search(asked_for.before)
    if found is None:
        return None
    run_id, question_id = found.groups()
    run = await runs.find(run_id)
    question = next((each for each in run.questions if each.id == question_id), None)
    if question is None:
        return run, ""  # the same turn as before: its run is answered again
    return run, await answer_question(runs, run, question, asked_for.goal)


async def answer_question(runs: Runs, run: ServedRun, question: Question, answer: str) -> str:
    """Answer what a run asks, in words.

    Returns:
        What is wrong with the answer; empty where it was taken.
    """
    try:
        await runs.answer(run, question.id, read_answer(answer, question.schema_))
    except WrongAnswerError as error:
        return str(error)
    return ""
