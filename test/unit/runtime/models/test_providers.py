"""Clients of vendors' own protocols: what they do beyond the contract of all clients."""

import asyncio
import json
import re
import subprocess
import sys
import traceback

import pytest
from vendor_clients import VENDOR_CLIENTS
from vendor_endpoints import KEY, AnthropicEndpoint, GoogleEndpoint

from operad.runtime.events import SettingsDropped
from operad.runtime.models.messages import Blob, Message, Opaque, Origin, Text, Thinking, ToolCall, ToolResult
from operad.runtime.models.model import Model
from operad.runtime.models.providers import Provider, is_recursive
from operad.runtime.models.settings import ModelSettings
from operad.runtime.models.turn import Delta
from operad.runtime.testing import CallTools, Fail, Say
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, MissingExtraError, ModelError, PromptTooLongError, RequestError
from operad.runtime.values.message import Usage
from operad.runtime.values.pip import pip_install
from operad.runtime.values.schema import AnswerSchema

ASKED = [Message.system("Be brief."), Message.user("How warm is it?")]
HELLO = [Message.user("hello")]
BOUND = "anthropic:claude-opus-5-5"


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


WEATHER = Tool.of(weather)
OSLO = CallTools({"weather": {"city": "Oslo"}}, thinking="About Oslo.")


def answered(turn, text="sun"):
    """The message with the results of a turn's calls."""
    return Message.user(
        *(ToolResult(id=each.id, name=each.name, content=(Text(text=text),)) for each in turn.tool_calls)
    )


@pytest.fixture(params=[AnthropicEndpoint, GoogleEndpoint])
def endpoint(request):
    return request.param


async def failure(endpoint, step, **fields):
    async with endpoint([step], **fields) as served:
        with pytest.raises(ModelError) as raised:
            await served.model.complete(HELLO)
    return raised.value


async def test_reasoning_is_given_up_where_what_stands_before_it_was_changed(in_a_run):
    """Claude binds reasoning to all before it. A changed beginning costs the reasoning, is said, and needs one request."""
    async with AnthropicEndpoint([OSLO, Say("Warm."), Say("Warm.")], BOUND) as served:
        model = served.model
        turn = await model.complete(ASKED, tools=[WEATHER])
        rest = [turn.message, answered(turn.message)]
        same = await model.complete([*ASKED, *rest], tools=[WEATHER])
        assert same.dropped == ()
        changed = [Message.system("Be very brief."), ASKED[1], *rest]
        _, heard = await in_a_run(lambda: model.complete(changed, tools=[WEATHER]))
    told = ("thinking of earlier turns: what stands before it was changed",)
    assert [event.settings for event in heard if isinstance(event, SettingsDropped)] == [told]
    assert len(served.requests) == 3


async def test_redacted_and_unknown_parts_of_another_system_are_left_out():
    foreign = Origin(codec="pydantic-ai/1", system="google", data={"part_kind": "thinking", "signature": "c2ln"})
    turn = Message(
        role="assistant",
        parts=(
            Thinking(text="Secret.", origin=foreign),
            Opaque(shown="builtin-tool-call", origin=foreign),
            Text(text=" "),
            ToolCall(id="functions.weather:0", name="weather", arguments='{"city": "Oslo"}'),
        ),
    )
    async with AnthropicEndpoint([Say("Warm.")]) as served:
        await served.model.complete([*ASKED, turn, answered(turn)], tools=[WEATHER])
    [block] = served.requests[0]["messages"][1]["content"]
    assert (block["type"], block["input"]) == ("tool_use", {"city": "Oslo"})
    assert block["id"].isalnum()


async def test_own_data_that_cannot_be_read_costs_the_part_alone():
    broken = Origin(codec="pydantic-ai/1", system="anthropic", data={"signature": 7, "provider_name": "anthropic"})
    turn = Message(role="assistant", parts=(Thinking(text="Hm.", origin=broken), Text(text="Warm.", origin=broken)))
    async with AnthropicEndpoint([Say("Yes.")]) as served:
        await served.model.complete([*ASKED, turn, Message.user("Sure?")])
    assert VENDOR_CLIENTS["anthropic"].texts(served.requests[0])[2:] == [("assistant", "Warm."), ("user", "Sure?")]
    assert "Hm." not in json.dumps(served.requests[0])


SETTINGS = ModelSettings(temperature=0.5, top_p=0.9, seed=7, stop=("END",), max_tokens=300)


async def left_out(in_a_run, model, settings):
    """Names of the settings that an event names."""
    _, heard = await in_a_run(lambda: model.complete(ASKED, settings=settings))
    told = [each for event in heard if isinstance(event, SettingsDropped) for each in event.settings]
    return sorted(re.split("[:=]", each)[0] for each in told)


async def test_settings_reach_anthropic_and_those_it_does_not_take_are_named(in_a_run):
    settings = SETTINGS.model_copy(update={"parameters": {"service_tier": "standard_only"}})
    async with AnthropicEndpoint([Say("Warm.")] * 3) as served:
        plain = await left_out(in_a_run, served.model, settings)
        thinking = await left_out(in_a_run, served.model, ModelSettings(temperature=0.5, thinking="high"))
        assert await left_out(in_a_run, served.model, ModelSettings(top_p=0.9)) == []
    first, second, third = served.requests
    assert third["top_p"] == 0.9
    sent = {name: first[name] for name in ("temperature", "stop_sequences", "max_tokens", "service_tier")}
    assert sent == {
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "max_tokens": 300,
        "service_tier": "standard_only",
    }
    assert plain == ["seed", "top_p"]
    assert (second["output_config"]["effort"], "temperature" in second) == ("high", False)
    assert thinking == ["temperature"]


async def test_a_model_that_always_thinks_says_that_it_cannot_be_turned_off(in_a_run):
    async with AnthropicEndpoint([Say("Warm.")], BOUND) as served:
        told = await left_out(in_a_run, served.model, ModelSettings(temperature=0.5, thinking="off"))
    assert told == ["temperature", "thinking"]
    assert "temperature" not in served.requests[0]


async def test_settings_reach_google_and_those_it_does_not_take_are_named(in_a_run):
    settings = SETTINGS.model_copy(update={"thinking": "high", "parameters": {"labels": {}}})
    async with GoogleEndpoint([Say("Warm.")]) as served:
        told = await left_out(in_a_run, served.model, settings)
    sent = served.requests[0]["generationConfig"]
    names = ("temperature", "topP", "seed", "stopSequences", "maxOutputTokens")
    assert [sent[name] for name in names] == [0.5, 0.9, 7, ["END"], 300]
    assert sent["thinkingConfig"] == {"include_thoughts": True, "thinking_level": "HIGH"}
    assert told == ["parameters"]


async def test_effort_for_a_model_that_does_not_think_is_named(in_a_run):
    async with GoogleEndpoint([Say("Warm.")], "google:gemini-2.0-flash") as served:
        assert await left_out(in_a_run, served.model, ModelSettings(thinking="low")) == ["thinking"]


async def test_cached_tokens_of_google_are_a_part_of_those_read():
    usage = Usage(prompt_tokens=1000, cached_tokens=800, completion_tokens=50, reasoning_tokens=40)
    async with GoogleEndpoint([Say("Warm.", usage=usage)]) as served:
        found = (await served.model.complete(ASKED)).usage
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
    assert [getattr(found, name) for name in names] == [1000, 800, 50, 40]


async def test_the_beginning_of_a_conversation_with_tools_is_marked_for_anthropics_cache():
    async with AnthropicEndpoint([OSLO, Say("Warm.")]) as served:
        await served.model.complete(ASKED, tools=[WEATHER])
        await served.model.complete(ASKED)
    marked = [json.dumps(request).count("cache_control") > 0 for request in served.requests]
    assert marked == [True, False]


async def test_a_wait_that_a_vendor_asks_for_is_kept(endpoint):
    error = await failure(endpoint, Fail(429, "slow down", headers={"retry-after": "7"}))
    assert (error.transient, error.retry_after) == (True, 7.0)
    assert str(error).endswith("gets too many calls at once; wait, or set limits (429): slow down")


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_failure_of_a_vendor_is_temporary(endpoint, status):
    error = await failure(endpoint, Fail(status, "overloaded"))
    assert (type(error), error.transient) == (ModelError, True)
    assert f"({status}): overloaded" in str(error)


async def test_a_request_that_a_vendor_rejects_is_not_sent_again(endpoint):
    error = await failure(endpoint, Fail(400, "messages: bad", error={"type": "invalid_request_error"}))
    assert (type(error), error.transient) == (RequestError, False)
    assert str(error).endswith("rejects the request; change the request (400): messages: bad")


@pytest.mark.parametrize(
    ("endpoint", "variable"), [(AnthropicEndpoint, "ANTHROPIC_API_KEY"), (GoogleEndpoint, "GOOGLE_API_KEY")]
)
async def test_a_wrong_key_names_the_vendors_variable_and_is_shown_nowhere(endpoint, variable):
    wrong = KEY[::-1]
    with endpoint([], api_key=wrong) as served, pytest.raises(ModelError) as raised:
        await served.model.complete(HELLO)
    assert f"set {variable}" in str(raised.value)
    assert "[key]" in str(raised.value)
    assert wrong not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("name", "setup"),
    [
        ("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-3-pro", "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("mistral:mistral-large-latest", "MISTRAL_API_KEY"),
    ],
)
async def test_a_missing_key_names_the_variables(name, setup, monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InputError, match=f"no API key is set; set {setup}, or give the model its api_key"):
        await Model(name).complete(HELLO)


async def test_bedrock_without_a_region_says_what_to_set(monkeypatch, tmp_path):
    for variable in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ModelError, match="AWS_DEFAULT_REGION, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        await Model("bedrock:anthropic.claude-opus-5").complete(HELLO)


async def test_the_key_of_the_environment_is_not_sent_to_another_address(endpoint, monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    with endpoint([], api_key=None) as served, pytest.raises(ModelError, match="refuses the API key"):
        await served.model.complete(HELLO)


@pytest.mark.parametrize("login", ["", "ada:secret@"])
async def test_without_a_key_no_header_of_a_key_is_sent(endpoint, login, web, monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    address = (await web.serve(web.reply(b"no", 400))).replace("//", f"//{login}")
    with pytest.raises(ModelError):
        await Model(endpoint.name, base_url=address, max_retries=0).complete(HELLO)
    [request] = web.requests
    sent = {name: value for name, value in request.headers.items() if name in ("authorization", "x-api-key")}
    assert sent == ({"authorization": "Basic YWRhOnNlY3JldA=="} if login else {})
    assert "x-goog-api-key" not in request.headers


async def test_a_redirect_to_another_origin_is_named_and_not_followed(endpoint, web):
    other = await web.serve(web.reply(b"{}"))
    address = await web.serve(web.reply(status=307, location=f"{other}/v1/messages"))
    with pytest.raises(ModelError, match=f" redirects to {other}, and neither the prompt nor the key is sent"):
        await Model(endpoint.name, base_url=address, api_key=KEY, max_retries=0).complete(HELLO)
    assert len(web.requests) == 1


async def test_a_redirect_within_the_endpoint_is_followed(endpoint, web):
    def moved(request):
        return web.reply(status=307, location="/new") if len(web.requests) == 1 else web.reply(b"Here.", 400)

    address = await web.serve(moved)
    with pytest.raises(RequestError, match="Here"):
        await Model(endpoint.name, base_url=address, api_key=KEY, max_retries=0).complete(HELLO)
    assert [request.path.partition("?")[0] for request in web.requests][1:] == ["/new"]


@pytest.mark.parametrize("content_type", ["text/html", "text/plain"])
async def test_a_web_page_in_place_of_an_answer_is_named_with_its_title(endpoint, content_type, web):
    page = b"<!doctype html><html><head><title>Log in</title></head></html>"
    address = await web.serve(web.reply(page, content_type=content_type))
    with pytest.raises(ModelError) as raised:
        await Model(endpoint.name, base_url=address, api_key=KEY).complete(HELLO)
    assert str(raised.value).endswith(" answered with a web page, 'Log in'; check the address")
    assert len(web.requests) == 1


async def test_a_web_page_of_an_error_is_shown_by_its_title(endpoint, web):
    address = await web.serve(web.reply(b"<html><title>Nowhere</title><p>Long.</html>", 404, content_type="text/html"))
    with pytest.raises(ModelError, match=r"check the model's name \(404\): a web page, 'Nowhere'$"):
        await Model(endpoint.name, base_url=address, api_key=KEY).complete(HELLO)


async def test_a_request_that_is_too_large_says_what_to_leave_out(endpoint):
    error = await failure(endpoint, Fail(413, "Request exceeds the maximum size", error={"type": "request_too_large"}))
    assert (type(error), error.transient) == (PromptTooLongError, False)
    told = "has no room for so large a request; make the prompt shorter, or leave files out (413): Request exceeds"
    assert told in str(error)


async def test_an_answer_without_end_is_read_no_further(endpoint, web, monkeypatch):
    monkeypatch.setattr("operad.runtime.models.endpoint.MOST_BYTES", 100_000)

    async def endless(request):
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        while True:
            yield VENDOR_CLIENTS["google"].began if endpoint is GoogleEndpoint else b": " + b"x" * 1000 + b"\n\n"

    address = await web.serve(endless)
    with pytest.raises(ModelError, match="larger than the maximum of 100,000 bytes"):
        await Model(endpoint.name, base_url=address, api_key=KEY, max_retries=0).complete(HELLO)


async def test_silence_ends_with_the_timeout(endpoint, web):
    silent = asyncio.Event()

    async def nothing(request):
        await silent.wait()
        yield b""

    address = await web.serve(nothing)
    with pytest.raises(ModelError, match=r"was silent for 0\.2 s; increase the timeout, or request less$") as raised:
        await Model(endpoint.name, base_url=address, api_key=KEY, timeout=0.2, max_retries=0).complete(HELLO)
    assert raised.value.transient


async def test_a_stream_that_is_closed_ends_its_request(endpoint, web):
    """The package of Google reads on, if nothing closes its response."""
    left = asyncio.Event()
    vendor, _, name = endpoint.name.partition(":")

    async def endless(request):
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        try:
            while True:
                yield VENDOR_CLIENTS[vendor].began
        finally:
            left.set()

    address = await web.serve(endless)
    client = Provider(Model(endpoint.name, base_url=address, api_key=KEY), vendor, name, address, KEY)
    stream = client.stream(HELLO)
    assert await anext(stream) == Delta("text", "one ")
    await stream.aclose()
    await asyncio.wait_for(left.wait(), 30)  # the client is open: its connection alone has ended
    await client.aclose()


async def test_a_file_that_a_model_cannot_read_is_named():
    sound = Blob(data=b"RIFF", media_type="audio/wav")
    with (
        AnthropicEndpoint([]) as served,
        pytest.raises(RequestError, match=r"cannot read audio/wav; leave the file out"),
    ):
        await served.model.complete([Message.user("What is this?", sound)])
    assert served.requests == []


async def test_mistral_gets_ids_of_nine_characters_in_calls_and_results(web):
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Warm."}, "finish_reason": "stop"}]}
    chunk["usage"] = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    address = await web.serve(web.reply(body, content_type="text/event-stream"))
    calls = tuple(ToolCall(id=f"call_{n}_0123456789", name="weather", arguments='{"city": "Oslo"}') for n in range(2))
    turn = Message(role="assistant", parts=calls)
    model = Model("mistral:mistral-large-latest", base_url=address, api_key=KEY, max_retries=0)
    completion = await model.complete([*HELLO, turn, answered(turn)], tools=[WEATHER])
    await model.aclose()
    sent = json.loads(web.requests[0].body)["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
    assert [len(each) for each in ids] == [9, 9]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids
    assert (completion.text, completion.usage.prompt_tokens) == ("Warm.", 5)


async def test_a_word_for_the_end_that_pydantic_ai_does_not_know_counts(web):
    chunk = {"index": 0, "delta": {"content": "It is"}, "finish_reason": "content_filter"}
    body = f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [chunk]})}\n\ndata: [DONE]\n\n".encode()
    address = await web.serve(web.reply(body, content_type="text/event-stream"))
    model = Model("mistral:mistral-large-latest", base_url=address, api_key=KEY, max_retries=0)
    with pytest.raises(RequestError, match="content filter stopped the answer after 5 characters"):
        await model.complete(HELLO)
    await model.aclose()


async def test_a_form_that_a_vendor_does_not_enforce_is_described_at_the_end():
    tree = {"$ref": "#/$defs/T"}
    definition = {"type": "object", "properties": {"kids": {"type": "array", "items": tree}}, "required": ["kids"]}
    root = {"type": "object", "properties": {"tree": tree}, "required": ["tree"], "additionalProperties": False}
    form = AnswerSchema.of({**root, "$defs": {"T": {**definition, "additionalProperties": False}}})
    assert is_recursive(form)
    async with AnthropicEndpoint([Say("{}")]) as served:
        await served.model.complete(ASKED, output=form)
    assert "output_config" not in served.requests[0]
    assert served.requests[0]["system"] == "Be brief."
    last = served.requests[0]["messages"][-1]["content"][-1]["text"]
    assert json.loads(last.partition("JSON Schema:\n")[2]) == form.schema


async def test_older_models_of_google_get_the_form_described_beside_tools():
    form = AnswerSchema.parse("{degrees: integer}")
    async with GoogleEndpoint([Say("{}"), Say("{}")], "google:gemini-2.5-flash") as served:
        await served.model.complete(ASKED, output=form)
        await served.model.complete(ASKED, output=form, tools=[WEATHER], tool_choice="none")
    alone, beside = (request["generationConfig"].get("responseJsonSchema") for request in served.requests)
    assert (alone, beside) == (form.schema, None)


async def test_a_vendor_without_its_extra_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", None)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("anthropic"))):
        await Model("anthropic:claude-opus-5-5", api_key=KEY).complete(HELLO)


def test_importing_operad_imports_no_vendor():
    named = "('pydantic_ai', 'anthropic', 'google.genai', 'mistralai', 'boto3')"
    code = f"import sys, operad; operad.Model('anthropic:x'); print([name for name in {named} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
