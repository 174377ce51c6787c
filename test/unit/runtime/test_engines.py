"""Both engines do the same: the schedule decides what runs, an engine only carries it out.

Tests of the schedule, of rounds and policies run on the built-in engine alone. test_joins_properties.py compares both on
random graphs, ports, joins and rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from fake_operators import Echo

from operad.runtime import (
    BuiltinWorkflow,
    DbgptWorkflow,
    FaultError,
    Job,
    OperatorError,
    Policy,
    Port,
    Retry,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import SkippedError

ENGINES = [BuiltinWorkflow, DbgptWorkflow]
JOB = Job(goal="goal", id="job")

TOPOLOGIES: dict[str, tuple[Mapping[str, str], str]] = {
    "one": ({"a": ""}, "a()"),
    "chain": ({"a": "", "b": "a", "c": "b"}, "c(b(a()))"),
    "fan out": ({"a": "", "b": "a", "c": "a"}, "b(a())\n\nc(a())"),
    "fan in": ({"a": "", "b": "", "c": "b a"}, "c(b() a())"),
    "diamond": ({"a": "", "b": "a", "c": "a", "d": "b c"}, "d(b(a()) c(a()))"),
    "shortcut": ({"a": "", "b": "a", "c": "a b"}, "c(a() b(a()))"),
    "islands": ({"a": "", "b": "a", "c": ""}, "b(a())\n\nc()"),
    "ladder": (
        {"a": "", "b": "a", "c": "a", "d": "b c", "e": "b c", "f": "d e"},
        "f(d(b(a()) c(a())) e(b(a()) c(a())))",
    ),
    "port taken": ({"a": "", "b": "a.left", "c": "b"}, "c(b(a))"),
    "port not taken": ({"a": "", "b": "a.right", "c": "a.left"}, "c(a)"),
    "join of a skipped branch": ({"a": "", "b": "a.right", "c": "a.left", "d": "b c"}, "d(c(a))"),
}
"""Whom each operator follows, perhaps by a port, and what comes out."""


def workflow_of(engine, shape, **work):
    heard = []
    workflow = engine(listeners=[heard.append])
    if any("." in before for before in shape.values()):
        work = {"a": lambda: WorkflowMessage(scratchpad="a", ports=("left",)), **work}
    known: dict[str, Any] = {op_id: Echo(op_id, work.get(op_id)) for op_id in shape}
    for op_id, before in shape.items():
        links = [each.partition(".") for each in before.split()]
        workflow.add_operator(known[op_id], [Port(known[b], port) if port else known[b] for b, _, port in links])
    return workflow, heard


def happened(heard):
    """The events of each operator in their order, and those of the run; operators side by side have no order."""
    lines: dict[str, list[Any]] = {}
    for event in heard:
        about = type(event).__name__, event.round, getattr(event, "reason", "")
        lines.setdefault(event.operator_id, []).append(about)
    return lines


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_each_engine_says_and_tells_the_same_of_a_topology(name):
    shape, said = TOPOLOGIES[name]
    told = []
    for engine in ENGINES:
        workflow, heard = workflow_of(engine, shape)
        assert workflow.execute(JOB, ScriptedReasoner([])).scratchpad == said
        told.append(happened(heard))
    assert told[0] == told[1]
    assert told[0].keys() >= set(shape)


@pytest.mark.parametrize("engine", ENGINES)
async def test_operators_that_wait_for_nothing_of_each_other_run_at_once(engine):
    there, both = [], asyncio.Event()

    async def meet():
        there.append("one")
        if len(there) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 20)
        return "met"

    workflow, _ = workflow_of(engine, {"a": "", "b": "", "c": "a b"}, a=meet, b=meet)
    assert (await workflow.aexecute(JOB, ScriptedReasoner([]))).scratchpad == "c(met met)"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failure_ends_the_run_and_names_its_operator(engine):
    def fail():
        raise ValueError("wrong")

    workflow, heard = workflow_of(engine, {"a": "", "b": "a", "c": "b"}, b=fail)
    with pytest.raises(OperatorError, match="wrong") as caught:
        workflow.execute(JOB, ScriptedReasoner([]))
    assert caught.value.operator_id == "b"
    assert [type(event) for event in heard if event.operator_id == "c"] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_whose_every_end_is_skipped_is_an_error(engine):
    workflow, heard = workflow_of(
        engine, {"a": "", "b": "a.right", "c": "b"}, a=lambda: WorkflowMessage(scratchpad="a", ports=())
    )
    with pytest.raises(SkippedError):
        workflow.execute(JOB, ScriptedReasoner([]))
    assert {event.operator_id for event in heard if isinstance(event, events.OperatorSkipped)} == {"b", "c"}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_operator_is_tried_again_as_its_policy_says(engine):
    tries = []

    def fail_twice():
        tries.append("try")
        if len(tries) < 3:
            raise ConnectionError("away")
        return "there"

    workflow, _ = workflow_of(engine, {"a": "", "b": "a"}, a=fail_twice)
    workflow.policy = Policy(retry=Retry(3, first_delay=0.001))
    assert workflow.execute(JOB, ScriptedReasoner([])).scratchpad == "b(there)"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_later_round_runs_what_was_blamed_and_what_follows_it(engine):
    ran = []

    def note(op_id):
        def work(messages):
            ran.append(op_id)
            return f"{op_id} {len(ran)}"

        return work

    class Judge(Echo):
        async def execute(self, *_, **__):
            self.calls += 1
            blame = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson="again", blame=("b",))
            return blame if self.calls == 1 else WorkflowMessage()

    shape = {"a": "", "b": "a", "c": "a", "d": "b c"}
    workflow, heard = workflow_of(engine, shape, **{op_id: note(op_id) for op_id in shape})
    workflow.max_rounds = 2
    workflow.set_evaluator(Judge("judge"))
    assert workflow.execute(JOB, ScriptedReasoner([])).status is WorkflowStatus.SUCCESS
    assert (sorted(ran[:4]), ran[4:]) == (["a", "b", "c", "d"], ["b", "d"])
    assert [event.round for event in heard if isinstance(event, events.RoundStarted)] == [1, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fault_of_an_operator_that_was_kept_has_that_one_run_again(engine):
    calls = []

    def a():
        calls.append("a")
        return f"a{len(calls)}"

    def b(messages):
        if messages[0].scratchpad == "a1":
            raise FaultError("not that", blame=["a"])
        return messages[0].scratchpad

    workflow, _ = workflow_of(engine, {"a": "", "b": "a"}, a=a, b=b)
    workflow.max_rounds = 2
    assert workflow.execute(JOB, ScriptedReasoner([])).scratchpad == "a2"


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_run_that_is_cancelled_stops_its_operators(engine):
    began, stopped = asyncio.Event(), []

    async def hang():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("a")

    workflow, heard = workflow_of(engine, {"a": "", "b": "a"}, a=hang)
    run = asyncio.ensure_future(workflow.aexecute(JOB, ScriptedReasoner([])))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert stopped == ["a"]
    assert not any(event.operator_id == "b" for event in heard)
