"""Scores as evaluators in a workflow."""

import pytest

from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator, lesson_of
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, WorkflowStatus
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError


class Length(ScoreEvaluator):
    """Measures how near a text is to ten characters."""

    def assess(self, text, job):
        return Assessment(min(len(text) / 10, 1), ["say more"] * (len(text) < 10), {"length": len(text)})


def judged_by(threshold=0.8):
    return Length(OperatorConfig(instruction="Ten characters.", id="length"), threshold=threshold)


def test_a_score_below_the_threshold_is_a_lesson_for_who_wrote():
    workflow = BuiltinWorkflow(max_rounds=2)
    workflow.add_operator(Operator(OperatorConfig(instruction="Write.", id="writer")))
    workflow.set_evaluator(judged_by())
    reasoner = ScriptedReasoner(["short", "long enough"])
    message = workflow.execute(Job(goal="Write."), reasoner)
    assert message.status is WorkflowStatus.SUCCESS
    assert message.scratchpad == "long enough"
    assert message.score == 10
    assert message.outputs["length"] == {"length": 11}
    assert "- say more" in reasoner.tasks[1].lesson


def test_the_last_round_bears_status_score_and_blame():
    workflow = BuiltinWorkflow()
    workflow.add_operator(Operator(OperatorConfig(instruction="Write.", id="writer")))
    workflow.set_evaluator(judged_by())
    message = workflow.execute(Job(goal="Write."), ScriptedReasoner(["short"]))
    assert message.status is WorkflowStatus.EXECUTION_ERROR
    assert message.score == 5
    assert message.blame == ("writer",)
    assert "length: 0.500, below 0.8" in message.evaluation


def test_a_threshold_beyond_its_range_is_refused():
    with pytest.raises(InputError, match="from 0 to 1, not 80"):
        judged_by(80)


def test_a_lesson_tells_no_more_than_can_be_heeded():
    lesson = lesson_of([f"fault {n}" for n in range(20)])
    assert "fault 7" in lesson
    assert "fault 8" not in lesson
    assert "12 more" in lesson
