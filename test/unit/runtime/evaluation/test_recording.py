"""Runs as cases, and the answers of their models as scripts."""

import json

import pytest

from operad import Evaluator, Operator, Workflow, tool
from operad.evaluation import Case, Dataset, case_of
from operad.runtime.durable import Ledger
from operad.testing import CallTools, LeftoverStepsError, Recorded, Say, ScriptedModel


@tool
def stock(item: str) -> str:
    """Look an item up.

    Args:
        item: The item.
    """
    return f"{item}: 7 pieces, key sk-abcdefghijkl"


def verdict(status, blame=()):
    return Say(
        json.dumps(
            {"evaluation": "So.", "status": status, "lesson": "x" * len(blame), "blame": list(blame), "score": 5}
        )
    )


def orders(**settings):
    count = Operator("Count the {goods}.", id="count", tools=[stock])
    write = Operator("Write the order.", id="write")
    return Workflow(count >> write, evaluator=Evaluator("It names a number.", id="judge"), name="orders", **settings)


SCRIPT = [
    CallTools({"stock": {"item": "figs"}}),
    Say("Seven, see hunter2-hunter2."),
    Say("Order: figs."),
    verdict("EXECUTION_ERROR", ["write"]),
    Say("Order: seven figs."),
    verdict("SUCCESS"),
]


@pytest.fixture
def recorded(tmp_path):
    """The case of a durable run of two rounds."""
    with Ledger(tmp_path / "runs.db") as ledger, ScriptedModel(SCRIPT) as endpoint:
        result = orders(durable=ledger).run({"goods": "figs"}, model=endpoint.model, run_id="r1")
        assert result.text == "Order: seven figs."
        events, job = ledger.events("r1"), ledger.job("r1")
    return case_of("r1", job, events, lambda text: text.replace("hunter2-hunter2", "[hidden]"))


def test_a_run_becomes_a_case_with_its_job_operators_and_verdict(recorded):
    assert (recorded.name, recorded.job.inputs, recorded.expected) == ("r1", {"goods": "figs"}, "Order: seven figs.")
    assert (recorded.accepted, recorded.blame) == (True, ())
    count, write = recorded.steps
    assert (count.operator_id, count.instruction, count.before) == ("count", "Count the {goods}.", ())
    assert [(use.tool, use.arguments) for use in count.tool_calls] == [("stock", '{"item": "figs"}')]
    assert (write.before, write.message.text) == (("count",), "Order: seven figs.")


def test_secrets_are_hidden_in_every_text(recorded):
    line = json.dumps(recorded.as_dict())
    assert "hunter2" not in line
    assert "see [hidden]" in recorded.steps[0].message.text
    assert "see [hidden]" in recorded.script[1]["text"]


def test_a_case_of_a_run_is_read_back_and_measures_a_judge(recorded, tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(recorded.as_dict()) + "\n")
    assert Dataset.load(path).cases[0].as_dict() == recorded.as_dict()
    with ScriptedModel([verdict("SUCCESS")]) as endpoint:
        measured = Evaluator("It names a number.", id="judge").measure(path, workflow=orders(), model=endpoint.model)
    assert measured.exact == (1, 1)


def test_a_scripted_model_plays_the_recorded_answers(recorded):
    with ScriptedModel(recorded.script) as endpoint:
        result = orders().run(recorded.job, model=endpoint.model)
    assert (result.text, result.rounds) == ("Order: seven figs.", 2)


def test_recorded_answers_go_to_the_operator_that_got_them_whatever_the_order_of_the_requests():
    left, right = Operator("Name the left one.", id="left"), Operator("Name the right one.", id="right")
    script = [
        {"operator": "right", "instruction": "Name the right one.", "text": "R"},
        {"operator": "left", "instruction": "Name the left one.", "text": "L"},
    ]
    flow = Workflow([left, right])
    for steps in (script, script[::-1]):
        with ScriptedModel(steps) as endpoint:
            result = flow.run("x", model=endpoint.model)
        assert (result["left"], result["right"]) == ("L", "R")


def test_recorded_answers_that_nobody_asked_for_are_an_error():
    with pytest.raises(LeftoverStepsError, match="Recorded"), ScriptedModel([{"text": "a"}, {"text": "b"}]) as endpoint:
        Workflow(Operator("Greet.")).run("x", model=endpoint.model)
    assert Recorded(Say("a"), "Count the {goods}.").fits({"messages": ["Count the figs."]})


def test_a_run_that_has_not_finished_has_no_result():
    with pytest.raises(ValueError, match="has not finished"):
        case_of("r1", Case("a", job="x").job, [])
