"""A2A: an expert as an agent that other agents find by its card, and that takes tasks; a task is a run."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import quote, unquote

from a2a import types
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import (
    RequestHandler,
    validate_request_params,  # pyright: ignore[reportUnknownVariableType]
)
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.constants import (
    DEFAULT_LIST_TASKS_PAGE_SIZE,
    MAX_LIST_TASKS_PAGE_SIZE,
    PROTOCOL_VERSION_0_3,
    PROTOCOL_VERSION_1_0,
    TransportProtocol,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from operad.operators.remote_agent import read_data
from operad.runtime.durable.process_ids import version_here
from operad.runtime.values.fault import verdict_text
from operad.runtime.values.message import Turn, new_id
from operad.runtime.values.valid_json import to_json, to_text
from operad.server.api.conversation import asked_text
from operad.server.api.experts import Offer
from operad.server.api.faults import read_body
from operad.server.api.protocols.answers import MAX_SESSION, give_answers, payload_answer
from operad.server.api.protocols.parts import Opened, Written, reply_parts
from operad.server.api.responses import conversation_of
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import note_on
from operad.server.http.keys import Key
from operad.server.http.problems import RefusedError, internal_error, json_reply

if TYPE_CHECKING:
    from collections.abc import Generator

ANSWER, OUTPUTS = "answer", "outputs"
"""Ids of the artifacts of a task: its text, and its named outputs."""

_MODES = ("text/plain", "application/json")
_STATES: Mapping[str, types.TaskState] = {
    "running": types.TaskState.TASK_STATE_WORKING,
    "asks": types.TaskState.TASK_STATE_INPUT_REQUIRED,
    "finished": types.TaskState.TASK_STATE_COMPLETED,
    "failed": types.TaskState.TASK_STATE_FAILED,
    "cancelled": types.TaskState.TASK_STATE_CANCELED,
}


class Call(BaseModel):
    """A request of JSON-RPC."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict[str, Any])
    id: StrictInt | str | None = None


def _is_of_server(record: logging.LogRecord) -> bool:
    """Return True for errors of the server; the errors of a request go to its sender, and do not belong into the log."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and not isinstance(error, ParseError | ValidationError)


for _name in ("server.routes.jsonrpc_dispatcher", "compat.v0_3.jsonrpc_adapter", "utils.version_validator"):
    logging.getLogger(f"a2a.{_name}").addFilter(_is_of_server)


async def reply(runs: SeenRuns, offer: Offer, request: Request) -> Response:
    """Return the response to a JSON-RPC request of A2A, of version 1.0 or 0.3."""
    code = -32700  # the package answers what is not JSON-RPC, or nested too deep, with internal errors
    try:
        json.dumps(from_json(await request.body()), allow_nan=False)
        code = -32600
        await read_body(Call, request)
    except (RefusedError, ValueError) as error:
        return json_reply({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": f"body: {error}"}})
    return await JsonRpcDispatcher(_Tasks(runs, offer), enable_v0_3_compat=True).handle_requests(request)


def card_reply(runs: SeenRuns, offer: Offer, request: Request) -> Response:
    """Return the card of an expert."""
    url, description = f"{request.base_url}a2a/{quote(offer.name)}", offer.description or offer.name
    card = types.AgentCard(
        name=offer.name,
        description=description,
        version=version_here(),
        supported_interfaces=[
            types.AgentInterface(url=url, protocol_binding=TransportProtocol.JSONRPC.value, protocol_version=version)
            for version in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=types.AgentCapabilities(streaming=True),
        default_input_modes=_MODES,
        default_output_modes=_MODES,
        skills=[types.AgentSkill(id=offer.name, name=offer.name, description=description, tags=["expert"])],
    )
    if isinstance(runs.caller.user, Key):
        bearer = types.HTTPAuthSecurityScheme(scheme="Bearer")
        card.security_schemes["key"].CopyFrom(types.SecurityScheme(http_auth_security_scheme=bearer))
        card.security_requirements.append(types.SecurityRequirement(schemes={"key": types.StringList()}))
    return json_reply(agent_card_to_dict(card))


class _Tasks(RequestHandler):
    """Tasks of an expert, as a caller may see them."""

    def __init__(self, runs: SeenRuns, offer: Offer) -> None:
        self._runs = runs
        self._offer = offer

    @validate_request_params
    async def on_message_send(self, params: types.SendMessageRequest, context: ServerCallContext) -> types.Task:
        """Begin a task or continue one, and return it when it asks or has ended."""
        with _refusals():
            run, wrong = await self._run_for(params.message)
            if not params.configuration.return_immediately:
                await run.pause_or_end()
            return _task(run, wrong)

    @validate_request_params
    async def on_message_send_stream(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Begin a task or continue one, and yield its events until it asks or has ended."""
        with _refusals():
            run, wrong = await self._run_for(params.message)
            async with aclosing(_events(run, wrong)) as told:
                async for event in told:
                    yield event

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: types.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Yield the events of a task that has not ended."""
        run = await self._find(params.id)
        if run.ended is not None:
            raise UnsupportedOperationError(f"the task {run.id!r} has ended; get it instead")
        with _refusals(), self._runs.following():
            async with aclosing(_events(run)) as told:
                async for event in told:
                    yield event

    @validate_request_params
    async def on_get_task(self, params: types.GetTaskRequest, context: ServerCallContext) -> types.Task:
        """Return a task."""
        return _task(await self._find(params.id))

    @validate_request_params
    async def on_cancel_task(self, params: types.CancelTaskRequest, context: ServerCallContext) -> types.Task:
        """Cancel a task, and return it."""
        run = await self._find(params.id)
        if run.ended is not None:
            raise TaskNotCancelableError(f"the task {run.id!r} has ended; its state is {run.state}")
        with _refusals():
            await self._runs.cancel(run)
        return _task(run)

    async def on_list_tasks(
        self, params: types.ListTasksRequest, context: ServerCallContext
    ) -> types.ListTasksResponse:
        """Return the tasks of the expert that the server keeps in memory, the newest first."""
        size = min(params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE, MAX_LIST_TASKS_PAGE_SIZE)
        if size < 1 or (params.page_token and not params.page_token.isdecimal()):
            raise InvalidParamsError("page_size takes 1 to 100, page_token the token of a list")
        if params.HasField("status_timestamp_after"):
            raise InvalidParamsError(
                "status_timestamp_after: tasks are listed by context_id and status only; leave it out"
            )
        found = [
            run
            for run in self._mine()
            if params.context_id in ("", _context(run)) and params.status in (0, _state(run))
        ]
        begin = int(params.page_token[:9] or 0)
        tasks = [_task(run) for run in found[begin : begin + size]]
        rest = str(begin + size) if begin + size < len(found) else ""
        return types.ListTasksResponse(tasks=tasks, total_size=len(found), page_size=size, next_page_token=rest)

    async def on_create_task_push_notification_config(self, params: Any, context: Any) -> NoReturn:
        """Refuse push notifications."""
        raise PushNotificationNotSupportedError

    on_get_task_push_notification_config = on_create_task_push_notification_config
    on_list_task_push_notification_configs = on_create_task_push_notification_config
    on_delete_task_push_notification_config = on_create_task_push_notification_config

    async def on_get_extended_agent_card(self, params: Any, context: Any) -> NoReturn:
        """Refuse an extended card: the card is the same for all."""
        raise UnsupportedOperationError("there is no extended card")

    def _mine(self) -> Sequence[ServedRun]:
        return [run for run in self._runs.listed() if run.offer.name == self._offer.name]

    async def _find(self, task_id: str) -> ServedRun:
        with _refusals():
            run = await self._runs.find(task_id)
        if run.offer.name != self._offer.name:
            raise TaskNotFoundError(f"no task of {self._offer.name!r} has the id {task_id[:200]!r}")
        return run

    async def _run_for(self, message: types.Message) -> tuple[ServedRun, str]:
        """Return the run of a message, and the fault of the answer if it answers a question."""
        text, values = _content(message)
        context = message.context_id
        if len(context) > MAX_SESSION:
            raise InvalidParamsError(f"message.context_id: has {len(context):,} characters; give at most {MAX_SESSION}")
        if message.task_id:
            run = await self._find(message.task_id)
            if context not in ("", _context(run)):
                raise InvalidParamsError(
                    f"message.context_id: the task {run.id!r} is of {_context(run)!r}; leave it out"
                )
            return await self._answered(run, text, values)
        if not (text.strip() or values):
            raise InvalidParamsError("message.parts: hold no text; give the task")
        inputs: dict[str, Any] = {}
        for value in values:
            if not isinstance(value, dict):
                raise InvalidParamsError("message.parts: data is the inputs of the expert; give an object")
            inputs |= value
        session = self._runs.caller.session(quote(context, safe=""))  # other callers may use the same context
        before = [run for run in self._mine() if run.job.session_id == session and run.message is not None]
        previous = before[0] if before else None
        turns: tuple[Turn, ...] = conversation_of(previous) if previous else ()
        job = self._offer.job(text, "", inputs, turns, session)
        run, _ = await self._runs.begin(self._offer, job, previous=previous)
        await run.stored()  # other servers know the task from then on
        return run, ""

    async def _answered(self, run: ServedRun, text: str, values: Sequence[Any]) -> tuple[ServedRun, str]:
        if not run.questions:
            advice = "begin another with the same contextId" if run.ended is not None else "it asks nothing"
            raise UnsupportedOperationError(f"the task {run.id!r} takes no message, its state is {run.state}: {advice}")
        if len(values) + bool(text.strip()) > 1:
            raise InvalidParamsError("message.parts: a question takes one answer; give either text or one part of data")
        question = run.questions[0]
        answer = payload_answer(question, values[0]) if values else text
        return run, await give_answers(self._runs, run, [(question, answer)])


@contextmanager
def _refusals() -> Generator[None, None, None]:
    """Raise refusals of the block as errors of the protocol, or of HTTP, such as 429 if there are too many runs.

    The package would send the text of any other error.
    """
    kinds: Mapping[int, type[A2AError]] = {
        400: InvalidParamsError,
        404: TaskNotFoundError,
        409: UnsupportedOperationError,
    }
    try:
        yield
    except RefusedError as problem:
        if kind := kinds.get(problem.status):
            raise kind(str(problem)) from problem
        raise HTTPException(problem.status, str(problem), problem.headers) from problem
    except (A2AError, HTTPException):
        raise
    except Exception as error:
        raise InternalError(str(internal_error(error))) from error


def _content(message: types.Message) -> tuple[str, list[Any]]:
    """Return the text and the data of a message."""
    if any(part.WhichOneof("content") in ("raw", "url") for part in message.parts):
        raise ContentTypeNotSupportedError("message.parts: files are not accepted; give text or data")
    texts = [part.text for part in message.parts if part.HasField("text")]
    return "\n".join(texts), [read_data(part.data) for part in message.parts if part.HasField("data")]


async def _events(run: ServedRun, wrong: str = "") -> AsyncGenerator[Any, None]:
    """Yield the task, the text as it is written, the operators that begin, and at the end the artifacts and the state."""
    yield _task(run, wrong)
    written = ""
    try:
        async with aclosing(reply_parts(run, wrong)) as parts:
            async for part in parts:
                match part:
                    case Opened("step", operator):
                        status = _now(types.TaskState.TASK_STATE_WORKING)
                        yield _update(run, status, _struct({"operad": {"operator": operator}}))
                    case Opened("text") if written:
                        yield _artifact_update(run, _text_artifact("\n\n"), append=True)
                        written += "\n\n"
                    case Written("text", _, text):
                        yield _artifact_update(run, _text_artifact(text), append=bool(written))
                        written += text
                    case _:
                        pass
    except RefusedError:  # the state tells
        pass
    for artifact in _artifacts(run):
        if artifact.artifact_id != ANSWER or run.text != written:
            yield _artifact_update(run, artifact, append=False)
    yield _update(run, _status(run, wrong))


def _update(run: ServedRun, status: types.TaskStatus, metadata: Struct | None = None) -> types.TaskStatusUpdateEvent:
    return types.TaskStatusUpdateEvent(task_id=run.id, context_id=_context(run), status=status, metadata=metadata)


def _task(run: ServedRun, wrong: str = "") -> types.Task:
    return types.Task(
        id=run.id,
        context_id=_context(run),
        status=_status(run, wrong),
        artifacts=_artifacts(run),
        metadata=_struct({"operad": note_on(run).model_dump(mode="json")}),
    )


def _context(run: ServedRun) -> str:
    """Return the id of the conversation, without the name of the key to which it belongs."""
    return unquote(run.job.session_id.rpartition("/")[2])


def _state(run: ServedRun) -> types.TaskState:
    """Return the state; a run whose result was rejected has failed for another agent."""
    if run.message is not None and not run.message.accepted:
        return types.TaskState.TASK_STATE_FAILED
    return _STATES[run.shown_state]


def _status(run: ServedRun, wrong: str = "") -> types.TaskStatus:
    text, metadata = "", dict[str, Any]()
    if run.questions:
        question = run.questions[0]
        text = asked_text(question, wrong)
        metadata = {"operad": {"question": question.text, "schema": question.schema_}}
    elif run.message is None:
        text = run.error
    elif not run.message.accepted:
        verdict = verdict_text(run.message.status, run.message.evaluation)
        text = f"The result was {verdict}\n{run.message.lesson}".strip()
    status = _now(_state(run))
    if text:
        ids, parts = (
            {"message_id": new_id(), "task_id": run.id, "context_id": _context(run)},
            [types.Part(text=to_text(text))],
        )
        message = types.Message(**ids, role=types.Role.ROLE_AGENT, parts=parts, metadata=_struct(metadata))
        status.message.CopyFrom(message)
    return status


def _now(state: types.TaskState) -> types.TaskStatus:
    status = types.TaskStatus(state=state)
    status.timestamp.GetCurrentTime()
    return status


def _artifacts(run: ServedRun) -> list[types.Artifact]:
    """Return the artifacts of a run that has a result."""
    if run.message is None:
        return []
    found = [_text_artifact(run.text)] if run.text else []
    if run.message.outputs:
        part = types.Part(data=ParseDict(_plain(run.message.outputs), Value()), media_type="application/json")
        found.append(types.Artifact(artifact_id=OUTPUTS, name=OUTPUTS, parts=[part]))
    return found


def _text_artifact(text: str) -> types.Artifact:
    return types.Artifact(
        artifact_id=ANSWER, name=ANSWER, parts=[types.Part(text=to_text(text), media_type="text/plain")]
    )


def _artifact_update(run: ServedRun, artifact: types.Artifact, *, append: bool) -> types.TaskArtifactUpdateEvent:
    return types.TaskArtifactUpdateEvent(task_id=run.id, context_id=_context(run), artifact=artifact, append=append)


def _struct(value: Mapping[str, Any]) -> Struct:
    return ParseDict(_plain(value), Struct())


def _plain(value: Any) -> Any:
    """Return a value as JSON values without half surrogate pairs, which protobuf does not take."""
    return json.loads(to_json(value))
