import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from operad import Operator, Workflow
from operad.runtime import BuiltinWorkflow, testing
from operad.runtime.models.messages import Message, shown_messages
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import (
    CallTools,
    Fail,
    LeftoverStepsError,
    Plausible,
    Refuse,
    Say,
    ScriptedModel,
    ScriptedReasoner,
    UnexpectedStepError,
)
from operad.runtime.values.errors import AnswerError, ModelError, OperadError, OperatorError
from operad.runtime.values.message import Job, Usage
from operad.runtime.values.schema import AnswerSchema

HELLO = [Message.user("hello there")]


def task(instruction="Do it.", goal="a goal"):
    return Task(job=Job(goal=goal), instruction=instruction)


def test_a_text_in_a_script_is_said():
    with ScriptedModel(["one"]) as scripted:
        assert Workflow(Operator("Greet."), model=scripted.model).run("Ada").text == "one"
    with ScriptedModel(lambda request: "two") as scripted:
        assert Workflow(Operator("Greet."), model=scripted.model).run("Ada").text == "two"


def test_a_script_that_holds_something_else_is_refused_at_once():
    with pytest.raises(
        TypeError, match=r"a script holds steps, such as Say\('…'\), texts, pydantic models and functions; got 3"
    ):
        ScriptedModel([3])  # type: ignore[list-item]


def search(q: str) -> str:
    """Search."""
    return f"found {q}"


def test_tools_are_called_by_a_dict_of_names():
    with ScriptedModel([CallTools({"search": {"q": "figs"}}), Say("ok")]) as scripted:
        assert Workflow(Operator("Look.", tools=[search]), model=scripted.model).run("x").text == "ok"
    assert scripted.requests[1]["messages"][-1]["content"] == "found figs"


@pytest.mark.parametrize("calls", [["search"], "search", ["ab"], {"search": 3}, [("search", {}, 1)], 3])
def test_calls_of_another_form_are_refused_at_once(calls):
    with pytest.raises(
        TypeError, match=r"expected names of tools with their arguments, such as CallTools\(\[\('search'"
    ):
        CallTools(calls)


@pytest.mark.parametrize("wrong", [lambda request: 3, lambda request: {}["a"]])
def test_an_error_of_a_script_is_raised_where_the_script_is(wrong):
    with pytest.raises((TypeError, KeyError)) as caught, ScriptedModel(wrong) as scripted:
        Workflow(Operator("Greet."), model=scripted.model).run("Ada")
    assert isinstance(caught.value.__cause__, OperatorError)
    assert "the script failed" in str(caught.value.__cause__)


def test_all_public_names_exist():
    assert all(hasattr(testing, name) for name in testing.__all__)


async def test_a_scripted_reasoner_answers_in_order_and_keeps_the_tasks():
    with ScriptedReasoner(["one", lambda task: task.job.goal.upper()]) as reasoner:
        assert await reasoner.infer(task()) == "one"
        assert await reasoner.infer(task("Second.")) == "A GOAL"
    assert [task.instruction for task in reasoner.tasks] == ["Do it.", "Second."]


async def test_a_scripted_reasoner_raises_the_errors_of_its_script():
    with pytest.raises(ZeroDivisionError):
        await ScriptedReasoner([ZeroDivisionError()]).infer(task())


async def test_a_scripted_reasoner_holds_answers_to_the_form_that_is_asked_for():
    asked = Task(job=Job(goal="g"), instruction="List.", output_schema="{claims: [string]}")
    reasoner = ScriptedReasoner(['Here: {"claims": ["a",]}', lambda task: '{"claims": [1.5]}', "no claims"])
    assert await reasoner.infer(asked) == '{"claims": ["a"]}'
    with pytest.raises(
        AnswerError, match=r"to 'List\.' does not fit its output_schema: .* 1\.5 is not of type 'string'"
    ):
        await reasoner.infer(asked)
    with pytest.raises(
        AnswerError, match=r"'no claims' to 'List\.' does not fit its output_schema: the answer holds no"
    ):
        await reasoner.infer(asked)


async def test_a_scripted_reasoner_awaits_async_functions():
    async def answer(task):
        return "later"

    reasoner = ScriptedReasoner(answer)
    assert [await reasoner.infer(task()) for _ in range(3)] == ["later"] * 3


async def test_answers_go_by_instruction_one_for_all_calls_or_several_in_order():
    with ScriptedReasoner({"List.": "always", "Check.": ["wrong", "right"]}) as reasoner:
        asked = ["Check.", "List.", "Check.", "List."]
        assert [await reasoner.infer(task(each)) for each in asked] == ["wrong", "always", "right", "always"]


async def test_one_call_too_many_is_an_error_that_says_which():
    reasoner = ScriptedReasoner(["only"])
    await reasoner.infer(task())
    with pytest.raises(UnexpectedStepError, match=r"call 2 of the reasoner is more than its script holds"):
        await reasoner.infer(task())


async def test_an_unknown_instruction_is_an_error_with_the_nearest_name():
    with pytest.raises(UnexpectedStepError, match=r"no answers for 'Chek it\.' \(did you mean 'Check it\.'\?\)"):
        await ScriptedReasoner({"Check it.": "x"}).infer(task("Chek it."))


def test_answers_left_over_are_an_error():
    with pytest.raises(LeftoverStepsError, match="asked 0 times; answers left: 1"), ScriptedReasoner(["unused"]):
        pass


async def test_a_scripted_model_answers_the_real_client_and_counts_words_as_tokens():
    async with ScriptedModel([Say("good day to you")]) as scripted:
        completion = await scripted.model.complete(HELLO)
    assert completion.text == "good day to you"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (2, 4)
    assert scripted.requests[0]["messages"] == [*shown_messages(HELLO)]


async def test_a_client_that_does_not_stream_gets_the_answer_whole():
    async with (
        ScriptedModel([Say("good day")]) as scripted,
        AsyncOpenAI(base_url=scripted.base_url, api_key="any") as client,
    ):
        answer = await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hi"}])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("good day", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (1, 2, 3)


@pytest.mark.parametrize("streamed", [False, True])
async def test_openais_own_client_reads_the_responses_protocol(streamed):
    step = CallTools({"search": {"q": "figs"}}, text="I look.", thinking="Where are they?")
    async with (
        ScriptedModel([step]) as scripted,
        AsyncOpenAI(base_url=scripted.base_url, api_key="any") as client,
    ):
        asked: Any = {"model": "any", "input": "figs", "include": ["reasoning.encrypted_content"]}
        if streamed:
            async with client.responses.stream(**asked) as stream:
                answer: Any = await stream.get_final_response()
        else:
            answer = await client.responses.create(**asked)
    reasoning, message, call = answer.output
    assert (reasoning.summary[0].text, bool(reasoning.encrypted_content)) == ("Where are they?", True)
    assert (answer.output_text, message.id) == ("I look.", "msg_1")
    assert (call.name, call.arguments) == ("search", '{"q": "figs"}')
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (1, 7)


@pytest.mark.parametrize("api", ["chat-completions", "responses"])
async def test_a_protocol_without_streaming_refuses_thinks_and_reports_tokens_too(api):
    usage = Usage(prompt_tokens=9, completion_tokens=5, cached_tokens=4, cache_written_tokens=2, reasoning_tokens=3)
    script = [Say("ok", thinking="Hm.", usage=usage), Refuse("no")]
    async with (
        ScriptedModel(script) as scripted,
        AsyncOpenAI(base_url=scripted.base_url, api_key="any") as client,
    ):
        if api == "responses":
            answers: list[Any] = [await client.responses.create(model="any", input="hi") for _ in script]
            texts = [answers[0].output[0].summary[0].text, answers[1].output[0].content[0].refusal]
        else:
            messages: Any = [{"role": "user", "content": "hi"}]
            answers = [await client.chat.completions.create(model="any", messages=messages) for _ in script]
            texts = [answers[0].choices[0].message.reasoning_content, answers[1].choices[0].message.refusal]
    assert texts == ["Hm.", "no"]
    found = answers[0].usage.model_dump()
    read, written = ("input", "output") if api == "responses" else ("prompt", "completion")
    assert (found[f"{read}_tokens"], found[f"{written}_tokens"], found["total_tokens"]) == (9, 5, 14)
    details = found[f"{read}_tokens_details"]
    assert (details["cached_tokens"], details["cache_write_tokens"]) == (4, 2)
    assert found[f"{written}_tokens_details"]["reasoning_tokens"] == 3


async def test_both_protocols_are_at_one_address():
    async with ScriptedModel(["one", "two"]) as scripted:
        apis = [await scripted.model.model_copy(update={"api": api}).complete(HELLO) for api in (None, "responses")]
    assert [completion.text for completion in apis] == ["one", "two"]
    assert [name for request in scripted.requests for name in ("messages", "input") if name in request] == [
        "messages",
        "input",
    ]


async def test_a_step_may_be_a_function_of_the_request():
    async with ScriptedModel([lambda request: Say(request["messages"][-1]["content"][::-1])]) as scripted:
        assert (await scripted.model.complete(HELLO)).text == "ereht olleh"


async def test_one_request_too_many_fails_and_is_raised_at_the_end():
    scripted = ScriptedModel([]).__enter__()
    with pytest.raises(ModelError, match="request 1 is more than the script has steps"):
        await scripted.model.complete(HELLO)
    with pytest.raises(UnexpectedStepError, match="asked 1 time, 1 more than its script has steps"):
        scripted.__exit__(None, None, None)


async def test_one_request_too_many_is_told_instead_of_the_error_that_it_led_to():
    with pytest.raises(UnexpectedStepError, match="asked 1 time, 1 more than its script has steps") as caught:
        async with ScriptedModel([]) as scripted:
            await scripted.model.complete(HELLO)
    assert isinstance(caught.value.__cause__, ModelError)


async def test_steps_left_over_are_raised_at_the_end():
    with pytest.raises(LeftoverStepsError, match=r"asked 0 times; left of its script: Say\(text='x'"):
        async with ScriptedModel([Say("x")]):
            pass


async def test_an_error_in_the_block_is_not_hidden_by_leftover_steps():
    with pytest.raises(KeyError):
        async with ScriptedModel([Say("x")]):
            raise KeyError("the test's own")


async def test_a_failure_bears_its_status_and_message():
    async with ScriptedModel([Fail(503, "down for repairs")]) as scripted:
        with pytest.raises(ModelError, match=r"failed \(503\): down for repairs"):
            await scripted.model.complete(HELLO)


def test_the_address_exists_only_while_the_model_runs():
    with pytest.raises(OperadError, match="use it in a with block"):
        _ = ScriptedModel([]).base_url


async def test_a_plausible_step_fits_the_schema_of_the_request():
    properties = {"a": {"type": "string"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["a", "b"]}
    async with ScriptedModel([Plausible(), Plausible()]) as scripted:
        structured = await scripted.model.complete(HELLO, output=AnswerSchema.unchecked(schema))
        free = await scripted.model.complete(HELLO)
    assert (json.loads(structured.text), free.text) == ({"a": "text", "b": 1}, "text")


class Count(BaseModel):
    number: int


@pytest.mark.parametrize(
    "answer", [Count(number=3), {"number": 3}, lambda _: Count(number=3), lambda _: {"number": 3}, '{"number": 3}']
)
def test_a_scripted_reasoner_gives_values_as_json_also_those_of_functions(answer):
    flow = BuiltinWorkflow(Operator("Count.", output=Count))
    assert flow.run("x", ScriptedReasoner([answer])).output == Count(number=3)


def test_a_scripted_reasoner_gives_lists_and_numbers():
    assert BuiltinWorkflow(Operator("Count.", output=list[int])).run("x", ScriptedReasoner([[1, 2]])).output == [1, 2]
    assert BuiltinWorkflow(Operator("Count.", output=int)).run("x", ScriptedReasoner(lambda _: 3)).output == 3


def test_a_scripted_reasoner_raises_the_error_that_a_function_returns():
    with pytest.raises(OperatorError, match="ValueError: no"):
        BuiltinWorkflow(Operator("Count.")).run("x", ScriptedReasoner(lambda _: ValueError("no")))


def test_answers_are_given_by_instruction_or_by_the_id_of_the_operator():
    flow = BuiltinWorkflow(Operator("List.", id="list") >> Operator("Count.", id="count"))
    assert flow.run("x", ScriptedReasoner({"list": "a", "Count.": "1"})).text == "1"
    with pytest.raises(
        OperatorError,
        match=r"the script has no answers for 'List\.' or 'list' \(did you mean 'lst'\?\); it has: lst, Say$",
    ):
        flow.run("x", ScriptedReasoner({"lst": "a", "Say": "b"}))
    with (
        pytest.raises(LeftoverStepsError, match=r"asked 2 times; answers left: 3, of 'count', 'Say'$"),
        ScriptedReasoner({"list": "a", "count": ["1", "2"], "Say": ["b", "c"]}) as reasoner,
    ):
        flow.run("x", reasoner)


def test_a_scripted_model_says_a_pydantic_model_and_refuses_other_values_where_they_are_written():
    with ScriptedModel([Count(number=3)]) as scripted:
        flow = BuiltinWorkflow(Operator("Count.", output=Count), model=scripted.model)
        assert flow.run("x").output == Count(number=3)
    with pytest.raises(TypeError, match=r"Say\(…\): expected a text, got Count\(number=3\)"):
        Say(Count(number=3))  # pyright: ignore[reportArgumentType]
