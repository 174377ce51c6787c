"""Events: numbered, complete, plain, and accounted to the operator they happened in."""

import asyncio
import contextvars
import json

import pytest

from operad.runtime import Usage, WorkflowMessage, WorkflowStatus, events
from operad.runtime.concurrently import concurrently
from operad.runtime.events import ModelAnswered, OperatorStarted, Progress, RunLog, Scope, TokenStreamed
from operad.runtime.message import NO_USAGE


class Odd:
    """Nothing that JSON knows."""

    def __str__(self):
        return "odd"


USAGE = Usage(calls=1, prompt_tokens=2, completion_tokens=3, seconds=0.5)
PLAIN_USAGE = {"calls": 1, "prompt_tokens": 2, "completion_tokens": 3, "seconds": 0.5}
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
    "blame": [],
    "job_id": "",
    "operator_id": "",
    "usage": PLAIN_USAGE,
    "parts": [{**WorkflowMessage().model_dump(mode="json"), "outputs": {"odd": "odd"}}],
}

# Every type of event, and what its own fields are as plain values.
EXAMPLES = [
    (
        events.RunStarted(workflow="w", goal="g", operators={"a": (), "b": ("a",)}),
        {"workflow": "w", "goal": "g", "operators": {"a": [], "b": ["a"]}},
    ),
    (
        events.RunFinished(message=MESSAGE, seconds=1.5, rounds=2),
        {"message": PLAIN_MESSAGE, "seconds": 1.5, "rounds": 2},
    ),
    (
        events.RunFailed(error="broke", seconds=1.5, usage=USAGE),
        {"error": "broke", "seconds": 1.5, "usage": PLAIN_USAGE},
    ),
    (events.RoundStarted(operators=("a", "b")), {"operators": ["a", "b"]}),
    (
        events.RoundFinished(status=WorkflowStatus.EXECUTION_ERROR, evaluation="e", lesson="l", blame=("a",)),
        {"status": "EXECUTION_ERROR", "evaluation": "e", "lesson": "l", "blame": ["a"]},
    ),
    (OperatorStarted(), {}),
    (events.OperatorFinished(seconds=1.0, message=MESSAGE), {"seconds": 1.0, "message": PLAIN_MESSAGE}),
    (
        events.OperatorFailed(seconds=1.0, usage=USAGE, error="broke"),
        {"seconds": 1.0, "usage": PLAIN_USAGE, "error": "broke"},
    ),
    (events.OperatorCancelled(seconds=1.0, usage=USAGE), {"seconds": 1.0, "usage": PLAIN_USAGE}),
    (Progress(done=1, total=2), {"done": 1, "total": 2}),
    (TokenStreamed(text="t"), {"text": "t"}),
    (ModelAnswered(model="m", usage=USAGE), {"model": "m", "usage": PLAIN_USAGE}),
    (events.AnswerRejected(error="no", repair=1), {"error": "no", "repair": 1}),
    (
        events.ToolCalled(call_id="c", tool="t", arguments={"deep": [{"odd": Odd()}], "yes": True, "none": None}),
        {"call_id": "c", "tool": "t", "arguments": {"deep": [{"odd": "odd"}], "yes": True, "none": None}},
    ),
    (
        events.ToolReturned(call_id="c", tool="t", result="r", failed=False, seconds=1.0),
        {"call_id": "c", "tool": "t", "result": "r", "failed": False, "seconds": 1.0},
    ),
]
STAMP = {"run_id": "run", "operator_id": "op", "round": 2, "seq": 1}


def test_there_is_an_example_of_every_type_of_event():
    types = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, events.Event)}
    assert {type(event) for event, _ in EXAMPLES} == types - {events.Event}


@pytest.mark.parametrize(("event", "plain"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_event_becomes_plain_values_and_json_whatever_it_bears(event, plain):
    heard = []
    RunLog("run", (heard.append,)).write(event, "op", 2)
    values = heard[0].as_dict()
    assert next(iter(values)) == "event"
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert isinstance(values.pop("time"), float)
    assert values == {"event": type(event).__name__, **STAMP, **plain}


def test_a_status_in_an_event_is_text_and_nothing_more():
    [status] = [e.as_dict()["status"] for e, _ in EXAMPLES if isinstance(e, events.RoundFinished)]
    assert type(status) is str


@pytest.fixture
def run():
    """A run that is listened to: its log, and what was heard."""
    heard = []
    return RunLog("run", (heard.append,)), heard


def inside(scope, act):
    """What `act` returns in a context where `scope` is the current one."""

    def entered():
        events.enter(scope)
        return act()

    return contextvars.copy_context().run(entered)


def test_outside_of_a_run_nothing_happens():
    assert events.current_scope() is None
    events.emit(ModelAnswered(model="m", usage=USAGE))
    assert events.current_scope() is None


def test_an_event_is_completed_from_where_it_is_said(run):
    log, heard = run
    inside(Scope(log, "op", 3), lambda: events.emit(TokenStreamed(text="t")))
    log.write(Progress(done=1, total=1))
    assert [(e.run_id, e.operator_id, e.round, e.seq) for e in heard] == [("run", "op", 3, 1), ("run", "", 0, 2)]
    assert 0 < heard[0].time <= heard[1].time


def test_the_event_that_was_given_stays_as_it_was(run):
    log, heard = run
    event = TokenStreamed(text="t")
    log.write(event, "op", 1)
    assert (event.seq, event.operator_id) == (0, "")
    assert heard[0] is not event


def test_every_listener_hears_every_event_under_the_same_number():
    first, second = [], []
    log = RunLog("run", (first.append, second.append))
    for n in range(3):
        log.write(Progress(done=n, total=3))
    assert [e.seq for e in first] == [1, 2, 3]
    assert first == second


def test_two_runs_are_numbered_apart():
    heard = []
    for name in ("one", "two"):
        log = RunLog(name, (heard.append,))
        log.write(OperatorStarted())
        log.write(OperatorStarted())
    assert [(e.run_id, e.seq) for e in heard] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]


def test_a_run_that_nobody_listens_to_only_keeps_the_account():
    log = RunLog("run")
    scope = Scope(log, "op", 1)
    assert not log.heard
    assert RunLog("run", (print,)).heard
    inside(scope, lambda: events.emit(ModelAnswered(model="m", usage=USAGE)))
    assert scope.usage == USAGE


def test_usage_adds_up_in_the_scope_and_only_answers_of_models_count(run):
    scope = Scope(run[0], "op", 1)
    assert scope.usage is NO_USAGE

    def work():
        events.emit(ModelAnswered(model="m", usage=USAGE))
        events.emit(events.OperatorFailed(seconds=1.0, usage=USAGE, error="e"))
        events.emit(ModelAnswered(model="m", usage=USAGE))

    inside(scope, work)
    assert scope.usage == USAGE + USAGE


async def test_concurrent_siblings_keep_their_own_scope_and_account(run):
    log, heard = run
    arrived, both = [], asyncio.Event()

    async def work(name, calls):
        scope = Scope(log, name, 1)
        events.enter(scope)
        arrived.append(name)
        if len(arrived) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)  # both have entered before either speaks
        for _ in range(calls):
            events.emit(ModelAnswered(model=name, usage=USAGE))
        return scope.usage.calls

    assert await concurrently([work("a", 1), work("b", 2)]) == [1, 2]
    assert sorted((e.operator_id, e.model) for e in heard) == [("a", "a"), ("b", "b"), ("b", "b")]
    assert events.current_scope() is None


async def test_what_a_task_says_belongs_to_where_it_was_started(run):
    log, heard = run
    scope = Scope(log, "op", 1)

    async def call():
        events.emit(ModelAnswered(model="m", usage=USAGE))

    async def operator():
        events.enter(scope)
        await concurrently([call(), call()])
        await asyncio.to_thread(events.emit, TokenStreamed(text="from a thread"))

    await asyncio.create_task(operator())
    assert scope.usage.calls == 2
    assert [(e.operator_id, e.seq) for e in heard] == [("op", 1), ("op", 2), ("op", 3)]
