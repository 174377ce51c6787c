"""Verdicts as people read them."""

from operad import Fault, WorkflowStatus
from operad.runtime.values.fault import (
    LONGEST_CHANGE,
    LONGEST_QUOTE,
    MOST_CHANGES,
    MOST_FAULTS,
    changed_lines,
    finding_lines,
    reason_in,
    status_text,
    verdict_text,
)

ERROR = WorkflowStatus.EXECUTION_ERROR


def found(faults=(), blame=(), unsure=(), repairs=None):
    return list(finding_lines(faults, blame, unsure, repairs or {}))


def test_rejected_is_said_first_and_the_status_second():
    assert verdict_text(ERROR, "too long") == "rejected: too long (EXECUTION_ERROR)"
    assert verdict_text(ERROR, "") == "rejected (EXECUTION_ERROR)"
    assert verdict_text(WorkflowStatus.SUCCESS, "short") == "accepted: short"
    assert verdict_text(WorkflowStatus.SUCCESS, "") == "accepted"
    assert (status_text(ERROR), status_text(WorkflowStatus.SUCCESS)) == ("rejected (EXECUTION_ERROR)", "SUCCESS")


def test_a_fault_is_the_operator_the_quotes_and_the_advice():
    sums = Fault(operator="sums", item=3, wrong="total 174.30", right="total 149.40", lesson="Six pieces.")
    facts = Fault(operator="draft/facts", wrong="1968", sure=False)
    assert found([sums, facts], ["sums[3]", "draft/facts"]) == [
        "at fault: sums[3]",
        "  wrong: total 174.30",
        "  right: total 149.40",
        "  lesson: Six pieces.",
        "suspected: draft/facts",
        "  wrong: 1968",
    ]


def test_blamed_operators_without_a_fault_are_named_and_so_is_what_was_not_verified():
    assert found(blame=["a", "b"], unsure=["The rate of 2025."]) == [
        "at fault: a, b",
        "not verified: The rate of 2025.",
    ]


def test_operators_that_run_again_though_not_blamed_are_given_with_the_reason():
    again = "an operator after it was blamed twice"
    assert found(repairs={"sums": "", "facts": again, "rates": again}) == [
        f"runs again, too, because {again}: facts, rates"
    ]


def test_what_could_not_be_verified_is_not_said_twice():
    evaluation = "Right.\nNot verified: The rate of 2025."
    assert reason_in(evaluation, ["The rate of 2025."]) == "Right."
    assert reason_in(evaluation, []) == evaluation


def test_findings_are_bounded_in_number_and_length():
    lines = found([Fault(operator="o", wrong="w" * 10_000)] * 1_000, unsure=["s" * 10_000] * 1_000)
    assert len(lines) == 2 * MOST_FAULTS + 1 + MOST_FAULTS + 1
    assert f"… and {1_000 - MOST_FAULTS} more faults" in lines
    assert max(map(len, lines)) < LONGEST_QUOTE + 20
    assert found(blame=["n" * 10_000] * 1_000)[0].endswith("and 980 more")


def test_the_difference_of_two_answers_is_the_lines_that_changed():
    assert changed_lines("one\ntwo\nthree", "one\n2\nthree\nfour") == ["- two", "+ 2", "+ four"]
    assert changed_lines("same", "same") == []
    assert changed_lines("a b", "a b ") == ["(only in white space, or after the part that is compared)"]


def test_a_long_line_is_compared_by_sentences():
    same = "This sentence is the same in both of the answers. " * 5
    assert changed_lines(f"{same}It costs 174.30. {same}", f"{same}It costs 149.40. {same}") == [
        "- It costs 174.30.",
        "+ It costs 149.40.",
    ]


def test_a_change_late_in_a_long_line_is_shown():
    gone, fresh = changed_lines("x" * 1_000 + "174", "x" * 1_000 + "149")
    assert (gone[-3:], fresh[-3:]) == ("174", "149")
    assert len(gone) < LONGEST_CHANGE + 5


def test_a_difference_is_bounded():
    lines = changed_lines("a", "\n".join(f"line {number}" for number in range(100_000)))
    assert len(lines) == MOST_CHANGES
    assert lines[-1].startswith("… and ")
    assert max(map(len, changed_lines("", "z" * 100_000))) < LONGEST_CHANGE + 5
