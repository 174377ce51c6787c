"""`operad models` and `operad models test`."""

import json

import pytest

from operad.runtime.models.model import DEFAULT_MODEL
from operad.runtime.models.names import VENDORS
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel
from operad.runtime.values.message import Usage

CAPITAL = Say('{"country": "Norway", "city": "Oslo"}')
WORKS = [Say("Oslo."), CallTools([("phone_code", {"country": "Norway"})]), Say("It is +47-7381."), CAPITAL]


@pytest.fixture
def operad(operad, monkeypatch, tmp_path):
    """Runs a command; returns its exit status, output and errors."""
    for vendor in VENDORS:
        for name in (*vendor.keys, vendor.moved_by, "OPERAD_MODEL", "OPERAD_PRICES"):
            if name:
                monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return operad


def test_the_selected_model_comes_first_then_those_of_the_vendors_with_keys(operad, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "gsk-123456")
    monkeypatch.setenv("NVIDIA_API_KEY", "nv-123456")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123456")
    status, out, err = operad("models")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0].split() == "model tools schema images documents reasons context USD/M in cached out".split()
    assert lines[1].split("  ")[0] == f"{DEFAULT_MODEL} at https://api.openai.com/v1"
    assert any(line.startswith("openai:gpt-5.6-terra ") and "1,050,000" in line for line in lines)
    assert any(line.startswith("groq:openai/gpt-oss-120b ") for line in lines)
    assert not any(word in out for word in ("transcribe", "mistral:", "sk-123456", "gsk-123456"))
    assert lines[-1] == "nvidia: no models are known here; any name of it can be used, as nvidia:NAME"


def test_json_has_the_selected_model_and_all_of_the_vendors(operad, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "m-123456")
    monkeypatch.setenv("OPERAD_MODEL", "mistral:mistral-large-4")
    status, out, _ = operad("models", "--json")
    told = json.loads(out)
    selected = told["selected"]
    assert (status, told["problem"]) == (0, None)
    assert selected["name"] == "mistral-large-4 at https://api.mistral.ai/v1"
    assert (selected["vision"], selected["tools"], selected["context"]) == (True, "native", 1_048_576)
    assert selected["price"]["prompt"] > selected["price"]["cached"] > 0
    (vendor,) = told["vendors"]
    assert (vendor["vendor"], vendor["protocol"], vendor["extra"], vendor["has_key"]) == (
        "mistral",
        "native",
        "mistral",
        True,
    )
    assert "mistral:mistral-large-4" in [model["name"] for model in vendor["models"]]
    assert "m-123456" not in out


def test_without_any_model_the_list_says_what_to_set(operad):
    status, out, _ = operad("models")
    assert status == 1
    assert out.startswith("no model is configured: set OPENAI_API_KEY")


def test_a_problem_of_the_environment_is_told_beside_the_vendors(operad, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "m-123456")
    monkeypatch.setenv("OPERAD_MODEL", "mistrall:large")
    status, out, _ = operad("models")
    assert status == 0
    assert out.startswith("model 'mistrall:large': no vendor has the prefix 'mistrall' (did you mean 'mistral'?)")
    assert "\nmistral:mistral-large-4 " in out


def test_the_models_of_a_vendor_without_a_key_can_be_listed(operad):
    status, out, _ = operad("models", "--vendor", "anthropic")
    assert status == 0
    assert "anthropic:claude-sonnet-5 " in out
    status, _, err = operad("models", "--vendor", "antropic")
    assert status == 2
    assert err.startswith("operad: --vendor antropic: no such vendor (did you mean 'anthropic'?)")


@pytest.mark.parametrize(
    ("written", "meant"), [("OpenAI", "openai"), ("gemini", "google"), ("google-vertex", "google-cloud")]
)
def test_another_name_of_a_vendor_suggests_its_prefix(operad, written, meant):
    status, _, err = operad("models", "--vendor", written)
    assert status == 2
    assert err.startswith(f"operad: --vendor {written}: no such vendor (did you mean {meant!r}?)")
    status, _, err = operad("models", "test", f"{written}:x")
    assert status == 2
    assert f"no vendor has the prefix {written!r} (did you mean {meant!r}?)" in err


@pytest.mark.parametrize("vendor", ["google", "google-cloud"])
def test_models_of_other_makers_at_google_are_not_listed_under_its_prefix(operad, vendor):
    status, out, _ = operad("models", "--vendor", vendor)
    assert (status, "claude" in out) == (0, False)
    assert f"{vendor}:gemini-2.5-flash " in out


def test_models_of_which_only_the_vendor_is_known_are_not_listed(operad):
    status, out, _ = operad("models", "--vendor", "perplexity")
    assert status == 0
    assert "perplexity:perplexity/glm-5.3 " in out
    assert "sonar" not in out


def test_calls_of_a_trial_that_fails_are_counted(operad):
    with ScriptedModel(
        [*WORKS[:3], *[Say("Oslo", usage=Usage(prompt_tokens=100, completion_tokens=1))] * 3]
    ) as endpoint:
        _, out, _ = operad("models", "test", "scripted", "--base-url", endpoint.base_url, "--json")
    usage = json.loads(out)["usage"]
    assert usage["calls"] == 6
    assert usage["prompt_tokens"] > 300


def test_a_model_that_works_is_said_to(operad):
    with ScriptedModel(list(WORKS)) as endpoint:
        status, out, _ = operad("models", "test", "scripted", "--base-url", endpoint.base_url)
    assert status == 0
    words = [line.split() for line in out.splitlines()]
    assert words[0] == ["model:", "scripted", "at", endpoint.base_url]
    assert [(line[0], line[1]) for line in words[2:5]] == [("text", "works"), ("tool", "works"), ("typed", "works")]
    assert out.splitlines()[-1].startswith("4 model calls, ")


@pytest.mark.parametrize(
    ("steps", "works", "detail"),
    [
        ([Fail(400, "no"), *WORKS[1:]], [False, True, True], "rejects the request"),
        ([WORKS[0], Say("I cannot."), CAPITAL], [True, False, True], "the model did not call the tool: I cannot."),
        (
            [*WORKS[:2], Say("No idea."), CAPITAL],
            [True, False, True],
            "the tool's result is not in the answer: No idea.",
        ),
        ([*WORKS[:3], *[Say("Oslo")] * 3], [True, True, False], "gave no answer that fits its schema"),
    ],
)
def test_what_does_not_work_is_said_with_the_reason(operad, steps, works, detail):
    with ScriptedModel(list(steps)) as endpoint:
        status, out, _ = operad("models", "test", "scripted", "--base-url", endpoint.base_url, "--json")
    told = json.loads(out)
    assert (status, told["works"]) == (1, False)
    assert [(each["name"], each["works"]) for each in told["checks"]] == list(
        zip(("text", "tool", "typed"), works, strict=True)
    )
    assert detail in next(each["detail"] for each in told["checks"] if not each["works"])


def test_a_missing_key_is_bad_input_before_any_call(operad):
    status, out, err = operad("models", "test", "mistral:mistral-large-4")
    assert (status, out) == (2, "")
    assert err == "operad: model 'mistral:mistral-large-4': MISTRAL_API_KEY is not set; set it to your key of mistral\n"
