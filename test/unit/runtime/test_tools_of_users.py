"""Functions as tools: `tool`, a person's approval, and the run's context."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from operad import InputError, InvalidError, MonoModelReasoner, Operator, OperatorConfig, RunContext, Tool, events, tool
from operad.runtime import Action, BuiltinWorkflow, ToolGroup
from operad.runtime.testing import CallTools, Say, ScriptedModel

CALLED = []


@tool
def search(claim: str) -> str:
    """Look a claim up."""
    return f"found {claim}"


@tool(approve=True)
def delete(path: str, context: RunContext) -> str:
    """Delete a file."""
    CALLED.append((path, context.run_id, context.operator_id))
    return f"deleted {path}"


def length(text: str) -> int:
    """Count the characters."""
    return len(text)


def test_a_decorated_function_is_a_tool_and_can_still_be_called():
    assert isinstance(search, Tool)
    assert (search.name, search.description, search("x")) == ("search", "Look a claim up.", "found x")
    named = tool(name="look_up", description="Look.", timeout=timedelta(seconds=3))(length)
    assert tool(timeout=timedelta(minutes=1))(named).timeout == 60
    assert (named.name, named.description, named.timeout) == ("look_up", "Look.", 3)


@pytest.mark.parametrize("annotation", [RunContext, RunContext | None, "RunContext", "operad.RunContext | None"])
def test_the_context_is_known_however_it_is_annotated(annotation):
    def look(path: str, context): ...

    look.__annotations__["context"] = annotation
    assert list(Tool.of(look).parameters["properties"]) == ["path"]


async def test_outside_of_a_run_the_context_is_empty_and_an_approval_is_an_error():
    @tool
    def where(context: RunContext) -> str:
        return context.run_id or "nowhere"

    assert await where.call({}) == "nowhere"
    with pytest.raises(InputError, match="tool 'delete' asks a person before it runs, and no run is in progress here"):
        await delete.call({"path": "a"})


def test_operators_actions_and_configurations_take_plain_functions():
    group = ToolGroup(name="g", tools=(search,))
    operator = Operator("Check.", tools=[length, group], actions=[Action(name="a", tools=(length,))])  # type: ignore[arg-type]
    assert [tool.name for tool in operator._recommend().tools] == ["length", "length", "search"]
    config = OperatorConfig(instruction="Check.", tools=[length])
    assert [tool.name for tool in Operator(config)._recommend().tools] == ["length"]


def test_tools_change_the_fingerprint_and_a_configuration_without_any_has_the_one_it_had():
    plain, with_tools = OperatorConfig(instruction="Check."), OperatorConfig(instruction="Check.", tools=[length])
    assert "tools" not in plain.fingerprint()
    assert plain.fingerprint() != with_tools.fingerprint()


async def run(script, answers):
    """Run an operator with the tool that asks; the questions that were asked, and the results the model saw."""
    CALLED.clear()
    asked, answers = [], iter(answers)
    with ScriptedModel(script) as scripted:
        flow = BuiltinWorkflow(
            Operator("Clean up.", id="clean", tools=[delete]), model=MonoModelReasoner(scripted.model)
        )
        handle = flow.start("x", run_id="r")
        async for event in handle:
            if isinstance(event, events.Interrupted):
                asked.append(event.question)
                await handle.answer({event.interrupt_id: next(answers)})
        await handle
        seen = [m["content"] for m in scripted.requests[-1]["messages"] if m["role"] == "tool"]
    return asked, seen


async def test_a_person_is_asked_with_the_arguments_before_each_call():
    script = [CallTools([("delete", {"path": "a"})]), CallTools([("delete", {"path": "b"})]), Say("done")]
    asked, seen = await run(script, ["yes", "no"])
    assert asked == [
        f'Allow the tool delete with {{"path": "{path}"}}? '
        "Answer yes, no, no: REASON, always (for the rest of this run), or other arguments as an object."
        for path in ("a", "b")
    ]
    assert seen == ["deleted a", 'ToolError: a person did not allow delete with {"path": "b"}']
    assert CALLED == [("a", "r", "clean")]


async def test_a_wrong_answer_is_one_issue_that_names_the_choices():
    with ScriptedModel([CallTools([("delete", {"path": "a"})]), Say("done")]) as scripted:
        flow = BuiltinWorkflow(
            Operator("Clean up.", id="clean", tools=[delete]), model=MonoModelReasoner(scripted.model)
        )
        handle = flow.start("x")
        found: list[tuple[str, str]] = []
        async for event in handle:
            if isinstance(event, events.Interrupted):
                with pytest.raises(InvalidError) as caught:
                    await handle.answer({event.interrupt_id: True})
                found += [(issue.code, issue.message) for issue in caught.value.issues]
                await handle.answer({event.interrupt_id: "no"})
        await handle
    assert found == [("wrong-answer", "True is not one of ['yes', 'no', 'always']")]


async def test_always_allows_the_tool_for_the_rest_of_the_run_and_not_for_the_next():
    script = [CallTools([("delete", {"path": "a"})]), CallTools([("delete", {"path": "b"})]), Say("done")]
    asked, seen = await run(script, ["always"])
    assert (len(asked), seen) == (1, ["deleted a", "deleted b"])
    asked, _ = await run(script, ["always"])
    assert len(asked) == 1


async def test_wrong_arguments_are_refused_before_anybody_is_asked():
    asked, seen = await run([CallTools([("delete", {"file": "a"})]), Say("done")], [])
    assert asked == []
    assert seen == [
        "ToolError: tool 'delete' was called with wrong arguments: 'path' is missing; 'file' is not an argument"
    ]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_coroutine_that_a_tool_returns_is_awaited(is_async):
    async def fetch():
        return "rain"

    async def weather():
        return fetch()

    def weather_in_thread():
        return fetch()

    assert await tool(weather if is_async else weather_in_thread).call({}) == "rain"


class Order(BaseModel):
    number: int = Field(serialization_alias="no")
    day: date


@dataclass
class Stock:
    left: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Order(number=1, day=date(2026, 1, 2)), '{"no": 1, "day": "2026-01-02"}'),
        ([Order(number=1, day=date(2026, 1, 2))], '[{"no": 1, "day": "2026-01-02"}]'),
        ({"figs": Stock(left=3)}, '{"figs": {"left": 3}}'),
        (object, "\"<class 'object'>\""),
    ],
)
def test_the_model_gets_values_of_tools_as_json(value, text):
    @tool
    def give():
        return value

    with ScriptedModel([CallTools({"give": {}}), Say("done")]) as scripted:
        BuiltinWorkflow(Operator("Give.", tools=[give]), model=scripted.model).run("x")
        assert scripted.requests[-1]["messages"][-1]["content"] == text


class Sum(BaseModel):
    a: int = Field(description="The first number.")
    b: int = 2


class OfLangChain:
    """A tool of LangChain, with the attributes of `langchain_core.tools.BaseTool` that are used."""

    name = "add"
    description = "Add two numbers."
    args_schema = tool_call_schema = Sum

    async def ainvoke(self, input):
        return Sum(**input).a + Sum(**input).b

    async def arun(self, tool_input):
        raise AssertionError("is not called")


async def test_a_tool_of_langchain_is_taken_as_it_is():
    with ScriptedModel([CallTools([("add", {"a": 1})]), Say("three")]) as endpoint:
        flow = BuiltinWorkflow(Operator("Add.", tools=[OfLangChain()]), model=endpoint.model)
        assert (await flow.arun("1 and 2")).text == "three"
    described, *_ = endpoint.requests[0]["tools"]
    assert described["function"]["description"] == "Add two numbers."
    assert described["function"]["parameters"]["properties"]["a"]["description"] == "The first number."
    assert endpoint.requests[1]["messages"][-1]["content"] == "3"
    given: Any = OfLangChain()
    approved = tool(given, approve=True)
    assert (approved.name, approved.approve) == ("add", True)
