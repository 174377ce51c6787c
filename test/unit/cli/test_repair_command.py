"""`operad repair`."""

import json

import pytest

from operad.flows.formats.table import FORMATS, read
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec

FLOW = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["text", "string"]]}},
        {"id": "2", "type": "LLM", "param": {"system": "", "user": ["text", "1"]}},
        {"id": "3", "type": "end", "param": {"outputs": [["answer", ["reply", "2"]]]}},
    ],
    "edges": [["1", "2"], ["2", "3"]],
}


def test_a_response_is_mended_and_written(operad, tmp_path):
    (tmp_path / "said.txt").write_text(f"```json\n{json.dumps(FLOW)}\n```", encoding="utf-8")
    status, out, err = operad("repair", "said.txt", "-o", "flow.chat2workflow.json")
    assert (status, out) == (0, "")
    rules = [line.partition("]")[0][1:] for line in err.splitlines()]
    assert rules == [
        "json",
        "type-names",
        "edge-form",
        "edge-form",
        "selectors-in-texts",
        "variables",
    ]
    assert operad("check", "flow.chat2workflow.json")[0] == 0
    _found, graph = read((tmp_path / "flow.chat2workflow.json").read_bytes(), "flow")
    assert graph.by_id["3"].params == {"outputs": [["answer", ["text", "2"]]]}
    assert operad("repair", "flow.chat2workflow.json")[1:] == (
        (tmp_path / "flow.chat2workflow.json").read_text(encoding="utf-8"),
        "",
    )


def test_what_is_left_is_said_with_what_to_do(operad, tmp_path):
    FLOW["nodes_info"][1]["type"] = "quantum"
    (tmp_path / "flow.json").write_text(json.dumps(FLOW), encoding="utf-8")
    status, out, err = operad("repair", "flow.json")
    assert status == 1
    assert "[unknown-type] 2: 'quantum' is not a node type" in err
    status, out, err = operad("repair", "flow.json", "--json")
    told = json.loads(out)
    assert (status, err) == (1, "")
    assert set(told) == {"repairs", "lessons", "issues", "text"}
    assert [each["rule"] for each in told["repairs"]] == ["edge-form", "edge-form"]
    assert told["issues"][0]["code"] == "unknown-type"
    FLOW["nodes_info"][1]["type"] = "LLM"


@pytest.mark.parametrize("content", ["no workflow at all", "", "{", '{"a": 1}'])
def test_what_cannot_be_read_is_said_so(operad, tmp_path, content):
    (tmp_path / "said.txt").write_text(content, encoding="utf-8")
    status, out, err = operad("repair", "said.txt", "-o", "made.chat2workflow.json")
    assert (status, out) == (2, "")
    assert "said.txt" in err
    assert not (tmp_path / "made.chat2workflow.json").exists()
    assert operad("repair", "missing.txt")[0] == 2


def test_a_file_of_experts_is_refused_as_such(operad, tmp_path):
    (tmp_path / "experts.yaml").write_text("experts: []\n")
    assert operad("repair", "experts.yaml")[::2] == (
        2, "operad: experts.yaml: configures experts; operad check lists its issues\n"
    )  # fmt: skip


def test_an_ending_without_a_format_is_refused_with_the_endings_as_repair_has_no_option_for_it(operad, tmp_path):
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": []}), NodeSpec("2", "end", {"outputs": []})], [Edge("1", "2")]
    )
    (tmp_path / "flow.operad.yaml").write_bytes(FORMATS["operad"].dump(graph))
    status, _, err = operad("repair", "flow.operad.yaml", "-o", "flow.gif")
    assert (status, "--to" in err) == (2, False)
    assert "operad: flow.gif: no format has this ending; the endings are: " in err


@pytest.mark.parametrize("name", ["dify", "coze", "operad"])
def test_workflows_of_other_formats_are_mended_and_converted(operad, tmp_path, name):
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": [["text", "string"]]}), NodeSpec("2", "llm", {"system": "", "user": "{{#1.text#}}"}),
         NodeSpec("3", "end", {"outputs": [["answer", ["reply", "2"]]]})],
        [Edge("1", "2"), Edge("2", "3")],
        "flow",
    )  # fmt: skip
    source = f"flow{FORMATS[name].suffix}"
    (tmp_path / source).write_bytes(FORMATS[name].dump(graph))
    status, _, err = operad("repair", source, "-o", "made.chat2workflow.json")
    assert status == 0, err
    _, made = read((tmp_path / "made.chat2workflow.json").read_bytes(), "made")
    assert [each.params["outputs"][0][1][0] for each in made.nodes if each.type == "end"] == ["text"]


def test_formats_without_typed_nodes_are_refused(operad, tmp_path):
    (tmp_path / "a.md").write_text("```mermaid\nflowchart TD\n  A --> B\n```\n", encoding="utf-8")
    status, _, err = operad("repair", "a.md")
    assert status == 2
    assert "Traceback" not in err
