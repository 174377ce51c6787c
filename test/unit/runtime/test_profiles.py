"""What models can, by their names."""

import re

import pytest

from operad import Operator, Workflow
from operad.configs.models import make_model
from operad.configs.schema import ModelSpec
from operad.runtime.events import SettingsDropped
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
from operad.runtime.models.model import DEFAULT_MODEL, Model
from operad.runtime.models.names import VENDORS
from operad.runtime.models.profiles import _PROFILES, Profile, profile_of
from operad.runtime.models.settings import ModelSettings
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job


@pytest.mark.parametrize(
    ("name", "vision", "thinks", "context"),
    [
        ("gpt-5.6-luna", True, "by default", 1_050_000),
        ("gpt-6.1-sol", True, "always", 1_050_000),
        ("openai/gpt-5.6", True, "by default", 1_050_000),
        ("gpt-5", True, "always", 400_000),
        ("gpt-5.1-2025-11-13", True, "on request", 400_000),
        ("gpt-4.1-mini", True, "never", 1_000_000),
        ("GPT-4o", True, "never", 128_000),
        ("o3-mini", False, "always", 200_000),
        ("claude-opus-5-5", True, "on request", 1_000_000),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", True, "on request", 200_000),
        ("gemini-3.8-flash", True, "always", 1_000_000),
        ("llama3.2-vision:11b", True, None, None),
        ("llama3:8b", False, None, None),
        ("my-model", False, None, None),
    ],
)
def test_what_a_model_can_is_known_by_its_name(name, vision, thinks, context):
    profile = profile_of(name)
    assert (profile.vision, profile.thinks, profile.context) == (vision, thinks, context)


def test_only_a_vendors_own_endpoint_counts_where_the_row_says_so():
    assert not profile_of("deepseek-v4-pro", "deepseek").structured
    assert profile_of("deepseek-v4-pro").structured
    assert not profile_of("deepseek-new", "deepseek").structured


def test_every_pattern_decides_for_some_name_and_every_vendor_is_known():
    """A pattern that an earlier row covers is of no use."""
    for patterns, profile in _PROFILES:
        for pattern in patterns.split():
            vendor, _, wanted = pattern.rpartition("/")
            assert vendor in ("", *(each.prefix for each in VENDORS))
            name = re.sub(r"\[(.)[^]]*\]", r"\1", wanted.replace("*", ""))
            assert profile_of(name, vendor) == profile, pattern


@pytest.mark.parametrize("name", ["claude-2", "claude-2.1", "anthropic.claude-v2:1", "anthropic.claude-instant-v1"])
def test_the_oldest_models_of_anthropic_take_text_alone(name):
    profile = profile_of(name, "anthropic")
    assert (profile.tools, profile.structured, profile.takes, profile.thinks) == ("constrained", False, (), "never")


def test_the_default_model_takes_tools_schemas_and_images():
    profile = profile_of(DEFAULT_MODEL)
    assert (profile.tools, profile.structured, profile.vision) == ("native", True, True)


def test_a_model_overrides_what_is_known_of_it():
    assert Model("gpt-5.6").profile.vision
    assert not Model("gpt-5.6", vision=False).profile.vision
    own = Model("mine", base_url="http://gpu-1/v1", vision=True, tools="constrained", structured=False)
    assert own.profile == Profile(vision=True, tools="constrained", structured=False)
    assert Model("gpt-5.6", base_url="http://gpu-1/v1").fingerprint()["vision"] is True
    assert Model("gpt-5.6").fingerprint() == Model("gpt-5.6", vision=True, tools="native").fingerprint()
    assert Model("gpt-5.6").fingerprint() != Model("gpt-5.6", vision=False).fingerprint()
    weights = EmbeddedModel.of("gemma-3-4b.gguf")
    assert (weights.profile.vision, weights.profile.tools) == (False, "constrained")


def test_a_file_overrides_what_is_known_of_a_model(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123456")
    assert make_model(ModelSpec(name="gpt-5.6")).profile.vision
    assert not make_model(ModelSpec(name="gpt-5.6", vision=False)).profile.vision
    assert make_model(ModelSpec(name="gpt-5.6", tools="constrained")).profile.tools == "constrained"


@pytest.mark.parametrize(
    ("name", "given", "dropped"),
    [
        ("gpt-5.6", {"temperature": 0, "seed": 1}, ("temperature: the model takes none while it reasons",)),
        ("gpt-5.6", {"temperature": 0, "thinking": "off"}, ()),
        ("gpt-5.1", {"temperature": 0}, ()),
        ("gpt-5.1", {"top_p": 0.5, "thinking": "low"}, ("top_p: the model takes none while it reasons",)),
        ("gpt-5", {"thinking": "off"}, ("thinking: the model always reasons",)),
        ("gpt-4o", {"thinking": "high", "temperature": 1}, ("thinking: the model does not reason",)),
        ("gpt-4o", {"thinking": "off", "temperature": 1}, ()),
        ("claude-opus-5", {"temperature": 0.5}, ("temperature: the model takes none",)),
        (
            "claude-sonnet-4-6",
            {"temperature": 0.5, "top_p": 0.5},
            ("top_p: the model takes either temperature or top_p",),
        ),
        ("claude-haiku-4-5-20251001", {"top_p": 0.5}, ()),
        (
            "us.anthropic.claude-opus-4-1-v1:0",
            {"temperature": 0, "top_p": 1},
            ("top_p: the model takes either temperature or top_p",),
        ),
        ("claude-opus-4-20250514", {"temperature": 0.5, "top_p": 0.5}, ()),
        ("gemini-3-pro", {"temperature": 0.5}, ()),
        ("mine", {"temperature": 0.5, "thinking": "high", "top_p": 0.1}, ()),
    ],
)
def test_settings_that_a_model_does_not_take_are_left_out_with_the_reason(name, given, dropped):
    settings = ModelSettings(**given)
    accepted, told = profile_of(name).accepted(settings)
    assert told == dropped
    names = {each.partition(":")[0] for each in told}
    for field, value in given.items():
        sent = getattr(accepted, field)
        assert sent == (None if field in names or (name, value) == ("gpt-4o", "off") else value)


DISABLED = {"thinking": {"type": "disabled"}}
UNKNOWN = "thinking: no way to turn reasoning off is known for this model"
ALWAYS = "thinking: the model always reasons"
NO_EFFORT = "thinking: the model takes no effort; it is asked to reason"


async def thinking_sent(name, thinking, in_a_run):
    """The fields of a request that concern reasoning, and the settings that were dropped."""
    async with ScriptedModel([Say("Hi.")]) as endpoint:
        model = Model(name, base_url=endpoint.model.base_url, api_key="k", thinking=thinking)
        _, heard = await in_a_run(lambda: model.complete([Message.user("Greet.")]))
    [request] = endpoint.requests
    fields = ("thinking", "enable_thinking", "reasoning_effort")
    dropped = [told for event in heard if isinstance(event, SettingsDropped) for told in event.settings]
    return {field: request[field] for field in fields if field in request}, dropped


@pytest.mark.parametrize(
    ("name", "sent", "dropped"),
    [
        ("zai:glm-4.6", DISABLED, []),
        ("zhipu:glm-4.5v", DISABLED, []),
        ("zai:glm-5.2", DISABLED, []),
        ("zai:glm-5.3-flash", {}, [ALWAYS]),
        ("zai:glm-4-32b", {}, [UNKNOWN]),
        ("moonshot:kimi-k2.6", DISABLED, []),
        ("kimi:kimi-k2.5", DISABLED, []),
        ("moonshot:kimi-k3", {}, [ALWAYS]),
        ("moonshot:kimi-k2-thinking", {}, [ALWAYS]),
        ("moonshot:moonshot-v1-8k", {}, [UNKNOWN]),
        ("deepseek:deepseek-reasoner", {}, [ALWAYS]),
        ("deepseek:deepseek-v4-pro", DISABLED, []),
        ("deepseek:deepseek-chat", {}, [UNKNOWN]),
        ("alibaba:qwen3-max", {"enable_thinking": False}, []),
        ("alibaba:qwen3-235b-a22b-thinking-2507", {}, [ALWAYS]),
        ("alibaba:qwen-max", {}, [UNKNOWN]),
        ("xai:grok-4.5", {}, [ALWAYS]),
        ("ollama:qwen3", {"reasoning_effort": "none"}, []),
        ("zai-glm-4.6", {"reasoning_effort": "none"}, []),
    ],
)
async def test_reasoning_is_turned_off_in_the_form_of_the_vendor_or_the_setting_is_named(name, sent, dropped, in_a_run):
    """The vendor is that of the prefix, also at another address."""
    assert await thinking_sent(name, "off", in_a_run) == (sent, dropped)


@pytest.mark.parametrize(
    ("name", "sent", "dropped"),
    [
        ("zai:glm-4.6", {"thinking": {"type": "enabled"}}, [NO_EFFORT]),
        ("zai:glm-5.2", {"reasoning_effort": "high"}, []),
        ("moonshot:kimi-k2.6", {"reasoning_effort": "high"}, []),
        ("deepseek:deepseek-v4-pro", {"reasoning_effort": "high"}, []),
        ("alibaba:qwen3-max", {"enable_thinking": True}, [NO_EFFORT]),
    ],
)
async def test_a_model_without_efforts_is_asked_to_reason_and_the_effort_is_named(name, sent, dropped, in_a_run):
    assert await thinking_sent(name, "high", in_a_run) == (sent, dropped)


def test_parameters_of_the_user_win_over_the_form_of_the_vendor():
    settings = ModelSettings(thinking="off", parameters={"thinking": {"type": "enabled"}})
    accepted, _ = profile_of("glm-4.6", "zai").accepted(settings)
    assert (accepted.thinking, accepted.parameters) == (None, {"thinking": {"type": "enabled"}})


def test_a_setting_that_is_left_out_is_an_event_and_not_sent():
    events = []
    with ScriptedModel([Say("Hi.")] * 2) as endpoint:
        for name in ("gpt-5.6", "mine"):
            model = endpoint.model.model_copy(update={"name": name, "temperature": 0.0})
            Workflow(Operator("Greet."), listeners=[events.append]).run("x", model=model)
        assert ["temperature" in request for request in endpoint.requests] == [False, True]
    dropped = [event for event in events if isinstance(event, SettingsDropped)]
    assert [(event.model, event.settings) for event in dropped] == [
        ("gpt-5.6", ("temperature: the model takes none while it reasons",))
    ]


@pytest.mark.parametrize(("name", "shown"), [("gpt-5.6", True), ("llama3:8b", False)])
async def test_images_are_shown_to_models_that_see_and_others_come_with_a_warning(tmp_path, caplog, name, shown):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n-")
    task = Task(job=Job(goal="What is it?"), instruction="Look.", files=(FileDescriptor.of(tmp_path / "a.png"),))
    async with ScriptedModel([Say("A dot.")]) as endpoint:
        await MonoModelReasoner(endpoint.model.model_copy(update={"name": name})).infer(task)
        content = endpoint.requests[0]["messages"][-1]["content"]
    kinds = [part["type"] for part in content] if isinstance(content, list) else ["text"]
    assert ("image_url" in kinds) is shown
    warned = [record.getMessage() for record in caplog.records if "a.png" in record.getMessage()]
    assert warned == ([] if shown else [warned[0]])
    assert shown or "a.png: the model is not shown this file: use a model that takes images" in warned[0]
