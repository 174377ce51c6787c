"""Experts as models of the OpenAI Responses protocol: a response is a run with its earlier conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.message import Turn
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.valid_json import to_json
from operad.server.api.answer_form import AnswerFormat, form_of
from operad.server.api.conversation import WITH_TEXT, RoleAndText, answer_question, answered_run, not_text, request_in
from operad.server.api.experts import find_offer
from operad.server.api.plain import EVENTS, RUN_ID, operation_id, refusals
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import RunNote, answer_of, end_reply, note_on, sent_as, stream_answer
from operad.server.http.problems import RefusedError, json_reply, refuse_faults
from operad.server.http.streams import EventStream, reply_after

# Types of the responses API: requests, inputs and answers as OpenAI's protocol names them.

PREFIX = "resp_"
"""Prefix of the id of a response; the id of its run follows."""

WITHOUT_EFFECT = frozenset(
    "max_output_tokens parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning "
    "safety_identifier service_tier stream_options temperature tool_choice top_p truncation user".split()
)
"""Parameters that are accepted and ignored: models are configured in the files."""

UNABLE = {
    "background": "responses are synchronous; POST /runs starts a run in the background",
    "context_management": "the expert's own `memory` keeps a conversation within its budget",
    "conversation": "to continue a conversation, send previous_response_id",
    "image": "experts give text",
    "include": "nothing more is given out",
    "max_tool_calls": "experts call tools of their own",
    "metadata": "it is not kept here",
    "moderation": "nothing is moderated here",
    "prompt": "prompts are the experts' own",
    "tools": "experts have tools of their own and call none of yours",
    "top_logprobs": "probabilities are not known here",
}
"""Parameters that are refused, each with the reason."""


class InputText(BaseModel):
    """A piece of a message: text."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: Literal["input_text", "output_text"]
    text: str


class OtherInput(BaseModel):
    """A piece of a message, or of the input, that is neither text nor message, and is refused."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: str


class InputMessage(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[InputText | SkipJsonSchema[OtherInput]], Field(fail_fast=True)] = Field(
        description="Text of the message, or a list of its parts."
    )


def _add_ignored(schema: dict[str, Any]) -> None:
    """Add the ignored parameters to the JSON Schema."""
    ignored: dict[str, Any] = {name: {} for name in sorted(WITHOUT_EFFECT)}
    schema["properties"] |= ignored
    schema["additionalProperties"] = False


class TextOptions(BaseModel):
    """Options of the text."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    format: AnswerFormat | None = Field(default=None, description="Form that the answer has to fit.")


class ResponseRequest(BaseModel):
    """A request for a response."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, json_schema_extra=_add_ignored)

    model: str = Field(description="Name of the expert; GET /v1/models lists them.")
    input: (
        Annotated[str, Field(json_schema_extra={"pattern": r"\S"})]
        | Annotated[
            list[InputMessage | SkipJsonSchema[OtherInput]],
            # to name a million faults takes seconds, in which the server answers no other request
            Field(json_schema_extra={"contains": WITH_TEXT}, fail_fast=True),
        ]
    ) = Field(description="A text; or messages, of which the last user message is the task.")
    instructions: str | None = Field(default=None, description="Background information, for this response only.")
    previous_response_id: str | None = Field(
        default=None, max_length=200, description="Id of the response that this one continues."
    )
    store: StrictBool | None = Field(
        default=None, description="True to keep the response, so that it can be fetched and continued later."
    )
    stream: StrictBool | None = Field(default=None, description="True to send the response as events.")
    text: TextOptions | None = None


class OutputText(BaseModel):
    """The text of a response."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class OutputMessage(BaseModel):
    """The message of a response."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed", "in_progress"]
    content: list[OutputText]


class Failure(BaseModel):
    """The reason why there is no message."""

    code: str
    message: str


class InputDetails(BaseModel):
    """Details of the input tokens."""

    cached_tokens: int


class OutputDetails(BaseModel):
    """Details of the output tokens."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """The tokens of all model calls of the run."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseView(BaseModel):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "failed", "in_progress", "cancelled"]
    error: Failure | None
    incomplete_details: None
    instructions: str | None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    previous_response_id: str | None
    temperature: None
    tool_choice: Literal["auto"]
    tools: list[Any]
    top_p: None
    usage: ResponseUsage | None
    operad: RunNote


class Deleted(BaseModel):
    """A deleted response."""

    id: str
    object: Literal["response"]
    deleted: bool


ResponseId = Annotated[
    str, Path(description="The response's id.", max_length=200, pattern=f"^{PREFIX}{RUN_ID.removeprefix('^')}")
]


def response_routes(runs: Runs) -> APIRouter:
    """Return the routes of the responses API."""
    router = APIRouter(prefix="/v1/responses", tags=["responses"], generate_unique_id_function=operation_id)

    @router.post(
        "",
        response_model=ResponseView,
        responses={
            200: {"description": "The response: whole, or as events where `stream` is true.", "content": EVENTS},
            **refusals(404, 409, 502, 503, 504),
        },
    )
    async def respond(body: ResponseRequest, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Continue a conversation with an expert. The run ends if the client disconnects."""
        seen = SeenRuns(runs, caller_of(request))
        find_offer(seen.offers, body.model, "model")
        refuse_faults(_faults_of(body))
        run, wrong = await _run_for(seen, body)
        reply, ended = (
            _Reply(run, wrong, form_of(body.text and body.text.format)),
            partial(end_reply, seen, run, body.store is False),
        )
        if body.stream:
            return EventStream(reply.events(), runs.bounds.beat, ended)
        return await reply_after(run.pause_or_end(), request, lambda: json_reply(reply.whole()), ended)

    @router.get("/{response_id}", response_model=ResponseView, responses=refusals(404, 409))
    async def show_response(
        request: Request, response_id: ResponseId, stream: Annotated[bool, Query(include_in_schema=False)] = False
    ) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Return a response in its current state."""
        if stream:
            raise RefusedError(400, "stream: a response streams where it is created; leave it out", param="stream")
        return json_reply(
            _Reply(await _find_run(SeenRuns(runs, caller_of(request)), response_id, "response_id")).view()
        )

    @router.delete("/{response_id}", response_model=Deleted, responses=refusals(404, 409))
    async def delete_response(request: Request, response_id: ResponseId) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Cancel the run of a response, and delete it; responses that continued it stay."""
        seen = SeenRuns(runs, caller_of(request))
        await seen.forget(await _find_run(seen, response_id, "response_id"))
        return json_reply({"id": response_id, "object": "response", "deleted": True})

    return router


async def _run_for(runs: SeenRuns, body: ResponseRequest) -> tuple[ServedRun, str]:
    """Return the run of a response, and the fault of the answer if the input answers a question.

    Raises:
        RefusedError: The input cannot be used, or the conversation cannot be continued.
    """
    offer = find_offer(runs.offers, body.model, "model")
    previous, before = None, tuple[Turn, ...]()
    if body.previous_response_id is not None:
        previous = await _find_run(runs, body.previous_response_id, "previous_response_id")
        before = conversation_of(previous)
    instructions = [("system", body.instructions)] if body.instructions else []
    turn = request_in([*instructions, *_messages_of(body.input)], "input", before)
    if previous is not None and previous.questions:
        return previous, await answer_question(runs, previous, previous.questions[0], turn.goal)
    answered = await answered_run(runs, turn)
    if answered is not None:
        return answered
    session = previous.job.session_id if previous else None
    job = offer.job(turn.goal, turn.context, {}, turn.turns, session)
    return (await runs.begin(offer, job, previous=previous))[0], ""


def conversation_of(run: ServedRun) -> tuple[Turn, ...]:
    """Return the turns up to the end of a run, including its own.

    Raises:
        RefusedError: The run has no result yet, or none.
    """
    turns = (*run.job.turns, Turn(role="user", text=run.job.goal))
    if run.questions:
        return turns
    if run.message is None:
        reason = "has not ended; wait for it" if run.ended is None else "failed, and cannot be continued; ask again"
        raise RefusedError(409, f"previous_response_id: the response {reason}", param="previous_response_id")
    return (*turns, Turn(role="assistant", text=run.text))


async def _find_run(runs: SeenRuns, response_id: str, param: str) -> ServedRun:
    """Return the run of a response."""
    if response_id.startswith(PREFIX):
        try:
            return await runs.find(response_id.removeprefix(PREFIX))
        except RefusedError as error:
            if error.status != 404:
                raise
    raise RefusedError(
        404,
        f"{param}: no response has the id {response_id!r}; a response with `store: false` is deleted when it ends. "
        f"{runs.retention}",
        param=param,
    )


def _messages_of(given: str | Sequence[InputMessage | OtherInput]) -> list[RoleAndText]:
    """Return the messages of an input, which holds only text."""
    if isinstance(given, str):
        return [("user", given)]
    return [
        (item.role, item.content if isinstance(item.content, str) else "\n".join(map(_part_text, item.content)))
        for item in given
        if isinstance(item, InputMessage)
    ]


def _part_text(part: InputText | OtherInput) -> str:
    return part.text if isinstance(part, InputText) else ""


def _faults_of(request: ResponseRequest) -> Iterator[tuple[str, str]]:
    """Yield the fields that experts do not support, with the reasons."""
    extra: dict[str, Any] = request.model_extra or {}
    for name, value in extra.items():
        if name in UNABLE and value:
            yield name, f"{UNABLE[name]}; leave it out"
        if name not in UNABLE and name not in WITHOUT_EFFECT:
            known = [*ResponseRequest.model_fields, *WITHOUT_EFFECT]
            yield name[:100], f"there is no such parameter{did_you_mean(name[:100], known)}; leave it out"
    if request.text and request.text.format:
        yield from request.text.format.faults("text.format")
    for number, item in enumerate(() if isinstance(request.input, str) else request.input):
        if isinstance(item, OtherInput):
            yield not_text(f"input[{number}]", item.type, "message", "items")
        else:
            for place, part in enumerate(() if isinstance(item.content, str) else item.content):
                if isinstance(part, OtherInput):
                    yield not_text(f"input[{number}].content[{place}]", part.type, "input_text", "parts")


class _Reply:
    """Response of a run."""

    def __init__(self, run: ServedRun, wrong: str = "", form: AnswerSchema | None = None) -> None:
        self._run = run
        self._wrong = wrong
        self._form = form
        self._number = -1

    def whole(self) -> dict[str, Any]:
        """Return the response of an ended run, or its question.

        Raises:
            RefusedError: The run has no result.
        """
        answer_of(self._run, self._wrong, self._form)
        return self.view()

    def view(self, *, begun: bool = False) -> dict[str, Any]:
        """Return the response in its current state.

        Args:
            begun: True to return its state at the start.
        """
        run = self._run
        failed = not begun and run.ended is not None and run.message is None
        done = not begun and bool(run.message or run.questions)
        status = "completed" if done else "in_progress"
        if failed:
            status = "cancelled" if run.state == "cancelled" and not run.timed_out else "failed"
        usage = {
            "input_tokens": run.usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": run.usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": run.usage.tokens,
        }
        return {
            "id": PREFIX + run.id,
            "object": "response",
            "created_at": int(run.began),
            "status": status,
            "error": {"code": "server_error", "message": run.error} if failed else None,
            "incomplete_details": None,
            "instructions": run.job.context or None,
            "metadata": {},
            "model": run.offer.name,
            "output": [self._message(answer_of(run, self._wrong))] if done else [],
            "parallel_tool_calls": False,
            "previous_response_id": PREFIX + run.previous if run.previous else None,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": usage if done or failed else None,
            "operad": note_on(run).model_dump(),
        }

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the events of a stream; its text is that of `view`, after text that the model wrote before calls of tools."""
        begun = self.view(begun=True)
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        yield self._event("response.output_item.added", output_index=0, item=self._message(None))
        place = {"item_id": self._message(None)["id"], "output_index": 0, "content_index": 0}
        yield self._event("response.content_part.added", **place, part=_text_part(""))
        pieces_said: list[str] = []

        def delta(piece: str) -> bytes:
            return self._event("response.output_text.delta", **place, delta=piece, logprobs=[])

        try:
            async with aclosing(stream_answer(self._run, self._wrong, self._form)) as pieces:
                async for text, event in pieces:
                    pieces_said.append(text)
                    if data := sent_as(text, event, delta):
                        yield data
        except RefusedError as problem:
            failure = {"code": "server_error", "message": str(problem)}
            failed_fields: dict[str, Any] = {"status": "failed", "error": failure, "output": []}
            yield self._event("response.failed", response=self.view() | failed_fields)
            return
        text = "".join(pieces_said)
        yield self._event("response.output_text.done", **place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **place, part=_text_part(text))
        yield self._event("response.output_item.done", output_index=0, item=self._message(text))
        yield self._event("response.completed", response=self.view() | {"output": [self._message(text)]})

    def _message(self, text: str | None) -> dict[str, Any]:
        """Return the message of the output; `text` is None at its start."""
        return {
            "type": "message",
            "id": f"msg_{self._run.id}",
            "role": "assistant",
            "status": "in_progress" if text is None else "completed",
            "content": [] if text is None else [_text_part(text)],
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        event = to_json({"type": kind, "sequence_number": self._number, **fields})
        return f"event: {kind}\ndata: {event}\n\n".encode()


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
