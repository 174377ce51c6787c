"""Chunks of a streamed turn in the chat-completions protocol, in the dialects of its servers."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from operad.runtime.models.messages import Origin, Part, Text, Thinking, ToolCall
from operad.runtime.models.thinking_tags import ThinkingTags
from operad.runtime.models.turn import Delta, FinishReason
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import whole

MOST_TOKENS = 10**12
"""Maximum number of tokens that an endpoint may report for one turn."""

_FINISHES: Mapping[str, FinishReason] = {
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"
    ),
    **dict.fromkeys(("tool_calls", "function_call"), "tools"),
    **dict.fromkeys(
        ("content_filter", "safety", "sensitive", "recitation", "prohibited_content", "blocklist", "spii"), "filter"
    ),
    "refusal": "refusal",
    **dict.fromkeys(  # of DeepSeek, Zhipu, vLLM and Google
        (
            "error",
            "insufficient_system_resource",
            "network_error",
            "abort",
            "function_call_filter",
            "malformed_function_call",
        ),
        "error",
    ),
}
"""Reason by a vendor's word for it; other words, such as ``eos`` and ``end_turn``, are a regular end."""

_THINKING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of a delta with the text of reasoning: of DeepSeek and most servers, and of OpenRouter and Groq."""

_KNOWN_FIELDS = {"role", "content", "refusal", "tool_calls", "function_call", "audio", "annotations", *_THINKING_FIELDS}
_KNOWN_CALL_FIELDS = {"index", "id", "type", "function"}


_MOST_LOOKS = 200
"""Maximum number of looks at the arguments of a call while they arrive: each takes time by their length."""


class ProtocolError(ValueError):
    """A fault of an answer. The text says which, without values of the endpoint, which may contain the key."""


@dataclass(slots=True)
class StreamedCall:
    """Tool call of a turn, assembled from the chunks of a stream.

    Attributes:
        index: Position of the call in the turn.
        id: Id of the call; empty if the endpoint sends none.
        name: Name of the tool so far.
        argument_parts: Parts of the JSON text of the arguments so far.
        further: Fields that the protocol does not define, which the endpoint needs back.
    """

    index: int
    id: str = ""
    name: str = ""
    argument_parts: list[str] = field(default_factory=list[str])
    further: dict[str, Any] = field(default_factory=dict[str, Any])
    _looks: int = 0

    @property
    def arguments(self) -> str:
        """JSON text of the arguments so far."""
        return "".join(self.argument_parts)

    def is_whole(self) -> bool:
        """Return True if the arguments so far are a JSON object."""
        if not "".join(self.argument_parts[-1:]).rstrip().endswith("}") or self._looks == _MOST_LOOKS:
            return False
        self._looks += 1
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


_new_decoder = partial(codecs.getincrementaldecoder("utf-16-le"), "replace")


@dataclass(slots=True)
class ChatStream:
    """Turn of a model, assembled from the chunks of a stream.

    Args:
        tools: Names of the tools that the model may call.

    Attributes:
        began: True once a chunk with a choice has arrived.
        model: Name of the model, as the endpoint gives it.
        finish: Reason for the end, in the endpoint's words; empty before it.
        calls: Tool calls so far, in the order in which they began.
    """

    tools: Collection[str] = ()
    began: bool = False
    model: str = ""
    finish: str = ""
    usage: Usage = NO_USAGE
    calls: list[StreamedCall] = field(default_factory=list[StreamedCall])
    _tags: ThinkingTags = field(default_factory=ThinkingTags)
    _thinking: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _further: dict[str, Any] = field(default_factory=dict[str, Any])
    _refusal_parts: list[str] = field(default_factory=list[str])
    _halves: codecs.IncrementalDecoder = field(default_factory=_new_decoder)

    @property
    def refusal(self) -> str:
        """Text with which the model refuses to answer."""
        return whole("".join(self._refusal_parts))

    @property
    def text_size(self) -> int:
        """Number of characters of the text so far."""
        return len(self._tags.parts()[1])

    @property
    def finish_reason(self) -> FinishReason:
        """Reason for the end."""
        if self.refusal and not self._tags.parts()[1]:
            return "refusal"
        word = self.finish.partition(":")[0].lower()  # as in `content_filter: RECITATION`
        found = _FINISHES.get(word, "stop")
        return "tools" if found == "stop" and self.calls else found

    def add(self, chunk: object) -> Iterator[Delta]:
        """Add a parsed chunk and yield its pieces; chunks that are not objects are ignored.

        Half of a surrogate pair at the end of a chunk is held back for the next chunk.

        Raises:
            ProtocolError: A number of tokens is invalid.
        """
        body = cast("Any", chunk if isinstance(chunk, dict) else {})
        if usage := body.get("usage"):
            self.usage = _usage_in(usage)
        choices = [each for each in body.get("choices") or () if not each.get("index")]  # others are for `n` above 1
        if not choices:
            return
        self.began = True
        self.model = whole(str(body.get("model") or "")) or self.model
        self.finish = whole("" + (choices[0].get("finish_reason") or "")) or self.finish
        delta: Any = choices[0].get("delta") or {}
        called = delta.get("function_call")  # of servers with the protocol of 2023
        for part in delta.get("tool_calls") or ([{"index": 0, "function": called}] if called else ()):
            yield from self._add_call(part)
        self._refusal_parts.append(cast("str", delta.get("refusal") or ""))
        for name in delta.keys() - _KNOWN_FIELDS:
            self._further[name] = _joined(self._further.get(name), delta[name])
        thought, text = _text_of_parts(delta.get("content") or "")
        thoughts = {"content": thought} | {name: cast("str", delta.get(name) or "") for name in _THINKING_FIELDS}
        for name, piece in thoughts.items():
            if piece:
                self._thinking.setdefault(name, []).append(piece)
        if piece := next(filter(None, thoughts.values()), ""):  # a server that sends two fields says the same in both
            yield Delta("thinking", whole(piece))
        text = self._halves.decode(text.encode("utf-16-le", "surrogatepass"))
        for kind, piece in self._tags.add(text):
            yield Delta(kind, piece)

    def end(self) -> Iterator[Delta]:
        """Yield what was held back when the stream ended: U+FFFD for half of a pair, or the beginning of a tag."""
        for kind, piece in self._tags.add(self._halves.decode(b"", True)):
            yield Delta(kind, piece)
        for kind, piece in self._tags.end():
            yield Delta(kind, piece)

    def parts(self, codec: str, system: str) -> Iterator[Part]:
        """Yield the parts of the turn.

        Args:
            codec: Codec of the origins of the parts.
            system: System of the origins.
        """

        def origin(data: Mapping[str, Any]) -> Origin | None:
            return Origin(codec=codec, system=system, model=self.model, data=whole(data)) if data else None

        tagged, text = self._tags.parts()
        fields = {name: whole("".join(parts)) for name, parts in self._thinking.items()}
        thinking = next(iter(fields.values()), "") or whole(tagged)
        data = {name: value for name, value in fields.items() if name != "content"} | self._further
        if tagged:
            data["tag"] = self._tags.opened
        if thinking or data:
            yield Thinking(text=thinking, origin=origin(data))
        if text:
            yield Text(text=text)
        for number, call in enumerate(sorted(self.calls, key=lambda call: call.index)):
            yield ToolCall(
                id=call.id or f"call_{number}",
                name=whole(call.name),
                arguments=whole(call.arguments),
                origin=origin(call.further),
            )

    def _add_call(self, part: Any) -> Iterator[Delta]:
        function: Any = part.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._call_of(part.get("index"), _id_in(part), name)
        call.id = _id_in(part) or call.id
        # Some servers send the whole name again with each part, others send it in pieces.
        if call.name + name in self.tools or not (call.name in self.tools or call.name == name):
            call.name += name
        call.argument_parts.append(arguments)
        for field_name in part.keys() - _KNOWN_CALL_FIELDS:
            call.further[field_name] = _joined(call.further.get(field_name), part[field_name])
        yield Delta("call", name + arguments)

    def _call_of(self, index: int | None, call_id: str, name: str) -> StreamedCall:
        """Return the call that a part of a chunk continues, or a new call.

        Some servers omit the index or the id, or use one for several calls, or send a new id with each part of a call.
        A part without a name never begins a call. One with a name begins a call if the arguments so far are whole, or
        if its id is new and there are no arguments so far.
        """
        same = [call for call in self.calls if call.index == index] if index is not None else self.calls
        if index is None and call_id:
            same = [call for call in self.calls if call.id in ("", call_id)]
        if same:
            call = same[-1]
            is_other = bool(call_id and call.id and call.id != call_id)
            if not name or not (call.is_whole() or (is_other and not call.arguments)):
                return call
            if call_id and call.id == call_id and index is not None:
                return call
        elif not name and self.calls:
            return self.calls[-1]
        begun = StreamedCall(len(self.calls) if index is None else index)
        self.calls.append(begun)
        return begun


def _joined(earlier: Any, later: Any) -> Any:
    """Return the value of a field that arrives in parts: texts and lists are joined, others replaced."""
    if type(later) is type(earlier) and type(later) in (str, list):
        return earlier + later
    return later if later is not None else earlier


def _text_of_parts(content: Any) -> tuple[str, str]:
    """Return the reasoning and the text of content, which may be a list of parts."""
    if isinstance(content, str):
        return "", content
    thinking, text = "", ""
    for part in content:
        inner = part.get("thinking")
        if inner and not isinstance(inner, str):
            thinking += "".join(each.get("text") or "" for each in inner)
        elif inner:
            thinking += inner
        else:
            text += part.get("text") or ""
    return thinking, text


def _usage_in(usage: Mapping[str, Any]) -> Usage:
    """Return reported numbers of tokens.

    Raises:
        ProtocolError: A number is not valid.
    """
    read: Any = usage.get("prompt_tokens_details") or {}
    written: Any = usage.get("completion_tokens_details") or {}
    return Usage(
        prompt_tokens=tokens_in(usage, "prompt_tokens"),
        completion_tokens=tokens_in(usage, "completion_tokens"),
        cached_tokens=tokens_in(read, "cached_tokens") or tokens_in(usage, "prompt_cache_hit_tokens"),
        cache_written_tokens=tokens_in(read, "cache_write_tokens"),
        reasoning_tokens=tokens_in(written, "reasoning_tokens"),
    )


def tokens_in(usage: Mapping[str, Any], name: str) -> int:
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
