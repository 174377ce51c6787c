"""The stream of messages of the Vercel AI SDK (version 1 of its data stream, of `useChat`).

The chunks are plain values: the protocol has no package for Python.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from operad.runtime.values.valid_json import to_json
from operad.server.api.conversation import asked_text, not_text, request_in
from operad.server.api.experts import Offer
from operad.server.api.faults import read_body
from operad.server.api.protocols.answers import MAX_SESSION, approval, asked_run, give_answers, public_id
from operad.server.api.protocols.parts import (
    Called,
    Closed,
    Opened,
    Part,
    Returned,
    Written,
    arguments_of,
    call_asked_about,
    reply_parts,
)
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import end_reply, note_on
from operad.server.http.problems import RefusedError, refuse_faults
from operad.server.http.streams import EventStream

HEADER = ("x-vercel-ai-ui-message-stream", "v1")

QUESTION = "data-question"
"""Type of the part of a message that names a question."""


class Approval(BaseModel):
    """Request to allow a tool call, and its answer."""

    model_config = ConfigDict(extra="allow")

    id: str
    approved: bool | None = None
    reason: str | None = None


class MessagePart(BaseModel):
    """A part of a message. Fields that are not named here are ignored."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str = ""
    id: str = ""
    tool_call_id: str = Field(default="", alias="toolCallId")
    state: str = ""
    approval: Approval | None = None


class UIMessage(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    role: Literal["system", "user", "assistant"]
    parts: list[MessagePart] = Field(fail_fast=True)

    @property
    def text(self) -> str:
        """The texts of the message."""
        return "\n".join(part.text for part in self.parts if part.type == "text")

    @property
    def asked(self) -> str:
        """Id of the question that the message asks last; empty for none."""
        approvals = [part.approval.id for part in self.parts if part.state == "approval-requested" and part.approval]
        return next(reversed([*approvals, *(part.id for part in self.parts if part.type == QUESTION)]), "")


class Given(BaseModel):
    """Request that `useChat` sends. Fields that are not named here are ignored."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    id: str | None = Field(default=None, max_length=MAX_SESSION)
    messages: list[UIMessage] = Field(min_length=1, fail_fast=True)


async def reply(runs: SeenRuns, offer: Offer, request: Request) -> Response:
    """Return the stream of a message. The run ends if the client disconnects.

    Raises:
        RefusedError: The request cannot be used.
    """
    given = await read_body(Given, request)
    refuse_faults(_faults_of(given))
    run, wrong = await _run_for(runs, offer, given)
    continued = given.messages[-1].parts if given.messages[-1].role == "assistant" else ()
    chunks = _Chunks(run, {part.tool_call_id for part in continued})
    stream = EventStream(chunks.all(wrong), runs.bounds.beat, partial(end_reply, runs, run, False))
    stream.headers[HEADER[0]] = HEADER[1]
    return stream


def _faults_of(given: Given) -> Iterator[tuple[str, str]]:
    for number, message in enumerate(given.messages):
        for place, part in enumerate(message.parts if message.role == "user" else ()):
            if part.type == "file":
                yield not_text(f"messages[{number}].parts[{place}]", part.type, "text", "parts")


async def _run_for(runs: SeenRuns, offer: Offer, given: Given) -> tuple[ServedRun, str]:
    """Return the run of a request: the run whose questions it answers, with the faults of the answers, or a new run."""
    last = given.messages[-1]
    if last.role == "assistant":
        return await _allowed(runs, last)
    before = given.messages[-2] if len(given.messages) > 1 else last
    if before.role == "assistant" and before.asked:
        run, questions = await asked_run(runs, [before.asked], "messages")
        return run, await give_answers(runs, run, [(questions[0], last.text)])
    turn = request_in([(message.role, message.text) for message in given.messages], "messages")
    job = offer.job(turn.goal, turn.context, {}, turn.turns, quote(given.id or "", safe=""))
    return (await runs.begin(offer, job))[0], ""


async def _allowed(runs: SeenRuns, message: UIMessage) -> tuple[ServedRun, str]:
    """Return the run whose tool calls the last message of the assistant allows or refuses, and the faults of that."""
    answers = [part.approval for part in message.parts if part.state == "approval-responded" and part.approval]
    if not answers:
        raise RefusedError(
            400,
            "messages: the last message is the assistant's and answers nothing; send a user message",
            param="messages",
        )
    run, questions = await asked_run(runs, [answer.id for answer in answers], "messages")
    given = [approval(bool(answer.approved), answer.reason or "") for answer in answers]
    return run, await give_answers(runs, run, zip(questions, given, strict=True))


class _Chunks:
    """Chunks of a reply.

    Args:
        calls: Ids of the tool calls in the message that the reply continues.
    """

    def __init__(self, run: ServedRun, calls: set[str]) -> None:
        self._run = run
        self._calls = calls

    async def all(self, wrong: str) -> AsyncGenerator[bytes, None]:
        """Yield all chunks.

        Args:
            wrong: Fault of the last answer to a question; empty for none.
        """
        run, reason = self._run, "stop"
        yield _line("start", messageMetadata={"run_id": run.id})
        yield _line("start-step")
        try:
            async with aclosing(reply_parts(run, wrong)) as parts:
                async for part in parts:
                    yield self._chunk_of(part)
            for line in self._asking(wrong):
                yield line
            if any(question.tool for question in run.questions):
                reason = "tool-calls"
        except RefusedError as problem:
            yield _line("error", errorText=str(problem))
            reason = "error"
        yield _line("finish-step")
        yield _line("finish", finishReason=reason, messageMetadata=note_on(run).model_dump(mode="json"))
        yield b"data: [DONE]\n\n"

    def _chunk_of(self, part: Part) -> bytes:
        match part:
            case Opened("step", id) | Closed("step", id):
                state = "running" if isinstance(part, Opened) else "ended"
                return _line("data-step", id=id, data={"operator": id, "state": state}, transient=True)
            case Opened(kind, id):
                return _line(f"{_NAMES[kind]}-start", id=id)
            case Written(kind, id, text):
                return _line(f"{_NAMES[kind]}-delta", id=id, delta=text)
            case Closed(kind, id):
                return _line(f"{_NAMES[kind]}-end", id=id)
            case Called(id, tool, arguments):
                return self._call(id, tool, arguments)
            case Returned(id, tool, result, failed):
                # the call may be in an earlier message, before a question that a user message answered
                call = b"" if id in self._calls else self._call(id, tool, arguments_of(self._run, id))
                if failed:
                    return call + _line("tool-output-error", toolCallId=id, errorText=result, dynamic=True)
                return call + _line("tool-output-available", toolCallId=id, output=result, dynamic=True)

    def _call(self, id: str, tool: str, arguments: Mapping[str, Any]) -> bytes:
        self._calls.add(id)
        return _line("tool-input-available", toolCallId=id, toolName=tool, input=dict(arguments), dynamic=True)

    def _asking(self, wrong: str) -> Iterator[bytes]:
        """Yield the chunks of the open questions: approvals of tool calls; and the first other question, as text."""
        run = self._run
        for question in run.questions:
            if question.tool is not None:
                asked = public_id(run, question)
                call = call_asked_about(run, question) or asked
                if call not in self._calls:
                    yield self._call(call, question.tool, question.arguments)
                yield _line("tool-approval-request", approvalId=asked, toolCallId=call)
        for question in [each for each in run.questions if each.tool is None][:1]:
            asked = public_id(run, question)
            text = asked_text(question, wrong)
            yield (
                _line("text-start", id=asked) + _line("text-delta", id=asked, delta=text) + _line("text-end", id=asked)
            )
            yield _line(QUESTION, id=asked, data={"question": question.text, "schema": question.schema_})


_NAMES = {"text": "text", "thinking": "reasoning"}


def _line(type: str, **fields: Any) -> bytes:
    return f"data: {to_json({'type': type, **fields})}\n\n".encode()
