"""What the client of the responses protocol does beyond the contract of all clients."""

import asyncio
import json
from typing import Any

import pytest

from operad.configs.models import make_model
from operad.configs.schema import ModelSpec
from operad.runtime.events import SettingsDropped, ThinkingStreamed, TokenStreamed
from operad.runtime.models.addresses import split_login
from operad.runtime.models.chat_completions import ChatCompletions
from operad.runtime.models.messages import Blob, Message, Opaque, Origin, Text, Thinking, ToolCall
from operad.runtime.models.model import Model, assumed_api
from operad.runtime.models.responses import CODEC, Responses
from operad.runtime.models.settings import ModelSettings
from operad.runtime.testing import Fail, Raw, Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ModelError, PromptTooLongError, RequestError
from operad.runtime.values.schema import AnswerSchema

ASKED = [Message.user("How warm is it?")]
EVENTS = "text/event-stream"


def scripted(script: Any) -> ScriptedModel:
    return ScriptedModel(script, api="responses")


def stream(*events: dict[str, Any]) -> Raw:
    return Raw("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode(), EVENTS)


def completed(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [*output], **fields}}


def said(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **fields}


def thought(**fields: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Hm."}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VhbGVk", **fields}


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}


def weather() -> str:
    """The weather."""
    return "sun"


WEATHER = Tool.of(weather)


async def sent_after(*output: dict[str, Any], change: Any = None, **fields: Any) -> list[dict[str, Any]]:
    """The items that a turn with this output is sent back as."""
    async with scripted([stream(completed(*output, **fields)), Say("ok")]) as endpoint:
        turn = (await endpoint.model.complete(ASKED, tools=[WEATHER])).message
        await endpoint.model.complete([*ASKED, change(turn) if change else turn, Message.user("Go on.")])
    return endpoint.requests[1]["input"][1:-1]


async def failure(step: Any, **settings: Any) -> ModelError:
    async with scripted([step]) as endpoint:
        with pytest.raises(ModelError) as raised:
            await endpoint.model.complete(ASKED, settings=ModelSettings(**settings))
    return raised.value


# Requests


async def test_nothing_is_stored_and_the_encrypted_reasoning_is_asked_for_whatever_the_model():
    async with scripted(["ok"]) as endpoint:
        await endpoint.model.complete(ASKED)
    assert endpoint.requests == [
        {
            "input": [{"role": "user", "content": "How warm is it?"}],
            "model": "scripted",
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
    ]


async def test_tools_are_not_strict_because_every_parameter_would_be_required():
    async with scripted(["ok"]) as endpoint:
        await endpoint.model.complete(ASKED, tools=[WEATHER], tool_choice="none")
    [tool] = endpoint.requests[0]["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "weather", False)
    assert endpoint.requests[0]["tool_choice"] == "none"


async def test_a_schema_that_permits_it_is_strict():
    async with scripted(["{}"]) as endpoint:
        await endpoint.model.complete(ASKED, output=AnswerSchema.parse("{degrees: integer}"))
    form = endpoint.requests[0]["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "answer", True)


async def test_thinking_asks_for_its_summary_unless_it_is_off():
    async with scripted(["ok", "ok"]) as endpoint:
        for level in ("low", "off"):
            await endpoint.model.complete(ASKED, settings=ModelSettings(thinking=level))
    assert [request["reasoning"] for request in endpoint.requests] == [
        {"effort": "low", "summary": "auto"},
        {"effort": "none"},
    ]


async def test_parameters_are_sent_beside_what_the_operator_needs():
    parameters: Any = {
        "text": {"verbosity": "low"},
        "tools": [{"type": "web_search"}],
        "include": ["web_search_call.action.sources"],
        "reasoning": {"summary": "detailed"},
        "store": True,
    }
    settings = ModelSettings(thinking="high", parameters=parameters)
    async with scripted(["{}"]) as endpoint:
        form = AnswerSchema.parse("{degrees: integer}")
        await endpoint.model.complete(ASKED, tools=[WEATHER], output=form, settings=settings)
    sent = endpoint.requests[0]
    assert (sent["text"]["verbosity"], sent["text"]["format"]["schema"]) == ("low", form.schema)
    assert [tool.get("name", tool["type"]) for tool in sent["tools"]] == ["weather", "web_search"]
    assert sent["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert sent["reasoning"] == {"effort": "high", "summary": "detailed"}
    assert sent["store"] is True


async def test_documents_are_files_of_the_input():
    document = Blob(data=b"%PDF", media_type="application/pdf", name="a.pdf")
    async with scripted(["ok"]) as endpoint:
        await endpoint.model.complete([Message.user("Read.", document)])
    [text, file] = endpoint.requests[0]["input"][0]["content"]
    assert text == {"type": "input_text", "text": "Read."}
    assert file == {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}


# Settings that a model does not have


def refuses(*fields: str, message: str = "Unsupported parameter: '{}' is not supported with this model.") -> Any:
    """An endpoint whose model refuses fields, in the words of OpenAI."""

    def answer(request):
        for field in fields:
            outer, _, inner = field.partition(".")
            if outer in request and (not inner or inner in request[outer]):
                return Fail(400, message.format(field), error={"param": field, "type": "invalid_request_error"})
        return Say("Warm.")

    return answer


async def test_settings_that_the_protocol_does_not_have_are_named(in_a_run):
    async with scripted(["Warm."]) as endpoint:
        settings = ModelSettings(seed=7, stop=("END",))
        completion, heard = await in_a_run(lambda: endpoint.model.complete(ASKED, settings=settings))
    assert completion.dropped == (
        "seed: the responses protocol has no such setting",
        "stop: the responses protocol has no such setting",
    )
    assert [event.settings for event in heard if isinstance(event, SettingsDropped)] == [completion.dropped]


async def test_a_setting_that_the_model_refuses_is_left_out_and_named_with_the_reason():
    async with scripted(refuses("temperature", "top_p")) as endpoint:
        model = endpoint.model.model_copy(update={"temperature": 0.0, "top_p": 0.5})
        first, second = [await model.complete(ASKED) for _ in range(2)]
    assert (
        first.dropped
        == second.dropped
        == (
            "temperature: Unsupported parameter: 'temperature' is not supported with this model.",
            "top_p: Unsupported parameter: 'top_p' is not supported with this model.",
        )
    )
    assert len(endpoint.requests) == 4  # the second call has learnt it


async def test_a_field_that_only_the_message_names_is_left_out_too():
    async with scripted(
        lambda request: (
            Fail(400, "`temperature` is not supported with this model") if "temperature" in request else Say("Warm.")
        )
    ) as endpoint:
        completion = await endpoint.model.complete(ASKED, settings=ModelSettings(temperature=0))
    assert completion.dropped == ("temperature: `temperature` is not supported with this model",)


async def test_calls_at_the_same_time_learn_what_the_model_refuses():
    async with scripted(refuses("temperature")) as endpoint:
        model = endpoint.model.model_copy(update={"temperature": 0.0})
        completions = await asyncio.gather(*(model.complete(ASKED) for _ in range(8)))
    assert {completion.text for completion in completions} == {"Warm."}
    assert all(completion.dropped for completion in completions)


async def test_a_model_that_does_not_think_is_asked_without_thinking():
    async with scripted(refuses("reasoning.effort", "include")) as endpoint:
        completion = await endpoint.model.complete(ASKED, settings=ModelSettings(thinking="high"))
    assert completion.dropped == (
        "thinking: Unsupported parameter: 'reasoning.effort' is not supported with this model.",
    )
    assert endpoint.requests[-1].keys() == {"input", "model", "stream", "store"}


async def test_a_summary_that_is_not_given_to_this_account_is_left_out_alone():
    message = "Your organization must be verified to generate reasoning summaries."
    async with scripted(refuses("reasoning.summary", message=message)) as endpoint:
        completion = await endpoint.model.complete(ASKED, settings=ModelSettings(thinking="high"))
    assert completion.dropped == (f"summary of thinking: {message}",)
    assert endpoint.requests[-1]["reasoning"] == {"effort": "high"}


async def test_a_value_that_is_wrong_for_every_model_is_an_error():
    wrong = Fail(400, "Invalid 'temperature': expected a value <= 2.", error={"param": "temperature"})
    assert "Invalid 'temperature'" in str(await failure(wrong, temperature=3))


async def test_parameters_are_never_left_out():
    async with scripted(refuses("temperature")) as endpoint:
        with pytest.raises(RequestError, match="not supported with this model"):
            await endpoint.model.complete(ASKED, settings=ModelSettings(parameters={"temperature": 0}))
    assert len(endpoint.requests) == 1


# Conversations


async def test_items_go_back_as_they_came_with_their_ids_and_phases():
    output = [thought(), said("I look.", phase="commentary"), CALL, {**CALL, "id": "fc_2", "call_id": "call_2"}]
    assert await sent_after(*output) == output


async def test_the_readable_content_of_encrypted_reasoning_does_not_go_back():
    content = [{"type": "reasoning_text", "text": "Hm, hm."}]
    [reasoning, _] = await sent_after(thought(content=content, status="completed"), CALL)
    assert reasoning == thought()


async def test_reasoning_that_an_open_model_shows_goes_back():
    content = [{"type": "reasoning_text", "text": "Hm, hm."}]
    shown = {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
    [reasoning, _] = await sent_after(shown, CALL)
    assert reasoning == shown


async def test_ids_do_not_go_back_without_the_reasoning_before_them():
    def without_thinking(turn: Message) -> Message:
        return turn.with_parts(part for part in turn.parts if not isinstance(part, Thinking))

    output = [thought(), said("I look.", phase="commentary"), CALL]
    assert await sent_after(*output, change=without_thinking) == [
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {name: value for name, value in CALL.items() if name != "id"},
    ]


@pytest.mark.parametrize("missing", ["encrypted_content", "following"])
async def test_reasoning_that_the_endpoint_would_refuse_does_not_go_back(missing):
    if missing == "following":  # the turn was cut off during its reasoning
        assert await sent_after(thought()) == []
    else:
        sent = await sent_after(thought(encrypted_content=None), said("Warm."))
        assert sent == [{"role": "assistant", "content": "Warm."}]


async def test_reasoning_of_another_system_or_codec_is_dropped():
    def theirs(codec: str, system: str) -> Thinking:
        data: Any = {"item": thought()}
        return Thinking(text="Hm.", origin=Origin(codec=codec, system=system, data=data))

    async with scripted(["ok"]) as endpoint:
        _, _, host = endpoint.base_url.removesuffix("/v1").partition("//")
        text = Text(text="Warm.")
        turns = [
            Message(role="assistant", parts=(theirs(*origin), text))
            for origin in [(CODEC, "api.openai.com"), ("chat-completions/1", host), (CODEC, host)]
        ]
        await endpoint.model.complete([*ASKED, *turns])
    kinds = [item.get("type") for item in endpoint.requests[0]["input"]]
    assert kinds == [None, None, None, "reasoning", None]


async def test_items_of_the_vendors_own_tools_go_back_whole():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "weather"}}
    async with scripted([stream(completed(search, said("Warm."))), Say("ok")]) as endpoint:
        turn = (await endpoint.model.complete(ASKED)).message
        await endpoint.model.complete([*ASKED, turn, Message.user("Go on.")])
    assert [part.shown for part in turn.parts if isinstance(part, Opaque)] == ["web_search_call"]
    assert endpoint.requests[1]["input"][1] == search


# Streams


async def test_the_output_is_read_from_its_items_if_the_last_event_has_none(in_a_run):
    events = [
        {"type": "response.output_item.done", "output_index": 1, "item": CALL},
        {"type": "response.output_item.done", "output_index": 0, "item": said("I look.")},
        completed(),
    ]
    async with scripted([stream(*events)]) as endpoint:
        completion, heard = await in_a_run(lambda: endpoint.model.complete(ASKED, tools=[WEATHER]))
    assert (completion.text, completion.finish_reason) == ("I look.", "tools")
    assert [type(part) for part in completion.message.parts] == [Text, ToolCall]
    assert [event.text for event in heard if isinstance(event, TokenStreamed)] == ["I look."]  # it was not streamed


async def test_arguments_that_are_an_object_are_read_as_their_json():
    async with scripted([stream(completed({**CALL, "arguments": {"city": "Oslo"}}))]) as endpoint:
        completion = await endpoint.model.complete(ASKED, tools=[WEATHER])
    assert [call.arguments for call in completion.tool_calls] == ['{"city": "Oslo"}']


async def test_halves_of_a_surrogate_pair_are_joined_across_events(in_a_run):
    def piece(text, index=0):
        return {"type": "response.output_text.delta", "output_index": index, "delta": text}

    events = [piece("warm \ud83d"), piece("\ude00"), piece("!"), completed(said("warm \N{GRINNING FACE}!"))]
    async with scripted([stream(*events)]) as endpoint:
        completion, heard = await in_a_run(lambda: endpoint.model.complete(ASKED))
    assert completion.text == "warm \N{GRINNING FACE}!"
    assert [event.text for event in heard if isinstance(event, TokenStreamed)] == ["warm ", "\N{GRINNING FACE}", "!"]


async def test_several_summaries_are_paragraphs(in_a_run):
    summary = [{"type": "summary_text", "text": text} for text in ("First.", "Then.")]
    kind = "response.reasoning_summary"
    events = []
    for number, part in enumerate(summary):
        place = {"output_index": 0, "summary_index": number}
        events.append({"type": f"{kind}_part.added", **place})
        events.append({"type": f"{kind}_text.delta", **place, "delta": part["text"]})
    async with scripted([stream(*events, completed(thought(summary=summary), said("Warm.")))]) as endpoint:
        completion, heard = await in_a_run(lambda: endpoint.model.complete(ASKED))
    assert completion.message.thinking == "First.\n\nThen."
    assert "".join(event.text for event in heard if isinstance(event, ThinkingStreamed)) == "First.\n\nThen."


@pytest.mark.parametrize(
    ("event", "told", "kind", "transient"),
    [
        ({"code": "server_error", "message": "boom"}, "broke off its answer: boom; try again", ModelError, True),
        ({"code": "rate_limit_exceeded", "message": "slow"}, "broke off its answer: slow", ModelError, True),
        ({"code": "insufficient_quota", "message": "pay"}, "has no quota left: pay", ModelError, False),
        ({"code": "context_length_exceeded", "message": "long"}, "too many tokens: long", PromptTooLongError, False),
        ({"code": "invalid_prompt", "message": "flagged"}, "rejects the request: flagged", RequestError, False),
        ({"code": "image_content_policy_violation", "message": "no"}, "content filter", RequestError, False),
        ({"code": "invalid_image", "message": "unreadable"}, "rejects the request: unreadable", RequestError, False),
        ({"message": "key sk-0123456789"}, r"broke off its answer: key \[key\]", ModelError, True),
    ],
)
@pytest.mark.parametrize("form", ["error", "nested error", "failed"])
async def test_a_failure_inside_a_stream_says_what_to_do(form, event, told, kind, transient):
    events = {
        "error": {"type": "error", **event},
        "nested error": {"type": "error", "error": event},
        "failed": {"type": "response.failed", "response": {"status": "failed", "output": [], "error": event}},
    }
    error = await failure(stream({"type": "response.created", "response": {}}, events[form]))
    assert (type(error), error.transient) == (kind, transient)
    with pytest.raises(ModelError, match=told):
        raise error


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (stream({"type": "response.created", "response": {}}), "broke off its answer after 0 characters; try again"),
        (
            stream({"type": "response.output_text.delta", "output_index": 0, "delta": "half"}),
            "broke off its answer after 4 characters; try again",
        ),
        (stream({"choices": []}), "does not speak the OpenAI responses protocol: its answer holds no output"),
        (stream({"type": "response.output_text.delta", "delta": 5}), "its answer cannot be read"),
        (stream(completed("text")), "its answer cannot be read"),  # type: ignore[arg-type]
        (stream(completed(usage={"input_tokens": -1})), "its usage has input_tokens that are not a whole number"),
        (Raw(b'{"output": []}', "application/json"), "answered with plain JSON instead of a stream of events"),
    ],
)
async def test_an_answer_that_breaks_the_protocol_says_how(step, told):
    assert told in str(await failure(step))


# The protocol of an endpoint


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://api.openai.com/v1", "responses"),
        ("https://eu.api.openai.com/v1", "responses"),
        ("https://API.OpenAI.com/v1/", "responses"),
        ("https://us:er@api.openai.com/v1", "responses"),
        ("https://mine.openai.azure.com/openai/v1/", "responses"),
        ("https://mine.services.ai.azure.com/openai/v1", "responses"),
        ("https://mine.openai.azure.com/openai/deployments/gpt", "chat-completions"),
        ("https://api.openai.com.evil.example/v1", "chat-completions"),
        ("https://evilapi.openai.com/v1", "chat-completions"),
        ("https://openrouter.ai/api/v1", "chat-completions"),
        ("http://127.0.0.1:8000/v1", "chat-completions"),
        ("https://[broken/v1", "chat-completions"),
    ],
)
async def test_responses_is_assumed_at_openai_and_azure(url, api):
    assert assumed_api(url) == api
    assert assumed_api(split_login(url)[0] if "[" not in url else url) == api


@pytest.mark.parametrize(
    ("fields", "client"),
    [
        ({}, Responses),
        ({"api": "chat-completions"}, ChatCompletions),
        ({"base_url": "http://127.0.0.1:1/v1"}, ChatCompletions),
        ({"base_url": "http://127.0.0.1:1/v1", "api": "responses"}, Responses),
    ],
)
async def test_a_model_is_asked_in_the_protocol_of_its_endpoint(fields, client):
    model = Model("gpt-5.6", api_key="sk-0123456789", **fields)
    connection = await model._connection()
    assert type(connection.chat) is client
    await model.aclose()


async def test_an_endpoint_without_responses_names_the_setting():
    error = await failure(Fail(404, "Not Found"))
    assert str(error).endswith(
        "(404): Not Found; if this endpoint or model does not have the responses protocol, set the model's `api` to "
        "'chat-completions', as in Model(…, api=\"chat-completions\")"
    )


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (Fail(404, "The model `x` does not exist.", error={"code": "model_not_found"}), False),
        (Fail(404, "The deployment does not exist.", error={"code": "DeploymentNotFound"}), False),
        (Fail(405, "Method Not Allowed"), True),
        (Fail(400, "This model is not supported with the Responses API."), True),
        (Fail(400, "The prompt is empty."), False),
        (Fail(429, "Too many requests to /v1/chat/completions."), False),
    ],
)
async def test_chat_completions_are_advised_only_where_they_may_help(step, named):
    assert ("chat-completions" in str(await failure(step)).partition("; ")[2]) == named


@pytest.mark.parametrize(
    "message",
    [
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function "
        "tools, use /v1/responses or set reasoning_effort to 'none'.",
        "gpt-5.6-terra: tools need the responses endpoint, or reasoning_effort none",
    ],
)
async def test_tools_that_need_the_responses_protocol_name_the_setting(message):
    async with ScriptedModel([Fail(400, message)]) as endpoint:
        with pytest.raises(RequestError, match=r"set its `api` to 'responses', as in Model\(…, api=\"responses\"\)$"):
            await endpoint.model.complete(ASKED, tools=[WEATHER])


async def test_a_file_names_the_protocol(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    assert make_model(ModelSpec(name="m", base_url="http://127.0.0.1:1/v1", api="responses")).api == "responses"
    assert make_model(ModelSpec(name="m")).api is None


def test_the_protocol_is_no_part_of_a_models_identity():
    """Answers that are kept under a model's fingerprint are found again."""
    models = [Model("m", api=api) for api in (None, "responses", "chat-completions")]
    assert models[0].fingerprint() == models[1].fingerprint() == models[2].fingerprint()
    assert "api" not in models[0].fingerprint()
