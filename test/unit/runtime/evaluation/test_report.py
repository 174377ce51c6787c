"""Reports of evaluations, and their comparison."""

import pytest

from operad import Fault, InputError
from operad.evaluation import EvaluationReport, EvaluatorResult, OperatorUse, ReportCase
from operad.runtime.evaluation.comparison import difference
from operad.runtime.values.message import Usage, WorkflowStatus


def ran(name, *, passed=True, status="SUCCESS", error="", score=None, cost=0.0, faults=(), tags=(), repeat=1):
    results = () if error else (EvaluatorResult(name="judge", passed=passed, score=score, reason="so", faults=faults),)
    usage = Usage(calls=1, prompt_tokens=10, cost=cost)
    return ReportCase(
        name=name,
        repeat=repeat,
        status=None if error else WorkflowStatus(status),
        error=error,
        evaluators=results,
        usage=usage,
        tags=tags,
        operators={"look": OperatorUse(runs=1, seconds=2.0, usage=usage)},
    )


def report(*cases):
    return EvaluationReport("flow", cases=cases)


def test_a_case_passes_if_the_workflow_and_all_evaluators_accept_it():
    found = report(ran("a"), ran("b", passed=False), ran("c", status="EXECUTION_ERROR"), ran("d", error="boom"))
    assert [case.name for case in found.failed] == ["b", "c", "d"]
    assert found.pass_rate == 0.25


def test_a_rejected_run_that_is_right_is_a_false_rejection_and_an_accepted_one_that_is_wrong_a_false_acceptance():
    summary = report(ran("a", status="EXECUTION_ERROR"), ran("b", passed=False), ran("c", error="boom")).summary()
    assert (summary["false_rejections"], summary["false_acceptances"], summary["errors"]) == (1, 1, 1)


def test_operators_have_the_faults_that_evaluators_found_in_them():
    twice = Fault(operator="look", lesson="Count again."), Fault(operator="sums", item=3, right="149")
    found = report(ran("a", passed=False, faults=twice), ran("b", passed=False, faults=twice[:1]), ran("c"))
    look, sums = found.operators
    assert (look.name, look.runs, look.blamed, look.lessons) == ("look", 3, 2, (("Count again.", 2),))
    assert (sums.name, sums.runs, sums.blamed, sums.lessons) == ("sums", 0, 1, (("149", 1),))


def test_a_failed_assertion_names_case_evaluator_operator_and_both_texts():
    fault = Fault(operator="sums", item=3, wrong="174.30", right="149.40", lesson="Six pieces.")
    with pytest.raises(AssertionError) as caught:
        report(ran("a"), ran("b", passed=False, faults=[fault]), ran("c", error="boom")).assert_passed()
    assert str(caught.value).splitlines() == [
        "flow: 2 of 3 cases did not pass",
        "b",
        "  judge: so",
        "    sums[3]: wrong: 174.30; right: 149.40; lesson: Six pieces.",
        "c",
        "  the run failed: boom",
    ]


def test_a_report_in_which_all_cases_passed_asserts_nothing():
    report(ran("a")).assert_passed()


def test_tags_group_cases():
    assert report(ran("a", tags=["x", "y"]), ran("b", tags=["x"], passed=False)).tags == {"x": (1, 2), "y": (1, 1)}


def test_a_report_is_read_back_from_its_file(tmp_path):
    found = report(ran("a", cost=0.5, faults=[Fault(operator="look")]), ran("b", error="boom"))
    found.save(tmp_path / "report.json")
    assert EvaluationReport.load(tmp_path / "report.json") == found


def test_a_file_that_is_no_report_is_an_error(tmp_path):
    (tmp_path / "other.json").write_text('{"figs": 3}')
    with pytest.raises(InputError, match="cannot be read as a report"):
        EvaluationReport.load(tmp_path / "other.json")


def test_a_comparison_names_the_cases_that_became_better_or_worse():
    before = report(ran("a"), ran("b", passed=False), ran("c"), ran("gone"))
    after = report(ran("a", passed=False), ran("b"), ran("c"), ran("new"))
    found = after.compare(before)
    assert (found.better, found.worse, found.added, found.missing) == (("b",), ("a",), ("new",), ("gone",))


def test_repeated_runs_of_a_case_count_as_their_mean():
    before = report(ran("a"), ran("a", repeat=2, passed=False))
    after = report(ran("a"), ran("a", repeat=2))
    [passed] = [each for each in after.compare(before).differences if each.measure == "passed"]
    assert (passed.before, passed.after, passed.cases, passed.low) == (0.5, 1.0, 1, None)


def test_the_interval_of_a_rate_is_that_of_bonett_and_price():
    # 10 pairs became better and 2 worse, of 40: (11 - 3) / 42 -+ 1.96 sqrt((14 / 42 - (8 / 42)²) / 42)
    pairs = [(0, 1)] * 10 + [(1, 0)] * 2 + [(1, 1)] * 28
    found = difference("passed", pairs)
    assert found.change == pytest.approx(0.2)
    assert (found.low, found.high) == (pytest.approx(0.0256, abs=5e-4), pytest.approx(0.3553, abs=5e-4))
    assert found.is_clear


def test_the_interval_of_a_few_equal_pairs_does_not_vanish():
    found = difference("passed", [(0, 1)] * 3)
    assert found.low is not None
    assert found.low < found.change == 1.0
    assert not difference("passed", [(1, 1)] * 3).is_clear


def test_the_interval_of_a_mean_is_students():
    found = difference("tokens", [(10, 12), (20, 21), (30, 36)])
    assert found.change == 3.0
    assert found.high is not None
    assert found.high - found.change == pytest.approx(4.303 * 2.6458 / 3**0.5, abs=0.01)
    assert not found.is_clear
