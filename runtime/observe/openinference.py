"""OpenTelemetry attributes of a run's spans, in OpenInference's conventions and some of our own (``operad.…``).

Names, numbers, and the messages of models are also given in OpenTelemetry's conventions for generative AI (``gen_ai.…``).

Sizes are limited: texts are cut, and a long conversation is reduced to its first message and its last ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from openinference.semconv.trace import (
    DocumentAttributes,
    MessageAttributes,
    MessageContentAttributes,
    OpenInferenceMimeTypeValues,
    OpenInferenceSpanKindValues,
    SpanAttributes,
    ToolCallAttributes,
)

from operad.runtime.events import KnowledgeRetrieved
from operad.runtime.observe.trace import Span
from operad.runtime.values.text import cut

MOST_CHARACTERS = 16_000
"""Maximum number of characters of an attribute."""

MOST_IN_MESSAGES = 64_000
"""Maximum number of characters of all input messages of a model call together."""

MOST_ATTRIBUTES = 80
"""Maximum number of attributes for the input messages of a model call; the SDK stores at most 128 per span."""

MOST_SOURCES = 50
"""Maximum number of passages, message parts or tool calls in the attributes of a span."""

Attributes = dict[str, "str | int | float | bool | Sequence[str]"]
"""Attributes of a span."""

_Kind = OpenInferenceSpanKindValues
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Names of vendors in OpenTelemetry's conventions that differ from their prefixes."""

_KINDS = {"model": _Kind.LLM, "tool": _Kind.TOOL}


@dataclass(frozen=True, slots=True)
class Shown:
    """Choice of the texts of a run that are exported.

    Attributes:
        inputs: True to export inputs: jobs, tasks, messages, arguments.
        outputs: True to export outputs: answers, results, verdicts, error texts.
    """

    inputs: bool = True
    outputs: bool = True


def kind_of(span: Span, judges: Sequence[str] = ()) -> str:
    """Return the OpenInference kind of a span: AGENT for an operator that asked a model, EVALUATOR for an evaluator."""
    if span.kind == "operator" and span.name in judges:
        return _Kind.EVALUATOR.value
    if span.kind == "operator" and "tasks" in span.details:
        return _Kind.AGENT.value
    return _KINDS.get(span.kind, _Kind.CHAIN).value


def attributes_of(span: Span, shown: Shown) -> Attributes:
    """Return the attributes of a span that has ended, except for its kind."""
    attributes: Attributes = dict(_llm_usage(span) if span.kind == "model" else _own_usage(span))
    attributes |= _of_generative_ai(span, shown)
    attributes["operad.state"] = "asks" if span.details.get("asks") else span.state
    details = span.details
    if span.kind == "tool":
        attributes[SpanAttributes.TOOL_NAME] = span.name
        if shown.inputs:
            attributes[SpanAttributes.TOOL_PARAMETERS] = _json(details.get("arguments", {}))
    if span.kind == "model":
        attributes[SpanAttributes.LLM_MODEL_NAME] = span.name
        attributes |= _conversation(details, shown)
    if verdict := _verdict_in(span):
        attributes |= _verdict(verdict, shown)
    if shown.inputs:
        attributes |= _value(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, _input_of(span))
    if shown.outputs:
        attributes |= _value(SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, _output_of(span))
    return attributes


def looked_up(event: KnowledgeRetrieved, goal: str, shown: Shown) -> Attributes:
    """Return the attributes of a search in a knowledge base."""
    attributes: Attributes = {SpanAttributes.OPENINFERENCE_SPAN_KIND: _Kind.RETRIEVER.value}
    if shown.inputs:
        attributes |= _value(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, goal)
    for place, (source, score) in enumerate(zip(event.sources[:MOST_SOURCES], event.scores, strict=False)):
        document = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{place}"
        attributes[f"{document}.{DocumentAttributes.DOCUMENT_SCORE}"] = score
        if shown.outputs:
            attributes[f"{document}.{DocumentAttributes.DOCUMENT_ID}"] = cut(source, MOST_CHARACTERS)
    return attributes


def of_session(session: str) -> Attributes:
    """Return the attribute for the conversation of a run."""
    return {SpanAttributes.SESSION_ID: session, "gen_ai.conversation.id": session}


def of_kind(kind: str) -> Attributes:
    """Return the attribute for a span's kind."""
    return {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind}


def _own_usage(span: Span) -> Iterator[tuple[str, int | float]]:
    """Yield the usage of a span that is not a model call, as ``operad.…`` attributes.

    OpenInference's attributes of usage are not used here, because their readers add up the model calls themselves.
    """
    usage = span.usage
    if usage.calls:
        yield "operad.usage.calls", usage.calls
        yield "operad.usage.prompt_tokens", usage.prompt_tokens
        yield "operad.usage.completion_tokens", usage.completion_tokens
        yield "operad.usage.unpriced", usage.unpriced
        if usage.known_cost is not None:
            yield "operad.usage.cost", usage.known_cost


def _llm_usage(span: Span) -> Iterator[tuple[str, int | float]]:
    """Yield the usage of a model call, as OpenInference's attributes."""
    usage = span.usage
    if span.state == "done":
        yield SpanAttributes.LLM_TOKEN_COUNT_PROMPT, usage.prompt_tokens
        yield SpanAttributes.LLM_TOKEN_COUNT_COMPLETION, usage.completion_tokens
        yield SpanAttributes.LLM_TOKEN_COUNT_TOTAL, usage.tokens
    if usage.calls and usage.known_cost is not None:
        yield SpanAttributes.LLM_COST_TOTAL, usage.known_cost


def _of_generative_ai(span: Span, shown: Shown) -> Attributes:
    """Return the attributes of OpenTelemetry's conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/.

    The cost has no name there: Langfuse reads it from ``gen_ai.usage.cost``, Logfire from ``operation.cost``.
    """
    operation, usage = "gen_ai.operation.name", span.usage
    if span.kind == "tool":
        tool: Attributes = {operation: "execute_tool", "gen_ai.tool.name": span.name}
        if shown.inputs:
            tool["gen_ai.tool.call.arguments"] = _json(span.details.get("arguments", {}))
        if shown.outputs and (result := span.details.get("result")) is not None:
            tool["gen_ai.tool.call.result"] = cut(str(result), MOST_CHARACTERS)
        return tool
    if span.kind == "operator" and "tasks" in span.details:
        return {operation: "invoke_agent", "gen_ai.agent.name": span.name}
    if span.kind != "model":
        return {}
    attributes: Attributes = {operation: "chat", "gen_ai.request.model": span.name}
    if provider := span.details.get("provider"):
        attributes["gen_ai.provider.name"] = _PROVIDERS.get(str(provider), str(provider))
    if usage.calls and (cost := usage.known_cost) is not None:
        attributes |= {"gen_ai.usage.cost": cost, "operation.cost": cost}
    if span.state == "done":
        attributes |= {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_written_tokens,
        }
    if reason := span.details.get("finish_reason"):
        attributes["gen_ai.response.finish_reasons"] = [str(reason)]
    return attributes


def _verdict_in(span: Span) -> Mapping[str, Any]:
    """Return the fields of a span's message or, for a round, of its verdict; empty if there is none."""
    return span.details if span.kind == "round" else span.details.get("message", {})


def _verdict(message: Mapping[str, Any], shown: Shown) -> Attributes:
    attributes: Attributes = {"operad.status": str(message.get("status", ""))}
    if blame := message.get("blame"):
        attributes["operad.blame"] = [str(name) for name in blame]
    if isinstance(score := message.get("score"), int | float):
        attributes["operad.score"] = score
    if shown.outputs and (faults := message.get("faults")):
        attributes["operad.faults"] = [_json(fault) for fault in faults[:MOST_SOURCES]]
    if shown.outputs and (unsure := message.get("unsure")):
        attributes["operad.unsure"] = [cut(str(statement), MOST_CHARACTERS) for statement in unsure[:MOST_SOURCES]]
    for name in ("evaluation", "lesson") if shown.outputs else ():
        if text := message.get(name):
            attributes[f"operad.{name}"] = cut(str(text), MOST_CHARACTERS)
    return attributes


def _input_of(span: Span) -> object:
    """Return the input of a span; None if there is none."""
    details = span.details
    if span.kind == "model":
        messages: list[dict[str, Any]] = details.get("messages") or [{}]
        return _text(messages[-1].get("content"))
    if span.kind == "operator":
        tasks = details.get("tasks", [])
        return tasks[0] if len(tasks) == 1 else tasks or None
    return details.get({"run": "goal", "tool": "arguments", "question": "question"}.get(span.kind, ""))


def _output_of(span: Span) -> object:
    """Return the output of a span; None if there is none."""
    details = span.details
    if message := _verdict_in(span):
        return message.get("scratchpad") or message.get("outputs") or None
    if span.kind == "model":
        return details.get("text") or details.get("tool_calls") or None
    return details.get("result")


def _value(name: str, mime_type: str, value: object) -> Attributes:
    """Return the attributes of an input or output: the value, as text or JSON, and its media type."""
    if value is None:
        return {}
    kinds = OpenInferenceMimeTypeValues
    if isinstance(value, str):
        return {name: cut(value, MOST_CHARACTERS), mime_type: kinds.TEXT.value}
    return {name: _json(value), mime_type: kinds.JSON.value}


def _conversation(details: Mapping[str, Any], shown: Shown) -> Attributes:
    """Return the attributes of a model call's input messages and answer."""
    attributes: Attributes = {}
    if shown.inputs:
        messages: list[dict[str, Any]] = details.get("messages") or []
        included, left_out = _fitting_messages(messages)
        for place, message in enumerate(included):
            attributes |= {
                f"{SpanAttributes.LLM_INPUT_MESSAGES}.{place}.{name}": value for name, value in message.items()
            }
        attributes["gen_ai.input.messages"] = _of_messages(_shown_messages(messages, left_out))
        if left_out:
            attributes["operad.messages_left_out"] = left_out
    if shown.outputs and ("text" in details or details.get("tool_calls")):
        calls = [{"function": call} for call in details.get("tool_calls") or ()]
        answer = _message({"role": "assistant", "content": details.get("text", ""), "tool_calls": calls})
        attributes |= {f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{name}": value for name, value in answer.items()}
        said = {"role": "assistant", "content": details.get("text", ""), "tool_calls": calls}
        attributes["gen_ai.output.messages"] = _of_messages([said], str(details.get("finish_reason") or "stop"))
    return attributes


def _shown_messages(messages: Sequence[Mapping[str, Any]], left_out: int) -> Sequence[Mapping[str, Any]]:
    """Return the messages that `_fitting_messages` includes: the first one and the last ones."""
    return [*messages[:1], *messages[1 + left_out :]]


def _of_messages(messages: Sequence[Mapping[str, Any]], finish_reason: str = "") -> str:
    """Return messages as JSON, in OpenTelemetry's form; texts are cut, so that it stays JSON."""
    ends = {"finish_reason": finish_reason} if finish_reason else {}
    told = [{"role": str(each.get("role", "")), "parts": list(_parts_of(each)), **ends} for each in messages]
    return json.dumps(told, ensure_ascii=False, default=str)


def _parts_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = cut(_text(message.get("content")) or "", MOST_CHARACTERS)
    if answered := message.get("tool_call_id"):
        yield {"type": "tool_call_response", "id": str(answered), "response": text}
    elif text:
        yield {"type": "text", "content": text}
    for call in list(message.get("tool_calls") or ())[:MOST_SOURCES]:
        function = call.get("function") or {}
        arguments = cut(str(function.get("arguments", "")), MOST_CHARACTERS)
        yield {"type": "tool_call", "id": call.get("id"), "name": function.get("name"), "arguments": arguments}


def _fitting_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Attributes], int]:
    """Return the attributes of the first message and of the last ones that fit, and the number of messages left out."""
    characters_left, attributes_left = MOST_IN_MESSAGES, MOST_ATTRIBUTES
    last_ones: list[Attributes] = []
    for message in (*messages[:1], *reversed(messages[1:])):
        attributes = _message(message)
        characters_left -= sum(len(str(value)) for value in attributes.values())
        attributes_left -= len(attributes)
        if last_ones and (characters_left < 0 or attributes_left < 0):
            break
        last_ones.append(attributes)
    included = [*last_ones[:1], *reversed(last_ones[1:])]
    return included, len(messages) - len(included)


def _message(message: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a message of a conversation."""
    attributes: Attributes = {MessageAttributes.MESSAGE_ROLE: str(message.get("role", ""))}
    content: Any = message.get("content")
    if isinstance(content, list):
        for place, part in enumerate(cast("list[dict[str, Any]]", content)[:MOST_SOURCES]):
            name = f"{MessageAttributes.MESSAGE_CONTENTS}.{place}"
            attributes[f"{name}.{MessageContentAttributes.MESSAGE_CONTENT_TYPE}"] = "text"
            attributes[f"{name}.{MessageContentAttributes.MESSAGE_CONTENT_TEXT}"] = cut(_part(part), MOST_CHARACTERS)
    elif content:
        attributes[MessageAttributes.MESSAGE_CONTENT] = cut(str(content), MOST_CHARACTERS)
    if answers := message.get("tool_call_id"):
        attributes[MessageAttributes.MESSAGE_TOOL_CALL_ID] = str(answers)
    for place, call in enumerate(list(message.get("tool_calls") or ())[:MOST_SOURCES]):
        name, function = f"{MessageAttributes.MESSAGE_TOOL_CALLS}.{place}", call.get("function") or {}
        if call.get("id"):
            attributes[f"{name}.{ToolCallAttributes.TOOL_CALL_ID}"] = str(call["id"])
        attributes[f"{name}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}"] = str(function.get("name", ""))
        arguments = cut(str(function.get("arguments", "")), MOST_CHARACTERS)
        attributes[f"{name}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}"] = arguments
    return attributes


def _text(content: Any) -> str | None:
    """Return the text of a message's content; None if it has no text."""
    if isinstance(content, list):
        return "\n".join(map(_part, cast("list[dict[str, Any]]", content)))
    return content if isinstance(content, str) else None


def _part(part: dict[str, Any]) -> str:
    return str(part["text"]) if "text" in part else _json(part)


def _json(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False, default=str), MOST_CHARACTERS)
