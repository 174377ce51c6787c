"""The rounds of a run as a state machine: a table, and that replaying a run's events gives the state it had."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime import BuiltinWorkflow, Job, OperatorError, WorkflowMessage, WorkflowStatus, events
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.workflow.rounds import Rounds, at_fault

SUCCESS, EXECUTION, INPUT, TOO_COMPLICATED = (
    WorkflowStatus.SUCCESS,
    WorkflowStatus.EXECUTION_ERROR,
    WorkflowStatus.INPUT_DATA_ERROR,
    WorkflowStatus.JOB_TOO_COMPLICATED_ERROR,
)


def verdict(status=EXECUTION, lesson="", score=None):
    return WorkflowMessage(status=status, lesson=lesson, score=score)


def went(*verdicts, most=9, lessons=()):
    state = Rounds(most, lessons=lessons)
    for each in verdicts:
        state = state.begun().judged(each)
    return state


@pytest.mark.parametrize(
    ("verdicts", "number", "best", "over", "lesson"),
    [
        ([], 0, 0, False, None),
        ([verdict(SUCCESS)], 1, 1, True, None),
        ([verdict(INPUT, "ask for more")], 1, 1, True, None),
        ([verdict(TOO_COMPLICATED)], 1, 1, True, None),
        ([verdict(lesson="more")], 1, 1, False, "more"),
        ([verdict(lesson="more"), verdict(lesson="less")], 2, 2, False, "more\nless"),
        ([verdict(lesson="more"), verdict(lesson="less"), verdict(lesson="more")], 3, 3, False, "less\nmore"),
        ([verdict(score=3), verdict(score=1)], 2, 1, False, None),
        ([verdict(score=3), verdict(score=3)], 2, 2, False, None),
        ([verdict(score=3), verdict()], 2, 1, False, None),
        ([verdict(score=3), verdict(SUCCESS, score=0)], 2, 2, True, None),
        ([verdict(score=3), verdict(INPUT, score=0)], 2, 2, True, None),
    ],
)
def test_verdicts_take_the_state_further(verdicts, number, best, over, lesson):
    state = went(*verdicts)
    assert (state.number, state.best_round, state.is_over, state.lesson) == (number, best, over, lesson)


def test_a_run_is_over_with_its_last_round_and_learns_nothing_more():
    state = went(verdict(lesson="more"), verdict(lesson="less"), most=2)
    assert (state.is_over, state.lessons) == (True, ("more",))


def test_a_round_that_an_error_ended_is_never_the_best():
    state = Rounds(3).begun().judged(verdict(score=9), has_result=False)
    assert (state.best, state.best_round) == (None, 0)
    assert state.begun().judged(verdict(score=1)).best_round == 2


def test_a_lesson_from_outside_is_the_first():
    assert went(verdict(lesson="more"), lessons=("be brief",)).lesson == "be brief\nmore"


@pytest.mark.parametrize(
    ("blame", "again"), [((), ["a", "b"]), (("b",), ["b"]), (("b", "x"), ["b"]), (("x",), ["a", "b"])]
)
def test_those_blamed_run_again_or_all_where_nobody_known_is(blame, again):
    assert at_fault(blame, ["a", "b"]) == again


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
    blame=st.sampled_from([(), ("a",), ("b",), ("nobody",)]),
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
    again = Rounds(most, lessons=(lesson,) if lesson else ())
    for event in heard:
        if isinstance(event, events.RoundStarted):
            again = again.begun()
        elif isinstance(event, events.RoundFinished):
            again = again.judged(event, has_result=event.has_result)
    assert (again.number, again.lessons, again.best_round, again.is_over) == (
        state.number,
        state.lessons,
        state.best_round,
        state.is_over,
    )
    assert (again.best is None) == (state.best is None)
    if again.best is not None and state.best is not None:
        assert (again.best.status, again.best.score) == (state.best.status, state.best.score)
