"""The tree of spans that a run's events make."""

import asyncio
import json
from contextlib import suppress
from itertools import pairwise

import pytest
from fake_operators import chain

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    BuiltinWorkflow,
    Job,
    Map,
    MonoModelReasoner,
    Policy,
    Port,
    Retry,
    Tool,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.events.events_file import EventsFile, line_of
from operad.runtime.events.interrupts import interrupt
from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Trace, structural
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel
from operad.runtime.tools.toolkit import Action
from operad.runtime.values.errors import InputError, OperatorError


class Do:
    def __init__(self, name, work=lambda messages: "done"):
        self.name, self.work = name, work
        self.instruction = f"Do {name}."

    def get_id(self):
        return self.name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        said = self.work(workflow_messages)
        return await said if asyncio.iscoroutine(said) else said


def ran(workflow, reasoner=None, goal="g"):
    """What happened in a run, whatever came of it."""
    happened = []
    workflow.add_listener(happened.append)
    with suppress(OperatorError):
        workflow.execute(Job(goal=goal), reasoner, run_id="r")
    return happened


def tree(trace):
    """Each span as kind, name and state, behind two spaces for each span around it."""
    depth, lines = {None: -1}, []
    for span in trace.spans:
        depth[span.id] = depth[span.parent] + 1
    children = {}
    for span in trace.spans:
        children.setdefault(span.parent, []).append(span)

    def walk(span):
        lines.append(f"{'  ' * depth[span.id]}{span.kind} {span.name} {span.state}")
        for child in children.get(span.id, ()):
            walk(child)

    walk(trace.spans[0])
    return lines


def test_a_run_is_a_tree_of_spans():
    trace = Trace.of(ran(chain(BuiltinWorkflow, Do("a"), Do("b"), name="w")))
    assert tree(trace) == ["run w done", "  round 1 done", "    operator a done", "    operator b done"]
    assert (trace.run_id, trace.workflow, trace.goal, trace.ended) == ("r", "w", "g", True)
    assert trace.graphs[()].before == {"a": (), "b": ("a",)}
    assert trace.graphs[()].instructions == {"a": "Do a.", "b": "Do b."}
    assert all((span.end or 0) >= span.start and span.round == (span.kind != "run") for span in trace.spans)
    assert trace.spans[2].details["message"]["scratchpad"] == "done"
    assert trace.spans[0].details["message"]["scratchpad"] == "done"


def test_rounds_lessons_and_judges():
    verdicts = iter([WorkflowStatus.EXECUTION_ERROR, WorkflowStatus.SUCCESS])
    workflow = chain(BuiltinWorkflow, Do("a"), Do("b"), max_rounds=2)
    workflow.set_evaluator(
        Do("judge", lambda _: WorkflowMessage(status=next(verdicts), lesson="Better.", blame=("b",)))
    )
    trace = Trace.of(ran(workflow))
    assert tree(trace) == [
        "run workflow done",
        "  round 1 done",
        "    operator a done",
        "    operator b done",
        "    operator judge done",
        "  round 2 done",
        "    operator b done",
        "    operator judge done",
    ]
    first, second = [span for span in trace.spans if span.kind == "round"]
    assert first.details["status"] == "EXECUTION_ERROR"
    assert (first.details["lesson"], first.details["blame"], second.details["operators"]) == ("Better.", ["b"], ["b"])
    assert trace.graphs[()].judges == ("judge",)
    assert [trace.spans[i].name for i in sorted(critical_path(trace))] == ["a", "b", "judge", "b", "judge"]


def test_workflows_inside_and_items_of_maps():
    body = chain(BuiltinWorkflow, Do("one"), Do("two"), name="body")
    split = Do("split", lambda _: WorkflowMessage(outputs={"items": [1, 2]}))
    trace = Trace.of(
        ran(
            chain(
                BuiltinWorkflow, split, Map("each", body, concurrency=1), chain(BuiltinWorkflow, Do("x"), name="inner")
            )
        )
    )
    assert tree(trace)[2:] == [
        "    operator split done",
        "    operator each done",
        "      item each[0] done",
        "        round 1 done",
        "          operator one done",
        "          operator two done",
        "      item each[1] done",
        "        round 1 done",
        "          operator one done",
        "          operator two done",
        "    operator inner done",
        "      round 1 done",
        "        operator x done",
    ]
    assert set(trace.graphs) == {(), ("each",), ("inner",)}
    assert trace.graphs[("each",)].before == {"one": (), "two": ("one",)}
    assert trace.spans[3].details["progress"] == [2, 2]
    assert len(critical_path(trace)) == 8  # both items, for they run one after the other


def test_attempts_and_the_pauses_between_them():
    failures = iter([ValueError("no"), ValueError("no again")])

    def work(_):
        for error in failures:
            raise error
        return "at last"

    workflow = BuiltinWorkflow()
    workflow.add_operator(Do("a", work), policy=Policy(retry=Retry(attempts=3, first_delay=0.01, on=(ValueError,))))
    trace = Trace.of(ran(workflow))
    assert tree(trace)[2:] == [
        "    operator a done",
        "      attempt 1 failed",
        "      pause 1 done",
        "      attempt 2 failed",
        "      pause 2 done",
        "      attempt 3 done",
    ]
    attempts = [span for span in trace.spans if span.kind in ("attempt", "pause")]
    assert attempts[0].details["error"] == "ValueError: no"
    assert all(one.end == two.start for one, two in pairwise(attempts) if two.kind == "attempt")
    assert trace.spans[2].attempt == 3


def test_failed_stopped_and_skipped():
    async def wait():
        await asyncio.sleep(60)

    def fail(_):
        raise ValueError("broke")

    workflow = BuiltinWorkflow()
    route = Do("route", lambda _: WorkflowMessage(ports=("yes",)))
    workflow.add_operator(route)
    workflow.add_operator(Do("no"), previous_ops=[Port(route, "no")])
    workflow.add_operator(Do("slow", lambda _: wait()), previous_ops=[Port(route, "yes")])
    workflow.add_operator(Do("bad", fail), previous_ops=[Port(route, "yes")])
    trace = Trace.of(ran(workflow))
    states = {span.name: span.state for span in trace.spans}
    assert states == {
        "workflow": "failed",
        "1": "stopped",
        "route": "done",
        "no": "skipped",
        "slow": "stopped",
        "bad": "failed",
    }
    by_name = {span.name: span for span in trace.spans}
    assert by_name["bad"].details["error"] == "ValueError: broke"
    assert "took port 'yes'" in by_name["no"].details["reason"]
    assert "bad" in trace.spans[0].details["error"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_models_tools_and_tasks():
    happened = []
    action = Action(name="reckon", tools=(Tool.of(add),))
    async with ScriptedModel([CallTools([("add", {"a": 2, "b": 2})]), Say("It is 4.")]) as scripted:
        workflow = chain(
            BuiltinWorkflow,
            Operator(OperatorConfig(instruction="Reckon.", actions=[action], id="sum")),
            listeners=[happened.append],
        )
        await workflow.aexecute(Job(goal="2 + 2?"), MonoModelReasoner(scripted.model))
    trace = Trace.of(happened)
    assert tree(trace)[2:] == [
        "    operator sum done",
        "      model scripted done",
        "      tool add done",
        "      model scripted done",
    ]
    operator, first, tool, second = trace.spans[2:]
    [task] = operator.details["tasks"]
    assert (task["instruction"], task["goal"], task["tools"][0]["name"]) == ("Reckon.", "2 + 2?", "add")
    assert first.details["tool_calls"] == [{"name": "add", "arguments": '{"a": 2, "b": 2}'}]
    assert (tool.details["arguments"], tool.details["result"]) == ({"a": 2, "b": 2}, "4")
    assert second.details["messages"][-1]["content"] == "4"
    assert second.details["text"] == "It is 4."
    assert (operator.usage.calls, trace.spans[0].usage.calls, first.usage.calls) == (2, 2, 1)


async def test_a_model_that_fails():
    happened = []
    async with ScriptedModel([Fail(400, "no such thing")]) as scripted:
        workflow = chain(
            BuiltinWorkflow, Operator(OperatorConfig(instruction="Ask.", id="ask")), listeners=[happened.append]
        )
        with pytest.raises(OperatorError):
            await workflow.aexecute(Job(goal="?"), MonoModelReasoner(scripted.model))
    model = Trace.of(happened).spans[3]
    assert (model.kind, model.state) == ("model", "failed")
    assert "no such thing" in model.details["error"]


async def test_questions_to_a_person():
    workflow = chain(BuiltinWorkflow, Do("ask", lambda _: interrupt("Which?", {"type": "string"})))
    trace, open_when_asked = Trace(), list[bool]()
    async for event in workflow.stream(Job(goal="g"), MonoModelReasoner(), run_id="r"):
        trace.apply(event)
        if isinstance(event, events.Interrupted):
            open_when_asked.append(trace.spans[-1].end is None)
            await workflow.answer("r", {event.interrupt_id: "this"})
    [asked] = [span for span in trace.spans if span.kind == "question"]
    assert asked.details == {"question": "Which?", "schema": {"type": "string"}}
    assert (open_when_asked, asked.state, asked.end is None) == ([True], "done", False)


def test_what_changed_is_known():
    trace, happened = Trace(), ran(chain(BuiltinWorkflow, Do("a"), Do("b")))
    for event in happened[:3]:
        trace.apply(event)
    seen = trace.version
    assert [span.name for span in trace.apply(happened[3])] == ["a"]
    assert [span.name for span in trace.changed_since(seen)] == ["a"]
    for event in happened[4:]:
        trace.apply(event)
    assert [span.kind for span in trace.changed_since(seen)] == ["run", "round", "operator", "operator"]
    trace.apply(happened[0])
    assert [span.kind for span in trace.spans] == ["run"]


def test_streamed_text_is_there_until_the_answer_is():
    at = {"path": ("a",), "operator_id": "a"}
    trace = Trace.of(
        [
            events.RunStarted(workflow="w", goal="g", operators={"a": ()}),
            events.RoundStarted(operators=("a",)),
            events.OperatorStarted(**at),
            events.ModelAsked(call_id="c", model="m", messages=(), **at),
            events.TokenStreamed(text="one ", **at),
            events.TokenStreamed(text="two", **at),
        ]
    )
    assert trace.spans[3].details["text"] == "one two"
    assert trace.spans[3].end is None


def test_events_of_unknown_operators_cause_no_error():
    lone = [
        events.OperatorFinished(seconds=1, message=WorkflowMessage(), path=("a",), operator_id="a"),
        events.ToolReturned(call_id="c", tool="t", result="", failed=False, seconds=1, path=("a",), operator_id="a"),
        events.RoundFinished(status=WorkflowStatus.SUCCESS, evaluation="", lesson="", blame=()),
        events.RunFailed(error="e", seconds=1, usage=WorkflowMessage().usage),
        events.TokenStreamed(text="t", path=("a",), operator_id="a"),
    ]
    assert Trace.of(lone).spans == []


def test_the_place_of_an_item_has_no_number():
    assert structural(("each[2]", "check", "all[0]")) == ("each", "check", "all")


# Files


def written(path, happened):
    path.write_text("".join(map(line_of, happened)), encoding="utf-8")
    return path


def test_a_file_of_events_says_what_happened(tmp_path):
    happened = ran(chain(BuiltinWorkflow, Do("ä"), Do("b")))
    file = EventsFile(written(tmp_path / "run.jsonl", happened))
    assert tree(Trace.of(file.events())) == tree(Trace.of(happened))
    assert (file.line, file.unknown, file.rest) == (len(happened), 0, 0)


def test_a_file_is_read_while_it_is_written(tmp_path):
    lines = [line_of(event) for event in ran(chain(BuiltinWorkflow, Do("a")))]
    path = tmp_path / "run.jsonl"
    path.write_text(lines[0] + lines[1][:20])
    file = EventsFile(path)
    assert [event.seq for event in file.events()] == [1]
    assert file.rest == 20
    with path.open("a") as more:
        more.write(lines[1][20:] + lines[2])
    assert [event.seq for event in file.events()] == [2, 3]
    assert list(file.events()) == []


def test_events_that_are_not_known_are_counted(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"event": "Danced", "steps": 3}) + "\n\n")
    file = EventsFile(path)
    assert (list(file.events()), file.unknown) == ([], 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "line 2 is not an event: "),
        ("[1]", "line 2 is not an event: it has no field 'event'"),
        ('{"event": 3}', "line 2 is not an event: it has no field 'event'"),
        ('{"event": "OperatorFailed"}', "line 2 is not an event: Object missing required field"),
        ('{"event": "Progress", "done": "x", "total": 1}', "line 2 is not an event: Expected `int`"),
        ("[" * 100_000, "line 2 is not an event: "),
        ("\x00\xff", "line 2 is not an event: "),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, line, said):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line_of(events.OperatorStarted()).encode() + line.encode("latin-1") + b"\n")
    with pytest.raises(InputError) as caught:
        list(EventsFile(path).events())
    assert str(caught.value).startswith(f"{path}: {said}")
    assert str(caught.value).endswith("; give a file that operad run --events FILE.jsonl has written")


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("operad.runtime.events.events_file.MAX_LINE", 100)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="line 1 is longer than"):
        list(EventsFile(path).events())


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read: No such file"):
        list(EventsFile(tmp_path / "none.jsonl").events())


def test_the_rest_of_a_file_that_is_gone_is_an_error_that_names_the_file(tmp_path):
    file = EventsFile(written(tmp_path / "run.jsonl", ran(chain(BuiltinWorkflow, Do("a")))))
    list(file.events())
    file.path.unlink()
    with pytest.raises(InputError, match=r"run\.jsonl: cannot be read: No such file"):
        _ = file.rest


def test_the_run_says_what_started_it():
    trace = Trace.of([events.RunStarted(workflow="w", goal="g", operators={}, started_by="webhook")])
    assert trace.root is not None
    assert trace.root.details["started_by"] == "webhook"
