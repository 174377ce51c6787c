"""Measurement of evaluators on labelled cases."""

import json

import pytest

from operad import Evaluator, InvalidError, Operator, Workflow
from operad.evaluation import Case
from operad.runtime.workflow.measure import measure
from operad.testing import Say, ScriptedModel, ScriptedReasoner

OPERATORS = {"look": "seven figs", "answer": {"message": "Seven.", "before": ["look"]}}


def verdict(status="SUCCESS", blame=()):
    return {"evaluation": "So.", "status": status, "lesson": "x" if blame else "", "blame": list(blame), "score": 5}


def labelled(name, accepted, blame=(), steps=None):
    return Case(name, job=name, steps=steps or OPERATORS, accepted=accepted, blame=blame)


def flow():
    return Workflow(Operator("Look.", id="look") >> Operator("Answer.", id="answer"))


def measured(verdicts, cases, **options):
    reasoner = ScriptedReasoner(lambda task: verdicts[task.job.goal])
    return Evaluator("It is right.", id="judge").measure(cases, model=reasoner, **options)


def test_rates_have_their_counts():
    found = measured(
        {
            "fine": verdict(),
            "strict": verdict("EXECUTION_ERROR", ["answer"]),
            "root": verdict("EXECUTION_ERROR", ["look"]),
            "more": verdict("EXECUTION_ERROR", ["look", "answer"]),
            "missed": verdict(),
            "other": verdict("EXECUTION_ERROR", ["answer"]),
        },
        [
            labelled("fine", True),
            labelled("strict", True),
            labelled("root", False, ["look"]),
            labelled("more", False, ["look"]),
            labelled("missed", False, ["answer"]),
            labelled("other", False, ["look"]),
        ],
    )
    assert found.accuracy == (4, 6)
    assert found.false_rejections == (1, 2)
    assert found.false_acceptances == (1, 4)
    assert found.blame_precision == (2, 5)
    assert found.blame_recall == (2, 4)
    assert found.exact == (2, 6)
    assert found.summary()["accuracy"] == {"count": 4, "of": 6, "rate": pytest.approx(2 / 3)}


def test_nothing_that_counts_has_no_rate():
    assert measured({"fine": verdict()}, [labelled("fine", True)]).blame_recall.rate is None


def test_the_judge_sees_the_operators_of_the_workflow_with_the_answers_of_the_case():
    cases = [labelled("a", True, steps={"look": "seven figs", "answer": "Seven."})]
    with ScriptedModel([Say(json.dumps(verdict()))] * 2) as endpoint:
        Evaluator("It is right.", id="judge").measure(cases, workflow=flow(), model=endpoint.model)
        Evaluator("It is right.", id="judge").measure(
            [
                labelled(
                    "a",
                    True,
                    steps={
                        "look": {"message": "seven figs", "instruction": "Look."},
                        "answer": {"message": "Seven.", "instruction": "Answer.", "before": ["look"]},
                    },
                )
            ],
            model=endpoint.model,
        )
    with_workflow, alone = (request["messages"] for request in endpoint.requests)
    assert with_workflow == alone
    assert "seven figs" in str(alone)
    assert "Answer." in str(alone)


def test_recorded_tool_calls_and_passages_are_evidence():
    record = {
        "message": "Seven.",
        "tool_calls": [{"tool": "stock", "arguments": '{"item": "figs"}', "result": "figs: 7 pieces"}],
    }
    with ScriptedModel([Say(json.dumps(verdict()))]) as endpoint:
        Evaluator("Right.", id="judge").measure([labelled("a", True, steps={"count": record})], model=endpoint.model)
    assert "figs: 7 pieces" in str(endpoint.requests[0]["messages"])


def test_cases_that_cannot_be_judged_are_all_listed():
    cases = [
        Case("no steps", job="x", accepted=True),
        labelled("no label", None),
        labelled("both", True, ["look"]),
        labelled("unknown", True, steps={"figs": "x"}),
    ]
    with pytest.raises(InvalidError) as caught:
        measured({}, cases, workflow=flow())
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [
        ("steps", "no steps"),
        ("label", "no label"),
        ("label", "both"),
        ("steps", "unknown"),
    ]


def test_a_judge_that_fails_on_a_case_is_counted_and_does_not_lose_the_others():
    found = measured({"a": verdict(), "b": ValueError("no")}, [labelled("a", True), labelled("b", False)])
    assert (found.errors, found.accuracy, found.false_acceptances) == (1, (1, 2), (0, 1))


def test_verdicts_that_are_kept_are_not_asked_again(tmp_path):
    path, cases = tmp_path / "verdicts.jsonl", [labelled("a", True), labelled("b", False)]
    first = measured({"a": verdict(), "b": verdict()}, cases, results=path)
    assert measured({}, cases, results=path) == first


async def test_a_function_is_measured_as_a_judge_is():
    def wordy(answer: str) -> None:
        from operad import FaultError

        if len(answer.split()) > 1:
            raise FaultError("too long", blame=["answer"])

    cases = [
        labelled("a", True),
        labelled("b", False, ["answer"], {"look": "x", "answer": {"message": "a b", "before": ["look"]}}),
    ]
    found = await measure([wordy], cases, flow().graph(), ScriptedReasoner(""))
    assert found.exact == (2, 2)


def test_operators_that_did_not_run_are_shown_as_such():
    steps = {
        "triage": "billing",
        "tech": {"skipped": "no edge to it was taken", "before": ["triage"]},
        "billing": {"message": "Refunded.", "before": ["triage"]},
        "reply": {"message": "We refunded it.", "before": ["tech", "billing"]},
    }
    with ScriptedModel([Say(json.dumps(verdict()))]) as endpoint:
        found = Evaluator("Right.", id="judge").measure([labelled("a", True, steps=steps)], model=endpoint.model)
    assert found.errors == 0, found.cases[0].error
    assert "no edge to it was taken" in str(endpoint.requests[0]["messages"])


def test_a_predecessor_without_an_answer_is_an_issue_with_its_remedy():
    cases = [labelled("a", True, steps={"reply": {"message": "x", "before": ["tech"]}})]
    with pytest.raises(InvalidError, match=r"write tech: \{skipped: it did not run\}"):
        measured({}, cases)
