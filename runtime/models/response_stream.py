"""Events of a streamed turn in the responses protocol."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from operad.runtime.models.chat_stream import tokens_in
from operad.runtime.models.messages import Opaque, Origin, Part, Text, Thinking, ToolCall
from operad.runtime.models.thinking_tags import ThinkingTags
from operad.runtime.models.turn import Delta
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import whole

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
        yield ToolCall(id=whole(str(call_id)), name=whole(item["name"]), arguments=whole(item.get("arguments") or ""))
    else:
        yield Opaque(shown=whole(kind or ""))


def _content_of(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content: Any = item.get("content") or ()
    return [{"type": "output_text", "text": content}] if isinstance(content, str) else [*content]
