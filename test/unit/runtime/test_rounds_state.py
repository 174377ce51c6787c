"""The rounds of a run as a state machine: a table, and that replaying a run's events gives the state it had."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime import BuiltinWorkflow, Job, OperatorError, WorkflowMessage, WorkflowStatus, events
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.fault import Fault
from operad.runtime.workflow.rounds import AGAIN, CUT, NO_BLAME, Rounds

SUCCESS, EXECUTION, INPUT, TOO_COMPLICATED = (
    WorkflowStatus.SUCCESS,
    WorkflowStatus.EXECUTION_ERROR,
    WorkflowStatus.INPUT_DATA_ERROR,
    WorkflowStatus.JOB_TOO_COMPLICATED_ERROR,
)


def verdict(status=EXECUTION, lesson="", score=None, **fields):
    return WorkflowMessage(status=status, lesson=lesson, score=score, **fields)


DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
IDS = [*DIAMOND, "judge"]


def went(*verdicts, most=9, **options):
    state = Rounds(most)
    for each in verdicts:
        state = state.begun().judged(each, IDS, DIAMOND, **options)
    return state


@pytest.mark.parametrize(
    ("verdicts", "number", "best", "over", "repairs"),
    [
        ([], 0, 0, False, 0),
        ([verdict(SUCCESS)], 1, 1, True, 0),
        ([verdict(INPUT, "ask for more")], 1, 1, True, 0),
        ([verdict(TOO_COMPLICATED)], 1, 1, True, 0),
        ([verdict()], 1, 1, False, 4),
        ([verdict(), verdict()], 2, 2, False, 4),
        ([verdict(blame=["b"]), verdict(blame=["c"])], 2, 2, False, 1),
        ([verdict(score=3), verdict(score=1)], 2, 1, False, 4),
        ([verdict(score=3), verdict(score=3)], 2, 2, False, 4),
        ([verdict(score=3), verdict()], 2, 1, False, 4),
        ([verdict(score=3), verdict(SUCCESS, score=0)], 2, 2, True, 0),
        ([verdict(score=3), verdict(INPUT, score=0)], 2, 2, True, 0),
    ],
)
def test_verdicts_take_the_state_further(verdicts, number, best, over, repairs):
    state = went(*verdicts)
    assert (state.number, state.best_round, state.is_over, len(state.repairs)) == (number, best, over, repairs)


def test_a_run_is_over_with_its_last_round_and_repairs_nothing_more():
    state = went(verdict(blame=["b"]), verdict(blame=["b"]), most=2)
    assert (state.is_over, state.repairs, state.reasons) == (True, (), {})


def test_a_verdict_that_no_round_can_change_ends_the_run():
    state = went(verdict(blame=["b"]), is_final=True)
    assert (state.is_over, state.repairs, state.best_round) == (True, (), 1)


def test_a_round_that_an_error_ended_is_never_the_best():
    state = Rounds(3).begun().judged(verdict(score=9), has_result=False)
    assert (state.best, state.best_round) == (None, 0)
    assert state.begun().judged(verdict(score=1)).best_round == 2


def suspected(state):
    return {fault.place: fault.sure for fault in state.repairs}


WRONG = Fault(operator="d", item=3, wrong="174.30", right="149.40", lesson="Six pieces.")


def test_the_faults_of_a_verdict_are_repaired_as_they_are():
    state = went(verdict(faults=[WRONG], blame=["d[3]"]))
    assert (state.repairs, state.reasons) == ((WRONG,), {})


def test_blame_without_faults_is_a_fault_with_the_lesson_of_the_verdict():
    state = went(verdict(lesson="more", blame=["b", "c/inner"]))
    assert state.repairs == (Fault(operator="b", lesson="more"), Fault(operator="c/inner", lesson="more"))


def test_blame_without_a_lesson_tells_the_evaluation():
    told = WorkflowMessage(status=EXECUTION, evaluation="too long", blame=["b"])
    assert went(told).repairs == (Fault(operator="b", lesson="too long"),)


def test_faults_of_unknown_operators_are_left_out():
    assert suspected(went(verdict(blame=["x", "b", "a[1]", "y/b"]))) == {"b": True, "a[1]": True}


def test_an_evaluator_is_repaired_as_well():
    assert suspected(went(verdict(blame=["judge"]))) == {"judge": True}


@pytest.mark.parametrize("blame", [[], ["x"]])
def test_if_nobody_known_is_blamed_all_are_suspected_and_told_the_lesson_or_the_evaluation(blame):
    state = went(verdict(lesson="more", blame=blame))
    assert suspected(state) == dict.fromkeys("abcd", False)
    assert state.reasons == dict.fromkeys("abcd", NO_BLAME)
    assert {fault.lesson for fault in state.repairs} == {"more"}
    [*_, last] = went(WorkflowMessage(status=EXECUTION, evaluation="too long", blame=blame)).repairs
    assert last.lesson == "too long"


def test_if_nobody_is_blamed_and_one_operator_ran_it_is_at_fault():
    state = Rounds(3).begun().judged(verdict(), ["a", "judge"], {"a": ()})
    assert (suspected(state), state.reasons) == ({"a": True}, {"a": NO_BLAME})


def test_if_nobody_is_blamed_the_first_operator_that_was_not_seen_whole_is_suspected_alone():
    state = went(verdict(lesson="more"), cut=["c", "d"])
    assert (suspected(state), state.reasons) == ({"c": False}, {"c": CUT})
    assert suspected(went(verdict(blame=["d"]), cut=["c"])) == {"d": True}


def test_blame_of_what_was_repaired_in_vain_adds_its_predecessors_and_then_theirs():
    d = verdict(faults=[WRONG], blame=["d[3]"])
    state, went_on = Rounds(9), []
    for _ in range(4):
        state = state.begun().judged(d, IDS, DIAMOND)
        went_on.append((suspected(state), state.reasons))
    once, twice = {"d[3]": True}, {"d[3]": True, "b": False, "c": False}
    thrice = {**twice, "a": False}
    assert went_on == [
        (once, {}),
        (twice, dict.fromkeys("bc", AGAIN)),
        (thrice, dict.fromkeys("bca", AGAIN)),
        (thrice, dict.fromkeys("bca", AGAIN)),
    ]
    assert {(each.wrong, each.right, each.lesson) for each in state.repairs} == {
        (WRONG.wrong, WRONG.right, WRONG.lesson)
    }


@pytest.mark.parametrize(
    ("place", "suspects"),
    [
        ("d/draft/check", ["d/draft/facts"]),
        ("d/draft", ["b", "c"]),
        ("d[3]/check", ["b", "c"]),
        ("d/unknown/check", ["b", "c"]),
    ],
)
def test_predecessors_inside_of_an_operator_come_before_those_of_the_operator(place, suspects):
    before = {**DIAMOND, "d/draft/facts": ("b",), "d/draft/check": ("d/draft/facts",)}
    state = Rounds(9)
    for _ in range(2):
        state = state.begun().judged(verdict(blame=[place]), IDS, before)
    assert state.reasons == dict.fromkeys(suspects, AGAIN)


def test_a_predecessor_that_did_not_run_is_not_suspected():
    state = Rounds(9)
    for _ in range(2):
        state = state.begun().judged(verdict(blame=["d"]), IDS, {"b": ("a",), "d": ("b", "c")})
    assert state.reasons == {"b": AGAIN}


def test_an_operator_that_is_blamed_itself_is_not_suspected_as_well():
    state = went(verdict(blame=["d"]), verdict(blame=["d", "b"]))
    assert (suspected(state), state.reasons) == ({"d": True, "b": True, "c": False}, {"c": AGAIN})


@pytest.mark.parametrize("between", [verdict(blame=["a"]), verdict()])
def test_a_round_that_blames_another_one_begins_the_count_anew(between):
    state = went(verdict(blame=["d"]), between, verdict(blame=["d"]))
    assert (suspected(state), state.reasons) == ({"d": True}, {})


class Do:
    """An operator that says its id, or fails, as a script of its calls has it."""

    def __init__(self, op_id: str, script: list[Any]):
        self._id, self._script = op_id, iter(script)

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        said = next(self._script, self._id)
        if isinstance(said, Exception):
            raise said
        return said


VERDICTS = st.builds(
    WorkflowMessage,
    status=st.sampled_from([EXECUTION, EXECUTION, EXECUTION, SUCCESS, INPUT]),
    lesson=st.sampled_from(["", "more", "less"]),
    blame=st.sampled_from([(), ("a",), ("b",), ("b",), ("nobody",), ("b", "nobody")]),
    score=st.sampled_from([None, 1.0, 5.0]),
)


@given(
    verdicts=st.lists(VERDICTS, min_size=5, max_size=5),
    failing=st.lists(st.sampled_from(["b", "b", ValueError("broken")]), max_size=5),
    most=st.integers(1, 5),
    lesson=st.sampled_from([None, "be brief"]),
)
def test_the_events_of_a_run_give_the_state_that_it_had(verdicts, failing, most, lesson):
    heard: list[events.Event] = []
    workflow = BuiltinWorkflow(max_rounds=most, listeners=[heard.append], evaluator=Do("judge", [*verdicts]))
    a, b = Do("a", []), Do("b", [*failing])
    workflow.add_operator(a)
    workflow.add_operator(b, [a])

    async def run():
        live = workflow.start(Job("go"), ScriptedReasoner([]), lesson=lesson)
        with suppress(OperatorError):  # what counts is the state then
            await live
        return live._live.run._state

    state = asyncio.run(run())
    again, ran = Rounds(most), dict[str, tuple[str, ...]]()
    for event in heard:
        if isinstance(event, events.RoundStarted):
            again = again.begun()
        elif isinstance(event, events.OperatorFinished) and event.operator_id != "judge":
            ran[event.operator_id] = {"a": (), "b": ("a",)}[event.operator_id]
        elif isinstance(event, events.OperatorFailed):
            ran.pop(event.operator_id, None)
        elif isinstance(event, events.RoundFinished):
            told = WorkflowMessage(
                status=event.status,
                evaluation=event.evaluation,
                lesson=event.lesson,
                blame=event.blame,
                faults=event.faults,
                score=event.score,
            )
            again = again.judged(told, ["a", "b", "judge"], ran, has_result=event.has_result)
            assert event.repairs == again.reasons
    for name in ("number", "best_round", "is_over", "repairs", "reasons", "repaired"):
        assert getattr(again, name) == getattr(state, name)
    assert (again.best is None) == (state.best is None)
    if again.best is not None and state.best is not None:
        assert (again.best.status, again.best.score) == (state.best.status, state.best.score)
