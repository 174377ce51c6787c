import asyncio
import copy
import gc
import json
import threading
import time
import traceback
from typing import Any

import pytest
from pydantic import SecretStr

from operad.configs.models import make_model
from operad.configs.schema import ModelSpec
from operad.runtime.events import ModelAnswered, ModelAsked, ModelRetried, TokenStreamed, current_scope
from operad.runtime.models.chat_completions import ChatCompletions
from operad.runtime.models.chat_stream import ChatStream
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.endpoint import OPENAI_URL, _certificates
from operad.runtime.models.messages import Message, ToolCall
from operad.runtime.models.model import DEFAULT_MODEL, Model
from operad.runtime.models.resolve import resolve_model
from operad.runtime.models.settings import ModelSettings
from operad.runtime.testing import BreakOff, CallTools, Fail, Hang, Raw, Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, ModelError, PromptTooLongError, RequestError
from operad.runtime.values.message import Usage
from operad.runtime.values.secret import key_text

KEY = "sk-test-0123456789abcdef"
HELLO = [Message.user("hello there")]


@pytest.mark.parametrize("given", ["hello", [{"role": "user", "content": "hello"}]])
async def test_a_conversation_of_other_values_than_messages_is_an_error_that_shows_the_form(given):
    async with ScriptedModel([]) as scripted:
        with pytest.raises(InputError, match=r"takes messages, such as \[Message.user\('…'\)\]; got .*hello"):
            await scripted.model.complete(given)


def here() -> Any:
    """The scope of the operator that this code runs in."""
    return current_scope()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def failure(step, **changes):
    """The error that a step leads to."""
    async with ScriptedModel([step]) as scripted:
        with pytest.raises(ModelError) as raised:
            await scripted.model.model_copy(update=changes).complete(HELLO)
    return raised.value


async def test_text_streams_as_events_and_usage_lands_in_the_scope(in_a_run):
    async with ScriptedModel([Say("good day to you")]) as scripted:

        async def greet():
            return await scripted.model.complete(HELLO), here().usage

        (completion, usage), heard = await in_a_run(greet)
    assert [event.text for event in heard if isinstance(event, TokenStreamed)] == ["good ", "day ", "to ", "you"]
    assert [event.model for event in heard if isinstance(event, ModelAnswered)] == ["scripted"]
    assert usage == completion.usage
    assert completion.usage.model_copy(update={"seconds": 0}) == Usage(calls=1, prompt_tokens=2, completion_tokens=4)
    assert 0 < completion.usage.seconds < 60
    assert completion.finish_reason == "stop"


async def test_tool_calls_come_as_the_model_wrote_them():
    async with ScriptedModel([CallTools([("add", {"a": 1}), ("add", "{broken")], text="I add.")]) as scripted:
        completion = await scripted.model.complete(HELLO, tools=[Tool.of(add)])
    assert completion.text == "I add."
    assert completion.tool_calls == (
        ToolCall(id="call_0", name="add", arguments='{"a": 1}'),
        ToolCall(id="call_1", name="add", arguments="{broken"),
    )
    [offered] = scripted.requests[0]["tools"]
    assert offered["function"]["name"] == "add"
    assert offered["function"]["parameters"]["required"] == ["a", "b"]


def part(index=None, id=None, name=None, arguments=""):
    """A part of a tool call, as endpoints stream it; fields that are None are left out."""
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    given = {"index": index, "id": id, "function": function}
    return {field: value for field, value in given.items() if value is not None}


async def called(*parts):
    """The tool calls of a turn that is streamed in these parts, as id, name and arguments."""
    chunks = [{"choices": [{"delta": {"tool_calls": [part]}}]} for part in parts]
    chunks += [{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    async with ScriptedModel([Raw(body.encode(), "text/event-stream")]) as scripted:
        completion = await scripted.model.complete(HELLO, tools=[Tool.of(add)])
    return [(call.id, call.name, call.arguments) for call in completion.tool_calls]


@pytest.mark.parametrize("index", [None, 0])
async def test_parallel_calls_without_an_index_of_their_own_are_told_apart_by_their_ids(index):
    calls = [("x", "add", '{"a": 1}'), ("y", "sub", '{"a": 2}')]
    first, second = ([part(index, key, name), part(index, None, None, text)] for key, name, text in calls)
    assert await called(*first, *second) == calls
    assert await called(*(part(index, *call) for call in calls)) == calls


async def test_parts_without_an_index_may_repeat_the_id_of_their_call():
    parts = [part(None, "x", "add", '{"a"'), part(None, "y", "sub", "{"), part(None, "x", None, ": 1}")]
    assert await called(*parts, part(None, "y", None, "}")) == [("x", "add", '{"a": 1}'), ("y", "sub", "{}")]


async def test_a_call_with_a_new_id_in_each_part_stays_one_call():
    parts = [part(0, "x", "add", '{"a"'), part(0, "y", None, ": 1}"), part(1, "z", "sub", "{}")]
    assert await called(*parts) == [("y", "add", '{"a": 1}'), ("z", "sub", "{}")]


async def test_calls_without_ids_are_numbered_by_their_index():
    assert await called(part(1, None, "sub"), part(0, None, "add")) == [("call_0", "add", ""), ("call_1", "sub", "")]


@pytest.mark.parametrize("field", ["content", "refusal", "arguments"])
def test_a_long_answer_is_assembled_in_linear_time(field):
    piece, turn = "x" * 50, ChatStream()
    delta = {"tool_calls": [part(0, "x", None, piece)]} if field == "arguments" else {field: piece}
    began, characters = time.thread_time(), 0
    for _ in range(30_000):
        characters += sum(len(each.text) for each in turn.add({"choices": [{"delta": delta}]}))
    assert time.thread_time() - began < 1
    assert characters == (0 if field == "refusal" else 30_000 * len(piece))


async def test_only_what_is_set_is_sent_and_a_call_may_set_it_otherwise():
    async with ScriptedModel([Say("x"), Say("x"), Say("x")]) as scripted:
        await scripted.model.complete(HELLO)
        warm = scripted.model.model_copy(update={"temperature": 0.5, "max_tokens": 10})
        await warm.complete(HELLO)
        await warm.complete(HELLO, settings=ModelSettings(temperature=0.0, max_tokens=7))
    sent = [(request.get("temperature"), request.get("max_tokens")) for request in scripted.requests]
    assert sent == [(None, None), (0.5, 10), (0.0, 7)]


async def test_a_single_stop_text_is_one_of_them():
    one: Any = "END"
    async with ScriptedModel([Say("k")] * 3) as scripted:
        await Model("m", base_url=scripted.base_url, stop=one).complete(HELLO)
        await scripted.model.complete(HELLO, settings=ModelSettings(stop=one))
        await make_model(ModelSpec.model_validate({"base_url": scripted.base_url, "stop": "END"})).complete(HELLO)
    assert [request["stop"] for request in scripted.requests] == [["END"]] * 3


async def test_a_refused_connection_names_the_address():
    with pytest.raises(ModelError, match=r"m at http://127\.0\.0\.1:9/v1: cannot connect .* the endpoint is running"):
        await Model(name="m", base_url="http://127.0.0.1:9/v1", max_retries=0).complete(HELLO)


async def test_a_wrong_key_is_shown_nowhere_though_the_endpoint_repeats_it():
    async with ScriptedModel([], wants_key="right") as scripted:
        wrong = scripted.model.model_copy(update={"api_key": SecretStr(KEY)})
        with pytest.raises(ModelError, match=r"refuses the API key \(401\): .+; set OPENAI_API_KEY") as raised:
            await wrong.complete(HELLO)
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert KEY not in repr(vars(raised.value.__cause__ or raised.value))
    assert KEY not in repr(wrong)
    assert KEY not in wrong.describe()


async def test_a_missing_key_is_told_from_a_wrong_one():
    async with ScriptedModel([], wants_key="right") as scripted:
        with pytest.raises(ModelError, match="requires an API key, but none is set"):
            await scripted.model.model_copy(update={"api_key": None}).complete(HELLO)


@pytest.mark.parametrize("key", [None, SecretStr("none"), SecretStr("model")], ids=repr)
async def test_without_a_key_or_with_one_like_a_word_a_message_stays_as_it_is(key):
    assert "there is none of these models" in str(
        await failure(Fail(404, "there is none of these models"), api_key=key)
    )


async def test_a_key_of_six_characters_is_removed():
    assert "not [key]" in str(await failure(Fail(404, "not abc123"), api_key=SecretStr("abc123")))


TOO_LONG = {"type": "exceed_context_size_error"}

SAID_TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
    "Invalid request: Your request exceeded model token limit: 8192",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens",
    "Prompt 超长",
    "Range of input length should be [1, 30720]",
    "The model is loaded with context length of only 4096 tokens, which is not enough.",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
]
"""Messages of vLLM, Moonshot, Together, Zhipu, Qwen, LM Studio, Mistral and xAI."""


@pytest.mark.parametrize("message", SAID_TOO_LONG)
async def test_a_prompt_that_is_too_long_is_known_by_the_message_where_there_is_no_code(message):
    async with ScriptedModel([Fail(400, message)]) as scripted:
        with pytest.raises(PromptTooLongError):
            await scripted.model.complete(HELLO)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "Unknown parameter: max_tokens", None),
        (400, "Invalid schema for response_format", None),
        (
            429,
            "Request too large for gpt-5.6 on tokens per min (TPM): Limit 30000, Requested 31000",
            "rate_limit_exceeded",
        ),
        (500, "the context length could not be computed", None),
    ],
)
async def test_other_refusals_are_not_taken_for_it(status, message, code):
    async with ScriptedModel([Fail(status, message, error={"code": code})]) as scripted:
        with pytest.raises(ModelError) as raised:
            await scripted.model.complete(HELLO)
    assert not isinstance(raised.value, PromptTooLongError)


EVENTS = "text/event-stream"
FAILURES = [
    (Fail(400, "bad temperature"), r"rejects the request \(400\): bad temperature$"),
    (
        Fail(400, "This response_format type is unavailable"),
        "unavailable; if this .* set the model's `structured` to False$",
    ),
    (
        Fail(400, "small:2b does not support tools"),
        "support tools; if this .* set the model's `tools` to 'constrained'$",
    ),
    (Fail(400, "9031 tokens exceed 8192", error=TOO_LONG), r"prompt has too many tokens: 9031 tokens exceed 8192"),
    (Fail(403, "not your model"), r"does not allow this with this API key \(403\): not your model"),
    (Fail(404, "no such model"), r"has no such model or address; check .* \(404\): no such model"),
    (Fail(429, "slow down"), r"has no room: .* no quota left; wait, or set limits \(429\): slow down"),
    (Fail(502, "bad gateway"), r"failed \(502\): bad gateway"),
    (BreakOff(after_chars=9), "broke off its answer: .*incomplete chunked read.*; try again"),
    (Raw(b"<html>Welcome</html>"), r"does not speak the OpenAI .* a web page; check the base URL"),
    (Raw(b"data: {broken\n\n", EVENTS), r"does not speak the OpenAI .* not JSON"),
    (Raw(b'data: {"hello": 1}\n\n', EVENTS), r"does not speak the OpenAI .* no choices"),
    *(
        (
            Raw(b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], %s}\n\n' % junk, EVENTS),
            rf"does not speak the OpenAI .* its answer cannot be read \({cause}\)",
        )
        for junk, cause in [
            (b'"choices": "abc"', "AttributeError"),
            (b'"choices": {"0": 1}', "AttributeError"),
            (b'"choices": [{"delta": {"content": 5}}]', "TypeError"),
            (b'"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": 5}}]}}]', "TypeError"),
            (b'"choices": [{"delta": {}, "finish_reason": 5}]', "TypeError"),
            (b'"usage": "many"', "AttributeError"),
        ]
    ),
    (
        Raw(b'data: {"error": {"message": "out of memory"}}\n\n', EVENTS),
        "broke off its answer: out of memory; try again",
    ),
    (
        Raw(b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n', EVENTS),
        "broke off its answer after 4 characters",
    ),
]


@pytest.mark.parametrize(("step", "message"), FAILURES, ids=[message[:30] for _, message in FAILURES])
async def test_what_an_endpoint_does_wrong_is_said_with_what_to_do(step, message):
    error = await failure(step)
    assert str(error).startswith("scripted at http://127.0.0.1:")
    if "cannot be read" in message:
        assert error.__cause__ is not None
    with pytest.raises(ModelError, match=message):
        raise error


@pytest.mark.parametrize("step", [Say("on and " * 200), CallTools([("add", "9" * 600)] * 2)], ids=["text", "tools"])
async def test_an_answer_without_end_is_listened_to_no_longer(step, monkeypatch):
    monkeypatch.setattr("operad.runtime.models.model.MOST_CHARACTERS", 1_000)
    error = await failure(step)
    assert "is longer than 1,000 characters, which is the limit; set max_tokens" in str(error)
    assert not error.transient


async def test_silence_ends_with_the_timeout():
    assert "was silent for 0.05 s; increase the timeout" in str(await failure(Hang(), timeout=0.05))


async def test_every_request_that_is_sent_again_is_an_event_first(in_a_run):
    busy, down = (
        Fail(429, "slow down", headers={"retry-after-ms": "1"}),
        Fail(503, "down", headers={"retry-after-ms": "2"}),
    )
    async with ScriptedModel([busy, down, Say("now")]) as scripted:
        model = scripted.model.model_copy(update={"max_retries": 2})
        _, heard = await in_a_run(lambda: model.complete(HELLO))
    (asked,) = (event for event in heard if isinstance(event, ModelAsked))
    retried = [event for event in heard if isinstance(event, ModelRetried)]
    assert heard.index(asked) < heard.index(retried[0])
    where = model.describe()
    assert [(event.call_id, event.model, event.retry, event.delay) for event in retried] == [
        (asked.call_id, "scripted", 1, 0.001),
        (asked.call_id, "scripted", 2, 0.002),
    ]
    assert [event.error for event in retried] == [
        f"{where} has no room: too many calls at once, or no quota left; wait, or set limits (429): slow down",
        f"{where} failed (503): down",
    ]


@pytest.mark.parametrize("milliseconds", ["soon", "nan", "-1"])
async def test_a_malformed_wait_in_milliseconds_hides_no_wait_in_seconds(in_a_run, milliseconds):
    busy = Fail(429, headers={"retry-after-ms": milliseconds, "retry-after": "0.001"})
    async with ScriptedModel([busy, Say("now")]) as scripted:
        model = scripted.model.model_copy(update={"max_retries": 1})
        _, heard = await in_a_run(lambda: model.complete(HELLO))
    assert [event.delay for event in heard if isinstance(event, ModelRetried)] == [0.001]


NOT_AGAIN = {
    "a wrong request": Fail(400),
    "no quota": Fail(429, error={"code": "insufficient_quota"}),
    "the endpoint says so": Fail(503, headers={"x-should-retry": "false"}),
    "a long wait": Fail(429, headers={"retry-after": "121"}),
    "more than is left": Fail(429, headers={"retry-after": "60"}),
}


@pytest.mark.parametrize("step", NOT_AGAIN.values(), ids=NOT_AGAIN)
async def test_what_would_not_help_is_not_sent_again(in_a_run, step):
    async with ScriptedModel([step]) as scripted:
        model = scripted.model.model_copy(update={"max_retries": 2, "total_timeout": 30})

        async def ask():
            with pytest.raises(ModelError):
                await model.complete(HELLO)

        _, told = await in_a_run(ask)
    assert [type(event).__name__ for event in told] == ["ModelAsked", "ModelFailed"]
    assert len(scripted.requests) == 1


async def test_a_call_that_is_refused_once_too_often_fails_with_the_last_reason():
    busy = Fail(429, "slow down", headers={"retry-after-ms": "1"})
    async with ScriptedModel([busy, Fail(503, "down")]) as scripted:
        with pytest.raises(ModelError, match=r"failed \(503\): down$"):
            await scripted.model.model_copy(update={"max_retries": 1}).complete(HELLO)


async def test_an_answer_that_was_cut_off_says_so_in_its_event(in_a_run):
    async with ScriptedModel([Say("half an", finish_reason="length")]) as scripted:
        completion, heard = await in_a_run(lambda: scripted.model.complete(HELLO))
    [answered] = [event for event in heard if isinstance(event, ModelAnswered)]
    assert (completion.finish_reason, answered.finish_reason, answered.cut_off) == ("length", "length", True)


async def test_an_answer_that_a_content_filter_stopped_is_an_error_and_paid(in_a_run):
    async with ScriptedModel([Say("To begin", finish_reason="content_filter")]) as scripted:
        model = scripted.model

        async def ask():
            with pytest.raises(RequestError) as raised:
                await model.complete(HELLO)
            return raised.value, here().usage

        (error, usage), heard = await in_a_run(ask)
    assert str(error) == (
        f"{model.describe()}: its content filter stopped the answer after 8 characters; change the prompt or the filter"
    )
    assert (usage.calls, usage.completion_tokens) == (1, 2)
    assert [event.finish_reason for event in heard if isinstance(event, ModelAnswered)] == ["filter"]


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
async def test_a_request_that_a_content_filter_refuses_says_so(code):
    error = await failure(Fail(400, "it hurts", error={"code": code}))
    assert str(error).endswith(": its content filter refuses the request: it hurts; change the prompt or the filter")
    assert isinstance(error, RequestError)


async def test_a_model_that_refuses_to_answer_is_quoted():
    refusal = b'data: {"choices": [{"index": 0, "delta": {"refusal": "I cannot"}, "finish_reason": "stop"}]}\n\n'
    error = await failure(Raw(refusal, EVENTS))
    assert str(error).endswith(": the model refuses to answer: I cannot; change the prompt")
    assert isinstance(error, RequestError)


async def test_a_login_in_the_address_is_not_shown():
    model = Model(name="m", base_url="http://user:secret@127.0.0.1:9/v1", max_retries=0)
    assert model.describe() == "m at http://127.0.0.1:9/v1"
    with pytest.raises(ModelError) as raised:
        await model.complete(HELLO)
    assert "secret" not in str(raised.value)


def test_threads_with_loops_of_their_own_share_a_model_and_nothing_is_left_open():
    def step(request):
        return Say(request["messages"][0]["content"])

    def ask(thread):
        async def several():
            asked = [[Message.user(f"{thread}-{call}")] for call in range(5)]
            return [answer.text for answer in await asyncio.gather(*map(model.complete, asked))]

        answers[thread] = asyncio.run(several())

    answers = {}
    with ScriptedModel(step) as scripted:
        model = scripted.model
        threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {thread: [f"{thread}-{call}" for call in range(5)] for thread in range(8)}
    gc.collect()  # an open connection would warn here, and warnings are errors


async def test_models_that_are_let_go_of_in_a_living_loop_are_closed(monkeypatch):
    faults, clients = [], []
    monkeypatch.setattr("sys.unraisablehook", faults.append)
    asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
    async with ScriptedModel(lambda request: Say("x")) as scripted:
        for _ in range(20):
            model = scripted.model
            await model.complete(HELLO)
            chat: Any = (await model._connection()).chat
            clients.append(chat._client)
            del model, chat
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if all(client.is_closed() for client in clients):
                break
        gc.collect()
    assert all(client.is_closed() for client in clients)
    assert faults == []


def test_a_key_is_given_as_text_and_shown_nowhere():
    model = Model(name="m", api_key="sk-1")
    assert model == Model(name="m", api_key=SecretStr("sk-1"))
    assert (key_text(model.api_key), "sk-1" in repr(model)) == ("sk-1", False)


async def test_models_are_equal_whichever_is_connected():
    async with ScriptedModel([Say("one"), Say("two")]) as scripted:
        model = scripted.model
        same, other = model.model_copy(), model.model_copy(update={"temperature": 1.0})
        assert model == same
        await model.complete(HELLO)
        assert (model == same, hash(model) == hash(same), model == other) == (True, True, False)
        await same.complete(HELLO)
        assert model == same


async def test_a_closed_model_can_be_used_again():
    async with ScriptedModel([Say("one"), Say("two")]) as scripted:
        model = scripted.model
        await model.complete(HELLO)
        await model.aclose()
        await model.aclose()
        assert (await model.complete(HELLO)).text == "two"


async def test_a_copy_that_points_elsewhere_asks_there():
    async with ScriptedModel([Say("here")]) as one, ScriptedModel([Say("there")]) as other:
        model = one.model
        await model.complete(HELLO)
        moved = model.model_copy(update={"base_url": other.base_url})
        assert (await moved.complete(HELLO)).text == "there"
        assert copy.deepcopy(moved).base_url == other.base_url


async def test_the_trusted_certificates_are_read_once_for_all_models():
    _certificates.cache_clear()
    async with ScriptedModel([Say("one"), Say("two")]) as scripted:
        for _ in range(2):
            await scripted.model.model_copy().complete(HELLO)  # with connections of its own
    assert _certificates.cache_info()[:2] == (1, 1)  # hits, misses


async def test_a_proxy_of_the_environment_does_not_come_between(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with ScriptedModel([Say("direct")]) as scripted:
        assert (await scripted.model.complete(HELLO)).text == "direct"


def test_no_model_configured_is_an_error_that_says_what_to_set():
    with pytest.raises(InputError, match=r"^no model is configured: ") as caught:
        resolve_model(environ={})
    text = str(caught.value)
    for way in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL and OPERAD_MODEL",
        "--model and --base-url",
        "`model: {name: …, base",
    ):
        assert way in text
    for way in ("OPERAD_MODEL=embedded", "--model embedded", "`model: embedded`", 'MonoModelReasoner("embedded")'):
        assert way in text
    assert "\n" not in text


def test_the_embedded_model_is_asked_for_by_name():
    assert resolve_model("embedded", environ={}) == EmbeddedModel()
    assert resolve_model("embedded", environ={}).describe() == "SmolLM2-135M-Instruct, embedded"


def test_a_named_embedded_model_wins_over_the_endpoint_of_the_environment():
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://a/v1", "OPERAD_MODEL": "gpt-5"}
    assert resolve_model("embedded", environ=environ) == EmbeddedModel()


@pytest.mark.parametrize("name", ["embedded", "/models/tiny.gguf"])
def test_an_embedded_model_has_no_endpoint(name):
    said = f"model '{name}' runs inside this process, and http://a/v1 is named as its endpoint; name a model of that"
    with pytest.raises(InputError, match=said):
        resolve_model(name, "http://user:secret@a/v1", environ={})


def test_a_key_chooses_openai_and_its_default_model():
    model = resolve_model(environ={"OPENAI_API_KEY": KEY})
    assert (model.name, model.base_url, model.api_key) == (DEFAULT_MODEL, OPENAI_URL, SecretStr(KEY))


def test_an_endpoint_may_want_no_key():
    model = resolve_model("llama", environ={"OPENAI_BASE_URL": "http://localhost:1234/v1"})
    assert (model.describe(), model.api_key) == ("llama at http://localhost:1234/v1", None)


def test_options_win_over_the_environment():
    environ = {"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://a/v1", "OPERAD_MODEL": "a"}
    model = resolve_model("b", "http://b/v1", "b", environ)
    assert (model.name, model.base_url, model.api_key) == ("b", "http://b/v1", SecretStr("b"))


def test_the_environment_is_read_when_a_model_is_asked_for(monkeypatch):
    monkeypatch.setenv("OPERAD_MODEL", "embedded")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert isinstance(resolve_model(), EmbeddedModel)


def test_a_weights_file_is_an_embedded_model():
    assert resolve_model("/models/tiny.gguf", environ={}) == EmbeddedModel.of("/models/tiny.gguf")


def test_a_model_without_an_endpoint_is_not_silently_replaced():
    with pytest.raises(
        InputError, match=r"^model 'gpt-9': no endpoint is configured; set OPENAI_API_KEY, or OPENAI_BASE"
    ):
        resolve_model("gpt-9", environ={})


def test_a_misspelt_embedded_model_is_guessed():
    with pytest.raises(InputError, match=r"^model 'embeded' \(did you mean 'embedded'\?\): no endpoint"):
        resolve_model("embeded", environ={})


async def test_openai_gets_the_newer_name_of_max_tokens(monkeypatch):
    asked = {}

    async def chunks(self, body):
        asked.update(body)
        raise ModelError("not asked in tests")
        yield

    monkeypatch.setattr(ChatCompletions, "_chunks", chunks)
    with pytest.raises(ModelError):
        await Model(api_key=SecretStr(KEY), max_tokens=5, api="chat-completions").complete(HELLO)
    assert asked["max_completion_tokens"] == 5
    assert "max_tokens" not in asked
