"""Checks of an operator's own answers, at once and in the same conversation."""

import json

import pytest
from pydantic import BaseModel

from operad import (
    DualModelReasoner,
    Evaluator,
    Fault,
    FaultError,
    InputError,
    Operator,
    OperatorConfig,
    OperatorError,
    Policy,
    Task,
    Workflow,
    events,
    operator,
    tool,
)
from operad.runtime import AnswerError
from operad.runtime.reasoning.exchange import rejection_text
from operad.testing import CallTools, Say, ScriptedModel, ScriptedReasoner


def brief(answer: str) -> str | None:
    return None if len(answer) < 6 else "at most five letters"


class Bill(BaseModel):
    items: list[int]
    total: int


def decided(meets, wrong="", right=""):
    return Say(json.dumps({"wrong": wrong, "right": right, "meets": meets}))


def run(step, *said, **options):
    """The result, and the requests."""
    with ScriptedModel(list(said)) as endpoint:
        return Workflow(step).run("Which gas?", model=endpoint.model, **options), endpoint.requests


def texts(request):
    return [(message["role"], message.get("content")) for message in request["messages"]]


def test_an_answer_that_passes_its_check_is_asked_for_once():
    result, requests = run(Operator("Answer.", check=brief), Say("argon"))
    assert (result.text, len(requests)) == ("argon", 1)


def test_a_fault_is_mended_in_the_same_conversation_and_tools_are_not_called_again():
    bought = []

    @tool
    def buy(doi: str) -> str:
        """Buy a paper."""
        bought.append(doi)
        return "argon, helium"

    step = Operator("Answer.", check=brief, tools=[buy])
    result, requests = run(step, CallTools({"buy": {"doi": "10.1"}}), Say("argon gas"), Say("argon"))
    assert (result.text, bought, len(requests)) == ("argon", ["10.1"], 3)
    told = rejection_text([Fault(operator="answer", lesson="at most five letters")])
    assert texts(requests[2])[2:] == [
        ("assistant", ""),
        ("tool", "argon, helium"),
        ("assistant", "argon gas"),
        ("user", told),
    ]


def test_a_function_is_given_the_answer_as_an_instance_of_its_type():
    seen = []

    def adds_up(bill: Bill) -> None:
        seen.append(bill)
        if sum(bill.items) != bill.total:
            raise ValueError(f"the items are {sum(bill.items)}, not {bill.total}")

    step = Operator("Read.", output=Bill, check=adds_up)
    wrong, right = '{"items": [1, 2], "total": 4}', '{"items": [1, 2], "total": 3}'
    result, requests = run(step, Say(wrong), Say(right))
    assert result.output == Bill(items=[1, 2], total=3)
    assert seen == [Bill(items=[1, 2], total=4), result.output]
    assert "the items are 3, not 4" in texts(requests[1])[-1][1]


async def slow(answer):
    return "too long"


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        (lambda answer: "too long", "too long"),
        (slow, "too long"),
        (lambda answer: Fault(operator="x", lesson="too long"), "too long"),
        (lambda answer: False, "The answer does not pass the check <lambda>."),
        (lambda answer: int(answer), "invalid literal for int() with base 10: 'argon'"),
    ],
)
def test_what_a_function_returns_or_raises_is_the_fault(check, fault):
    with pytest.raises(OperatorError, match="none of 3 answers passed its check; the last was 'argon'") as caught:
        run(Operator("Answer.", id="gas", check=check), *[Say("argon")] * 3)
    assert str(caught.value).endswith(fault)
    assert isinstance(caught.value.__cause__, AnswerError)


@pytest.mark.parametrize("passed", [None, True, ""])
def test_a_function_that_returns_none_true_or_no_text_finds_no_fault(passed):
    assert run(Operator("Answer.", check=lambda answer: passed), Say("argon"))[0].text == "argon"


def test_the_text_and_the_lesson_of_a_fault_error_are_both_told():
    def check(answer):
        if answer == "argon":
            raise FaultError("no number", lesson="Give it in litres.")

    _, requests = run(Operator("Answer.", check=check), Say("argon"), Say("3 litres"))
    assert "no number\nGive it in litres." in texts(requests[1])[-1][1]


def test_a_fault_error_that_blames_an_earlier_operator_starts_a_round_with_that_operator():
    asked = []

    @operator
    def look() -> str:
        asked.append("look")
        return f"look {len(asked)}"

    def check(answer):
        if len(asked) < 2:
            raise FaultError("too few facts", blame=["look"])

    flow = Workflow(look >> Operator("Answer.", check=check), max_rounds=2)
    result = flow.run("x", ScriptedReasoner("argon"))
    assert (result.rounds, asked, result.text) == (2, ["look", "look"], "argon")


def test_what_a_function_may_not_return_is_an_error_that_says_what_it_should():
    with pytest.raises(OperatorError, match=r"returned \['x'\].*expected None or True if the answer is right"):
        run(Operator("Answer.", check=lambda answer: ["x"]), Say("argon"))


def test_other_errors_of_a_function_are_those_of_the_operator():
    def check(answer):
        raise KeyError("prices")

    with pytest.raises(OperatorError, match="KeyError: 'prices'"):
        run(Operator("Answer.", check=check), Say("argon"))


def test_a_criterion_in_words_is_decided_in_a_copy_of_the_conversation():
    step = Operator("Answer.", check="It names its source.")
    said = Say("argon"), decided(False, "argon", "argon [10.1]"), Say("argon [10.1]"), decided(True)
    result, requests = run(step, *said)
    assert (result.text, len(requests), result.usage.calls) == ("argon [10.1]", 4, 4)
    assert texts(requests[1])[-2] == ("assistant", "argon")
    assert "It names its source." in texts(requests[1])[-1][1]
    lesson = "The answer must meet this criterion: It names its source."
    fault = Fault(operator="answer", wrong="argon", right="argon [10.1]", lesson=lesson)
    assert texts(requests[2])[-2:] == [("assistant", "argon"), ("user", rejection_text([fault]))]
    assert not any("Decide whether" in str(text) for _, text in texts(requests[2]))


def test_the_tools_are_described_but_not_called_when_a_criterion_is_decided():
    @tool
    def look(what: str) -> str:
        """Look it up."""
        return "argon"

    step = Operator("Answer.", check="It names its source.", tools=[look])
    _, requests = run(step, CallTools({"look": {"what": "gas"}}), Say("argon"), decided(True))
    assert (len(requests[2]["tools"]) > 0, requests[2]["tool_choice"]) == (True, "none")


def test_a_reasoner_without_conversations_is_asked_with_the_rejected_answer():
    tasks: list[Task] = []
    answers = iter(["argon gas", "argon"])

    def answer(task):
        tasks.append(task)
        return next(answers)

    assert Workflow(Operator("Answer.", id="gas", check=brief)).run("x", ScriptedReasoner(answer)).text == "argon"
    assert tasks[0].rejection is None
    assert tasks[1].rejection is not None
    assert tasks[1].rejection.answer.scratchpad == "argon gas"
    assert tasks[1].rejection.faults == (Fault(operator="gas", lesson="at most five letters"),)


def test_a_reasoner_without_conversations_decides_on_a_criterion_by_the_task_and_the_answer():
    tasks: list[Task] = []
    answers = iter(["argon", '{"wrong": "", "right": "", "meets": true}'])

    def answer(task):
        tasks.append(task)
        return next(answers)

    Workflow(Operator("Name the gas.", check="It is noble.")).run("x", ScriptedReasoner(answer))
    assert all(text in tasks[1].instruction for text in ("Name the gas.", "argon", "It is noble."))
    assert "meets" in tasks[1].output_schema.text


def test_two_models_mend_a_fault_and_decide_on_a_criterion_without_a_thinker():
    step, done = (
        json.dumps({"instruction": "Answer.", "finished": True}),
        json.dumps({"instruction": "", "finished": True}),
    )
    with ScriptedModel(
        [Say(step), Say("argon"), decided(False, "argon", "neon"), Say(done), Say("neon"), decided(True)]
    ) as endpoint:
        result = Workflow(Operator("Answer.", check="It glows red."), model=DualModelReasoner(endpoint.model)).run("x")
    assert (result.text, len(endpoint.requests)) == ("neon", 6)


def test_after_two_repairs_a_fallback_applies():
    step = Operator("Answer.", check=brief, policy=Policy(fallback="unknown"))
    result, requests = run(step, *[Say("argon gas")] * 3)
    assert (result.text, len(requests)) == ("unknown", 3)


def test_each_repair_is_an_event_with_the_fault():
    heard = []
    flow = Workflow(Operator("Answer.", check=brief), listeners=[heard.append])
    flow.run("x", ScriptedReasoner(["argon gas", "neon gas", "neon"]))
    repairs = [(event.error, event.repair) for event in heard if isinstance(event, events.AnswerRejected)]
    assert repairs == [("at most five letters", 1), ("at most five letters", 2)]


def test_an_evaluator_goes_on_from_the_answer_that_passed_the_check():
    def noble(answer: str) -> None:
        if answer == "argon":
            raise FaultError("it glows red", blame=["answer"])

    flow = Workflow(Operator("Answer.", id="answer", check=brief), evaluator=noble)
    with ScriptedModel([Say("argon gas"), Say("argon"), Say("neon")]) as endpoint:
        result = flow.run("x", model=endpoint.model)
    assert (result.text, result.rounds) == ("neon", 2)
    assert [text for role, text in texts(endpoint.requests[2]) if role == "assistant"] == ["argon gas", "argon"]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (" ", "the check is empty"),
        (3, "expected a criterion in words, or a function that is given the answer; got 3"),
        (str, "expected a criterion in words, or a function"),
        (lambda: None, "<lambda> must take one argument: the answer"),
        (lambda answer, job: None, "must take one argument"),
    ],
)
def test_what_is_no_check_is_refused_when_the_operator_is_made(check, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        Operator("Answer.", check=check)


def test_a_class_with_a_run_of_its_own_and_an_evaluator_refuse_a_check():
    class Own(Operator):
        async def run(self, call):
            return "x"

    with pytest.raises(InputError, match=r"Own\(…\): check: its own `run` gives the answers"):
        Own("Answer.", check=brief)
    with pytest.raises(InputError, match=r"Evaluator\(…\): check"):
        Evaluator(OperatorConfig(instruction="Judge.", check="It is fair."))


def test_the_embedded_model_cannot_decide_on_words():
    class Small(ScriptedReasoner):
        writes_prose = False

    with pytest.raises(OperatorError, match="the embedded model cannot decide whether an answer meets a criterion"):
        Workflow(Operator("Answer.", check="It is fair.")).run("x", Small("argon"))


def test_the_check_is_a_part_of_the_fingerprint_and_its_lack_changes_none():
    def config(**fields):
        return OperatorConfig(instruction="Answer.", **fields).fingerprint()

    assert "check" not in config()
    assert (
        len({json.dumps(config(check=check), default=str) for check in (None, "It is fair.", "It is short.", brief)})
        == 4
    )
    with pytest.raises(InputError, match="belong in the OperatorConfig"):
        Operator(OperatorConfig(instruction="Answer."), check=brief)  # pyright: ignore
