"""Events: numbered, complete, plain, and accounted to the operator they happened in."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from operad.runtime import BuiltinWorkflow, Job, SubJob, Usage, WorkflowMessage, WorkflowStatus, events
from operad.runtime.events import ModelAnswered, OperatorStarted, Progress, RunLog, TokenStreamed
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.concurrently import concurrently
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import NO_USAGE


class Odd:
    """Nothing that JSON knows."""

    def __str__(self):
        return "odd"


USAGE = Usage(calls=1, prompt_tokens=2, completion_tokens=3, seconds=0.5, cost=0.25)
PLAIN_USAGE = {
    "calls": 1,
    "prompt_tokens": 2,
    "completion_tokens": 3,
    "seconds": 0.5,
    "cost": 0.25,
    "unpriced": 0,
    "cached_tokens": 0,
    "cache_written_tokens": 0,
    "reasoning_tokens": 0,
}
MESSAGE = WorkflowMessage(
    scratchpad="text",
    outputs={"odd": Odd(), "set": {1}, "bytes": b"\xff", "nested": [{"odd": (Odd(),)}], "no number": float("nan")},
    parts=(WorkflowMessage(outputs={"odd": Odd()}),),
    usage=USAGE,
)
PLAIN_MESSAGE = {
    "scratchpad": "text",
    "status": "SUCCESS",
    "evaluation": "",
    "lesson": "",
    "outputs": {"odd": "odd", "set": [1], "bytes": "_w==", "nested": [{"odd": ["odd"]}], "no number": None},
    "answer": None,
    "ports": None,
    "blame": [],
    "faults": [],
    "unsure": [],
    "score": None,
    "item": None,
    "over": None,
    "job_id": "",
    "operator_id": "",
    "usage": PLAIN_USAGE,
    "parts": [{**WorkflowMessage().model_dump(mode="json"), "outputs": {"odd": "odd"}}],
}

# Every type of event, and what its own fields are as plain values.
EXAMPLES = [
    (
        events.RunStarted(
            workflow="w",
            goal="g",
            operators={"a": (), "b": ("a",)},
            judges=("j",),
            instructions={"a": "Do."},
            engine="dbgpt",
            inputs={"city": "Oslo"},
            started_by="webhook",
        ),
        {
            "workflow": "w",
            "goal": "g",
            "operators": {"a": [], "b": ["a"]},
            "judges": ["j"],
            "instructions": {"a": "Do."},
            "engine": "dbgpt",
            "ports": {},
            "inputs": {"city": "Oslo"},
            "started_by": "webhook",
        },
    ),
    (
        events.RunFinished(message=MESSAGE, seconds=1.5, rounds=2),
        {"message": PLAIN_MESSAGE, "seconds": 1.5, "rounds": 2},
    ),
    (
        events.RunFailed(error="broke", seconds=1.5, usage=USAGE),
        {"error": "broke", "seconds": 1.5, "usage": PLAIN_USAGE, "internal": ""},
    ),
    (events.RoundStarted(operators=("a", "b")), {"operators": ["a", "b"]}),
    (
        events.RoundFinished(status=WorkflowStatus.EXECUTION_ERROR, evaluation="e", lesson="l", blame=("a",)),
        {
            "status": "EXECUTION_ERROR",
            "evaluation": "e",
            "lesson": "l",
            "blame": ["a"],
            "faults": [],
            "unsure": [],
            "score": None,
            "by_error": False,
            "has_result": True,
            "repairs": {},
        },
    ),
    (
        events.RoundFinished(
            status=WorkflowStatus.EXECUTION_ERROR,
            evaluation="",
            lesson="",
            blame=("a[1]",),
            faults=(Fault(operator="a", item=1, wrong="7", right="8"),),
            unsure=("the date",),
            repairs={"b": "suspected"},
        ),
        {
            "status": "EXECUTION_ERROR",
            "evaluation": "",
            "lesson": "",
            "blame": ["a[1]"],
            "faults": [{"operator": "a", "item": 1, "wrong": "7", "right": "8", "lesson": "", "sure": True}],
            "unsure": ["the date"],
            "score": None,
            "by_error": False,
            "has_result": True,
            "repairs": {"b": "suspected"},
        },
    ),
    (events.OperatorKept(), {}),
    (events.EvidenceCut(operators=("a", "b"), characters=7), {"operators": ["a", "b"], "characters": 7}),
    (
        events.KnowledgeRetrieved(sources=("a.md:1",), scores=(0.5,), texts=("Figs.",)),
        {"sources": ["a.md:1"], "scores": [0.5], "texts": ["Figs."]},
    ),
    (events.PassagesEmbedded(model="m", done=64, total=100), {"model": "m", "done": 64, "total": 100}),
    (events.BlameUnknown(blame="'x'"), {"blame": "'x'"}),
    (
        events.JobSplit(sub_jobs=(SubJob(goal="g", id="a", session_id="s", parent_id="J", dependencies=("b",)),)),
        {
            "sub_jobs": [
                {
                    "goal": "g",
                    "context": "",
                    "id": "a",
                    "session_id": "s",
                    "assigned_expert_name": None,
                    "files": [],
                    "inputs": {},
                    "turns": [],
                    "started_by": "",
                    "parent_id": "J",
                    "completion_criteria": "",
                    "dependencies": ["b"],
                }
            ]
        },
    ),
    (OperatorStarted(), {}),
    (events.OperatorFinished(seconds=1.0, message=MESSAGE), {"seconds": 1.0, "message": PLAIN_MESSAGE}),
    (
        events.OperatorFailed(seconds=1.0, usage=USAGE, error="broke"),
        {"seconds": 1.0, "usage": PLAIN_USAGE, "error": "broke", "internal": ""},
    ),
    (events.OperatorCancelled(seconds=1.0, usage=USAGE), {"seconds": 1.0, "usage": PLAIN_USAGE}),
    (Progress(done=1, total=2), {"done": 1, "total": 2}),
    (TokenStreamed(text="t"), {"text": "t"}),
    (events.TaskBuilt(task={"instruction": "i"}), {"task": {"instruction": "i"}}),
    (
        events.ModelAsked(call_id="c", model="m", messages=({"role": "user", "content": "hi"},), tools=("t",)),
        {"call_id": "c", "model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": ["t"], "provider": ""},
    ),
    (
        ModelAnswered(
            model="m",
            usage=USAGE,
            call_id="c",
            text="t",
            tool_calls=({"name": "n", "arguments": "{}"},),
            finish_reason="length",
            thinking="hm",
        ),
        {
            "model": "m",
            "usage": PLAIN_USAGE,
            "call_id": "c",
            "text": "t",
            "tool_calls": [{"name": "n", "arguments": "{}"}],
            "finish_reason": "length",
            "thinking": "hm",
        },
    ),
    (events.ThinkingStreamed(text="t"), {"text": "t"}),
    (
        events.ConversationShortened(model="m", results=2, characters=9),
        {"model": "m", "results": 2, "characters": 9},
    ),
    (events.SettingsDropped(model="m", settings=("seed: no",)), {"model": "m", "settings": ["seed: no"]}),
    (
        events.MaxTurnsReached(model="m", turns=2, tool_calls={"t": 2}),
        {"model": "m", "turns": 2, "tool_calls": {"t": 2}},
    ),
    (
        events.ModelRetried(call_id="c", model="m", error="e", delay=0.5, retry=1),
        {"call_id": "c", "model": "m", "error": "e", "delay": 0.5, "retry": 1},
    ),
    (
        events.ModelFailed(call_id="c", model="m", error="e"),
        {"call_id": "c", "model": "m", "error": "e", "internal": ""},
    ),
    (events.AnswerRejected(error="no", repair=1), {"error": "no", "repair": 1}),
    (
        events.ToolCalled(call_id="c", tool="t", arguments={"deep": [{"odd": Odd()}], "yes": True, "none": None}),
        {"call_id": "c", "tool": "t", "arguments": {"deep": [{"odd": "odd"}], "yes": True, "none": None}},
    ),
    (
        events.ToolReturned(call_id="c", tool="t", result="r", failed=False, seconds=1.0),
        {"call_id": "c", "tool": "t", "result": "r", "failed": False, "seconds": 1.0, "internal": ""},
    ),
    (events.OperatorSkipped(reason="no way"), {"reason": "no way"}),
    (events.OperatorRetried(error="broke", delay=2.5), {"error": "broke", "delay": 2.5, "internal": ""}),
    (events.FellBack(error="broke", to="a constant"), {"error": "broke", "to": "a constant", "internal": ""}),
    (events.MessageKept(), {}),
    (events.CacheHit(), {}),
    (
        events.InsightsRecalled(operator="f", about="a job", insights=("k",), texts=("t",), store="s"),
        {"operator": "f", "about": "a job", "insights": ["k"], "texts": ["t"], "store": "s"},
    ),
    (
        events.WorkflowEntered(
            workflow="w",
            operators={"a": (), "b": ("a",)},
            judges=("j",),
            ports={"b": {"a": ("yes",)}},
            item={"of": Odd()},
        ),
        {
            "workflow": "w",
            "operators": {"a": [], "b": ["a"]},
            "judges": ["j"],
            "instructions": {},
            "engine": "",
            "ports": {"b": {"a": ["yes"]}},
            "item": {"of": "odd"},
        },
    ),
    (
        events.Interrupted(interrupt_id="a#2", question="Which?", schema={"enum": [1, {"odd": (Odd(),)}]}),
        {"interrupt_id": "a#2", "question": "Which?", "schema": {"enum": [1, {"odd": ["odd"]}]}},
    ),
    (
        events.Resumed(interrupt_id="a#2", seconds=1.0, by="ada"),
        {"interrupt_id": "a#2", "seconds": 1.0, "by": "ada"},
    ),
]
STAMP = {"run_id": "run", "path": ["each[2]", "op"], "operator_id": "op", "round": 2, "attempt": 3, "seq": 1}


def test_there_is_an_example_of_every_type_of_event():
    types = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, events.Event)}
    assert {type(event) for event, _ in EXAMPLES} == types - {events.Event}


@pytest.mark.parametrize(("event", "plain"), EXAMPLES, ids=lambda value: type(value).__name__)
async def test_an_event_becomes_plain_values_and_json_whatever_it_bears(event, plain):
    heard = []
    RunLog("run", (heard.append,)).write(event, ("each[2]", "op"), "op", 2, 3)
    values = heard[0].as_dict()
    assert next(iter(values)) == "event"
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert isinstance(values.pop("time"), float)
    assert values == {"event": type(event).__name__, **STAMP, **plain}


def test_a_status_in_an_event_is_text_and_nothing_more():
    statuses = [e.as_dict()["status"] for e, _ in EXAMPLES if isinstance(e, events.RoundFinished)]
    assert {type(status) for status in statuses} == {str}


def here() -> Any:
    """The operator's scope that this code runs in."""
    return events.current_scope()


@pytest.fixture
async def run():
    """A run that is listened to: its log, and what was heard."""
    heard = []
    return RunLog("run", (heard.append,)), heard


def test_outside_of_a_run_nothing_happens():
    assert events.current_scope() is None
    events.emit(ModelAnswered(model="m", usage=USAGE))
    assert events.current_scope() is None


async def test_an_event_is_completed_from_where_it_is_said(run):
    log, heard = run
    log.write(TokenStreamed(text="t"), ("outer", "op"), "op", 3, 2)
    log.write(Progress(done=1, total=1))
    assert [(e.run_id, e.path, e.operator_id, e.round, e.attempt, e.seq) for e in heard] == [
        ("run", ("outer", "op"), "op", 3, 2, 1),
        ("run", (), "", 0, 0, 2),
    ]
    assert 0 < heard[0].time <= heard[1].time


async def test_what_an_operator_says_is_completed_from_where_it_runs(in_a_run):
    async def work():
        events.emit(TokenStreamed(text="t"))
        return events.current_scope()

    scope, [heard] = await in_a_run(work, "op", "its run")
    assert (heard.run_id, heard.path, heard.operator_id) == ("its run", ("op",), "op")
    assert (heard.round, heard.attempt, heard.seq) == (1, 1, 4)  # after those that say that it runs
    assert (scope.path, scope.operator_id, scope.round, scope.attempt) == (("op",), "op", 1, 1)


async def test_the_event_that_was_given_stays_as_it_was(run):
    log, heard = run
    event = TokenStreamed(text="t")
    log.write(event, ("op",), "op", 1)
    assert (event.seq, event.operator_id) == (0, "")
    assert heard[0] is not event


async def test_a_run_inside_another_is_numbered_for_itself_and_its_paths_begin_with_it():
    outside, inside = [], []
    outer = RunLog("outer", (outside.append,))
    outer.write(OperatorStarted(), ("a",), "a", 1, 1)
    inner = RunLog("inner", (inside.append,), outer=outer, depth=1)
    inner.write(TokenStreamed(text="t"), ("a", "b"), "b", 1, 1)
    assert [(e.run_id, e.seq, e.path) for e in outside] == [("outer", 1, ("a",)), ("outer", 2, ("a", "b"))]
    assert [(e.run_id, e.seq, e.path) for e in inside] == [("inner", 1, ("b",))]


async def test_a_listener_that_raises_is_reported_and_the_others_hear_all_the_same(caplog):
    def broken(event):
        raise ValueError("cannot listen")

    heard = []
    log = RunLog("run", (broken, heard.append))
    log.write(OperatorStarted())
    log.write(OperatorStarted())
    assert [e.seq for e in heard] == [1, 2]
    assert caplog.text.count("a listener failed on OperatorStarted") == 2


async def test_a_run_knows_whether_anybody_listens_to_it_or_around_it():
    assert not RunLog("run").heard
    heard = RunLog("run", (print,))
    assert heard.heard
    assert RunLog("inner", outer=heard).heard
    assert not RunLog("inner", outer=RunLog("run")).heard


async def test_a_run_that_nobody_listens_to_only_keeps_the_account():
    class Ask:
        def get_id(self):
            return "ask"

        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            events.emit(ModelAnswered(model="m", usage=USAGE))
            assert not here().run.log.heard
            return "asked"

    workflow = BuiltinWorkflow()
    workflow.add_operator(Ask())
    assert (await workflow.aexecute(Job(goal="g"), ScriptedReasoner([]))).usage == USAGE


async def test_usage_adds_up_in_the_scope_and_only_answers_of_models_count(in_a_run):
    async def work():
        scope = here()
        assert scope.usage is NO_USAGE
        events.emit(ModelAnswered(model="m", usage=USAGE))
        events.emit(events.OperatorFailed(seconds=1.0, usage=USAGE, error="e"))
        events.emit(ModelAnswered(model="m", usage=USAGE))
        return scope.usage

    usage, _ = await in_a_run(work)
    assert usage == USAGE + USAGE


async def test_concurrent_siblings_keep_their_own_scope_and_account():
    arrived, both, usage, heard = [], asyncio.Event(), {}, []

    class Work:
        def __init__(self, name, calls):
            self.name, self.calls = name, calls

        def get_id(self):
            return self.name

        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            arrived.append(self.name)
            if len(arrived) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)  # both have entered before either speaks
            for _ in range(self.calls):
                events.emit(ModelAnswered(model=self.name, usage=USAGE))
            usage[self.name] = here().usage.calls
            return ""

    workflow = BuiltinWorkflow(listeners=[heard.append])
    workflow.add_operator(Work("a", 1))
    workflow.add_operator(Work("b", 2))
    await workflow.aexecute(Job(goal="g"), ScriptedReasoner([]))
    assert usage == {"a": 1, "b": 2}
    said = [(e.operator_id, e.model) for e in heard if isinstance(e, ModelAnswered)]
    assert sorted(said) == [("a", "a"), ("b", "b"), ("b", "b")]
    assert events.current_scope() is None


async def test_what_a_task_says_belongs_to_where_it_was_started(in_a_run):
    async def call():
        events.emit(ModelAnswered(model="m", usage=USAGE))

    async def operator():
        await concurrently([call(), call()])
        await asyncio.to_thread(events.emit, TokenStreamed(text="from a thread"))
        return here().usage.calls

    calls, heard = await in_a_run(operator)
    assert calls == 2
    assert [(e.operator_id, e.seq) for e in heard] == [("op", 4), ("op", 5), ("op", 6)]


def test_names_that_no_encoding_has_are_kept_as_they_are():
    message = WorkflowMessage(outputs={"deep": {"\ud800": 1}}, status=WorkflowStatus.EXECUTION_ERROR)
    told = events.OperatorFinished(seconds=1.0, message=message).as_dict()["message"]
    assert (told["outputs"], told["status"]) == ({"deep": {"\ud800": 1}}, "EXECUTION_ERROR")


READ_AT_THE_SAME_TIME = """
import sys, threading
from operad.runtime.events import read_event

values = {"event": "OperatorFinished", "seconds": 1.0, "message": {"scratchpad": "a"}}

def read_elsewhere(frame, event, _):
    if event == "call" and frame.f_code.co_name == "__getattr__":  # pydantic's, while msgspec asks for a field's type
        sys.setprofile(None)
        other = threading.Thread(target=read_event, args=(values,))
        other.start()
        other.join()

sys.setprofile(read_elsewhere)
print(read_event(values).message.scratchpad)
"""


def test_the_first_events_of_a_process_are_read_by_several_threads():
    """In a new process, because types that are known already show nothing."""
    done = subprocess.run([sys.executable, "-c", READ_AT_THE_SAME_TIME], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a\n")
