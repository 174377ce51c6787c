"""Traces of a run hold what Langfuse and Logfire read, as their documentation maps it, with the right types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import baggage, context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from operad import Operator, Workflow, tool
from operad.runtime.models.names import VENDORS, locate
from operad.runtime.models.turn import Price
from operad.runtime.observe.tracing import OpenTelemetryListener
from operad.testing import CallTools, Say, ScriptedModel

EVERY = ("run", "round", "operator", "model", "tool")

LANGFUSE: Mapping[str, tuple[Sequence[str], Sequence[str], type]] = {
    # field: where it must be, the attributes of which it reads one, and its type
    "sessionId": (EVERY, ("session.id",), str),
    "userId": (EVERY, ("user.id",), str),
    "type": (EVERY, ("openinference.span.kind",), str),
    "input": (("run", "operator", "model", "tool"), ("input.value",), str),
    "output": (("run", "operator", "model", "tool"), ("output.value",), str),
    "model": (("model",), ("gen_ai.request.model",), str),
    "usage input": (("model",), ("gen_ai.usage.input_tokens",), int),
    "usage output": (("model",), ("gen_ai.usage.output_tokens",), int),
    "usage cached": (("model",), ("gen_ai.usage.cache_read.input_tokens",), int),
    "cost": (("model",), ("gen_ai.usage.cost",), float),
    "tool": (("tool",), ("gen_ai.tool.name",), str),
}
"""https://langfuse.com/integrations/native/opentelemetry, section "Attribute Mapping"."""

LOGFIRE: Mapping[str, tuple[Sequence[str], Sequence[str], type]] = {
    "provider": (("model",), ("gen_ai.system", "gen_ai.provider.name"), str),
    "operation": (("operator", "model", "tool"), ("gen_ai.operation.name",), str),
    "model": (("model",), ("gen_ai.request.model",), str),
    "input tokens": (("model",), ("gen_ai.usage.input_tokens",), int),
    "output tokens": (("model",), ("gen_ai.usage.output_tokens",), int),
    "cost": (("model",), ("operation.cost",), float),
    "truncated": (("model",), ("gen_ai.response.finish_reasons",), tuple),
    "input messages": (("model",), ("gen_ai.input.messages",), str),
    "output messages": (("model",), ("gen_ai.output.messages",), str),
    "conversation": (EVERY, ("gen_ai.conversation.id",), str),
    "agent": (("operator",), ("gen_ai.agent.name",), str),
    "tool": (("tool",), ("gen_ai.tool.name",), str),
    "arguments": (("tool",), ("gen_ai.tool.call.arguments",), str),
    "result": (("tool",), ("gen_ai.tool.call.result",), str),
}
"""https://pydantic.dev/docs/logfire/observe/llms/ and OpenTelemetry's conventions, which it names."""


class Baggage(SpanProcessor):
    """Processor that copies the baggage to each span, as Langfuse asks for the ids of users."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        span.set_attributes(baggage.get_all(parent_context))


@tool
def temperature(city: str) -> str:
    """Measure."""
    return "mild"


@pytest.fixture(scope="module")
def spans() -> Sequence[ReadableSpan]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(Baggage())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    flow = Workflow(Operator("Answer.", id="ask", tools=[temperature]), listeners=[OpenTelemetryListener(provider)])
    token = context.attach(baggage.set_baggage("user.id", "ada"))
    with ScriptedModel([CallTools({"temperature": {"city": "Rome"}}), Say("It is mild.")]) as endpoint:
        flow.chat("talk", model=endpoint.model.model_copy(update={"price": Price(prompt=1.0, completion=1.0)})).send(
            "How warm?"
        )
    context.detach(token)
    return exporter.get_finished_spans()


@pytest.mark.parametrize("rules", [LANGFUSE, LOGFIRE], ids=["langfuse", "logfire"])
def test_each_span_has_what_the_platform_reads(spans: Sequence[ReadableSpan], rules: Any) -> None:
    for field, (kinds, names, form) in rules.items():
        for kind in kinds:
            found = [dict(span.attributes or {}) for span in spans if (span.attributes or {})["operad.kind"] == kind]
            assert found, kind
            for attributes in found:
                values = [attributes[name] for name in names if name in attributes]
                assert [type(value) for value in values] == [form], (field, kind)


def test_a_session_is_the_conversation_and_a_user_is_who_the_application_says(spans: Sequence[ReadableSpan]) -> None:
    ids = ("session.id", "gen_ai.conversation.id", "user.id")
    assert {tuple((span.attributes or {})[name] for name in ids) for span in spans} == {("talk", "talk", "ada")}


def test_messages_have_the_parts_of_the_convention(spans: Sequence[ReadableSpan]) -> None:
    asked = [span.attributes or {} for span in spans if "gen_ai.request.model" in (span.attributes or {})]
    told = json.loads(str(asked[-1]["gen_ai.input.messages"])) + json.loads(str(asked[-1]["gen_ai.output.messages"]))
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool", "assistant"]
    assert [part["type"] for message in told for part in message["parts"]] == [
        *("text", "text", "tool_call", "tool_call_response", "text")
    ]


def test_without_content_no_arguments_and_results_are_told() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listener = OpenTelemetryListener(provider, content=False)
    flow = Workflow(Operator("Answer.", id="ask", tools=[temperature]), listeners=[listener])
    with ScriptedModel([CallTools({"temperature": {"city": "Rome"}}), Say("It is mild.")]) as endpoint:
        flow.run("How warm?", model=endpoint.model)
    assert not any(
        "Rome" in str(span.attributes) or "mild" in str(span.attributes) for span in exporter.get_finished_spans()
    )


def test_a_provider_is_the_vendor_or_the_host_of_another_endpoint() -> None:
    located = {
        vendor.prefix: locate(f"{vendor.prefix}:m", None, "", {}) for vendor in VENDORS if "*" not in vendor.base_url
    }
    assert {prefix: each.provider for prefix, each in located.items()} == {prefix: prefix for prefix in located}
    assert locate("m", "http://gpu.example:8000/v1", "", {}).provider == "gpu.example"
