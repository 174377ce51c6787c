"""Messages in the form of pydantic-ai, for the clients of vendors, and back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.models.chat_completions import is_object
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
from operad.runtime.models.thinking_tags import ThinkingTags
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import whole

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart

CODEC = "pydantic-ai/1"
"""Codec of the origins of vendors' turns: their data are the fields of pydantic-ai's parts, in JSON."""

_OF_TURN = ("provider_name", "canonical_system", "provider_response_id", "provider_details")
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids of tool calls that all vendors take."""


def history_of(messages: Sequence[Message], system: str, id_length: int | None) -> list[ModelMessage]:
    """Return a conversation in pydantic-ai's form.

    Reasoning and vendors' own parts of other systems are left out, because their text would be sent as an answer.

    Args:
        messages: The conversation.
        system: The system that it is sent to.
        id_length: Number of characters of the ids of tool calls; None if it may vary.
    """
    from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

    def fitted(call_id: str) -> str:
        if _ID.fullmatch(call_id) and (id_length is None or (len(call_id) == id_length and call_id.isalnum())):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[: id_length or 32]

    history: list[ModelMessage] = []
    order: list[str] = []
    for message in messages:
        if message.role == "assistant":
            order = [call.id for call in message.tool_calls]
            if parts := [made for part in message.parts if (made := _answered(part, system, fitted)) is not None]:
                model = message.origin.model if message.origin else None
                history.append(ModelResponse(parts=parts, model_name=model, **(own_data(message, CODEC, system) or {})))
            continue
        # Vendors require the results of a turn first, and some in the order of the calls.
        results = sorted(message.tool_results, key=lambda result: order.index(result.id) if result.id in order else 0)
        asked: list[ModelRequestPart] = [_returned(result, fitted(result.id)) for result in results]
        rest = [
            part for part in message.parts if isinstance(part, Blob) or (isinstance(part, Text) and part.text.strip())
        ]
        if message.role == "system":
            asked += _system_parts(rest)
        elif rest:
            asked.append(UserPromptPart(content=[_content(part) for part in rest]))
        if history and isinstance(last := history[-1], ModelRequest):  # vendors require that the roles alternate
            last.parts = [*last.parts, *asked]
        elif asked:
            history.append(ModelRequest(parts=asked))
    return history


def completed_message(response: ModelResponse, system: str) -> Message:
    """Return the turn in a response of a model, with all that the system needs back."""
    model = response.model_name or ""
    name = response.provider_name

    def origin(data: Mapping[str, Any]) -> Origin | None:
        kept = {key: value for key, value in data.items() if value is not None}
        return (
            Origin(codec=CODEC, system=system, model=model, data=whole(kept))
            if kept.keys() - {"provider_name"}
            else None
        )

    parts: list[Part] = []
    for part in cast("Sequence[Any]", response.parts):
        data: dict[str, Any] = _adapter().dump_python(part, mode="json", exclude_none=True)
        kind = data.pop("part_kind")
        data.setdefault("provider_name", name)
        match kind:
            case "text":
                parts.append(Text(text=whole(data.pop("content")), origin=origin(data)))
            case "thinking":
                text = whole(data.pop("content"))
                parts.append(Thinking(text=text, origin=origin({"part_kind": kind, **data})))
            case "tool-call":
                data.pop("args", None)
                call_id, tool = data.pop("tool_call_id"), data.pop("tool_name")
                arguments = whole(part.args if isinstance(part.args, str) else part.args_as_json_str())
                parts.append(ToolCall(id=call_id, name=whole(tool), arguments=arguments, origin=origin(data)))
            case "file":
                del data["content"]
                content = part.content
                parts.append(Blob(data=content.data, media_type=content.media_type, origin=origin(data)))
            case _:
                parts.append(Opaque(shown=kind, origin=origin({**data, "part_kind": kind})))
    turn = _turns().dump_python([response], mode="json")[0]
    return Message(role="assistant", parts=tuple(parts), origin=origin({key: turn[key] for key in _OF_TURN}))


def without_tags(message: Message, tags: ThinkingTags) -> Message:
    """Return a turn with the reasoning between tags in its text as a part of its own."""
    thinking, answer = tags.parts()
    if not tags.opened:
        return message
    texts = [part for part in message.parts if isinstance(part, Text)]
    rest = [part for part in message.parts if not isinstance(part, Text)]
    said: list[Part] = [Thinking(text=thinking), *([texts[-1].model_copy(update={"text": answer})] if answer else [])]
    at = next((number for number, part in enumerate(rest) if not isinstance(part, Thinking)), len(rest))
    return message.with_parts([*rest[:at], *said, *rest[at:]])


def unreadable_types(messages: Sequence[Message], profile: Mapping[str, Any]) -> list[str]:
    """Return the media types of files in a conversation that a model with a profile cannot read."""
    found = dict[str, None]()
    for message in messages:
        if message.role != "assistant":
            inside = [part for result in message.tool_results for part in result.content]
            for part in [*message.parts, *inside]:
                if isinstance(part, Blob) and not _can_read(part.media_type, profile):
                    found[part.media_type] = None
    return list(found)


def describe_form(history: list[ModelMessage], output: AnswerSchema) -> None:
    """Describe the form of the answer in the last request of a conversation."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    schema = json.dumps(output.schema, ensure_ascii=False)
    part = UserPromptPart(
        content=f"Answer with a JSON object alone, without a code fence. It must fit this JSON Schema:\n{schema}"
    )
    if history and isinstance(last := history[-1], ModelRequest):
        last.parts = [*last.parts, part]
    else:
        history.append(ModelRequest(parts=[part]))


def is_recursive(output: AnswerSchema) -> bool:
    """Return True if a definition of a form refers to itself, also by others."""
    schema = output.schema or {}
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    refers = {name: set(_REFERENCE.findall(json.dumps(each))) for name, each in definitions.items()}
    for _ in refers:
        refers = {name: to.union(*(refers.get(each, ()) for each in to)) for name, to in refers.items()}
    return any(name in to for name, to in refers.items()) or '"#"' in json.dumps(schema)


def _can_read(media_type: str, profile: Mapping[str, Any]) -> bool:
    match media_type.partition("/")[0]:
        case "image":
            return bool(profile.get("supports_image_input", True))
        case "audio":
            return bool(profile.get("supports_audio_file_input", True))
        case "video":
            return bool(profile.get("supports_video_input", True))
        case _:
            types = profile.get("supported_document_media_types")
            return bool(profile.get("supports_document_input", True)) and (types is None or media_type in types)


def _answered(part: Part, system: str, fitted: Any) -> ModelResponsePart | None:
    """Return a part of a turn in pydantic-ai's form; None if the system cannot be sent it."""
    from pydantic import ValidationError

    own = own_data(part, CODEC, system)
    plain: dict[str, Any]
    match part:
        case Text() if part.text.strip() or own:
            plain = {"part_kind": "text", "content": whole(part.text)}
        case Thinking() if own:
            plain = {"part_kind": "thinking", "content": whole(part.text)}
        case ToolCall():
            # Endpoints that parse the history refuse arguments that are not an object.
            arguments = part.arguments if is_object(part.arguments) else "{}"
            call_id = fitted(part.id)
            plain = {
                "part_kind": "tool-call",
                "tool_name": whole(part.name),
                "args": whole(arguments),
                "tool_call_id": call_id,
            }
        case Blob():
            from pydantic_ai.messages import BinaryContent

            plain = {"part_kind": "file", "content": BinaryContent(part.data, media_type=part.media_type)}
        case Opaque() if own:
            plain = {}
        case _:
            return None
    try:
        return _adapter().validate_python({**(own or {}), **plain})
    except ValidationError:  # data that this version of pydantic-ai does not know
        return _adapter().validate_python(plain) if plain and not isinstance(part, Thinking) else None


def _returned(result: ToolResult, call_id: str) -> ModelRequestPart:
    from pydantic_ai.messages import ToolReturnPart

    text = whole(result.text)
    files = [_content(part) for part in result.content if isinstance(part, Blob)]
    return ToolReturnPart(
        tool_name=whole(result.name),
        content=[text, *files] if files and text else files or text,
        tool_call_id=call_id,
        outcome="failed" if result.error else "success",
    )


def _system_parts(parts: Sequence[Text | Blob]) -> Iterator[ModelRequestPart]:
    from pydantic_ai.messages import SystemPromptPart

    for part in parts:
        if isinstance(part, Text):
            yield SystemPromptPart(content=whole(part.text))


def _content(part: Text | Blob) -> Any:
    from pydantic_ai.messages import BinaryContent

    return whole(part.text) if isinstance(part, Text) else BinaryContent(part.data, media_type=part.media_type)


@cache
def _adapter() -> TypeAdapter[ModelResponsePart]:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponsePart

    return TypeAdapter(ModelResponsePart)


def _turns() -> TypeAdapter[list[ModelMessage]]:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    return ModelMessagesTypeAdapter
