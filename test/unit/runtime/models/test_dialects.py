"""Answers of chat completions as servers send them."""

import json

import pytest
from httpx import AsyncClient
from local_http import NO_AUTHORITIES

from operad.runtime.events import ThinkingStreamed, TokenStreamed
from operad.runtime.models.messages import Message
from operad.runtime.testing import DIALECTS, Dialect, Raw, Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ModelError, RequestError


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


ASKED = [Message.user("How is it?")]
ANSWERS = {name: dialect for name, dialect in DIALECTS.items() if not dialect.fails}
FAILURES = {name: dialect for name, dialect in DIALECTS.items() if dialect.fails}


def _events(*chunks: object) -> bytes:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


_PART = b'data: {"choices": [{"index": 0, "delta": {"content": "It is"}, "finish_reason": null}]}\n\n'


@pytest.mark.parametrize("dialect", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_is_read_in_each_dialect(dialect: Dialect, in_a_run):
    async with ScriptedModel([dialect]) as scripted:
        completion, heard = await in_a_run(lambda: scripted.model.complete(ASKED, tools=[Tool.of(weather)]))
    calls = [(call.name, json.loads(call.arguments)) for call in completion.tool_calls]
    assert (completion.text, calls) == (dialect.text, [*dialect.calls])
    assert completion.message.thinking == dialect.thinking
    assert completion.finish_reason == ("tools" if dialect.calls else "stop")
    if (
        dialect is not DIALECTS["a closing think tag alone"]
    ):  # what is reasoning is known at the tag, and text is streamed
        streamed = [
            "".join(event.text for event in heard if isinstance(event, kind)).strip()
            for kind in (TokenStreamed, ThinkingStreamed)
        ]
        assert streamed == [dialect.text, dialect.thinking]


@pytest.mark.parametrize("dialect", FAILURES.values(), ids=FAILURES)
async def test_an_error_in_each_dialect_is_raised(dialect: Dialect):
    async with ScriptedModel([dialect]) as scripted:
        with pytest.raises(ModelError, match=r"broke off its answer|out of memory"):
            await scripted.model.complete(ASKED)


@pytest.mark.parametrize("word", ["content_filter", "content_filter: RECITATION", "SAFETY", "sensitive"])
async def test_an_answer_that_a_filter_stopped_is_an_error_in_each_word_for_it(word):
    async with ScriptedModel([Say("It is", finish_reason=word)]) as scripted:
        with pytest.raises(RequestError, match="content filter stopped the answer after 5 characters"):
            await scripted.model.complete(ASKED)


@pytest.mark.parametrize("word", ["length", "MAX_TOKENS", "max_output_tokens", "model_length"])
async def test_an_answer_that_was_cut_off_says_so_in_each_word_for_it(word):
    async with ScriptedModel([Say("It is", finish_reason=word)]) as scripted:
        assert (await scripted.model.complete(ASKED)).finish_reason == "length"


@pytest.mark.parametrize("word", ["insufficient_system_resource", "network_error", "abort", "MALFORMED_FUNCTION_CALL"])
async def test_an_answer_that_the_server_gave_up_is_an_error_in_each_word_for_it(word):
    async with ScriptedModel([Say("It is", finish_reason=word)]) as scripted:
        with pytest.raises(ModelError, match="broke off its answer after 5 characters") as failed:
            await scripted.model.complete(ASKED)
    assert failed.value.transient


async def test_a_refusal_by_the_reason_for_the_end_is_one():
    async with ScriptedModel([Say("I cannot.", finish_reason="refusal")]) as scripted:
        with pytest.raises(RequestError, match=r"the model refuses to answer: I cannot\."):
            await scripted.model.complete(ASKED)


async def test_of_several_choices_the_first_is_the_answer():
    deltas = [(1, {"content": "WRONG"}), (0, {"content": "right"})]
    chunks = [{"choices": [{"index": index, "delta": delta, "finish_reason": "stop"}]} for index, delta in deltas]
    async with ScriptedModel([Raw(_events(*chunks), "text/event-stream")]) as scripted:
        assert (await scripted.model.complete(ASKED)).text == "right"


async def test_a_call_in_the_protocol_of_2023_is_a_call():
    parts = [{"name": "weather", "arguments": ""}, {"arguments": '{"city": "Oslo"}'}]
    chunks = [{"choices": [{"index": 0, "delta": {"function_call": part}, "finish_reason": None}]} for part in parts]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]})
    async with ScriptedModel([Raw(_events(*chunks), "text/event-stream")]) as scripted:
        completion = await scripted.model.complete(ASKED, tools=[Tool.of(weather)])
    assert [(call.name, json.loads(call.arguments)) for call in completion.tool_calls] == [
        ("weather", {"city": "Oslo"})
    ]


@pytest.mark.parametrize(
    "sent",
    [
        (_PART + b'data: {"error": "out of memory"}\n\n', "text/event-stream"),
        (_PART + b'event: error\ndata: {"message": "out of memory"}\n\n', "text/event-stream"),
        (b'data: {"object": "error", "message": "out of memory", "code": 500}\n\n', "text/event-stream"),
        (b'{"error": {"message": "out of memory"}}', "application/json"),
    ],
)
async def test_an_error_keeps_its_words_in_each_form_and_may_be_tried_again(sent):
    async with ScriptedModel([Raw(*sent)]) as scripted:
        with pytest.raises(ModelError, match="broke off its answer: out of memory; try again") as failed:
            await scripted.model.complete(ASKED)
    assert failed.value.transient


async def test_a_body_that_says_there_is_no_quota_is_no_fault_of_the_address():
    body = b'{"error": {"message": "top up", "code": "insufficient_quota"}}'
    async with ScriptedModel([Raw(body, "application/json")]) as scripted:
        with pytest.raises(ModelError, match="has no quota left: top up") as failed:
            await scripted.model.complete(ASKED)
    assert not failed.value.transient


async def test_a_scripted_endpoint_accepts_ids_of_calls_that_are_numbers():
    """Clients that repeat the ids of a server that numbers its calls are tested with it, too."""
    async with ScriptedModel(["ok"]) as scripted, AsyncClient(verify=NO_AUTHORITIES) as client:
        call = {"id": 1, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        body = {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]}
        sent = await client.post(f"{scripted.base_url}/chat/completions", json=body)
    assert sent.json()["choices"][0]["message"]["content"] == "ok"


@pytest.mark.parametrize(
    ("name", "sent_back"),
    [
        ("calls after reasoning", lambda turn: turn["reasoning_content"] == "Hm."),
        (
            "calls with a signature",
            lambda turn: (
                turn["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "c2lnbmVk"}}
                and "extra_content" not in turn["tool_calls"][1]
            ),
        ),
    ],
)
async def test_reasoning_and_signatures_come_back_where_they_were(name, sent_back):
    async with ScriptedModel([DIALECTS[name], "ok"]) as scripted:
        turn = await scripted.model.complete(ASKED, tools=[Tool.of(weather)])
        await scripted.model.complete([*ASKED, turn.message, Message.user("Go on.")])
    assert sent_back(scripted.requests[1]["messages"][1])
