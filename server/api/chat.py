"""Experts as models of the OpenAI chat protocol."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from operad.runtime.values.message import Usage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.valid_json import to_json
from operad.server.api.answer_form import form_of
from operad.server.api.conversation import ChatRequest, answered_run, faults_of, read_conversation
from operad.server.api.experts import find_offer
from operad.server.api.plain import EVENTS, operation_id, refusals
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import RunNote, answer_of, end_reply, note_on, sent_as, stream_answer
from operad.server.http.problems import RefusedError, json_reply, refuse_faults
from operad.server.http.streams import EventStream, reply_after

_STARTED = int(time.time())


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
    """Message of the expert."""

    role: Literal["assistant"]
    content: str


class Choice(BaseModel):
    """The only answer of a completion."""

    index: int
    message: AssistantMessage
    finish_reason: Literal["stop"]


class ChatUsage(BaseModel):
    """Usage of the run: the tokens of all its model calls."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


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
    """Return the routes of the chat API."""
    router = APIRouter(prefix="/v1", tags=["chat"], generate_unique_id_function=operation_id)

    @router.get("/models", response_model=ModelList, responses=refusals())
    async def list_models(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """List the experts, as models."""
        offers = SeenRuns(runs, caller_of(request)).offers
        return json_reply({"object": "list", "data": [_model_view(name) for name in offers]})

    @router.get("/models/{model:path}", response_model=ModelView, responses=refusals(404))
    async def show_model(request: Request, model: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Return an expert, as a model."""
        return json_reply(_model_view(find_offer(SeenRuns(runs, caller_of(request)).offers, model, "model").name))

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
    async def chat(body: ChatRequest, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Continue a conversation with an expert. The run ends if the client disconnects."""
        seen = SeenRuns(runs, caller_of(request))
        offer = find_offer(seen.offers, body.model, "model")
        refuse_faults(faults_of(body))
        turn = read_conversation(body.messages)
        going_on = await answered_run(seen, turn)
        if going_on is None:
            job = offer.job(turn.goal, turn.context, {}, turn.turns)
            run, wrong = (await seen.begin(offer, job))[0], ""
        else:
            run, wrong = going_on
        reply, ended = (
            _Reply(run, body.model, wrong, form_of(body.response_format)),
            partial(end_reply, seen, run, False),
        )
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(reply.chunks(usage=usage), runs.bounds.beat, ended)
        return await reply_after(run.pause_or_end(), request, lambda: json_reply(reply.completion()), ended)

    return router


class _Reply:
    """Answer of a run, in the form of the protocol."""

    def __init__(self, run: ServedRun, model: str, wrong: str, form: AnswerSchema | None) -> None:
        self._run = run
        self._wrong = wrong
        self._form = form
        self._head = {"id": f"chatcmpl-{run.id}", "created": int(time.time()), "model": model}

    def completion(self) -> dict[str, Any]:
        """Return the answer of an ended run, or its question.

        Raises:
            RefusedError: The run has no result.
        """
        message = {"role": "assistant", "content": answer_of(self._run, self._wrong, self._form)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {**self._head, "object": "chat.completion", "choices": [choice]}
        return {**answer, "usage": _usage_view(self._run.usage), "operad": note_on(self._run).model_dump()}

    async def chunks(self, *, usage: bool) -> AsyncGenerator[bytes, None]:
        """Yield the answer in chunks as it is written, after text before calls of tools; a failed run ends with an error."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async with aclosing(stream_answer(self._run, self._wrong, self._form)) as pieces:
                async for text, event in pieces:
                    if data := sent_as(text, event, lambda piece: self._chunk({"content": piece})):
                        yield data
        except RefusedError as problem:
            yield f"data: {to_json(problem.body)}\n\n".encode()
            return
        yield self._chunk({}, finish_reason="stop", operad=note_on(self._run).model_dump())
        if usage:
            yield self._data_line({"choices": [], "usage": _usage_view(self._run.usage)})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        return self._data_line({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **more})

    def _data_line(self, value: dict[str, Any]) -> bytes:
        chunk = to_json({**self._head, "object": "chat.completion.chunk", **value})
        return f"data: {chunk}\n\n".encode()


def _usage_view(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
    }


def _model_view(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _STARTED, "owned_by": "operad"}
