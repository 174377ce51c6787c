"""What is kept of a run, told as its events: while it goes on, when it asks, and however it ends."""

import asyncio
import json
import re
import sys
from contextlib import closing, suppress
from typing import Any
from uuid import uuid4

import pytest
from amounts import sample

from operad.runtime import (
    BuiltinWorkflow,
    DurableWorkflow,
    InputError,
    Job,
    Map,
    OperatorError,
    Policy,
    Retry,
    events,
    interrupt,
)
from operad.runtime.durable import Ledger
from operad.runtime.testing import ScriptedReasoner

JOB = Job(goal="goal")
NOBODY = ScriptedReasoner([])
RENDEZVOUS = 60.0


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("runs") / "runs.sqlite")
    yield path
    Ledger(path).close()


@pytest.fixture
def ledger(db):
    return Ledger(db)


@pytest.fixture
def run_id():
    return f"run-{uuid4()}"


class Code:
    """An operator of code."""

    def __init__(self, op_id, work=None):
        self._id, self._work = op_id, work

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await self._work() if self._work else self._id


def flow(*chain, into=None) -> Any:
    workflow, before = into if into is not None else BuiltinWorkflow(), None
    for operator in chain:
        workflow.add_operator(operator, [before] if before else None)
        before = operator
    return workflow


def raises(error):
    async def work():
        raise error

    return work


def shown(told):
    """Events as texts: what happened where."""
    return [f"{type(event).__name__} {'/'.join(event.path)}".strip() for event in told]


async def until(holds):
    """Wait for something that comes of itself."""
    for _ in range(int(RENDEZVOUS / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to that")


def gated(*names):
    """Gates by name, and what waits for one and says its name."""
    gates = {name: asyncio.Event() for name in names}

    def through(name):
        async def work():
            await gates[name].wait()
            return name

        return Code(name, work)

    return gates, through


async def test_a_run_that_goes_on_is_told_further_each_time(db, ledger, run_id):
    gates, code = gated("a", "p", "q", "z")
    body = flow(code("p"), code("q"), into=BuiltinWorkflow(name="in"))
    workflow, heard = flow(code("a"), body, code("z"), into=DurableWorkflow(db, name="w")), []
    workflow.add_listener(heard.append)
    task = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=run_id))
    told: list[Any] = []
    for name, path in (("a", "a"), ("p", "in/p"), ("q", "in/q"), ("z", "z")):
        await until(lambda path=path: f"OperatorStarted {path}" in shown(told_of(ledger, run_id)))
        before, told = told, shown(ledger.events(run_id))
        assert told[: len(before)] == before
        gates[name].set()
    await task
    whole = ledger.events(run_id)
    assert whole == heard
    assert shown(whole)[: len(told)] == told
    assert shown(whole) == [
        "RunStarted",
        "RoundStarted",
        "OperatorStarted a",
        "OperatorFinished a",
        "OperatorStarted in",
        "WorkflowEntered in",
        "RoundStarted in",
        "OperatorStarted in/p",
        "OperatorFinished in/p",
        "OperatorStarted in/q",
        "OperatorFinished in/q",
        "RoundFinished in",
        "OperatorFinished in",
        "OperatorStarted z",
        "OperatorFinished z",
        "RoundFinished",
        "RunFinished",
    ]
    assert whole[0].goal == "goal"
    assert whole[12].message.scratchpad == "q"
    assert whole[12].message.operator_id == "in"
    assert whole[-1].message.scratchpad == "z"
    seconds = sum(
        event.seconds for event in whole if isinstance(event, events.OperatorFinished) and len(event.path) < 2
    )
    assert 0 < seconds <= whole[-1].seconds


def told_of(ledger, run_id):
    """What is told of a run; nothing, where it has not begun yet."""
    with suppress(InputError):
        return ledger.events(run_id)
    return []


async def test_what_is_asked_and_answered_is_told(db, ledger, run_id):
    async def ask():
        return str(await interrupt("Sure?", "boolean")) + str(await interrupt("Really?"))

    def workflow():
        return flow(Code("a"), Code("pay", ask), into=DurableWorkflow(db))

    async def until_it_asks():
        stream = workflow().stream(JOB, NOBODY, run_id=run_id)
        async for event in stream:
            if isinstance(event, events.Interrupted):
                break
        await stream.aclose()

    await until_it_asks()
    asked = ledger.events(run_id)
    assert shown(asked)[-2:] == ["OperatorStarted pay", "Interrupted pay"]
    assert (asked[-1].interrupt_id, asked[-1].question, asked[-1].schema) == ("pay", "Sure?", {"type": "boolean"})
    ledger.answer(run_id, {"pay": True})
    answered = ledger.events(run_id)
    assert answered[: len(asked)] == asked
    assert shown(answered[len(asked) :]) == ["Resumed pay"]
    assert answered[-1].seconds > 0
    await until_it_asks()
    (open_,) = ledger.open_questions(run_id)
    ledger.answer(run_id, {open_.id: "yes"})
    assert (await workflow().aexecute(JOB, NOBODY, run_id=run_id)).scratchpad == "Trueyes"
    whole = ledger.events(run_id)
    assert [line for line in shown(whole) if line.endswith("pay")] == [
        "OperatorStarted pay",
        "Interrupted pay",
        "Resumed pay",
        "Interrupted pay",
        "Resumed pay",
        "OperatorFinished pay",
    ]


async def test_a_run_that_fails_is_told_with_who_failed_and_who_was_stopped(db, ledger, run_id):
    _, code = gated("never")

    async def fail():
        await until(lambda: "OperatorStarted never" in shown(told_of(ledger, run_id)))
        raise ValueError("broken")

    body = flow(Code("p"), Code("q", fail), into=BuiltinWorkflow(name="in"))
    workflow = flow(body, Code("after"), into=DurableWorkflow(db))
    workflow.add_operator(code("never"))
    with pytest.raises(OperatorError):
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    told = ledger.events(run_id)
    assert shown(told)[-1] == "RunFailed"
    assert set(shown(told)[-4:-1]) == {"OperatorFailed in/q", "OperatorFailed in", "OperatorCancelled never"}
    failed = {event.operator_id: event for event in told if isinstance(event, events.OperatorFailed)}
    assert failed["q"].error == "ValueError: broken"
    assert failed["in"].error == "operator 'q' of workflow 'in' failed on attempt 1: ValueError: broken"
    assert "broken" in told[-1].error
    ledger.retry(run_id)
    assert "RunFailed" not in shown(ledger.events(run_id))
    assert "OperatorFailed in/q" not in shown(ledger.events(run_id))


async def test_a_run_that_was_cancelled_says_so(db, ledger, run_id):
    _, code = gated("never")
    workflow = flow(code("never"), into=DurableWorkflow(db))
    task = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=run_id))
    await until(lambda: "OperatorStarted never" in shown(told_of(ledger, run_id)))
    ledger.cancel(run_id)
    with pytest.raises(InputError, match="cancelled"):
        await task
    told = ledger.events(run_id)
    assert shown(told) == [
        "RunStarted",
        "RoundStarted",
        "OperatorStarted never",
        "OperatorCancelled never",
        "RunFailed",
    ]
    assert told[-1].error == "it was cancelled"


async def test_attempts_are_told_with_what_happened_in_them(db, ledger, run_id):
    tries = []

    async def work():
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("gone")
        return "there"

    workflow = DurableWorkflow(db)
    workflow.add_operator(Code("a", work), policy=Policy(retry=Retry(3, first_delay=0.001)))
    await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    told = [event for event in ledger.events(run_id) if event.operator_id == "a"]
    assert [(type(event).__name__, event.attempt) for event in told] == [
        ("OperatorStarted", 1),
        ("OperatorRetried", 1),
        ("OperatorRetried", 2),
        ("OperatorFinished", 3),
    ]


async def test_items_of_a_map_are_told_by_their_numbers(db, ledger, run_id):
    workflow = flow(Map("each", Code("do"), over="list"), into=DurableWorkflow(db))
    await workflow.aexecute(Job(goal="g", inputs={"list": list("abcdefghijkl")}), NOBODY, run_id=run_id)
    told = ledger.events(run_id)
    assert {event.path for event in told if isinstance(event, events.WorkflowEntered)} == {
        (f"each[{number}]",) for number in range(12)
    }
    (each,) = [event for event in told if isinstance(event, events.OperatorFinished) and event.path == ("each",)]
    assert each.message.scratchpad == "\n\n".join(["do"] * 12)


async def test_all_of_it_can_be_written_as_json(db, ledger, run_id):
    await flow(Code("a"), into=DurableWorkflow(db)).aexecute(JOB, NOBODY, run_id=run_id)
    told = [event.as_dict() for event in ledger.events(run_id)]
    assert json.loads(json.dumps(told)) == told
    assert told[0]["event"] == "RunStarted"
    assert {event["run_id"] for event in told} == {run_id}


def test_a_run_that_is_not_there_is_not_told(ledger):
    with pytest.raises(InputError, match="no run has the id"):
        ledger.events("nobody")


FLOW = """
import json, os, sys
from operad.runtime import BuiltinWorkflow, Job, Map, WorkflowMessage, WorkflowStatus
from operad.runtime.durable import Ledger
from operad.runtime.events import current_scope, emit
from operad.runtime.events import Progress
from operad.runtime.events.journal import key_of
from operad.runtime.testing import ScriptedReasoner

path, run_id, dies_at = sys.argv[1:]

class Step:
    def __init__(self, name, blames=()):
        self._name, self._blames = name, blames

    def get_id(self):
        return self._name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        scope = current_scope()
        emit(Progress(done=1, total=2))
        if dies_at == key_of(scope):
            os._exit(9)
        blames = self._blames if scope.round == 1 else ()
        status = WorkflowStatus.EXECUTION_ERROR if blames else WorkflowStatus.SUCCESS
        return WorkflowMessage(scratchpad=self._name, blame=blames, status=status, lesson="again" if blames else "")

body = BuiltinWorkflow(name="in")
p, q = Step("p"), Step("q")
body.add_operator(p)
body.add_operator(q, [p])
flow = BuiltinWorkflow(name="w", max_rounds=2)
first, each, last = Step("a"), Map("each", Step("item"), over="list"), Step("z")
flow.add_operator(first)
flow.add_operator(body, [first])
flow.add_operator(each, [first])
flow.add_operator(last, [body, each])
flow.set_evaluator(Step("judge", ("in",)))
with Ledger(path) as ledger, open(f"{path}.{run_id}", "a") as heard:
    flow.keep_in(ledger)
    flow.add_listener(lambda event: print(json.dumps(event.as_dict()), file=heard, flush=True))
    flow.execute(Job(goal="goal", inputs={"list": ["x", "y"]}), ScriptedReasoner([]), run_id=run_id)
"""


@pytest.mark.parametrize("place", sample(["each[1]/item", "a", "in/p", "in/q", "judge@2", "z", "judge", "in@2/q"], 4))
def test_a_run_whose_process_is_killed_is_told_as_if_nothing_had_happened(place, tmp_path, forked):
    path = tmp_path / "runs.sqlite"

    def run(name, dies_at=""):
        return forked.run([sys.executable, "-c", FLOW, str(path), name, dies_at]).returncode

    def heard(name):
        return [json.loads(line) for line in (tmp_path / f"{path.name}.{name}").read_text().splitlines()]

    def without_times(told):
        left_out = ("seq", "time", "seconds", "run_id")
        return sorted(repr({k: v for k, v in told_of_one.items() if k not in left_out}) for told_of_one in told)

    assert run("whole") == 0
    assert run("killed", place) == 9
    with closing(Ledger(path)) as ledger:
        at_death = [event.as_dict() for event in ledger.events("killed")]
        lived = heard("killed")
        assert at_death == lived[: len(at_death)], "what is stored was heard, and is its beginning"
        ended = {step.key for step in ledger.timeline("killed") if step.outcome is not None}
        assert run("killed") == 0
        told = [event.as_dict() for event in ledger.events("killed")]
        whole = [event.as_dict() for event in ledger.events("whole")]
    assert without_times(plain(told)) == without_times(plain(whole))
    assert [event["seq"] for event in told] == [*range(1, len(told) + 1)]
    assert [event["time"] for event in told] == sorted(event["time"] for event in told)
    kept = [event for event in at_death if event["event"] == "OperatorStarted" and "/".join(event["path"]) in ended]
    assert [(event["path"], event["time"]) for event in kept] == [
        (event["path"], event["time"])
        for event in told
        if event["event"] == "OperatorStarted" and "/".join(event["path"]) in ended and event["round"] == 1
    ][: len(kept)]


def plain(told):
    """Events without the ids and seconds in their messages."""
    return [
        json.loads(re.sub(r'"(seconds|job_id)": ("[^"]*"|[0-9.e-]+)', r'"\1": 0', json.dumps(event))) for event in told
    ]


async def test_a_run_that_is_cancelled_while_nobody_drives_it_is_told_to_its_end(db, ledger, run_id):
    _, code = gated("never")
    workflow = flow(Code("a"), code("never"), into=DurableWorkflow(db))
    task = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id=run_id))
    await until(lambda: "OperatorStarted never" in shown(told_of(ledger, run_id)))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    interrupted = ledger.events(run_id)
    assert shown(interrupted)[-1] == "OperatorStarted never"
    ledger.cancel(run_id)
    *before, end = ledger.events(run_id)
    assert before == interrupted
    assert (type(end), end.error, end.seq) == (events.RunFailed, events.CANCELLED, len(interrupted) + 1)
    assert ledger.run(run_id).state == "cancelled"
