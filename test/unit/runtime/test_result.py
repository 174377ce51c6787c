"""Results and handles of runs."""

import asyncio
import importlib.util
import json
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from fake_operators import Do, Echo
from pydantic import BaseModel, field_validator
from typing_extensions import TypeAliasType, TypedDict

from operad import (
    Evaluator,
    Fault,
    InputError,
    Job,
    Model,
    MonoModelReasoner,
    Operator,
    PausedError,
    RunContext,
    Take,
    Task,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
    operator,
    tool,
)
from operad.runtime import AnswerError, BuiltinWorkflow, OperatorError, RunningLoopError, ToolError, Usage
from operad.runtime.durable import Ledger
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.testing import CallTools, ScriptedModel, ScriptedReasoner


class Claims(BaseModel):
    claims: list[str]


@dataclass
class Point:
    x: int


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return n


Names = TypeAliasType("Names", list[str] | None)


class Person(TypedDict):
    name: str


@operator
def facts(job: Job) -> Claims:
    return Claims(claims=job.goal.split())


@operator
def count(facts: Claims) -> int:
    return len(facts.claims)


class Judge(Evaluator):
    """Judges in turn as it is told."""

    def __init__(self, *verdicts):
        super().__init__("Judge.")
        self.verdicts = list(verdicts)

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return self.verdicts.pop(0)


def wrong(lesson, **fields):
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="wrong", lesson=lesson, **fields)


def test_a_result_has_typed_answers_and_what_came_of_the_run():
    result = Workflow(facts >> count).run("a b", run_id="r1")
    assert (result.output, result[facts], result["facts"]) == (2, Claims(claims=["a", "b"]), Claims(claims=["a", "b"]))
    assert (result.text, result.message.outputs) == ("2", {"output": 2})
    assert (result.status, result.evaluation, result.lesson) == (WorkflowStatus.SUCCESS, "", "")
    assert (result.rounds, result.run_id, result.usage, result.cost) == (1, "r1", Usage(), 0.0)
    assert "facts" in result
    assert repr(result) == "<Result of run 'r1': SUCCESS, rounds: 1, '2'>"


def test_a_result_says_whether_it_was_accepted_and_what_is_at_fault():
    fault = Fault(operator="count", wrong="2", right="3")
    rejected = Workflow(facts >> count, evaluator=Judge(wrong("Count.", faults=[fault])), max_rounds=1).run(
        "a b", run_id="r"
    )
    assert (rejected.accepted, rejected.rejected, rejected.faults) == (False, True, (fault,))
    assert (rejected.message.accepted, rejected.message.rejected) == (False, True)
    assert repr(rejected) == "<Result of run 'r': rejected (EXECUTION_ERROR), rounds: 1, '2'>"
    assert "at fault: count\n  wrong: 2\n  right: 3" in rejected._repr_html_()
    accepted = Workflow(facts >> count).run("a b")
    assert (accepted.accepted, accepted.rejected, accepted.faults) == (True, False, ())


def test_an_evaluators_verdict_is_in_the_result_and_the_answer_is_still_the_last_operators():
    judge = Judge(wrong("Shorter.", outputs={"extra": 1}), WorkflowMessage(evaluation="fine", outputs={"extra": 2}))
    result = Workflow(facts >> count, evaluator=judge, max_rounds=2).run("a b")
    assert (result.output, result.status, result.evaluation, result.rounds) == (2, WorkflowStatus.SUCCESS, "fine", 2)
    assert list(result.messages) == ["facts", "count"]


def test_the_answers_are_those_of_the_round_that_counts():
    @operator
    def number(context: RunContext) -> int:
        return context.round

    judge = Judge(wrong("again", score=5), wrong("again", score=1))
    result = Workflow(number, evaluator=judge, max_rounds=2).run("x")
    assert (result.output, result["number"], result.text, result.rounds) == (1, 1, "1", 2)


def test_of_several_last_operators_the_answer_is_a_dict_or_that_of_the_only_one_that_ran():
    @operator(ports=["many", "few"])
    def route(job: Job) -> Take[int]:
        size = len(job.goal.split())
        return Take("many" if size > 1 else "few", size)

    many = operator(id="many")(lambda route: route * 10)
    few = operator(id="few")(lambda route: route)
    assert Workflow(facts >> [count, Echo("e")]).run("a b").output == {"count": 2, "e": 'e({"claims": ["a", "b"]})'}
    result = Workflow([route["many"] >> many, route["few"] >> few]).run("a b")
    assert result.output == 20
    assert "few" not in result
    with pytest.raises(InputError, match="operator 'few' has no answer: it did not run"):
        _ = result["few"]


def test_the_answer_of_a_nested_workflow_has_its_type():
    inner = BuiltinWorkflow(facts, name="inner")
    assert Workflow(inner).run("a").output == Claims(claims=["a"])
    assert Workflow(inner).run("a")[inner] == Claims(claims=["a"])
    both = BuiltinWorkflow([facts, Do("x")], name="both")
    assert Workflow(both).run("a").output == {"facts": Claims(claims=["a"]), "x": "x"}


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (Claims, '{"claims": ["a"]}', Claims(claims=["a"])),
        (Point, '{"x": 1}', Point(1)),
        (Person, '{"name": "Tom"}', {"name": "Tom"}),
        (list[str], '["a", "b"]', ["a", "b"]),
        (Names, '["a", "b"]', ["a", "b"]),
        (list[Claims], '[{"claims": []}]', [Claims(claims=[])]),
        (int, "3", 3),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 1}', {"a": 1}),
        ("{a: integer}", '{"a": 1}', {"a": 1}),
        ("In one sentence.", "So it is.", "So it is."),
        (None, "So it is.", "So it is."),
        (str, "3", "3"),
    ],
)
def test_the_answer_of_an_operator_is_of_the_type_that_it_declares(kind, said, value):
    flow = Workflow(Operator("Say it.", id="say", output=kind), model=ScriptedReasoner([said]))
    assert flow.run("x").output == value


def test_an_answer_that_no_validator_accepts_is_asked_for_again_with_what_is_wrong():
    reasoner = ScriptedReasoner(['{"n": 1}', '{"n": 2}'])
    assert Workflow(Operator("Say.", output=Even), model=reasoner).run("x").output.n == 2
    assert reasoner.tasks[1].lesson == "Your last answer could not be read: n: Value error, 1 is odd"
    never = Workflow(Operator("Say.", id="say", output=Even), model=ScriptedReasoner(['{"n": 1}'] * 3))
    with pytest.raises(
        OperatorError, match=r"got no Even in 3 tries; the last answer was .*: n: Value error, 1 is odd"
    ):
        never.run("x")


def test_an_answer_that_a_validator_rejects_is_repaired_in_the_same_conversation_which_has_the_results_of_tools():
    charged: list[int] = []

    def charge(amount: int) -> str:
        """Charge an amount."""
        charged.append(amount)
        return "charged"

    with ScriptedModel([CallTools({"charge": {"amount": 5}}), '{"n": 1}', '{"n": 3}', '{"n": 2}']) as model:
        flow = Workflow(Operator("Charge.", id="pay", output=Even, tools=[charge]), model=model.model)
        assert flow.run("x").output.n == 2
        assert charged == [5]
        messages = model.requests[-1]["messages"]
        assert [message["content"] for message in messages if message["role"] == "tool"] == ["charged"]
        assert "n: Value error, 3 is odd" in messages[-1]["content"]


def test_each_rejected_answer_after_tool_calls_is_an_event_and_counts_as_a_repair():
    def charge(amount: int) -> str:
        return "charged"

    heard: list[Any] = []
    with ScriptedModel([CallTools({"charge": {"amount": 5}}), '{"n": 1}', '{"n": 3}', '{"n": 5}']) as model:
        pay = Operator("Charge.", id="pay", output=Even, tools=[charge])
        with pytest.raises(OperatorError, match=r"in 3 tries; .*5 is odd"):
            Workflow(pay, model=model.model, listeners=[heard.append]).run("x")
    assert [event.repair for event in heard if isinstance(event, events.AnswerRejected)] == [1, 2]
    with (
        ScriptedModel([CallTools({"charge": {"amount": 5}}), '{"n": 1}']) as model,
        pytest.raises(OperatorError, match=r"in 1 tr.*1 is odd"),
    ):
        Workflow(pay, model=MonoModelReasoner(model.model, max_repairs=0)).run("x")


def test_a_reasoner_of_a_wrong_form_is_an_error_that_names_it():
    class Dicts:
        async def infer(self, task):
            return {"a": 1}

    class Sync:
        def infer(self, task):
            return "a"

    wrong: list[tuple[Any, str]] = [
        (Dicts(), r"Dicts.infer returned \{'a': 1\} .dict.; expected text"),
        (Sync(), "Sync.infer must be async"),
    ]
    for reasoner, told in wrong:
        with pytest.raises(OperatorError, match=told):
            Workflow(Operator("Say."), model=reasoner).run("x")


def test_an_operator_with_a_type_and_ports_has_both():
    route = Operator("Which?", id="route", output=Claims, ports=["a", "b"])
    flow = Workflow(route["a"] >> count, model=ScriptedReasoner(['{"claims": ["x"], "port": "a"}']))
    result = flow.run("x")
    assert (result.output, result[route]) == (1, Claims(claims=["x"]))


def test_an_answer_that_does_not_fit_its_type_is_an_error_that_names_the_operator():
    class Liar(BaseOperator[int]):
        def get_id(self) -> str:
            return "liar"

        async def run(self, call) -> str:
            return "three"

        def read_output(self, message) -> int:
            return int(message.scratchpad)

    with pytest.raises(AnswerError, match="the answer of operator 'liar' does not fit its type: invalid literal"):
        _ = Workflow(Liar()).run("x").output


def test_a_function_that_returns_something_else_than_it_says_fails_itself():
    @operator
    def liar(job: Job) -> int:
        return "three"  # type: ignore[return-value]

    @operator
    def after(liar: int) -> str:
        return "never"

    with pytest.raises(OperatorError, match="'liar' is annotated to return int, and returned 'three'") as caught:
        Workflow(liar >> after).run("x")
    assert caught.value.operator_id == "liar"


def test_an_unknown_operator_of_a_result_is_told_with_near_names():
    result = Workflow(facts >> count).run("a")
    with pytest.raises(
        InputError, match=r"no operator has the id 'fact' \(did you mean 'facts'\?\); the workflow has: facts, count"
    ):
        _ = result["fact"]
    outer = Workflow([Workflow(facts >> count, name="inner")]).run("a")
    with pytest.raises(InputError, match=r"inside 'inner'.* OperatorFinished"):
        _ = outer["inner/facts"]


async def test_an_operator_thinks_with_its_own_model_and_a_workflow_inside_too():
    own = Operator("One.", id="one", model=ScriptedReasoner(["own"]))
    inner = BuiltinWorkflow(Operator("Two.", id="two"), name="inner", model=ScriptedReasoner(["inner"]))
    flow = BuiltinWorkflow([own, inner, Operator("Three.", id="three")], model=ScriptedReasoner(["flow"]))
    assert (await flow.arun("x")).output == {"one": "own", "inner": "inner", "three": "flow"}


def test_a_workflow_inside_with_a_model_of_its_own_needs_none_around_it():
    inner = BuiltinWorkflow(Operator("Two.", id="two"), name="inner", model=ScriptedReasoner(["inner"]))
    assert BuiltinWorkflow(inner).run("x").text == "inner"


def test_without_a_model_a_run_ends_before_it_begins_and_says_what_to_set(monkeypatch):
    for name in ("OPERAD_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        Workflow(facts >> Operator("Say.")).run("x")
    assert Workflow(facts >> count).run("a").output == 1
    with pytest.raises(InputError, match="model 'gpt-5': no endpoint is configured; set OPENAI_API_KEY"):
        Workflow(facts >> Operator("Say.", model="gpt-5")).run("x")


def test_a_model_is_given_by_name_as_a_model_or_as_a_reasoner():
    assert isinstance(Workflow(facts, model="gpt-5")._reasoner, MonoModelReasoner)
    model = Model(name="x", base_url="http://localhost:1/v1")
    assert Workflow(facts, model=model)._reasoner.model is model  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["builtin", "dbgpt"])
def test_an_engine_is_chosen_by_name(engine):
    if engine == "dbgpt" and importlib.util.find_spec("dbgpt") is None:
        pytest.skip("dbgpt is not installed")
    flow = Workflow(facts >> count, engine=engine)
    assert flow.engine == engine
    assert flow.run("a b").output == 2


# Handles


async def test_a_handle_is_awaited_for_the_result():
    run = Workflow(facts >> count).start("a b", run_id="r")
    assert repr(run) == "<RunHandle 'r': running>"
    assert not run.done
    result = await run
    assert (result.output, (await run).output, run.done) == (2, 2, True)
    assert repr(run) == "<RunHandle 'r': done>"


async def test_a_handle_yields_every_event_also_when_it_is_read_late():
    flow = Workflow(facts >> count)
    run = flow.start("a b")
    await run
    kinds = [type(event).__name__ async for event in run]
    assert kinds[0] == "RunStarted"
    assert kinds[-1] == "RunFinished"
    assert kinds.count("OperatorFinished") == 2


async def test_a_run_whose_events_nobody_reads_goes_on_and_keeps_only_the_last_thousand():
    flow = BuiltinWorkflow([Do(f"o{number}") for number in range(600)])
    run = flow.start("x")
    await run
    kept = [event async for event in run]
    assert len(kept) == 999
    assert isinstance(kept[-1], events.RunFinished)


async def ask():
    return f"said {await interrupt('Sure?', 'boolean')}"


async def test_a_question_is_answered_while_the_events_are_read():
    run = BuiltinWorkflow([Do("a", ask)]).start("x")
    async for event in run:
        if isinstance(event, events.Interrupted):
            [question] = run.questions
            assert (question.id, question.text) == ("a", "Sure?")
            await run.answer({"a": True})
    assert (await run).text == "said True"
    assert run.questions == ()


async def test_a_handle_that_is_awaited_says_that_the_run_waits_and_is_awaited_again_after_the_answer():
    run = BuiltinWorkflow([Do("a", ask)]).start("x")
    with pytest.raises(PausedError) as caught:
        await run
    assert [question.id for question in caught.value.questions] == ["a"]
    assert "waits for answers" in repr(run)
    await run.answer({"a": False})
    assert (await run).text == "said False"


async def test_a_run_that_fails_raises_where_it_is_awaited_and_where_its_events_are_read():
    def fail():
        raise ValueError("broken")

    run = BuiltinWorkflow([Do("a", fail)]).start("x")
    with pytest.raises(Exception, match="ValueError: broken"):
        await run
    with pytest.raises(Exception, match="ValueError: broken"):
        _ = [event async for event in run]


async def test_cancelling_a_handle_ends_the_run_and_frees_its_id():
    flow = BuiltinWorkflow([Do("a", lambda: asyncio.Event().wait())])
    run = flow.start("x", run_id="r")
    await asyncio.sleep(0)
    await run.cancel()
    assert run.done
    with pytest.raises(asyncio.CancelledError):
        await run
    again = flow.start("x", run_id="r")
    await again.cancel()


async def test_leaving_the_events_does_not_end_the_run():
    run = Workflow(facts >> count).start("a b")
    async for _ in run:
        break
    assert (await run).output == 2


def test_start_needs_an_event_loop():
    with pytest.raises(RunningLoopError, match=r"start\(…\) needs a running event loop; without one, call run\(…\)"):
        Workflow(facts).start("x")


@operator
def split_up(job: Job) -> Claims:
    return Claims(claims=job.goal.split())


@tool
def look_up(claim: str, context: RunContext) -> str:
    """Look a claim up.

    Args:
        claim: The claim.
    """
    return f"{claim}: {context.run_id}"


def test_a_result_can_be_pickled_with_the_answers_as_their_types():
    local = operator(lambda split_up: len(split_up["claims"]), id="count")
    result = pickle.loads(pickle.dumps(Workflow(split_up >> local).run("a b")))  # noqa: S301
    assert (result.output, result["split_up"], result[split_up]) == (2, *[Claims(claims=["a", "b"])] * 2)
    assert (result.text, result.status, result.rounds) == ("2", WorkflowStatus.SUCCESS, 1)
    assert pickle.loads(pickle.dumps(result)).output == 2  # noqa: S301
    with pytest.raises(InputError, match="did you mean 'count'"):
        result["cuont"]


async def test_a_task_can_be_pickled_with_its_tools():
    tasks: list[Task] = []

    def answer(task: Task) -> str:
        tasks.append(task)
        return '{"claims": []}'

    with ScriptedReasoner(answer) as reasoner:
        await Workflow(Operator("List them.", output=Claims, tools=[look_up])).arun("a b", reasoner)
    again: Task = pickle.loads(pickle.dumps(tasks[0]))  # noqa: S301
    assert again.model_dump() == tasks[0].model_dump()
    [found] = again.tools
    assert await found.call({"claim": "a"}) == "a: "
    assert found.parameters == look_up.parameters
    with pytest.raises(ToolError, match="'claim' is missing"):
        await found.call({})


@pytest.mark.skipif(importlib.util.find_spec("sqlalchemy") is None, reason="sqlalchemy is not installed")
def test_a_kept_run_stores_json_and_gives_the_types_back_when_it_is_read_again(tmp_path):
    calls: list[str] = []

    @operator
    def made(job: Job) -> Claims:
        calls.append(job.goal)
        return Claims(claims=job.goal.split())

    ledger = Ledger(f"sqlite:///{tmp_path}/runs.db")

    def flow() -> Workflow[Any]:
        return Workflow(made >> operator(id="size")(lambda made: len(made["claims"])), durable=ledger)

    first = flow().run("a b", run_id="kept")
    again = flow().run("a b", run_id="kept")
    assert calls == ["a b"]
    for result in (first, again):
        assert (result[made], result.output, result.rounds) == (Claims(claims=["a", "b"]), 2, 1)
    assert json.loads(again.messages["made"].scratchpad) == {"claims": ["a", "b"]}
    ledger.close()  # a process keeps runs in one database at a time
