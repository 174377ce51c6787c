"""Chat-completions protocol of a scripted endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.runtime.testing.steps import CallTools, Refuse
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
