"""Experts as models of the OpenAI chat protocol."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from operad.runtime import events
from operad.runtime.values.message import Usage
from operad.runtime.values.valid_json import to_json
from operad.server.api.conversation import ChatRequest, answered_run, asked, read_conversation, refuse_unable
from operad.server.api.event_log import Entry
from operad.server.api.experts import find_offer
from operad.server.api.plain import EVENTS, refusals
from operad.server.api.problems import RefusedError
from operad.server.api.replies import EventStream, json_reply, unless_gone
from operad.server.api.runs import Runs, ServedRun

_BEGAN = int(time.time())
_PIECE = re.compile(r"\S*\s*", re.DOTALL)
_GONE = "was cancelled, for the client had gone"


class ModelView(BaseModel):
    """An expert, as a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The experts, as models."""

    object: Literal["list"]
    data: list[ModelView]


class AssistantMessage(BaseModel):
    """What the expert says."""

    role: Literal["assistant"]
    content: str


class Choice(BaseModel):
    """The one answer."""

    index: int
    message: AssistantMessage
    finish_reason: Literal["stop"]


class ChatUsage(BaseModel):
    """What the run has cost: the tokens of all its calls of models."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class RunNote(BaseModel):
    """What the protocol has no place for: the run, how its result was judged, and what it asks."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    state: str
    status: str | None
    evaluation: str
    lesson: str
    questions: list[str]


class ChatCompletion(BaseModel):
    """An answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    operad: RunNote


def chat_routes(runs: Runs) -> APIRouter:
    """The routes.

    Args:
        runs: What they begin.
    """
    router = APIRouter(prefix="/v1", tags=["chat"])

    @router.get("/models", response_model=ModelList, responses=refusals())
    async def list_models() -> Response:  # pyright: ignore[reportUnusedFunction]
        """The experts, as models."""
        return json_reply({"object": "list", "data": [_model(name) for name in runs.offers]})

    @router.get("/models/{model:path}", response_model=ModelView, responses=refusals(404))
    async def show_model(model: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        """An expert, as a model."""
        return json_reply(_model(find_offer(runs.offers, model, "model").name))

    @router.post(
        "/chat/completions",
        response_model=ChatCompletion,
        responses={
            200: {
                "description": "The answer: whole, or in chunks where `stream` is true.",
                "content": EVENTS,
            },
            **refusals(404, 409, 502, 503, 504),
        },
    )
    async def chat(asked_for: ChatRequest, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Have an expert go on with a conversation. The run ends when the client leaves."""
        offer = find_offer(runs.offers, asked_for.model, "model")
        refuse_unable(asked_for)
        goal, context = read_conversation(asked_for.messages)
        going_on = await answered_run(runs, asked_for.messages, goal)
        if going_on is None:
            run, wrong = (await runs.begin(offer, offer.job(goal, context, {})))[0], ""
        else:
            run, wrong = going_on
        reply = _Reply(run, asked_for.model, wrong)
        if asked_for.stream:
            usage = bool(asked_for.stream_options and asked_for.stream_options.include_usage)
            return EventStream(_until_closed(runs, run, reply.chunks(runs.bounds.beat, usage=usage)))
        if not await unless_gone(request, run.pause_or_end()):
            await runs.cancel(run, _GONE)
            return Response(status_code=204)  # to nobody
        return json_reply(reply.whole())

    return router


class _Reply:
    """A run, told as an answer of the protocol."""

    def __init__(self, run: ServedRun, model: str, wrong: str) -> None:
        self._run = run
        self._wrong = wrong
        self._head = {"id": f"chatcmpl-{run.id}", "created": int(time.time()), "model": model}

    def whole(self) -> dict[str, Any]:
        """The answer of a run that has ended, or asks.

        Raises:
            RefusedError: Nothing came of it.
        """
        message = {"role": "assistant", "content": self._text()}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**self._head, "object": "chat.completion", "choices": [choice]}
        return {**whole, "usage": _tokens(self._run.usage), "operad": self._note()}

    async def chunks(self, beat: float, *, usage: bool) -> AsyncGenerator[bytes, None]:
        """The answer as it comes: what is sent, put together, is what `whole` says; or the last chunk is an error."""
        yield self._chunk({"role": "assistant", "content": ""})
        live = _LiveText(self._run.offer.streaming_operator())
        if not self._wrong:
            async with aclosing(self._run.log.follow(0, beat)) as entries:
                if not self._run.questions:
                    async for entry in entries:
                        if piece := live.next(entry):
                            yield self._chunk({"content": piece})
                        if said := _remark(entry):
                            yield said
                        if self._run.questions:
                            break
        try:
            for piece in live.rest(self._text()):
                yield self._chunk({"content": piece})
        except RefusedError as problem:
            yield f"data: {to_json(problem.body)}\n\n".encode()
            return
        yield self._chunk({}, finish_reason="stop", operad=self._note())
        if usage:
            yield self._line({"choices": [], "usage": _tokens(self._run.usage)})
        yield b"data: [DONE]\n\n"

    def _text(self) -> str:
        run = self._run
        if questions := run.questions:
            return asked(run, questions[0], self._wrong)
        if run.message is not None:
            return run.text
        raise RefusedError(
            504 if run.timed_out else 502, f"run {run.id!r} {'failed: ' if run.state == 'failed' else ''}{run.error}"
        )

    def _note(self) -> dict[str, Any]:
        run, message = self._run, self._run.message
        note = RunNote(
            run_id=run.id,
            state=run.shown_state,
            status=message.status.value if message else None,
            evaluation=message.evaluation if message else "",
            lesson=message.lesson if message else "",
            questions=[question.id for question in run.questions],
        )
        return note.model_dump()

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        return self._line({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **more})

    def _line(self, value: dict[str, Any]) -> bytes:
        chunk = to_json({**self._head, "object": "chat.completion.chunk", **value})
        return f"data: {chunk}\n\n".encode()


class _LiveText:
    """The words of an operator as they come; what was sent is never taken back.

    Args:
        operator: Whose words they are; None where all is said at the end.
    """

    def __init__(self, operator: str | None) -> None:
        self._path = () if operator is None else (operator,)
        self._attempt = (0, 0)
        self._said = ""
        self._sent = ""

    def next(self, entry: Entry | None) -> str:
        """What may be sent after an event: of another attempt, nothing before it goes on where the one before broke off."""
        event = entry and entry.event
        if not isinstance(event, events.TokenStreamed) or event.path != self._path:
            return ""
        if self._attempt != (attempt := (event.round, event.attempt)):
            self._attempt, self._said = attempt, ""
        self._said += event.text
        if len(self._said) <= len(self._sent) or not self._said.startswith(self._sent):
            return ""
        piece = self._said[len(self._sent) :]
        self._sent = self._said
        return piece

    def rest(self, text: str) -> Iterator[str]:
        """What is left to send of the whole text, in pieces.

        Raises:
            RefusedError: The text does not begin with what was sent.
        """
        if not text.startswith(self._sent):
            raise RefusedError(
                502, "the operator began anew after a part of its answer was sent, and said something else; ask again"
            )
        yield from filter(None, _PIECE.findall(text[len(self._sent) :]))


async def _until_closed(runs: Runs, run: ServedRun, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The parts; when whoever reads them leaves before the last one, the run is ended."""
    whole = False
    try:
        async with aclosing(parts):
            async for part in parts:
                yield part
        whole = True
    finally:
        if not whole:
            await runs.cancel(run, _GONE)


def _remark(entry: Entry | None) -> bytes:
    """What is going on, as a comment, which clients skip."""
    if entry is None:
        return b": waiting\n\n"
    event = entry.event
    if isinstance(
        event, events.OperatorStarted | events.OperatorFinished | events.OperatorRetried | events.ModelRetried
    ):
        return f": {to_json([entry.name, '/'.join(event.path)])}\n\n".encode()
    return b""


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
    }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _BEGAN, "owned_by": "operad"}
