"""A question that a tool asks belongs to its call, also when the run goes on in another process."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from operad import Operator, PausedError, RunContext, Workflow, operator, tool
from operad.runtime.durable import Ledger
from operad.testing import CallTools, Say, ScriptedModel

BOUGHT: list[str] = []


@tool
async def buy(what: str, context: RunContext) -> str:
    """Buy something."""
    if not await context.ask("Buy it?", bool):
        return f"left {what}"
    BOUGHT.append(what)
    return f"bought {what}"


@tool(approve=True)
async def order(what: str) -> str:
    """Order something."""
    BOUGHT.append(what)
    return f"ordered {what}"


@operator
async def ask_inside(job: Any, context: RunContext) -> str:
    return "yes" if await context.ask("Really?", bool) else "no"


really = Workflow(ask_inside, name="really")


@tool
async def think(what: str) -> str:
    """Think about buying something, in a workflow of its own."""
    if (await really.arun(what)).text == "yes":
        BOUGHT.append(what)
    return f"thought of {what}"


@pytest.fixture(autouse=True)
def nothing_bought():
    BOUGHT.clear()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        return tmp_path / "runs.sqlite"
    return request.getfixturevalue("postgresql").new()


@pytest.fixture
def ledger(database: Any) -> Iterator[Any]:
    """Function that returns a new ledger; it closes the one before, which ends the run, as the end of a process does."""
    opened: list[Ledger] = []

    def new() -> Ledger:
        for each in opened:
            each.close()
        opened[:] = [Ledger(database)]
        return opened[0]

    yield new
    for each in opened:
        each.close()


def shop(ledger: Ledger, endpoint: ScriptedModel, *tools: Any) -> Workflow[Any]:
    return Workflow(Operator("Buy.", id="buyer", tools=[*tools]), model=endpoint.model, durable=ledger, name="shop")


def calling(*calls: tuple[str, str]) -> Any:
    """A model that calls tools in one turn, and then answers with their results."""

    def script(request: Any) -> Any:
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        return Say(" ".join(sorted(results))) if results else CallTools([(name, {"what": x}) for name, x in calls])

    return script


def asked(flow: Workflow[Any], run_id: str, answers: dict[str, Any] | None = None) -> Sequence[Any]:
    go_on = partial(flow.run, "q", run_id=run_id) if answers is None else partial(flow.resume, run_id, answers)
    with pytest.raises(PausedError) as paused:
        go_on()
    return paused.value.questions


@pytest.mark.parametrize("name", ["buy", "order"])
def test_the_yes_for_figs_does_not_buy_the_ship_after_a_restart(name: str, ledger: Any):
    yes, no = (True, False) if name == "buy" else ("yes", "no")
    with ScriptedModel(calling((name, "figs"), (name, "ship"))) as endpoint:
        flow = shop(ledger(), endpoint, buy, order)
        questions = asked(flow, "r")
        assert [question.id for question in questions] == ["buyer", "buyer#2"]
        rest = asked(flow, "r", {"buyer": yes})
        assert [question.id for question in rest] == ["buyer#2"]
    with ScriptedModel(calling((name, "ship"), (name, "figs"))) as endpoint:  # is not asked for these calls
        flow = shop(ledger(), endpoint, buy, order)
        result = flow.resume("r", {"buyer#2": no})
    assert BOUGHT == ["figs"]
    assert ("bought figs" if name == "buy" else "ordered figs") in result.text


def test_a_pause_for_the_next_question_is_reported_after_the_answer_is_kept(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
):
    with ScriptedModel(calling(("buy", "figs"), ("buy", "ship"))) as endpoint:
        flow = shop(kept := ledger(), endpoint, buy)
        asked(flow, "r")
        answer = kept.store.answer
        monkeypatch.setattr(kept.store, "answer", lambda *of: (sleep(0.2), answer(*of))[1])
        assert [question.id for question in asked(flow, "r", {"buyer": True})] == ["buyer#2"]
        assert kept.stored_answers("r") == {"buyer": True}


def test_another_model_is_asked_itself_and_its_call_is_another_question(ledger: Any):
    with ScriptedModel(calling(("buy", "figs"))) as endpoint:
        flow = shop(kept := ledger(), endpoint, buy)
        [question] = asked(flow, "r")
        kept.answer("r", {question.id: True})
    with ScriptedModel(calling(("buy", "ship"))) as endpoint:
        another = endpoint.model.model_copy(update={"name": "another"})
        flow = Workflow(Operator("Buy.", id="buyer", tools=[buy]), model=another, durable=ledger(), name="shop")
        [question] = asked(flow, "r", {})
        assert BOUGHT == []
        assert flow.resume("r", {question.id: False}).text == "left ship"
    assert BOUGHT == []


def test_two_equal_calls_of_one_turn_are_two_questions(ledger: Any):
    with ScriptedModel(calling(("buy", "figs"), ("buy", "figs"))) as endpoint:
        flow = shop(ledger(), endpoint, buy)
        assert [question.id for question in asked(flow, "r")] == ["buyer", "buyer#2"]
        asked(flow, "r", {"buyer": True})
    with ScriptedModel(calling(("buy", "figs"), ("buy", "figs"))) as endpoint:
        flow = shop(ledger(), endpoint, buy)
        assert flow.resume("r", {"buyer#2": False}).text == "bought figs left figs"
    assert BOUGHT == ["figs"]


def test_answers_may_come_in_another_order_than_the_questions(ledger: Any):
    with ScriptedModel(calling(("buy", "figs"), ("buy", "ship"))) as endpoint:
        flow = shop(ledger(), endpoint, buy)
        asked(flow, "r")
        [left] = asked(flow, "r", {"buyer#2": False})
        assert left.id == "buyer"
        assert flow.resume("r", {"buyer": True}).text == "bought figs left ship"
    assert BOUGHT == ["figs"]


def test_questions_of_tools_in_the_items_of_a_map_belong_to_their_items(ledger: Any):
    def script(request: Any) -> Any:
        text = str(request["messages"])
        what = "figs" if "figs" in text else "ship"
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        return Say(results[0]) if results else CallTools([("buy", {"what": what})])

    def flow(endpoint: ScriptedModel) -> Workflow[Any]:
        flow = Workflow(model=endpoint.model, durable=ledger(), name="shop")
        flow.map(Operator("Buy the item.", id="buyer", tools=[buy]), over="list", id="each")
        return flow

    with ScriptedModel(script) as endpoint:
        begun = flow(endpoint)
        with pytest.raises(PausedError) as paused:
            begun.run({"list": ["figs", "ship"]}, run_id="r")
        first, second = sorted(question.id for question in paused.value.questions)
        asked(begun, "r", {first: True})
    with ScriptedModel(script) as endpoint:
        resumed = flow(endpoint)
        BOUGHT.clear()
        result = resumed.resume("r", {second: False})
    assert result.output == ["bought figs", "left ship"]
    assert BOUGHT in (["figs"], [])


def test_a_question_of_a_workflow_inside_a_tool_belongs_to_the_call():
    with ScriptedModel(calling(("think", "figs"), ("think", "ship"))) as endpoint:
        flow = Workflow(Operator("Think.", id="buyer", tools=[think]), model=endpoint.model)

        async def main() -> str:
            run = flow.start("q")
            while len(run.questions) < 2:
                await asyncio.sleep(0)
            first, second = run.questions
            run.answer({first.id: True, second.id: False})
            return (await run).text

        assert asyncio.run(main()) == "thought of figs thought of ship"
    assert len(BOUGHT) == 1
