"""Turns of models and results of tools, kept until their operator has an outcome: a run that goes on repeats none of them."""

import asyncio
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from operad import (
    Budget,
    Operator,
    OperatorError,
    PausedError,
    Policy,
    Retry,
    RunContext,
    Workflow,
    events,
    tool,
)
from operad.runtime import BudgetError, DurableWorkflow
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.store import Store
from operad.runtime.durable.worker import QuestionForwarder
from operad.runtime.events import Scope
from operad.runtime.testing import CallTools, Say, ScriptedModel


class Shop:
    """A clerk who charges, and ships after a person has approved it; its model never words a call twice the same."""

    def __init__(self, path):
        self.path, self.done, self.keys, self.words = path, [], [], 0

    def answer(self, request):
        results = sum(message["role"] == "tool" for message in request["messages"])
        self.words += 1
        if results == 0:
            return CallTools([("charge", {"order": "A1"}), ("charge", {"order": "A2"})])
        if results == 2:
            return CallTools({"ship": {"order": "A1", "note": f"thank you {self.words}"}})
        return Say("Done.")

    def flow(self, endpoint, **options):
        @tool
        def charge(order: str, context: RunContext) -> str:
            self.done.append(f"charged {order}")
            self.keys.append(context.idempotency_key)
            return "charged"

        @tool(approve=True)
        def ship(order: str, note: str) -> str:
            self.done.append(f"shipped {order}, {note}")
            return "shipped"

        flow = DurableWorkflow(self.path, name="shop", **options)
        flow.add_operator(Operator("Charge, then ship.", id="clerk", tools=[charge, ship]))
        return flow, endpoint.model

    def start(self, endpoint, **options):
        flow, model = self.flow(endpoint, **options)
        with pytest.raises(PausedError) as paused:
            asyncio.run(flow.arun("A1", model, run_id="r"))  # the run ends with its loop, as with its process
        return paused.value.questions

    def go_on(self, endpoint, answers, **options):
        flow, model = self.flow(endpoint, **options)
        return asyncio.run(flow.aresume("r", answers, model))

    @property
    def kept(self):
        with closing(sqlite3.connect(self.path)) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM operad_parts ORDER BY name")]


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path / "runs.sqlite")


def test_the_approved_call_is_made_and_no_other_again(shop):
    with ScriptedModel(shop.answer) as endpoint:
        [question] = shop.start(endpoint)
        assert sorted(shop.done) == ["charged A1", "charged A2"]
        result = shop.go_on(endpoint, {question.id: "yes"})
        assert len(endpoint.requests) == 3
    assert sorted(shop.done) == ["charged A1", "charged A2", "shipped A1, thank you 2"]
    assert result.text == "Done."


def test_usage_counts_that_of_ended_processes(shop):
    with ScriptedModel(shop.answer) as endpoint:
        [question] = shop.start(endpoint)
        assert shop.go_on(endpoint, {question.id: "yes"}).usage.calls == 3


def test_so_does_a_budget(shop):
    with ScriptedModel(shop.answer) as endpoint:
        [question] = shop.start(endpoint, budget=Budget(calls=2))
        with pytest.raises(BudgetError):
            shop.go_on(endpoint, {question.id: "yes"}, budget=Budget(calls=2))
        assert len(endpoint.requests) == 2


def test_parts_are_kept_until_the_operator_has_an_outcome(shop):
    with ScriptedModel(shop.answer) as endpoint:
        [question] = shop.start(endpoint)
        assert [name.partition(":")[0] for name in shop.kept] == ["1 charge", "1 charge", "1 turn", "1 turn"]
        shop.go_on(endpoint, {question.id: "yes"})
    assert shop.kept == []


def test_those_of_a_deleted_run_are_deleted(shop):
    with ScriptedModel(shop.answer) as endpoint:
        shop.start(endpoint)
    Ledger(shop.path).cancel("r")
    Ledger(shop.path).delete("r")
    assert shop.kept == []


def test_each_call_has_its_own_idempotency_key(shop):
    with ScriptedModel(shop.answer) as endpoint:
        shop.start(endpoint)
    first, second = shop.keys
    assert first != second
    assert all(key.startswith("r:clerk//charge:") for key in shop.keys)


def test_the_key_of_a_repeated_call_is_another_and_that_of_another_attempt_the_same():
    keys = []

    @tool
    def pay(order: str, context: RunContext) -> str:
        keys.append(context.idempotency_key)
        return "paid"

    def fail(answer):
        if len(keys) == 2:
            raise ConnectionError("first attempt")

    twice = [CallTools({"pay": {"order": "A1"}}), CallTools({"pay": {"order": "A1"}}), Say("Done.")]
    with ScriptedModel([*twice, *twice]) as endpoint:
        operator = Operator("Pay.", id="a", tools=[pay], policy=Policy(retry=Retry(2, first_delay=0.001)), check=fail)
        Workflow(operator, model=endpoint.model).run("x", run_id="r")
    assert keys[:2] == keys[2:]
    assert keys[1] == f"{keys[0]}#2"


def test_the_history_tells_of_each_turn_and_call_once(shop):
    with ScriptedModel(shop.answer) as endpoint:
        [question] = shop.start(endpoint)
        shop.go_on(endpoint, {question.id: "yes"})
    told = Ledger(shop.path).events("r")
    calls = [(event.tool, event.call_id) for event in told if isinstance(event, events.ToolReturned)]
    assert len(set(calls)) == len(calls) == 3
    assert sum(isinstance(event, events.ModelAnswered) for event in told) == 3
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


def test_a_failed_operator_that_is_retried_asks_its_model_anew(tmp_path):
    def flow():
        flow = DurableWorkflow(tmp_path / "runs.sqlite", name="w")
        flow.add_operator(Operator("Answer.", id="a", output="{n: integer}"))
        return flow

    with ScriptedModel([Say("none")] * 3 + [Say('{"n": 1}')]) as endpoint:
        with pytest.raises(OperatorError):
            asyncio.run(flow().arun("x", endpoint.model, run_id="r"))
        Ledger(tmp_path / "runs.sqlite").retry("r")
        assert asyncio.run(flow().arun("x", endpoint.model, run_id="r")).output == {"n": 1}


def test_equal_requests_of_one_process_are_each_made(tmp_path):
    class Twice(Operator):
        async def execute(self, reasoner, job, *args, **options):
            first = await super().execute(reasoner, job, *args, **options)
            second = await super().execute(reasoner, job, *args, **options)
            return second.changed(scratchpad=f"{first.text}, {second.text}")

    flow = DurableWorkflow(tmp_path / "runs.sqlite", name="w")
    flow.add_operator(Twice("Answer.", id="a"))
    with ScriptedModel([Say("one"), Say("two")]) as endpoint:
        assert asyncio.run(flow.arun("x", endpoint.model, run_id="r")).text == "one, two"


async def test_a_worker_goes_on_with_the_parts_of_one_that_died(tmp_path):
    store = Store(database_url(tmp_path / "runs.sqlite"))
    run: Any = SimpleNamespace(outer=None)
    scope = Scope(run=run, path=("each", "a"), operator_id="a", round=1, key="each[2]/a")
    dead, alive = (QuestionForwarder(store, run, "r", "each[2]/a") for _ in range(2))
    assert await dead.parts(scope) == {}
    await dead.keep_part(scope, "1 turn:x", '"said"')
    await dead.keep_part(scope, "1 turn:x", '"said twice"')
    assert await alive.parts(scope) == {"1 turn:x": '"said"'}
    store.forget_parts("r", "each[2]")
    assert store.parts("r", "each[2]/a") == {}
    store.close()


def test_a_tool_that_is_always_allowed_stays_so_after_a_restart(tmp_path):
    shipped = []

    @tool(approve=True)
    def ship(order: str) -> str:
        shipped.append(order)
        return "shipped"

    @tool(approve=True)
    def bill(order: str) -> str:
        return "billed"

    def flow():
        flow = DurableWorkflow(tmp_path / "runs.sqlite", name="w")
        flow.add_operator(Operator("Ship.", id="a", tools=[ship, bill]))
        return flow

    calls = [{"ship": {"order": "A1"}}, {"bill": {"order": "A1"}}, {"ship": {"order": "A2"}}]
    with ScriptedModel([*map(CallTools, calls), Say("Done.")]) as endpoint:
        with pytest.raises(PausedError) as first:
            asyncio.run(flow().arun("x", endpoint.model, run_id="r"))
        with pytest.raises(PausedError) as second:
            asyncio.run(flow().aresume("r", {first.value.questions[0].id: "always"}, endpoint.model))
        result = asyncio.run(flow().aresume("r", {second.value.questions[0].id: "yes"}, endpoint.model))
    assert result.text == "Done."
    assert shipped == ["A1", "A2"]
