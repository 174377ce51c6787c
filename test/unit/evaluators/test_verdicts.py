"""Verdicts with faults: how they are read, when a judge is asked again, and how it goes on in later rounds."""

from __future__ import annotations

import json
import logging

import pytest
from loose_reasoner import LooseReasoner

from operad import Evaluator, Job, Model, Operator, Workflow, operator
from operad.evaluators.evaluator import VerdictForm, VerdictReader, verdict_of
from operad.runtime import MonoModelReasoner, StepRecord, WorkflowMessage, WorkflowStatus
from operad.runtime.graph.call import OperatorCall
from operad.runtime.models.messages import Message
from operad.runtime.reasoning.exchange import Exchange, Rejection
from operad.runtime.reasoning.prompt import render
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.fault import Fault

ERROR, SUCCESS = WorkflowStatus.EXECUTION_ERROR, WorkflowStatus.SUCCESS


def fault(operator: str, **fields) -> dict:
    return {"wrong": "7 pieces", "right": "6", "operator": operator, "sure": True, "lesson": "Read again.", **fields}


def verdict(*faults: dict, **fields) -> str:
    status = "EXECUTION_ERROR" if faults else "SUCCESS"
    return json.dumps({"evaluation": "e", "faults": faults, "unsure": [], "status": status, "score": 5, **fields})


def record(place: str, text: str = "text", **fields) -> StepRecord:
    return StepRecord(operator_id=place, message=WorkflowMessage(text, operator_id=place), **fields)


def map_record(place: str = "sums") -> StepRecord:
    parts = (WorkflowMessage("first", item="a"), WorkflowMessage("second", item="b"))
    return StepRecord(operator_id=place, message=WorkflowMessage("x", parts=parts, operator_id=place))


def reads(said: str, *steps: StepRecord, earlier=()) -> WorkflowMessage:
    form = VerdictForm.of(steps, (), earlier)
    return verdict_of(VerdictReader(form).read(said), form)


async def judged(*answers: str, steps=(), previous=(), **fields):
    """Return the verdict and the tasks of a judge that is given these answers."""
    messages = (steps[-1].message,) if steps else (WorkflowMessage("text", operator_id="a"),)
    with LooseReasoner(answers) as reasoner:
        call = OperatorCall(reasoner, Job("Do it."), messages, tuple(previous), transcript=tuple(steps), **fields)
        return await Evaluator("Right.", id="judge").run(call), reasoner.tasks


STEPS = (record("extract", "7 pieces"), record("report", "174.30"))


async def test_the_faults_of_a_verdict_give_its_blame_and_its_lesson():
    message, [task] = await judged(verdict(fault("extract"), fault("report", lesson="", right="149.40")), steps=STEPS)
    assert message.faults == (
        Fault(operator="extract", wrong="7 pieces", right="6", lesson="Read again."),
        Fault(operator="report", wrong="7 pieces", right="149.40"),
    )
    assert (message.blame, message.lesson) == (("extract", "report"), "Read again.\n149.40")
    assert (message.status, message.evaluation, message.score) == (ERROR, "e", 5)
    assert "item" not in task.output_schema.schema["properties"]["faults"]["items"]["properties"]


@pytest.mark.parametrize(
    ("operator", "item", "place"),
    [
        ("sums", 1, "sums[1]"),
        ("sums", None, "sums"),
        ("sums", -1, "sums"),
        ("sums[]/check", 1, "sums[1]/check"),
        ("sums[]/check", None, "sums"),
        ("extract", 1, "extract"),
        ("draft/body", None, "draft/body"),
    ],
)
def test_an_item_of_a_map_and_an_operator_inside_of_others_can_be_at_fault(operator, item, place):
    steps = [
        record("extract"),
        map_record(),
        *(record(f"sums[{index}]/check") for index in range(2)),
        record("draft/body"),
        record("draft"),
    ]
    message = reads(verdict(fault(operator, item=item)), *steps)
    assert message.blame == (place,)


def test_the_schema_of_a_map_of_many_items_stays_small():
    steps = [map_record(), *(record(f"sums[{index}]") for index in range(100))]
    steps += [record(f"sums[{index}]/check") for index in range(100)]
    assert VerdictForm.of(steps, (), ()).operators == ("sums", "sums[]/check")


def test_an_operator_that_did_not_run_cannot_be_at_fault():
    assert VerdictForm.of([record("a"), record("b", skipped="another branch")], (), ()).operators == ("a",)


CONTRADICTIONS = {
    verdict(fault("extract"), status="SUCCESS"): "`status` is SUCCESS, but `faults` names extract",
    verdict(status="EXECUTION_ERROR"): "`status` is EXECUTION_ERROR, but `faults` is empty",
    verdict(fault("extract"), status="INPUT_DATA_ERROR"): "`faults` names extract and not an earlier expert",
    verdict(fault("extractor")): "'extractor' is not one of ['extract', 'report']",
}


@pytest.mark.parametrize(("said", "objection"), CONTRADICTIONS.items())
async def test_a_verdict_that_contradicts_itself_is_asked_about_once(said, objection):
    message, tasks = await judged(said, verdict(fault("report")), steps=STEPS)
    assert objection in tasks[1].lesson
    assert (message.blame, len(tasks)) == (("report",), 2)


@pytest.mark.parametrize(
    ("said", "status", "blame"),
    [
        (verdict(status="EXECUTION_ERROR"), ERROR, ()),
        (verdict(fault("extractor")), ERROR, ("extractor",)),
        (verdict(fault("extract"), status="INPUT_DATA_ERROR"), WorkflowStatus.INPUT_DATA_ERROR, ("extract",)),
    ],
)
async def test_a_judge_that_insists_is_believed(said, status, blame):
    message, tasks = await judged(said, said, steps=STEPS)
    assert (message.status, message.blame, len(tasks)) == (status, blame, 2)


async def test_faults_of_a_result_that_a_judge_insists_to_accept_are_not_verified():
    said = verdict(fault("extract"), status="SUCCESS")
    message, _ = await judged(said, said, steps=STEPS)
    assert (message.status, message.faults, message.blame, message.lesson) == (SUCCESS, (), (), "")
    assert message.unsure == ("extract: 7 pieces",)


async def test_a_model_is_asked_about_a_contradiction_in_the_same_conversation():
    with ScriptedModel([Say(verdict(status="EXECUTION_ERROR")), Say(verdict(fault("extract")))]) as endpoint:
        call = OperatorCall(MonoModelReasoner(endpoint.model), Job("Do it."), (STEPS[-1].message,), transcript=STEPS)
        message = await Evaluator("Right.", id="judge").run(call)
    assert message.blame == ("extract",)
    first, second = [request["messages"] for request in endpoint.requests]
    assert second[: len(first)] == first
    assert "but `faults` is empty. Walk the operators" in json.dumps(second[len(first) :])


async def test_if_the_model_may_not_be_asked_again_a_contradictory_verdict_counts():
    with ScriptedModel([Say(verdict(status="EXECUTION_ERROR"))]) as endpoint:
        reasoner = MonoModelReasoner(endpoint.model, max_repairs=0)
        call = OperatorCall(reasoner, Job("Do it."), (STEPS[-1].message,), transcript=STEPS)
        message = await Evaluator("Right.", id="judge").run(call)
    assert (message.status, message.blame) == (ERROR, ())


async def test_an_earlier_expert_at_fault_is_wrong_input():
    said = verdict(fault("reader"), status="INPUT_DATA_ERROR")
    message, tasks = await judged(said, steps=STEPS, previous=[WorkflowMessage("1904", operator_id="reader")])
    assert (message.status, message.blame, len(tasks)) == (WorkflowStatus.INPUT_DATA_ERROR, ("reader",), 1)


async def test_what_cannot_be_verified_is_in_the_evaluation_in_the_message_and_in_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        message, _ = await judged(verdict(unsure=["the price of the hotel: no tool was called"]), steps=STEPS)
    assert (message.status, message.unsure) == (SUCCESS, ("the price of the hotel: no tool was called",))
    assert message.evaluation == "e\nNot verified: the price of the hotel: no tool was called"
    assert "evaluator 'judge' could not verify: the price of the hotel: no tool was called" in caplog.text


async def test_answers_with_blame_and_lesson_in_place_of_faults_are_read():
    old = {"evaluation": "e", "status": "EXECUTION_ERROR", "lesson": "Six.", "blame": ["extract"], "score": 2}
    message, tasks = await judged(json.dumps(old), steps=STEPS)
    assert (message.blame, message.lesson, message.faults, len(tasks)) == (("extract",), "Six.", (), 1)
    message, tasks = await judged(json.dumps({**old, "blame": []}), steps=STEPS)
    assert (message.status, message.blame, len(tasks)) == (ERROR, (), 1)


# Later rounds

LAST = WorkflowMessage(
    status=ERROR,
    evaluation="The total is wrong.",
    faults=(Fault(operator="extract", wrong="7 pieces", right="6 pieces", lesson="Read again."),),
)
CHANGED = (record("extract", "6 pieces", changed=True), record("check", "ok"), record("report", "149.40", changed=True))


async def test_in_a_later_round_a_judge_without_its_conversation_sees_its_last_verdict_and_what_changed():
    _, [task] = await judged(verdict(), steps=CHANGED, rejection=Rejection(answer=LAST))
    body = render(task)[-1].text
    assert body.partition("## Your last verdict\n")[2].startswith(
        "```\nEXECUTION_ERROR. The total is wrong.\n"
        "- extract: wrong: 7 pieces; right: 6 pieces; lesson: Read again.\n```\n"
        "Since your last verdict, these operators have run again and have another result: extract, report."
    )
    assert "### Result of check" in body
    assert task.followup == ""


async def test_in_a_later_round_a_judge_goes_on_in_its_conversation_with_the_changed_results_alone():
    opening = (Message.system("Judge what the operators produced."), Message.user("## Job\nDo it."))
    exchange = Exchange(messages=(*opening, Message.assistant(verdict(fault("extract")))))
    seen = []

    class Talks(MonoModelReasoner):
        async def infer(self, task):
            seen.append(task)
            return verdict()

    call = OperatorCall(
        Talks(Model(name="any", base_url="http://localhost:1")),
        Job("Do it."),
        (CHANGED[-1].message,),
        transcript=CHANGED,
        rejection=Rejection(answer=LAST, exchange=exchange),
    )
    message = await Evaluator("Right.", id="judge").run(call)
    [task] = seen
    assert message.status is SUCCESS
    assert task.rejection == call.rejection
    assert task.rejection.exchange is exchange
    assert task.followup.startswith(
        "Since your last verdict, these operators have run again and have another result: extract, report. "
        "Everything else is as before.\n\n### extract\nResult:\n```\n6 pieces\n```\n\n### report\nResult:\n```\n149.40\n```"
    )
    assert "check" not in task.followup.partition("Judge the whole")[0]


# The result first, then the transcript

LONG = "The work of the operator. " * 200


def asked(flow: Workflow, *verdicts: str):
    """Return the result of a workflow whose judge gives these verdicts, and the judge's requests."""
    requests, left = [], [*verdicts]

    def step(request):
        texts = "\n".join(str(message["content"]) for message in request["messages"])
        if "Judge what" not in texts:
            return Say(LONG if "Draft." in texts else "short")
        requests.append(texts)
        return Say(left.pop(0))

    with ScriptedModel(step) as endpoint:
        result = flow.run("Go.", model=endpoint.model)
    assert not left
    return result, requests


def long_flow() -> Workflow:
    chain = Operator("Draft.", id="draft") >> Operator("Sum up.", id="sum")
    return Workflow(chain, evaluator=Evaluator("Right.", id="judge"), max_rounds=1)


def test_with_a_long_transcript_a_right_result_is_judged_without_it():
    result, [only] = asked(long_flow(), verdict())
    assert result.status is SUCCESS
    assert LONG[:100] not in only
    assert "short" in only


@pytest.mark.parametrize("doubt", [verdict(status="EXECUTION_ERROR"), verdict(unsure=["the price"])])
def test_if_something_is_wrong_or_not_verified_the_transcript_follows(doubt):
    result, [first, second] = asked(long_flow(), doubt, verdict(fault("draft")))
    assert LONG[:100] not in first
    assert LONG[:100] in second
    assert (result.status, result.message.blame) == (ERROR, ("draft",))


def test_the_results_of_functions_are_evidence_that_is_shown_at_first():
    def table() -> str:
        return "North 184,200"

    flow = Workflow(
        operator(table) >> Operator("Draft.", id="draft") >> Operator("Sum up.", id="sum"),
        evaluator=Evaluator("Right."),
    )
    _, [only] = asked(flow, verdict())
    assert "### table\nResult:\n```\nNorth 184,200\n```" in only
    assert "### draft" not in only


def test_a_short_transcript_is_shown_at_once():
    flow = Workflow(Operator("Write.", id="write") >> Operator("Sum up.", id="sum"), evaluator=Evaluator("Right."))
    _, [only] = asked(flow, verdict())
    assert "### write" in only
