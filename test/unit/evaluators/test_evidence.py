"""What a judge is shown of the work of the operators, and what it is told if something is left out."""

from __future__ import annotations

import json
import logging

import pytest

from operad import Documents, Evaluator, Job, Operator, Workflow, events, tool
from operad.runtime import StepRecord, Task, WorkflowMessage
from operad.runtime.events import EvidenceCut
from operad.runtime.models.messages import Message
from operad.runtime.reasoning.evidence import evidence, in_order, judge_again, prompt_budget
from operad.runtime.reasoning.exchange import Exchange
from operad.runtime.reasoning.prompt import render
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.step_record import ToolUse
from operad.runtime.workflow.map import ItemError

RIGHT = json.dumps({"evaluation": "fine", "faults": [], "unsure": [], "status": "SUCCESS", "score": 9})

UNSURE = RIGHT.replace('"unsure": []', '"unsure": ["the draft"]')


@tool
def offers(article: str) -> str:
    """Look offers up."""
    firms = [
        f"{name}: {3 + index / 100:.2f} EUR a piece, {5 + index} days" for index, name in enumerate("ABCDEFGHIJKLM")
    ]
    return "; ".join([*firms, "Kade: 2.91 EUR a piece, 8 days"])


def judged_prompt(flow: Workflow, say, job: str | Job = "Order hinges.", *, first: str = RIGHT, **model) -> str:
    """Return the last prompt of a workflow's judge, whose first verdict is `first`."""
    prompts = list[str]()

    def step(request):
        opening, last = request["messages"][0]["content"], request["messages"][-1]
        if "Judge what" in opening or "Judge what" in str(last["content"]):
            prompts.append(f"{opening}\n{last['content']}")
            return Say(RIGHT if len(prompts) > 1 else first)
        return say(opening, last)

    with ScriptedModel(step) as endpoint:
        flow.run(job, model=endpoint.model.model_copy(update=model))
    return prompts[-1]


def shown(*steps: StepRecord, judged=(), budget=10_000) -> str:
    return evidence(steps, judged, budget).operators


def step(place: str, text: str = "", **fields) -> StepRecord:
    return StepRecord(operator_id=place, message=WorkflowMessage(text, operator_id=place), **fields)


def test_a_long_tool_result_is_in_the_prompt_with_the_arguments_of_the_call():
    look = Operator("Look up the offers.", id="look", tools=[offers])

    def say(first, last):
        if first.startswith("Look") and last["role"] != "tool":
            return CallTools([("offers", {"article": "hinge"})])
        return Say("Kade: 2.81 EUR, 8 days")

    prompt = judged_prompt(Workflow(look >> Operator("Order.", id="order"), evaluator=Evaluator("Looked up.")), say)
    assert 'Tool calls (all):\n```\noffers({"article": "hinge"}): A: 3.00 EUR a piece' in prompt
    assert "Kade: 2.91 EUR a piece, 8 days" in prompt
    assert "Kade: 2.81 EUR, 8 days" in prompt


def test_the_passages_that_an_operator_was_given_are_in_the_prompt_with_their_sources(tmp_path):
    (tmp_path / "pump.md").write_text("# Service\nReplace the seal of the pump every 6,000 hours.\n", encoding="utf-8")
    look = Operator("Answer from the passages.", id="look", knowledge_base=Documents(tmp_path))
    flow = Workflow(look >> Operator("Write the mail.", id="mail"), evaluator=Evaluator("All is in the passages."))
    prompt = judged_prompt(flow, lambda first, last: Say("Every 8,000 hours."), "When is the seal of the pump due?")
    given = prompt.partition("Passages that it was given:\n```\n")[2].partition("```")[0]
    assert given.partition("]")[0].endswith("pump.md:2 Service")
    assert "every 6,000 hours" in given


def test_the_branch_that_a_router_took_and_the_operators_that_did_not_run_are_shown():
    router = StepRecord(
        operator_id="classify",
        instruction="Choose the team.",
        message=WorkflowMessage("They ask for a refund.", ports=("billing",)),
    )
    skipped = StepRecord(
        operator_id="tech", instruction="Help.", before=("classify",), skipped="'classify' took another branch"
    )
    assert shown(router, skipped) == (
        "### classify\nInstruction:\n```\nChoose the team.\n```\nBranch taken: billing\n"
        "Result:\n```\nThey ask for a refund.\n```\n\n"
        "### tech (after classify)\nInstruction:\n```\nHelp.\n```\nDid not run: 'classify' took another branch"
    )


def test_a_router_that_gives_no_reason_has_its_branch_once():
    router = StepRecord(operator_id="classify", message=WorkflowMessage("billing", ports=("billing",)))
    assert shown(router) == "### classify\nBranch taken: billing"


@pytest.mark.parametrize(
    ("calls", "missing", "said"),
    [
        ((), "", "Tool calls: none"),
        ((), "the result is from the cache", "Tool calls: unknown (the result is from the cache)"),
        ((ToolUse(tool="look", result="3"),), "", "Tool calls (all):\n```\nlook(): 3\n```"),
        ((ToolUse(tool="look", result="3"),), "too many", "Tool calls (incomplete: too many):\n```\nlook(): 3\n```"),
        ((ToolUse(tool="look", result="no", failed=True),), "", "Tool calls (all):\n```\nlook() failed: no\n```"),
    ],
)
def test_it_is_said_whether_a_list_of_tool_calls_is_complete(calls, missing, said):
    assert shown(step("a", tool_calls=calls, calls_missing=missing)) == f"### a\n{said}"


def map_of(*texts: str, place: str = "sums", **outputs) -> WorkflowMessage:
    parts = tuple(WorkflowMessage(text, item=f"paper {index}") for index, text in enumerate(texts))
    return WorkflowMessage(
        "\n\n".join(texts), outputs=outputs or {"items": list(texts)}, parts=parts, operator_id=place
    )


def test_each_item_of_a_map_is_shown_once_by_its_place_with_what_its_operators_did():
    message = map_of("first", "second")
    text = shown(
        StepRecord(operator_id="sums", instruction="For each item: Sum up.", message=message, tool_calls=()),
        step("sums[0]", "first", instruction="Sum up.", tool_calls=()),
        step("sums[1]", "second", instruction="Sum up.", tool_calls=(ToolUse(tool="look", result="3"),)),
    )
    assert text == (
        "### sums\nInstruction:\n```\nFor each item: Sum up.\n```\nResult:\n```\nItem sums[0]: paper 0\nResult: first\n\n"
        "Item sums[1]: paper 1\nResult: second\n```\n\n"
        "### sums[0]\nTool calls: none\nResult: shown in that of sums\n\n"
        "### sums[1]\nTool calls (all):\n```\nlook(): 3\n```\nResult: shown in that of sums"
    )


def test_items_whose_operator_has_neither_tools_nor_passages_have_no_section_of_their_own():
    steps = [StepRecord(operator_id="sums", message=map_of("first", "second")), step("sums[0]", "first")]
    assert "### sums[0]" not in shown(*steps)
    assert "### sums[0]" not in shown(*steps, judged=[map_of("first", "second")])


def test_of_operators_inside_of_items_the_instruction_is_shown_for_the_first_item_alone():
    inner = [step(f"sums[{index}]/check", f"checked {index}", instruction="Check it.") for index in range(3)]
    text = shown(StepRecord(operator_id="sums", message=map_of("a", "b", "c")), *inner)
    assert text.count("Check it.") == 1
    assert [f"### sums[{index}]/check" in text and f"checked {index}" in text for index in range(3)] == [True] * 3


def test_an_item_that_failed_is_shown_and_the_others_keep_their_places():
    failed = ItemError(index=0, error="timed out", kind="TimeoutError")
    message = map_of("second", items=[failed, "second"])
    assert "Item sums[0] failed: timed out\n\nItem sums[1]: paper 0\nResult: second" in shown(
        StepRecord(operator_id="sums", message=message)
    )


def test_a_long_text_that_an_operator_only_passed_on_is_shown_once():
    long = "The ad for the bicycle. " * 10
    text = shown(
        step("draft/body", long, instruction="Write."), step("draft", long), step("final", long, instruction="Polish.")
    )
    assert text.count(long.strip()) == 1
    assert text.count("Result: the same text as that of draft/body") == 2


def test_a_nested_workflow_names_the_operators_that_it_consists_of():
    text = shown(step("draft", "text", before=("brief",)), step("draft/hook", "Hook."), step("draft/body", "text"))
    assert "### draft (after brief; consists of draft/hook, draft/body)\n" in text
    assert "### draft/hook\n" in text


def test_operators_are_shown_after_their_predecessors_in_whatever_order_they_were_added():
    steps = [
        step("sql", before=("pick",)),
        step("sql/try", before=("pick",)),
        step("run", before=("sql",)),
        step("pick"),
    ]
    assert [each.operator_id for each in in_order(steps)] == ["pick", "sql", "sql/try", "run"]


def test_the_result_to_judge_is_not_shown_again():
    long = "The ad for the bicycle. " * 10
    mail = WorkflowMessage(long, operator_id="mail")
    known = evidence(
        [step("draft", long, instruction="Write."), step("mail", long, instruction="Send.")], [mail], 9_999
    )
    assert known.results == (long,)
    assert known.operators == (
        "### draft\nInstruction:\n```\nWrite.\n```\nResult: the same text as that of mail\n\n"
        "### mail\nInstruction:\n```\nSend.\n```\nResult: shown above"
    )


def test_what_does_not_fit_is_cut_fairly_and_said_at_its_place():
    uses = (ToolUse(tool="look", arguments="{}", result="t" * 500),)
    known = evidence(
        [step("a", "short", tool_calls=uses), step("b", "r" * 700), step("c", passages=(("f.md", "p" * 600),))], [], 305
    )
    assert known.cut == ("a", "b", "c")
    assert known.characters == 500 + 700 + 600 - 3 * 99
    for letter, rest in [("t", 401), ("r", 601), ("p", 501)]:
        assert f"{letter * 99}\n[… cut: {rest} more characters]" in known.operators
        assert letter * 100 not in known.operators


def test_if_the_window_of_the_model_is_too_small_an_event_and_the_log_say_what_the_judge_does_not_see(caplog):
    seen = list[events.Event]()
    flow = Workflow(
        Operator("Draft.", id="draft") >> Operator("Cut.", id="cut"),
        evaluator=Evaluator("Short."),
        listeners=[seen.append],
    )
    with caplog.at_level(logging.WARNING):
        prompt = judged_prompt(
            flow,
            lambda first, last: Say("x" * 100_000 if first.startswith("Draft") else "ok"),
            first=UNSURE,
            name="grok-2-vision",
        )
    [cut] = [event for event in seen if isinstance(event, EvidenceCut)]
    assert cut.operators == ("draft",)
    assert 26_000 < cut.characters < 35_000
    assert f"{cut.characters:,} more characters]" in prompt
    assert f"shown only a part of the work of draft: {cut.characters:,} characters" in caplog.text
    assert len(prompt) < prompt_budget(32_768) + 500


def test_of_chinese_texts_a_third_of_the_characters_fits():
    assert evidence([step("a", "x" * 900)], (), 900).characters == 0
    assert evidence([step("a", "译" * 900)], (), 900).characters == 600


def test_without_a_known_window_two_hundred_thousand_characters_are_shown():
    assert prompt_budget(None) == 200_000
    assert prompt_budget(1_000_000) == 2_250_000


# Later verdicts


def changed(record: StepRecord) -> StepRecord:
    return record.model_copy(update={"changed": True})


def again(before: list[StepRecord], after: list[StepRecord]) -> str:
    """Return what a judge is told for its next verdict."""
    opening = Message.user(f"## Operators\n{evidence(before, (), 10_000).operators}")
    return judge_again(after, Exchange(messages=(opening, Message.assistant("{}"))), 10_000).operators


def test_in_a_later_round_only_the_items_that_changed_are_shown():
    told = again(
        [StepRecord(operator_id="sums", message=map_of("first", "second 2", "third"))],
        [changed(StepRecord(operator_id="sums", instruction="Sum up.", message=map_of("first", "second", "third")))],
    )
    assert told.startswith(
        "Since your last verdict, these operators have run again and have another result: sums. Everything else is as "
        "before.\n\n### sums\nResult:\n```\nItem sums[1]: paper 1\nResult: second\n\nThe other items are as before.\n```\n\n"
    )


def test_in_a_later_round_operators_inside_of_others_are_shown_if_their_result_changed():
    before = [step("draft/body", "OK"), step("draft/bodyguard", "OK"), step("draft/hook", "OK", before=("draft/body",))]
    after = [step("draft/body", "OK"), step("draft/bodyguard", "better"), step("draft/hook", "OK 2")]
    told = again(before, [changed(each) for each in after])
    assert "another result: draft/bodyguard, draft/hook. Everything" in told
    assert "### draft/body\n" not in told


def test_a_result_that_is_again_what_it_was_two_rounds_ago_is_shown():
    record = StepRecord(operator_id="sums", message=map_of("first", "second"))
    opening = Message.user(evidence([record], (), 10_000).operators)
    later = StepRecord(operator_id="sums", message=map_of("first", "worse"))
    news = Message.user(evidence([later], (), 10_000).operators)
    exchange = Exchange(messages=(opening, Message.assistant("{}"), news, Message.assistant("{}")))
    assert "Result: second" in judge_again([changed(record)], exchange, 10_000).operators


def test_if_nothing_changed_the_judge_is_told_so():
    told = again([step("a", "text")], [step("a", "text")])
    assert told.startswith("Since your last verdict, no result has changed. Everything else is as before.\n\nJudge the")


# Stable beginnings


def prompts_of(context: str, *, instruction=("Sort them.", "Check them.")):
    tasks = [
        Task(
            job=Job("Write the notes.", context=context),
            instruction=each,
            workflow_messages=(WorkflowMessage("the facts", operator_id="facts"),),
        )
        for each in instruction
    ]
    return [[message.text for message in render(task)] for task in tasks]


def test_operators_with_a_long_job_have_prompts_with_the_same_beginning():
    first, second = prompts_of("line\n" * 1_000)
    assert first[0] == second[0]
    assert first[1].partition("## Instruction")[0] == second[1].partition("## Instruction")[0]
    assert "line\nline" in first[1].partition("## Instruction")[0]
    assert [first[1].endswith("## Instruction\nSort them."), second[1].endswith("## Instruction\nCheck them.")] == [
        True,
        True,
    ]


def test_with_a_short_job_the_instruction_is_the_system_message():
    first, second = prompts_of("line\n" * 10)
    assert first[0].startswith("Sort them.")
    assert second[0].startswith("Check them.")
    assert first[1] == second[1]


def test_the_judge_of_a_long_job_shares_the_beginning_of_the_operators():
    job = Job("Write the notes.", context="line\n" * 1_000)
    operator = render(Task(job=job, instruction="Sort them."))
    records = (step("sort", "sorted", instruction="Sort them."),)
    judge = render(Task(job=job, instruction="Judge.", transcript=records, workflow_messages=(records[0].message,)))
    assert operator[0].text == judge[0].text
    shared = operator[1].text.partition("## Instruction")[0]
    assert len(shared) > 5_000
    assert judge[1].text.startswith(shared)
    assert judge[1].text.endswith("## Instruction\nJudge.")
