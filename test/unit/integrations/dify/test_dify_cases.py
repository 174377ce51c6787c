"""Dify files of our own run as in Dify's own engine, or say why not: `conformance_dify.py` has recorded what it made of them."""

import json
import re
from pathlib import Path

import pytest
from amounts import sample
from dify_echo import echo_server
from dify_runs import hidden, remarked, run_dify

from operad.integrations.dify import format as dify

DATA = Path(__file__).parents[2] / "data" / "dify_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
RUNS = [name for name, outcome in OUTCOMES.items() if "outputs" in outcome]
TOLD = [name for name in OUTCOMES if name not in RUNS]


@pytest.fixture(scope="module")
def base():
    with echo_server() as address:
        yield address


def there(outputs):
    return {name: value for name, value in outputs.items() if value is not None}


@pytest.mark.parametrize("name", sample(RUNS, 2))
async def test_a_file_runs_as_in_difys_own_engine(name, base):
    text, outcome = (DATA / f"{name}.yml").read_bytes(), OUTCOMES[name]
    ran = await run_dify(text, base, outcome.get("inputs", {}), outcome.get("turns", ()), outcome.get("pick", 0))
    assert bool(ran.error) is outcome["fails"], ran.error
    assert remarked(text) == ("", "")
    if not outcome["fails"]:
        outputs = hidden(outcome["outputs"], text) if name.startswith("http-authorization") else outcome["outputs"]
        assert (there(ran.outputs), dict(ran.ran)) == (there(outputs), outcome["ran"])


@pytest.mark.parametrize("name", TOLD)
def test_a_file_that_cannot_run_as_in_dify_says_so(name):
    refusal, losses = remarked((DATA / f"{name}.yml").read_bytes())
    outcome = OUTCOMES[name]
    assert outcome["refused"] in refusal
    assert bool(outcome["refused"]) is bool(refusal)
    assert outcome["differs"] in losses


@pytest.mark.parametrize(
    "name", sample([name for name in OUTCOMES if not name.startswith(("app-", "form-", "refused-mode"))], 4)
)
def test_a_file_is_written_back_as_it_was(name):
    graph = dify.load((DATA / f"{name}.yml").read_bytes())
    assert dify.load(dify.dump(graph)) == graph


@pytest.mark.parametrize("name", TOLD)
def test_what_does_not_run_as_at_home_names_the_node_or_the_app_and_what_to_do(name):
    refusal, losses = remarked((DATA / f"{name}.yml").read_bytes())
    said = refusal or losses
    assert re.search(r"(^|\] )2: |model_config|mode: must be", said)
    assert re.search(r"; (ask|begin|build|end|give|index|make|name|remove|switch) |must be one of", said)


def test_the_files_that_show_rules_of_difys_server_exist_and_iterations_have_one():
    rules = json.loads((DATA / "server_rules.json").read_text(encoding="utf-8"))
    named = {case for rule in rules for case in rule["cases"]}
    assert named <= OUTCOMES.keys()
    assert {name for name in OUTCOMES if name.startswith("iteration-assigns")} <= named
