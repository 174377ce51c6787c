"""Client of the chat-completions protocol, which local servers, gateways and most vendors speak."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from operad.runtime.models.addresses import one_line
from operad.runtime.models.chat_stream import ChatStream
from operad.runtime.models.endpoint import OPENAI_URL, Endpoint, asked_stream, events_of, failure_of
from operad.runtime.models.messages import Blob, Message, Text, Thinking, ToolCall, ToolResult, own_data
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.models.thinking_tags import closing
from operad.runtime.models.turn import Completion, Delta, ToolChoice
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ModelError
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import whole

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CODEC = "chat-completions/1"
"""Codec of this protocol's origins."""

EFFORTS = {"off": "none"}
"""Word of the protocol for an effort of reasoning, where it is not the same."""


class ChatProtocol(ABC):
    """Client of a model in the chat-completions protocol; see `ChatModel`. Subclasses send its requests.

    Args:
        system: System of the origins of its messages: the host of the endpoint.
    """

    def __init__(self, endpoint: Endpoint, system: str) -> None:
        self._endpoint = endpoint
        self._system = system

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        output: AnswerSchema | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[Delta | Completion, None]:
        """Yield the pieces of a turn and its completion; see `ChatModel.stream`."""
        body = self._body(messages, tools, tool_choice, output, settings)
        turn = ChatStream({tool.name for tool in tools})
        async with aclosing(self._chunks(body)) as chunks:
            async for chunk in chunks:
                with self._endpoint.checked_protocol():
                    deltas = list(turn.add(chunk))
                for delta in deltas:
                    yield delta
        for delta in turn.end():
            yield delta
        with self._endpoint.checked_protocol():
            yield self._completion(turn)

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    @abstractmethod
    def _chunks(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Send a request and yield the chunks of its answer as they arrive.

        Raises:
            ModelError: The model cannot be reached, rejects the request, or breaks off.
        """

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        output: AnswerSchema | None,
        settings: ModelSettings,
    ) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {
            "messages": whole([each for message in messages for each in wire_messages(message, self._system)]),
            "model": self._endpoint.name,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            body |= {"tools": [as_function(tool) for tool in tools], "tool_choice": tool_choice}
        if output is not None:
            body["response_format"] = dict(output.response_format)
        given = {"temperature": settings.temperature, "top_p": settings.top_p, "seed": settings.seed}
        body |= {name: value for name, value in given.items() if value is not None}
        if settings.stop:
            body["stop"] = list(settings.stop)
        if settings.thinking is not None:
            body["reasoning_effort"] = EFFORTS.get(settings.thinking, settings.thinking)
        if settings.max_tokens is not None:
            # OpenAI's newer models reject `max_tokens`; most other endpoints know only that field.
            is_newer = self._system == urlsplit(OPENAI_URL).netloc
            body["max_completion_tokens" if is_newer else "max_tokens"] = settings.max_tokens
        return body | dict(settings.parameters)

    def _completion(self, turn: ChatStream) -> Completion:
        """Return the completion of a received turn."""
        endpoint = self._endpoint
        if not turn.began:
            raise endpoint.protocol_error("its answer holds no choices")
        if turn.finish_reason == "error" or not turn.finish:
            raise ModelError(
                f"{endpoint.describe()} broke off its answer after {turn.text_size:,} characters; try again",
                transient=True,
            )
        message = Message(role="assistant", parts=tuple(turn.parts(CODEC, self._system)))
        return Completion(message, turn.finish_reason, turn.usage, one_line(turn.refusal))


class ChatCompletions(ChatProtocol):
    """Client of a model at an endpoint of the chat-completions protocol; see `ChatModel`."""

    def __init__(self, endpoint: Endpoint, client: AsyncOpenAI) -> None:
        super().__init__(endpoint, urlsplit(str(client.base_url)).netloc)
        self._client = client

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _chunks(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        stream = await asked_stream(self._endpoint, self._client, "/chat/completions", body)
        async with aclosing(events_of(self._endpoint, self._client, stream, "choices")) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, dict) and "choices" not in chunk and "message" in chunk:  # an error, as of vLLM
                    raise failure_of(self._endpoint, cast("dict[str, Any]", chunk), self._client.api_key)
                yield chunk


def wire_messages(message: Message, system: str) -> Iterator[dict[str, Any]]:
    """Yield a message in the form of the protocol.

    Reasoning goes back only on turns that call tools, where vendors need it, and only to the system that wrote it.
    """
    if message.role == "assistant":
        yield _wire_turn(message, system)
        return
    blobs = list[Text | Blob]()
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.id, "content": _result_text(result)}
        if images := [part for part in result.content if isinstance(part, Blob)]:  # a tool's message holds text alone
            blobs += [Text(text=f"Files of the result of {result.name} ({result.id}):"), *images]
    rest = [*blobs, *(part for part in message.parts if isinstance(part, Text | Blob))]
    if rest or not message.tool_results:
        yield {"role": message.role, "content": _content(rest)}


def _wire_turn(message: Message, system: str) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "assistant", "content": message.text}
    calls = message.tool_calls
    if not calls:
        return turn
    for part in message.parts:
        if isinstance(part, Thinking) and (data := own_data(part, CODEC, system)):
            fields = dict(data)
            if tag := fields.pop("tag", None):
                turn["content"] = f"{tag}{part.text}{closing(tag)}\n{turn['content']}"
            turn |= fields
    turn["tool_calls"] = [_wire_call(call, system) for call in calls]
    return turn


def _wire_call(call: ToolCall, system: str) -> dict[str, Any]:
    further = own_data(call, CODEC, system) or {}
    arguments = call.arguments if is_object(call.arguments) else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}, **further}


def _result_text(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


def _content(parts: Sequence[Text | Blob]) -> Any:
    if not any(isinstance(part, Blob) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return [_wire_part(part) for part in parts]


def _wire_part(part: Text | Blob) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    encoded = base64.b64encode(part.data).decode()
    kind, _, form = part.media_type.partition("/")
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}
    url = f"data:{part.media_type};base64,{encoded}"
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.name or "document", "file_data": url}}


def is_object(text: str) -> bool:
    """Return True if a text is a JSON object: servers that read the history refuse calls with other arguments."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def as_function(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of the protocol's ``tools``."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }
