"""Runs whose operators are done by workers come to what they would have come to here.

The workers are processes of their own that run `work` of this file.
"""

import asyncio
import datetime as dt
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from amounts import sample
from pydantic import BaseModel

pytest.importorskip("sqlalchemy")

from sqlalchemy import NullPool, create_engine, text

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Budget,
    BuiltinWorkflow,
    Expert,
    FaultError,
    FileDescriptor,
    InputError,
    Insights,
    InvalidError,
    Job,
    Leader,
    Map,
    OperatorError,
    Policy,
    Port,
    Profile,
    Retry,
    RunContext,
    Timeout,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime import operator as as_operator
from operad.runtime.durable import Ledger, Served, Worker, delivery
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.process_ids import version_here
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import CANCELLED
from operad.runtime.durable.work_table import Request, delivery_queue
from operad.runtime.events import current_scope, emit
from operad.runtime.events.journal import idempotency_key
from operad.runtime.policies.policy import causes
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.message import new_id

JOB = Job(goal="goal", id="J", session_id="S", inputs={"list": ["x", "y", "z"]})
USAGE = Usage(calls=1, prompt_tokens=2, completion_tokens=3)
WRONG = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="wrong", lesson="better")
RENDEZVOUS = 60.0
AT_ONCE = 3

FOLDER = Path(os.environ.get("OPERAD_TEST_FOLDER", "."))
"""Where operators note what they do, and wait for files that let them go on; a test's process sets it, too."""


UNDER_THE_SAME_NAME = """
import sys
from importlib.util import module_from_spec, spec_from_file_location

_, name, file, *arguments = sys.argv
spec = spec_from_file_location(name, file)
sys.modules[name] = module = module_from_spec(spec)
spec.loader.exec_module(module)
module.work(*arguments)
"""
"""Classes of this file are called there as they are here."""


def here():
    scope = current_scope()
    assert scope is not None
    return scope


def note(what):
    with (FOLDER / "notes.txt").open("a") as file:
        file.write(f"{what} {os.getpid()}\n")


def noted(run_id):
    """What operators of a run have noted: the words, with the processes."""
    path = FOLDER / "notes.txt"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(key.partition(":")[2], int(pid)) for key, pid in lines if key.startswith(f"{run_id}:")]


async def until(condition):
    """Wait until something is so; what it is."""
    end = time.monotonic() + RENDEZVOUS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.02)
    return found


class OddError(Exception):
    """One whose constructor takes something else than its text."""

    def __init__(self, number, *, hint):
        super().__init__(f"odd: {number}")
        self.hint = hint


class Do:
    """An operator that says what it heard; or does what `work` does with that."""

    def __init__(self, op_id, work=None):
        self._id, self._work = op_id, work

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        note(idempotency_key())
        heard = [message.scratchpad for message in workflow_messages or []]
        if self._work is None:
            emit(events.ModelAnswered(model="m", usage=USAGE))
            return f"{self._id}({', '.join(heard)})" + (f" [{lesson}]" if lesson else "")
        said = self._work(heard)
        return await said if asyncio.iscoroutine(said) else said


class Judge(Evaluator):
    """One that judges each round as it is told, and says on what grounds."""

    def __init__(self, *verdicts, op_id="judge"):
        super().__init__(OperatorConfig(instruction="Judge.", id=op_id))
        self._verdicts = verdicts

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        note(idempotency_key())
        trail = [(each.operator_id, each.instruction) for each in here().run.transcript()]
        verdict = self._verdicts[here().round - 1]
        return verdict.model_copy(update={"evaluation": f"{verdict.evaluation} {trail}"})


def flow(*chain, evaluator=None, policies=None, **options):
    """Operators one after another."""
    workflow, before = BuiltinWorkflow(**options), None
    for operator in chain:
        policy = (policies or {}).get(operator.get_id())
        workflow.add_operator(operator, [before] if before else None, policy=policy)
        before = operator
    if evaluator:
        workflow.set_evaluator(evaluator)
    return workflow


def fails(error):
    def work(_):
        raise error

    return work


def fails_from(error, cause):
    def work(_):
        raise error from cause

    return work


async def forever(_):
    await asyncio.Event().wait()


def outputs(**values):
    return lambda _: WorkflowMessage(outputs=values)


def at_attempt(number):
    def work(_):
        emit(events.ModelAnswered(model="m", usage=USAGE))
        if here().attempt < number:
            raise ConnectionError("gone")
        return f"at attempt {here().attempt}"

    return work


def spend(calls):
    def work(_):
        for _ in range(calls):
            emit(events.ModelAnswered(model="m", usage=USAGE))
        return "spent"

    return work


# What is the same wherever its operators are done


def nested():
    inmost = flow(Do("a"), Do("b"), name="in", max_rounds=2, evaluator=Judge(WRONG, WorkflowMessage()))
    return flow(Do("begin"), flow(Do("first"), inmost, Do("last"), name="mid"), Do("end"))


def mapped(on_error):
    def work(heard):
        if heard == ["y"]:
            raise ValueError("no y")
        return f"did {heard}"

    each = Map("each", flow(Do("one", work), name="body"), on_error=on_error, concurrency=1)
    return flow(Do("a", outputs(items=["x", "y", "z"])), each, Do("end", lambda heard: heard[0]))


def mapped_functions():
    """A map whose body is a workflow of functions, which get the item, its index and what came before by name."""

    def letters(job: Job) -> list[str]:
        note(idempotency_key())
        return [f"{letter}{job.goal}" for letter in "xy"]

    def grown(item: str, index: int, letters: list[str]) -> list[str]:
        note(idempotency_key())
        return [item * (index + 1), f"of {len(letters)}"]

    def inner(word: str, grown: list[str]) -> str:
        note(idempotency_key())
        return f"{word} in {grown}"

    def end(each: list[object]) -> str:
        note(idempotency_key())
        return repr(each)

    body = BuiltinWorkflow(as_operator(grown) >> Map("words", inner, over="grown"), name="body")
    return BuiltinWorkflow(as_operator(letters) >> Map("each", body, over="letters", concurrency=1) >> as_operator(end))


def judged():
    """Three rounds: the second does b again, the third all."""
    blames = WRONG.model_copy(update={"blame": ("b",)})
    return flow(
        Do("a"), Do("b"), Do("c"),
        max_rounds=3,
        evaluator=Judge(blames, WRONG.model_copy(update={"lesson": "still better"}), WorkflowMessage(evaluation="fine")),
    )  # fmt: skip


def at_fault():
    def work(heard):
        if here().round == 1:
            raise FaultError("f", lesson="mind", blame=["a"])
        return f"b{heard}"

    return flow(Do("a"), Do("b", work), max_rounds=2)


def ported(port="yes"):
    route = Do("route", lambda _: WorkflowMessage(scratchpad="r", ports=(port,)))
    workflow, yes, no = flow(route), Do("yes"), Do("no")
    workflow.add_operator(yes, [Port(route, "yes")])
    workflow.add_operator(no, [Port(route, "no")])
    workflow.add_operator(Do("end"), [yes, no])
    return workflow


def skipped():
    route = Do("route", lambda _: WorkflowMessage(ports=()))
    workflow = flow(route)
    workflow.add_operator(Do("end"), [Port(route, "yes")])
    return workflow


def with_policy(work, **policy):
    return flow(Do("a"), Do("b", work), Do("c"), policies={"b": Policy(**policy)})


RETRY = Retry(3, first_delay=0.001)


class Everything(BaseModel):
    """Values of types that JSON lacks, under the name that a message gives to a plain value."""

    output: Decimal = Decimal("1.10")
    at: dt.datetime = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    tags: set[str] = {"a", "b"}
    by_number: dict[int, tuple[int, str]] = {1: (2, "x")}
    deep: dict[str, Any] = {"items": [1], "output": {"output": None}}


def give(job: Job) -> Everything:
    note(idempotency_key())
    return Everything()


def spoil(give: Everything) -> dict[str, int]:
    note(idempotency_key())
    give.deep["items"].append(2)
    give.tags.clear()
    return {"output": 3}


def take(give: Everything, spoil: dict[str, int]) -> str:
    note(idempotency_key())
    return f"{give == Everything()} {spoil}"


def values():
    """Functions whose values must arrive as they were, although one of them changes what it gets."""
    workflow = flow(as_operator(give), as_operator(spoil))
    workflow.add(as_operator(take), after=["give", "spoil"])
    return workflow


SHAPES = {
    "values of functions": values,
    "nested": nested,
    "map that fails": lambda: mapped("fail"),
    "map that skips": lambda: mapped("skip"),
    "map that keeps": lambda: mapped("keep"),
    "map of functions": mapped_functions,
    "items at once": lambda: flow(Map("each", flow(Do("one"), Do("two"), name="body"), over="list"), Do("end")),
    "judged": judged,
    "at fault": at_fault,
    "ports": ported,
    "a port that is none": lambda: ported("yse"),
    "all is skipped": skipped,
    "second attempt": lambda: with_policy(at_attempt(2), retry=RETRY),
    "no attempt": lambda: with_policy(at_attempt(9), retry=RETRY),
    "too slow": lambda: with_policy(forever, timeout=Timeout(run=0.05)),
    "too slow twice": lambda: with_policy(forever, timeout=Timeout(idle=0.05), retry=Retry(2, first_delay=0.001)),
    "falls back to a text": lambda: with_policy(fails(ValueError("broke")), fallback="else"),
    "falls back to an operator": lambda: with_policy(fails(ValueError("broke")), fallback=Do("b")),
    "falls back to what fails": lambda: with_policy(
        fails(ValueError("broke")), fallback=Do("b", fails(KeyError("too")))
    ),
    "error": lambda: flow(Do("a"), Do("b", fails_from(ValueError("broke"), OSError(2, "no such", "file")))),
    "error of its own kind": lambda: flow(Do("b", fails(OddError(3, hint="it was hot")))),
    "no message": lambda: flow(Do("b", lambda _: 17)),
    "budget": lambda: flow(Do("a"), Do("b", spend(3)), Do("c"), budget=Budget(calls=3)),
    "budget around": lambda: flow(
        Do("a"), flow(Do("b", spend(3)), Do("c"), name="in"), Do("d"), budget=Budget(calls=3)
    ),
}  # fmt: skip


# What a test of its own is about

FORM = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}


async def ask(_):
    return repr(await interrupt("How many?", FORM))


async def gate(_):
    """Wait until the file `go` is there; and note it if that is stopped."""
    try:
        await until((FOLDER / f"{here().run.log.run_id}.go").exists)
    except asyncio.CancelledError:
        note(f"{idempotency_key()}-stopped")
        raise
    return "went"


async def in_a_crowd(_):
    """Wait until as many are at it as may be, in two runs."""
    both = here().run.log.run_id[:-1]
    await until(lambda: sum(len(noted(f"{both}{run}")) for run in "01") >= AT_ONCE)
    note(f"{idempotency_key()}-ends")
    return "was there"


def beside():
    """While one operator waits, another fails."""

    async def work(_):
        await until(lambda: "hangs" in dict(noted(here().run.log.run_id)))
        raise ValueError("broke")

    workflow = flow(Do("hangs", gate))
    workflow.add_operator(Do("breaks", work))
    return workflow


def made_file(_):
    path = FOLDER / "made.txt"
    path.write_text("made there")
    return WorkflowMessage(outputs={"file": FileDescriptor.of(path)})


def file_again(heard):
    (FOLDER / "made.txt").write_text("overwritten")
    return "done"


def insightful():
    """A workflow with insights, and one in it that has none of its own."""
    inner = flow(Operator(OperatorConfig(instruction="Ask.", id="asks")), name="in")
    judge = Judge(WRONG, WorkflowMessage())
    return flow(inner, evaluator=judge, max_rounds=2, insights=Insights(FOLDER / "insights.sqlite"))


def take_deps(_):
    return str(RunContext.current(annotation=RunContext[int]).deps)


OTHERS = {
    "deps": lambda: flow(Do("a", take_deps)),
    "plain": lambda: flow(Do("a"), Do("b")),
    "a set": lambda: flow(Do("a", lambda _: WorkflowMessage(outputs={"f": {1, 2}}))),
    "asks": lambda: flow(Do("a"), Do("asks", ask)),
    "waits": lambda: flow(Do("a"), Do("waits", gate), Do("b")),
    "beside": beside,
    "crowd": lambda: flow(Map("each", flow(Do("one", in_a_crowd), name="body"), over="list"), name="crowd"),
    "file": lambda: flow(Do("a", made_file), evaluator=None),
    "insightful": insightful,
}


def agents():
    every = {**SHAPES, **OTHERS}
    thinks = ScriptedReasoner(lambda task: f"thought of {[each.text for each in task.insights]}")
    experts = {name: Expert(Profile(name=name), shape(), thinks) for name, shape in every.items()}
    return experts, Served("agents", list(experts.values()))


def work(db, version, concurrency):
    """A worker; it ends as it is told to."""
    _, served = agents()

    async def serve():
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await Worker(db, [served], concurrency=int(concurrency), version=version or None).serve(stop, grace=0)

    asyncio.run(serve())


def test_workers_need_a_server(tmp_path):
    _, served = agents()
    for begin in (lambda path: Worker(path, [served]), lambda path: Ledger(path, workers=served)):
        with pytest.raises(
            InputError, match=r"runs.sqlite is an SQLite file; to start a local server.*: operad postgres"
        ):
            begin(tmp_path / "runs.sqlite")
    assert not list(tmp_path.iterdir())


async def test_a_worker_that_cannot_serve_leaves_the_database(postgresql, monkeypatch):
    async def deliver(_):
        raise InputError("the queue is broken")

    _, served = agents()
    url = postgresql.new()
    worker = Worker(url, [served])
    threads = {thread.name for thread in threading.enumerate()}
    monkeypatch.setattr("operad.runtime.durable.delivery.Deliveries.run", deliver)
    with pytest.raises(InputError, match="the queue is broken"):
        await worker.serve(asyncio.Event())
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("operad-presence")} <= threads
    ledger = Ledger(url)
    assert worker.executor.id not in [executor.id for executor in ledger.store.executors()]
    ledger.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    global FOLDER
    FOLDER = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(FOLDER / "state"))
        yield FOLDER


@pytest.fixture(scope="module")
def db(postgresql):
    url = postgresql.new()
    yield url
    Ledger(url).close()


@pytest.fixture(scope="module")
def start(db, folder, forked):
    """Begins a worker; those that are left are ended."""
    begun = []

    def start(version="", concurrency=AT_ONCE):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPERAD_TEST_FOLDER": str(folder)}
        command = [sys.executable, "-c", UNDER_THE_SAME_NAME, __name__, __file__, db, version, str(concurrency)]
        begun.append(forked.begin(command, env=environment))
        return begun[-1]

    yield start
    for process in begun:
        process.terminate()
    assert [process.wait(RENDEZVOUS) for process in begun] == [0] * len(begun)


@pytest.fixture(scope="module")
def worker(start):
    """The worker of all tests."""
    return start()


@pytest.fixture
def made(db, worker):
    """The agents as the worker has them, by name; their runs are kept, and done by it."""
    experts, served = agents()
    for expert in experts.values():
        expert.workflow.keep_in(Ledger(db, workers=served))
    return experts


@pytest.fixture
def ledger(db):
    return Ledger(db)


@pytest.fixture
def run_id():
    return f"run-{uuid4()}"


async def told(expert, run_id=None):
    """What comes of it, in words: the message, or the errors; what happened on the way; and which work was done."""
    run_id = run_id or f"plain-{uuid4()}"
    happened = []
    expert.workflow.add_listener(happened.append)
    try:
        came = meaning(await asyncio.wait_for(expert.aexecute(JOB, run_id=run_id), RENDEZVOUS))
    except Exception as error:  # noqa: BLE001 - it is what came of it
        came = [
            (type(link).__name__, type(link).__mro__[-3].__name__, str(link).replace(run_id, "RUN"))
            for link in causes(error)
        ]
    seen = Counter((event.path, event.operator_id, event.round, event.attempt, said(event)) for event in happened)
    return came, seen, Counter(key for key, _ in noted(run_id))


UNSTEADY = ("seconds", "delay", "at", "time", "run_id", "message", "usage", "seq", "path", "operator_id", "round")


def said(event):
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in UNSTEADY}
    usage = getattr(event, "usage", None)
    return f"{type(event).__name__} {fields} {usage and (usage.calls, usage.tokens)}"


def meaning(message):
    """What counts of a message: of costs, what does not depend on the clock."""
    return repr(message.model_copy(update={"usage": message.usage.model_copy(update={"seconds": 0.0})}))


@pytest.mark.parametrize("name", sample(SHAPES, 3))
async def test_a_run_comes_to_the_same_wherever_its_operators_are_done(name, made, worker, run_id):
    plain, _ = agents()
    came, happened, did = await told(plain[name])
    came_there, happened_there, did_there = await told(made[name], run_id)
    assert came_there == came
    assert "AttributeError" not in str(came)
    assert did_there == did
    assert happened_there == happened
    assert {pid for _, pid in noted(run_id)} == {worker.pid}


async def test_values_arrive_at_workers_as_they_were(made, run_id):
    message = await ended(begin(made["values of functions"], run_id))
    assert message.scratchpad == "True {'output': 3}"


# What is of workers alone


@pytest.fixture
def warned(caplog):
    """Whether words are in what was warned of."""
    return lambda words: words in caplog.text


def begin(expert, run_id):
    return asyncio.ensure_future(expert.aexecute(JOB, run_id=run_id))


def let_go(run_id):
    (FOLDER / f"{run_id}.go").touch()


async def under_way(run_id, key):
    await until(lambda: key in dict(noted(run_id)))


async def ended(task):
    return await asyncio.wait_for(task, RENDEZVOUS)


async def test_what_cannot_be_kept_is_an_error_of_its_operator(made, run_id):
    with pytest.raises(OperatorError, match=r"'a' .*: outputs.f is builtins.set, which cannot be kept"):
        await ended(begin(made["a set"], run_id))


async def test_a_worker_has_no_deps(made, run_id):
    with pytest.raises(OperatorError, match=r"operator 'a' takes deps .*, servers and workers have none"):
        await ended(begin(made["deps"], run_id))


async def test_what_a_leader_makes_of_a_job_is_made_here_and_its_experts_work_there(made, db, worker, run_id):
    fields = {"context": "", "completion_criteria": "", "assigned_expert": "plain"}
    split = [
        {"id": name, "goal": f"do {name}", "dependencies": needs, **fields} for name, needs in (("p", []), ("q", ["p"]))
    ]
    thinks = ScriptedReasoner([json.dumps({"sub_jobs": split})])
    leader = Leader(Profile(name="boss"), [made["plain"]], thinks)
    leader.workflow.keep_in(Ledger(db, workers=Served("agents", [*made.values(), leader])))
    message = await ended(begin(leader, run_id))
    assert message.scratchpad == "b(a())"
    assert len(thinks.tasks) == 1
    assert [key.rpartition("/")[2] for key, _ in noted(run_id)] == ["a", "b"] * 2
    assert {pid for _, pid in noted(run_id)} == {worker.pid}


async def test_a_question_from_there_reaches_the_stream_here(made, run_id):
    asked = []
    stream = made["asks"].stream(JOB, run_id=run_id)
    last = None
    async for event in stream:
        last = event
        if isinstance(event, events.Interrupted):
            asked.append((event.interrupt_id, event.question, event.schema))
            stream.answer({"asks": {"n": 3}})
    assert asked == [("asks", "How many?", FORM)]
    assert isinstance(last, events.RunFinished)
    assert last.message.scratchpad == "{'n': 3}"
    assert dict(Counter(key for key, _ in noted(run_id))) == {"a": 1, "asks": 1}


async def test_a_question_from_there_is_answered_from_anywhere(made, ledger, run_id):
    task = asyncio.ensure_future(last_of(made["asks"].stream(JOB, run_id=run_id)))
    (question,) = await until(lambda: run_id in {run.run_id for run in ledger.runs()} and ledger.open_questions(run_id))
    assert (question.id, question.text, question.schema_) == ("asks", "How many?", FORM)
    with pytest.raises(InvalidError, match="wrong-answer"):
        ledger.answer(run_id, {"asks": {"n": "many"}})
    ledger.answer(run_id, {"asks": {"n": 4}})
    assert (await ended(task)).message.scratchpad == "{'n': 4}"
    assert ledger.questions(run_id) == []


async def last_of(stream):
    last = None
    async for event in stream:
        last = event
    assert isinstance(last, events.RunFinished)
    return last


async def test_cancelling_stops_what_is_done_there(made, ledger, run_id):
    task = begin(made["waits"], run_id)
    await under_way(run_id, "waits")
    ledger.cancel(run_id)
    with pytest.raises(InputError, match=f"run '{run_id}' was cancelled; to resume it: operad runs resume {run_id}"):
        await ended(task)
    await under_way(run_id, "waits-stopped")
    assert ledger.run(run_id).state == CANCELLED
    let_go(run_id)
    assert (await ended(begin(made["waits"], run_id))).scratchpad == "b(went)"
    assert Counter(key for key, _ in noted(run_id)) == {"a": 1, "waits": 2, "waits-stopped": 1, "b": 1}


async def test_a_run_that_fails_stops_what_is_done_there_beside(made, run_id):
    with pytest.raises(OperatorError, match=r"'breaks' .*: ValueError: broke"):
        await ended(begin(made["beside"], run_id))
    await under_way(run_id, "hangs-stopped")


async def test_a_driver_that_goes_and_comes_back_finds_what_was_done_meanwhile(made, ledger, run_id):
    task = begin(made["waits"], run_id)
    await under_way(run_id, "waits")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go(run_id)
    await until(lambda: "waits" in {step.key for step in ledger.timeline(run_id) if step.outcome is not None})
    assert (await ended(begin(made["waits"], run_id))).scratchpad == "b(went)"
    assert Counter(key for key, _ in noted(run_id)) == {"a": 1, "waits": 1, "b": 1}


async def test_as_many_at_once_as_was_said(made, run_id):
    both = [begin(made["crowd"], f"{run_id}-{place}") for place in range(2)]
    await ended(asyncio.gather(*both))
    lines = [line.split()[0] for line in (FOLDER / "notes.txt").read_text().splitlines() if line.startswith(run_id)]
    at_once = most = 0
    for line in lines:
        at_once += -1 if line.endswith("-ends") else 1
        most = max(most, at_once)
    assert len(lines) == 12
    assert most == AT_ONCE


async def test_a_file_that_is_made_there_arrives(made, run_id):
    message = await ended(begin(made["file"], run_id))
    (FOLDER / "made.txt").unlink()
    file = message.outputs["file"]
    assert (file.path.read_text(), file.name) == ("made there", "made.txt")
    assert file.path.is_relative_to(FOLDER / "state")


async def test_what_is_learned_here_is_known_there(made, run_id):
    first = await ended(begin(made["insightful"], f"{run_id}-1"))
    second = await ended(begin(made["insightful"], f"{run_id}-2"))
    assert first.scratchpad == "thought of []"
    assert second.scratchpad == "thought of ['better']"
    kept = Insights(FOLDER / "insights.sqlite")
    await until(lambda: [(each.text, each.used) for each in kept.entries()] == [("better", 2)])  # written meanwhile


# Versions and files


def executors(ledger, version):
    return [each for each in ledger.store.executors() if each.kind == "worker" and each.version == version]


async def test_a_worker_of_another_version_leaves_the_work(made, start, ledger, run_id, worker):
    """Work of three versions: one is of the worker of all tests, one of another worker, one of nobody."""
    other = start("other")
    await until(lambda: executors(ledger, "other"))
    mine = (await until(lambda: [each for each in ledger.store.executors() if each.kind == "worker"]))[0].version
    dispatch = await (await driver_here(ledger)).dispatch()
    requests = [
        asyncio.ensure_future(dispatch.outcome_of(request(dispatch, run_id, version, "nonsense", version)))
        for version in ("nobody", mine, "other")
    ]
    await ended(asyncio.gather(*requests[1:]))
    assert work_of(ledger, run_id, "worker") == {
        "nobody": "",
        mine: next(each.id for each in executors(ledger, mine) if f":{worker.pid}:" in each.id),
        "other": next(each.id for each in executors(ledger, "other") if f":{other.pid}:" in each.id),
    }
    requests[0].cancel()


def driver_here(ledger):
    from operad.runtime.durable.run_owner import LIMIT, owner_of

    return owner_of(ledger.url, LIMIT, ledger)


def request(dispatch, run_id, key, text, version=None):
    return Request(new_id(), agents()[1].queue, run_id, key, text, version or version_here(), dispatch.channel)


def work_of(ledger, run_id, column):
    """A column of the work for a run, by the operators' keys."""
    with create_engine(ledger.store.database.engine.url, poolclass=NullPool).begin() as connection:
        query = text(f"SELECT key, {column} FROM operad_work WHERE run_id = :id")  # noqa: S608
        return {row.key: row[1] for row in connection.execute(query, {"id": run_id})}


async def test_without_a_worker_of_the_same_file_the_driver_says_who_lives_and_waits(
    made, db, ledger, worker, warned, run_id, caplog
):
    expert = Expert(Profile(name="plain"), flow(Do("a"), Do("c")), ScriptedReasoner([]))
    served = Served("agents", [expert])
    expert.workflow.keep_in(Ledger(db, workers=served))
    task = begin(expert, run_id)
    await until(lambda: warned("no worker of version"))
    (said,) = [record.getMessage() for record in caplog.records if "no worker of" in record.getMessage()]
    assert f"serves '{served.queue}'; start one from the same configuration: operad worker FILE --db …; " in said
    assert f":{worker.pid}:" in said
    assert f"serves {agents()[1].queue}" in said
    ledger.cancel(run_id)
    with pytest.raises(InputError, match="was cancelled"):
        await ended(task)
    assert noted(run_id) == []


# Whoever can write to the queue

HOSTILE = {
    "no JSON": ("{", "cannot be read"),
    "a list": ("[1, 2]", "expected dict"),
    "an empty object": ("{}", "the worker cannot read its request: KeyError"),
    "an unknown tag": ('{"$run": "rm -rf /"}', "this version of operad does not know the tag"),
    "deep": ("[" * 100_000, "cannot be read"),
    "a number": ("17", "expected dict"),
    "an address of a wrong kind": ('{"queue": "QUEUE", "address": {"a": 1}}', "has no operator 'a'"),
    "an address that is none": ('{"queue": "QUEUE", "address": ["nobody", "x"]}', "has no operator 'nobody/x'"),
    "an address of numbers": ('{"queue": "QUEUE", "address": [1, [2]]}', "the worker cannot read"),
    "another queue": ('{"queue": "x", "address": ["plain", "a"]}', "the worker cannot read its request: KeyError"),
    "no job": ('{"queue": "QUEUE", "address": ["plain", "a"]}', "the worker cannot read its request: KeyError"),
}


@pytest.mark.parametrize(("given", "words"), HOSTILE.values(), ids=HOSTILE)
async def test_a_request_that_is_none_is_an_error_for_whoever_waits(given, words, made, worker, ledger, run_id):
    dispatch = await (await driver_here(ledger)).dispatch()
    hostile = request(dispatch, run_id, "a", given.replace("QUEUE", agents()[1].queue))
    error = ledger.codec.load(await ended(dispatch.outcome_of(hostile))).error
    assert isinstance(error, InputError)
    assert words in str(error)
    assert worker.poll() is None


async def test_an_id_that_somebody_puts_into_the_queue_does_nothing(made, worker, ledger, run_id):
    queue = delivery_queue(agents()[1].queue, version_here())
    assert (await ended(begin(made["plain"], f"{run_id}-first"))).scratchpad == "b(a())"  # there are tables from now on
    with ledger.store.database.engine.begin() as connection:
        delivery.enqueue(connection, [(queue, id_) for id_ in ("nobody", "'; DROP TABLE operad_work", "")])
    await until(lambda: not waiting_in(queue, ledger))
    assert (await ended(begin(made["plain"], run_id))).scratchpad == "b(a())"
    assert worker.poll() is None


def waiting_in(queue, ledger):
    with ledger.store.database.engine.begin() as connection:
        query = text("SELECT count(*) FROM operad_queue WHERE entrypoint = :queue")
        return connection.execute(query, {"queue": queue}).scalar()


# Claims


@pytest.fixture
def claimed(db):
    """Work that a worker has claimed, which nobody serves."""
    store = Store(database_url(db))
    ids = store.work.request(
        [Request(new_id(), "none", f"run-{uuid4()}", "a", "text", "1", "channel")], lambda *_: None
    )
    (claim,) = store.work.claim("first", ids)
    yield store, claim
    store.close()


def test_an_outcome_is_only_recorded_under_the_latest_claim(claimed):
    store, first = claimed
    (second,) = store.work.claim("second", [first.id])
    assert (first.claim, first.deaths, second.claim, second.deaths) == (1, [], 2, ["first"])
    assert store.work.end("first", [(first, "late")]) == [False]
    assert store.work.give_back("first", first) is None
    assert store.work.held("first", [first.id]) == set()
    assert store.work.end("second", [(second, "right")]) == [True]
    assert store.work.ended([first.id]) == {first.id: "right"}
    assert store.work.give_back("first", first) is False
    assert store.work.claim("third", [first.id]) == [None]


def test_work_that_is_given_back_is_no_death(claimed):
    store, first = claimed
    assert store.work.give_back("first", first) is True
    (second,) = store.work.claim("second", [first.id])
    assert (second.claim, second.deaths) == (2, [])


def test_work_that_is_forgotten_and_requested_again_is_other_work(claimed):
    store, first = claimed
    store.work.forget(first.run_id, ["a"])
    again = Request(new_id(), "none", first.run_id, "a", "text", "1", "channel")
    assert store.work.request([again], lambda *_: None) == [again.id]
    store.work.claim("first", [again.id])
    assert store.work.end("first", [(first, "late")]) == [False]
    assert store.work.ended([first.id, again.id]) == {}


def test_a_request_that_exists_is_not_enqueued_again(claimed):
    store, first = claimed
    enqueued = []
    again = Request(new_id(), "none", first.run_id, "a", "other", "1", "new channel")
    other = again._replace(id=new_id(), key="b")
    ids = store.work.request([again, other], lambda _, items: enqueued.extend(items))
    assert ids == [first.id, other.id]
    assert enqueued == [("none@1", other.id)]


def test_work_is_cancelled_without_an_outcome(claimed):
    store, first = claimed
    store.work.cancel(first.run_id)
    assert store.work.ended([first.id]) == {first.id: None}
    assert store.work.end("first", [(first, "late")]) == [False]
    assert [row.status for row in store.work.of_run(first.run_id)] == ["CANCELLED"]
