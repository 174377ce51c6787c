"""Repairs: what runs again after a verdict, what it is told, and what is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from operad import Evaluator, FaultError, Operator, Workflow, operator, tool
from operad.runtime import (
    Cache,
    DualModelReasoner,
    Expert,
    Fault,
    Job,
    Leader,
    Map,
    Policy,
    Profile,
    RunContext,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel, ScriptedReasoner, run_on_fake_clock

ERROR, INPUT, SUCCESS = WorkflowStatus.EXECUTION_ERROR, WorkflowStatus.INPUT_DATA_ERROR, WorkflowStatus.SUCCESS
NOBODY = ScriptedReasoner([])
JOB = Job("go", id="job")


class Does(BaseOperator[Any]):
    """An operator that answers with its id and how often it was called, or with what it is given to answer in turn."""

    def __init__(self, op_id: str, *answers: Any) -> None:
        self._op_id, self._answers = op_id, answers
        self.calls: list[OperatorCall] = []

    def get_id(self) -> str:
        return self._op_id

    async def run(self, call: OperatorCall) -> Any:
        self.calls.append(call)
        number = len(self.calls)
        said = self._answers[min(number, len(self._answers)) - 1] if self._answers else f"{self._op_id}{number}"
        if isinstance(said, Exception):
            raise said
        return said(call) if callable(said) else said

    @property
    def times(self) -> int:
        return len(self.calls)

    def rejected(self, number: int = -1) -> tuple[str, tuple[Fault, ...]] | None:
        """The rejected answer and its faults, of a call."""
        rejection = self.calls[number].rejection
        return rejection and (rejection.answer.scratchpad, rejection.faults)


class Asks(Does):
    """The same, for an evaluator that asks a model."""

    asks_model = True


def rejected(*blame: str, lesson: str = "better", **fields: Any) -> WorkflowMessage:
    return WorkflowMessage(status=ERROR, evaluation="bad", lesson=lesson, blame=blame, **fields)


def faults(*found: Fault, **fields: Any) -> WorkflowMessage:
    return WorkflowMessage(status=ERROR, evaluation="bad", faults=found, **fields)


FINE = WorkflowMessage(evaluation="good")


def run(workflow: Workflow, job: Job = JOB) -> WorkflowMessage:
    return run_on_fake_clock(workflow.aexecute(job, NOBODY))


def chain(*operators: Any, judge: Any = None, **options: Any) -> tuple[Workflow, list[Any]]:
    """A workflow of operators one after another, and what is heard of its runs."""
    heard: list[Any] = []
    workflow = Workflow(listeners=[heard.append], **options)
    for previous, each in zip([None, *operators], operators, strict=False):
        workflow.add_operator(each, [previous] if previous else [])
    if judge:
        workflow.set_evaluator(judge)
    return workflow, heard


def of_kind(heard: list[Any], kind: type) -> list[tuple[str, int]]:
    return [("/".join(event.path), event.round) for event in heard if isinstance(event, kind)]


# The conversation goes on


def paid_search() -> tuple[list[str], Any]:
    bought: list[str] = []

    @tool
    def buy(doi: str) -> str:
        """Buy a paper."""
        bought.append(doi)
        return "argon, helium, neon"

    return bought, buy


def sourced(answer: str) -> None:
    if "10.1" not in answer:
        raise FaultError("no source", lesson="Name the source.", blame=["research"])


BUY = CallTools({"buy": {"doi": "10.1"}})


def test_a_rejected_operator_goes_on_in_its_conversation_and_calls_its_tools_once() -> None:
    bought, buy = paid_search()
    flow = Workflow(Operator("Answer.", id="research", tools=[buy]), evaluator=sourced)
    with ScriptedModel([BUY, Say("argon"), Say("argon [10.1]")]) as endpoint:
        assert flow.run("What is it?", model=endpoint.model).text == "argon [10.1]"
    assert bought == ["10.1"]
    first, second, third = (request["messages"] for request in endpoint.requests)
    assert third[: len(second)] == second  # so that the vendor's cache serves it
    assert [message["role"] for message in third[len(first) :]] == ["assistant", "tool", "assistant", "user"]
    assert third[-2]["content"] == "argon"
    assert third[-1]["content"] == (
        "Your answer was rejected.\n\nName the source.\n\n"
        "Keep everything else as it is, and give your whole answer again, in the same form."
    )


def test_the_wrong_text_and_the_right_one_are_quoted() -> None:
    wrong = Fault(operator="sums", wrong="174.30", right="149.40", lesson="Six pieces, not seven.")
    judge = Does("judge", faults(wrong), FINE)
    flow = Workflow(Operator("Add.", id="sums"), evaluator=judge)
    with ScriptedModel([Say("174.30"), Say("149.40")]) as endpoint:
        assert flow.run("6 x 24.90", model=endpoint.model).text == "149.40"
    said = endpoint.requests[1]["messages"][-1]["content"]
    assert "Wrong:\n```\n174.30\n```\nRight:\n```\n149.40\n```\nSix pieces, not seven." in said


def test_a_thinker_and_an_actor_go_on_as_well() -> None:
    bought, buy = paid_search()
    flow = Workflow(Operator("Answer.", id="research", tools=[buy]), evaluator=sourced)

    def step(instruction: str, *, finished: bool = False) -> Say:
        return Say(json.dumps({"instruction": instruction, "finished": finished}))

    script = [
        step("Buy 10.1."), BUY, Say("It says argon."), step("Say argon.", finished=True), Say("argon"),
        step("Add the source.", finished=True), Say("argon [10.1]"),
    ]  # fmt: skip
    with ScriptedModel(script) as endpoint:
        result = flow.run("What is it?", model=DualModelReasoner(endpoint.model))
    assert (result.text, bought) == ("argon [10.1]", ["10.1"])
    actor, actor_again = endpoint.requests[4]["messages"], endpoint.requests[6]["messages"]
    assert actor_again[: len(actor)] == actor
    thinker_again = endpoint.requests[5]["messages"]
    assert "Name the source." in str(thinker_again)


def test_with_another_input_an_operator_begins_afresh_and_sees_its_earlier_answer() -> None:
    judge = Does("judge", rejected("facts", "letter"), FINE)
    flow = Workflow(Operator("Facts.", id="facts") >> Operator("Letter.", id="letter"), evaluator=judge)
    with ScriptedModel([Say("1904"), Say("Since 1904."), Say("1907"), Say("Since 1907.")]) as endpoint:
        assert flow.run("Write.", model=endpoint.model).text == "Since 1907."
    _, _, facts, letter = (request["messages"] for request in endpoint.requests)
    assert [message["role"] for message in facts] == ["system", "user", "assistant", "user"]
    assert [message["role"] for message in letter] == ["system", "user"]
    user = letter[-1]["content"]
    assert "1907" in user
    assert "1904" not in user.partition("## Your earlier answer")[0]
    assert "## Your earlier answer\n```\nSince 1904.\n```\n\nYour answer was rejected.\n\nbetter" in user


TOO_LONG = Fail(400, error={"code": "context_length_exceeded"})


def test_a_conversation_that_is_too_long_to_go_on_begins_afresh() -> None:
    with ScriptedModel([Say("argon"), TOO_LONG, Say("argon [10.1]")]) as endpoint:
        result = Workflow(Operator("Answer.", id="research"), evaluator=sourced).run("go", model=endpoint.model)
    assert (result.accepted, result.text, len(endpoint.requests[2]["messages"])) == (True, "argon [10.1]", 2)
    assert "argon" in endpoint.requests[2]["messages"][-1]["content"]


@pytest.mark.slow
def test_an_evaluator_whose_prompt_is_too_long_is_shown_less_and_says_so() -> None:
    heard: list[events.Event] = []
    draft, answer = Operator("Draft.", id="draft"), Operator("Answer.", id="answer")
    flow = Workflow(draft >> answer, evaluator=Evaluator("Right."), max_rounds=1, listeners=[heard.append])
    fine = Say(json.dumps({"evaluation": "", "faults": [], "unsure": [], "status": "SUCCESS", "score": 9}))
    with ScriptedModel([Say("short"), Say("word " * 50_000), TOO_LONG, fine]) as endpoint:
        result = flow.run("go", model=endpoint.model)
    assert result.accepted
    first, second = (len(json.dumps(request)) for request in endpoint.requests[2:])
    assert second < 0.6 * first
    assert [event.operators for event in heard if isinstance(event, events.EvidenceCut)][-1] == ("answer",)


def test_an_operator_that_only_depends_on_a_repaired_one_is_told_of_no_fault() -> None:
    judge = Does("judge", rejected("facts"), FINE)
    facts, letter = Does("facts"), Does("letter")
    run(chain(facts, letter, judge=judge)[0])
    assert (facts.rejected(), letter.rejected()) == (("facts1", (Fault(operator="facts", lesson="better"),)), None)
    assert [call.lesson for call in (facts.calls[1], letter.calls[1])] == ["better", None]
    assert [[m.scratchpad for m in call.messages] for call in letter.calls] == [["facts1"], ["facts2"]]


def test_each_operator_gets_its_own_lessons() -> None:
    of_a, of_b = Fault(operator="a", lesson="Shorter."), Fault(operator="b", lesson="Kinder.")
    a, b, c = Does("a"), Does("b"), Does("c")
    run(chain(a, b, c, judge=Does("judge", faults(of_a, of_b), faults(of_b), FINE))[0])
    assert [call.lesson for call in a.calls[:2]] == [None, "Shorter."]
    assert [call.lesson for call in b.calls] == [None, "Kinder.", "Kinder."]
    assert [call.lesson for call in c.calls] == [None] * c.times


def test_an_operator_that_is_only_suspected_may_repeat_its_answer() -> None:
    judge = Does("judge", rejected(lesson="The year is wrong."), FINE)
    flow = Workflow(Operator("Facts.", id="facts") >> Operator("Letter.", id="letter"), evaluator=judge)
    with ScriptedModel([Say("1904"), Say("Since 1907."), Say("1904"), Say("Since 1904.")]) as endpoint:
        assert flow.run("Write.", model=endpoint.model).text == "Since 1904."
    for request in endpoint.requests[2:]:
        said = request["messages"][-1]["content"]
        assert said.startswith("The result that rests on your answer was rejected")
        assert "The year is wrong." in said
        assert said.endswith("If it is right, repeat it unchanged.")
    assert [len(request["messages"]) for request in endpoint.requests[2:]] == [
        4,
        4,
    ]  # both go on: `facts` said the same


def test_a_rejected_answer_is_not_taken_from_the_cache_again() -> None:
    facts = Operator("Facts.", id="facts", policy=Policy(cache=Cache()))

    def right(facts: str) -> None:
        if facts == "1904":
            raise FaultError("wrong", blame=["facts"])

    with ScriptedModel([Say("1904"), Say("1907")]) as endpoint:
        for _ in range(2):  # the second run takes both answers, the rejected one and the better one, from the cache
            result = Workflow(facts, evaluator=right).run(Job("When?", id="job"), model=endpoint.model)
            assert (result.text, result.rounds) == ("1907", 2)


def test_files_of_the_job_are_in_the_conversation_that_goes_on_once(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Opened in 1907.")
    flow = Workflow(Operator("Facts.", id="facts"), evaluator=Does("judge", rejected("facts"), FINE))
    with ScriptedModel([Say("1904"), Say("1907")]) as endpoint:
        flow.run(Job("When?", files=(file,)), model=endpoint.model)
    assert str(endpoint.requests[1]["messages"]).count("Opened in 1907.") == 1


# Kept operators


def test_an_operator_whose_input_is_the_same_keeps_its_message_and_so_do_those_after_it() -> None:
    a, b, c = Does("a", "same"), Does("b"), Does("c")
    workflow, heard = chain(a, b, c, judge=Does("judge", rejected("a"), FINE))
    assert run(workflow).scratchpad == "c1"
    assert (a.times, b.times, c.times) == (2, 1, 1)
    assert of_kind(heard, events.OperatorKept) == [("b", 2), ("c", 2)]


def test_after_a_repair_that_changed_nothing_a_judge_in_code_is_asked_and_a_model_is_not() -> None:
    for kind, times in ((Does, 2), (Asks, 1)):
        judge = kind("judge", rejected("a"), FINE)
        message = run(chain(Does("a", "same"), judge=judge, max_rounds=2)[0])
        assert (judge.times, message.status) == (times, SUCCESS if times == 2 else ERROR)


def test_one_that_gets_a_value_which_cannot_be_compared_runs_again() -> None:
    a, b = Does("a", lambda call: WorkflowMessage(outputs={"thing": object()})), Does("b")
    run(chain(a, b, judge=Does("judge", rejected("a"), FINE))[0])
    assert b.times == 2


def test_values_that_only_look_alike_are_no_same_input() -> None:
    values = iter([{"n": 1}, {"n": True}])
    a, b = Does("a", lambda call: WorkflowMessage(outputs=next(values))), Does("b")
    run(chain(a, b, judge=Does("judge", rejected("a"), FINE))[0])
    assert b.times == 2


# Items


def body_of(log: Counter[int], wrong: int) -> Callable[..., str]:
    def item(number: int, context: RunContext) -> str:
        log[number] += 1
        return f"{number}!" if number == wrong and not context.lesson else f"{number}"

    return item


def test_one_wrong_item_of_a_hundred_runs_again_alone() -> None:
    log = Counter[int]()
    judge = Does("judge", faults(Fault(operator="each", item=73, wrong="73!", right="73", lesson="No marks.")), FINE)
    flow, heard = chain(Map("each", body_of(log, 73), over=lambda job: range(100)), judge=judge)
    assert run(flow).outputs["items"] == [f"{n}" for n in range(100)]
    assert log == Counter({n: 2 if n == 73 else 1 for n in range(100)})
    kept = [path for path, number in of_kind(heard, events.OperatorKept) if number == 2]
    assert sorted(kept) == sorted(f"each[{n}]" for n in range(100) if n != 73)


def test_each_item_of_a_map_that_is_at_fault_goes_on_from_its_own_answer() -> None:
    body, items = Does("body"), ["a", "a", True, 1, None]
    each = Map("each", body, over="items", concurrency=1)
    run(chain(each, judge=Does("judge", rejected("each"), FINE))[0], Job("go", inputs={"items": items}))
    assert [body.rejected(number) for number in range(5)] == [None] * 5
    assert [body.rejected(number) for number in range(5, 10)] == [
        (f"body{n}", (Fault(operator="body", lesson="better"),)) for n in range(1, 6)
    ]
    assert [call.lesson for call in body.calls[5:]] == ["better"] * 5


def test_items_after_one_that_failed_go_on_from_their_own_answers() -> None:
    body = Does("body", ValueError("odd"), "B", "A", "B again")
    each = Map("each", body, over="items", on_error="skip", concurrency=1)
    job = Job("go", inputs={"items": ["a", "b"]})
    message = run(chain(each, judge=Does("judge", rejected("each"), FINE))[0], job)
    assert [body.rejected(number) and body.rejected(number)[0] for number in range(4)] == [None, None, None, "B"]  # type: ignore[index]
    assert message.outputs["items"] == ["A", "B again"]


def test_a_map_over_another_list_runs_for_all_of_it() -> None:
    source = Does("source", *(WorkflowMessage(outputs={"xs": xs}) for xs in (["a", "b"], ["a", "c"])))
    body = Does("body")
    flow, _ = chain(source, Map("each", body, over="xs", concurrency=1), judge=Does("judge", rejected("source"), FINE))
    assert run(flow).outputs["items"] == ["body3", "body4"]
    assert [call.messages[0].outputs["item"] for call in body.calls] == ["a", "b", "a", "c"]
    assert body.rejected() is None


def test_an_item_that_is_blamed_twice_has_the_operators_before_the_map_suspected() -> None:
    source = Does("source", WorkflowMessage(outputs={"xs": ["a", "b"]}))
    wrong = faults(Fault(operator="each", item=1, lesson="better"))
    each = Map("each", Does("body"), over="xs")
    flow, _ = chain(source, each, judge=Does("judge", wrong, wrong, FINE))
    run(flow)
    assert source.times == 2
    assert source.rejected() == ("", (Fault(operator="source", lesson="better", sure=False),))


# Operators inside


def nested(*inside: Any, name: str = "draft", **options: Any) -> Workflow:
    return chain(*inside, name=name, **options)[0]


def test_an_operator_inside_runs_again_with_what_depends_on_it_and_nothing_else_does() -> None:
    facts, body, end, after = Does("facts"), Does("body"), Does("end"), Does("after")
    before = Does("before")
    wrong = Fault(operator="draft/body", wrong="b", right="B", lesson="Capitals.")
    flow, heard = chain(before, nested(facts, body, end), after, judge=Does("judge", faults(wrong), FINE))
    assert run(flow).scratchpad == "after2"
    assert [each.times for each in (before, facts, body, end, after)] == [1, 1, 2, 2, 2]
    assert body.rejected() == ("body1", (wrong.model_copy(update={"operator": "body"}),))
    assert (end.rejected(), facts.calls[0].rejection) == (None, None)
    assert ("draft/body", 1) in of_kind(heard, events.OperatorStarted)


def test_an_operator_in_an_item_of_a_map_runs_again_alone() -> None:
    log = Counter[str]()

    def find(word: str) -> str:
        log[f"find {word}"] += 1
        return word

    def check(find: str, context: RunContext) -> str:
        log[f"check {find}"] += 1
        return find.upper() if context.lesson else find

    body = Workflow(operator(find) >> operator(check), name="body")
    judge = Does("judge", faults(Fault(operator="each[1]/check", lesson="Capitals.")), FINE)
    flow, _ = chain(Map("each", body, over=lambda job: ["a", "b", "c"]), judge=judge)
    assert run(flow).outputs["items"] == ["a", "B", "c"]
    assert log == {"find a": 1, "find b": 1, "find c": 1, "check a": 1, "check b": 2, "check c": 1}


def test_of_a_nested_workflow_that_is_at_fault_as_a_whole_all_operators_are_suspected() -> None:
    facts, body = Does("facts"), Does("body")
    run(chain(nested(facts, body), judge=Does("judge", rejected("draft"), FINE))[0])
    assert [each.rejected() for each in (facts, body)] == [
        (f"{name}1", (Fault(operator=name, lesson="better", sure=False),)) for name in ("facts", "body")
    ]
    assert [call.lesson for call in (facts.calls[1], body.calls[1])] == ["better"] * 2


def test_the_only_operator_of_a_nested_workflow_that_is_at_fault_is_at_fault() -> None:
    body = Does("body")
    run(chain(nested(body), judge=Does("judge", rejected("draft"), FINE))[0])
    assert body.rejected() == ("body1", (Fault(operator="body", lesson="better"),))


# Blame in vain


def test_the_same_blame_twice_reaches_the_operator_before() -> None:
    extract = Does("extract", "7 pieces", "6 pieces")
    compute = Does("compute", lambda call: call.messages[0].scratchpad.replace(" pieces", " x 24.90"))
    report = Does("report", lambda call: f"Total {call.messages[0].scratchpad}")
    wrong = faults(Fault(operator="compute", wrong="7", right="6"))
    judge = Asks("judge", lambda call: FINE if "6 x" in call.messages[0].scratchpad else wrong)
    flow, heard = chain(extract, compute, report, judge=judge)
    message = run(flow)
    assert (message.status, message.scratchpad) == (SUCCESS, "Total 6 x 24.90")
    assert (extract.times, compute.times, report.times, judge.times) == (2, 3, 2, 2)
    assert extract.rejected() == ("7 pieces", (Fault(operator="extract", wrong="7", right="6", sure=False),))
    again = "an operator after it was at fault again"
    assert [e.repairs for e in heard if isinstance(e, events.RoundFinished)] == [{}, {"extract": again}, {}]


def test_without_blame_the_first_operator_that_was_not_seen_whole_runs_again() -> None:
    class Cut(Asks):
        async def run(self, call: OperatorCall) -> Any:
            events.emit(events.EvidenceCut(operators=("b",), characters=9))
            return await super().run(call)

    a, b, c = Does("a"), Does("b"), Does("c")
    run(chain(a, b, c, judge=Cut("judge", rejected(), FINE))[0])
    assert (a.times, b.times, c.times) == (1, 2, 2)
    assert b.rejected() == ("b1", (Fault(operator="b", lesson="better", sure=False),))


# Rejected nested workflows


def a_draft_that_is_rejected(**options: Any) -> tuple[Workflow, Does, Does]:
    draft, after = Does("text"), Does("after", lambda call: call.messages[0].scratchpad + "!")
    inner = nested(draft, judge=Does("judge", rejected("text")), max_rounds=2, **options)
    return chain(inner, after)[0], draft, after


def test_what_depends_on_a_rejected_workflow_does_not_run() -> None:
    flow, draft, after = a_draft_that_is_rejected()
    message = run(flow)
    assert (message.status, message.scratchpad, message.blame) == (ERROR, "", ("draft/text",))
    assert message.evaluation.startswith("draft: bad")
    assert (draft.times, after.times) == (2, 0)


def test_a_rejected_workflow_may_have_a_value_in_its_place() -> None:
    flow, draft, after = a_draft_that_is_rejected(on_reject=WorkflowMessage(scratchpad="no text"))
    message = run(flow)
    assert (message.status, message.scratchpad) == (SUCCESS, "no text!")
    assert (draft.times, after.times) == (2, 1)


def test_the_result_of_a_rejected_workflow_that_is_the_last_operator_is_the_result() -> None:
    inner = nested(Does("text"), judge=Does("judge", rejected("text")), max_rounds=1)
    message = run(chain(Does("before"), inner)[0])
    assert (message.status, message.scratchpad) == (ERROR, "text1")


def test_independent_operators_end_when_a_workflow_beside_them_is_rejected() -> None:
    inner = nested(Does("text"), judge=Does("judge", rejected("text")), max_rounds=1)
    beside, after = Does("beside"), Does("after")
    flow = Workflow()
    flow.add_operator(inner)
    flow.add_operator(beside)
    flow.add_operator(after, [inner, beside])
    assert run(flow).status is ERROR
    assert (beside.times, after.times) == (1, 0)


def test_a_verdict_inside_that_blames_an_operator_outside_repairs_that_one() -> None:
    facts, text, after = Does("facts", "1904", "1907"), Does("text"), Does("after")
    wrong = Fault(operator="facts", wrong="1904", right="1907", lesson="Ask the notes.")
    inner = nested(text, judge=Does("judge", faults(wrong), FINE))
    flow, heard = chain(facts, inner, after, max_rounds=2)
    message = run(flow)
    assert (message.status, message.scratchpad) == (SUCCESS, "after1")
    assert (facts.times, text.times, after.times) == (2, 2, 1)
    assert facts.rejected() == ("1904", (wrong,))
    assert text.rejected() is None
    inside = [e.status for e in heard if isinstance(e, events.RoundFinished) and e.path == ("draft",)]
    assert inside == [INPUT, SUCCESS]


def test_evaluators_see_what_the_workflow_was_given() -> None:
    judge = Does("judge", FINE)
    run(chain(Does("facts"), nested(Does("text"), judge=judge))[0])
    assert [message.scratchpad for message in judge.calls[0].previous] == ["facts1"]


# Evaluators


def test_a_judge_in_code_comes_first_and_a_model_is_asked_only_if_it_accepts() -> None:
    model, code = Asks("model", FINE), Does("code", rejected("a"), FINE)
    flow, _ = chain(a := Does("a"))
    flow.add_evaluator(model)
    flow.add_evaluator(code)
    assert run(flow).status is SUCCESS
    assert (a.times, code.times, model.times) == (2, 2, 1)


def test_a_model_judge_that_goes_on_gets_its_last_verdict() -> None:
    judge = Asks("judge", rejected("a"), FINE)
    run(chain(Does("a"), judge=judge)[0])
    assert judge.rejected(0) is None
    assert judge.calls[1].rejection is not None
    assert judge.calls[1].rejection.answer.evaluation == "bad"


@pytest.mark.parametrize("status", [ERROR, INPUT])
def test_blame_of_an_earlier_expert_alone_is_an_input_error_whatever_its_status(status: WorkflowStatus) -> None:
    verdict = WorkflowMessage(status=status, lesson="Ask.", blame=("notes",))
    a = Does("a")
    flow, _ = chain(a, judge=Does("judge", verdict))
    earlier = [WorkflowMessage(scratchpad="1904", operator_id="notes")]
    message = run_on_fake_clock(flow.aexecute(JOB, NOBODY, earlier))
    assert (message.status, message.blame, a.times) == (INPUT, ("notes",), 1)


def test_blame_of_an_earlier_expert_and_an_operator_repairs_the_operator() -> None:
    a, b = Does("a"), Does("b")
    flow, _ = chain(a, b, judge=Does("judge", rejected("notes", "b"), FINE))
    earlier = [WorkflowMessage(scratchpad="1904", operator_id="notes")]
    assert run_on_fake_clock(flow.aexecute(JOB, NOBODY, earlier)).status is SUCCESS
    assert (a.times, b.times) == (1, 2)


# Teams


def part(name: str, *needs: str, expert: str) -> dict[str, Any]:
    return {
        "id": name,
        "goal": f"do {name}",
        "context": "",
        "completion_criteria": "",
        "assigned_expert": expert,
        "dependencies": list(needs),
    }


SPLIT = json.dumps({"sub_jobs": [part("research", expert="Researcher"), part("text", "research", expert="Writer")]})


@pytest.mark.parametrize("status", [ERROR, INPUT])
def test_a_team_whose_judge_blames_an_earlier_expert_ends_well_in_two_rounds(status: WorkflowStatus) -> None:
    gather, outline, write = Does("gather"), Does("outline", "1904", "1907"), Does("write")
    wrong = Fault(operator="research", wrong="1904", right="1907", lesson="Ask the notes.")
    judge = Does("judge", WorkflowMessage(status=status, evaluation="The year is wrong.", faults=(wrong,)), FINE)
    team = [
        Expert(Profile(name="Researcher", description="finds"), chain(gather, outline)[0], NOBODY),
        Expert(Profile(name="Writer", description="writes"), chain(write, judge=judge)[0], NOBODY),
    ]
    leader = Leader(Profile(name="Editor"), team, ScriptedReasoner([SPLIT]))
    message = run_on_fake_clock(leader.aexecute(JOB))
    assert (message.status, message.scratchpad) == (SUCCESS, "write2")
    assert [each.times for each in (gather, outline, write, judge)] == [2, 2, 2, 2]
    suspected = wrong.model_copy(update={"sure": False})
    assert gather.rejected() == ("gather1", (suspected.model_copy(update={"operator": "gather"}),))
    assert outline.rejected() == ("1904", (suspected.model_copy(update={"operator": "outline"}),))
    assert outline.calls[1].lesson == "Ask the notes."
    assert write.rejected() is None


def test_a_fault_error_names_what_is_wrong_and_what_is_right() -> None:
    wrong = Fault(operator="a", wrong="1904", right="1907")

    def check(b: str) -> None:
        if b == "b1":
            raise FaultError("The year is wrong.", faults=[wrong])

    a, b = Does("a"), Does("b")
    flow, heard = chain(a, b)
    flow.add_evaluator(check)
    assert run(flow).status is SUCCESS
    assert a.rejected() == ("a1", (wrong,))
    assert [e.faults for e in heard if isinstance(e, events.RoundFinished)] == [(wrong,), ()]


def test_a_fault_error_of_an_operator_passes_its_faults_on() -> None:
    wrong = Fault(operator="a", wrong="1904", right="1907")
    a, b = Does("a"), Does("b", FaultError("The year is wrong.", faults=[wrong]), "fine")
    assert run(chain(a, nested(b), max_rounds=2)[0]).scratchpad == "fine"
    assert a.rejected() == ("a1", (wrong,))


def test_an_operator_that_is_blamed_beside_the_faults_is_told_the_lesson_of_the_verdict() -> None:
    a, b = Does("a"), Does("b")
    verdict = WorkflowMessage(
        status=ERROR, evaluation="bad", faults=(Fault(operator="b", lesson="Kinder."),), blame=("a", "b")
    )
    run(chain(a, b, judge=Does("judge", verdict, FINE))[0])
    assert a.rejected() == ("a1", (Fault(operator="a", lesson="Kinder."),))
    assert b.rejected() == ("b1", (Fault(operator="b", lesson="Kinder."),))
