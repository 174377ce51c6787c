"""Approval of tool calls by a person: the question, its answers, and the condition under which it is asked."""

from contextlib import contextmanager
from datetime import date
from typing import Annotated

import pytest
from answer_forms import faults
from pydantic import AfterValidator, BaseModel

from operad import InvalidError, Operator, OperatorError, PausedError, RunContext, Tool, events, tool
from operad.runtime import BuiltinWorkflow, ToolError
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.typed_answers import describe_answer, read_answer


class Account(BaseModel):
    iban: str


def even(cents: int) -> int:
    if cents % 2:
        raise ValueError("cents are even here")
    return cents


def is_large(cents: int) -> bool:
    return cents > 100


@tool(approve=True)
def refund(order: str, cents: Annotated[int, AfterValidator(even)] = 4, to: Account | None = None) -> dict[str, object]:
    """Refund an order."""
    return {"order": order, "cents": cents, "to": to and to.iban}


@contextmanager
def pausing(function, *calls, **options):
    """Yield a workflow whose model makes these calls, and the scripted model."""
    with ScriptedModel([CallTools([(tool(function).name, call) for call in calls]), Say("done")]) as scripted:
        clerk = Operator("Refund.", id="clerk", tools=[function])
        yield BuiltinWorkflow(clerk, model=scripted.model, **options), scripted


def answered(function, call, answer):
    """Return the question about a call, and the tool's result for the model after the answer."""
    with pausing(function, call) as (flow, scripted):
        with pytest.raises(PausedError) as paused:
            flow.run("x", run_id="r")
        flow.resume("r", {"clerk": answer})
        return paused.value.questions[0], scripted.requests[-1]["messages"][-1]["content"]


def test_a_question_names_the_tool_and_the_arguments():
    question, result = answered(refund, {"order": "A1", "cents": 6}, "yes")
    assert (question.tool, question.arguments) == ("refund", {"order": "A1", "cents": 6})
    assert result == '{"order": "A1", "cents": 6, "to": null}'


async def test_so_does_its_event():
    with pausing(refund, {"order": "A1"}) as (flow, _):
        async for event in flow.stream("x"):
            if isinstance(event, events.Interrupted):
                assert (event.tool, event.arguments) == ("refund", {"order": "A1"})
                await flow.answer(event.run_id, {event.interrupt_id: "no"})
    other = events.Interrupted(interrupt_id="a", question="Sure?", schema={"type": "boolean"})
    assert (other.tool, other.arguments) == (None, {})


@pytest.mark.parametrize(
    ("answer", "told"),
    [("no", ""), ("no: over\nthe limit", ": over\nthe limit"), ("no: ", "")],
)
def test_the_model_is_told_the_reason_of_a_refusal(answer, told):
    _, result = answered(refund, {"order": "A1"}, answer)
    assert result == f'ToolError: a person did not allow refund with {{"order": "A1"}}{told}'


def test_an_object_replaces_the_arguments_and_the_model_is_told():
    _, result = answered(refund, {"order": "A1", "cents": 900}, {"order": "A1", "cents": 8, "to": {"iban": "DE1"}})
    assert result == (
        '(a person changed the arguments to {"order": "A1", "cents": 8, "to": {"iban": "DE1"}})\n'
        '{"order": "A1", "cents": 8, "to": "DE1"}'
    )


def test_the_same_arguments_are_a_yes():
    _, result = answered(refund, {"order": "A1", "cents": 6}, {"order": "A1", "cents": 6})
    assert result == '{"order": "A1", "cents": 6, "to": null}'


def test_arguments_that_only_the_function_refuses_are_told_as_those_of_the_person():
    _, result = answered(refund, {"order": "A1"}, {"order": "A1", "cents": 7})
    assert result.startswith(
        'ToolError: a person changed the arguments to {"order": "A1", "cents": 7}: '
        "tool 'refund' was called with wrong arguments: 'cents': "
    )


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("maybe", "'maybe' is not one of ['yes', 'no', 'always']"),
        ({"order": "A1", "cents": "much"}, "$.cents: 'much' is not of type 'integer'"),
        ({"cents": 4}, "'order' is a required property"),
    ],
)
def test_wrong_answers_are_refused_when_they_are_given(answer, fault):
    with pausing(refund, {"order": "A1"}) as (flow, _):
        with pytest.raises(PausedError):
            flow.run("x", run_id="r")
        with pytest.raises(InvalidError) as wrong:
            flow.resume("r", {"clerk": answer})
        assert [issue.message for issue in wrong.value.issues] == [fault]
        flow.resume("r", {"clerk": "no"})


def test_typed_answers_are_words_a_reason_or_arguments_as_json():
    question, _ = answered(refund, {"order": "A1"}, "no")
    assert describe_answer(question.schema_) == ""  # the question itself names the answers
    assert read_answer(" always ", question.schema_) == "always"
    assert [read_answer(typed, question.schema_) for typed in ("y", "YES", "n", "No")] == ["yes", "yes", "no", "no"]
    assert read_answer("no: too much", question.schema_) == "no: too much"
    assert read_answer('{"order": "A2"}', question.schema_) == {"order": "A2"}


def test_a_schema_with_references_of_its_own_does_not_prevent_the_question():
    parameters = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}
    joined = Tool(name="join", parameters=parameters, function=lambda a, b: a + b, approve=True)
    question, result = answered(joined, {"a": "x", "b": "y"}, {"a": "x", "b": "z"})
    assert result == '(a person changed the arguments to {"a": "x", "b": "z"})\nxz'
    assert question.schema_ is not None
    assert faults(question.schema_, {"a": True}) == []
    assert answered(joined, {"a": "x", "b": "y"}, {"a": True})[1].startswith(
        "ToolError: a person changed the arguments"
    )


async def _is_large_later(cents: int) -> bool:
    return cents > 100


@pytest.mark.parametrize(
    "condition", [is_large, _is_large_later, lambda **call: call["cents"] > 100, lambda cents, limit=100: cents > limit]
)
def test_a_condition_decides_which_calls_are_asked_about(condition):
    def pay(to: str, cents: int = 200) -> str:
        return f"{cents} to {to}"

    with pausing(tool(approve=condition)(pay), {"to": "a", "cents": 50}, {"to": "b"}) as (flow, scripted):
        with pytest.raises(PausedError) as paused:
            flow.run("x", run_id="r")
        assert [question.arguments for question in paused.value.questions] == [{"to": "b"}]
        flow.resume("r", "yes")
        results = [m["content"] for m in scripted.requests[-1]["messages"] if m["role"] == "tool"]
    assert results == ["50 to a", "200 to b"]


def test_a_condition_gets_the_deps_of_the_run():
    def is_above(cents: int, run: RunContext[int]) -> bool:
        return cents > run.deps

    asked = tool(approve=is_above)(refund.function)
    call = {"order": "A1", "cents": 10}
    with pausing(asked, call) as (flow, _):
        assert flow.run("x", deps=10).text == "done"
    with pausing(asked, call) as (flow, _):
        with pytest.raises(PausedError) as paused:
            flow.run("x", run_id="r", deps=9)
        assert paused.value.questions[0].arguments == call
        flow.resume("r", "no")
    with (
        ScriptedModel([CallTools({"refund": call})]) as scripted,
        pytest.raises(OperatorError, match="this run has none"),
    ):
        BuiltinWorkflow(Operator("Refund.", tools=[asked]), model=scripted.model).run("x")


def test_a_condition_that_fails_prevents_the_call():
    called = []

    def broken(cents: int) -> bool:
        raise KeyError("limit")

    with pausing(tool(name="pay", approve=broken)(lambda cents: called.append(cents)), {"cents": 1}) as (
        flow,
        scripted,
    ):
        flow.run("x")
        assert scripted.requests[-1]["messages"][-1]["content"] == "KeyError: 'limit'"
    assert called == []


@pytest.mark.parametrize("wrap", [tool(approve=lambda cent: True), lambda f: tool(approve=lambda cent: True)(tool(f))])
def test_a_condition_on_an_unknown_argument_is_an_error_at_the_definition(wrap):
    def pay(to: str, cents: int) -> str: ...

    with pytest.raises(
        ToolError, match=r"tool 'pay': approve: parameter 'cent' .*did you mean 'cents'\?\); known: to, cents"
    ):
        wrap(pay)


def test_a_durable_run_keeps_a_question_with_its_tool_and_takes_other_arguments(tmp_path):
    from operad.runtime.durable import Ledger

    ledger = Ledger(tmp_path / "runs.db")
    with pausing(refund, {"order": "A1"}, durable=ledger) as (flow, scripted):
        with pytest.raises(PausedError):
            flow.run("x", run_id="r")
        assert [(each.tool, each.arguments) for each in ledger.open_questions("r")] == [("refund", {"order": "A1"})]
        flow.resume("r", {"clerk": {"order": "A2"}})
        assert '"order": "A2", "cents": 4' in scripted.requests[-1]["messages"][-1]["content"]
    ledger.close()


def test_a_tool_with_a_condition_has_a_json_form():
    def pay(cents: int) -> str: ...

    made = tool(approve=is_large)(pay)
    assert made.approve is is_large
    assert made.model_dump(mode="json")["approve"] is True
    assert tool(pay).model_dump(mode="json")["approve"] is False


@pytest.mark.parametrize("pattern", ["foo(?!bar)", "(", "#/nope"])
def test_arguments_that_look_like_a_json_schema_are_asked_about_as_others(pattern):
    @tool(approve=True)
    def grep(options: dict[str, str]) -> str:
        return "found"

    question, result = answered(grep, {"options": {"pattern": pattern, "$ref": pattern}}, "yes")
    assert (question.arguments, result) == ({"options": {"pattern": pattern, "$ref": pattern}}, "found")


@pytest.mark.parametrize(
    "condition",
    [lambda cents=0: cents > 100, lambda cents: cents > 100, lambda unit: False],
    ids=["0", "cents", "unit"],
)
def test_a_condition_sees_defaults_of_a_json_schema_and_arguments_without_a_value_are_asked_about(condition):
    properties = {"cents": {"type": "integer", "default": 500}, "unit": {"type": "string"}}
    parameters = {"type": "object", "properties": properties}
    transfer = Tool(name="transfer", parameters=parameters, function=lambda **given: "sent", approve=condition)
    assert answered(transfer, {}, "no")[1].startswith("ToolError: a person did not allow transfer")


def test_a_result_with_keys_that_are_not_text_is_json():
    @tool(approve=True)
    def sums() -> dict[date, int]:
        return {date(2026, 1, 1): 5}

    assert answered(sums, {}, "yes")[1] == '{"2026-01-01": 5}'
