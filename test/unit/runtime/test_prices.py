import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from operad.cli.progress import RunView, used
from operad.configs import load
from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Budget,
    BuiltinWorkflow,
    InputError,
    InvalidError,
    Job,
    Model,
    MonoModelReasoner,
    OperatorError,
    Price,
    Usage,
    resolve_model,
)
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.run_owner import leave
from operad.runtime.events import ModelAnswered, RunStarted
from operad.runtime.models import names
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
from operad.runtime.models.model import DEFAULT_MODEL
from operad.runtime.models.names import PREFIXES, VENDORS, locate
from operad.runtime.models.prices import MAX_BYTES, list_price, own_file, read_prices
from operad.runtime.testing import Fail, Say, ScriptedModel

OPENAI = {"OPENAI_API_KEY": "sk-of-a-test"}
OWN = """
api.openai.com:
  gpt-4o: {prompt: 1, completion: 3}
  gpt-99: {prompt: 7, completion: 9.5}
  gpt-98: {prompt: 1, completion: 2, cached: 0.1, cache_written: 1.25}
gpu-1:8000:
  llama: {prompt: 0, completion: 0}
GPU-1:
  llama: {prompt: 5, completion: 5}
"""


@pytest.fixture
def prices(tmp_path):
    """Writes a file of prices: ``prices(text)`` is its path."""

    def prices(text=OWN, name="prices.yaml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return prices


def price_of(name, environ=OPENAI, base_url=None):
    return resolve_model(name, base_url, environ=environ).price


def listed(name, base_url=None) -> Any:
    """List price of a model; None if there is none."""
    return list_price(locate(name, base_url, "", {}))


# List prices


def test_a_model_of_a_vendor_has_its_list_price():
    assert listed("gpt-4o-mini").today() == Price(prompt=0.15, completion=0.6, cached=0.075, cache_written=0.15)
    assert listed("anthropic:claude-haiku-4-5").today() == Price(prompt=1, completion=5, cached=0.1, cache_written=1.25)
    assert listed("claude-haiku-4-5", "https://api.anthropic.com/v1/") == listed("anthropic:claude-haiku-4-5")
    assert listed("bedrock:amazon.nova-lite-v1:0") is not None


def test_cached_and_written_tokens_have_prices_of_their_own():
    usage = Usage(prompt_tokens=1000, cached_tokens=900, completion_tokens=10, reasoning_tokens=8)
    assert listed("gpt-4o-mini").of(usage) == pytest.approx((100 * 0.15 + 900 * 0.075 + 10 * 0.6) / 1e6)
    written = Usage(prompt_tokens=1000, cache_written_tokens=1000)
    assert listed("anthropic:claude-haiku-4-5").of(written) == pytest.approx(1000 * 1.25 / 1e6)


def test_reasoning_has_its_price_where_it_is_another():
    price = listed("perplexity:sonar-deep-research")
    reasoned = Usage(completion_tokens=1000, reasoning_tokens=1000)
    assert 0 < price.of(reasoned) != price.of(Usage(completion_tokens=1000))


def test_counts_that_contradict_each_other_are_counted_as_whole_prompts():
    price = listed("gpt-4o-mini")
    assert price.of(Usage(prompt_tokens=10, cached_tokens=900)) == price.of(Usage(prompt_tokens=10))


def test_a_price_may_depend_on_the_size_of_the_prompt():
    price = listed("gpt-5.6")
    assert price.of(Usage(prompt_tokens=600_000)) > 2 * price.of(Usage(prompt_tokens=200_000))


def test_the_default_model_has_a_price():
    assert listed(DEFAULT_MODEL) is not None


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06-mine", "gpt-99", "ft:gpt-4o:me", "gpt", " ", "-20240806"])
def test_another_name_is_unknown_however_near_it_is(name):
    assert listed(name) is None


@pytest.mark.parametrize(
    "base_url",
    [
        "http://localhost:8000/v1",
        "https://openai.example.com/v1",
        "https://api.openai.com.example.com/v1",
        "https://api.openai.com@example.com/v1",
        "https://example.com/api.openai.com",
        "http://[::1/v1",
        "nowhere",
        "embedded",
    ],
)
def test_the_same_name_elsewhere_is_unknown(base_url):
    assert listed("gpt-4o", base_url) is listed("openai:gpt-4o", base_url) is None


@pytest.mark.parametrize("base_url", ["https://API.OpenAI.com/v1", "https://me:pass@api.openai.com:443/v1"])
def test_the_host_is_known_however_it_is_written(base_url):
    assert listed("gpt-4o", base_url) == listed("gpt-4o")


def test_the_embedded_model_costs_nothing_and_that_is_known(prices):
    assert resolve_model("embedded", environ={}).price == EmbeddedModel().find_price() == Price()


def test_a_model_that_is_made_by_hand_has_the_same_price_as_one_that_is_named(prices, monkeypatch):
    for name in ("OPERAD_PRICES", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Model(name="gpt-4o").find_price() == listed("gpt-4o")
    monkeypatch.setenv("OPERAD_PRICES", str(prices()))
    assert Model(name="gpt-4o").find_price() == Price(prompt=1, completion=3)
    assert Model(name="gpt-4o", price=Price(prompt=9)).find_price() == Price(prompt=9)


@pytest.mark.slow
def test_operad_and_a_call_of_a_server_of_ones_own_do_not_import_the_list_prices():
    code = """
import sys
from operad import Model, Operator, Workflow
from operad.testing import Say, ScriptedModel
with ScriptedModel([Say("Hi.")]) as endpoint:
    Workflow(Operator("Greet.")).run("x", model=Model("m", base_url=endpoint.base_url))
print([name for name in sys.modules if name.startswith("genai_prices")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_call_costs_what_the_list_says_and_a_model_without_a_price_is_said_once(monkeypatch, caplog):
    """The address of a vendor cannot be reached here, so a scripted endpoint takes the place of one."""
    async with ScriptedModel([Say("a")] * 4) as endpoint:
        vendor = replace(PREFIXES["groq"], base_url=endpoint.base_url)
        vendors = tuple(vendor if each.prefix == "groq" else each for each in VENDORS)
        monkeypatch.setattr(names, "VENDORS", vendors)
        monkeypatch.setattr(names, "PREFIXES", {**PREFIXES, "groq": vendor})
        listed, unlisted = (
            Model(f"groq:{name}", api_key="gsk-123456") for name in ("llama-3.3-70b-versatile", "llama-99")
        )
        usage = (await listed.complete([Message.user("x")])).usage
        known = list_price(listed.located())
        assert (usage.unpriced, known is None) == (0, False)
        assert known
        assert usage.cost == pytest.approx(known.of(usage))
        assert usage.cost > 0
        for model in (unlisted, unlisted, unlisted.model_copy()):
            assert (await model.complete([Message.user("x")])).usage.unpriced == 1
    said = [record.getMessage() for record in caplog.records if "price is unknown" in record.getMessage()]
    assert len(said) == 1
    assert "give it one: Model(price=Price(" in said[0]


@pytest.mark.parametrize(
    ("name", "host", "key", "is_said"),
    [
        ("metered", "127.1", "k-123456", True),  # the same machine, but nobody sees that in the address
        ("groq:moved", "127.0.0.1", "k-123456", True),
        ("own", "127.0.0.1", "k-123456", False),
        ("own", "127.1", None, False),
        ("ollama:own", "127.1", None, False),
    ],
)
async def test_a_gateway_without_a_price_is_said_and_a_server_of_the_users_is_not(name, host, key, is_said, caplog):
    async with ScriptedModel([Say("a")] * 2) as endpoint:
        for _ in range(2):
            model = Model(name, base_url=endpoint.base_url.replace("127.0.0.1", host), api_key=key)
            assert (await model.complete([Message.user("x")])).usage.unpriced == 1
    said = [record.getMessage() for record in caplog.records if "price is unknown" in record.getMessage()]
    assert len(said) == is_said


# The user's file


def test_a_file_of_the_users_wins_over_the_table_and_adds_to_it(prices):
    environ = {**OPENAI, "OPERAD_PRICES": str(prices())}
    assert price_of("gpt-4o", environ) == price_of("gpt-4o-2024-11-20", environ) == Price(prompt=1, completion=3)
    assert price_of("gpt-99", environ) == Price(prompt=7, completion=9.5)
    assert price_of("gpt-98", environ) == Price(prompt=1, completion=2, cached=0.1, cache_written=1.25)
    assert price_of("gpt-4o-mini", environ) is None


@pytest.mark.parametrize(("port", "price"), [(8000, Price()), (9000, Price(prompt=5, completion=5))])
def test_a_host_with_its_port_comes_before_one_without(prices, port, price):
    environ = {"OPERAD_PRICES": str(prices())}
    assert price_of("llama", environ, f"http://Gpu-1:{port}/v1") == price


def test_the_file_is_looked_for_in_the_folder_for_configuration(prices, tmp_path):
    home, xdg = tmp_path / "home", tmp_path / "xdg"
    in_home = prices(name="home/.config/operad/prices.yaml")
    assert own_file({"HOME": str(home)}) == in_home
    assert own_file({"HOME": str(home), "XDG_CONFIG_HOME": "relative"}) == in_home
    assert own_file({"HOME": str(home), "XDG_CONFIG_HOME": str(xdg)}) is None
    in_xdg = prices(name="xdg/operad/prices.yaml")
    assert own_file({"HOME": str(home), "XDG_CONFIG_HOME": str(xdg)}) == in_xdg
    assert str(own_file({"HOME": str(home), "OPERAD_PRICES": "mine.yaml"})) == "mine.yaml"
    assert own_file({}) is own_file({"OPERAD_PRICES": ""}) is None


def test_what_the_file_says_counts_when_a_model_is_asked_for(prices):
    environ = {**OPENAI, "OPERAD_PRICES": str(prices())}
    assert price_of("gpt-99", environ) == Price(prompt=7, completion=9.5)
    prices("api.openai.com: {gpt-99: {prompt: 1, completion: 1}}")
    assert price_of("gpt-99", environ) == Price(prompt=1, completion=1)


def price_in(configuration):
    reasoner = load(configuration).expert().reasoner
    assert isinstance(reasoner, MonoModelReasoner)
    return reasoner.model.price


def test_an_explicit_price_wins(prices, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    monkeypatch.setenv("OPERAD_PRICES", str(prices()))
    file = tmp_path / "expert.yaml"
    file.write_text(EXPERT + "model: {name: gpt-4o, price: {prompt: 4, completion: 5}}\n")
    assert price_in(file) == Price(prompt=4, completion=5)
    file.write_text(EXPERT + "model: {name: gpt-4o}\n")
    assert price_in(file) == Price(prompt=1, completion=3)


WRONG = """\
gpt-4o: {prompt: 1, completion: 2}
https://api.openai.com/v1:
  a: {prompt: 1, completion: 2}
me:secret@host: {}
"": {}
host.one: cheap
host.two:
  a: 3
  b: {promt: 1, completion: 2}
  c: {prompt: -1, completion: 1_000_000_001}
  d: {prompt: no, completion: yes}
  e: {prompt: "2", completion: 1e10}
  f: {}
"""


def test_all_that_is_wrong_with_a_file_is_said_at_once_with_its_lines(prices):
    file = prices(WRONG)
    with pytest.raises(InvalidError) as error:
        read_prices(file)
    found = [(issue.code, issue.where.removeprefix(f"{file}:"), issue.message) for issue in error.value.issues]
    assert [(code, where) for code, where, _ in found] == [
        ("host", "1 gpt-4o"),
        ("host", "2 https://api.openai.com/v1"),
        ("host", "4 me:secret@host"),
        ("host", "5"),
        ("value", "6 host.one"),
        ("value", "8 host.two.a"),
        ("unknown-key", "9 host.two.b.promt"),
        ("missing-key", "9 host.two.b"),
        ("value", "10 host.two.c.prompt"),
        ("value", "10 host.two.c.completion"),
        ("value", "11 host.two.d.prompt"),
        ("value", "11 host.two.d.completion"),
        ("value", "12 host.two.e.prompt"),
        ("value", "12 host.two.e.completion"),
        ("missing-key", "13 host.two.f"),
        ("missing-key", "13 host.two.f"),
    ]
    messages = "\n".join(message for *_, message in found)
    assert "did you mean 'prompt'?" in messages
    assert "below the host of its endpoint" in messages
    assert "not 'yes'" in messages
    assert "not '2'" in messages


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("", InputError, "is empty"),
        ("- a", InvalidError, "must be a mapping"),
        ("a: [", InvalidError, "is not YAML"),
        ("a: {b: {prompt: 1, completion: 2}}\na: {}", InvalidError, "duplicate key"),
        ("a: {b: !!python/object/apply:os.system [exit]}", InvalidError, "tag"),
        ("a: {b: {prompt: " + "9" * 290 + ", completion: 1}}", InvalidError, "must be from 0 to"),
        ("a: {b: {prompt: 1" + "0" * 400 + ", completion: 1}}", InvalidError, "a number of 401 characters"),
        ("a: &a {b: &b {x: 1}, c: *a}", InvalidError, "contains itself"),
        ("a: " + "{b: " * 100 + "1" + "}" * 100, InvalidError, "nested"),
        ("a: {b: {prompt: 1, completion: 2}}\n" + "#" * MAX_BYTES, InputError, "bytes are more than"),
        ("a: \0", InputError, "binary"),
    ],
)
def test_a_hostile_file_is_an_error_in_words(prices, text, error, told):
    with pytest.raises(error, match=told):
        resolve_model("gpt-4o", environ={**OPENAI, "OPERAD_PRICES": str(prices(text))})


def test_a_file_that_is_named_must_be_there(prices, tmp_path):
    prices()
    with pytest.raises(InputError, match=r"no such file \(did you mean 'prices.yaml'\?\); OPERAD_PRICES names it"):
        resolve_model("gpt-4o", environ={**OPENAI, "OPERAD_PRICES": str(tmp_path / "price.yaml")})


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf])
def test_a_price_in_code_is_a_number_from_nothing_up(amount):
    with pytest.raises(ValueError, match="completion"):
        Price(completion=amount)


# Usage


def test_a_call_without_a_price_is_counted_as_such():
    assert Usage(calls=2) + Usage(calls=1, cost=0.5) == Usage(calls=3, cost=0.5, unpriced=2)


@pytest.mark.parametrize(
    ("usage", "money"),
    [
        (Usage(), "0 USD"),
        (Usage(calls=2), "unknown"),
        (Usage(calls=2, unpriced=1), "unknown"),
        (Usage(calls=2, unpriced=0), "0 USD"),
        (Usage(calls=1, cost=0.0123), "0.0123 USD"),
        (Usage(calls=1, cost=0.1234567), "0.123457 USD"),
        (Usage(calls=1, cost=3e-9), "less than 0.000001 USD"),
        (Usage(calls=1, cost=1234.5), "1,234.50 USD"),
        (Usage(calls=2, cost=0.5, unpriced=1), "0.5 USD + 1 call of unknown price"),
        (Usage(calls=4, cost=0.0123, unpriced=3), "0.0123 USD + 3 calls of unknown price"),
    ],
)
def test_money_is_said_in_one_way_and_unknown_is_never_0(usage, money):
    assert usage.money() == money


@pytest.mark.parametrize(
    ("usage", "cost"),
    [(Usage(calls=1), None), (Usage(calls=1, unpriced=0), 0), (Usage(calls=2, cost=1, unpriced=1), 1)],
)
def test_json_says_null_where_the_cost_is_unknown_and_is_read_again(usage, cost):
    said = json.loads(usage.model_dump_json())
    assert (said["cost"], said["unpriced"]) == (cost, usage.unpriced)
    assert Usage.model_validate(said) == usage


@pytest.mark.parametrize(("cost", "unpriced"), [(0.0, 3), (0.25, 0)])
def test_usage_that_was_kept_before_there_was_a_count_is_read(cost, unpriced):
    kept = {"calls": 3, "prompt_tokens": 1, "completion_tokens": 2, "seconds": 0.5, "cost": cost}
    assert Usage.model_validate(kept).unpriced == unpriced


def test_what_models_were_asked_is_said_with_the_cost_where_any_was_asked():
    assert used(Usage()) == "0 model calls, 0 tokens"
    assert used(Usage(calls=1, prompt_tokens=2)) == "1 model call, 2 tokens, cost unknown"


def test_a_budget_of_money_refuses_an_unknown_price_and_names_the_file_of_prices():
    with ScriptedModel([]) as scripted:
        workflow = BuiltinWorkflow(budget=Budget(cost=1))
        workflow.add_operator(Operator(OperatorConfig(instruction="Say it.")))
        with pytest.raises(OperatorError, match=r"no price, .* or a file of prices \(--prices FILE, OPERAD_PRICES\)"):
            workflow.execute(Job(goal="x"), MonoModelReasoner(scripted.model))


# What people see


def headers(view):
    return [column.header for column in view.table().columns]


def test_the_table_shows_the_cost_as_soon_as_one_is_known():
    view = RunView()
    view.apply(RunStarted(operators={"a": (), "b": ()}, workflow="w", goal="g"))
    view.apply(ModelAnswered(path=("a",), operator_id="a", model="m", usage=Usage(calls=1)))
    assert "cost" not in headers(view)
    view.apply(ModelAnswered(path=("b",), operator_id="b", model="m", usage=Usage(calls=1, cost=0.5)))
    [column] = [column for column in view.table().columns if column.header == "cost"]
    assert list(column.cells) == ["unknown", "0.5 USD", "0.5 USD + 1 call of unknown price"]


EXPERT = """
operators:
  - &list {instruction: List fruits.}
  - &sort {instruction: Sort them.}
experts:
  - profile: {name: Greengrocer}
    workflow: [[*list, *sort]]
"""
FREE_TO_READ = "127.0.0.1: {llama: {prompt: 0, completion: 100_000}}"


@pytest.fixture
def operad(operad, tmp_path, monkeypatch):
    """Runs the command in a folder with ``expert.yaml``: exit status, stdout, stderr."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    for name in ("OPERAD_PRICES", "XDG_CONFIG_HOME", "OPERAD_MODEL", "OPENAI_BASE_URL", "OPERAD_DB"):
        monkeypatch.setenv(name, "")  # restored afterwards, whatever --prices does
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "expert.yaml").write_text(EXPERT)
    return operad


def asked(endpoint, model="llama"):
    return "--base-url", endpoint.base_url, "--model", model


def test_the_command_says_what_a_run_and_its_operators_cost(operad, prices):
    file = prices(FREE_TO_READ)
    with ScriptedModel([Say("figs plums"), Say("figs plums nuts")]) as endpoint:
        status, _, err = operad("run", "expert.yaml", "--job", "Go.", *asked(endpoint), "--prices", file)
    assert status == 0
    assert "list: done" in err
    assert "tokens, cost 0.2 USD\n" in err
    assert "tokens, cost 0.3 USD\n" in err
    assert "2 model calls" in err
    assert ", cost 0.5 USD\n" in err


def test_the_command_says_unknown_where_no_price_is_known(operad):
    with ScriptedModel([Say("figs"), Say("figs")]) as endpoint:
        status, out, err = operad("run", "expert.yaml", "--job", "Go.", *asked(endpoint, "gpt-4o"), "--json")
    assert status == 0
    assert ", cost unknown\n" in err
    usage = json.loads(out)["usage"]
    assert (usage["cost"], usage["unpriced"]) == (None, 2)


def test_the_users_folder_for_configuration_is_read(operad, prices):
    prices(FREE_TO_READ, ".config/operad/prices.yaml")
    with ScriptedModel([Say("figs plums"), Say("figs")]) as endpoint:
        status, out, _ = operad(
            "run", "expert.yaml", "--job", "Go.", *asked(endpoint), "--json", "--events", "events.jsonl"
        )
    usage = json.loads(out)["usage"]
    assert (status, usage["cost"], usage["unpriced"]) == (0, pytest.approx(0.3), 0)
    with open("events.jsonl") as lines:
        answered = [event for line in lines if (event := json.loads(line))["event"] == "ModelAnswered"]
    assert [event["usage"]["cost"] for event in answered] == [pytest.approx(0.2), pytest.approx(0.1)]


def test_the_option_wins_over_the_variable(operad, prices, monkeypatch):
    monkeypatch.setenv("OPERAD_PRICES", "missing.yaml")
    with ScriptedModel([Say("figs"), Say("figs")]) as endpoint:
        status, _, err = operad(
            "run", "expert.yaml", "--job", "Go.", *asked(endpoint), "--prices", prices(FREE_TO_READ).name
        )
    assert (status, ", cost 0.2 USD\n" in err) == (0, True)


def test_a_wrong_file_ends_the_command_before_anything_is_asked(operad, prices):
    prices("127.0.0.1: {llama: {prompt: -1, completions: 2}}")
    with ScriptedModel([]) as endpoint:
        status, out, err = operad("run", "expert.yaml", "--job", "Go.", *asked(endpoint), "--prices", "prices.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("operad: prices.yaml: these prices cannot be used: 3 issues\n")
    assert "did you mean 'completion'?" in err
    status, out, err = operad("run", "expert.yaml", "--job", "Go.", "--prices", "price.yaml")
    assert (status, err) == (2, "operad: price.yaml: no such file (did you mean 'prices.yaml'?)\n")


@pytest.fixture
def db(tmp_path):
    """The option that names a database for runs."""
    pytest.importorskip("sqlalchemy")
    yield "--db", str(tmp_path / "runs.sqlite")
    leave(database_url(tmp_path / "runs.sqlite"))


def test_kept_runs_say_what_they_and_their_operators_cost(operad, prices, db):
    file = prices(FREE_TO_READ)
    with ScriptedModel([Say("figs plums"), Fail(400), Say("figs")]) as endpoint:
        run = ("run", "expert.yaml", "--job", "Go.", *asked(endpoint), *db)
        assert operad(*run, "--run-id", "half", "--prices", file)[0] == 2
        os.environ["OPERAD_PRICES"] = ""
        status, _, err = operad("runs", "resume", "half", "--base-url", endpoint.base_url, *db)
    assert (status, "cost 0.2 USD + 1 call of unknown price\n" in err) == (0, True)
    assert "0.2 USD + 1 call of unknown price" in operad("runs", "list", *db)[1]
    shown = operad("runs", "show", "half", *db)[1]
    assert "tokens, cost 0.2 USD + 1 call of unknown price\n" in shown
    rows = {line.split()[0]: line for line in shown.splitlines() if line.startswith(("list ", "sort "))}
    assert "  0.2 USD  " in rows["list"]
    assert "  unknown  " in rows["sort"]
    found = json.loads(operad("runs", "show", "half", *db, "--json")[1])
    assert (found["usage"]["cost"], found["usage"]["unpriced"]) == (pytest.approx(0.2), 1)
    assert [each["usage"]["cost"] for each in found["operators"]] == [pytest.approx(0.2), None]
