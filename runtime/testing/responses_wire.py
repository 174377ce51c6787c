"""Responses protocol of a scripted endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from operad.runtime.testing.steps import Refuse, Say
from operad.runtime.testing.wire import (
    Answer,
    Event,
    Turn,
    Wire,
    calls_of,
    pieces,
    signature,
    thinking_of,
    tokens_of,
)

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
    further: dict[str, Any] = {"output": _items(answer, request, turn), "usage": _usage(answer, request)}
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


def _usage(answer: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
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


def _fault(request: Mapping[str, Any], turn: Turn) -> str:
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


RESPONSES = Wire(events=_events, body=_ended, is_piece=lambda event: event["type"].endswith(".delta"), fault=_fault)
