"""Functions as evaluators, and the number of rounds of a workflow that is given an evaluator."""

import pytest

from operad import InputError, Job, RunContext, Workflow, WorkflowMessage, WorkflowStatus, operator
from operad.runtime import BuiltinWorkflow, FaultError, InvalidError, OperatorError


def draft(context: RunContext) -> str:
    return context.lesson or "first"


def kept(draft: str) -> str:
    return draft


def not_first(kept: str) -> None:
    """Reject the first draft."""
    if kept == "first":
        raise FaultError("not yet", lesson="second", blame=["draft"])


@pytest.mark.parametrize("judge", [not_first, operator(not_first), operator(id="other")(not_first)])
def test_a_function_is_an_evaluator_whose_faults_start_another_round_with_their_lesson(judge):
    result = BuiltinWorkflow(operator(draft) >> kept, evaluator=judge).run("x")
    assert (result.text, result.rounds, result.status) == ("second", 2, WorkflowStatus.SUCCESS)


def test_an_error_of_a_function_that_sees_no_lesson_ends_the_run_at_once():
    calls: list[str] = []

    def blind(job: Job) -> str:
        calls.append("blind")
        raise ValueError("always")

    def seeing(context: RunContext) -> str:
        calls.append("seeing")
        raise ValueError("unless it is told")

    def judge(draft: str) -> None:
        calls.append("judge")
        raise ValueError("no number")

    for flow in (
        BuiltinWorkflow(blind, max_rounds=3),
        BuiltinWorkflow(seeing, max_rounds=3),
        BuiltinWorkflow(draft, evaluator=judge, max_rounds=3),
    ):
        with pytest.raises(OperatorError):
            flow.run("x")

    assert calls == ["blind", "seeing", "seeing", "seeing", "judge"]


def test_a_fault_that_remains_is_the_verdict_and_not_an_error_of_the_run():
    def never(draft: str, job: Job) -> None:
        raise FaultError(f"{job.goal}: not {draft}")

    result = BuiltinWorkflow(draft, evaluator=never, max_rounds=1).run("x")
    assert (result.status, result.evaluation) == (WorkflowStatus.EXECUTION_ERROR, "x: not first")
    assert (result.lesson, result.message.blame) == ("x: not first", ())
    assert result.text == "first"


async def test_a_function_may_return_the_verdict_itself_and_may_be_async():
    async def scored(draft: str) -> WorkflowMessage:
        return WorkflowMessage(evaluation=f"{draft} is fine", score=7)

    workflow = BuiltinWorkflow(draft)
    workflow.add_evaluator(scored)
    result = await workflow.arun("x")
    assert (result.text, result.evaluation, result.message.score) == ("first", "first is fine", 7)


@pytest.mark.parametrize("value", ["fine", True, {"status": "SUCCESS"}])
def test_another_value_is_refused_with_what_to_return(value):
    with pytest.raises(OperatorError) as caught:
        BuiltinWorkflow(draft, evaluator=operator(id="judge")(lambda draft: value), max_rounds=1).run("x")
    assert isinstance(caught.value.__cause__, InputError)
    assert "evaluator 'judge' returned " in str(caught.value)
    assert "raise FaultError(…, lesson='…') if it is wrong, or return a WorkflowMessage with a status" in str(
        caught.value
    )


def test_a_parameter_that_is_no_last_operator_is_an_issue_before_the_run():
    def judge(drat: str, other: str) -> None: ...

    with pytest.raises(
        InvalidError, match=r"judge: parameter 'drat' is not an operator before it \(did you mean 'draft'\?\)"
    ):
        BuiltinWorkflow(draft, evaluator=judge).run("x")


def test_a_parameter_may_be_any_earlier_operator_which_can_be_blamed_then():
    def judge(written: str, first: str) -> None:
        if first == "first":
            raise FaultError(f"{written} rests on {first}", lesson="second", blame=[first_draft])

    first_draft = operator(id="first")(draft)
    written = operator(id="written")(lambda middle: middle.upper())
    result = BuiltinWorkflow(first_draft >> operator(id="middle")(lambda text: text) >> written, evaluator=judge).run(
        "x"
    )
    assert (result.text, result.rounds, result["first"]) == ("SECOND", 2, "second")


def test_a_parameter_that_is_no_operator_at_all_remains_an_issue():
    def judge(kept: str, draff: str) -> None: ...

    with pytest.raises(
        InvalidError, match=r"parameter 'draff' is not an operator before it \(did you mean 'draft'\?\)"
    ):
        BuiltinWorkflow(draft >> operator(kept), evaluator=judge).run("x")


def test_with_an_evaluator_and_no_word_on_rounds_there_are_three_and_without_there_is_one():
    def never(draft: str) -> None:
        raise FaultError("no")

    assert BuiltinWorkflow(draft, evaluator=never).run("x").rounds == 3
    assert BuiltinWorkflow(draft, evaluator=never, max_rounds=2).run("x").rounds == 2
    assert (Workflow(draft).max_rounds, Workflow(draft, 2).max_rounds) == (1, 2)
