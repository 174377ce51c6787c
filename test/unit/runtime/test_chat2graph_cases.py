"""Files of our own in Chat2Graph's YAML and with the names of its classes: they run, or an error says what to do."""

# pyright: basic
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from operad.configs import load
from operad.runtime import Job
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import OperadError

DATA = Path(__file__).parents[1] / "data" / "chat2graph_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
REFUSED = [name for name, outcome in OUTCOMES.items() if "refused" in outcome]
RUNS = [name for name in OUTCOMES if name not in REFUSED]


@pytest.fixture(autouse=True)
def names_of_chat2graph():
    importlib.import_module("chat2graph_names")
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] in ("app", "chat2graph_names")]:
        del sys.modules[name]  # no others: modules that were first imported meanwhile would be imported twice


def run(name):
    """The result of a file: of its only expert, or of its function `run`."""
    file = DATA / f"{name}.yml"
    if file.exists():
        reasoner = ScriptedReasoner(OUTCOMES[name].get("answers", []))
        return load(file, trust=True).expert().workflow.execute(Job(goal="fig"), reasoner).scratchpad
    spec = importlib.util.spec_from_file_location(f"chat2graph_case_{name}", DATA / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return json.loads(json.dumps(module.run()))


@pytest.mark.parametrize("name", RUNS)
def test_a_file_runs_by_chat2graphs_rules_or_as_documented(name):
    outcome = OUTCOMES[name]
    assert run(name) == (outcome["here"] if "differs" in outcome else outcome["result"])


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_place_and_what_to_do(name):
    with pytest.raises(OperadError) as caught:
        run(name)
    assert OUTCOMES[name]["refused"] in str(caught.value)
