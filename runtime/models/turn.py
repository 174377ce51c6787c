"""Turns of a model: the request, the chunks of the answer, and the resulting completion."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from pydantic import ConfigDict, Field

from operad.runtime.tools.tool import Tool
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import whole
from operad.runtime.values.value import Value

MOST_TOKENS = 10**12
"""Maximum number of tokens that an endpoint may report for one turn."""

ChatMessage = Mapping[str, Any]
"""Message of the chat-completions protocol, with ``role``, ``content`` and, for tool calls, further fields."""


class ProtocolError(ValueError):
    """A fault of an answer. The text says which, without values of the endpoint, which may contain the key."""


class ToolCall(Value):
    """A tool call of a model.

    Attributes:
        id: Id that the result refers to.
        name: The tool's name, as the model wrote it.
        arguments: JSON text, as the model wrote it; it may be invalid.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the endpoint's text may contain the key

    id: str
    name: str
    arguments: str = ""


class Price(Value):
    """Prices of a model, in US dollars.

        Model(name="llama-4", base_url="http://gpu-1:8000/v1", price=Price(prompt=0.5, completion=1.5))

    Attributes:
        prompt: US dollars per million prompt tokens.
        completion: US dollars per million completion tokens.
    """

    prompt: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of a call, in US dollars."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class Completion(Value):
    """Completion of one turn of a model.

    Attributes:
        text: Text of the turn; may be empty if tools are called.
        tool_calls: The tool calls.
        usage: Usage of the turn.
        finish_reason: Reason for the end, as the endpoint names it; ``length`` if `max_tokens` cut the answer off.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    finish_reason: str = ""

    def with_new_ids(self, used: Collection[str]) -> Completion:
        """Return the turn with another id for each tool call whose id is used, in the turn or before it.

        Some endpoints repeat ids, or send none; each result must refer to one call.
        """
        calls: dict[str, ToolCall] = {}
        for call in self.tool_calls:
            number, call_id = 1, call.id
            while call_id in used or call_id in calls:
                number += 1
                call_id = f"{call.id}_{number}"
            calls[call_id] = call if call_id == call.id else call.model_copy(update={"id": call_id})
        return self.model_copy(update={"tool_calls": tuple(calls.values())})

    def as_message(self) -> dict[str, Any]:
        """Return the turn as a message of the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message


_new_decoder = partial(codecs.getincrementaldecoder("utf-16-le"), "replace")


@dataclass(slots=True)
class StreamedCall:
    """Tool call of a turn, assembled from the chunks of a stream.

    Attributes:
        index: Position of the call in the turn.
        id: Id of the call; empty if the endpoint sends none.
        name: Name of the tool so far.
        argument_parts: Parts of the JSON text of the arguments so far.
    """

    index: int
    id: str = ""
    name: str = ""
    argument_parts: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Turn:
    """Turn of a model, assembled from the chunks of a stream.

    Attributes:
        began: True once a chunk with a choice has arrived.
        characters: Number of characters so far, including the arguments of tool calls.
        calls: Tool calls so far, in the order in which they began.
    """

    began: bool = False
    characters: int = 0
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: list[StreamedCall] = field(default_factory=list[StreamedCall])
    _text_parts: list[str] = field(default_factory=list[str])
    _refusal_parts: list[str] = field(default_factory=list[str])
    _halves: codecs.IncrementalDecoder = field(default_factory=_new_decoder)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text_parts)

    @property
    def refusal(self) -> str:
        """Text with which the model refuses to answer."""
        return whole("".join(self._refusal_parts))

    def add(self, chunk: object) -> str:
        """Add a parsed chunk and return its text; chunks that are not objects are ignored.

        Half of a surrogate pair at the end of a chunk is held back for the next chunk.

        Raises:
            ProtocolError: A number of tokens is invalid.
        """
        body = cast("Any", chunk if isinstance(chunk, dict) else {})
        if usage := body.get("usage"):
            self.prompt_tokens = _tokens_in(usage, "prompt_tokens")
            self.completion_tokens = _tokens_in(usage, "completion_tokens")
        choices = body.get("choices")
        if not choices:
            return ""
        self.began = True
        self.finish_reason = whole(choices[0].get("finish_reason")) or self.finish_reason
        delta: Any = choices[0].get("delta") or {}
        for part in delta.get("tool_calls") or ():
            call = self._call_of(part)
            call.id = _id_in(part) or call.id
            if function := part.get("function"):
                name, arguments = function.get("name") or "", function.get("arguments") or ""
                call.name += name
                call.argument_parts.append(arguments)
                self.characters += len(name) + len(arguments)
        refusal = cast("str", delta.get("refusal") or "")
        text = cast("str", delta.get("content") or "")
        self.characters += len(text) + len(refusal)
        self._refusal_parts.append(refusal)
        text = self._halves.decode(text.encode("utf-16-le", "surrogatepass"))
        self._text_parts.append(text)
        return text

    def end(self) -> str:
        """Return the text that was held back when the stream ended: U+FFFD for half of a pair, otherwise nothing."""
        text = self._halves.decode(b"", True)
        self._text_parts.append(text)
        return text

    def _call_of(self, part: Any) -> StreamedCall:
        """Return the call that a part of a chunk continues, or a new call.

        Some endpoints omit the index, or use the same index for several calls; a new id begins a new call then. Under
        the same index, it does so only with a name, because other endpoints send a new id with each part of a call.
        """
        index, call_id, function = part.get("index"), _id_in(part), part.get("function")
        has_name = bool(function and function.get("name"))
        for call in reversed(self.calls):
            is_same_id = not call_id or call.id in ("", call_id)
            if is_same_id if index is None else call.index == index and (is_same_id or not has_name):
                return call
        call = StreamedCall(len(self.calls) if index is None else index)
        self.calls.append(call)
        return call


def _tokens_in(usage: Mapping[str, Any], name: str) -> int:
    """Return a reported number of tokens: 0 if it is missing.

    Raises:
        ProtocolError: The number is negative, a fraction, too large, or no number: costs and limits would be wrong.
    """
    reported = usage.get(name)
    if reported is None:
        return 0
    try:
        tokens = -1 if isinstance(reported, bool) else int(reported)
    except (TypeError, ValueError, OverflowError):
        tokens = -1
    if not 0 <= tokens <= MOST_TOKENS or not (isinstance(reported, str) or reported == tokens):
        raise ProtocolError(f"its usage has {name} that are not a whole number from 0 to {MOST_TOKENS:,}")
    return tokens


def _id_in(part: Any) -> str:
    """Return the id in a part of a tool call, which some endpoints send as a number; empty without one."""
    call_id = part.get("id")
    return "" if call_id is None else whole(str(call_id))


def shown_messages(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return a copy of messages for display, with the length of each image in place of its data."""
    return tuple({name: _shown_field(value) for name, value in message.items()} for message in messages)


def _shown_field(value: Any) -> Any:
    return [_shown_part(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value


def _shown_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if "image_url" not in part:
        return part
    return {"type": "image_url", "characters": len(part["image_url"]["url"])}


def as_function(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of the protocol's ``tools``."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }
