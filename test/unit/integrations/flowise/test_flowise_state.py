"""Values of a flow's state that later nodes see otherwise than in Flowise are remarked with node and field."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from flowise_runs import run_flowise

from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import read
from operad.integrations.flowise import format as flowise
from operad.runtime.values.errors import InvalidError

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


@pytest.mark.parametrize(("kept", "places"), [("said", [("llmAgentflow_1", "llmEnableMemory")]), ("other", [])])
def test_a_state_that_a_loop_sets_is_a_difference_for_a_message_before_the_loop(kept, places):
    root = json.loads(asked(f"It is {{{{$flow.state.{kept}}}}}.", ""))
    ids = ["llmAgentflow_1", "customFunctionAgentflow_0", "conditionAgentflow_0", "loopAgentflow_0"]
    dialogs = [
        {"customFunctionJavascriptFunction": "return 1;", "customFunctionUpdateState": NEW},
        {"conditions": [{"type": "string", "value1": "a", "operation": "equal", "value2": "b"}]},
        {"loopBackToNode": "llmAgentflow_1-Two", "maxLoopCount": 2},
    ]
    for node_id, inputs in zip(ids[1:], dialogs, strict=True):
        kind = node_id.partition("_")[0]
        root["nodes"].append({"id": node_id, "data": {"id": node_id, "name": kind, "label": kind, "inputs": inputs}})
    root["nodes"] = [each for each in root["nodes"] if each["id"] != "directReplyAgentflow_0"]
    kept_edges = [each for each in root["edges"] if each["source"] != "llmAgentflow_1"]
    added = [{"source": one, "target": other, "sourceHandle": f"{one}-output-1"} for one, other in pairwise(ids)]
    root["edges"] = [*kept_edges, *added]
    found = differences(json.dumps(root).encode())
    assert [each for each in found if each[1] == "llmEnableMemory"] == places


@pytest.mark.parametrize(
    ("value", "answer"),
    [("{{ output.n }}", "7"), ("n is {{output.n}}!", "7"), ("{{ output.x }}", "{{ output.x }}"), ("a {{output}}", "a {{output}}")],
)  # fmt: skip
async def test_a_part_of_the_output_is_the_whole_value_and_the_output_among_words_stays(value, answer):
    text = case(
        "function",
        startAgentflow_0={"startState": [{"key": "said", "value": ""}]},
        customFunctionAgentflow_0={
            "customFunctionJavascriptFunction": "return { n: 7 };",
            "customFunctionInputVariables": "",
            "customFunctionUpdateState": [{"key": "said", "value": value}],
        },
        directReplyAgentflow_0={"directReplyMessage": "{{$flow.state.said}}"},
    )
    assert await run_flowise(text, {"inputs": {"sys.query": "fig"}}) == {"answer": answer}


@pytest.mark.parametrize(
    ("reference", "answer"),
    [("runtime_messages_length", "0"), ("loop_count", "0"), ("file_attachment", ""), ("$webhook.body.id", "5")],
)
async def test_variables_of_the_chat_and_of_a_webhook_have_values(reference, answer):
    text = case("reply", directReplyAgentflow_0={"directReplyMessage": f"<p>[{{{{ {reference} }}}}]</p>"})
    inputs = {"sys.query": "fig"} | ({"webhook.body.id": "5"} if answer == "5" else {})
    assert await run_flowise(text, {"inputs": inputs}) == {"answer": f"[{answer}]"}
    assert differences(text) == []
    graph = flowise.load(text)
    assert json.loads(flowise.dump(graph)) == json.loads(text)


async def test_code_sees_the_whole_state_and_variables_by_their_names_in_brackets():
    text = case(
        "function",
        startAgentflow_0={"startState": [{"key": "said", "value": "old"}]},
        customFunctionAgentflow_0={
            "customFunctionJavascriptFunction": "const { said } = $flow.state;\nreturn said + $vars['k'];",
            "customFunctionInputVariables": "",
        },
        directReplyAgentflow_0={"directReplyMessage": "{{customFunctionAgentflow_0}}"},
    )
    ran = await run_flowise(text, {"inputs": {"sys.query": "fig", "vars.k": "!"}})
    assert ran == {"answer": "old!"}


async def test_a_loop_back_to_the_start_runs_the_nodes_after_it_again():
    text = case("loop", loopAgentflow_0={"loopBackToNode": "startAgentflow_0-Start"})
    assert await run_flowise(text, {"inputs": {"sys.query": "fig"}}) == await run_flowise(
        case("loop"), {"inputs": {"sys.query": "fig"}}
    )


def test_a_record_of_flowises_database_says_where_the_flow_is():
    record = json.dumps({"name": "x", "flowData": json.dumps({"nodes": [], "edges": []})}).encode()
    with pytest.raises(InvalidError) as caught:
        read(record, "record.json")
    assert "flowData" in caught.value.issues[0].message
