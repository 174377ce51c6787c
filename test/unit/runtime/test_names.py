"""Names of models with vendors, and the addresses and keys that go with them."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from operad import Model, Operator, Workflow
from operad.runtime.models.embedding import EmbeddingModel
from operad.runtime.models.messages import Message
from operad.runtime.models.model import DEFAULT_MODEL
from operad.runtime.models.names import OPENAI, PREFIXES, VENDORS, locate, locate_told, vendor_at
from operad.runtime.models.resolve import resolve_model
from operad.runtime.testing import Fail, Say, ScriptedModel
from operad.runtime.values.errors import InputError, ModelError

HELLO = [Message.user("hello")]
KEY = "sk-of-openai-01"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """An environment without any variable of a vendor; returns a function that sets variables."""
    for vendor in VENDORS:
        for name in (*vendor.keys, vendor.moved_by):
            if name:
                monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPERAD_MODEL", raising=False)

    def environment(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return environment


class Seen:
    """An endpoint that keeps model and headers of each request."""

    def __init__(self):
        self.requests = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append((body["model"], headers))
        said = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
        data = f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n".encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n%s" % (len(data), data))
        await writer.drain()
        writer.close()

    @property
    def asked(self):
        """Name and key of each request."""
        return [(name, headers.get("authorization")) for name, headers in self.requests]


# Prefixes


@pytest.mark.parametrize(
    ("name", "vendor", "sent", "base_url"),
    [
        ("openai:gpt-5.6", "openai", "gpt-5.6", "https://api.openai.com/v1"),
        ("mistral:mistral-large-latest", "mistral", "mistral-large-latest", "https://api.mistral.ai/v1"),
        ("ollama:llama3:8b", "ollama", "llama3:8b", "http://localhost:11434/v1"),
        (
            "openrouter:mistralai/mistral-nemo:free",
            "openrouter",
            "mistralai/mistral-nemo:free",
            "https://openrouter.ai/api/v1",
        ),
        ("kimi:kimi-k3", "moonshot", "kimi-k3", "https://api.moonshot.ai/v1"),
        ("gpt-5.6", "openai", "gpt-5.6", "https://api.openai.com/v1"),
        ("ft:gpt-4o:me::1", "openai", "ft:gpt-4o:me::1", "https://api.openai.com/v1"),
        ("openai:ft:gpt-4o:me::1", "openai", "ft:gpt-4o:me::1", "https://api.openai.com/v1"),
    ],
)
def test_a_prefix_names_vendor_and_address(name, vendor, sent, base_url):
    located = locate(name, None, "", {})
    assert (located.vendor and located.vendor.prefix, located.name, located.base_url) == (vendor, sent, base_url)


@pytest.mark.parametrize(
    "name", ["llama3:8b", "mistral:7b", "mistral:7b-instruct-q4_K_M", "mistral:latest", "ft:x:y", "a:b:c"]
)
def test_a_name_with_a_colon_that_is_no_vendors_is_sent_as_it_is_to_an_endpoint(name):
    for url, environ in (("http://gpu-1:8000/v1", {}), (None, {"OPENAI_BASE_URL": "http://gpu-1:8000/v1"})):
        located = locate(name, url, "", environ)
        assert (located.name, located.base_url, located.vendor) == (name, "http://gpu-1:8000/v1", None)


def test_a_vendors_prefix_is_left_out_also_at_another_endpoint():
    located = locate("openai:gpt-5.6", "http://gateway/v1", "", {})
    assert (located.name, located.base_url, located.protocol) == ("gpt-5.6", "http://gateway/v1", "chat-completions")


@pytest.mark.parametrize(
    ("name", "near"), [("opnai:gpt-5.6", "openai"), ("mistrall:large", "mistral"), ("google-gla:g", "google")]
)
def test_an_unknown_prefix_is_an_error_with_the_nearest_known_one(name, near):
    prefix = name.partition(":")[0]
    with pytest.raises(
        InputError, match=rf"^model '{name}': no vendor has the prefix '{prefix}' \(did you mean '{near}'\?\)"
    ):
        locate(name, None, "", {})
    with pytest.raises(InputError, match="no vendor has the prefix"):
        resolve_model(name, environ={"OPENAI_API_KEY": KEY})
    with pytest.raises(InputError, match="'ollama:llama3:8b'"):
        locate("llama3:8b", None, "", {})


def test_a_vendor_of_resources_needs_the_address_of_one():
    with pytest.raises(InputError, match="set AZURE_OPENAI_ENDPOINT to the address of your resource"):
        locate("azure:gpt", None, "", {})
    for address in ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/"):
        located = locate("azure:gpt", None, "", {"AZURE_OPENAI_ENDPOINT": address, "AZURE_OPENAI_API_KEY": "az"})
        assert located.base_url.rstrip("/") == "https://r.openai.azure.com/openai/v1"
        assert (located.protocol, located.key) == ("responses", "az")


def test_a_vendor_is_known_by_its_host_alone():
    assert [vendor_at(each.base_url) for each in VENDORS if "://" in each.base_url and "*" not in each.base_url] == [
        each for each in VENDORS if "://" in each.base_url and "*" not in each.base_url
    ]
    for url in (
        "https://api.openai.com.evil.example/v1",
        "https://api.openai.com@evil.example",
        "http://api.openai.com/v1",
        "x",
    ):
        assert vendor_at(url) is None
    assert vendor_at("https://API.OpenAI.com:443/v1/") is OPENAI


def test_every_prefix_is_one_vendors_and_no_tag():
    names = [name for each in VENDORS for name in (each.prefix, *each.aliases)]
    assert sorted(names) == sorted(PREFIXES) == sorted(set(names))
    assert all(each.extra for each in VENDORS if each.protocol == "native")


# Everywhere a name is taken


@pytest.mark.parametrize("way", ["Model", "Operator", "Workflow", "run", "environment"])
def test_a_prefix_works_wherever_a_name_is_taken(environment, way):
    with ScriptedModel([Say("Good day.")]) as endpoint:
        environment(OLLAMA_BASE_URL=endpoint.base_url)
        name = "ollama:llama3"
        if way == "environment":
            environment(OPERAD_MODEL=name)
        operator = Operator("Greet.", model=name if way == "Operator" else None)
        workflow = Workflow(operator, model=name if way == "Workflow" else None)
        model = {"Model": Model(name, temperature=0), "run": name}.get(way)
        assert workflow.run("Hello.", model=model).text == "Good day."
        assert endpoint.requests[0]["model"] == "llama3"


# Keys


async def test_a_model_takes_address_and_key_from_the_environment_at_the_time_of_the_call(environment):
    model = Model("gpt-5.6", temperature=0)
    async with Seen() as one, Seen() as other:
        environment(OPENAI_BASE_URL=one.url, OPENAI_API_KEY=KEY)
        await model.complete(HELLO)
        assert (model.describe(), model.fingerprint()["base_url"]) == (f"gpt-5.6 at {one.url}", one.url)
        environment(OPENAI_BASE_URL=other.url, OPENAI_API_KEY="sk-another-02")
        await model.complete(HELLO)
        await model.aclose()
    assert one.asked == [("gpt-5.6", f"Bearer {KEY}")]
    assert other.asked == [("gpt-5.6", "Bearer sk-another-02")]


async def test_without_a_key_no_authorization_is_sent(environment):
    environment(OPENAI_ORG_ID="org-1", OPENAI_PROJECT_ID="project-1")
    async with Seen() as seen:
        await Model("m", base_url=seen.url).complete(HELLO)
        await Model("m", base_url=seen.url.replace("//", "//me:word@")).complete(HELLO)
    assert seen.asked == [("m", None), ("m", "Basic bWU6d29yZA==")]
    assert not {"openai-organization", "openai-project"} & {name for _, headers in seen.requests for name in headers}


async def test_an_address_of_ones_own_gets_the_key_only_if_the_environment_pairs_them(environment):
    async with Seen() as seen:
        environment(OPENAI_API_KEY=KEY)
        await Model("m", base_url=seen.url).complete(HELLO)
        environment(OPENAI_BASE_URL=f"{seen.url}/")
        await Model("m", base_url=seen.url).complete(HELLO)
        await Model("m", base_url=f"{seen.url}/v2").complete(HELLO)
        await Model("m", base_url=seen.url, api_key="sk-own").complete(HELLO)
    assert [key for _, key in seen.asked] == [None, f"Bearer {KEY}", None, "Bearer sk-own"]


@pytest.mark.parametrize(
    ("name", "base_url", "key"),
    [
        ("gpt", None, "of-gateway"),
        ("openai:gpt", None, "of-gateway"),
        ("gpt", "https://api.openai.com/v1", ""),  # the key of the gateway is not OpenAI's
        ("mistral:large", None, "of-mistral"),
        ("large", "https://api.mistral.ai/v1", "of-mistral"),
        ("mistral:large", "https://api.mistral.ai.evil.example/v1", ""),
        ("mistral:large", "http://api.mistral.ai/v1", ""),
        ("openai:gpt", "http://elsewhere/v1", ""),
        ("ollama:llama3", None, ""),
        ("google:gemini", None, "of-google"),
    ],
)
def test_a_key_goes_only_to_the_address_that_the_environment_pairs_it_with(name, base_url, key):
    environ = {
        "OPENAI_BASE_URL": "http://gateway:1/v1",
        "OPENAI_API_KEY": "of-gateway",
        "MISTRAL_API_KEY": "of-mistral",
        "GEMINI_API_KEY": "of-google",
    }
    assert locate(name, base_url, "", environ).key == key


def test_a_command_that_names_an_address_means_the_key_of_the_environment_for_it():
    environ = {"OPENAI_API_KEY": KEY, "MISTRAL_API_KEY": "m"}
    assert locate_told("x", "http://gpu-1/v1", "", environ).key == KEY
    assert locate_told("x", "http://localhost:8000/v1", "", environ).key == KEY
    assert locate_told("x", "https://api.mistral.ai/v1", "", environ).key == "m"
    assert locate_told("x", "https://api.groq.com/openai/v1", "", environ).key == ""
    assert locate_told("ollama:x", None, "", environ).key == ""


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5.6", "OPENAI_API_KEY"),
        ("google:g", "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("groq:x", "GROQ_API_KEY"),
    ],
)
async def test_a_vendor_without_its_key_is_an_error_before_the_call(name, variable):
    with pytest.raises(InputError, match=f"set {variable}, or give the model its api_key"):
        await Model(name).complete(HELLO)
    with pytest.raises(InputError, match=f"set {variable}"):
        Model(name).check()
    with pytest.raises(InputError, match="OPENAI_API_KEY" if name.startswith("openai") else f"{variable} is not set"):
        resolve_model(name, environ={})
    with pytest.raises(InputError, match=variable):
        await Workflow(Operator("Go.")).arun("x", model=Model(name))


async def test_a_call_that_is_refused_for_want_of_a_key_says_where_the_key_of_the_environment_belongs(environment):
    environment(OPENAI_API_KEY=KEY)
    async with ScriptedModel([Fail(401, "no key")]) as endpoint:
        model = endpoint.model.model_copy(update={"api_key": None})
        with pytest.raises(ModelError) as caught:
            await model.complete(HELLO)
    text = str(caught.value)
    assert "requires an API key, but none was sent (401): OPENAI_API_KEY is for https://api.openai.com/v1" in text
    assert "give the model its api_key" in text
    assert "set OPENAI_BASE_URL to this address" in text
    assert KEY not in text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("deepseek:deepseek-chat", "set the key of this endpoint; DEEPSEEK_API_KEY is for https://api.deepseek.com"),
        ("groq:x", "set the key of this endpoint; GROQ_API_KEY is for https://api.groq.com/openai/v1"),
        ("lmstudio:x", "set the key of this endpoint"),
        ("x", "set OPENAI_API_KEY, or the key of this endpoint"),
    ],
)
async def test_a_refused_key_names_that_of_the_prefix_and_the_reason_of_the_endpoint(name, told):
    async with ScriptedModel([Fail(401, f"Suspended: {KEY}.")]) as endpoint:
        with pytest.raises(ModelError) as caught:
            await Model(name, base_url=endpoint.model.base_url, api_key=KEY).complete(HELLO)
    assert str(caught.value).endswith(f" refuses the API key (401): Suspended: [key].; {told}")


async def test_a_refused_key_of_an_address_in_the_environment_names_its_variable(environment):
    async with ScriptedModel([Fail(401, "Unpaid.")] * 2) as endpoint:
        environment(DASHSCOPE_API_KEY=KEY, DASHSCOPE_BASE_URL=endpoint.model.base_url)
        for model in (Model("alibaba:qwen-max"), resolve_model("alibaba:qwen-max")):
            with pytest.raises(ModelError) as caught:
                await model.complete(HELLO)
            told = "Unpaid.; set DASHSCOPE_API_KEY or ALIBABA_API_KEY, or the key of this endpoint"
            assert str(caught.value).endswith(f"refuses the API key (401): {told}")


async def test_a_missing_key_of_a_vendor_with_an_address_of_its_own_names_the_variables_of_that_vendor():
    async with ScriptedModel([Fail(401, "No key.")]) as endpoint:
        with pytest.raises(
            ModelError, match=r"set DASHSCOPE_BASE_URL to this address and DASHSCOPE_API_KEY .*: No key"
        ):
            await Model("alibaba:qwen-max", base_url=endpoint.model.base_url).complete(HELLO)


@pytest.mark.parametrize(
    ("name", "variable", "key", "own"),
    [
        ("anthropic:claude-sonnet-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1"),
        (
            "google:gemini-2.5-flash",
            "GOOGLE_GEMINI_BASE_URL",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
    ],
)
def test_the_variable_of_a_vendors_package_moves_address_key_and_price(environment, name, variable, key, own):
    environment(**{key: KEY})
    assert (Model(name).located().base_url, Model(name).find_price() is None) == (own, False)
    environment(**{variable: "https://gateway.example"})
    moved = Model(name)
    assert moved.describe() == f"{name.partition(':')[2]} at https://gateway.example"
    assert (moved.located().key, moved.located().protocol, moved.find_price()) == (KEY, "native", None)
    assert Model(name, base_url=own).located().key == ""
    assert Model(name, base_url="https://other.example").located().key == ""


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-5", "google:gemini-2.5-flash"])
async def test_an_address_that_is_given_wins_over_the_variable_of_the_vendors_package(environment, name, web):
    address = await web.serve(web.reply(b"no", 400))
    environment(ANTHROPIC_BASE_URL=address, GOOGLE_GEMINI_BASE_URL=address)
    own = PREFIXES[name.partition(":")[0]].base_url
    client: Any = Model(name, base_url=own, api_key=KEY)._open(Model(name, base_url=own, api_key=KEY).located())
    assert urlsplit(str(client._model.base_url)).netloc == urlsplit(own).netloc
    with pytest.raises(ModelError):
        await Model(name, api_key=KEY, max_retries=0).complete(HELLO)
    assert len(web.requests) == 1


async def test_a_settled_name_that_begins_like_a_prefix_stays_that_of_its_vendor(environment):
    """The name is `deepseek:r1` at Ollama: it is not a model of DeepSeek's."""
    settled = Model("ollama:deepseek:r1").settled()
    assert settled.describe() == "deepseek:r1 at http://localhost:11434/v1"
    assert settled.located().vendor is PREFIXES["ollama"]
    assert settled.model_copy(update={"name": "groq:x"}).located().vendor is PREFIXES["groq"]


@pytest.mark.parametrize("name", ["", "  "])
@pytest.mark.parametrize("kind", [Model, EmbeddingModel])
def test_a_model_without_a_name_is_an_error(kind, name):
    with pytest.raises(InputError, match="name: is empty; write the name of a model, such as 'mistral:"):
        kind(name, base_url="http://gpu-1:8000/v1")


def test_a_prefix_without_a_name_is_an_error():
    for base_url in (None, "http://gpu-1:8000/v1"):
        with pytest.raises(InputError, match=r"'openai:': the name of the model is missing .*; write openai:NAME"):
            Model("openai:", base_url=base_url).check()
    with pytest.raises(InputError, match=r"no vendor has the prefix 'gemini' \(did you mean 'google'\?\)"):
        Model("gemini:").check()


# Choosing a model


def test_keys_of_other_vendors_are_mentioned_where_no_model_is_chosen():
    with pytest.raises(InputError, match=r"ANTHROPIC_API_KEY is set: a model of anthropic is named as anthropic:NAME"):
        resolve_model(environ={"ANTHROPIC_API_KEY": "k"})
    with pytest.raises(InputError, match=r"^model 'claude': no endpoint is configured.*named as anthropic:NAME"):
        resolve_model("claude", environ={"ANTHROPIC_API_KEY": "k"})


def test_a_resolved_model_keeps_its_vendor_and_describes_the_model_at_its_address():
    model = resolve_model("groq:llama-3.3-70b-versatile", environ={"GROQ_API_KEY": "gsk-1234567"})
    assert model.describe() == "llama-3.3-70b-versatile at https://api.groq.com/openai/v1"
    assert model.api_key == SecretStr("gsk-1234567")
    assert model.located().vendor == PREFIXES["groq"]


def test_models_of_one_name_are_told_apart_by_their_endpoints(environment):
    environment(OPENAI_API_KEY=KEY)
    assert Model().name == DEFAULT_MODEL
    assert Model("x").fingerprint() == Model("openai:x").fingerprint() | {"type": Model("x").fingerprint()["type"]}
    assert Model("x").fingerprint() != Model("groq:x").fingerprint()
    assert Model("opnai:x").describe() == "opnai:x"


def test_an_embedding_model_is_named_with_its_vendor(environment):
    environment(MISTRAL_API_KEY="of-mistral")
    settled = EmbeddingModel("mistral:mistral-embed").settled()
    assert (settled.name, settled.base_url) == ("mistral-embed", "https://api.mistral.ai/v1")
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        EmbeddingModel("text-embedding-3-small").embed(["x"])
