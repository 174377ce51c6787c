"""What travels: statuses, jobs, messages, usage."""

from enum import Enum

import pytest
from pydantic import ValidationError

from operad.runtime import FileDescriptor, Job, SubJob, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import NO_USAGE

USE = "use EXECUTION_ERROR, INPUT_DATA_ERROR, JOB_TOO_COMPLICATED_ERROR, SUCCESS"


def test_statuses_in_falling_priority():
    assert sorted((status.priority, status.value) for status in WorkflowStatus) == [
        (0, "EXECUTION_ERROR"),
        (1, "INPUT_DATA_ERROR"),
        (2, "JOB_TOO_COMPLICATED_ERROR"),
        (3, "SUCCESS"),
    ]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("SUCCES", "'SUCCES' is not a workflow status (did you mean 'SUCCESS'?): "),
        ("INPUT_ERROR", "'INPUT_ERROR' is not a workflow status (did you mean 'INPUT_DATA_ERROR'?): "),
        ("fine", "'fine' is not a workflow status: "),
        (3, "3 is not a workflow status: "),
        (None, "None is not a workflow status: "),
    ],
)
def test_an_unknown_status_is_an_error_that_names_the_nearest(said, problem):
    with pytest.raises(ValueError) as alone:
        WorkflowStatus(said)
    with pytest.raises(InputError) as in_a_message:
        WorkflowMessage(status=said)
    assert str(alone.value) == problem + USE
    assert str(in_a_message.value) == f"WorkflowMessage(…): status: {problem}{USE}"


def test_a_status_may_be_given_by_its_name():
    message = WorkflowMessage.model_validate({"status": "INPUT_DATA_ERROR"})
    assert message.status is WorkflowStatus.INPUT_DATA_ERROR


def test_a_message_that_nobody_judged_is_a_success_that_says_nothing_and_cost_nothing():
    message = WorkflowMessage()
    assert message.model_dump() == {
        "scratchpad": "",
        "status": WorkflowStatus.SUCCESS,
        "evaluation": "",
        "lesson": "",
        "outputs": {},
        "answer": None,
        "ports": None,
        "faults": (),
        "blame": (),
        "unsure": (),
        "score": None,
        "job_id": "",
        "operator_id": "",
        "usage": {
            "calls": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "seconds": 0.0,
            "cost": 0.0,
            "unpriced": 0,
            "cached_tokens": 0,
            "cache_written_tokens": 0,
            "reasoning_tokens": 0,
        },
        "parts": (),
        "item": None,
        "over": None,
    }


def test_messages_do_not_share_their_default_outputs():
    first, second = WorkflowMessage(), WorkflowMessage()
    assert first.outputs is not second.outputs


def test_a_message_survives_the_way_through_json():
    message = WorkflowMessage(
        scratchpad="text",
        status=WorkflowStatus.EXECUTION_ERROR,
        outputs={"count": 3, "names": ["Ada"]},
        blame=("a", "b"),
        usage=Usage(calls=1, seconds=0.5),
        parts=(WorkflowMessage(scratchpad="tail"),),
    )
    assert WorkflowMessage.model_validate_json(message.model_dump_json()) == message


VALUES = [
    (WorkflowMessage(), "scratchpad"),
    (Job(goal="g"), "goal"),
    (SubJob(goal="g"), "parent_id"),
    (Usage(), "calls"),
    (FileDescriptor.of(__file__), "path"),
]


@pytest.mark.parametrize(("value", "field"), VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen(value, field):
    before = value.model_copy(deep=True)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, field, "other")
    assert value == before


@pytest.mark.parametrize(("value", "field"), VALUES, ids=lambda value: type(value).__name__)
def test_an_unknown_field_is_an_error_that_names_it(value, field):
    with pytest.raises(ValidationError) as caught:
        type(value).model_validate(value.model_dump() | {f"{field}s": 1})
    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [((f"{field}s",), "extra_forbidden")]


def test_usages_add_up_field_by_field():
    first = Usage(calls=1, prompt_tokens=20, completion_tokens=300, seconds=0.5)
    second = Usage(calls=4, prompt_tokens=50, completion_tokens=600, seconds=0.25)
    total = Usage(calls=5, prompt_tokens=70, completion_tokens=900, seconds=0.75)
    assert first + second == second + first == total
    assert first + NO_USAGE == first
    assert total.tokens == 970


def test_a_job_with_inputs_needs_no_goal():
    job = Job(inputs={"a": 1})
    assert (job.goal, job.inputs) == ("", {"a": 1})
    assert Job.model_validate_json('{"inputs": {"a": 1}}').goal == ""


def test_a_job_needs_a_goal_and_nothing_else():
    job = Job(goal="g")
    assert job.model_dump(exclude={"id", "session_id"}) == {
        "goal": "g",
        "context": "",
        "assigned_expert_name": None,
        "files": (),
        "inputs": {},
        "turns": (),
        "started_by": "",
    }
    with pytest.raises(ValidationError, match="goal\n  Field required"):
        Job.model_validate({})


@pytest.mark.parametrize("kind", [Job, SubJob])
def test_every_job_gets_an_id_and_a_session_of_its_own(kind):
    jobs = [kind(goal="g") for _ in range(3)]
    ids = {name for job in jobs for name in (job.id, job.session_id)}
    assert len(ids) == 6
    assert all(len(name) == 36 for name in ids)


def test_a_sub_job_is_a_job_with_a_parent_and_a_criterion():
    whole = Job(goal="whole")
    part = SubJob(goal="part", parent_id=whole.id, completion_criteria="it is there")
    assert isinstance(part, Job)
    assert (part.parent_id, part.completion_criteria) == (whole.id, "it is there")
    assert (SubJob(goal="g").parent_id, SubJob(goal="g").completion_criteria) == ("", "")


def test_a_jobs_inputs_are_plain_values():
    assert Job(goal="g", inputs={"tags": ["a", 1, None]}).inputs == {"tags": ["a", 1, None]}
    with pytest.raises(ValidationError):
        Job.model_validate({"goal": "g", "inputs": {"now": object()}})


def test_bytes_among_the_outputs_do_not_keep_a_message_from_becoming_json():
    assert WorkflowMessage(outputs={"raw": b"\xff\x00"}).model_dump(mode="json")["outputs"] == {"raw": "_wA="}


def test_the_message_of_a_text_is_what_validation_makes_of_it():
    class Colour(str, Enum):  # noqa: UP042 - as users write it
        RED = "red"

    for text in ("plain", Colour.RED):
        made = WorkflowMessage.of_text(text, "paint", "job", NO_USAGE)
        expected = WorkflowMessage(scratchpad=text, operator_id="paint", job_id="job", usage=NO_USAGE)
        assert made == expected
        assert (type(made.scratchpad), made.model_fields_set) == (str, expected.model_fields_set)
        assert made.outputs is not WorkflowMessage.of_text(text, "paint", "job", NO_USAGE).outputs
    made = WorkflowMessage.of_text("2", "paint", "job", outputs={"item": 2})
    expected = WorkflowMessage(scratchpad="2", outputs={"item": 2}, operator_id="paint", job_id="job", usage=NO_USAGE)
    assert (made, made.model_fields_set) == (expected, expected.model_fields_set)


def test_the_text_of_a_message_is_its_scratchpad():
    assert WorkflowMessage("Two claims.").text == "Two claims."
    assert "text" not in WorkflowMessage("Two claims.").model_dump()
