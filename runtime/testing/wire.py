"""Protocols in which a scripted endpoint answers: chat completions and responses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from operad.runtime.testing.steps import CallTools, Refuse, Say

Answer = Say | CallTools | Refuse

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn of an endpoint.

    Attributes:
        endpoint: Number of the endpoint: it checks its own signatures alone.
        number: Number of the request, from 1.
    """

    endpoint: int
    number: int

    def is_signed(self, call_id: Any) -> bool:
        """Return True if the endpoint made a call after reasoning, which must come back with it."""
        return str(call_id).startswith(f"signed_{self.endpoint}_")


@dataclass(frozen=True, slots=True)
class Wire:
    """Protocol of an endpoint.

    Attributes:
        events: Function of an answer, a request and the `Turn`, that yields the events of a streamed answer.
        body: The same for an answer that is not streamed.
        is_piece: Function that returns True if an event holds a piece of the answer.
        fault: Function of a request and the `Turn`, that returns what the request lacks of earlier reasoning; empty if it
            lacks nothing.
        last: Data of the event that ends a stream; empty for none.
    """

    events: Callable[[Answer, Mapping[str, Any], Turn], Iterator[Event]]
    body: Callable[[Answer, Mapping[str, Any], Turn], Event]
    is_piece: Callable[[Event], bool]
    fault: Callable[[Mapping[str, Any], Turn], str]
    last: str = ""


def pieces(text: str) -> list[str]:
    """Return the words of a text, each with the space after it."""
    return re.findall(r"\S+\s*|\s+", text)


def thinking_of(answer: Answer) -> str:
    """Return the reasoning of an answer."""
    return "" if isinstance(answer, Refuse) else answer.thinking


def calls_of(answer: Answer, turn: Turn) -> list[tuple[str, str, str]]:
    """Return the tool calls of an answer, each with id, name and arguments."""
    if not isinstance(answer, CallTools):
        return []
    prefix = f"signed_{turn.endpoint}_{turn.number}" if answer.thinking else "call"
    return [
        (f"{prefix}_{index}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for index, (name, arguments) in enumerate(answer.pairs)
    ]


def signature(thinking: str) -> str:
    """Return the signature of reasoning."""
    return hashlib.sha256(thinking.encode()).hexdigest()[:16]


def tokens_of(answer: Answer, prompt: str) -> tuple[int, int]:
    """Return the number of tokens of a prompt and of an answer: the number of words."""
    written = f"{thinking_of(answer)} {answer.text} {' '.join(call[2] for call in calls_of(answer, Turn(0, 0)))}"
    return len(prompt.split()), len(written.split())


def _calls(answer: Answer, turn: Turn) -> list[dict[str, Any]]:
    signed = {"extra_content": {"signature": signature(thinking_of(answer))}} if thinking_of(answer) else {}
    return [
        {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **signed}
        for index, (id_, name, arguments) in enumerate(calls_of(answer, turn))
    ]


def _usage(answer: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer."""
    if isinstance(answer, Refuse) or answer.usage is None:
        prompt = " ".join(str(message.get("content") or "") for message in request.get("messages") or ())
        read, written = tokens_of(answer, prompt)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_written_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _finish_reason(answer: Answer) -> str:
    return (
        "tool_calls"
        if isinstance(answer, CallTools)
        else "stop"
        if isinstance(answer, Refuse)
        else answer.finish_reason
    )


def _body(answer: Answer, request: Mapping[str, Any], turn: Turn) -> Event:
    """Return an answer as the body of a response that is not streamed."""
    text: dict[str, Any] = {"content": answer.text}
    if isinstance(answer, Refuse):
        text = {"content": None, "refusal": answer.text}
    thinking = {"reasoning_content": thinking_of(answer)} if thinking_of(answer) else {}
    message = {"role": "assistant", **text, **thinking, "tool_calls": _calls(answer, turn) or None}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    return {**_common_fields(request, "chat.completion"), "choices": [choice], "usage": _usage(answer, request)}


def _chunks(answer: Answer, request: Mapping[str, Any], turn: Turn) -> Iterator[Event]:
    """Yield an answer as the chunks of a streamed response."""
    head = _common_fields(request, "chat.completion.chunk")
    field = "refusal" if isinstance(answer, Refuse) else "content"
    deltas: list[dict[str, Any]] = [{"reasoning_content": piece} for piece in pieces(thinking_of(answer))]
    deltas += [{field: piece} for piece in pieces(answer.text)]
    if calls := _calls(answer, turn):
        deltas.append({"tool_calls": calls})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(answer)}]}
    options: Any = request.get("stream_options") or {}
    if options.get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(answer, request)}


def _common_fields(request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the fields that every response and chunk has."""
    return {"id": "scripted", "object": kind, "created": 0, "model": request.get("model", "")}


def _is_piece(chunk: Event) -> bool:
    return bool(chunk["choices"] and chunk["choices"][0]["delta"])


def _fault(request: Mapping[str, Any], turn: Turn) -> str:
    """Return the fault of a request that does not return the reasoning before a tool call unchanged."""
    for message in request.get("messages") or ():
        for call in message.get("tool_calls") or ():
            further: Any = call.get("extra_content") or {}
            expected = signature(message.get("reasoning_content") or "")
            if turn.is_signed(call["id"]) and further.get("signature") != expected:
                return (
                    f"the reasoning_content of the message with the tool call {call['id']}, and the extra_content of the "
                    "call, must come back unchanged"
                )
    return ""


CHAT_COMPLETIONS = Wire(events=_chunks, body=_body, is_piece=_is_piece, fault=_fault, last="[DONE]")


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _items(answer: Answer, request: Mapping[str, Any], turn: Turn) -> list[dict[str, Any]]:
    """Return the output of a response."""
    items: list[dict[str, Any]] = []
    if thinking := thinking_of(answer):
        is_asked = "reasoning.encrypted_content" in (request.get("include") or ())
        items.append(
            {
                "id": f"rs_{turn.number}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": thinking}],
                "encrypted_content": signature(thinking) if is_asked else None,
            }
        )
    if answer.text:
        content: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
        if isinstance(answer, Refuse):
            content = {"type": "refusal", "refusal": answer.text}
        message = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "content": [content]}
        items.append({**message, "status": "completed"})
    for index, (call_id, name, arguments) in enumerate(calls_of(answer, turn)):
        call = {"id": f"fc_{turn.number}_{index}", "type": "function_call", "call_id": call_id, "name": name}
        items.append({**call, "arguments": arguments, "status": "completed"})
    return items


def _response(answer: Answer, request: Mapping[str, Any], turn: Turn, status: str, **further: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": 0,
        "model": request.get("model", ""),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "output": [],
        "usage": None,
        **further,
    }


def _ended(answer: Answer, request: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    reason = answer.finish_reason if isinstance(answer, Say) else "stop"
    further: dict[str, Any] = {"output": _items(answer, request, turn), "usage": _response_usage(answer, request)}
    if reason in _INCOMPLETE:
        return _response(
            answer, request, turn, "incomplete", incomplete_details={"reason": _INCOMPLETE[reason]}, **further
        )
    if reason == "error":
        error = {"code": "server_error", "message": "the model failed"}
        return _response(answer, request, turn, "failed", error=error, **further)
    return _response(answer, request, turn, "completed", **further)


def _events(answer: Answer, request: Mapping[str, Any], turn: Turn) -> Iterator[Event]:
    """Yield an answer as the events of a streamed response."""
    numbers = count()

    def event(kind: str, **fields: Any) -> Event:
        return {"type": kind, "sequence_number": next(numbers), **fields}

    yield event("response.created", response=_response(answer, request, turn, "in_progress"))
    for index, item in enumerate(_items(answer, request, turn)):
        place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
        empty = {
            name: type(value)() if name in ("summary", "content", "arguments") else value
            for name, value in item.items()
        }
        yield event("response.output_item.added", output_index=index, item={**empty, "status": "in_progress"})
        if item["type"] == "reasoning":
            place["summary_index"] = 0
            [part] = item["summary"]
            yield event("response.reasoning_summary_part.added", **place, part={**part, "text": ""})
            for piece in pieces(part["text"]):
                yield event("response.reasoning_summary_text.delta", **place, delta=piece)
            yield event("response.reasoning_summary_part.done", **place, part=part)
        elif item["type"] == "message":
            place["content_index"] = 0
            [part] = item["content"]
            field = "refusal" if part["type"] == "refusal" else "text"
            yield event("response.content_part.added", **place, part={**part, field: ""})
            for piece in pieces(part[field]):
                yield event(f"response.{'output_text' if field == 'text' else field}.delta", **place, delta=piece)
            yield event("response.content_part.done", **place, part=part)
        else:
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    ended = _ended(answer, request, turn)
    yield event(f"response.{ended['status']}", response=ended)


def _response_usage(answer: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer."""
    if isinstance(answer, Refuse) or answer.usage is None:
        prompt = " ".join(str(item.get("content") or item.get("output") or "") for item in _input(request))
        read, written = tokens_of(answer, prompt)
        cached = cache_written = reasoning = 0
    else:
        usage = answer.usage
        read, written, cached = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        cache_written, reasoning = usage.cache_written_tokens, usage.reasoning_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_written},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": read + written,
    }


def _input(request: Mapping[str, Any]) -> Sequence[Any]:
    given: Any = request.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _response_fault(request: Mapping[str, Any], turn: Turn) -> str:
    """Return the fault of a request that does not return the reasoning before a tool call unchanged."""
    reasoning: Any = {}
    for item in _input(request):
        kind = item.get("type", "message")
        if kind == "reasoning":
            reasoning = item
        elif kind == "function_call" and turn.is_signed(item["call_id"]):
            thinking = "".join(part["text"] for part in reasoning.get("summary") or ())
            if not reasoning:
                return f"item {item.get('id')!r} of type 'function_call' was provided without its required 'reasoning' item"
            if reasoning.get("encrypted_content") != signature(thinking):
                return f"the encrypted content of item {reasoning.get('id')!r} could not be verified"
        elif kind != "function_call" and item.get("role") != "assistant":
            reasoning = {}
    return ""


RESPONSES = Wire(
    events=_events, body=_ended, is_piece=lambda event: event["type"].endswith(".delta"), fault=_response_fault
)
