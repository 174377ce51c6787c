"""Events that are read back are those that were heard."""

import asyncio
import zlib
from contextlib import suppress
from random import Random
from uuid import uuid4

import pytest
from amounts import examples
from hypothesis import given
from random_graphs import Graph, graphs, orders, sane

from operad.runtime import (
    BuiltinWorkflow,
    InputError,
    Job,
    Map,
    OperadError,
    Policy,
    Retry,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.durable import Ledger
from operad.runtime.events import current_scope, emit
from operad.runtime.graph.edges import Port
from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Trace

JOB = Job(goal="goal", inputs={"list": ["x", {"y": [1, 2.5, None]}, "z"]})
UNKEPT = (events.TokenStreamed, events.ModelAsked)
ASKED = (events.Interrupted, events.Resumed)
WORDS = ["plain", "é\ud800\0", '{"$tuple": []}', "x" * 300]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    ledger = Ledger(str(tmp_path_factory.mktemp("runs") / "runs.sqlite"))
    yield ledger
    ledger.close()


def same_dice():
    return Random(1)  # noqa: S311 - nothing is secret


def run_id():
    return f"run-{uuid4()}"


class Step:
    """An operator that says something, of many kinds, and fails as often as it is told to."""

    def __init__(self, op_id, dice, choices=(None, None), blame=(), fails=0):
        self._id, self._dice, self._choices, self._blame, self._fails = op_id, dice, choices, blame, fails

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        scope = current_scope()
        assert scope is not None
        emit(events.TokenStreamed(text="piece"))
        emit(events.TaskBuilt(task={"goal": job.goal, "$key": (1, 2)}))
        for _ in range(self._dice.randrange(3)):
            await asyncio.sleep(0)
        if self._fails:
            self._fails -= 1
            raise ValueError("broken")
        choice = self._choices[0 if scope.round == 1 else 1]
        outputs = {"of": self._dice.choice(WORDS), "values": (1, b"2", [3.0, float("inf")]), "$odd": {"a": None}}
        blamed = self._blame if scope.round == 1 else ()
        return WorkflowMessage(
            scratchpad=f"{self._id}@{scope.round} {self._dice.choice(WORDS)}",
            outputs=outputs,
            ports=None if choice is None else tuple(choice),
            status=WorkflowStatus.EXECUTION_ERROR if blamed else WorkflowStatus.SUCCESS,
            blame=blamed,
            lesson="again" if blamed else "",
        )


def workflow_of(graph: Graph, dice: Random):
    """A workflow in which some operators are maps, some are workflows, some fail and are tried again."""
    workflow, made = BuiltinWorkflow(name="w", max_rounds=2), {}
    for number, node in enumerate(graph):
        kind = dice.randrange(6)
        name, fails = str(number), int(kind == 3) + 2 * int(kind == 4)
        operator = step = Step(name, dice, node.choices, fails=fails)
        if kind == 0 and node.choices == (None, None):
            operator = Map(name, Step("item", dice, fails=dice.randrange(2)), over="list", on_error="keep")
        elif kind == 1 and node.choices == (None, None):
            operator = BuiltinWorkflow(name=name)
            operator.add_operator(step)
        sources = [
            link
            for parent, ports in node.before.items()
            for link in ([Port(made[parent], port) for port in sorted(ports)] or [made[parent]])
        ]
        workflow.add_operator(operator, sources, join=node.join, policy=Policy(retry=Retry(2, first_delay=0.0001)))
        made[number] = operator
    blamed = tuple(str(number) for number, node in enumerate(graph) if node.blamed[0])
    if dice.randrange(2):
        workflow.set_evaluator(Step("judge", dice, blame=blamed))
    return workflow


@examples(8, 60)
@given(graphs(5), orders)
def test_events_that_are_read_back_are_those_that_were_heard(ledger, graph: Graph, order: Random):
    workflow, heard, name = workflow_of(sane(graph), order), list[events.Event](), run_id()
    workflow.add_listener(heard.append)
    workflow.keep_in(ledger)
    with suppress(OperadError):
        workflow.execute(JOB, None, run_id=name)  # type: ignore[arg-type]
    assert ledger.events(name) == [event for event in heard if not isinstance(event, UNKEPT)]


def flow(*operators):
    workflow, before = BuiltinWorkflow(name="flow"), None
    for operator in operators:
        workflow.add_operator(operator, [before] if before else None)
        before = operator
    return workflow


class Code:
    """An operator that does this work."""

    def __init__(self, op_id, work):
        self._id, self._work = op_id, work

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await self._work()


def said_of(told):
    """What events say, without when: of each path, in order."""
    return [
        {name: value for name, value in event.as_dict().items() if name not in ("seq", "time", "seconds")}
        for event in told
        if not isinstance(event, (*UNKEPT, events.Progress, events.MessageKept))
    ]


async def test_a_map_of_a_run_that_goes_on_is_told_with_its_items_and_the_judges_with_the_run(ledger):
    gate, name, heard = asyncio.Event(), run_id(), []

    async def wait():
        await gate.wait()
        return "waited"

    workflow = flow(Map("each", Step("item", same_dice()), over="list"), Code("wait", wait))
    workflow.set_evaluator(Step("judge", same_dice()))
    workflow.add_listener(heard.append)
    workflow.keep_in(ledger)
    run = asyncio.ensure_future(workflow.aexecute(JOB, None, run_id=name))  # type: ignore[arg-type]

    def finished(told):
        return [event for event in told if isinstance(event, events.OperatorFinished) and event.path == ("each",)]

    def known(told):
        return [event.message.outputs for event in finished(told) if "items" in event.message.outputs]

    told = []
    for _ in range(6000):
        with suppress(InputError):
            told = await asyncio.to_thread(ledger.events, name)
        if known(told):
            break
        await asyncio.sleep(0.01)
    assert known(told) == known(heard)
    assert (told[0].judges, told[0].engine) == (("judge",), heard[0].engine)
    gate.set()
    await run
    assert ledger.events(name) == [event for event in heard if not isinstance(event, UNKEPT)]


async def test_a_run_that_was_interrupted_is_told_with_what_was_heard_when_it_went_on(ledger):
    async def ask():
        return str(await interrupt("Sure?"))

    name = run_id()

    def workflow(listener):
        made = flow(Map("each", Step("item", same_dice()), over="list"), Code("ask", ask), Step("end", same_dice()))
        made.set_evaluator(Step("judge", same_dice()))
        made.add_listener(listener)
        made.keep_in(ledger)
        return made

    stream = workflow(lambda event: None).stream(JOB, None, run_id=name)  # type: ignore[arg-type]
    async for event in stream:
        if isinstance(event, events.Interrupted):
            break
    await stream.aclose()
    ledger.answer(name, {"ask": "yes"})
    heard = list[events.Event]()
    await workflow(heard.append).aexecute(JOB, None, run_id=name)  # type: ignore[arg-type]
    assert ledger.run(name).drives == 2
    told = ledger.events(name)

    def in_any_order(happened):
        return sorted(map(repr, said_of(event for event in happened if not isinstance(event, ASKED))))

    assert in_any_order(told) == in_any_order(heard)
    assert [type(event).__name__ for event in told if isinstance(event, ASKED)] == ["Interrupted", "Resumed"]
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


def append_events(ledger, run_id, part):
    table, last = ledger.store._tables.events, ledger.store.event_parts(run_id)
    row = {"run_id": run_id, "part": len(last) + 1, "events": part}
    ledger.store.database.change(ledger.store.database.sa.insert(table).values(row))


@pytest.mark.parametrize(
    "part", [b"", b"odd", zlib.compress(b"odd"), zlib.compress(b'[["Progress", {}]]'), zlib.compress(b"[[1]]")]
)
def test_a_part_of_a_recording_that_cannot_be_read_is_left_out(ledger, part, caplog):
    name = run_id()
    workflow = flow(Step("a", same_dice()))
    workflow.keep_in(ledger)
    workflow.execute(JOB, None, run_id=name)  # type: ignore[arg-type]
    append_events(ledger, name, part)
    assert [type(event).__name__ for event in ledger.events(name)] == [
        "RunStarted",
        "RoundStarted",
        "OperatorStarted",
        "TaskBuilt",
        "OperatorFinished",
        "RoundFinished",
        "RunFinished",
    ]
    assert f"{name}: a part of the recorded events is left out, because it cannot be read" in caplog.text


class UsersEvent(events.Event, frozen=True, kw_only=True):
    said: str


class Progress(events.Event, frozen=True, kw_only=True):
    """An event with the name of one of Operad's."""

    said: str


@pytest.mark.parametrize("kind", [UsersEvent, Progress])
def test_a_user_defined_event_does_not_discard_the_recorded_events(ledger, kind):
    heard, name = list[events.Event](), run_id()

    async def work():
        emit(kind(said="mine"))
        return "done"

    workflow = flow(Code("work", work))
    workflow.add_listener(heard.append)
    workflow.keep_in(ledger)
    workflow.execute(JOB, None, run_id=name)  # type: ignore[arg-type]
    assert ledger.events(name) == [event for event in heard if not isinstance(event, kind)]


def test_a_recorded_event_of_an_unknown_type_is_skipped_with_a_warning(ledger, caplog):
    heard, name = list[events.Event](), run_id()
    workflow = flow(Step("a", same_dice()))
    workflow.add_listener(heard.append)
    workflow.keep_in(ledger)
    workflow.execute(JOB, None, run_id=name)  # type: ignore[arg-type]
    append_events(ledger, name, zlib.compress(b'[["Odd", {"said": {"$tuple": []}}]]'))
    assert ledger.events(name) == [event for event in heard if not isinstance(event, UNKEPT)]
    assert f"{name}: recorded events of unknown types are skipped: 1" in caplog.text


class Slow:
    """An operator that takes some time, or an evaluator that blames one and then is content."""

    def __init__(self, op_id, seconds, *said):
        self._id, self._seconds, self._said = op_id, seconds, list(said)

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        await asyncio.sleep(self._seconds)
        return self._said.pop(0) if self._said else self._id


async def test_the_critical_path_of_a_kept_run_leads_through_the_operators_that_were_waited_for(ledger):
    blamed = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson="again", blame=("end",))
    begin, long, short, end = Slow("begin", 0.01), Slow("long", 0.3), Slow("short", 0.01), Slow("end", 0.01)
    workflow = BuiltinWorkflow(name="kept", max_rounds=2, durable=ledger)
    workflow.add_operator(begin)
    workflow.add_operator(long, previous_ops=[begin])
    workflow.add_operator(short, previous_ops=[begin])
    workflow.add_operator(end, previous_ops=[long, short])
    workflow.set_evaluator(Slow("judge", 0.01, blamed, WorkflowMessage()))
    key = run_id()
    await workflow.aexecute(JOB, run_id=key)
    trace = Trace.of(ledger.events(key))
    path = [(trace.spans[each].name, trace.spans[each].round) for each in sorted(critical_path(trace))]
    assert path == [("begin", 1), ("long", 1), ("end", 1), ("judge", 1), ("end", 2), ("judge", 2)]
