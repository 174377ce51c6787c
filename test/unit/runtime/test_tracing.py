"""Runs as OpenTelemetry spans, read from an exporter in memory; across threads, and across processes as what they wrote."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from forked import OPERAD_COMMAND

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from operad import Fault
from operad.cli.telemetry import listening
from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    BuiltinWorkflow,
    DbgptWorkflow,
    InputError,
    Job,
    Map,
    MonoModelReasoner,
    OperatorError,
    Policy,
    Retry,
    Timeout,
    Tool,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.events import emit
from operad.runtime.observe.tracing import OpenTelemetryListener, trace_id_of
from operad.runtime.testing import CallTools, Fail, Hang, Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.text import cut

JOB = Job(goal="goal", session_id="S")
WRONG = WorkflowMessage(
    status=WorkflowStatus.EXECUTION_ERROR,
    evaluation="too cold",
    lesson="be warm",
    faults=(Fault(operator="a", wrong="cold", right="warm"),),
    unsure=("it snows",),
    score=2,
)
RENDEZVOUS = 60.0


class Written:
    """What was written, once it was."""

    def __init__(self):
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def listener(self, **options):
        return OpenTelemetryListener(self.provider, **options)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def __getitem__(self, name):
        [span] = [each for each in self.spans if each.name == name]
        return span

    def named(self, name):
        return [each for each in self.spans if each.name == name]

    def tree(self):
        """The names, each with the names inside it, in order of beginning; those without a known parent on top."""
        spans: list[Any] = list(self.spans)
        known = {span.context.span_id for span in spans}
        inside = {}
        for span in sorted(spans, key=lambda span: (span.start_time, span.context.span_id)):
            around = span.parent.span_id if span.parent and span.parent.span_id in known else None
            inside.setdefault(around, []).append(span)

        def below(around):
            return [(each.name, below(each.context.span_id)) if each.context.span_id in inside else each.name
                    for each in inside.get(around, [])]  # fmt: skip

        return below(None)


@pytest.fixture
def written():
    return Written()


@pytest.fixture(autouse=True)
def nothing_logged(caplog):
    """OpenTelemetry complains about nothing: contexts are left as they were entered, spans ended once."""
    yield
    assert [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry")] == []
    assert [record.getMessage() for record in caplog.records if "a listener failed" in record.getMessage()] == []
    assert not trace.get_current_span().get_span_context().is_valid


class Do:
    """An operator that says its id, or what `work` does."""

    def __init__(self, op_id, work=None):
        self._id, self._work = op_id, work

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        said = self._work() if self._work else self._id
        return await said if asyncio.iscoroutine(said) else said


def chain(*operators, workflow=BuiltinWorkflow, **options):
    made, before = workflow(**options), []
    for operator in operators:
        made.add_operator(operator, before)
        before = [operator]
    return made


def current():
    return trace.get_current_span().get_span_context()


@pytest.mark.parametrize("kind", [BuiltinWorkflow, DbgptWorkflow])
async def test_a_run_is_a_tree_of_its_rounds_and_operators(written, kind):
    workflow = chain(Do("a"), Do("b"), workflow=kind, listeners=[written.listener()])
    await workflow.aexecute(JOB, ScriptedReasoner([]), run_id="R")
    assert written.tree() == [("workflow", [("round 1", ["a", "b"])])]
    assert {span.context.trace_id for span in written.spans} == {trace_id_of("R")}
    root, a = written["workflow"], written["a"]
    assert root.parent is None
    assert root.status.status_code is a.status.status_code is StatusCode.OK
    said = dict(root.attributes)
    assert said | {"operad.state": "done"} == said
    assert [said[name] for name in ("operad.run_id", "operad.workflow", "operad.status")] == [
        "R",
        "workflow",
        "SUCCESS",
    ]
    assert [said[name] for name in ("openinference.span.kind", "session.id")] == ["CHAIN", "S"]
    assert [said[name] for name in ("input.value", "input.mime_type", "output.value")] == ["goal", "text/plain", "b"]
    assert [a.attributes[name] for name in ("operad.path", "operad.round", "operad.attempt")] == ["a", 1, 1]
    assert a.attributes["output.value"] == "a"


async def test_times_are_those_of_the_events(written):
    heard = {}
    workflow = chain(Do("a", lambda: asyncio.sleep(0.01, "")), listeners=[written.listener()])
    workflow.add_listener(lambda event: heard.setdefault(type(event).__name__, event.time))
    await workflow.aexecute(JOB, ScriptedReasoner([]))
    begins = {"a": "OperatorStarted", "round 1": "RoundStarted", "workflow": "RunStarted"}
    ends = {"a": "OperatorFinished", "round 1": "RoundFinished", "workflow": "RunFinished"}
    for span in written.spans:
        if span.name != "round 1":
            assert span.start_time == round(heard[begins[span.name]] * 1e9)
            assert span.end_time == round(heard[ends[span.name]] * 1e9)


SEEN = []


def temperature(city: str) -> str:
    """Look up a temperature.

    Args:
        city: Where.
    """
    SEEN.append((current(), threading.current_thread()))
    if city == "nowhere":
        raise LookupError("no such city")
    return "21"


async def asks_with_a_tool(written, *script, listener=None, **options):
    actions = [Action(name="look", tools=(Tool.of(temperature),))]
    operator = Operator(OperatorConfig(instruction="Answer.", id="ask", actions=actions))
    async with ScriptedModel(list(script)) as endpoint:
        workflow = chain(operator, listeners=[listener or written.listener(**options)])
        model = endpoint.model.model_copy(update={"price_prompt": 1.0, "max_retries": 0})
        return await workflow.aexecute(JOB, MonoModelReasoner(model))


async def test_models_and_tools_are_told_in_the_words_of_openinference(written):
    message = await asks_with_a_tool(written, CallTools([("temperature", {"city": "Rome"})]), Say("It is 21."))
    assert written.tree() == [("workflow", [("round 1", [("ask", ["scripted", "temperature", "scripted"])])])]
    kinds = {span.name: span.attributes["openinference.span.kind"] for span in written.spans}
    assert kinds == {"workflow": "CHAIN", "round 1": "CHAIN", "ask": "AGENT", "scripted": "LLM", "temperature": "TOOL"}
    first, second = (span.attributes for span in written.named("scripted"))
    assert first["llm.model_name"] == "scripted"
    assert first["llm.input_messages.0.message.role"] == "system"
    assert "Answer." in first["llm.input_messages.0.message.content"]
    call = "llm.output_messages.0.message.tool_calls.0.tool_call.function"
    assert first[f"{call}.name"] == "temperature"
    assert json.loads(first[f"{call}.arguments"]) == {"city": "Rome"}
    assert second["llm.output_messages.0.message.content"] == second["output.value"] == "It is 21."
    last = max(int(name.split(".")[2]) for name in second if name.startswith("llm.input_messages."))
    assert second[f"llm.input_messages.{last}.message.role"] == "tool"
    assert second[f"llm.input_messages.{last}.message.content"] == second["input.value"] == "21"
    for kind, name in (("prompt", "prompt_tokens"), ("completion", "completion_tokens"), ("total", "tokens")):
        counted = first[f"llm.token_count.{kind}"] + second[f"llm.token_count.{kind}"]
        assert counted == getattr(message.usage, name) > 0
    tool = written["temperature"].attributes
    assert tool["tool.name"] == "temperature"
    assert json.loads(tool["tool.parameters"]) == json.loads(tool["input.value"]) == {"city": "Rome"}
    assert tool["output.value"] == "21"
    task = json.loads(written["ask"].attributes["input.value"])
    assert (task["instruction"], task["goal"]) == ("Answer.", "goal")
    assert written["workflow"].attributes["operad.usage.calls"] == 2


async def test_names_numbers_and_messages_are_told_in_the_words_of_opentelemetry_too(written):
    await asks_with_a_tool(written, CallTools([("temperature", {"city": "Rome"})]), Say("It is 21."))

    def told(span):
        attributes = {name: value for name, value in span.attributes.items() if name.startswith("gen_ai.")}
        return {name.removeprefix("gen_ai."): value for name, value in attributes.items()}

    first, second = map(told, written.named("scripted"))
    counted = {name: first.pop(f"usage.{name}") for name in ("input_tokens", "output_tokens")}
    assert counted == {
        "input_tokens": written.named("scripted")[0].attributes["llm.token_count.prompt"],
        "output_tokens": written.named("scripted")[0].attributes["llm.token_count.completion"],
    }
    call = {"type": "tool_call", "id": None, "name": "temperature", "arguments": '{"city": "Rome"}'}
    assert json.loads(first.pop("output.messages")) == [
        {"role": "assistant", "parts": [call], "finish_reason": "tools"}
    ]
    system, *_ = json.loads(first.pop("input.messages"))
    assert system == {"role": "system", "parts": [{"type": "text", "content": "Answer."}]}
    *_, result = json.loads(second["input.messages"])
    assert (result["role"], result["parts"][0]["type"], result["parts"][0]["response"]) == (
        "tool",
        "tool_call_response",
        "21",
    )
    assert first == {
        "operation.name": "chat",
        "provider.name": "127.0.0.1",
        "request.model": "scripted",
        "response.finish_reasons": ("tools",),
        "usage.cache_read.input_tokens": 0,
        "usage.cache_creation.input_tokens": 0,
        "conversation.id": second["conversation.id"],
    }
    assert told(written["temperature"]) == {
        "operation.name": "execute_tool",
        "tool.name": "temperature",
        "tool.call.arguments": '{"city": "Rome"}',
        "tool.call.result": "21",
        "conversation.id": second["conversation.id"],
    }
    assert {name: told(written["ask"])[name] for name in ("operation.name", "agent.name")} == {
        "operation.name": "invoke_agent",
        "agent.name": "ask",
    }
    assert "operation.name" not in told(written["round 1"])


async def test_a_tool_in_a_thread_runs_within_its_span(written):
    await asks_with_a_tool(written, CallTools([("temperature", {"city": "Rome"})]), Say("It is 21."))
    seen, thread = SEEN[-1]
    assert thread is not threading.main_thread()
    assert seen.span_id == written["temperature"].context.span_id


async def test_a_tool_that_fails_is_an_error_and_its_operator_is_none(written):
    await asks_with_a_tool(written, CallTools([("temperature", {"city": "nowhere"})]), Say("Who knows."))
    tool = written["temperature"]
    assert tool.status.status_code is StatusCode.ERROR
    assert "no such city" in tool.status.description
    [raised] = tool.events
    assert raised.name == "exception"
    assert written["ask"].status.status_code is StatusCode.OK


async def test_a_model_that_fails_is_an_error_as_are_its_operator_and_the_run(written):
    with pytest.raises(OperatorError):
        await asks_with_a_tool(written, Fail(400, "no"))
    for name in ("scripted", "ask", "workflow"):
        assert written[name].status.status_code is StatusCode.ERROR
        [raised] = written[name].events
        assert "no" in raised.attributes["exception.message"]
    assert "llm.token_count.total" not in written["scripted"].attributes


async def test_an_error_says_its_type(written):
    def fail():
        raise ValueError("bad: value")

    with pytest.raises(OperatorError):
        await chain(Do("a", fail), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    [raised] = written["a"].events
    assert dict(raised.attributes) == {"exception.type": "ValueError", "exception.message": "bad: value"}
    assert written["a"].status.description == "ValueError: bad: value"
    assert written["round 1"].attributes["operad.state"] == "stopped"


async def test_an_attempt_that_failed_is_told_by_the_operator(written):
    left = [ValueError("once"), ValueError("twice")]

    def fail_twice():
        if left:
            raise left.pop(0)
        return "at last"

    policy = Policy(retry=Retry(attempts=3, first_delay=0.001, on=(ValueError,)))
    await chain(Do("a", fail_twice), policy=policy, listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("workflow", [("round 1", ["a"])])]
    assert [event.attributes["exception.message"] for event in written["a"].events] == ["once", "twice"]
    assert written["a"].attributes["operad.attempt"] == 3
    assert written["a"].status.status_code is StatusCode.OK


class Judge:
    def __init__(self, *verdicts):
        self._verdicts = list(verdicts)

    def get_id(self):
        return "judge"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return self._verdicts.pop(0)


async def test_rounds_say_how_they_were_judged_and_the_last_one_decides(written):
    workflow = chain(Do("a"), max_rounds=2, listeners=[written.listener()])
    workflow.set_evaluator(Judge(WRONG, WorkflowMessage()))
    await workflow.aexecute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("workflow", [("round 1", ["a", "judge"]), ("round 2", ["a", "judge"])])]
    first, second = written["round 1"], written["round 2"]
    said = ("operad.status", "operad.evaluation", "operad.lesson", "operad.blame", "operad.score")
    assert [first.attributes[name] for name in said] == ["EXECUTION_ERROR", "too cold", "be warm", ("a",), 2]
    assert [json.loads(fault)["wrong"] for fault in first.attributes["operad.faults"]] == ["cold"]
    assert first.attributes["operad.unsure"] == ("it snows",)
    codes = [span.status.status_code for span in (first, second, written["workflow"])]
    assert codes == [StatusCode.ERROR, StatusCode.OK, StatusCode.OK]
    assert {span.attributes["openinference.span.kind"] for span in written.named("judge")} == {"EVALUATOR"}
    assert [span.attributes["operad.round"] for span in written.named("a")] == [1, 2]


async def test_a_run_that_is_judged_a_failure_is_an_error(written):
    workflow = chain(Do("a"), max_rounds=1, listeners=[written.listener()])
    workflow.set_evaluator(Judge(WRONG))
    await workflow.aexecute(JOB, ScriptedReasoner([]))
    assert written["workflow"].status.status_code is StatusCode.ERROR
    assert written["workflow"].status.description == "rejected: too cold (EXECUTION_ERROR)"


async def test_workflows_inside_and_items_of_maps_lie_within_their_operators(written):
    inner = chain(Do("x"), name="inner")
    each = chain(Do("y"), name="each")
    workflow = chain(inner, Map("list", each, over="items", concurrency=1), listeners=[written.listener()])
    await workflow.aexecute(Job(goal="", inputs={"items": ["p", "q"]}), ScriptedReasoner([]))
    item = ("round 1", ["y"])
    assert written.tree() == [
        (
            "workflow",
            [("round 1", [("inner", [("round 1", ["x"])]), ("list", [("list[0]", [item]), ("list[1]", [item])])])],
        )
    ]
    assert written.named("y")[1].attributes["operad.path"] == "list[1]/y"


async def test_items_that_need_several_rounds_end_after_the_last(written):
    body = chain(Do("y"), name="each", max_rounds=2)
    body.set_evaluator(Judge(WRONG, WorkflowMessage(), WRONG, WorkflowMessage()))
    workflow = chain(Map("list", body, over="items", concurrency=1), listeners=[written.listener()])
    await workflow.aexecute(Job(goal="", inputs={"items": ["p", "q"]}), ScriptedReasoner([]))
    for name in ("list[0]", "list[1]"):
        inside = [
            each for each in written.spans if each.parent and each.parent.span_id == written[name].context.span_id
        ]
        assert [each.name for each in inside] == ["round 1", "round 2"]
        assert written[name].end_time == inside[1].end_time


async def test_in_an_operator_its_span_is_the_current_one_whatever_runs_beside_it(written):
    seen = {}

    def look(name):
        async def work():
            seen[name] = [current().span_id]
            await asyncio.sleep(0.001)
            seen[name] += [current().span_id, (await asyncio.to_thread(current)).span_id]
            return name

        return work

    ids = [f"n{number}" for number in range(20)]
    workflow = BuiltinWorkflow(listeners=[written.listener()], policy=Policy(timeout=Timeout(run=30)))
    last = Do("last", look("last"))
    for name in ids:
        workflow.add_operator(Do(name, look(name)), next_ops=[last])
    workflow.add_operator(last)
    await workflow.aexecute(JOB, ScriptedReasoner([]))
    for name in (*ids, "last"):
        assert set(seen[name]) == {written[name].context.span_id}


async def test_what_the_user_writes_lies_within_the_operator(written):
    def work():
        with written.provider.get_tracer("mine").start_as_current_span("mine"):
            return "done"

    await chain(Do("a", work), Do("b"), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("workflow", [("round 1", [("a", ["mine"]), "b"])])]


async def test_a_run_within_a_span_of_the_users_lies_within_it(written):
    workflow = chain(Do("a"), listeners=[written.listener()])
    with written.provider.get_tracer("mine").start_as_current_span("mine") as mine:
        await workflow.aexecute(JOB, ScriptedReasoner([]), run_id="R")
        assert trace.get_current_span() is mine
    assert written.tree() == [("mine", [("workflow", [("round 1", ["a"])])])]
    assert written["a"].context.trace_id == mine.get_span_context().trace_id != trace_id_of("R")


def test_a_run_without_a_loop_lies_within_the_users_span(written):
    workflow = chain(Do("a"), listeners=[written.listener()])
    with written.provider.get_tracer("mine").start_as_current_span("mine"):
        workflow.execute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("mine", [("workflow", [("round 1", ["a"])])])]


async def test_one_listener_on_a_workflow_and_on_one_inside_it_writes_all_once(written):
    listener = written.listener()
    inner = chain(Do("x"), name="inner", listeners=[listener])
    await chain(inner, listeners=[listener]).aexecute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("workflow", [("round 1", [("inner", [("round 1", ["x"])])])])]


async def test_runs_at_once_are_traces_of_their_own(written):
    workflow = chain(Do("a", lambda: asyncio.sleep(0.001, "")), listeners=[written.listener()])
    await asyncio.gather(*(workflow.aexecute(JOB, ScriptedReasoner([]), run_id=f"R{n}") for n in range(5)))
    assert written.tree() == [("workflow", [("round 1", ["a"])])] * 5
    assert {span.context.trace_id for span in written.spans} == {trace_id_of(f"R{n}") for n in range(5)}


async def test_a_run_that_is_cancelled_leaves_no_span_open(written):
    begun = asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.sleep(RENDEZVOUS)

    task = asyncio.ensure_future(
        chain(Do("a", hang), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    )
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written.tree() == [("workflow", [("round 1", ["a"])])]
    assert written["a"].attributes["operad.state"] == "stopped"
    assert written["a"].status.status_code is StatusCode.UNSET
    assert written["workflow"].status.status_code is StatusCode.ERROR


async def test_a_run_that_ends_while_it_waits_for_a_person_is_no_error(written):
    run = chain(Do("a", lambda: interrupt("Go on?")), listeners=[written.listener()])
    stream = run.stream(JOB, ScriptedReasoner([]))
    async for event in stream:
        if isinstance(event, events.Interrupted):
            break
    await stream.aclose()  # as a server does that shuts down
    assert written["workflow"].attributes["operad.state"] == "asks"
    assert written["workflow"].status.status_code is StatusCode.UNSET


# What is left out


async def test_without_content_no_text_of_anybody_is_written(written):
    await asks_with_a_tool(written, CallTools([("temperature", {"city": "Xanadu"})]), Say("It is warm."), content=False)
    with pytest.raises(OperatorError):
        await asks_with_a_tool(written, Fail(400, "Xanadu"), content=False)
    all_said = "\n".join(span.to_json() for span in written.spans)
    for text in ("Xanadu", "warm", "goal", "Answer."):
        assert text not in all_said
    assert written.named("scripted")[0].attributes["llm.token_count.total"] > 0
    assert written.named("workflow")[1].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(("variable", "hidden", "told"), [
    ("OPENINFERENCE_HIDE_INPUTS", "Xanadu", "It is warm."),
    ("OPENINFERENCE_HIDE_OUTPUTS", "It is warm.", "Xanadu"),
])  # fmt: skip
async def test_openinferences_own_variables_hold(written, monkeypatch, variable, hidden, told):
    monkeypatch.setenv(variable, "true")
    heard = written.listener()
    async with ScriptedModel([Say("It is warm.")]) as endpoint:
        workflow = chain(Operator(OperatorConfig(instruction="Answer.", id="ask")), listeners=[heard])
        await workflow.aexecute(Job(goal="Xanadu"), MonoModelReasoner(endpoint.model))
    all_said = "\n".join(span.to_json() for span in written.spans)
    assert hidden not in all_said
    assert told in all_said


async def test_half_characters_and_long_errors_keep_no_span_from_being_sent(written):
    def work():
        emit(events.ToolCalled(call_id="1", tool="\ud800" * 1000, arguments={"\ud800": "\ud800"}))
        emit(events.ToolReturned(call_id="1", tool="", result="\ud800" + "x" * 1_000_000, failed=True, seconds=0.1))
        emit(events.AnswerRejected(error="\ud800" + "x" * 1_000_000, repair=1))
        return ""

    await chain(Do("a", work), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    sent = encode_spans(written.spans).SerializeToString()
    assert len(sent) < 200_000
    assert b"x" * 1000 in sent


async def test_long_texts_and_long_conversations_are_cut(written):
    def work():
        messages = [{"role": "system", "content": "be brief"}]
        messages += [{"role": "user", "content": f"{number} " + "x" * 50_000} for number in range(500)]
        emit(events.ModelAsked(call_id="1", model="m", messages=tuple(messages)))
        emit(events.ModelAnswered(call_id="1", model="m", usage=Usage(calls=1), text="y" * 1_000_000))
        return "z" * 1_000_000

    await chain(Do("a", work), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    assert max(len(span.to_json()) for span in written.spans) < 200_000
    said = written["m"].attributes
    told = [name for name in said if name.startswith("llm.input_messages.") and name.endswith("content")]
    assert said["llm.input_messages.0.message.content"] == "be brief"
    assert said[f"llm.input_messages.{len(told) - 1}.message.content"].startswith("499 ")
    assert said["operad.messages_left_out"] == 501 - len(told)
    assert said["openinference.span.kind"] == "LLM"
    assert said["output.value"] == cut("y" * 1_000_000, 16_000)


async def test_messages_with_images_say_how_long_they_are(written, tmp_path):
    def work():
        parts = [{"type": "text", "text": "see"}, {"type": "image_url", "characters": 9}]
        emit(events.ModelAsked(call_id="1", model="m", messages=({"role": "user", "content": parts},)))
        emit(events.ModelFailed(call_id="1", model="m", error="blind"))
        return ""

    await chain(Do("a", work), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    said = written["m"].attributes
    assert said["llm.input_messages.0.message.contents.0.message_content.text"] == "see"
    assert "9" in said["llm.input_messages.0.message.contents.1.message_content.text"]


async def test_a_look_up_is_a_retriever(written):
    def work():
        emit(events.KnowledgeRetrieved(sources=("a.md:1", "b.md:7"), scores=(0.9, 0.5)))
        return ""

    await chain(Do("a", work), listeners=[written.listener()]).aexecute(JOB, ScriptedReasoner([]))
    assert written.tree() == [("workflow", [("round 1", [("a", ["knowledge"])])])]
    said = written["knowledge"].attributes
    assert said["openinference.span.kind"] == "RETRIEVER"
    assert said["retrieval.documents.1.document.id"] == "b.md:7"
    assert said["retrieval.documents.1.document.score"] == 0.5


def test_without_a_provider_it_goes_where_the_program_says(monkeypatch, written):
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: written.provider)
    chain(Do("a"), listeners=[OpenTelemetryListener()]).execute(JOB, ScriptedReasoner([]))
    assert len(written.spans) == 3


def test_where_nothing_is_set_up_nothing_is_written():
    message = chain(Do("a"), listeners=[OpenTelemetryListener()]).execute(JOB, ScriptedReasoner([]))
    assert message.scratchpad == "a"


# The command, and a collector


class Collector:
    """Takes spans as OTLP over HTTP, and decodes them.

    Attributes:
        url: Its address, without a path.
        taken: Each request: its path, its headers, the spans in it by name.
    """

    def __init__(self, status=200):
        self.taken = []
        taken = self.taken

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format, *args):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest.FromString(body)
                spans = {
                    span.name: (span, resource.resource)
                    for resource in request.resource_spans
                    for scope in resource.scope_spans
                    for span in scope.spans
                }
                taken.append((self.path, dict(self.headers), spans))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def spans(self):
        return {name: span for _, _, spans in self.taken for name, span in spans.items()}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(request):
    collector = Collector(getattr(request, "param", 200))
    yield collector
    collector.close()


EXPERT = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter}
    max_rounds: 1
    workflow: [[*greet]]
"""
CANARY = "canary-9f8e7d6c5b4a"


@pytest.fixture
def operad(tmp_path, forked):
    """Runs the command in a process of its own: exit status, stdout, stderr."""
    (tmp_path / "expert.yaml").write_text(EXPERT)

    def operad(*arguments, **environment):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_", "OTEL_"))},
            "OPENAI_API_KEY": CANARY,
            **environment,
        }  # fmt: skip
        ended = forked.run([*OPERAD_COMMAND, *arguments], cwd=tmp_path, env=environment, timeout=RENDEZVOUS)
        assert "Traceback" not in ended.stderr
        return ended.returncode, ended.stdout, ended.stderr

    return operad


def greet(operad, *more, **environment):
    with ScriptedModel([Say("Hello.")]) as endpoint:
        return operad(
            "run",
            "expert.yaml",
            "--base-url",
            endpoint.base_url,
            "--job",
            "Hi.",
            "--model",
            "gpt",
            *more,
            **environment,
        )


def test_a_collector_is_sent_what_ran(operad, collector):
    status, out, err = greet(operad, "--trace", collector.url)
    assert (status, out) == (0, "Hello.\n")
    assert "traces:" not in err
    assert {path for path, _, _ in collector.taken} == {"/v1/traces"}
    assert collector.spans.keys() == {"Greeter", "round 1", "greet", "gpt"}
    span, resource = collector.spans["Greeter"]
    said = {each.key: each.value.string_value for each in [*span.attributes, *resource.attributes]}
    assert (said["service.name"], said["input.value"], said["output.value"]) == ("operad", "Hi.", "Hello.")
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert collector.spans["greet"][0].parent_span_id == collector.spans["round 1"][0].span_id


def test_the_standard_variables_say_where_and_with_what_key(operad, collector):
    status, out, err = greet(
        operad,
        "--trace",
        "otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{CANARY},broken header {CANARY}",
        OTEL_SERVICE_NAME="greetings",
    )
    assert status == 0
    [(_, headers, _), *_] = collector.taken
    assert headers["authorization"] == f"Bearer {CANARY}"
    _, resource = collector.spans["Greeter"]
    assert "greetings" in {each.value.string_value for each in resource.attributes}
    assert CANARY not in out + err


@pytest.mark.parametrize("collector", [400], indirect=True)
def test_a_collector_that_refuses_is_one_line(operad, collector):
    status, out, err = greet(operad, "--trace", f"{collector.url}/v1/traces")
    assert (status, out) == (0, "Hello.\n")
    [line] = [line for line in err.splitlines() if "traces" in line]
    assert line.startswith(f"traces: not all spans have reached {collector.url}/v1/traces")


@pytest.mark.slow
def test_a_collector_that_is_away_holds_up_and_fails_nothing(operad):
    status, out, err = greet(operad, "--trace", "http://127.0.0.1:9")
    assert (status, out) == (0, "Hello.\n")
    assert [line for line in err.splitlines() if "traces" in line or "opentelemetry" in line] == [
        "traces: not all spans have reached http://127.0.0.1:9; is it running, and does it accept OTLP?"
    ]


def test_on_the_console_spans_are_lines_of_json_beside_the_result(operad):
    status, out, err = greet(operad, "--trace", "console")
    assert (status, out) == (0, "Hello.\n")
    spans = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert {span["name"] for span in spans} == {"Greeter", "round 1", "greet", "gpt"}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("consol", "'consol' is not a destination for spans: write console, otlp, or the URL"),
        ("ftp://x/y", "'ftp://x/y' is not a destination for spans"),
        ("http://h:port", "'http://h:port' is not a destination"),
        (f"http://ada:{CANARY}@h/v1/traces", "leave logins and keys out of the address"),
        (f"http://h/v1/traces?key={CANARY}", "leave logins and keys out of the address"),
    ],
)
def test_an_invalid_collector_address_is_an_error_before_the_run(where, said):
    with pytest.raises(InputError) as raised, listening(where):
        pass
    assert said in str(raised.value)
    assert CANARY not in str(raised.value)


def test_what_is_left_is_sent_when_a_run_is_interrupted(operad, collector, tmp_path, forked):
    def hang(request):
        process.send_signal(signal.SIGINT)
        return Hang()

    environment = {**os.environ, "OPENAI_API_KEY": CANARY}
    with ScriptedModel(hang) as endpoint:
        process = forked.begin(
            [
                *(*OPERAD_COMMAND, "run", "expert.yaml"),
                *("--base-url", endpoint.base_url, "--job", "Hi.", "--model", "gpt", "--trace", collector.url),
            ],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert process.wait(RENDEZVOUS) == 130
    assert collector.spans.keys() == {"Greeter", "round 1", "greet", "gpt"}
