"""Evaluations of workflows on cases."""

import asyncio
import json

import pytest

from operad import (
    Evaluator,
    FaultError,
    InputError,
    InvalidError,
    Job,
    Operator,
    OperatorError,
    RunContext,
    Workflow,
    operator,
    tool,
)
from operad.evaluation import Case, EvaluationReport, contains, equals
from operad.runtime.durable import Ledger
from operad.testing import CallTools, Say, ScriptedModel, ScriptedReasoner

ACCEPTED = {"evaluation": "Fine.", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}
REJECTED = {"evaluation": "Two.", "status": "EXECUTION_ERROR", "lesson": "Merge them.", "blame": ["answer"], "score": 4}


@operator
def look(job: Job) -> str:
    if job.goal == "boom":
        raise ValueError("no such figure")
    return f"facts of {job.goal}"


@operator
def answer(look: str) -> str:
    return look.upper()


def sky(**settings):
    return Workflow(look >> answer, name="sky", **settings)


def judged(report, name):
    [case] = [each for each in report.cases if each.name == name]
    return {each.name: each for each in case.evaluators}


def test_parameters_of_functions_are_bound_by_their_names():
    seen = {}

    def score(output, expected, inputs, metadata, result, job, look):
        seen.update(output=output, expected=expected, inputs=inputs, metadata=metadata, goal=job.goal, look=look)
        return len(result.messages)

    report = sky().evaluate([Case("a", job="sky", expected="x", metadata={"m": 1})], score)
    assert seen == {
        "output": "FACTS OF SKY",
        "expected": "x",
        "inputs": "sky",
        "metadata": {"m": 1},
        "goal": "sky",
        "look": "facts of sky",
    }
    assert judged(report, "a")["score"].score == 2.0


def test_a_function_accepts_rejects_measures_or_blames():
    def yes(output):
        return True

    async def silent(output):
        return None

    def no(output):
        return False

    def number(output):
        return 0.25

    def fault(output):
        raise FaultError("wrong figure", lesson="Count again.", blame=[look])

    def broken(output):
        raise KeyError("figs")

    def strange(output):
        return "yes"

    found = judged(sky().evaluate([Case("a", job="sky")], [yes, silent, no, number, fault, broken, strange]), "a")
    assert [(each.passed, each.score) for each in found.values()] == [
        (True, None),
        (True, None),
        (False, None),
        (None, 0.25),
        (False, None),
        (None, None),
        (None, None),
    ]
    [blamed] = found["fault"].faults
    assert (blamed.operator, blamed.lesson, found["fault"].reason) == ("look", "Count again.", "wrong figure")
    assert found["broken"].error == "KeyError: 'figs'"
    assert "returned 'yes'" in found["strange"].error


def test_all_issues_of_evaluators_are_reported_before_a_case_runs():
    ran = []

    def one(output, expcted):
        pass

    def two(lok):
        pass

    flow = Workflow(operator(lambda job: ran.append(job) or "", id="look"))
    with pytest.raises(InvalidError) as caught:
        flow.evaluate([Case("a", job="x")], [one, two, two])
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [
        ("parameter", "one"),
        ("parameter", "two"),
        ("parameter", "two"),
        ("duplicate-id", "two"),
    ]
    assert "did you mean 'expected'?" in caught.value.issues[0].message
    assert "did you mean 'look'?" in caught.value.issues[1].message
    assert ran == []


def test_without_evaluators_the_output_equals_the_expected_one_where_there_is_one():
    cases = [
        Case("right", job="a", expected="FACTS OF A"),
        Case("wrong", job="b", expected="B"),
        Case("any", job="c"),
    ]
    report = sky().evaluate(cases)
    assert [case.name for case in report.failed] == ["wrong"]
    assert judged(report, "wrong")["equals"].reason == "expected 'B', got 'FACTS OF B'"
    assert judged(report, "any")["equals"].passed is None


def test_contains_names_what_is_missing():
    report = sky().evaluate([Case("a", job="sky", expected=["FACTS", "SEA"])], contains)
    assert judged(report, "a")["contains"].reason == "lacks 'SEA': 'FACTS OF SKY'"


def test_a_failing_case_does_not_lose_the_others():
    report = sky().evaluate([Case("a", job="boom", expected="A"), Case("b", job="b", expected="FACTS OF B")])
    assert [(case.name, case.passed) for case in report.cases] == [("a", False), ("b", True)]
    assert report.cases[0].error.endswith("ValueError: no such figure")
    assert report.cases[0].evaluators == ()


def test_a_case_that_asks_a_person_fails_and_says_what_it_asked():
    @operator
    async def pay(job: Job, context: RunContext) -> str:
        return str(await context.ask(f"Pay {job.goal}?", bool))

    report = Workflow(pay).evaluate([Case("a", job="9 euros")])
    assert report.cases[0].error == "it asks a person, which an evaluation cannot answer: Pay 9 euros?"


def test_the_workflow_s_own_verdict_counts_and_its_blame_is_counted_by_operator():
    def loud(answer):
        raise FaultError("too loud", lesson="Whisper.", blame=["answer"])

    report = sky(evaluator=loud, max_rounds=1).evaluate([Case("a", job="sky")], lambda output: True)
    assert report.cases[0].false_rejection
    assert not report.cases[0].passed
    by_name = {each.name: each for each in report.operators}
    assert (by_name["answer"].blamed_in_rounds, by_name["answer"].lessons) == (1, (("Whisper.", 1),))
    assert by_name["loud"].judges


def test_every_case_runs_as_often_as_told():
    report = sky().evaluate([Case("a", job="a"), Case("b", job="b")], lambda output: True, repeat=3)
    assert [case.key for case in report.cases] == ["a#1", "a#2", "a#3", "b#1", "b#2", "b#3"]


def test_an_evaluation_inside_a_run_is_refused():
    flow = sky()

    @operator
    async def inner(job: Job) -> str:
        await flow.aevaluate([Case("a", job="a")])
        return ""

    with pytest.raises(OperatorError, match="an operator cannot evaluate a workflow"):
        Workflow(inner).run("x")


@tool
def stock(item: str) -> str:
    """Look an item up.

    Args:
        item: The item.
    """
    return f"{item}: 7 pieces, {'long ' * 20}end"


def test_a_judge_sees_the_prompt_that_it_would_see_in_the_run():
    count = Operator("Count the {goods}.", id="count", tools=[stock])
    write = Operator("Write the order.", id="write")
    style = Evaluator("The order names a number.", id="style")

    def script():
        return [CallTools({"stock": {"item": "figs"}}), "Seven.", "Order: seven.", json.dumps(ACCEPTED)]

    with ScriptedModel(script()) as within:
        Workflow(count >> write, evaluator=style, max_rounds=1).run({"goods": "figs"}, model=within.model)
    with ScriptedModel(script()) as after:
        report = Workflow(count >> write).evaluate([Case("a", inputs={"goods": "figs"})], style, model=after.model)
    assert report.passed == 1
    assert after.requests[-1]["messages"] == within.requests[-1]["messages"]
    assert "7 pieces" in str(after.requests[-1]["messages"])


def test_the_verdict_of_a_judge_blames_an_operator_and_has_a_cost():
    flow = Workflow(Operator("Look.", id="look") >> Operator("Answer.", id="answer"))
    with ScriptedModel(["Blue.", "Blue!", json.dumps(REJECTED)]) as endpoint:
        report = flow.evaluate(
            [Case("a", job="Which colour?")], Evaluator("One sentence.", id="style"), model=endpoint.model
        )
    found = judged(report, "a")["style"]
    assert (found.passed, found.score, found.reason) == (False, 4.0, "Two.")
    assert [(each.name, each.blamed) for each in report.operators] == [("look", 0), ("answer", 1)]
    assert (report.usage.calls, report.judging.calls) == (2, 1)


def test_branches_that_the_run_did_not_take_are_skipped_before_the_judge():
    triage = Operator("Sort.", id="triage", ports=["refund", "question"])
    refund, say = Operator("Refund.", id="refund"), Operator("Say.", id="say")
    answers = {"triage": {"port": "refund"}, "refund": "done", "style": ACCEPTED}
    reasoner = ScriptedReasoner(answers)
    flow = Workflow([triage["refund"] >> refund, triage["question"] >> say])
    report = flow.evaluate([Case("a", job="x")], Evaluator("Fine.", id="style"), model=reasoner)
    assert report.cases[0].problems == []
    assert [step.operator_id for step in reasoner.tasks[-1].transcript if not step.skipped] == ["triage", "refund"]


# Results that are kept


@pytest.mark.slow
def test_two_hundred_cases_that_are_cancelled_in_the_middle_continue_where_they_ended(tmp_path):
    flow = Workflow(Operator("Answer.", id="answer"), name="many")
    cases = [Case(f"case {number}", job=f"question {number}", expected="Yes.") for number in range(200)]
    path, progressed = tmp_path / "results.jsonl", []

    with ScriptedModel(lambda request: Say("Yes.")) as endpoint:

        async def interrupted():
            task = asyncio.current_task()
            assert task is not None

            def progress(done, total, case):
                progressed.append((done, total))
                if done == 70:
                    task.cancel()

            await flow.aevaluate(
                cases, equals, max_concurrency=8, results=path, model=endpoint.model, progress=progress
            )

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(interrupted())
        kept = len(path.read_text().splitlines()) - 1
        report = flow.evaluate(cases, equals, max_concurrency=8, results=path, model=endpoint.model)

    assert progressed[:2] == [(1, 200), (2, 200)]
    assert 70 <= kept < 80
    assert 200 <= len(endpoint.requests) <= 208  # what was under way is asked again
    assert [case.name for case in report.cases] == [case.name for case in cases]
    assert report.pass_rate == 1.0
    assert EvaluationReport.load(path).passed == 200


def test_a_changed_case_and_a_failed_run_are_run_again(tmp_path):
    ran, path = [], tmp_path / "results.jsonl"
    offline = [True]

    @operator
    def fetch(job: Job) -> str:
        ran.append(job.goal)
        if job.goal == "b" and offline:
            raise OSError("no network")
        return job.goal

    flow = Workflow(fetch)
    flow.evaluate([Case("a", job="a"), Case("b", job="b"), Case("c", job="c")], results=path)
    offline.clear()
    ran.clear()
    report = flow.evaluate([Case("a", job="a"), Case("b", job="b"), Case("c", job="d")], results=path)
    assert sorted(ran) == ["b", "d"]
    assert [case.output for case in report.cases] == ["a", "b", "d"]


def test_results_of_another_workflow_are_refused(tmp_path):
    path = tmp_path / "results.jsonl"
    Workflow(Operator("Answer.", id="answer")).evaluate(
        [Case("a", job="a")], results=path, model=ScriptedReasoner("Yes.")
    )
    with pytest.raises(InputError, match="holds results of another evaluation"):
        Workflow(Operator("Answer briefly.", id="answer")).evaluate(
            [Case("a", job="a")], results=path, model=ScriptedReasoner("Yes.")
        )


def test_a_durable_workflow_keeps_the_runs_and_verdicts_in_its_database(tmp_path):
    asked = []

    def reply(task):
        asked.append(task.instruction[:5])
        return ACCEPTED if task.instruction.startswith("Judge") else "Yes."

    def evaluation():
        with Ledger(tmp_path / "runs.db") as ledger:
            flow = Workflow(Operator("Answer.", id="answer"), durable=ledger, name="kept")
            cases = [Case("a", job="a"), Case("b", job="b")]
            judge = Evaluator("Polite.", id="style")
            return flow.evaluate(cases, judge, run_id="nightly", model=ScriptedReasoner(reply))

    first, second = evaluation(), evaluation()
    assert sorted(asked) == ["Answe", "Answe", "Judge", "Judge"]
    assert second.passed == first.passed == 2
    assert [case.run_id for case in second.cases] == [case.run_id for case in first.cases]
    assert [each.runs for each in second.operators] == [2]


def test_a_file_of_results_for_a_durable_workflow_is_refused(tmp_path):
    flow = Workflow(look, durable=tmp_path / "runs.db")
    with pytest.raises(InputError, match="its database keeps the results"):
        flow.evaluate([Case("a", job="a")], results=tmp_path / "results.jsonl")


def test_a_judge_sees_the_operators_inside_of_others():
    inside = Workflow(Operator("Find it.", id="find") >> Operator("Check it.", id="check"), name="draft")
    flow = Workflow(inside >> Operator("Write.", id="write"))
    style = Evaluator("Fine.", id="style")
    script = ["found", "checked", "written", json.dumps(ACCEPTED)]
    with ScriptedModel(script) as within:
        judged_within = Workflow(inside >> Operator("Write.", id="write"), evaluator=style)
        judged_within.run("x", model=within.model)
    with ScriptedModel(script) as after:
        report = flow.evaluate([Case("a", job="x")], style, model=after.model)
    assert report.passed == 1
    assert after.requests[-1]["messages"] == within.requests[-1]["messages"]


# Checks, scripts and pinned messages of cases


def results(flow, *cases, **options):
    return {case.name: case for case in flow.evaluate(list(cases), [], **options).cases}


@pytest.mark.parametrize(
    ("check", "problem", "blamed"),
    [
        ({"equals": "FACTS OF RAIN"}, "", ""),
        ({"contains": ["FACTS", "RAIN"]}, "", ""),
        ({"of": "look", "equals": "facts of rain"}, "", ""),
        ({"of": "look", "contains": "snow"}, "look: ", "look"),
        ({"equals": "snow"}, "the output: ", ""),
        ({"of": "lok", "contains": "snow"}, "lok: did not run (did you mean 'look'?)", "lok"),
        ({"of": "look.title", "contains": "snow"}, "look.title: there is no such output", "look"),
    ],
)
def test_a_check_of_a_case_holds_for_the_output_or_for_an_operator_which_it_blames(check, problem, blamed):
    case = results(Workflow(look >> answer), Case("rain", job="rain", checks=[check]))["rain"]
    [checked] = case.evaluators
    assert (checked.name, checked.passed, case.passed) == ("checks", not problem, not problem)
    assert checked.reason.startswith(problem)
    assert [fault.operator for fault in checked.faults] == ([blamed] if blamed else [])


@pytest.mark.parametrize("check", [{}, {"equals": 1, "contains": "x"}, {"of": "look"}, {"equal": 1}])
def test_a_check_has_one_condition(check):
    with pytest.raises((InvalidError, ValueError), match=r"checks|equals"):
        Case("rain", job="rain", checks=[check])


def test_scripts_answer_in_place_of_models_and_a_run_that_asks_more_or_less_often_fails():
    script = [{"operator": "say", "text": "Rain."}]
    cases = [
        Case("same", job="x", script=script, expected="Rain."),
        Case("more", job="x"),
        Case("less", job="x", script=[*script, {"operator": "say", "text": "Again."}]),
    ]
    flow = Workflow(Operator("Say it.", id="say"))
    found = {case.name: case for case in flow.evaluate(cases, scripted=True).cases}
    assert (found["same"].passed, found["same"].output) == (True, "Rain.")
    assert not found["more"].passed
    assert not found["less"].passed
    assert all(found[name].error for name in ("more", "less"))


def test_pinned_operators_give_their_message_in_place_of_running():
    case = Case("rain", job="boom", pinned={"look": "pinned"}, expected="PINNED")
    found = Workflow(look >> answer).evaluate([case, Case("boom", job="boom")])
    assert [each.passed for each in found.cases] == [True, False]  # the other case runs it
    assert Case.model_validate(case.as_dict()).as_dict() == case.as_dict()


def test_a_pinned_operator_asks_no_model_also_inside_of_another_workflow():
    inner = Workflow(Operator("Say it.", id="say"), name="inner")
    case = Case("rain", job="x", pinned={"inner/say": "dry"}, expected="DRY")

    @operator
    def loud(inner: str) -> str:
        return inner.upper()

    assert Workflow(inner >> loud).evaluate([case], scripted=True).passed == 1


def test_a_pinned_message_of_an_unknown_operator_is_refused_before_anything_runs():
    with pytest.raises(InvalidError) as caught:
        Workflow(look >> answer).evaluate([Case("rain", job="x", pinned={"lok": "x"})])
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [("undefined-node", "rain")]


@pytest.mark.parametrize(
    ("case", "evaluators", "told"),
    [
        ({"expected": "y"}, [lambda output: True], "the expected output of 1 of 1 cases is not compared"),
        ({}, None, "nothing judges a"),
        ({}, [lambda output: True], ""),
        ({"checks": [{"contains": "x"}]}, None, ""),
        ({"expected": "x"}, None, ""),
    ],
)
def test_what_nothing_judges_is_said(caplog, case, evaluators, told):
    Workflow(operator(id="say")(lambda: "x")).evaluate([Case("a", job="x", **case)], evaluators)
    assert [record.message.partition(";")[0] for record in caplog.records] == ([told] if told else [])
