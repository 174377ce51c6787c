"""Client of the responses protocol, which reasoning models with tools need at OpenAI and Azure."""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from operad.runtime.models.addresses import one_line
from operad.runtime.models.chat_completions import EFFORTS, is_object
from operad.runtime.models.chat_stream import tokens_in
from operad.runtime.models.endpoint import Endpoint, asked_stream, events_of, failure_of, message_of
from operad.runtime.models.messages import (
    Blob,
    Message,
    Opaque,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    own_data,
)
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.models.thinking_tags import ThinkingTags
from operad.runtime.models.turn import Completion, Delta, FinishReason, ToolChoice
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ModelError, RequestError
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import whole

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI, AsyncStream


# Events of a streamed turn in the responses protocol.

_ENDS = ("response.completed", "response.incomplete", "response.failed")
"""Events with the whole response, after which nothing follows."""

_TEXTS: Mapping[str, Literal["text", "thinking"]] = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}

_HELD_BY_PARTS = {"type", "role", "content", "name", "arguments", "call_id"}
"""Fields of messages and calls that the neutral parts hold; all others are the vendor's."""

_new_decoder = partial(codecs.getincrementaldecoder("utf-16-le"), "replace")


@dataclass(slots=True)
class _StreamedText:
    """Text of an item; half of a surrogate pair, or of a tag, is held back for the next piece."""

    kind: Literal["text", "thinking"]
    _tags: ThinkingTags = field(default_factory=ThinkingTags)
    _halves: codecs.IncrementalDecoder = field(default_factory=_new_decoder)

    def add(self, text: str, final: bool = False) -> Iterator[Delta]:
        text = self._halves.decode(text.encode("utf-16-le", "surrogatepass"), final)
        if self.kind == "thinking":
            yield Delta("thinking", text)
            return
        yield from (Delta(kind, piece) for kind, piece in self._tags.add(text))
        if final:
            yield from (Delta(kind, piece) for kind, piece in self._tags.end())


@dataclass(slots=True)
class ResponseStream:
    """Turn of a model, assembled from the events of a stream.

    Attributes:
        began: True once an event of a response has arrived.
        text_size: Number of characters of the text so far.
        response: The response, once it has ended.
        error: The error that ended the stream, as the endpoint gives it.
    """

    began: bool = False
    text_size: int = 0
    response: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _done: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    _texts: dict[int, _StreamedText] = field(default_factory=dict[int, _StreamedText])
    _streamed: set[int] = field(default_factory=set[int])

    def add(self, event: object) -> Iterator[Delta]:
        """Add a parsed event and yield its pieces; unknown events are ignored."""
        for delta in self._read(cast("Any", event if isinstance(event, dict) else {})):
            self.text_size += len(delta.text) if delta.kind == "text" else 0
            if delta.text:
                yield delta

    def _read(self, event: Any) -> Iterator[Delta]:
        kind = event.get("type") or ""
        self.began = self.began or kind.startswith("response.")
        index = event.get("output_index") or 0
        if kind in _ENDS:
            self.response = event["response"]
            self.error = self.response.get("error") or {}
            for number, item in enumerate(self.response.get("output") or ()):
                yield from self._end_item(number, item)
        elif kind == "error":
            self.error = event
        elif kind == "response.output_item.done":
            self._done[index] = event["item"]
            yield from self._end_item(index, event["item"])
        elif kind in _TEXTS:
            self._streamed.add(index)
            yield from self._texts.setdefault(index, _StreamedText(_TEXTS[kind])).add(event["delta"])
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            yield Delta("thinking", "\n\n")
        elif kind == "response.output_item.added" and event["item"].get("type") == "function_call":
            self._streamed.add(index)
            yield Delta("call", str(event["item"].get("name") or ""))
        elif kind == "response.function_call_arguments.delta":
            yield Delta("call", "" + event["delta"])

    def _end_item(self, index: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what was held back of an item; all of it if the endpoint did not stream it."""
        if text := self._texts.pop(index, None):
            yield from text.add("", final=True)
        if index in self._streamed:
            return
        self._streamed.add(index)
        for part in _parts_of(item):
            if isinstance(part, Text | Thinking):
                yield Delta(part.kind, part.text)
            elif isinstance(part, ToolCall):
                yield Delta("call", part.name + part.arguments)

    @property
    def usage(self) -> Usage:
        """Reported numbers of tokens.

        Raises:
            ProtocolError: A number is not valid.
        """
        usage: Any = self.response.get("usage")
        if not usage:
            return NO_USAGE
        read: Any = usage.get("input_tokens_details") or {}
        return Usage(
            prompt_tokens=tokens_in(usage, "input_tokens"),
            completion_tokens=tokens_in(usage, "output_tokens"),
            cached_tokens=tokens_in(read, "cached_tokens"),
            cache_written_tokens=tokens_in(read, "cache_write_tokens"),
            reasoning_tokens=tokens_in(usage.get("output_tokens_details") or {}, "reasoning_tokens"),
        )

    @property
    def refusal(self) -> str:
        """Text with which the model refuses to answer."""
        return "".join(whole(part.get("refusal") or "") for item in self._items() for part in _content_of(item))

    def parts(self, codec: str, system: str) -> Iterator[Part]:
        """Yield the parts of the turn.

        Each has the fields of its item that the protocol needs back. An item that follows reasoning needs it: the id of
        the reasoning is beside the fields, under `reasoning`.

        Args:
            codec: Codec of the origins of the parts.
            system: System of the origins.
        """
        model, reasoning = whole(self.response.get("model") or ""), ""
        for item in self._items():
            kind, fields = item.get("type"), {name: value for name, value in item.items() if value is not None}
            if kind == "reasoning":
                reasoning = whole(item.get("id") or "")
            elif kind in ("message", "function_call"):
                fields = {name: value for name, value in fields.items() if name not in _HELD_BY_PARTS}
            data = {"item": fields} | ({"reasoning": reasoning} if reasoning and kind != "reasoning" else {})
            for part in _parts_of(item):
                origin = Origin(codec=codec, system=system, model=model, data=whole(data))
                is_tagged = isinstance(part, Thinking) and kind == "message"
                yield part if is_tagged else part.model_copy(update={"origin": origin})

    def _items(self) -> list[Mapping[str, Any]]:
        # Some servers leave the output of the last event empty.
        return [*(self.response.get("output") or ())] or [item for _, item in sorted(self._done.items())]


def _parts_of(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of an item of the output, without origins."""
    kind = item.get("type")
    if kind == "reasoning":
        summary = [part["text"] for part in item.get("summary") or ()]
        yield Thinking(text=whole("\n\n".join(summary or [part["text"] for part in _content_of(item)])))
    elif kind == "message":
        tags = ThinkingTags()
        text = "".join(part.get("text") or "" for part in _content_of(item))
        for _ in (*tags.add(whole(text)), *tags.end()):
            pass  # they are in its parts
        thinking, answer = tags.parts()
        if thinking:
            yield Thinking(text=thinking)
        if answer:
            yield Text(text=answer)
    elif kind == "function_call":
        call_id = item.get("call_id") or item.get("id") or "call"
        arguments = item.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        yield ToolCall(id=whole(str(call_id)), name=whole(item["name"]), arguments=whole(arguments))
    else:
        yield Opaque(shown=whole(kind or ""))


def _content_of(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content: Any = item.get("content") or ()
    return [{"type": "output_text", "text": content}] if isinstance(content, str) else [*content]


CODEC = "responses/1"
"""Codec of this protocol's origins."""

_OPTIONAL = {
    "temperature": "temperature",
    "top_p": "top_p",
    "reasoning.effort": "thinking",
    "reasoning.summary": "summary of thinking",
    "include": "",
}
"""Fields without which a request can be repeated if the model refuses them, with the settings that they come from.

Which model takes which changes with each model, and a deployment may have any name, so that the endpoint is asked.
"""

_REFUSES = re.compile(
    r"unsupported|(?:not|n't) (?:be )?(?:support|allow|permit)|unknown|unrecognized|must be verified", re.IGNORECASE
)
_NO_ENCRYPTION = re.compile("encrypted content is not supported", re.IGNORECASE)


class Responses:
    """Client of a model at an endpoint of the responses protocol; see `ChatModel`.

    The endpoint keeps nothing: each request holds the whole conversation, with the reasoning encrypted by the endpoint, so
    that any process can continue it.
    """

    def __init__(self, endpoint: Endpoint, client: AsyncOpenAI) -> None:
        self._endpoint = endpoint
        self._client = client
        self._host = urlsplit(str(client.base_url)).netloc
        self._refused: dict[str, str] = {}

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
        request = self._request(messages, tools, tool_choice, output)
        turn = ResponseStream()
        stream = await self._asked(request, settings)
        async with aclosing(events_of(self._endpoint, self._client, stream, "output")) as events:
            async for event in events:
                with self._endpoint.checked_protocol():
                    deltas = list(turn.add(event))
                for delta in deltas:
                    yield delta
        with self._endpoint.checked_protocol():
            yield self._completion(turn, self._dropped(settings))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _asked(self, request: Mapping[str, Any], settings: ModelSettings) -> AsyncStream[object]:
        """Send a request, and return the stream of its answer.

        The request is repeated without a setting that the model refuses; later requests leave it out.

        Raises:
            ModelError: The request failed.
        """
        while True:
            body = whole(_merged({**request, **self._fields(settings)}, settings.parameters))
            try:
                return await asked_stream(self._endpoint, self._client, "/responses", body)
            except RequestError as error:
                refused = _refused_field(error)
                if not _has(body, refused) or _has(settings.parameters, refused):
                    raise
                self._refused[refused] = message_of(cast("APIError", error.__cause__))

    def _request(
        self, messages: Sequence[Message], tools: Sequence[Tool], tool_choice: ToolChoice, output: AnswerSchema | None
    ) -> dict[str, Any]:
        """Return the body of a request without settings."""
        body: dict[str, Any] = {
            "input": [item for message in messages for item in input_items(message, self._host)],
            "model": self._endpoint.name,
            "stream": True,
            "store": False,
        }
        if tools:
            body |= {"tools": [_as_function(tool) for tool in tools], "tool_choice": tool_choice}
        if output is not None:
            body["text"] = {"format": {"type": "json_schema", **output.response_format["json_schema"]}}
        return body

    def _fields(self, settings: ModelSettings) -> dict[str, Any]:
        """Return the fields of a request for its settings, without those that the model refuses."""
        given: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_output_tokens": settings.max_tokens,
            "include": ["reasoning.encrypted_content"],
        }
        fields = {name: value for name, value in given.items() if value is not None and name not in self._refused}
        if settings.thinking is not None and "reasoning.effort" not in self._refused:
            fields["reasoning"] = {"effort": EFFORTS.get(settings.thinking, settings.thinking)}
            if settings.thinking != "off" and "reasoning.summary" not in self._refused:
                fields["reasoning"]["summary"] = "auto"
        return fields

    def _dropped(self, settings: ModelSettings) -> tuple[str, ...]:
        """Return the settings that were left out, each with the reason."""
        given = {
            "temperature": settings.temperature is not None,
            "top_p": settings.top_p is not None,
            "reasoning.effort": settings.thinking is not None,
            "reasoning.summary": settings.thinking not in (None, "off"),
        }
        refused = [
            f"{_OPTIONAL[name]}: {self._refused[name]}" for name in given if given[name] and name in self._refused
        ]
        unknown = {"seed": settings.seed is not None, "stop": bool(settings.stop)}
        return (
            *refused,
            *(f"{name}: the responses protocol has no such setting" for name, is_set in unknown.items() if is_set),
        )

    def _completion(self, turn: ResponseStream, dropped: tuple[str, ...]) -> Completion:
        """Return the completion of a received turn."""
        endpoint = self._endpoint
        if turn.error:
            raise failure_of(endpoint, turn.error, self._client.api_key)
        if not turn.began:
            raise endpoint.protocol_error("its answer holds no output")
        incomplete: Any = turn.response.get("incomplete_details") or {}
        why = str(incomplete.get("reason") or "")
        if turn.response.get("status") not in ("completed", "incomplete"):
            raise ModelError(
                f"{endpoint.describe()} broke off its answer after {turn.text_size:,} characters; try again",
                transient=True,
            )
        message = Message(role="assistant", parts=tuple(turn.parts(CODEC, self._host)))
        finish: FinishReason = "tools" if message.tool_calls else "stop"
        if turn.response["status"] == "incomplete":
            finish = "filter" if why == "content_filter" else "length"
        refusal = turn.refusal
        if refusal and not message.text:
            finish = "refusal"
        return Completion(message, finish, turn.usage, one_line(refusal or why), dropped)


def _refused_field(error: RequestError) -> str:
    """Return the field of `_OPTIONAL` that the model refuses; empty for other errors."""
    cause = cast("APIError", error.__cause__)
    message = message_of(cause)
    if _NO_ENCRYPTION.search(message):
        return "include"
    if getattr(cause, "status_code", None) not in (400, 422) or not _REFUSES.search(message):
        return ""
    named = [str(cause.param or ""), *re.findall(r"['\"`]([\w.]+)['\"`]", message)]
    found = next((name for name in named if name in _OPTIONAL or name == "reasoning"), "")
    return "reasoning.effort" if found == "reasoning" else found


def _has(body: Mapping[str, Any], field: str) -> bool:
    """Return True if a body has a field, by its dotted name."""
    outer, _, inner = field.partition(".")
    value = body.get(outer)
    return outer in body and (not inner or (isinstance(value, Mapping) and inner in value))


def _merged(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with further fields: objects are merged, tools and inclusions appended, other values replaced.

    Otherwise the verbosity of a text would remove its schema, and a tool of the vendor the operator's own.
    """
    merged = dict(body)
    for name, value in parameters.items():
        own = merged.get(name)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            value = _merged(cast("Mapping[str, Any]", own), cast("Mapping[str, Any]", value))
        elif name in ("tools", "include") and isinstance(own, list) and isinstance(value, list):
            value = [*cast("list[Any]", own), *(each for each in cast("list[Any]", value) if each not in own)]
        merged[name] = value
    return merged


def input_items(message: Message, system: str) -> Iterator[dict[str, Any]]:
    """Yield a message in the form of the protocol.

    Reasoning, and the ids that refer to it, go back only to the system that wrote them.
    """
    if message.role == "assistant":
        yield from _items_of_turn(message, system)
        return
    for result in message.tool_results:
        yield {"type": "function_call_output", "call_id": result.id, "output": _output(result)}
    rest = [part for part in message.parts if isinstance(part, Text | Blob)]
    if rest or not message.tool_results:
        yield {"role": message.role, "content": _content(rest)}


def _items_of_turn(message: Message, system: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    reasoning: set[str] = set()
    for part in message.parts:
        data = own_data(part, CODEC, system) or {}
        item: dict[str, Any] = dict(data.get("item") or {})
        if isinstance(part, Thinking):
            if _can_return(item):
                reasoning.add(item.get("id", ""))
                items.append(_returned(item))
        elif isinstance(part, Opaque):
            items += [item] if item else []
        else:
            if data.get("reasoning", "") not in {*reasoning, ""}:
                item.pop("id", None)  # an id without the reasoning before it is refused
            if isinstance(part, Text) and part.text:
                items.append(_message_item(part.text, item))
            elif isinstance(part, ToolCall):
                arguments = part.arguments if is_object(part.arguments) else "{}"
                call = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
                items.append({**item, **call})
    while items and items[-1].get("type") == "reasoning":  # refused without an item after it
        items.pop()
    return items


def _can_return(item: Mapping[str, Any]) -> bool:
    """Return True if reasoning has content: with its id alone, an endpoint that keeps nothing cannot find it."""
    return bool(item.get("encrypted_content") or item.get("content"))


def _returned(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return reasoning as it goes back: readable content is refused beside encrypted content."""
    left_out = {"status", "content"} if item.get("encrypted_content") else {"status"}
    return {"summary": [], **{name: value for name, value in item.items() if name not in left_out}}


def _message_item(text: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    if "id" not in fields:
        phase = {"phase": fields["phase"]} if "phase" in fields else {}
        return {"role": "assistant", "content": text, **phase}
    content = [{"type": "output_text", "text": text, "annotations": list[Any]()}]
    return {"status": "completed", **fields, "type": "message", "role": "assistant", "content": content}


def _output(result: ToolResult) -> Any:
    if any(isinstance(part, Blob) for part in result.content):
        return [_input_part(part) for part in result.content]
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


def _content(parts: Sequence[Text | Blob]) -> Any:
    if any(isinstance(part, Blob) for part in parts):
        return [_input_part(part) for part in parts]
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _input_part(part: Text | Blob) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    encoded = base64.b64encode(part.data).decode()
    kind, _, form = part.media_type.partition("/")
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}
    url = f"data:{part.media_type};base64,{encoded}"
    if kind == "image":
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": part.name or "document", "file_data": url}


def _as_function(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of the protocol's ``tools``. Without `strict`, every parameter would be required."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }
