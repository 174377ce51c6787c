"""Values of a flow's state that later nodes see otherwise than in Flowise are remarked with node and field."""

import json
from pathlib import Path

import pytest
from flowise_runs import run_flowise

from operad.flows.formats.remarks import remarks_of
from operad.integrations.flowise import format as flowise

DATA = Path(__file__).parents[2] / "data" / "flowise_cases"
NEW = [{"key": "said", "value": "new"}]


def case(name, **inputs):
    """A case with other values in the dialogs of some nodes."""
    root = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    for node in root["nodes"]:
        node["data"]["inputs"] |= inputs.get(node["id"], {})
    return json.dumps(root).encode()


def differences(text):
    return [(remark.node, remark.field) for remark in remarks_of(flowise.load(text)) if remark.lossy]


def asked(said, updates):
    first = {
        "llmMessages": [{"role": "user", "content": said}],
        "llmEnableMemory": False,
        "llmUpdateState": updates,
    }
    state = {"startState": [{"key": "said", "value": "old"}, {"key": "other", "value": ""}]}
    return case("memory-of-the-run", startAgentflow_0=state, llmAgentflow_0=first)


async def test_an_earlier_message_that_names_a_state_set_after_it_is_a_difference_where_it_is_shown():
    text = asked("It is {{$flow.state.said}}.", NEW)
    assert differences(text) == [("llmAgentflow_1", "llmEnableMemory")]
    ran = await run_flowise(text, {"inputs": {"sys.query": "fig"}, "differs": ""})
    assert ran["answer"].startswith("system: Two\nuser: It is new.")


@pytest.mark.parametrize(
    ("said", "updates"),
    [("It is {{$flow.state.said}}.", ""), ("It is {{$flow.state.other}}.", NEW), ("It is {{question}}.", NEW)],
)
def test_a_message_whose_state_stays_is_no_difference(said, updates):
    assert differences(asked(said, updates)) == []


async def test_a_state_that_is_set_for_an_item_of_an_iteration_is_seen_by_the_next_item():
    inner = {
        "llmMessages": [{"role": "user", "content": "Grow {{$flow.state.said}}"}],
        "llmUpdateState": NEW,
    }
    start = {"startState": [{"key": "said", "value": "old"}]}
    text = case("iteration", startAgentflow_0=start, llmAgentflow_0=inner)
    assert differences(text) == []
    ran = await run_flowise(text, {"inputs": {"sys.query": "fig"}})
    assert ran["answer"] == "user: Grow old\nuser: Grow new"


def test_a_state_that_is_set_outside_of_iterations_is_no_difference():
    assert differences(case("update-state")) == []
