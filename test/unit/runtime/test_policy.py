"""Policies: what an operator may take, what a run may use, and what happens when it fails."""

import asyncio
import copy
import random
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from fake_operators import Do, chain
from pydantic import BaseModel

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    Budget,
    BudgetError,
    BuiltinWorkflow,
    InputError,
    InvalidError,
    Job,
    Limits,
    Map,
    ModelError,
    MonoModelReasoner,
    OperatorError,
    OperatorTimeoutError,
    Policy,
    Price,
    Retry,
    Timeout,
    Tool,
    ToolError,
    Usage,
    Workflow,
    WorkflowMessage,
    events,
)
from operad.runtime.policies.cache import Cache
from operad.runtime.policies.deadline import within
from operad.runtime.testing import (
    CallTools,
    Fail,
    Hang,
    Say,
    ScriptedModel,
    ScriptedReasoner,
    run_on_fake_clock,
)

JOB = Job(goal="goal")
ONE_CALL = Usage(calls=1, prompt_tokens=40, completion_tokens=20)


@pytest.fixture
def no_jitter(monkeypatch):
    """Every delay is as long as it may be."""
    monkeypatch.setattr(random, "uniform", lambda low, high: high)


def now():
    return asyncio.get_running_loop().time()


def failing(error, times=10**9, then: Any = "done"):
    """What raises so many times, and then says something."""
    left = [times]

    def work():
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return then

    return work


def calls_a_model(usage=ONE_CALL, then="said"):
    """What accounts for a call of a model."""

    def work():
        events.emit(events.ModelAnswered(model="m", usage=usage))
        return then

    return work


def run(workflow, reasoner=None, **options):
    """The message, on the fake clock."""
    return run_on_fake_clock(workflow.aexecute(JOB, reasoner or ScriptedReasoner([]), **options))


def fails(workflow, error: Any = OperatorError, reasoner=None) -> Any:
    with pytest.raises(error) as raised:
        run(workflow, reasoner)
    return raised.value


def timed(workflow, reasoner=None) -> Any:
    """The message, or the error, and when it came."""

    async def main():
        try:
            return (await workflow.aexecute(JOB, reasoner or ScriptedReasoner([]))).scratchpad, now()
        except OperatorError as error:
            return error, now()

    return run_on_fake_clock(main())


# Values


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: Retry(attempts=0), ["Retry.attempts"]),
        (lambda: Retry(3, first_delay=-1, max_delay=-2), ["Retry.first_delay", "Retry.max_delay"]),
        (lambda: Timeout(run=-1, idle=0), ["Timeout.run", "Timeout.idle"]),
        (lambda: Timeout(run=float("nan")), ["Timeout.run"]),
        (lambda: Budget(tokens=-1, calls=0, cost=-0.5, seconds=-1), [f"Budget.{n}" for n in "tokens calls cost seconds".split()]),
        (lambda: Limits(concurrency=-1), ["Limits.concurrency"]),
    ],
)  # fmt: skip
def test_what_is_not_above_zero_is_refused_all_at_once(make, where):
    with pytest.raises(InvalidError) as raised:
        make()
    assert [issue.where for issue in raised.value.issues] == where


def test_a_number_of_attempts_is_short_for_a_retry():
    assert Policy(retry=3) == Policy(retry=Retry(attempts=3))
    assert Operator("Say.", retry=3).policy == Policy(retry=Retry(attempts=3))
    assert Operator("Say.", retry=False, policy=Policy(timeout=Timeout(run=5))).policy == Policy(False, Timeout(run=5))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(0, "0 must be more than 0"), (2.5, "2.5 is not a whole number"), (True, "expected a Retry or a number of attempts, got True"), ("3", "expected a Retry or a number of attempts, got '3'")],
)  # fmt: skip
def test_another_number_of_attempts_is_refused(wrong, said):
    with pytest.raises(InvalidError) as raised:
        Policy(retry=wrong)
    assert [issue.message for issue in raised.value.issues] == [said]


def test_a_duration_is_a_number_of_seconds_or_a_timedelta():
    assert Retry(first_delay=timedelta(milliseconds=500), max_delay=timedelta(minutes=2)) == Retry(3, 0.5, 120)
    assert Timeout(run=timedelta(hours=1), idle=timedelta(seconds=30)) == Timeout(run=3600, idle=30)
    assert Budget(seconds=timedelta(minutes=10)) == Budget(seconds=600)
    with pytest.raises(InvalidError, match="0 must be more than 0"):
        Timeout(run=timedelta(0))


@pytest.mark.parametrize("limits", [{"run": 0.01}, {"idle": 0.01}])
async def test_a_result_that_is_there_when_the_time_is_up_counts(limits):
    async def work():
        time.sleep(0.05)  # the task has ended when the loop runs the timer
        return "done"

    assert await within(Timeout(**limits), work(), []) == "done"


def test_what_an_operators_policy_leaves_open_is_the_workflows():
    own, default = Policy(retry=Retry(5), fallback=""), Policy(Retry(2), Timeout(run=1), "sorry", Cache())
    merged = own.or_else(default)
    assert merged == Policy(Retry(5), Timeout(run=1), "", default.cache)
    assert Policy().or_else(default) == default
    assert (bool(own), bool(Policy())) == (True, False)


@pytest.mark.parametrize(
    "values",
    [{"retry": 2}, {"timeout": Timeout(run=1)}, {"fallback": ""}, {"cache": Cache()}],
    ids=lambda each: next(iter(each)),
)
def test_each_value_of_a_policy_counts_and_completes_another(values):
    policy = Policy(**values)
    assert policy
    assert Policy().or_else(policy) == policy
    switched_off: dict[str, Any] = dict.fromkeys(values, False)
    assert not Policy(**switched_off).or_else(policy)
    assert {*values} < {*Policy.__slots__}


def test_the_workflows_policy_holds_for_operators_that_say_nothing_and_for_the_evaluator(engine, no_jitter):
    a, b = Do("a", failing(ConnectionError(), 2)), Do("b", failing(ConnectionError(), 2))
    judge = Do("judge", failing(ConnectionError(), 1, WorkflowMessage(evaluation="good")))
    workflow = engine(policy=Policy(retry=Retry(3)), max_rounds=1)
    workflow.add_operator(a)
    workflow.add_operator(b, [a], policy=Policy(retry=Retry(2)))
    workflow.set_evaluator(judge)
    error = fails(workflow)
    assert (error.operator_id, error.attempt, a.calls, b.calls) == ("b", 2, 3, 2)
    workflow.update_operator(Do("b"))
    assert run(workflow).evaluation == "good"
    assert judge.calls == 2


# Retry


def test_without_a_policy_nothing_is_tried_again(engine):
    a = Do("a", failing(ConnectionError()))
    assert fails(chain(engine, a)).attempt == 1
    assert a.calls == 1


def test_delays_double_up_to_the_longest(engine, no_jitter):
    a = Do("a", failing(ConnectionError(), 5))
    workflow = chain(engine, a, policy=Policy(retry=Retry(6, first_delay=1, max_delay=5)))
    assert timed(workflow) == ("done", 1 + 2 + 4 + 5 + 5)
    assert a.calls == 6


def test_the_jitter_is_full():
    retry, error = Retry(first_delay=4, max_delay=100), ConnectionError()
    for attempt, most in ((1, 4), (2, 8), (3, 16), (1000, 100)):
        delays = [retry.delay(attempt, error) for _ in range(500)]
        assert 0 <= min(delays) < 0.1 * most
        assert 0.9 * most < max(delays) <= most


def test_the_last_attempts_error_is_raised_and_names_it(engine):
    errors = [ConnectionError("first"), ConnectionError("second"), ConnectionError("third")]
    left = iter(errors)

    def work():
        raise next(left)

    error = fails(chain(engine, Do("a", work), policy=Policy(retry=Retry(3)), name="w"))
    assert error.attempt == 3
    assert error.__cause__ is errors[2]
    assert "operator 'a' of workflow 'w' failed on attempt 3: ConnectionError: third" in str(error)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (OperatorTimeoutError("too slow"), True),
        (ModelError("busy", transient=True), True),
        (ModelError("no such model"), False),
        (ValueError("wrong"), False),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again_if_nothing_else_is_said(engine, error, wanted):
    a = Do("a", failing(error, 1))
    workflow = chain(engine, a, policy=Policy(retry=Retry(2)))
    assert (run(workflow).scratchpad == "done") if wanted else (fails(workflow).__cause__ is error)
    assert a.calls == 1 + wanted


def test_it_may_be_said_which_errors_are_tried_again(engine):
    policy = Policy(retry=Retry(2, on=(KeyError, OSError)))
    assert run(chain(engine, Do("a", failing(KeyError(), 1)), policy=policy)).scratchpad == "done"
    assert run(chain(engine, Do("a", failing(FileNotFoundError(), 1)), policy=policy)).scratchpad == "done"
    assert fails(chain(engine, Do("a", failing(ValueError(), 1)), policy=policy)).attempt == 1


def test_the_workflows_policy_is_for_single_operators_not_for_workflows_and_maps_inside(engine):
    a = Do("a", failing(ConnectionError("gone"), 2))
    for inside in (chain(engine, a, name="inner"), Map("each", a, over="items")):
        source = Operator(OperatorConfig(instruction="List.", output_schema="{items: [string]}"))
        outer = chain(engine, source, inside, policy=Policy(retry=Retry(3)))
        error = fails(outer, reasoner=ScriptedReasoner('{"items": ["one"]}'))
        assert (error.attempt, a.calls) == (1, 1)
        a.calls = 0


def test_what_an_error_comes_from_counts_too_through_nested_workflows(engine, no_jitter):
    a = Do("a", failing(ConnectionError("gone"), 2))
    inner = chain(engine, Do("first"), a, name="inner")
    outer = engine(name="outer")
    outer.add_operator(inner, policy=Policy(retry=Retry(3, first_delay=1)))
    assert timed(outer) == ("done", 3)

    a = Do("a", failing(ConnectionError("gone")))
    outer = engine(name="outer")
    outer.add_operator(chain(engine, a, name="inner"), policy=Policy(retry=Retry(2)))
    error = fails(outer)
    links = [error, error.__cause__, error.__cause__.__cause__]
    assert [(link.workflow, link.operator_id, link.attempt) for link in links[:2]] == [
        ("outer", "inner", 2),
        ("inner", "a", 1),
    ]
    assert isinstance(links[2], ConnectionError)
    assert "gone" in str(error)
    assert a.calls == 2


def test_each_retry_is_an_event(engine, no_jitter):
    heard = []
    a = Do("a", failing(ConnectionError("gone"), 2))
    run(chain(engine, a, policy=Policy(retry=Retry(3, first_delay=1)), listeners=[heard.append]))
    assert [(e.attempt, e.error, e.delay) for e in heard if isinstance(e, events.OperatorRetried)] == [
        (1, "ConnectionError: gone", 1),
        (2, "ConnectionError: gone", 2),
    ]
    assert [e.attempt for e in heard if isinstance(e, events.OperatorStarted)] == [1]
    assert [e.attempt for e in heard if isinstance(e, events.OperatorFinished)] == [3]


def test_what_failed_attempts_used_counts(engine):
    work = failing(ConnectionError(), 2)

    def use():
        events.emit(events.ModelAnswered(model="m", usage=ONE_CALL))
        return work()

    message = run(chain(engine, Do("a", use), policy=Policy(retry=Retry(3))))
    assert message.usage.calls == 3


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_that_asks_to_wait_is_given_the_time(engine, status):
    with ScriptedModel([Fail(status, headers={"retry-after": "30"}), Say("now")]) as scripted:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask."))
        workflow = chain(engine, ask, policy=Policy(retry=Retry(2, first_delay=0.001, max_delay=1)))
        text, when = timed(workflow, MonoModelReasoner(scripted.model))
    assert text == "now"
    assert 30 <= when < 31


def test_an_endpoint_that_refuses_for_good_is_not_asked_again(engine):
    with ScriptedModel([Fail(401)]) as scripted:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask."))
        error = fails(chain(engine, ask, policy=Policy(retry=Retry(5))), reasoner=MonoModelReasoner(scripted.model))
    assert isinstance(error.__cause__, ModelError)
    assert len(scripted.requests) == 1


# Timeout


def test_an_operator_that_runs_too_long_is_stopped_and_cleans_up(engine):
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            cleaned.append(now())

    error, when = timed(chain(engine, Do("a", work), policy=Policy(timeout=Timeout(run=10)), name="w"))
    assert (when, cleaned) == (11, [11])
    assert isinstance(error.__cause__, OperatorTimeoutError)
    assert isinstance(error.__cause__, TimeoutError)
    assert (error.__cause__.operator_id, error.__cause__.attempt) == ("a", 1)
    assert "operator 'a' ran longer than 10 s and was stopped" in str(error)


def test_an_operator_that_heeds_no_cancellation_has_timed_out_all_the_same(engine):
    async def work():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "too late"

    error, _ = timed(chain(engine, Do("a", work), policy=Policy(timeout=Timeout(run=10))))
    assert isinstance(error.__cause__, OperatorTimeoutError)


def test_every_attempt_has_the_whole_time(engine, no_jitter):
    waits = iter([100, 9])

    async def work():
        await asyncio.sleep(next(waits))
        return "done"

    policy = Policy(Retry(2, first_delay=1), Timeout(run=10))
    assert timed(chain(engine, Do("a", work), policy=policy)) == ("done", 10 + 1 + 9)


@pytest.mark.parametrize(
    "event", [events.TokenStreamed(text="t"), events.Progress(done=1, total=2), events.ToolCalled(call_id="c", tool="t", arguments={})],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_signs_of_life_put_off_the_end_of_patience(engine, event):
    async def work():
        for _ in range(5):
            await asyncio.sleep(8)
            events.emit(event)
        await asyncio.sleep(20)

    error, when = timed(chain(engine, Do("a", work), policy=Policy(timeout=Timeout(idle=10))))
    assert when == 50
    assert "was idle for 10 s" in str(error)


def test_signs_of_life_do_not_put_off_the_end_of_the_time(engine):
    async def work():
        while True:
            await asyncio.sleep(8)
            events.emit(events.TokenStreamed(text="t"))

    error, when = timed(chain(engine, Do("a", work), policy=Policy(timeout=Timeout(run=30, idle=10))))
    assert when == 30
    assert "ran longer than 30 s" in str(error)


def test_signs_of_life_inside_are_signs_of_life_outside(engine):
    async def work():
        for _ in range(5):
            await asyncio.sleep(8)
            events.emit(events.TokenStreamed(text="t"))
        return "done"

    outer = chain(engine, chain(engine, Do("a", work), name="inner"), policy=Policy(timeout=Timeout(idle=10)))
    assert timed(outer) == ("done", 40)


def test_operators_that_begin_and_end_inside_are_signs_of_life(engine):
    async def work():
        await asyncio.sleep(8)
        return "done"

    inner = chain(engine, *(Do(f"a{n}", work) for n in range(5)), name="inner")
    assert timed(chain(engine, inner, policy=Policy(timeout=Timeout(idle=10)))) == ("done", 40)


def test_a_model_that_falls_silent_in_mid_run_is_given_up(engine):
    with ScriptedModel([Hang()]) as scripted:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask."))
        workflow = chain(engine, ask, policy=Policy(timeout=Timeout(idle=10)))
        error, when = timed(workflow, MonoModelReasoner(scripted.model))
    assert isinstance(error.__cause__, OperatorTimeoutError)
    assert when == 10


def test_a_nested_workflow_that_is_stopped_cleans_up(engine):
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            cleaned.append("a")

    outer = engine()
    outer.add_operator(chain(engine, Do("a", work), name="inner"), policy=Policy(timeout=Timeout(run=5)))
    error, when = timed(outer)
    assert (when, cleaned, error.operator_id) == (5, ["a"], "inner")


def test_a_tool_that_takes_too_long_is_stopped_and_the_model_told():
    async def search() -> str:
        """Search."""
        await asyncio.sleep(100)
        return "found"

    tool = Tool.of(search, timeout=10)
    with ScriptedModel([CallTools([("search", {})]), Say("I give up.")]) as scripted:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask.", actions=[Action(name="search", tools=(tool,))]))
        text, when = timed(chain(BuiltinWorkflow, ask), MonoModelReasoner(scripted.model))
    assert text == "I give up."
    assert 10 <= when < 11
    assert scripted.requests[1]["messages"][-1]["content"] == (
        "ToolError: tool 'search' ran longer than 10 s and was stopped"
    )


def test_nobody_waits_for_the_thread_of_a_tool_that_takes_too_long():
    release = threading.Event()

    async def main():
        try:
            with pytest.raises(ToolError, match="ran longer than 10 s"):
                await Tool.of(release.wait, name="wait", timeout=10).call({})
            assert now() == 10
        finally:
            release.set()

    run_on_fake_clock(main(), patience=0.005)


def test_a_tools_time_is_above_zero():
    with pytest.raises(ValueError, match="timeout: must be more than 0"):
        Tool.of(test_a_tools_time_is_above_zero, timeout=0)


# Limits


def most_at_once(seconds=1):
    """What keeps count of how many of it run at once."""
    running, most = 0, [0]

    async def work():
        nonlocal running
        running += 1
        most[0] = max(most[0], running)
        await asyncio.sleep(seconds)
        running -= 1
        return "done"

    return work, most


def side_by_side(engine, count, work, **options):
    workflow = engine(**options)
    for n in range(count):
        workflow.add_operator(Do(f"a{n}", work))
    return workflow


def test_all_runs_of_a_workflow_share_its_limits(engine):
    work, most = most_at_once()
    workflow = side_by_side(engine, 2, work, limits=Limits(concurrency=2))

    async def main():
        await asyncio.gather(*(workflow.aexecute(JOB, ScriptedReasoner([])) for _ in range(3)))
        return now()

    assert run_on_fake_clock(main()) == 3
    assert most == [2]


def test_a_retry_that_waits_takes_no_place(engine, no_jitter):
    order = []
    flaky = failing(ConnectionError(), 1)

    def first():
        order.append("a")
        return flaky()

    workflow = engine(limits=Limits(concurrency=1), policy=Policy(retry=Retry(2, first_delay=10)))
    workflow.add_operator(Do("a", first))
    workflow.add_operator(Do("b", lambda: order.append("b") or "b"))
    assert timed(workflow)[1] == 10
    assert order == ["a", "b", "a"]


def test_a_fallback_takes_a_place_as_well(engine):
    work, most = most_at_once()
    policy = Policy(fallback=Do("spare", work))
    workflow = side_by_side(engine, 3, failing(ValueError()), limits=Limits(concurrency=1), policy=policy)
    assert timed(workflow)[1] == 3
    assert most == [1]


def test_waiting_for_a_place_takes_no_time_of_the_operators(engine):
    work, _ = most_at_once(8)
    policy = Policy(timeout=Timeout(run=10, idle=9))
    _, when = timed(side_by_side(engine, 4, work, limits=Limits(concurrency=1), policy=policy))
    assert when == 32


def test_waiting_for_a_place_takes_no_time_of_the_operators_around(engine):
    work, _ = most_at_once(8)
    inner = chain(engine, Do("a", work), limits=Limits(concurrency=1), name="inner")
    outer = chain(engine, inner, policy=Policy(timeout=Timeout(run=10)))

    async def main():
        await asyncio.gather(*(outer.aexecute(JOB, ScriptedReasoner([])) for _ in range(3)))
        return now()

    assert run_on_fake_clock(main()) == 24


def asking(engine, count=1, **options):
    """A workflow whose operators ask a model, side by side."""
    workflow = engine(**options)
    for n in range(count):
        workflow.add_operator(Operator(OperatorConfig(id=f"ask{n}", instruction=f"Ask {n}.")))
    return workflow


def begun(heard):
    """When the answers came, counted from the first run's beginning."""
    start = min(event.time for event in heard)
    return [round(e.time - start) for e in heard if isinstance(e, events.ModelAnswered)]


def runs(*workflows, reasoners):
    async def main():
        await asyncio.gather(*(w.aexecute(JOB, r) for w, r in zip(workflows, reasoners, strict=True)))

    return run_on_fake_clock(main())


def test_the_limits_of_an_endpoint_hold_for_two_workflows_and_for_copies_of_a_model(engine):
    heard = []
    limits = Limits(requests_per_minute=2)
    with ScriptedModel(lambda request: Say("x")) as scripted:
        one = scripted.model.model_copy(update={"limits": limits})
        same = copy.deepcopy(one).model_copy(update={"temperature": 0.5})
        other = scripted.model.model_copy(update={"limits": limits, "name": "other"})
        runs(
            *(asking(engine, 2, listeners=[heard.append]) for _ in range(3)),
            reasoners=[MonoModelReasoner(model) for model in (one, same, other)],
        )
    assert begun(heard) == [0, 0, 0, 0, 60, 60]


def test_the_endpoint_sees_no_more_calls_at_once_than_its_limits_say(engine):
    lock, running, most = threading.Lock(), [0], [0]
    two = threading.Barrier(2, timeout=10)

    def step(request):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        two.wait()
        with lock:
            running[0] -= 1
        return Say("x")

    with ScriptedModel(step) as scripted:
        model = scripted.model.model_copy(update={"limits": Limits(concurrency=2)})
        runs(*(asking(engine, 3) for _ in range(2)), reasoners=[MonoModelReasoner(model) for _ in range(2)])
    assert most == [2]


def test_tokens_a_minute_hold_back_the_calls_that_follow(engine):
    heard = []
    with ScriptedModel(lambda request: Say("one two three four five six seven eight")) as scripted:
        model = scripted.model.model_copy(update={"limits": Limits(tokens_per_minute=21, concurrency=1)})
        runs(asking(engine, 5, listeners=[heard.append]), reasoners=[MonoModelReasoner(model)])
    assert {e.usage.tokens for e in heard if isinstance(e, events.ModelAnswered)} == {11}
    assert begun(heard) == [0, 0, 60, 60, 120]


def test_a_workflows_requests_a_minute_hold_for_all_its_runs_and_models(engine):
    heard = []
    with ScriptedModel(lambda request: Say("x")) as one, ScriptedModel(lambda request: Say("x")) as other:
        workflow = asking(engine, 2, limits=Limits(requests_per_minute=3), listeners=[heard.append])
        runs(workflow, workflow, reasoners=[MonoModelReasoner(one.model), MonoModelReasoner(other.model)])
    assert begun(heard) == [0, 0, 0, 60]


def test_a_workflows_requests_a_minute_hold_inside_nested_workflows(engine):
    heard = []
    with ScriptedModel(lambda request: Say("x")) as scripted:
        inner = asking(engine, 3, name="inner")
        outer = chain(engine, inner, limits=Limits(requests_per_minute=2), listeners=[heard.append])
        runs(outer, reasoners=[MonoModelReasoner(scripted.model)])
    assert begun(heard) == [0, 0, 60]


def test_waiting_for_the_endpoints_limits_takes_no_time_of_the_operators_and_of_those_around(engine):
    policy = Policy(timeout=Timeout(run=10, idle=5))
    with ScriptedModel(lambda request: Say("x")) as scripted:
        model = scripted.model.model_copy(update={"limits": Limits(requests_per_minute=1)})
        inner = asking(engine, 3, name="inner", policy=policy)
        _, when = timed(chain(engine, inner, policy=policy), MonoModelReasoner(model))
    assert 120 <= when < 130


# Budget


def test_a_run_over_its_tokens_ends_with_a_typed_error_and_what_is_finished(engine):
    operators = [Do(name, calls_a_model()) for name in "abc"]
    error = fails(chain(engine, *operators, budget=Budget(tokens=100), name="w"), BudgetError)
    assert str(error) == "workflow 'w' has used up its budget: 120 of 100 tokens; increase the budget"
    assert error.usage.tokens == 120
    assert {path: message.scratchpad for path, message in error.finished.items()} == {"a": "said"}
    assert [operator.calls for operator in operators] == [1, 1, 0]


def test_a_run_within_its_budget_is_not_disturbed(engine):
    budget = Budget(tokens=120, calls=2, cost=1, seconds=1)
    workflow = chain(engine, Do("a", calls_a_model()), Do("b", calls_a_model()), budget=budget)
    assert run(workflow).usage.tokens == 120
    assert run(workflow).usage.tokens == 120  # each run has its own


def test_a_call_for_which_nothing_is_left_is_not_made(engine):
    with ScriptedModel([Say("one"), Say("two")]) as scripted:
        operators = [Operator(OperatorConfig(id=name, instruction=f"Say {name}.")) for name in "abc"]
        workflow = chain(engine, *operators, budget=Budget(calls=2))
        error = fails(workflow, BudgetError, MonoModelReasoner(scripted.model))
    assert "2 of 2 calls" in str(error)
    assert list(error.finished) == ["a", "b"]
    assert error.usage.calls == 2


def test_concurrent_calls_may_exceed_a_budget_and_the_run_ends_when_they_do(engine):
    together = threading.Barrier(3, timeout=10)

    def step(request):
        together.wait()
        return Say("x")

    with ScriptedModel(step) as scripted:
        error = fails(asking(engine, 3, budget=Budget(calls=2)), BudgetError, MonoModelReasoner(scripted.model))
    assert "3 of 2 calls" in str(error)


def test_money_is_counted_by_the_models_prices(engine):
    price = Price(prompt=1_000_000, completion=2_000_000)
    with ScriptedModel([Say("one two three")] * 2) as scripted:
        model = scripted.model.model_copy(update={"price": price})
        operators = [Operator(OperatorConfig(id=name, instruction="Say it.")) for name in "ab"]
        workflow = chain(engine, *operators, budget=Budget(cost=15))
        error = fails(workflow, BudgetError, MonoModelReasoner(model))
    first = error.finished["a"].usage
    assert first.cost == first.prompt_tokens + 2 * 3
    assert error.usage.cost > 15
    assert " of 15 USD; increase" in str(error)


def test_a_budget_of_money_needs_a_price_and_nothing_is_asked_without(engine):
    with ScriptedModel([]) as scripted:
        error = fails(asking(engine, 1, budget=Budget(cost=1)), reasoner=MonoModelReasoner(scripted.model))
    assert isinstance(error.__cause__, InputError)
    assert "has no price, so a budget of money cannot be kept; give it one: Model(price=" in str(error)


def test_a_price_may_be_nothing_but_not_less():
    assert Price().of(Usage(prompt_tokens=10, completion_tokens=10)) == 0
    with pytest.raises(ValueError, match="prompt: must be at least 0"):
        Price(prompt=-1)


def test_a_run_over_its_seconds_ends_and_what_runs_is_stopped(engine):
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            cleaned.append("b")

    error = fails(chain(engine, Do("a"), Do("b", work), budget=Budget(seconds=5)), BudgetError)
    assert "5 of 5 seconds" in str(error)
    assert (list(error.finished), cleaned) == (["a"], ["b"])


def test_what_runs_inside_counts_and_is_found_finished_by_its_path(engine):
    inner = chain(engine, Do("i1", calls_a_model()), Do("i2", calls_a_model()), name="inner")
    outer = chain(engine, Do("a", calls_a_model()), inner, budget=Budget(tokens=150), name="outer")
    error = fails(outer, BudgetError)
    assert "workflow 'outer' has used up its budget: 180 of 150" in str(error)
    assert set(error.finished) == {"a", "inner/i1"}


def test_what_is_finished_inside_of_what_was_stopped_is_not_lost(engine):
    async def late():
        await asyncio.sleep(5)
        events.emit(events.ModelAnswered(model="m", usage=ONE_CALL))

    inner = chain(engine, Do("i1"), Do("i2", lambda: asyncio.sleep(100)), name="inner")
    outer = engine(budget=Budget(tokens=1))
    outer.add_operator(inner)
    outer.add_operator(Do("b", late))
    assert set(fails(outer, BudgetError).finished) == {"inner/i1"}


def test_an_inner_budget_ends_the_whole_run(engine):
    inner = chain(engine, Do("i1", calls_a_model()), Do("i2", calls_a_model()), name="inner", budget=Budget(calls=1))
    error = fails(chain(engine, Do("a", calls_a_model()), inner, Do("z"), name="outer"), BudgetError)
    assert "workflow 'inner' has used up its budget: 2 of 1 calls" in str(error)
    assert error.usage.calls == 2
    assert set(error.finished) == {"a", "inner/i1"}


def test_the_items_of_a_map_count_together_and_are_no_items_that_failed(engine):
    items = WorkflowMessage(outputs={"items": ["p", "q", "r"]})
    body = chain(engine, Do("b1", calls_a_model()), Do("b2"), name="body")
    each = Map("each", body, over="items", concurrency=1, on_error="keep")
    error = fails(chain(engine, Do("a", lambda: items), each, budget=Budget(calls=2)), BudgetError)
    assert "3 of 2 calls" in str(error)
    assert set(error.finished) == {"a", "each[0]/b1", "each[0]/b2", "each[1]/b1", "each[1]/b2"}


def test_who_swallows_the_error_does_not_get_the_run_on(engine):
    def work():
        for _ in range(5):
            try:
                events.emit(events.ModelAnswered(model="m", usage=ONE_CALL))
            except BudgetError:
                continue
        return "as if nothing had been"

    last = Do("z")
    error = fails(chain(engine, Do("a", work), last, budget=Budget(calls=2)), BudgetError)
    assert (last.calls, error.usage.calls) == (0, 5)


def test_a_tool_that_uses_the_budget_up_ends_the_run_whatever_the_model_makes_of_it(engine):
    inner = chain(engine, Do("i", calls_a_model(Usage(calls=10))), name="inner")

    async def ask_others() -> str:
        """Ask others."""
        return (await inner.aexecute(JOB, ScriptedReasoner([]))).scratchpad

    with ScriptedModel([CallTools([("ask_others", {})])]) as scripted:
        action = Action(name="ask", tools=(Tool.of(ask_others),))
        ask = Operator(OperatorConfig(id="ask", instruction="Ask.", actions=[action]))
        workflow = chain(engine, ask, budget=Budget(calls=5))
        error = fails(workflow, BudgetError, MonoModelReasoner(scripted.model))
    assert error.usage.calls == 11


def test_an_operators_own_account_counts(engine):
    own = WorkflowMessage(scratchpad="said", usage=ONE_CALL)
    error = fails(chain(engine, Do("a", lambda: own), Do("b"), budget=Budget(tokens=50)), BudgetError)
    assert error.usage == ONE_CALL


def test_no_retry_and_no_fallback_get_around_a_budget(engine):
    a = Do("a", calls_a_model(Usage(calls=9)))
    policy = Policy(retry=Retry(3, on=(Exception,)), fallback="sorry")
    fails(chain(engine, a, policy=policy, budget=Budget(calls=1)), BudgetError)
    assert a.calls == 1
    inner = chain(engine, Do("i", calls_a_model(Usage(calls=9))), name="inner")
    fails(chain(engine, inner, policy=policy, budget=Budget(calls=1)), BudgetError)


# Fallback


def test_a_text_or_a_message_takes_the_place_of_an_operator_that_failed(engine):
    said = WorkflowMessage(scratchpad="said", outputs={"n": 1})
    for fallback, text in (("sorry", "sorry"), (said, "said"), ("", "")):
        workflow = chain(engine, Do("a", failing(ValueError())), policy=Policy(fallback=fallback))
        message = run(workflow)
        assert (message.scratchpad, message.operator_id, message.job_id) == (text, "a", JOB.id)
    assert said.operator_id == ""


def test_another_operator_takes_its_place_and_hears_what_it_heard(engine):
    workflow = chain(engine, Do("first"))
    spare = Do("spare", lambda messages: f"heard {messages[0].scratchpad}")
    workflow.add_operator(
        Do("a", failing(ValueError())), [workflow.get_operator("first")], policy=Policy(fallback=spare)
    )
    message = run(workflow)
    assert (message.scratchpad, message.operator_id) == ("heard first", "a")


def test_another_model_takes_the_place_of_one_that_failed(engine):
    with ScriptedModel([Fail(500)]) as broken, ScriptedModel([Say("from the other")]) as other:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask."))
        workflow = chain(engine, ask, policy=Policy(fallback=other.model))
        assert run(workflow, MonoModelReasoner(broken.model)).scratchpad == "from the other"
    assert other.requests[0]["messages"] == broken.requests[0]["messages"]


def test_a_reasoner_that_cannot_change_its_model_says_so(engine):
    with ScriptedModel([]) as other:
        ask = Operator(OperatorConfig(id="ask", instruction="Ask."))
        workflow = chain(engine, ask, policy=Policy(fallback=other.model))
        error = fails(workflow, reasoner=ScriptedReasoner(ValueError("broke")))
    assert "a ScriptedReasoner cannot think with another one: give it a method with_model(model)" in str(error)


def test_it_falls_back_after_the_last_attempt_only_and_says_so(engine, no_jitter):
    heard = []
    a = Do("a", failing(ConnectionError("gone")))
    workflow = chain(engine, a, policy=Policy(Retry(2), fallback=Do("spare")), listeners=[heard.append])
    assert run(workflow).scratchpad == "spare"
    assert a.calls == 2
    [fell] = [event for event in heard if isinstance(event, events.FellBack)]
    assert (fell.error, fell.to, fell.attempt, fell.path) == (
        "ConnectionError: gone", "operator 'spare'", 2, ("a",),
    )  # fmt: skip
    assert not any(isinstance(event, events.OperatorFailed) for event in heard)


def test_a_timeout_falls_back(engine):
    async def work():
        await asyncio.sleep(100)

    policy = Policy(timeout=Timeout(run=10), fallback="sorry")
    assert timed(chain(engine, Do("a", work), policy=policy)) == ("sorry", 10)


class Label(BaseModel):
    kind: str


@dataclass
class Size:
    width: int


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Label, Label(kind="other"), '{"kind": "other"}'),
        (Label, {"kind": "other"}, '{"kind": "other"}'),
        (Size, Size(3), '{"width": 3}'),
        (list[int], [1, 2], "[1, 2]"),
        (float, 0.5, "0.5"),
    ],
)
def test_a_fallback_is_a_value_of_the_output_type(kind, value, text):
    with ScriptedModel([Fail(400)]) as scripted:
        result = Workflow(Operator("Label it.", output=kind, policy=Policy(fallback=value))).run("x", scripted.model)
    assert result.output == (Label(kind="other") if kind is Label else value)
    assert result.text == text


@pytest.mark.parametrize("fallback", [True, Label, Size, len, object()])
def test_a_fallback_of_another_type_is_refused(fallback):
    with pytest.raises(InvalidError, match="expected an operator, a model, a message, a text or another value, got"):
        Policy(fallback=fallback)


def test_a_fallback_has_the_time_of_an_attempt(engine):
    async def work():
        await asyncio.sleep(100)

    policy = Policy(timeout=Timeout(run=10), fallback=Do("spare", work))
    error, when = timed(chain(engine, Do("a", failing(ValueError())), policy=policy))
    assert isinstance(error.__cause__.__cause__, OperatorTimeoutError)
    assert when == 10


def test_a_fallback_has_a_policy_of_its_own_so_that_fallbacks_can_follow_each_other(engine):
    first = Do("first", failing(ConnectionError()))
    second: Any = Do("second", failing(ConnectionError()))
    second.policy = Policy(retry=Retry(3, first_delay=0.1), fallback="sorry")
    workflow = chain(engine, first, policy=Policy(retry=Retry(2, first_delay=0.1), fallback=second))
    assert timed(workflow)[0] == "sorry"
    assert (first.calls, second.calls) == (2, 3)
    second.policy = Policy(fallback=chain(engine, Do("third")))
    assert timed(workflow)[0] == "third"


@pytest.mark.parametrize("last", ["unclear", WorkflowMessage(scratchpad="unclear")])
def test_the_last_of_fallbacks_that_follow_each_other_chooses_a_port(engine, last):
    first, second = (Operator("Refund?", id=name, ports=["refund", "question"]) for name in ("first", "second"))
    second.policy = Policy(fallback=last)
    workflow = engine(policy=Policy(fallback=second))
    workflow.add([first["refund"] >> Do("pay"), first["question"] >> Do("reply")])
    issues = [(issue.code, issue.where) for issue in workflow.graph().check()]
    assert issues == [("fallback-port", "first")]
    second.policy = Policy(fallback=WorkflowMessage(ports=("refund",)))
    assert not workflow.graph().check()


def test_fallbacks_that_lead_back_to_themselves_are_an_issue(engine):
    def issues(workflow):
        return [(issue.code, issue.where, issue.message.split(": ")[-1]) for issue in workflow.graph().check()]

    a, b = Operator("A.", id="a"), Operator("B.", id="b")
    a.policy, b.policy = Policy(fallback=b), Policy(fallback=a)
    assert issues(engine([a, Do("c")])) == [("fallback-cycle", "a", "b → a → b; remove one of them")]

    itself = engine(name="itself")
    itself.policy = Policy(fallback=itself)
    itself.add([Do("a"), Do("b")])
    assert issues(itself) == [("fallback-cycle", "a", "itself → itself; remove one of them")]

    inner, outer = engine(name="inner"), engine(name="outer")
    inner.add(Do("a"), policy=Policy(fallback=outer))
    outer.add(inner)
    assert issues(inner) == [("fallback-cycle", "a", "outer → outer; remove one of them")]
    assert issues(outer) == [("fallback-cycle", "inner/a", "outer → outer; remove one of them")]


def test_an_operator_without_a_policy_of_its_own_may_be_its_own_fallback_and_workflows_may_share_one(engine):
    a = Do("a", failing(ConnectionError(), 1))
    spare = chain(engine, a, name="spare")
    workflow = chain(engine, Do("b", failing(ConnectionError())), a, policy=Policy(fallback=a))
    workflow.add(Do("c", failing(ConnectionError())), policy=Policy(fallback=spare))
    workflow.add(Do("d", failing(ConnectionError())), policy=Policy(fallback=spare))
    assert not workflow.graph().check()


def test_the_default_policy_of_a_workflow_is_not_its_own_as_an_evaluator(engine):
    workflow = chain(engine, Do("a"))
    workflow.set_evaluator(chain(engine, Do("b"), name="judge", policy=Policy(fallback="sorry")))
    assert not workflow.graph().policies


def test_a_policy_that_only_switches_features_off_applies_too(engine):
    first = Do("first", failing(ConnectionError()))
    slow: Any = Do("slow", lambda: asyncio.sleep(100))
    judge: Any = Do("judge")
    slow.policy = judge.policy = Policy(timeout=False)
    limited = chain(engine, first, policy=Policy(timeout=10, fallback=slow))
    assert timed(limited)[1] == 100
    limited.set_evaluator(judge)
    assert "judge" not in limited.graph().policies
    assert Operator("Check.", retry=2, policy=Policy(timeout=False)).policy == Policy(retry=2, timeout=False)


def test_a_fallback_that_fails_is_the_error_and_what_it_stood_in_for_is_not_forgotten(engine):
    original, second = ValueError("the first fault"), KeyError("the second fault")
    policy = Policy(fallback=Do("spare", failing(second)))
    error = fails(chain(engine, Do("a", failing(original)), policy=policy))
    assert error.operator_id == "a"
    assert error.__cause__.__cause__ is second
    assert "ValueError: the first fault; and operator 'spare', to which it falls back, failed: KeyError" in str(error)


def test_a_workflow_that_runs_inside_its_own_operator_has_that_ones_place(engine):
    async def again(messages):
        return "deep" if depth.pop() else (await limited.aexecute(JOB, None)).scratchpad

    depth = [True, False, False]
    limited = chain(engine, Do("a", again), limits=Limits(concurrency=1))
    assert run(limited).scratchpad == "deep"


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Policy, {"retry": "3"}),
        (Policy, {"timeout": "3"}),
        (Policy, {"cache": True}),
        (Policy, {"fallback": object()}),
        (Retry, {"on": ("ValueError",)}),
        (Retry, {"attempts": "3"}),
        (Timeout, {"run": "5"}),
    ],
)
def test_what_is_no_such_value_is_found_when_it_is_written_down(kind: Any, wrong):
    with pytest.raises(InvalidError):
        kind(**wrong)


def test_the_errors_to_try_again_on_may_be_a_list_or_a_single_one():
    kind: Any = Retry
    assert kind(on=[KeyError]).on == kind(on=KeyError).on == (KeyError,)


def test_what_a_fallback_says_is_not_kept_in_the_cache(engine):
    class Flaky(Do):
        def fingerprint(self):
            return {"id": "flaky"}

    class Asker(ScriptedReasoner):
        def fingerprint(self):
            return {}

    a = Flaky("a", failing(ValueError(), 1))
    workflow = chain(engine, a, policy=Policy(fallback="sorry", cache=Cache()))
    assert [run(workflow, Asker([])).scratchpad for _ in range(3)] == ["sorry", "done", "done"]
    assert a.calls == 2


def test_cancellation_does_not_fall_back(engine):
    spare = Do("spare")

    async def main():
        workflow = chain(engine, Do("a", lambda: asyncio.sleep(100)), policy=Policy(Retry(3), fallback=spare))
        running = asyncio.ensure_future(workflow.aexecute(JOB, ScriptedReasoner([])))
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return now()

    assert run_on_fake_clock(main()) == 1
    assert spare.calls == 0
