"""Operator whose work an agent on another server does, over the A2A protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from operad.operators.config import OperatorConfig
from operad.operators.operator import Operator
from operad.operators.secrets import find_secret, secret_value
from operad.operators.web.fetch import Guard, guarded_client, host_and_port
from operad.runtime.events import TokenStreamed, emit
from operad.runtime.events.interrupts import interrupt
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.tools.toolkit import Toolkit
from operad.runtime.values.errors import AnswerError, FetchError, InputError, MissingExtraError, OperadError, describe
from operad.runtime.values.json_schema import ANSWER_BY, APPROVAL
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.pip import pip_install
from operad.runtime.values.secret import Secret, SecretUse
from operad.runtime.values.text import shortened
from operad.runtime.values.valid_json import to_json, to_text

if TYPE_CHECKING:
    from a2a.client import Client
    from a2a.types import (
        Artifact,
        Message,
        StreamResponse,
        Task,
        TaskArtifactUpdateEvent,
        TaskStatus,
        TaskStatusUpdateEvent,
    )
    from google.protobuf.struct_pb2 import Struct, Value

MAX_QUESTION = 4_000
"""Maximum length of a question of a remote agent, in characters."""

_logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_CANCEL_SECONDS = 5.0
_MOST_EXACT = 2**53


class RemoteAgent(Operator[Any]):
    """Operator whose work an agent on another server does, over the A2A protocol.

        translate = RemoteAgent("Translate into Dutch.", server="https://agents.example.com/a2a/Translator")
        workflow = Workflow(draft >> translate)

    The agent gets the instruction, the job, and the answers of predecessors as text, and the inputs of the job as data.
    Its text is the answer, its data the outputs. Questions of the agent are questions of the run.

    Args:
        config: Id, instruction and other settings; or the instruction.
        server: Address of the agent, below which its card is, at ``/.well-known/agent-card.json``. It is trusted, and
            may be local; other hosts that the card names have to be public.
        secret: Name of the secret that is sent to this host as ``Authorization: Bearer``; empty for none.
        timeout: Time limit of each exchange in seconds, without the time in which a person is asked.
        max_bytes: Maximum size of a response.
        id: Id of the operator, with an instruction.
        toolkit: Parameter of every operator; not used.
        knowledge_base: Parameter of every operator; not used.

    Raises:
        InputError: `server` is not an address, or a value is out of range.
    """

    def __init__(
        self,
        config: OperatorConfig | str,
        *,
        server: str,
        secret: str = "",
        timeout: float = 300.0,
        max_bytes: int = 16 * 2**20,
        id: str = "",
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        if isinstance(config, str):
            config = OperatorConfig(instruction=config, id=id) if id else OperatorConfig(instruction=config)
        super().__init__(config, toolkit=toolkit, knowledge_base=knowledge_base)
        if not (timeout > 0 and max_bytes > 0):
            raise InputError(f"timeout and max_bytes must be more than 0, not {timeout!r} and {max_bytes!r}")
        try:
            host, port = host_and_port(server)
        except FetchError as error:
            raise InputError(f"server: {error}") from error
        if not re.fullmatch(r"https?://[^@?#\s]+", server, re.IGNORECASE):  # it is shown and stored, keys are not
            raise InputError(
                "server: expected an address with http or https, without a name, password or query; `secret` names a key"
            )
        self._server, self._secret, self._timeout = server.rstrip("/"), secret, timeout
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._guard = Guard(allowed_hosts=(self._host,), timeout=timeout, max_bytes=max_bytes)

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """The secret that the server gets."""
        return [SecretUse(Secret(self._secret), self._host)] if self._secret else []

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that identify what the operator does: those of every operator, and the server."""
        return {**super().fingerprint(), "server": self._server}

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Give the agent the job, answer its questions, and return its result.

        Raises:
            AnswerError: The agent failed, rejected the task, or has no result.
            FetchError: The agent cannot be reached, or its response is too large or too slow.
            MissingExtraError: The package of the protocol is not installed.
        """
        if call.job.files:
            _logger.warning("operator %r: the job's files are not sent to the agent %s", self.get_id(), self._server)
        work = _RemoteTask(self._server, self._timeout)
        async with self._connected() as client:
            try:
                await work.send(client, _text(self.instruction, call), dict(call.job.inputs) or None)
                while question := work.question():
                    answer: Any = await interrupt(*question)
                    await work.send(client, *((answer, None) if isinstance(answer, str) else ("", answer)))
            except BaseException:  # also of a run that is cancelled while the agent works
                await work.cancel(client)
                raise
        return WorkflowMessage(
            scratchpad=work.answer(),
            outputs=work.outputs,
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client, None]:
        """Yield a client of the agent, from its card."""
        try:
            from a2a.client import ClientConfig, ClientFactory
        except ImportError as error:
            raise MissingExtraError(f"agents of other servers need a2a-sdk ({error}): {pip_install('a2a')}") from error
        headers = {"authorization": f"Bearer {secret_value(Secret(self._secret), find_secret)}"} if self._secret else {}
        async with guarded_client(self._guard, headers, self._server) as http:
            with _errors(self._server):
                async with asyncio.timeout(self._timeout):
                    client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(self._server)
            yield client


def _text(instruction: str, call: OperatorCall) -> str:
    """Return the job as text."""
    job = call.job
    before = [message.scratchpad or to_json(message.outputs) for message in call.messages]
    parts = (instruction, job.goal, job.context, *before, call.lesson and f"Mend this: {call.lesson}")
    return "\n\n".join(to_text(part) for part in parts if part)


@contextmanager
def _errors(server: str) -> Generator[None, None, None]:
    """Raise errors of the protocol's package, also those of hostile data, as errors of operad."""
    try:
        yield
    except OperadError:
        raise
    except TimeoutError as error:
        raise FetchError(f"{server}: the agent did not answer in time", transient=True) from error
    except Exception as error:
        import httpx

        cause = error.__cause__
        status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else 0
        is_transient = isinstance(cause, httpx.TransportError) or status == 429 or status >= 500
        text = shortened(describe(error), MAX_QUESTION)
        raise FetchError(f"{server}: the agent cannot be used: {text}", transient=is_transient) from error


@dataclass
class _RemoteTask:
    """Task of a remote agent, as far as it was told.

    Attributes:
        status: Last status; None if the agent answers by a message.
        text: Text of its answer.
    """

    server: str
    timeout: float
    id: str = ""
    context_id: str = ""
    status: TaskStatus | None = None
    artifacts: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    async def send(self, client: Client, text: str, data: JsonValue) -> None:
        """Send a message, and wait until the agent asks or has ended its work."""
        from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest
        from google.protobuf.json_format import ParseDict
        from google.protobuf.struct_pb2 import Value

        parts = [Part(text=text)] if text else []
        if data is not None:
            parts.append(Part(data=ParseDict(json.loads(to_json(data)), Value())))
        message = Message(
            message_id=new_id(), task_id=self.id, context_id=self.context_id, role=Role.ROLE_USER, parts=parts
        )
        with _errors(self.server):
            async with asyncio.timeout(self.timeout):
                async for response in client.send_message(SendMessageRequest(message=message)):
                    self._take(response)
                while self._is_working():  # the agent does not stream, or the connection was lost
                    await asyncio.sleep(_POLL_SECONDS)
                    self._take_task(await client.get_task(GetTaskRequest(id=self.id)))

    async def cancel(self, client: Client) -> None:
        """Cancel the task at the agent, as far as it answers within some seconds."""
        from a2a.types import CancelTaskRequest

        if self.id:
            with suppress(Exception):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await client.cancel_task(CancelTaskRequest(id=self.id))

    def question(self) -> tuple[str, dict[str, Any] | None] | None:
        """Return the open question, with the form of its answer if the agent tells one; None if there is none."""
        from a2a.types import TaskState

        if self.status is None or self.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
            return None
        with _errors(self.server):
            told: Any = read_data(self.status.message.metadata).get("operad")
        form = cast("dict[str, Any]", told).get("schema") if isinstance(told, dict) else None
        if isinstance(form, dict):  # an approval is of a tool of the remote agent, and the people are of its server
            form = {
                key: value for key, value in cast("dict[str, Any]", form).items() if key not in (APPROVAL, ANSWER_BY)
            }
        else:
            form = None
        text = shortened(_text_of(self.status.message) or "It needs input.", MAX_QUESTION)
        return f"The agent {self.server} asks: {text}", form

    def answer(self) -> str:
        """Return the text of the result.

        Raises:
            AnswerError: There is none.
        """
        from a2a.types import TaskState

        if self.status is not None and self.status.state != TaskState.TASK_STATE_COMPLETED:
            state = TaskState.Name(self.status.state).removeprefix("TASK_STATE_").lower().replace("_", "-")
            reason = shortened(_text_of(self.status.message), MAX_QUESTION)
            raise AnswerError(f"{self.server}: the agent's task is {state}{f': {reason}' if reason else ''}")
        texts = ("".join(part for part in parts if isinstance(part, str)) for parts in self.artifacts.values())
        text = "\n\n".join(filter(None, texts))
        if not text and self.status is not None and self.status.HasField("message"):
            text = _text_of(self.status.message)
        if not text and not self.outputs:
            raise AnswerError(f"{self.server}: the agent's result is empty")
        return text

    @property
    def outputs(self) -> dict[str, Any]:
        """Objects among the data of the result, as one."""
        outputs: dict[str, Any] = {}
        for parts in self.artifacts.values():
            for part in parts:
                outputs |= part if isinstance(part, dict) else {}
        return outputs

    def _is_working(self) -> bool:
        from a2a.types import TaskState

        working = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        return self.status is not None and self.status.state in working

    def _take(self, response: StreamResponse) -> None:
        """Take over what the agent tells."""
        from a2a.types import TaskState, TaskStatus

        match response.WhichOneof("payload"):
            case "task":
                self._take_task(response.task)
            case "message":
                self.context_id, self.status = response.message.context_id, None
                self.artifacts[response.message.message_id] = _contents(response.message)
            case "status_update":
                self._take_ids(response.status_update)
                self.status = response.status_update.status
            case "artifact_update":
                self._take_ids(response.artifact_update)
                self.status = self.status or TaskStatus(state=TaskState.TASK_STATE_WORKING)
                self._take_artifact(response.artifact_update.artifact, append=response.artifact_update.append)
            case _:
                pass

    def _take_ids(self, update: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        """Take over the ids, because some agents tell of the task only by its updates."""
        self.id, self.context_id = update.task_id or self.id, update.context_id or self.context_id

    def _take_artifact(self, artifact: Artifact, *, append: bool) -> None:
        contents = _contents(artifact)
        for text in contents:
            if isinstance(text, str):
                emit(TokenStreamed(text=text))
        if not append:
            self.artifacts.pop(artifact.artifact_id, None)
        self.artifacts.setdefault(artifact.artifact_id, []).extend(contents)

    def _take_task(self, task: Task) -> None:
        self.id, self.context_id, self.status = task.id, task.context_id, task.status
        if task.artifacts:
            self.artifacts = {each.artifact_id: _contents(each) for each in task.artifacts}


def read_data(data: Value | Struct) -> Any:
    """Return data of the protocol, which has no integers: whole numbers become integers.

    Raises:
        ValueError: A number is not finite.
    """
    from google.protobuf.json_format import MessageToJson

    return json.loads(MessageToJson(data, indent=None), parse_float=_number)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _MOST_EXACT else number


def _contents(holder: Artifact | Message) -> list[Any]:
    """Return the texts and the data of an artifact or a message; files are named by a text."""
    found: list[Any] = []
    for part in holder.parts:
        match part.WhichOneof("content"):
            case "text":
                found.append(part.text)
            case "data":
                found.append(read_data(part.data))
            case _:
                found.append(f"(file {part.filename or part.url or part.media_type}, which is not fetched)")
    return found


def _text_of(message: Message) -> str:
    texts = [part.text for part in message.parts if part.HasField("text")]
    return "\n".join(texts)
