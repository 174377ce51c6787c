"""Runs that are kept: they go on where they were, and come to what they would have come to."""

import asyncio
import base64
import inspect
import json
import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from amounts import sample

from operad.evaluators import Evaluator
from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators import Operator, OperatorConfig
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import (
    Budget,
    BudgetError,
    BuiltinWorkflow,
    Cache,
    DurableWorkflow,
    Expert,
    FaultError,
    InputError,
    Insights,
    InvalidError,
    Job,
    Leader,
    Map,
    OperadError,
    OperatorError,
    PausedError,
    Policy,
    Port,
    Profile,
    Retry,
    RunContext,
    Timeout,
    Usage,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime import operator as as_operator
from operad.runtime.durable import Ledger, database, run_owner
from operad.runtime.durable.history import Recorder
from operad.runtime.durable.records import Records
from operad.runtime.durable.run_writer import Progress, RunChanges, TakeOver
from operad.runtime.durable.tables import ASKS, CANCELLED, FAILED, FINISHED, RUNNING, Executor
from operad.runtime.events import current_scope, emit
from operad.runtime.events.journal import bare, idempotency_key, key_of, once
from operad.runtime.policies.policy import causes
from operad.runtime.testing import ScriptedReasoner

JOB = Job(goal="goal", id="J", session_id="S", inputs={"list": ["x", "y", "z"]})
NOBODY = ScriptedReasoner([])
USAGE = Usage(calls=1, prompt_tokens=2, completion_tokens=3)
RENDEZVOUS = 60.0
WRONG = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="wrong", lesson="better")


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """The database of all tests: a process can keep runs in one alone."""
    path = str(tmp_path_factory.mktemp("runs") / "runs.sqlite")
    yield path
    Ledger(path).close()


@pytest.fixture
def ledger(db):
    return Ledger(db)


@pytest.fixture
def run_id():
    return f"run-{uuid4()}"


def here() -> Any:
    """The operator that the current code runs in."""
    return current_scope()


class Stage:
    """Where operators work: it notes what begins and what ends, and can stop the run at any point.

    Attributes:
        begun: The key of each piece of work that began, in order.
        ended: Of those, what ended.
    """

    def __init__(self, stop_at=None, after=False):
        self.begun, self.ended = [], []
        self.stopped = asyncio.Event()
        self._stop_at, self._after = stop_at, after

    async def play(self, work):
        key = idempotency_key().partition(":")[2]
        self.begun.append(key)
        stops = len(self.begun) == self._stop_at
        if stops and not self._after:
            self.stopped.set()
            await asyncio.Event().wait()
        try:
            said = work()
            said = await said if inspect.isawaitable(said) else said
        except Exception:
            self.ended.append(key)
            raise
        self.ended.append(key)
        if stops:
            asyncio.get_running_loop().call_soon(self.stopped.set)
        return said


class Do:
    """An operator that says its id and, in brackets, what it heard; or what `work` makes of what it is given."""

    def __init__(self, stage, op_id, work=None):
        self._stage, self._id, self._work = stage, op_id, work

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        heard = [message.scratchpad for message in workflow_messages or []]

        def work():
            if self._work is not None:
                return self._work(heard)
            emit(events.ModelAnswered(model="m", usage=USAGE))
            return f"{self._id}({', '.join(heard)})" + (f" [{lesson}]" if lesson else "")

        said = await self._stage.play(work)
        if inspect.isawaitable(said):
            said = await said
        return said


class Judge(Evaluator):
    """One that judges each round as it is told."""

    def __init__(self, stage, *verdicts, op_id="judge"):
        super().__init__(OperatorConfig(instruction="Judge.", id=op_id))
        self._stage, self._verdicts = stage, verdicts

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await self._stage.play(lambda: self._verdicts[here().round - 1])


def flow(*chain, into=None, evaluator=None, **options) -> Any:
    """Operators one after another."""
    workflow, before = into or BuiltinWorkflow(**options), None
    for operator in chain:
        workflow.add_operator(operator, [before] if before else None)
        before = operator
    workflow.set_evaluator(evaluator)
    return workflow


def fails(error):
    def work(_):
        raise error

    return work


def in_round(*works):
    """Another work in each round."""
    return lambda heard: works[here().round - 1](heard)


def outputs(**values):
    return lambda _: WorkflowMessage(outputs=values)


# Shapes: what runs, on a stage


def chain(stage, new):
    return flow(*(Do(stage, name) for name in "abc"), into=new())


def diamond(stage, new):
    workflow = flow(Do(stage, "a"), Do(stage, "b"), into=new())
    c, d = Do(stage, "c"), Do(stage, "d")
    workflow.add_operator(c, [workflow.get_operator("a")])
    workflow.add_operator(d, [workflow.get_operator("b"), c])
    return workflow


def judged(stage, new):
    """Three rounds: the second does b again, the third all."""
    blames = WRONG.model_copy(update={"blame": ("b",)})
    judge = Judge(
        stage, blames, WRONG.model_copy(update={"lesson": "still better"}), WorkflowMessage(evaluation="fine")
    )
    return flow(Do(stage, "a"), Do(stage, "b"), Do(stage, "c"), into=new(max_rounds=3), evaluator=judge)


def two_judges(stage, new):
    workflow = flow(Do(stage, "a"), into=new(max_rounds=2), evaluator=Judge(stage, WRONG, WorkflowMessage(), op_id="j"))
    workflow.add_evaluator(Judge(stage, WorkflowMessage(score=0.5), WorkflowMessage(score=1.0), op_id="k"))
    return workflow


def never_content(stage, new):
    judge = Judge(stage, WRONG.model_copy(update={"score": 2.0}), WRONG.model_copy(update={"score": 1.0}))
    return flow(Do(stage, "a"), into=new(max_rounds=2), evaluator=judge)


def set_aside(stage, new):
    """An operator fails in the first round, and finds fault with another in the second."""
    b = Do(
        stage,
        "b",
        in_round(fails(KeyError("k")), fails(FaultError("f", lesson="mind", blame=["a"])), lambda heard: f"b{heard}"),
    )
    workflow = flow(Do(stage, "a"), b, Do(stage, "c"), into=new(max_rounds=3))
    workflow.add_operator(Do(stage, "beside"))
    return workflow


def nested(stage, new):
    """Two workflows deep, with rounds of their own."""
    inmost = flow(
        Do(stage, "a"), Do(stage, "b"), name="in", max_rounds=2, evaluator=Judge(stage, WRONG, WorkflowMessage())
    )
    middle = flow(Do(stage, "first"), inmost, Do(stage, "last"), name="mid")
    return flow(Do(stage, "begin"), middle, Do(stage, "end"), into=new())


def repaired_inside(stage, new):
    """An item of a map and an operator of a nested workflow are blamed; what does not depend on them is kept."""
    each = Map("each", flow(Do(stage, "one"), Do(stage, "two"), name="body"), over="list", concurrency=1)
    inner = flow(Do(stage, "a"), Do(stage, "b"), Do(stage, "c"), name="in")
    judge = Judge(stage, WRONG.model_copy(update={"blame": ("each[1]/two", "in/b")}), WorkflowMessage())
    workflow = flow(Do(stage, "beside"), each, Do(stage, "end"), into=new(max_rounds=2), evaluator=judge)
    workflow.add_operator(inner)
    return workflow


def repaired_in_vain(stage, new):
    """The blamed operator says the same again, so that all after it is kept; its predecessor is suspected next."""
    same = Do(stage, "b", lambda heard: f"b({heard[0]})")
    judge = Judge(stage, *[WRONG.model_copy(update={"blame": ("b",)})] * 2, WorkflowMessage())
    return flow(Do(stage, "a"), same, Do(stage, "c"), into=new(max_rounds=3), evaluator=judge)


def retried_inside(stage, new):
    """A workflow in a workflow that succeeds at its third attempt."""

    def work(_):
        if here().run.outer.attempt < 3:
            raise ConnectionError("gone")
        return "b"

    inner = flow(Do(stage, "a"), Do(stage, "b", work), name="in")
    workflow = new()
    workflow.add_operator(inner, policy=Policy(retry=Retry(3, first_delay=0.001)))
    return workflow


def mapped(on_error):
    def shape(stage, new):
        def work(heard):
            if heard == ["y"] and on_error != "fail":
                raise ValueError("no y")
            return f"did {heard}"

        body = flow(Do(stage, "one"), Do(stage, "two", lambda heard: heard[0]), name="body")
        if on_error != "fail":
            body = flow(Do(stage, "one", work), name="body")
        return flow(
            Do(stage, "a", outputs(items=["x", "y", "z"])),
            Map("each", body, concurrency=1, on_error=on_error),
            Do(stage, "end", lambda heard: heard[0]),
            into=new(),
        )

    return shape


def beside_each_other(stage, new):
    body = flow(Do(stage, "one"), Do(stage, "two"), name="body")
    return flow(Map("each", body, over="list"), Do(stage, "end"), into=new())


def nodes(stage, new):
    """Typed nodes: an iteration, a loop and a workflow by its name."""
    specs = [
        NodeSpec("1", "start", {"variables": [["list", "array[string]"]]}),
        NodeSpec("2", "iteration", {"iterator_selector": ["list", "1"], "output_selector": ["output", "2-2"], "concurrency": 1}),
        NodeSpec("2-1", "iteration-start", parent="2"),
        NodeSpec("2-2", "template-transform", {"variables": [["i", ["item", "2"]]], "template": "<{{ i }}>"}, parent="2"),
        NodeSpec("3", "loop", {"loop_count": 3, "variables": [["n", "number", 1]]}),
        NodeSpec("3-1", "loop-start", parent="3"),
        NodeSpec("3-2", "assigner", {"assignments": [[["n", "3"], "multiply", 3]]}, parent="3"),
        NodeSpec("4", "sub-workflow", {"workflow": "sub", "inputs": [["list", ["list", "1"]]], "outputs": [["said", "string"]]}),
        NodeSpec("5", "end", {"outputs": [["made", ["output", "2"]], ["n", ["n", "3"]], ["said", ["said", "4"]]]}),
    ]  # fmt: skip
    edges = [Edge("1", "2"), Edge("2", "3"), Edge("3", "4"), Edge("4", "5"), Edge("2-1", "2-2"), Edge("3-1", "3-2")]
    sub = flow(Do(stage, "s", lambda _: WorkflowMessage(outputs={"said": "sub"})), name="sub")
    assembled = assemble(NodeGraph(specs, edges), NODE_TYPES, services=Services(workflows={"sub": sub}))
    workflow = flow(Do(stage, "first"), into=new())
    graph = assembled.graph()
    for key, operator in graph.operators.items():
        workflow.add_operator(operator, [graph.operators[parent] for parent in graph.before[key]])
    return workflow


def ported(stage, new):
    workflow = flow(Do(stage, "route", lambda _: WorkflowMessage(scratchpad="r", ports=("yes",))), into=new())
    route = workflow.get_operator("route")
    yes, no = Do(stage, "yes"), Do(stage, "no")
    workflow.add_operator(yes, [Port(route, "yes")])
    workflow.add_operator(no, [Port(route, "no")])
    workflow.add_operator(Do(stage, "end"), [yes, no])
    return workflow


def raced(stage, new):
    """Whoever is first is waited for."""

    async def late(_):
        await asyncio.sleep(5)  # cancelled once the other has won, also if a busy disk delays that
        return "late"

    workflow = flow(Do(stage, "slow", late), into=new())
    fast = Do(stage, "fast")
    workflow.add_operator(fast)
    workflow.add_operator(Do(stage, "winner"), [workflow.get_operator("slow"), fast], join="any")
    return workflow


def parts(*named):
    fields = {"context": "", "completion_criteria": "", "assigned_expert": "X"}
    made = [{"id": n, "goal": f"do {n}", "dependencies": list(needs), **fields} for n, *needs in named]
    return json.dumps({"sub_jobs": made})


class Boss:
    """A leader as a workflow that can be kept: it splits, splits a part, and has a part done again."""

    def __init__(self, stage):
        self.asked = []
        self._stage = stage
        expert = Do(stage, "do", self._work)
        self.leader = Leader(Profile(name="boss"), [Expert(Profile(name="X"), flow(expert), self)], self)

    async def infer(self, task):
        self.asked.append(task.job.id)
        return await self._stage.play(
            lambda: parts(["p"], ["q"]) if task.job.id == "b" else parts(["a"], ["b", "a"], ["c", "b"])
        )

    def _work(self, heard):
        scope = here()
        job, round_ = scope.run.job.id, scope.run.outer.round
        if job == "b":
            return WorkflowMessage(status=WorkflowStatus.JOB_TOO_COMPLICATED_ERROR, lesson="in two")
        if job == "c" and round_ == 1:
            return WorkflowMessage(status=WorkflowStatus.INPUT_DATA_ERROR, lesson="other data", blame=("b",))
        return f"{job} of round {round_}: {heard}"


def led(stage, new):
    boss = Boss(stage)
    workflow: Any = boss.leader.workflow
    workflow.thinks = boss
    workflow.keep_in(new()._runs.store)
    return workflow


SHAPES = {
    "chain": chain,
    "diamond": diamond,
    "judged": judged,
    "two judges": two_judges,
    "never content": never_content,
    "set aside": set_aside,
    "nested": nested,
    "repaired inside": repaired_inside,
    "repaired in vain": repaired_in_vain,
    "retried inside": retried_inside,
    "map": mapped("fail"),
    "map that skips": mapped("skip"),
    "map that keeps": mapped("keep"),
    "items at once": beside_each_other,
    "nodes": nodes,
    "ports": ported,
    "race": raced,
    "leader": led,
}
IN_ORDER = SHAPES.keys() - {"diamond", "repaired inside", "two judges", "set aside", "items at once", "race", "leader"}


@pytest.fixture
def new(db):
    """Makes a workflow whose runs are kept."""
    return lambda **options: DurableWorkflow(db, **options)


async def execute(workflow, run_id):
    return await workflow.aexecute(JOB, getattr(workflow, "thinks", NOBODY), run_id=run_id)


async def interrupted(shape, new, run_id, stop_at, after=False):
    """A run whose process is gone when the work with that number begins, or right after it ended."""
    stage = Stage(stop_at, after)
    task = asyncio.ensure_future(execute(shape(stage, new), run_id))
    stopped = asyncio.ensure_future(stage.stopped.wait())
    await asyncio.wait([task, stopped], timeout=RENDEZVOUS, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return stage


async def executed(shape, new, run_id):
    stage = Stage()
    return stage, await execute(shape(stage, new), run_id)


def outcomes(ledger, run_id):
    """What came of a run's operators, by their keys."""
    return {step.key: step.outcome for step in ledger.timeline(run_id) if step.outcome is not None}


def meaning(message):
    """What counts of a message: of costs, what does not depend on the clock."""
    return repr(message.model_copy(update={"usage": message.usage.model_copy(update={"seconds": 0.0})}))


UNKEPT = (events.TokenStreamed, events.ModelAsked)


@pytest.mark.parametrize("after", [False, True], ids=["in the midst of an operator", "right after one"])
@pytest.mark.parametrize("name", SHAPES)
async def test_a_run_that_is_interrupted_anywhere_ends_and_is_told_as_if_it_had_not_been(
    name, after, new, ledger, run_id
):
    shape = SHAPES[name]
    left_out = {"slow"} if name == "race" else set[str]()  # it is stopped once another has won, begun or not
    plain = Stage()
    expected = await execute(shape(plain, BuiltinWorkflow), None)
    whole, message = await executed(shape, new, f"{run_id}-whole")
    assert meaning(message) == meaning(expected)
    of_whole, of_plain = (Counter(key for key in each.begun if key not in left_out) for each in (whole, plain))
    assert of_whole == of_plain
    told_whole = Counter(map(gist, ledger.events(f"{run_id}-whole")))
    for place in sample(range(1, len(whole.begun) + 1), 4):
        this = f"{run_id}-{place}"
        first = await interrupted(shape, new, this, place, after)
        kept, before = set(outcomes(ledger, this)), ledger.events(this)
        second, again = await executed(shape, new, this)
        assert meaning(again) == meaning(message)
        assert not kept & set(second.begun), "what was kept does not run again"
        assert set(whole.begun) - left_out <= set(first.begun) | set(second.begun)
        if name in IN_ORDER and not after:
            assert first.ended + second.begun == whole.begun
        assert ledger.run(this).state == FINISHED
        told = ledger.events(this)
        assert [event.seq for event in told] == [*range(1, len(told) + 1)]
        assert [event.time for event in told] == sorted(event.time for event in told)
        if name not in ("leader", "race"):
            assert Counter(map(gist, told)) == told_whole, place
            finished, of_all = (
                [(event.path, event.time) for event in each if isinstance(event, events.OperatorFinished)]
                for each in (before, told)
            )
            assert finished == of_all[: len(finished)]


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "leader"])  # which makes its workflows itself
async def test_what_is_kept_tells_the_events_that_the_run_had(name, new, ledger, run_id):
    workflow = SHAPES[name](Stage(), new)
    reasoner = getattr(workflow, "thinks", NOBODY)
    heard = [event async for event in workflow.stream(JOB, reasoner, run_id=run_id)]
    assert ledger.events(run_id) == [event for event in heard if not isinstance(event, UNKEPT)]


async def test_what_is_kept_tells_what_experts_of_a_leader_did(new, ledger, run_id):
    workflow = led(Stage(), new)
    heard = [event async for event in workflow.stream(JOB, workflow.thinks, run_id=run_id)]

    def work(all_events):
        kinds = (events.OperatorStarted, events.OperatorFinished, events.JobSplit)
        wanted = [event for event in all_events if isinstance(event, kinds)]
        return Counter(gist(e) for e in wanted if e.path[-1] == "do" or isinstance(e, events.JobSplit))

    assert ledger.events(run_id) == [event for event in heard if not isinstance(event, UNKEPT)]
    assert work(heard).total() == 18


def gist(event):
    """What an event says, without times and what operators around others said."""
    said = {
        name: getattr(event, name)
        for name in ("operators", "status", "evaluation", "lesson", "blame", "score", "by_error", "rounds", "error")
        if hasattr(event, name)
    }
    if isinstance(event, events.OperatorRetried):
        del said["error"]
    if isinstance(event, events.RunFinished):
        said["message"] = meaning(event.message)
    return (type(event).__name__, event.path, event.operator_id, event.round, event.attempt, repr(said))


async def test_the_second_execution_with_the_same_id_runs_nothing(new, ledger, run_id):
    first, message = await executed(chain, new, run_id)
    assert first.begun == ["a", "b", "c"]
    second, again = await executed(chain, new, run_id)
    assert second.begun == []
    assert repr(again) == repr(message)
    assert message.usage.calls == 3
    kept = ledger.run(run_id)
    assert (kept.state, kept.driver, kept.drives, kept.done, kept.total) == (FINISHED, "", 1, 3, 3)
    assert Usage.model_validate_json(kept.usage) == message.usage


def test_a_ledger_closes_itself_at_the_end_of_its_context(tmp_path):
    with Ledger(tmp_path / "runs.db") as ledger:
        flow = BuiltinWorkflow(Operator("Say it."), durable=ledger, model=ScriptedReasoner(["said"]))
        assert flow.run("x", run_id="r").text == "said"
    assert ledger.url not in run_owner._owners


async def test_a_run_goes_on_after_the_ledger_was_closed(new, db, run_id):
    first = await interrupted(judged, new, run_id, 6)
    Ledger(db).close()
    second, message = await executed(judged, new, run_id)
    assert first.ended + second.begun == [
        "a",
        "b",
        "c",
        "judge",
        "b@2",
        "c@2",
        "judge@2",
        "a@3",
        "b@3",
        "c@3",
        "judge@3",
    ]
    assert message.evaluation == "fine"
    assert Ledger(db).run(run_id).drives == 2


# Failures


async def test_a_run_that_failed_is_refused_until_it_is_asked_for_and_then_only_what_failed_runs_again(
    new, ledger, run_id
):
    def shape(broken):
        def made(stage, new):
            return flow(Do(stage, "a"), Do(stage, "b", fails(ValueError("broke")) if broken else None), into=new())

        return made

    with pytest.raises(OperatorError, match="'b' of workflow 'workflow' failed on attempt 1: ValueError: broke"):
        await executed(shape(broken=True), new, run_id)
    kept = ledger.run(run_id)
    assert (kept.state, kept.failed, kept.driver) == (FAILED, "b", "")
    with pytest.raises(InputError, match=r"failed: operator 'b' .*broke\n  finished operators are kept.*retry"):
        await executed(shape(broken=False), new, run_id)
    ledger.retry(run_id)
    with pytest.raises(OperatorError, match="broke"):
        await executed(shape(broken=True), new, run_id)
    ledger.retry(run_id)
    stage, message = await executed(shape(broken=False), new, run_id)
    assert (stage.begun, message.scratchpad) == (["b"], "b(a())")
    with pytest.raises(InputError, match="did not fail: it is finished"):
        ledger.retry(run_id)


async def test_what_failed_deep_inside_is_what_runs_again(new, ledger, run_id):
    broken = [True]

    def shape(stage, new):
        def work(heard):
            if heard == ["y"] and broken:
                raise ValueError("no y")
            return heard[0]

        return flow(
            Map("each", flow(Do(stage, "one", work), Do(stage, "two"), name="body"), over="list", concurrency=1),
            into=new(),
        )

    with pytest.raises(OperatorError, match=r"item each\[1\]"):
        await executed(shape, new, run_id)
    assert ledger.run(run_id).failed == "each[1]/one"
    broken.clear()
    ledger.retry(run_id)
    stage, _ = await executed(shape, new, run_id)
    assert stage.begun == ["each[1]/one", "each[1]/two", "each[2]/one", "each[2]/two"]


async def test_an_error_that_is_kept_is_raised_as_it_was(new, run_id):
    """It ends a map's item, with all that caused it, before and after the interruption."""
    seen = []

    class Container(Do):
        runs_workflows = ()

    def shape(stage, new):
        def work(_):
            raise OperadError("mine", operator_id="x") from TimeoutError("late")

        inner = flow(Do(stage, "inner", work), name="in")

        async def watch(_):
            try:
                return await inner.aexecute(JOB, NOBODY)
            except OperatorError as error:
                seen.append([(type(link), str(link), vars(link)) for link in causes(error)])
            return "seen"

        return flow(Container(stage, "around", lambda _: watch(_)), Do(stage, "end"), into=new())

    await interrupted(shape, new, run_id, 3)
    await executed(shape, new, run_id)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert [kind for kind, *_ in seen[0]] == [OperatorError, OperadError, TimeoutError]


async def test_what_an_operator_makes_that_cannot_be_kept_is_its_error(new, ledger, run_id):
    class Frame:
        pass

    def shape(stage, new):
        return flow(Do(stage, "load", outputs(rows=[1], frame=Frame())), Do(stage, "end"), into=new())

    said = r"operator 'load' of workflow 'workflow' failed .*outputs\.frame is .*Frame, which cannot be kept"
    with pytest.raises(OperatorError, match=said):
        await executed(shape, new, run_id)
    assert ledger.run(run_id).failed == "load"


async def test_what_a_run_is_given_that_cannot_be_kept_is_refused_before_anything_runs(new, ledger, run_id):
    stage = Stage()
    with pytest.raises(InputError, match=r"messages|previous\[0\]\.outputs\.x is builtins\.set, which cannot be kept"):
        await chain(stage, new).aexecute(JOB, NOBODY, [WorkflowMessage(outputs={"x": {1}})], run_id=run_id)
    assert stage.begun == []
    assert run_id not in {run.run_id for run in ledger.runs()}


async def test_an_error_with_signs_that_databases_do_not_take_is_noted_all_the_same(new, ledger, run_id):
    def shape(stage, new):
        return flow(Do(stage, "a", fails(ValueError("zero \0 and half \ud800"))), into=new())

    with pytest.raises(OperatorError, match="zero \0 and half \ud800"):
        await executed(shape, new, run_id)
    assert ledger.run(run_id).error.endswith("zero \ufffd and half ?")
    assert ledger.run(run_id).state == FAILED


# Policies and budgets


async def test_policies_work_around_operators_that_are_kept(new, run_id, tmp_path):
    cache, hits = Cache(tmp_path / "cache.sqlite"), []

    def shape(stage, new):
        def second_time(_):
            if here().attempt < 2:
                raise ConnectionError("once")
            return "retried"

        async def slow(_):
            await asyncio.sleep(RENDEZVOUS)

        workflow = flow(Do(stage, "retry", second_time), Do(stage, "late", slow), Do(stage, "end"), into=new())
        fast = Retry(2, first_delay=0.001)
        late, end = workflow.get_operator("late"), workflow.get_operator("end")
        workflow.add_operator(workflow.get_operator("retry"), policy=Policy(retry=fast))
        workflow.add_operator(late, policy=Policy(timeout=Timeout(run=0.01), fallback="fell back"))
        workflow.add_operator(end, policy=Policy(cache=cache))
        end.fingerprint = lambda: {"type": "end"}
        workflow.add_listener(lambda event: hits.append(event) if isinstance(event, events.CacheHit) else None)
        return workflow

    class Known(ScriptedReasoner):
        def fingerprint(self):
            return {}

    async def go(run_id):
        stage = Stage()
        message = await shape(stage, new).aexecute(JOB, Known([]), run_id=run_id)
        return stage.begun, message.scratchpad

    assert await go(run_id) == (["retry", "retry", "late", "end"], "end(fell back)")
    assert await go(run_id) == ([], "end(fell back)")
    assert hits == []
    assert await go(f"{run_id}-2") == (["retry", "retry", "late"], "end(fell back)")
    assert len(hits) == 1
    cache.close()


async def test_what_kept_operators_cost_counts_for_the_budget(new, ledger, run_id):
    def shape(calls):
        return lambda stage, new: chain(stage, lambda: new(budget=Budget(calls=calls)))

    await interrupted(shape(3), new, run_id, 3)
    with pytest.raises(BudgetError, match="2 of 1 calls"):
        await executed(shape(1), new, run_id)
    kept = ledger.run(run_id)
    assert (kept.state, kept.failed) == (FAILED, "")
    ledger.retry(run_id)
    stage, message = await executed(shape(3), new, run_id)
    assert (stage.begun, message.usage.calls) == (["c"], 3)


# Leaders, and operators that run workflows themselves


async def test_a_split_is_asked_for_once(new, run_id):
    whole, _ = await executed(led, new, run_id)
    splits = [place for place, key in enumerate(whole.begun, 1) if key in ("leader", "leader/b")]
    assert len(splits) == 2
    for place in splits:
        first = await interrupted(led, new, f"{run_id}-{place}", place + 1)
        second, message = await executed(led, new, f"{run_id}-{place}")
        assert not set(first.ended) & {"leader", "leader/b"} & set(second.begun)
        assert message.scratchpad.startswith("c of round 2")


async def test_a_part_of_an_operators_work_is_kept_by_itself_and_for_each_attempt(new, run_id):
    did = []

    class Container(Do):
        runs_workflows = ()

    def shape(stage, new):
        async def work(_):
            attempt = here().attempt

            async def part():
                did.append(attempt)
                if attempt == 1:
                    raise ConnectionError("gone")
                return WorkflowMessage(scratchpad=f"part of attempt {attempt}")

            said = await once("a/part@2", part)
            return await flow(Do(stage, "inner"), name="in").aexecute(JOB, NOBODY, [said]) and said

        workflow = new(policy=Policy(retry=Retry(2, first_delay=0.001)))
        return flow(Container(stage, "a", work), into=workflow)

    await interrupted(shape, new, run_id, 3)
    assert did == [1, 2]
    _, message = await executed(shape, new, run_id)
    assert did == [1, 2]
    assert message.scratchpad == "part of attempt 2"


async def test_an_operator_that_runs_a_workflow_from_its_own_code_is_kept_as_a_whole(new, ledger, run_id):
    def shape(stage, new):
        async def work(_):
            inner = flow(Do(stage, "x"), Do(stage, "y"), name="inner")
            return (await inner.aexecute(JOB, NOBODY)).scratchpad

        return flow(Do(stage, "a", work), Do(stage, "b"), into=new())

    first = await interrupted(shape, new, run_id, 3)
    assert first.begun == ["a", "a/x", "a/y"]
    assert list(outcomes(ledger, run_id)) == []
    again = await interrupted(shape, new, run_id, 4)
    assert list(outcomes(ledger, run_id)) == ["a"]
    last, message = await executed(shape, new, run_id)
    assert (again.begun, last.begun) == (["a", "a/x", "a/y", "b"], ["b"])
    assert (message.scratchpad, message.usage.calls) == ("b(y(x()))", 3)


async def test_insights_are_learned_and_shown_in_runs_that_are_kept(db, run_id, tmp_path):
    heard = []

    def shape(stage, new):
        blames = WRONG.model_copy(update={"blame": ("a",), "lesson": "say it in verse"})
        workflow = DurableWorkflow(db, max_rounds=2, insights=Insights(tmp_path / "insights"), listeners=[heard.append])
        return flow(Do(stage, "a"), into=workflow, evaluator=Judge(stage, blames, WorkflowMessage()))

    await interrupted(shape, None, run_id, 3)
    _, message = await executed(shape, None, run_id)
    assert message.scratchpad.endswith("[say it in verse]")
    assert any(isinstance(event, events.MessageKept) for event in heard)


# Questions


def asking(*questions):
    """An operator that asks, one that begins before, and one that comes after."""

    def shape(stage, new):
        async def work(_):
            said = [await interrupt(text, schema) for text, schema in questions]
            return f"told {said}"

        return flow(Do(stage, "a"), Do(stage, "ask", work), Do(stage, "end"), into=new())

    return shape


async def until(condition):
    for _ in range(int(RENDEZVOUS / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never came to that")


async def test_a_question_that_is_answered_in_the_process_is_not_asked_again(new, ledger, run_id):
    shape = asking(("Sure?", "boolean"))
    stage = Stage(3)
    workflow = shape(stage, new)
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    assert [(q.id, q.text) for q in workflow.questions(run_id)] == [("ask", "Sure?")]
    resuming = asyncio.ensure_future(workflow.aresume(run_id, {"ask": True}))
    await asyncio.wait_for(stage.stopped.wait(), RENDEZVOUS)
    resuming.cancel()
    with suppress(asyncio.CancelledError):
        await resuming
    second, message = await executed(shape, new, run_id)
    assert (second.begun, message.scratchpad) == (["end"], "end(told [True])")
    assert ledger.questions(run_id) == []


async def test_a_question_is_answered_while_nobody_drives_the_run(new, ledger, run_id):
    shape = asking(("Which?", {"enum": ["red", "blue"]}), ("And?", None))
    task = asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    with pytest.raises(PausedError):
        await task
    await gone(run_id, ledger)
    assert ledger.run(run_id).state == ASKS
    assert [(q.id, q.text) for q in ledger.open_questions(run_id)] == [("ask", "Which?")]
    for wrong, said in (
        ({"ask": "green"}, r"\[wrong-answer\] ask: "),
        ({"aks": "red"}, "did you mean 'ask'.*open: ask"),
    ):
        with pytest.raises(InvalidError, match=said):
            ledger.answer(run_id, wrong)
    for _ in range(2):  # the second time, as after a process that ended right after it had stored the answer
        ledger.answer(run_id, {"ask": "red"})
    with pytest.raises(InvalidError, match=f"ask: was answered already; to continue the run: resume.'{run_id}"):
        ledger.answer(run_id, {"ask": "blue"})
    stage = Stage()
    with pytest.raises(PausedError) as paused:
        await shape(stage, new).aexecute(JOB, NOBODY, run_id=run_id)
    assert stage.begun == ["ask"]
    assert [(q.id, q.text) for q in paused.value.questions] == [("ask#2", "And?")]
    await gone(run_id, ledger)
    workflow = shape(Stage(), new)
    assert [q.id for q in workflow.questions(run_id)] == ["ask#2"]
    message = await workflow.aresume(run_id, {"ask#2": ["any", {"value": None}]})
    assert message is not None
    assert message.scratchpad == "end(told ['red', ['any', {'value': None}]])"


async def test_an_answer_is_for_the_question_in_its_words_alone(new, ledger, run_id, caplog):
    cheap, dear = asking(("Pay 10 euros?", "boolean")), asking(("Pay 9999 euros?", "boolean"))
    with pytest.raises(PausedError):
        await asyncio.ensure_future(cheap(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    await gone(run_id, ledger)
    workflow = dear(Stage(), new)
    with pytest.raises(PausedError) as paused:
        await asyncio.ensure_future(workflow.aresume(run_id, {"ask": True}))
    assert [(q.id, q.text) for q in paused.value.questions] == [("ask", "Pay 9999 euros?")]
    assert "the answer was to 'Pay 10 euros?'; the question is now 'Pay 9999 euros?'" in caplog.text
    assert [each.answer for each in ledger.questions(run_id)] == [None]
    message = await workflow.aresume(run_id, {"ask": False})
    assert message.scratchpad == "end(told [False])"


@as_operator
async def agree(job: Job, context: RunContext) -> str:
    return "sent" if await context.ask("Send it?", "boolean") else "kept"


async def test_a_kept_run_whose_models_have_answered_goes_on_without_one(new, ledger, run_id, nothing_configured):
    def made():
        workflow = new()
        workflow.add(Operator("Draft a letter.", id="draft") >> agree)
        return workflow

    with pytest.raises(PausedError):
        await asyncio.ensure_future(made().aexecute(JOB, ScriptedReasoner(["Dear Tom"]), run_id=run_id))
    await gone(run_id, ledger)
    message = await made().aresume(run_id, {"agree": True})
    assert message.scratchpad == "sent"
    assert (await made().aexecute(JOB, run_id=run_id)).scratchpad == "sent"


async def test_an_answer_is_not_used_up_by_a_run_that_lacks_a_model(new, ledger, run_id, nothing_configured):
    def made():
        workflow = new()
        workflow.add(agree >> Operator("Write it down.", id="write"))
        return workflow

    with pytest.raises(PausedError):
        await asyncio.ensure_future(made().aexecute(JOB, ScriptedReasoner([]), run_id=run_id))
    await gone(run_id, ledger)
    with pytest.raises(InputError, match="no model is configured"):
        await made().aresume(run_id, {"agree": True})
    assert [(each.id, each.answer) for each in ledger.questions(run_id)] == [("agree", None)]
    message = await made().aresume(run_id, {"agree": True}, ScriptedReasoner(["written"]))
    assert message.scratchpad == "written"


async def test_a_run_that_is_just_ending_here_is_gone_on_with_once_its_end_is_noted(new, ledger, run_id, monkeypatch):
    write = RunChanges.write

    def slow_note(table, driver, changes):
        noted = write(table, driver, changes)
        if any(isinstance(each, Progress) and each.values.get("driver") == "" for each in changes):
            time.sleep(0.3)  # others read of the end already
        return noted

    monkeypatch.setattr(RunChanges, "write", slow_note)
    shape = asking(("Which?", None))
    task = asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    with pytest.raises(PausedError):
        await task
    await gone(run_id, ledger)
    ledger.answer(run_id, {"ask": "red"})
    _, message = await executed(shape, new, run_id)
    assert message.scratchpad == "end(told ['red'])"


def remembering(services, stage, new):
    """Sets a variable of the conversation, in an iteration and after it, then works on."""
    specs = [
        NodeSpec("conversation", "conversation", {"variables": [["n", "number", 1], ["last", "string", ""]]}),
        NodeSpec("1", "start", {"variables": [["list", "array[string]"]]}),
        NodeSpec("2", "iteration", {"iterator_selector": ["list", "1"], "output_selector": ["item", "2"], "concurrency": 1}),
        NodeSpec("2-1", "iteration-start", parent="2"),
        NodeSpec("2-2", "assigner", {"assignments": [[["last", "conversation"], "set", ["item", "2"]]]}, parent="2"),
        NodeSpec("3", "assigner", {"assignments": [[["n", "conversation"], "multiply", 3]]}),
        NodeSpec("4", "sub-workflow", {"workflow": "sub", "inputs": [["list", ["list", "1"]]], "outputs": [["said", "string"]]}),
        NodeSpec("5", "end", {"outputs": [["n", ["n", "conversation"]], ["last", ["last", "conversation"]], ["said", ["said", "4"]]]}),
    ]  # fmt: skip
    edges = [Edge("1", "2"), Edge("2-1", "2-2"), Edge("2", "3"), Edge("3", "4"), Edge("4", "5")]
    sub = flow(Do(stage, "s", lambda _: WorkflowMessage(outputs={"said": "sub"})), name="sub")
    services = replace(services, workflows={"sub": sub})
    graph = assemble(NodeGraph(specs, edges), NODE_TYPES, services=services).graph()
    workflow = new()
    for key, operator in graph.operators.items():
        workflow.add_operator(operator, [graph.operators[parent] for parent in graph.before[key]])
    return workflow


@pytest.mark.parametrize("before", [{}, {"n": 7, "last": "w"}])
async def test_variables_of_the_conversation_that_a_stopped_process_set_are_kept_by_the_one_that_resumes(
    before, new, run_id
):
    died, lives = Services(), Services()
    for each in (died, lives):  # the values that an earlier run of the session left in both processes
        each.conversations.keep("S", before)
    await interrupted(partial(remembering, died), new, run_id, 1)
    assert died.conversations.get("S") == {"n": 3 * before.get("n", 1), "last": "z"}
    stage, message = await executed(partial(remembering, lives), new, run_id)
    assert message.outputs == {"n": 3 * before.get("n", 1), "last": "z", "said": "sub"}
    assert stage.begun == ["4/s"]
    assert lives.conversations.get("S") == died.conversations.get("S")
    _, following = await executed(partial(remembering, lives), new, f"{run_id}-next")
    assert following.outputs["n"] == 9 * before.get("n", 1)


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_run_that_is_cancelled_while_it_begins_has_no_driver(new, ledger, run_id, monkeypatch, is_new):
    where = (RunChanges, "create" if is_new else "_take")
    begin, has_begun, may_end = getattr(*where), threading.Event(), threading.Event()

    def slow_begin(table, *args):
        has_begun.set()
        may_end.wait(RENDEZVOUS)
        return begin(table, *args)

    shape = asking(("Which?", None))
    if not is_new:
        with pytest.raises(PausedError):
            await asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
        await gone(run_id, ledger)
    monkeypatch.setattr(*where, slow_begin)
    task = asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    await until(has_begun.is_set)
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    assert ledger.run(run_id).driver == ""
    with pytest.raises(PausedError):
        await shape(Stage(), new).aresume(run_id, {})


async def test_a_run_that_is_cancelled_while_it_waits_for_its_driver_does_not_wait(new, ledger, run_id, monkeypatch):
    shape, other = asking(("Which?", None)), Executor("another", limit=3_600.0)
    with pytest.raises(PausedError):
        await asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    await gone(run_id, ledger)
    ledger.store.beat(other)
    give(ledger, run_id, other)
    has_begun, driver_of = threading.Event(), Records._driver_of

    def heard(records, kept):
        has_begun.set()
        return driver_of(records, kept)

    monkeypatch.setattr(Records, "_driver_of", heard)
    task = asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    await until(has_begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, RENDEZVOUS)
    assert ledger.run(run_id).driver == other.id
    ledger.store.leave(other.id)


async def test_a_run_that_ends_while_another_process_waits_for_its_driver_stays_as_it_ended(
    new, ledger, run_id, monkeypatch
):
    stage, other = Stage(), Executor("another", limit=3_600.0)
    message = await flow(Do(stage, "a"), into=new()).aexecute(JOB, NOBODY, run_id=run_id)
    ledger.store.beat(other)
    ledger.store.changes.write("", [Progress(run_id, values={"state": RUNNING, "driver": other.id})])
    is_waiting, driver_of = threading.Event(), Records._driver_of

    def heard(records, kept):
        try:
            return driver_of(records, kept)
        finally:
            is_waiting.set()

    monkeypatch.setattr(Records, "_driver_of", heard)
    waiting = asyncio.ensure_future(flow(Do(stage, "a"), into=new()).aexecute(JOB, NOBODY, run_id=run_id))
    await until(is_waiting.is_set)
    ledger.store.changes.write(other.id, [Progress(run_id, values={"state": FINISHED, "driver": ""})])
    ledger.store.leave(other.id)
    assert await asyncio.wait_for(waiting, RENDEZVOUS) == message
    kept = ledger.run(run_id)
    assert (kept.state, kept.driver, kept.drives, stage.begun) == (FINISHED, "", 1, ["a"])


async def test_closing_a_ledger_ends_its_own_runs_and_not_those_of_another_ledger(db, run_id):
    shape, ledgers = asking(("Which?", None)), [Ledger(db), Ledger(db), Ledger(db)]
    for number, ledger in enumerate(ledgers[:2]):
        workflow = shape(Stage(), BuiltinWorkflow)
        workflow.keep_in(ledger)
        with pytest.raises(PausedError):
            await asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=f"{run_id}-{number}"))
    reader = ledgers[2]

    def driven():
        return [reader.is_driven(reader.run(f"{run_id}-{number}")) for number in range(2)]

    await asyncio.to_thread(Ledger(db).close)
    assert driven() == [True, True]
    await asyncio.to_thread(ledgers[0].close)
    assert driven() == [False, True]
    await asyncio.to_thread(ledgers[1].close)
    assert driven() == [False, False]
    assert reader.run(f"{run_id}-1").state == ASKS
    reader.close()


def give(ledger, run_id, executor):
    """Another process becomes the driver of a run that has none."""
    run = ledger.run(run_id)
    assert ledger.store.changes.write(executor.id, [TakeOver(run_id, run.driver, run.state)]) == [True]


async def gone(run_id, ledger):
    """The process that drives a run goes: all of its tasks end."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await until(lambda: not ledger.run(run_id).driver)


async def test_another_workflow_object_of_the_process_continues_a_paused_run_where_it_is(new, ledger, run_id):
    stage, shape = Stage(), asking(("Sure?", "boolean"), ("Really?", "boolean"))
    workflow, other, third = (shape(each, new) for each in (stage, Stage(), Stage()))
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    with pytest.raises(InputError, match="began with another workflow"):
        await flow(Do(Stage(), "ask"), into=new()).aresume(run_id, {"ask": True})
    with pytest.raises(InputError, match=f"is paused in this process .* continue it with resume\\('{run_id}', answers"):
        await other.aexecute(JOB, NOBODY, run_id=run_id)
    with pytest.raises(PausedError, match="Really"):
        await other.aresume(run_id, {"ask": True})
    result = await third.aresume(run_id, {"ask#2": False})
    assert (result.text, result["end"]) == ("end(told [True, False])",) * 2
    assert stage.begun.count("ask") == 1
    assert (await workflow.aresume(run_id, {})).text == result.text


async def test_a_caller_that_only_joined_a_run_can_leave_without_ending_it(new, run_id):
    stage, gate = Stage(), asyncio.Event()

    async def work(_):
        await gate.wait()
        return "a"

    def shape(stage):
        return flow(Do(stage, "a", work), into=new())

    running = asyncio.ensure_future(shape(stage).aexecute(JOB, NOBODY, run_id=run_id))
    await until(lambda: stage.begun)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(shape(Stage()).aresume(run_id, {}), 0.2)
    joined = asyncio.ensure_future(shape(Stage()).aresume(run_id, {}))
    await asyncio.sleep(0.2)
    gate.set()
    assert ((await running).scratchpad, (await joined).text) == ("a", "a")


async def test_another_workflow_object_of_the_process_cancels_a_paused_run(new, ledger, run_id):
    shape = asking(("Sure?", "boolean"))
    with pytest.raises(PausedError):
        await shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id)
    other = shape(Stage(), new)
    await other.cancel(run_id)
    assert not ledger.run(run_id).driver
    with pytest.raises(InputError, match=rf"another process drives it: `ledger.cancel\('{run_id}'\)` cancels it there"):
        await other.cancel(run_id)


async def test_a_run_that_another_process_drives_is_answered_and_not_resumed(new, ledger, run_id):
    shape, another = asking(("Sure?", "boolean")), Executor("another")
    with pytest.raises(PausedError):
        await asyncio.ensure_future(shape(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    await gone(run_id, ledger)
    ledger.store.beat(another)
    give(ledger, run_id, another)
    with pytest.raises(InputError, match=f"run '{run_id}' is in progress in another process: pass the answers on"):
        await shape(Stage(), new).aresume(run_id, {"ask": False})
    assert [each.answer for each in ledger.questions(run_id)] == [None]
    ledger.store.leave(another.id)


async def test_an_answer_given_elsewhere_reaches_the_run_that_waits_and_its_message_is_there(new, ledger, run_id):
    workflow = asking(("Sure?", "boolean"))(Stage(), new)
    before = asyncio.all_tasks()
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    await until(lambda: ledger.run(run_id).state == ASKS)
    await asking(("Sure?", "boolean"))(Stage(), new).answer(run_id, {"ask": False})
    await until(lambda: ledger.run(run_id).state == FINISHED)
    await until(lambda: asyncio.all_tasks() == before)  # what has kept its end has ended
    assert (await workflow.aexecute(JOB, NOBODY, run_id=run_id)).scratchpad == "end(told [False])"


async def test_an_answer_is_stored_before_it_counts_as_accepted(new, ledger, run_id):
    workflow = asking(("Sure?", "boolean"), ("Really?", "boolean"))(Stage(), new)
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    await workflow.answer(run_id, {"ask": False})
    assert ledger.stored_answers(run_id) == {"ask": False}  # no turn of the event loop later
    await workflow.cancel(run_id)


async def test_of_answers_at_the_same_time_one_is_accepted(new, ledger, run_id):
    workflow = asking(("How many?", "integer"), ("Really?", "boolean"))(Stage(), new)
    task = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=run_id))
    with pytest.raises(PausedError):
        await task
    await gone(run_id, ledger)
    together = threading.Barrier(8)

    def give(number):
        together.wait()
        with suppress(InvalidError):
            ledger.answer(run_id, {"ask": number})
            return number

    with ThreadPoolExecutor(8) as threads:
        accepted = [each for each in threads.map(give, range(8)) if each is not None]
    assert [ledger.stored_answers(run_id)["ask"]] == accepted


async def test_a_run_goes_on_with_the_answer_that_the_database_accepted(new, ledger, run_id, monkeypatch):
    monkeypatch.setattr("operad.runtime.durable.ledger.BEAT", 600)  # the run itself does not look for answers
    handle = asking(("Sure?", "boolean"))(Stage(), new).start(JOB, model=NOBODY, run_id=run_id)
    await until(lambda: ledger.open_questions(run_id) if handle.questions else [])
    ledger.answer(run_id, {"ask": False})  # as another process that was first
    handle.answer({"ask": True})
    assert (await handle).text == "end(told [False])"


@pytest.mark.parametrize("is_same_object", [True, False])
async def test_resume_uses_answers_that_the_run_has_not_read_yet(new, ledger, run_id, monkeypatch, is_same_object):
    monkeypatch.setattr("operad.runtime.durable.ledger.BEAT", 600)  # the run itself does not look for answers
    shape = asking(("Sure?", "boolean"), ("Really?", "boolean"))
    workflow, other = shape(Stage(), new), shape(Stage(), new)
    with pytest.raises(PausedError, match="Sure"):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    await other.answer(run_id, {"ask": True})
    resuming = workflow if is_same_object else other
    with pytest.raises(InvalidError, match="ask: was answered already"):
        await resuming.aresume(run_id, {"ask": False})
    with pytest.raises(PausedError, match="Really"):
        await resuming.aresume(run_id, {})
    with pytest.raises(PausedError, match="Really"):
        await resuming.aresume(run_id, {"ask": True})  # again
    await resuming.answer(run_id, {"ask": True})
    assert (await resuming.aresume(run_id, {"ask": True, "ask#2": False})).text == "end(told [True, False])"


async def test_an_answer_given_elsewhere_reaches_the_run_although_recording_failed(
    new, ledger, run_id, monkeypatch, caplog
):
    write, failures = Recorder.write, [RuntimeError("odd"), RuntimeError("odder")]

    def fail_twice(recorder, step=None, values=None, **given):
        if failures and values:
            raise failures.pop(0)
        return write(recorder, step, values or {}, **given)

    monkeypatch.setattr(Recorder, "write", fail_twice)
    task = asyncio.ensure_future(asking(("Sure?", "boolean"))(Stage(), new).aexecute(JOB, NOBODY, run_id=run_id))
    with pytest.raises(PausedError):
        await task
    await until(lambda: not failures)
    ledger.answer(run_id, {"ask": True})
    await until(lambda: ledger.run(run_id).state == FINISHED)
    assert [record.message for record in caplog.records if run_id in record.message] == [
        f"{run_id}: its progress or its stored answers are not up to date, will try again: RuntimeError: odd"
    ]


@pytest.mark.parametrize("way", ["answer", "aresume"])
async def test_an_answer_is_kept_for_a_run_that_has_not_asked_again_yet(new, ledger, run_id, way):
    gate = asyncio.Event()

    @as_operator
    async def late(job: Job, context: RunContext) -> str:
        await gate.wait()
        return f"said {await context.ask('Send it?', 'boolean')}"

    def shape():
        return flow(late, into=new())

    gate.set()
    with pytest.raises(PausedError):
        await asyncio.ensure_future(shape().aexecute(JOB, NOBODY, run_id=run_id))
    await gone(run_id, ledger)
    gate.clear()
    workflow = shape()
    running = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=run_id))
    await until(lambda: ledger.run(run_id).driver)
    with pytest.raises(OperadError, match="late#2"):
        await workflow.answer(run_id, {"late#2": True})
    answering = asyncio.ensure_future(getattr(workflow, way)(run_id, {"late": True}))
    await until(lambda: not ledger.open_questions(run_id))
    gate.set()
    await answering
    assert (await running).scratchpad == "said True"


# Streams


async def test_a_stream_of_a_run_that_is_gone_on_with_says_what_was_kept_and_tells_again_what_happened(new, run_id):
    def shape(stage, new):
        def work(_):
            emit(events.Progress(done=1, total=2))
            emit(events.ModelAnswered(model="m", usage=USAGE))
            emit(events.TokenStreamed(text="t"))
            return "a"

        return flow(Do(stage, "a", work), Do(stage, "b"), into=new())

    await interrupted(shape, new, run_id, 2)
    told: list[Any] = [event async for event in shape(Stage(), new).stream(JOB, NOBODY, run_id=run_id)]
    assert [(event.operator_id, type(event).__name__) for event in told] == [
        ("", "RunStarted"),
        ("", "RoundStarted"),
        ("a", "OperatorStarted"),
        ("a", "MessageKept"),
        ("a", "Progress"),
        ("a", "ModelAnswered"),
        ("a", "OperatorFinished"),
        ("b", "OperatorStarted"),
        ("b", "ModelAnswered"),
        ("b", "OperatorFinished"),
        ("", "RoundFinished"),
        ("", "RunFinished"),
    ]
    assert {event.run_id for event in told} == {run_id}
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert told[-1].message.usage.calls == 2
    again: list[Any] = [event async for event in shape(Stage(), new).stream(JOB, NOBODY, run_id=run_id)]
    assert [type(event).__name__ for event in again] == ["RunStarted", "RunFinished"]
    assert (again[-1].message, again[-1].rounds) == (told[-1].message, 1)


# Several at once


async def test_several_runs_go_on_at_once_in_one_process(new, run_id):
    made = await asyncio.gather(*(executed(diamond, new, f"{run_id}-{number}") for number in range(8)))
    assert {message.scratchpad for _, message in made} == {"d(b(a()), c(a()))"}
    stage = Stage()
    workflow = diamond(stage, new)
    await asyncio.gather(*(workflow.aexecute(JOB, NOBODY, run_id=f"{run_id}-one-{number}") for number in range(4)))
    assert len(stage.begun) == 16


def test_runs_go_on_in_several_threads_and_event_loops(new, run_id):
    said, wrong = [], []

    def sync(number):
        said.append(chain(Stage(), new).execute(JOB, NOBODY, run_id=f"{run_id}-{number}").scratchpad)

    def own_loop(number):
        said.append(asyncio.run(executed(chain, new, f"{run_id}-{number}"))[1].scratchpad)

    def work(number):
        try:
            (sync if number % 2 else own_loop)(number)
        except BaseException as error:  # noqa: BLE001 - in a thread nobody else would see it
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RENDEZVOUS)
    assert wrong == []
    assert said == ["c(b(a()))"] * 6


async def test_a_run_that_is_going_on_is_not_driven_twice(new, ledger, run_id):
    stage = Stage(2)
    task = asyncio.ensure_future(chain(stage, new).aexecute(JOB, NOBODY, run_id=run_id))
    await asyncio.wait_for(stage.stopped.wait(), RENDEZVOUS)
    with pytest.raises(InputError, match="is being driven by this process already"):
        await executed(chain, new, run_id)
    with pytest.raises(InputError, match="is being driven by"):
        ledger.delete(run_id)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    second, _ = await executed(chain, new, run_id)
    assert second.begun == ["b", "c"]


# Ids, sizes


@pytest.mark.parametrize("odd", ["", "a b", "a/b", "a:b", "../a", "a\n", "a%", "x" * 101, "a'--", "\0"])
async def test_runs_with_odd_ids_are_refused(odd, new):
    if odd:  # an empty one stands for a fresh one
        with pytest.raises(InputError, match="a run cannot have the id"):
            await executed(chain, new, odd)


@pytest.mark.parametrize("fine", ["a", "A.b_c-1", "运行", "x" * 64])
async def test_runs_may_be_called_so(fine, new, run_id):
    assert (await executed(chain, new, f"{fine}{run_id[4:]}"))[1].scratchpad == "c(b(a()))"


async def test_runs_whose_ids_begin_alike_are_kept_apart(new, ledger, run_id):
    for name in (f"{run_id}_1", f"{run_id}x1", f"{run_id.upper()}_1"):
        await executed(chain, new, name)
    ledger.delete(f"{run_id}_1")
    assert list(outcomes(ledger, f"{run_id}x1")) == list(outcomes(ledger, f"{run_id.upper()}_1")) == ["a", "b", "c"]


ODD_IDS = ["a/b", "a@2", "a~3", "a%2F", "a[0]", "a b", "中文/操作", "a//b", "@", "a:b", "'; --", "zero\0"]


async def test_operators_may_have_odd_ids(new, ledger, run_id):
    keys = {}

    def shape(stage, new):
        def work(name):
            def noted(_):
                keys[key_of(here())] = name
                return name

            return noted

        workflow = new(max_rounds=2)
        for name in ODD_IDS:
            inner = flow(Do(stage, name, work(name)), name=f"in {name}")
            workflow.add_operator(inner)
        workflow.set_evaluator(Judge(stage, WRONG, WorkflowMessage()))
        return workflow

    stage, message = await executed(shape, new, run_id)
    assert len(set(stage.begun)) == len(stage.begun) == 2 * len(ODD_IDS) + 2
    assert set(outcomes(ledger, run_id)) == set(stage.begun)
    for key, name in keys.items():
        path, rounds = bare(key)
        assert path == [f"in {name}", name]
        assert rounds[1:] == [1]
    assert sorted(bare(key)[1][0] for key in keys) == [1] * len(ODD_IDS) + [2] * len(ODD_IDS)
    again, same = await executed(shape, new, run_id)
    assert (again.begun, repr(same)) == ([], repr(message))


@pytest.mark.slow
async def test_a_message_of_ten_million_characters_is_kept(new, run_id):
    def shape(stage, new):
        return flow(
            Do(stage, "a", lambda _: "ä" * 10_000_000), Do(stage, "b", lambda heard: str(len(heard[0]))), into=new()
        )

    await interrupted(shape, new, run_id, 2)
    stage, message = await executed(shape, new, run_id)
    assert (stage.begun, message.scratchpad) == (["b"], "10000000")


@pytest.mark.slow
async def test_a_thousand_operators_are_kept(new, ledger, run_id):
    def shape(stage, new):
        workflow = new()
        middle = [Do(stage, f"m{number}") for number in range(998)]
        begin, end = Do(stage, "begin"), Do(stage, "end", lambda heard: str(len(heard)))
        workflow.add_operator(begin)
        for operator in middle:
            workflow.add_operator(operator, [begin])
        workflow.add_operator(end, middle)
        return workflow

    await interrupted(shape, new, run_id, 1000)
    assert len(outcomes(ledger, run_id)) == 999
    stage, message = await executed(shape, new, run_id)
    assert (stage.begun, message.scratchpad) == (["end"], "998")


# Looking, ending, forgetting


async def test_a_run_is_cancelled_from_elsewhere_and_can_be_gone_on_with(new, db, run_id):
    stage = Stage(2)
    task = asyncio.ensure_future(chain(stage, new).aexecute(JOB, NOBODY, run_id=run_id))
    await asyncio.wait_for(stage.stopped.wait(), RENDEZVOUS)
    elsewhere = Ledger(db)
    elsewhere.cancel(run_id)
    with pytest.raises(InputError, match=f"run '{run_id}' was cancelled; to resume it: operad runs resume {run_id}"):
        await asyncio.wait_for(task, RENDEZVOUS)
    assert elsewhere.run(run_id).state == CANCELLED
    with pytest.raises(InputError, match="has ended already: it is cancelled"):
        elsewhere.cancel(run_id)
    second, _ = await executed(chain, new, run_id)
    assert second.begun == ["b", "c"]
    assert elsewhere.run(run_id).state == FINISHED


async def test_a_run_that_nobody_drives_is_cancelled(new, ledger, run_id):
    await interrupted(chain, new, run_id, 2)
    assert ledger.run(run_id).state == RUNNING
    ledger.cancel(run_id)
    assert ledger.run(run_id).state == CANCELLED
    assert (await executed(chain, new, run_id))[0].begun == ["b", "c"]


async def test_a_run_is_forgotten_with_all_that_was_kept(new, ledger, run_id):
    await executed(chain, new, run_id)
    ledger.delete(run_id)
    for look in (
        ledger.run,
        ledger.timeline,
        ledger.events,
        ledger.questions,
        ledger.delete,
        ledger.cancel,
        ledger.retry,
    ):
        with pytest.raises(InputError, match=f"no run has the id '{run_id}'.*to list the runs: operad runs list"):
            look(run_id)
    stage, _ = await executed(chain, new, run_id)
    assert stage.begun == ["a", "b", "c"]


async def test_what_came_of_operators_can_be_looked_at(new, ledger, run_id):
    def shape(stage, new):
        workflow = flow(
            Do(stage, "a"), Do(stage, "b", in_round(fails(KeyError("k")), lambda _: "b")), into=new(max_rounds=2)
        )
        workflow.name = "looked at"
        return workflow

    await executed(shape, new, run_id)
    kept = outcomes(ledger, run_id)
    assert list(kept) == ["a", "b", "b@2"]
    assert kept["a"].message.scratchpad == "a()"
    assert (kept["a"].usage, [type(event).__name__ for event in kept["a"].events]) == (USAGE, ["ModelAnswered"])
    assert repr(kept["b"].error) == "KeyError('k')"
    newest = ledger.runs()[0]
    assert (newest.run_id, newest.workflow, newest.state) == (run_id, "looked at", FINISHED)
    assert newest.created <= newest.updated
    with pytest.raises(InputError, match=f"did you mean '{run_id}'"):
        ledger.run(run_id[:-1])


# Changes meanwhile


async def test_a_run_is_gone_on_with_by_the_same_workflow_and_on_the_same_job_alone(new, run_id):
    await interrupted(chain, new, run_id, 2)

    def longer(stage, new):
        return flow(*(Do(stage, name) for name in "axc"), into=new())

    with pytest.raises(InputError) as caught:
        await executed(longer, new, run_id)
    assert str(caught.value).splitlines()[1:] == [
        "  b is gone",
        "  c comes after x, and came after b",
        "  x is new",
        "undo the change, or begin a run with another id",
    ]
    other = JOB.model_copy(update={"goal": "other", "inputs": {}})
    with pytest.raises(
        InputError,
        match="has another job: its goal and inputs differ; to run this job, give another run id; to get the result",
    ):
        await chain(Stage(), new).aexecute(other, NOBODY, run_id=run_id)
    fresh = JOB.model_copy(update={"id": "another", "session_id": "another"})
    message = await chain(Stage(), new).aexecute(fresh, NOBODY, run_id=run_id)
    assert message.job_id == "J", "the job is the one that the run began with"


async def test_an_operator_and_what_follows_from_it_is_done_anew(new, ledger, run_id):
    await executed(judged, new, run_id)
    with pytest.raises(InputError, match=r"no operator has the path 'bb'.*did you mean 'b'"):
        ledger.restart_from(run_id, "bb", judged(Stage(), new))
    copy = ledger.restart_from(run_id, "b", judged(Stage(), new), round=2)
    again = {row.key for row in ledger.steps.of_run(run_id)} - {row.key for row in ledger.steps.of_run(copy)}
    stage, _ = await executed(judged, new, copy)
    assert stage.begun == sorted(again, key=stage.begun.index)
    assert stage.begun == ["b@2", "c@2", "judge@2", "a@3", "b@3", "c@3", "judge@3"]


# What somebody else wrote into the database


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


@pytest.fixture
def planted(tmp_path):
    """A pickle that touches a file when it is read."""
    canary = tmp_path / "canary"
    yield base64.b64encode(pickle.dumps(Canary(canary))).decode()
    assert not canary.exists()
    pickle.loads(pickle.dumps(Canary(canary)))  # noqa: S301 - so that the test could have failed
    assert canary.exists()


async def test_a_pickle_that_somebody_planted_is_not_read(planted, new, db, ledger, run_id):
    await interrupted(chain, new, run_id, 3)
    with closing(sqlite3.connect(db)) as connection, connection:
        change = "UPDATE operad_steps SET outcome = ? WHERE run_id = ? AND key = 'b'"
        assert connection.execute(change, (planted, run_id)).rowcount == 1
    connection.close()
    assert "the stored value cannot be read" in str(outcomes(ledger, run_id)["b"].error)
    with pytest.raises(OperatorError, match=r"'b' .*the stored value cannot be read"):
        await executed(chain, new, run_id)


@pytest.mark.parametrize("column", ["call", "result", "graph"])
async def test_what_cannot_be_read_of_a_run_is_said_in_words(column, new, db, run_id):
    await (interrupted(chain, new, run_id, 2) if column != "result" else executed(chain, new, run_id))
    for text in ('"nonsense"', "[]", "{}", "gASV"):
        with closing(sqlite3.connect(db)) as connection, connection:
            connection.execute(f'UPDATE operad_runs SET "{column}" = ? WHERE run_id = ?', (text, run_id))  # noqa: S608
        connection.close()
        with pytest.raises(InputError):
            await executed(chain, new, run_id)


# A file that another process holds


HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(db):
    """A process that is in the midst of writing into the file."""
    Ledger(db).runs()
    Ledger(db).close()  # so that this process begins anew
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        said: Any = process.stdout
        assert said.readline() == "held\n"
        yield process
        process.kill()


async def test_who_begins_waits_for_who_writes_and_says_so(new, db, run_id, holder, monkeypatch, caplog):
    monkeypatch.setattr(database, "_BUSY_MS", 20)
    task = asyncio.ensure_future(executed(chain, new, run_id))
    await until(lambda: f"process {holder.pid} is writing into it" in caplog.text)
    assert not task.done()
    holder.kill()
    _, message = await task
    assert message.scratchpad == "c(b(a()))"
    assert caplog.text.count("waiting for the database") == 1


async def test_who_only_looks_does_not_wait_for_who_writes(new, db, run_id, holder):
    ledger = Ledger(db)
    assert run_id not in {run.run_id for run in ledger.runs()}
    with pytest.raises(InputError, match="no run has the id"):
        ledger.timeline(run_id)


CLOSES = """
import asyncio, sys
from operad.runtime import BuiltinWorkflow, Job, PausedError, WorkflowMessage, interrupt
from operad.runtime.durable import Ledger
from operad.runtime.testing import ScriptedReasoner

class Ask:
    def get_id(self):
        return "ask"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return WorkflowMessage(scratchpad=str(await interrupt("ok?")))

def begin(run_id):
    ledger, workflow = Ledger(sys.argv[1]), BuiltinWorkflow()
    workflow.add_operator(Ask())
    workflow.keep_in(ledger)
    return ledger, workflow, workflow.aexecute(Job(goal="goal"), ScriptedReasoner([]), run_id=run_id)

async def closed_in_the_loop(run_id):
    ledger, workflow, work = begin(run_id)
    try:
        await work
    except PausedError:
        ledger.close()

def closed_outside(run_id):
    ledger, workflow, work = begin(run_id)
    work.close()
    try:
        workflow.execute(Job(goal="goal"), ScriptedReasoner([]), run_id=run_id)
    except PausedError:
        ledger.close()

asyncio.run(closed_in_the_loop("in"))
closed_outside("out")
for run_id in ("in", "out"):
    ledger, workflow, work = begin(run_id)
    ledger.answer(run_id, {"ask": run_id})
    print(asyncio.run(work).scratchpad)
closed_outside("left")
"""


def test_closing_while_runs_wait_for_a_person_ends_them_here_and_they_can_be_resumed(tmp_path, forked):
    done = forked.run([sys.executable, "-c", CLOSES, str(tmp_path / "runs.sqlite")])
    assert (done.stdout, done.stderr, done.returncode) == ("in\nout\n", "", 0)


PROGRAM = """
import sys
from operad import PausedError, Workflow, operator
from operad.runtime import RunContext


async def pay(context: RunContext) -> str:
    return "paid" if await context.ask("Pay?", "boolean") else "not paid"


async def give(context: RunContext) -> str:
    return await pay(context)


flow = Workflow(operator(give if "give" in sys.argv else pay), durable="runs.db")
if __name__ == "__main__":
    try:
        flow.run("x", run_id="r")
    except PausedError as error:
        print(error)
"""

IMPORTING = """
from program import flow
from operad.runtime import InputError
try:
    print(flow.resume("r", {"pay": %s}).output)
except InputError as error:
    print(error, flow.questions("r"))
"""


@pytest.mark.slow
def test_a_run_of_a_program_goes_on_in_one_that_imports_it_and_a_refused_answer_is_not_kept(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "pay: Pay?" in run("program.py")
    refused = run("-c", IMPORTING % "True", "give")
    assert "run 'r' began with another workflow" in refused
    assert "id='pay'" in refused  # it still waits
    assert run("-c", IMPORTING % "False") == "not paid\n"


def test_a_database_in_a_folder_that_does_not_exist_is_refused_and_makes_no_folder(tmp_path):
    with pytest.raises(
        InputError, match=r"none/runs.db: the folder .*/none does not exist; create it, or name another file"
    ):
        BuiltinWorkflow(lambda text: text, durable=tmp_path / "none" / "runs.db").run("x")
    assert list(tmp_path.iterdir()) == []


def judge_of_words(draft: str) -> WorkflowMessage:
    """The first draft is the best, and none is good enough."""
    score = 1.0 if draft == "draft 1" else 0.0
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson="better", blame=("draft",), score=score)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_the_answers_of_a_finished_run_are_those_of_its_best_round_and_of_maps_too(db, is_resumed):
    run_id = f"answers-{is_resumed}"

    def letters(job: Job) -> list[str]:
        return list(job.goal)

    def twice(letter: str) -> str:
        return letter * 2

    async def draft(twice: list[str], context: RunContext) -> str:
        if is_resumed and context.round == 1:
            await context.ask("Go on?")
        return f"draft {context.round}"

    ledger = Ledger(db)
    inner = Workflow(as_operator(twice), name="twice")
    steps = as_operator(letters) >> Map("each", inner, over="letters") >> as_operator(draft)
    flow = Workflow(steps, evaluator=judge_of_words, max_rounds=2, durable=ledger)
    if is_resumed:
        with pytest.raises(PausedError):
            flow.run("ab", run_id=run_id)
        ledger.close()
        flow.resume(run_id, {"draft": "yes"})
    first, again = flow.run("ab", run_id=run_id), flow.run("ab", run_id=run_id)
    assert [(each.text, each.output, each["draft"], each["each"]) for each in (first, again)] == [
        ("draft 1", "draft 1", "draft 1", ["aa", "bb"])
    ] * 2
    assert [*again.messages] == [*first.messages]
    ledger.close()
