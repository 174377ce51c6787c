"""Caches of operators: the same work is not done twice, other work is, and nothing bad is kept."""

import asyncio
import inspect
from typing import Any

import pytest
from fake_operators import chain

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    Cache,
    Example,
    FileDescriptor,
    InvalidError,
    Job,
    Map,
    MonoModelReasoner,
    OperatorError,
    Policy,
    Port,
    Retry,
    Tool,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.message import NO_USAGE

JOB = Job(goal="goal")


class Asker:
    """A reasoner that nobody asks."""

    async def infer(self, task):
        raise AssertionError("nobody asks")

    def fingerprint(self):
        return {}


ASKER = Asker()


class Do:
    """An operator without a fingerprint."""

    def __init__(self, op_id, work=None):
        self._id = op_id
        self._work = work or (lambda messages: "".join(message.scratchpad for message in messages) + op_id)
        self.calls = 0

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.calls += 1
        said = self._work(workflow_messages)
        return await said if inspect.isawaitable(said) else said


class Known(Do):
    """One with a fingerprint."""

    def fingerprint(self):
        return {"id": self._id}


def cached(cache=None):
    return Policy(cache=cache or Cache())


def run(workflow, job=JOB, reasoner: Any = ASKER, **options):
    return workflow.execute(job, reasoner, **options)


def test_the_second_run_takes_what_the_first_said(engine):
    said = WorkflowMessage(scratchpad="said", outputs={"n": [1, {"m": None}]}, ports=("on",), usage=Usage(calls=1))
    a = Known("a", lambda messages: said)
    workflow = engine(policy=cached())
    workflow.add_operator(a)
    workflow.add_operator(Known("b"), [Port(a, "on")])
    workflow.add_operator(Known("c"), [Port(a, "off")])
    first, second = run(workflow), run(workflow)
    assert a.calls == 1
    assert (first.scratchpad, second.scratchpad) == ("saidb", "saidb")


def test_a_hit_is_an_event_and_costs_nothing(engine):
    def work(messages):
        events.emit(events.ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=5)))
        return "said"

    heard = []
    workflow = chain(engine, Known("a", work), policy=cached(), listeners=[heard.append])
    assert run(workflow).usage.calls == 1
    assert not any(isinstance(event, events.CacheHit) for event in heard)
    heard.clear()
    message = run(workflow)
    assert message.usage == NO_USAGE
    assert [type(event).__name__ for event in heard if event.path == ("a",)] == [
        "OperatorStarted", "CacheHit", "OperatorFinished",
    ]  # fmt: skip
    assert heard[-1].message.usage == NO_USAGE


def test_what_comes_from_the_cache_is_of_this_job_and_this_operator(engine):
    cache = Cache()
    workflow = chain(engine, Known("a"), policy=cached(cache))
    run(workflow, Job(goal="goal", id="first"))
    message = run(workflow, Job(goal="goal", id="second"))
    assert (message.job_id, message.operator_id, message.scratchpad) == ("second", "a", "a")


def test_it_is_opt_in_per_operator(engine):
    kept, not_kept = Known("kept"), Known("not_kept")
    workflow = engine()
    workflow.add_operator(kept, policy=cached())
    workflow.add_operator(not_kept, [kept])
    for _ in range(3):
        run(workflow)
    assert (kept.calls, not_kept.calls) == (1, 3)


def test_the_workflows_cache_is_that_of_all_its_operators(engine):
    operators = [Known("a"), Known("b")]
    workflow = chain(engine, *operators, policy=cached())
    for _ in range(3):
        run(workflow)
    assert [operator.calls for operator in operators] == [1, 1]


@pytest.mark.parametrize(
    ("job", "options"),
    [
        (Job(goal="another goal"), {}),
        (Job(goal="goal", context="more"), {}),
        (Job(goal="goal", inputs={"n": 1}), {}),
        (JOB, {"lesson": "Do better."}),
        (JOB, {"workflow_messages": [WorkflowMessage(scratchpad="earlier")]}),
    ],
)
def test_other_input_is_a_miss(engine, job, options):
    a = Known("a")
    workflow = chain(engine, a, policy=cached())
    run(workflow)
    run(workflow, job, **options)
    assert a.calls == 2
    run(workflow, job, **options)
    assert a.calls == 2


def test_other_messages_before_it_are_a_miss(engine):
    said = iter(["one", "one", "two", "two"])
    a, b = Do("a", lambda messages: next(said)), Known("b")
    workflow = engine()
    workflow.add_operator(a)
    workflow.add_operator(b, [a], policy=cached())
    assert [run(workflow).scratchpad for _ in range(4)] == ["oneb", "oneb", "twob", "twob"]
    assert b.calls == 2


def test_a_file_counts_by_its_content(engine, tmp_path):
    a, notes = Known("a"), tmp_path / "notes.txt"
    workflow = chain(engine, a, policy=cached())
    for text, calls in (("one", 1), ("one", 1), ("two", 2)):
        notes.write_text(text)
        run(workflow, Job(goal="goal", files=(FileDescriptor.of(notes),)))
        assert a.calls == calls


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


def config(**changes):
    return {"id": "ask", "instruction": "Ask.", **changes}


@pytest.mark.parametrize(
    "change",
    [
        {"instruction": "Ask again."},
        {"output_schema": "In brief."},
        {"examples": [Example(input="in", output="out")]},
        {"actions": [Action(name="add", tools=(Tool.of(add),))]},
        {"actions": [Action(name="add", tools=(Tool.of(subtract, name="add", description="Add."),))]},
        {"threshold": 0.9},
    ],
    ids=["instruction", "schema", "example", "tool", "function", "threshold"],
)
def test_another_operator_is_a_miss(engine, change):
    with ScriptedModel([Say("one"), Say("two")]) as scripted:
        cache, reasoner = Cache(), MonoModelReasoner(scripted.model)

        def ask(**changes):
            return run(
                chain(engine, Operator(OperatorConfig(**config(**changes))), policy=cached(cache)), JOB, reasoner
            )

        assert ask().scratchpad == "one"
        assert ask().scratchpad == "one"  # made anew, and still the same
        assert ask(**change).scratchpad == "two"
        assert ask(**change).scratchpad == "two"


@pytest.mark.parametrize(
    ("change", "hit"),
    [
        ({"name": "another"}, False),
        ({"temperature": 0.7}, False),
        ({"max_tokens": 9}, False),
        ({"structured": False}, False),
        ({"timeout": 5.0}, True),
        ({"max_retries": 5}, True),
        ({"api_key": None}, True),
    ],
    ids=str,
)
def test_another_model_is_a_miss_and_the_same_with_another_key_is_a_hit(engine, change, hit):
    with ScriptedModel([Say("one")] + [Say("two")] * (not hit)) as scripted:
        workflow = chain(engine, Operator(OperatorConfig(**config())), policy=cached())
        said = [
            run(workflow, JOB, MonoModelReasoner(model)).scratchpad
            for model in (scripted.model, scripted.model.model_copy(update=change))
        ]
    assert said == ["one", "one" if hit else "two"]


def test_tools_are_not_called_again_for_what_is_kept(engine):
    called = []

    def look(what: str) -> str:
        """Look something up."""
        called.append(what)
        return "found"

    with ScriptedModel([CallTools([("look", {"what": "it"})]), Say("There.")]) as scripted:
        actions = [Action(name="look", tools=(Tool.of(look),))]
        workflow = chain(engine, Operator(OperatorConfig(**config(actions=actions))), policy=cached())
        said = [run(workflow, JOB, MonoModelReasoner(scripted.model)).scratchpad for _ in range(2)]
    assert (said, called) == (["There.", "There."], ["it"])


def test_an_error_is_never_kept(engine):
    with ScriptedModel([Fail(500), Say("now")]) as scripted:
        workflow = chain(engine, Operator(OperatorConfig(**config())), policy=cached())
        reasoner = MonoModelReasoner(scripted.model)
        with pytest.raises(OperatorError):
            run(workflow, JOB, reasoner)
        assert [run(workflow, JOB, reasoner).scratchpad for _ in range(2)] == ["now", "now"]


def test_what_a_retry_made_is_kept(engine):
    def work(messages):
        if a.calls == 1:
            raise ConnectionError("gone")
        return "said"

    a = Known("a", work)
    policy = Policy(retry=Retry(2, first_delay=0.001), cache=Cache())
    workflow = chain(engine, a, policy=policy)
    assert [run(workflow).scratchpad for _ in range(2)] == ["said", "said"]
    assert a.calls == 2


@pytest.mark.parametrize("status", [status for status in WorkflowStatus if status is not WorkflowStatus.SUCCESS])
def test_only_success_is_kept(engine, status):
    a = Known("a", lambda messages: WorkflowMessage(status=status))
    workflow = chain(engine, a, policy=cached())
    assert [run(workflow).status for _ in range(2)] == [status, status]
    assert a.calls == 2


def test_a_cancelled_operator_leaves_nothing(engine):
    a = Known("a", lambda messages: asyncio.sleep(100 if a.calls == 1 else 0, "said"))
    workflow = chain(engine, a, policy=cached())

    async def main():
        running = asyncio.ensure_future(workflow.aexecute(JOB, ASKER))
        while not a.calls:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])
        return (await workflow.aexecute(JOB, ASKER)).scratchpad

    assert asyncio.run(main()) == "said"


def test_an_operator_without_a_fingerprint_cannot_be_cached(engine):
    workflow = engine(name="w")
    workflow.add_operator(Do("a"), policy=cached())
    workflow.add_operator(Known("b"), policy=cached())
    workflow.set_evaluator(Do("judge"))
    with pytest.raises(InvalidError) as raised:
        run(workflow)
    assert [(issue.code, issue.where) for issue in raised.value.issues] == [("no-fingerprint", "a")]
    assert "define fingerprint(), or set Policy(cache=False)" in str(raised.value)


def test_nor_can_one_with_the_workflows_cache(engine):
    workflow = chain(engine, Do("a"), Known("b"), policy=cached())
    workflow.set_evaluator(Do("judge"))
    with pytest.raises(InvalidError) as raised:
        run(workflow)
    assert {issue.where for issue in raised.value.issues} == {"a", "judge"}


def test_a_reasoner_without_a_fingerprint_is_an_error_that_says_so(engine):
    workflow = chain(engine, Known("a"), policy=cached())
    with pytest.raises(OperatorError, match=r"ScriptedReasoner has no JSON form and no fingerprint\(\)"):
        run(workflow, JOB, ScriptedReasoner("said"))


def test_what_has_no_json_form_is_worked_on_again_and_no_error(engine):
    a, b = Do("a", lambda messages: WorkflowMessage(outputs={"odd": object()})), Known("b")
    workflow = engine()
    workflow.add_operator(a)
    workflow.add_operator(b, [a], policy=cached())
    run(workflow)
    run(workflow)
    assert b.calls == 2


def test_a_file_is_shared_by_workflows_and_outlives_them(engine, tmp_path):
    calls = []
    for _ in range(2):
        cache = Cache(tmp_path / "cache.sqlite")
        a = Known("a", lambda messages: WorkflowMessage(scratchpad="said", outputs={"n": 1}))
        b = Known("b")
        message = run(chain(engine, a, b, policy=cached(cache)))
        assert message.scratchpad == "saidb"
        calls.append((a.calls, b.calls))
        cache.close()
    assert calls == [(1, 1), (0, 0)]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_what_is_too_old_is_made_again(engine, tmp_path, monkeypatch, where):
    now = [1_000_000.0]
    monkeypatch.setattr("operad.runtime.policies.cache.time.time", lambda: now[0])
    cache = Cache(tmp_path / "cache.sqlite" if where == "file" else None, max_age=60)
    a = Known("a")
    workflow = chain(engine, a, policy=cached(cache))
    for later, calls in ((0, 1), (59, 1), (2, 2), (59, 2)):
        now[0] += later
        run(workflow)
        assert a.calls == calls
    cache.close()


def test_the_items_of_a_map_are_kept_each_by_its_content(engine):
    up = Known("up", lambda messages: messages[0].scratchpad.upper())
    body = chain(engine, up, name="body", policy=cached())
    workflow = chain(engine, Map("each", body, over="xs", concurrency=1))
    first = run(workflow, Job(goal="goal", inputs={"xs": ["p", "q"]}))
    second = run(workflow, Job(goal="goal", inputs={"xs": ["p", "q"]}))
    assert first.outputs == second.outputs == {"items": ["P", "Q"]}
    assert up.calls == 2


def test_each_round_with_a_new_lesson_is_work_of_its_own(engine):
    a = Known("a", lambda messages: f"draft {a.calls}")
    blame = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, blame=("a",), lesson="Do better.")
    judge = Do("judge", lambda messages: blame if judge.calls % 2 else WorkflowMessage(evaluation="good"))
    workflow = engine(max_rounds=2)
    workflow.add_operator(a, policy=cached())
    workflow.set_evaluator(judge)
    assert [run(workflow).scratchpad for _ in range(2)] == ["draft 2", "draft 2"]
    assert a.calls == 2


def test_runs_at_once_share_a_cache(engine):
    a = Known("a")
    workflow = chain(engine, a, policy=cached())

    async def main():
        await workflow.aexecute(JOB, ASKER)
        return await asyncio.gather(*(workflow.aexecute(JOB, ASKER) for _ in range(20)))

    assert {message.scratchpad for message in asyncio.run(main())} == {"a"}
    assert a.calls == 1
