"""Files of our own in Flowise's form run by the rules of its engine, or say why not and what to do."""

import json
from pathlib import Path

import pytest
from amounts import sample
from dify_echo import echo_server
from flowise_runs import run_flowise, told

from operad.flows.formats.table import find_format
from operad.integrations.flowise import format as flowise

DATA = Path(__file__).parents[2] / "data" / "flowise_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
RUNS = [name for name, outcome in OUTCOMES.items() if "outputs" in outcome]
TOLD = [name for name, outcome in OUTCOMES.items() if outcome.keys() & {"differs", "refused"}]
READ = [
    name
    for name in OUTCOMES
    if name not in ("chatflow", "agentflow-v1") and not name.startswith("loop-b") and name != "loop-into-the-middle"
]


@pytest.fixture(scope="module")
def base():
    with echo_server() as address:
        yield address


def text_of(name):
    return (DATA / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", sample(RUNS, 2))
async def test_a_flow_runs_by_flowises_rules(name, base):
    outcome = OUTCOMES[name]
    assert await run_flowise(text_of(name), outcome, base) == outcome["outputs"]
    refusal, losses = told(text_of(name))
    assert refusal == ""
    assert bool(losses) is ("differs" in outcome), losses


@pytest.mark.parametrize("name", TOLD)
def test_a_flow_that_cannot_run_as_in_flowise_says_so(name):
    refusal, losses = told(text_of(name))
    outcome = OUTCOMES[name]
    assert outcome.get("refused", "") in refusal
    assert bool(refusal) is ("refused" in outcome)
    assert outcome.get("differs", "") in losses


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_file_is_known_as_one_of_flowise(name):
    assert find_format(text_of(name)) is flowise.FLOWISE


@pytest.mark.parametrize("name", sample(READ, 3))
def test_a_file_is_written_back_as_it_was(name):
    graph = flowise.load(text_of(name))
    assert json.loads(flowise.dump(graph)) == json.loads(text_of(name))
    assert flowise.FLOWISE.dump_keeping_text(graph, text_of(name)) == text_of(name)
    assert [issue for issue in flowise.losses(graph) if issue.code == "loss"] == []
    assert flowise.load(flowise.dump(graph)) == graph
