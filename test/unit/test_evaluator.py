"""The evaluator that asks: four fields by schema, and what becomes of an answer outside it."""

import json

import pytest

from operad.evaluators import Evaluator
from operad.evaluators.evaluator import verdict_schema
from operad.operators import Operator, OperatorConfig
from operad.runtime import AnswerError, BuiltinWorkflow, Job, WorkflowMessage, WorkflowStatus
from operad.runtime.testing import ScriptedReasoner

JOB = Job(goal="goal", id="job")
JUDGED = [
    WorkflowMessage(scratchpad="first", operator_id="a"),
    WorkflowMessage(scratchpad="second", operator_id="b"),
]
ALL = ["EXECUTION_ERROR", "INPUT_DATA_ERROR", "JOB_TOO_COMPLICATED_ERROR", "SUCCESS"]
WITHOUT_INPUT = ["EXECUTION_ERROR", "JOB_TOO_COMPLICATED_ERROR", "SUCCESS"]


def verdict(**fields):
    return json.dumps({"evaluation": "fine", "status": "SUCCESS", "lesson": "", "blame": [], **fields})


def evaluator():
    return Evaluator(OperatorConfig(instruction="Is it so?", id="judge"))


async def judge(*answers, judged=JUDGED, previous=None, lesson=None):
    """The verdict, and the tasks it took."""
    with ScriptedReasoner(answers) as reasoner:
        message = await evaluator().execute(
            reasoner, JOB, workflow_messages=judged, previous_expert_outputs=previous, lesson=lesson
        )
    return message, reasoner.tasks


async def test_a_verdict_bears_the_four_fields_and_the_text_that_was_judged():
    message, _ = await judge(verdict(status="EXECUTION_ERROR", evaluation="wrong", lesson="Count again.", blame=["b"]))
    assert message == WorkflowMessage(
        scratchpad="first\n\nsecond",
        status=WorkflowStatus.EXECUTION_ERROR,
        evaluation="wrong",
        lesson="Count again.",
        blame=("b",),
        job_id="job",
        operator_id="judge",
    )


async def test_the_reasoner_sees_what_is_judged_the_criteria_and_the_schema():
    _, [task] = await judge(verdict(), lesson="Be strict.")
    assert (task.job, task.workflow_messages, task.lesson) == (JOB, tuple(JUDGED), "Be strict.")
    assert "What counts:\nIs it so?\n" in task.instruction
    assert json.loads(task.output_schema) == {
        "type": "object",
        "properties": {
            "evaluation": {"type": "string"},
            "status": {"type": "string", "enum": WITHOUT_INPUT},
            "lesson": {"type": "string"},
            "blame": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "score": {"type": "integer", "minimum": 0, "maximum": 10},
        },
        "required": ["evaluation", "status", "lesson", "blame"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("previous", "offered"), [(None, WITHOUT_INPUT), ([], WITHOUT_INPUT), ([WorkflowMessage(scratchpad="given")], ALL)]
)
async def test_the_input_is_offered_as_at_fault_only_where_somebody_produced_it(previous, offered):
    _, [task] = await judge(verdict(), previous=previous)
    assert json.loads(task.output_schema)["properties"]["status"]["enum"] == offered
    explained = [line.split(":")[0] for line in task.instruction.splitlines() if line.split(":")[0] in ALL]
    assert explained == offered


async def test_input_data_error_is_refused_without_and_taken_with_earlier_outputs():
    at_fault = verdict(status="INPUT_DATA_ERROR")
    message, tasks = await judge(at_fault, verdict())
    assert (message.status, len(tasks)) == (WorkflowStatus.SUCCESS, 2)
    assert "INPUT_DATA_ERROR" in tasks[1].lesson
    message, tasks = await judge(at_fault, previous=[WorkflowMessage()])
    assert (message.status, len(tasks)) == (WorkflowStatus.INPUT_DATA_ERROR, 1)


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{verdict(lesson='L')}\n```",
        f"```\n{verdict(lesson='L')}\n```",
        f"Here is my verdict:\n\n```json\n{verdict(lesson='L')}\n```\nI hope it helps.",
        f"My verdict: {verdict(lesson='L')}",
    ],
)
async def test_a_verdict_in_a_fence_or_amid_prose_is_read(answer):
    message, tasks = await judge(answer)
    assert (message.lesson, message.evaluation, len(tasks)) == ("L", "fine", 1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (verdict(status="SUCCES"), "$.status: 'SUCCES' is not one of"),
        (verdict(blame=["c"]), "$.blame[0]: 'c' is not one of ['a', 'b']"),
        (verdict(score=11), "$.score: 11 is greater than the maximum of 10"),
        ('{"status": "SUCCESS"}', "'evaluation' is a required property"),
        ("It is fine.", "JSON"),
        ("", "JSON"),
    ],
)
async def test_an_answer_outside_the_schema_is_asked_for_again_with_what_was_wrong(answer, problem):
    message, [first, second] = await judge(answer, verdict(evaluation="now right"))
    assert message.evaluation == "now right"
    assert first.lesson == ""
    assert second.lesson.startswith("Your last verdict could not be read: ")
    assert problem in second.lesson
    assert second == first.model_copy(update={"lesson": second.lesson})


async def test_what_was_wrong_is_added_to_the_lesson_and_no_lesson_is_lost():
    _, [first, second, third] = await judge("nonsense", verdict(blame=["c"]), verdict(), lesson="Be strict.")
    assert first.lesson == "Be strict."
    assert second.lesson.startswith("Be strict.\nYour last verdict could not be read: ")
    assert third.lesson.startswith(f"{second.lesson}\nYour last verdict could not be read: ")
    assert "'c' is not one of ['a', 'b']" in third.lesson


async def test_after_three_tries_it_is_an_error_that_quotes_the_last_answer():
    with pytest.raises(AnswerError) as caught:
        await judge("one", "two", "three" * 100)
    assert caught.value.operator_id == "judge"
    assert str(caught.value).startswith(
        f"evaluator 'judge' got no verdict in 3 tries; the last answer was {('three' * 100)[:200]!r}: "
        "Your last verdict could not be read: "
    )


async def test_the_third_try_still_counts():
    message, tasks = await judge("one", "two", verdict(evaluation="third"))
    assert (message.evaluation, len(tasks)) == ("third", 3)


@pytest.mark.parametrize("judged", [None, [], [WorkflowMessage(scratchpad="from nobody")]])
async def test_where_nobody_is_known_nobody_can_be_blamed(judged):
    message, [first, _] = await judge(verdict(blame=["a"]), verdict(), judged=judged)
    assert json.loads(first.output_schema)["properties"]["blame"] == {
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 0,
    }
    assert message.blame == ()


def test_each_operator_can_be_blamed_once_however_much_it_said():
    schema = verdict_schema(["b", "a", "", "b"], has_previous=False)
    assert schema["properties"]["blame"]["items"]["enum"] == ["a", "b"]


async def test_a_reasoners_error_goes_to_the_caller():
    with pytest.raises(ConnectionError):
        await judge(ConnectionError("gone"))


async def test_the_callers_messages_stay_as_they_were():
    judged = list(JUDGED)
    await judge(verdict(), judged=judged)
    assert judged == JUDGED


class Says(Operator):
    """Says its instruction, and outputs it under its id."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return WorkflowMessage(scratchpad=self.config.instruction, outputs={self.get_id(): self.config.instruction})


def workflow_of(*tails, max_rounds=1):
    workflow = BuiltinWorkflow(max_rounds=max_rounds)
    for tail in tails:
        workflow.add_operator(tail)
    workflow.set_evaluator(evaluator())
    return workflow


async def test_in_a_workflow_the_verdict_bears_the_tails_text_and_outputs():
    workflow = workflow_of(Says(OperatorConfig(instruction="first", id="a")))
    with ScriptedReasoner([verdict(evaluation="good")]) as reasoner:
        message = await workflow.aexecute(JOB, reasoner)
    assert (message.scratchpad, message.evaluation, message.outputs) == ("first", "good", {"a": "first"})
    assert message.operator_id == "judge"


async def test_in_a_workflow_several_tails_are_judged_together_in_order():
    tails = [Says(OperatorConfig(instruction=text, id=key)) for text, key in [("first", "z"), ("second", "a")]]
    with ScriptedReasoner([verdict()]) as reasoner:
        message = await workflow_of(*tails).aexecute(JOB, reasoner)
    assert message.scratchpad == "first\n\nsecond"
    assert message.outputs == {"z": {"z": "first"}, "a": {"a": "second"}}
    assert [part.operator_id for part in message.parts] == ["z", "a"]
    assert json.loads(reasoner.tasks[0].output_schema)["properties"]["blame"]["items"]["enum"] == ["a", "z"]


async def test_in_a_workflow_its_lesson_reaches_the_operator_that_it_blames():
    workflow = workflow_of(Operator(OperatorConfig(instruction="Answer.", id="a")), max_rounds=2)
    fault = verdict(status="EXECUTION_ERROR", evaluation="bad", lesson="Think.", blame=["a"])
    with ScriptedReasoner(["wrong", fault, "right", verdict(evaluation="good")]) as reasoner:
        message = await workflow.aexecute(JOB, reasoner)
    again = reasoner.tasks[2]
    assert (again.lesson, [m.scratchpad for m in again.workflow_messages]) == ("Think.", ["wrong", "wrong"])
    assert [m.evaluation for m in again.workflow_messages] == ["", "bad"]
    assert (message.scratchpad, message.status, message.evaluation) == ("right", WorkflowStatus.SUCCESS, "good")
