"""Hand-off: an operator behind a port of an operator with a model knows what that one was given and has found."""

from __future__ import annotations

from typing import Any

import pytest

from operad import Operator, Take, Workflow, operator, tool
from operad.runtime import RunContext
from operad.runtime.durable import Ledger
from operad.runtime.values.errors import OperadError, PausedError
from operad.testing import CallTools, Fail, Say, ScriptedModel

LOOKED_UP = CallTools({"look_up": {"customer": "Ada"}})
FOUND = "Ada has paid in gold since 2019"


@tool
def look_up(customer: str) -> str:
    """Look up a customer."""
    return FOUND


@tool
async def ask_customer(question: str, context: RunContext[None]) -> str:
    """Ask the customer."""
    return await context.ask(question, {"type": "string"})


def flow_of(*tools: Any, memory: bool = True, **options: Any) -> Workflow[Any]:
    read = Operator("Extract.", id="read")
    triage = Operator("Choose.", id="triage", ports=["pay", "mend"], tools=tools)
    pay, mend = Operator("Answer.", id="pay", memory=memory), Operator("Mend.", id="mend")
    return Workflow(read >> [triage["pay"] >> pay, triage["mend"] >> mend], **options)


def told(endpoint: ScriptedModel) -> str:
    """Return the last message of the last request."""
    return endpoint.requests[-1]["messages"][-1]["content"]


def test_who_is_taken_knows_what_the_chooser_was_given_and_found() -> None:
    with ScriptedModel([Say("order 7"), LOOKED_UP, Say('{"port": "pay"}'), Say("done")]) as endpoint:
        assert flow_of(look_up).run("hi", model=endpoint.model).text == "done"
        assert "order 7" in told(endpoint)
        assert f'look_up({{"customer": "Ada"}}): {FOUND}' in told(endpoint)


def test_the_conversation_passes_through_several_choosers() -> None:
    first = Operator("First.", id="first", ports=["next"], tools=[look_up])
    second, last = Operator("Second.", id="second", ports=["end"]), Operator("Last.", id="last")
    flow = Workflow(first["next"] >> second["end"] >> last)
    with ScriptedModel([LOOKED_UP, Say("next"), Say("end"), Say("done")]) as endpoint:
        flow.run("hi", model=endpoint.model)
        assert FOUND in told(endpoint)


def test_a_workflow_that_is_taken_knows_it_too() -> None:
    triage = Operator("Choose.", id="triage", ports=["pay"], tools=[look_up])
    desk = Operator("Choose again.", id="desk", ports=["now"])
    inner = Workflow(desk["now"] >> Operator("Answer.", id="now"), name="pay")
    with ScriptedModel([LOOKED_UP, Say("pay"), Say("now"), Say("done")]) as endpoint:
        Workflow(triage["pay"] >> inner).run("hi", model=endpoint.model)
        assert FOUND in told(endpoint)


def test_without_memory_only_the_answer_is_passed() -> None:
    with ScriptedModel([Say("order 7"), LOOKED_UP, Say('{"port": "pay"}'), Say("done")]) as endpoint:
        flow_of(look_up, memory=False).run("hi", model=endpoint.model)
        assert "order 7" not in told(endpoint)
        assert FOUND not in told(endpoint)


def test_a_chooser_in_code_passes_its_result_alone() -> None:
    @operator(ports=["a"])
    def route(read: str) -> Take[str]:
        return Take("a", "routed")

    flow = Workflow(Operator("Extract.", id="read") >> route["a"] >> Operator("Answer.", id="a"))
    with ScriptedModel([Say("order 7"), Say("done")]) as endpoint:
        flow.run("hi", model=endpoint.model)
        assert "routed" in told(endpoint)
        assert "order 7" not in told(endpoint)


def test_what_the_chooser_asked_a_person_is_known_to_who_answers_in_a_chat() -> None:
    asks = CallTools({"ask_customer": {"question": "Which order?"}})
    with ScriptedModel([Say("-"), asks, Say('{"port": "pay"}'), Say("done")]) as endpoint:
        chat = flow_of(ask_customer).chat(model=endpoint.model)
        with pytest.raises(PausedError):
            chat.send("hi")
        assert chat.resume("number 9").text == "done"
        assert "number 9" in told(endpoint)


def test_a_run_that_is_resumed_passes_the_same_conversation(tmp_path: Any) -> None:
    said = [Say("order 7"), LOOKED_UP, Say('{"port": "pay"}'), Fail(400, "no"), Say("done")]
    with ScriptedModel(said) as endpoint:
        ledger = Ledger(str(tmp_path / "runs.db"))
        options: dict[str, Any] = {"durable": ledger, "model": endpoint.model}
        with pytest.raises(OperadError):
            flow_of(look_up, **options).run("hi", run_id="run")
        before = told(endpoint)
        ledger.retry("run")
        assert flow_of(look_up, **options).run("hi", run_id="run").text == "done"
        assert told(endpoint) == before
        assert FOUND in before
