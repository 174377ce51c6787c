import copy
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amounts import amount, sample

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats import chat2workflow
from operad.flows.formats.overlay import apply_difference, change
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.format import DIFY, dump, is_it, load, losses
from operad.integrations.dify.layout import places
from operad.integrations.dify.plugins import needed_plugin
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job, MonoModelReasoner, events
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.document import MAX_BYTES
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).parents[2] / "data" / "dify"
FILES = sorted(DATA.glob("*.yml"))


def values(data):
    return read_yaml(data, "file").value


def nodes_of(data):
    return {node["id"]: node for node in values(data)["workflow"]["graph"]["nodes"]}


def edges_of(data):
    return [(e["source"], e["sourceHandle"], e["target"]) for e in values(data)["workflow"]["graph"]["edges"]]


def start(*variables):
    return NodeSpec("1", "start", {"variables": [list(each) for each in variables]})


INPUTS = start(
    ["t", "string"], ["n", "number"], ["b", "boolean"], ["f", "file"], ["fs", "array[file]"], ["o", "object"]
)


def graph_of(kind, params, *, node_id="2"):
    return NodeGraph([INPUTS, NodeSpec(node_id, kind, params)], [Edge("1", node_id)])


def app(*nodes, edges=(), mode="workflow", **workflow):
    """A file with nodes, given as (id, data)."""
    entries = [{"id": node_id, "data": data, "type": "custom"} for node_id, data in nodes]
    links = [{"source": s, "sourceHandle": handle, "target": t} for s, handle, t in edges]
    graph = {"nodes": entries, "edges": links}
    root = {
        "app": {"mode": mode, "name": "made"},
        "kind": "app",
        "version": "0.3.0",
        "workflow": {"graph": graph, **workflow},
    }
    return write_yaml(root)


def read_one(data):
    return load(app(("2", data))).by_id["2"]


# Every type, both ways: what is written, and what that reads as

PROMPTS = {"system": "Be {{#1.t#}}.", "user": "Say {{#1.n#}}"}
BOTH_WAYS = [
    ("end", {"outputs": [["x", ["t", "1"]]]}, {"outputs": [{"value_selector": ["1", "t"], "value_type": "string", "variable": "x"}]}),
    ("end", {"outputs": [["x", ["f.name", "1"]]]}, {"outputs": [{"value_selector": ["1", "f", "name"], "value_type": "string", "variable": "x"}]}),
    ("answer", {"answer": "So {{#1.t#}}"}, {"answer": "So {{#1.t#}}", "variables": []}),
    ("llm", PROMPTS, {"prompt_template": [{"role": "system", "text": "Be {{#1.t#}}."}, {"role": "user", "text": "Say {{#1.n#}}"}]}),
    ("llm", {"system": "", "user": "x"}, {"prompt_template": [{"role": "user", "text": "x"}]}),
    (
        "question-classifier",
        {"query_variable_selector": ["t", "1"], "classes": ["A", "B"]},
        {"query_variable_selector": ["1", "t"], "classes": [{"id": "1", "name": "A"}, {"id": "2", "name": "B"}]},
    ),
    (
        "parameter-extractor",
        {"query": ["t", "1"], "parameters": [["A sum", "sum", "number"]], "instruction": "In {{#1.t#}}", "on_mismatch": "empty"},
        {
            "query": ["1", "t"],
            "parameters": [{"name": "sum", "type": "number", "description": "A sum", "required": True}],
            "instruction": "In {{#1.t#}}",
        },
    ),
    (
        "parameter-extractor",
        {"query": ["t", "1"], "parameters": [["", "a", "string"], ["", "b", "number"]], "instruction": "", "optional": ["b"], "options": {"a": ["x", "y"]}, "on_mismatch": "empty"},
        {"parameters": [{"name": "a", "type": "select", "options": ["x", "y"], "description": "", "required": True}, {"name": "b", "type": "number", "description": "", "required": False}]},
    ),
    (
        "code",
        {"variables": [["a", ["n", "1"]]], "outputs": [["x", "number"]], "code": "def main(a):\n\treturn {'x': a}"},
        {
            "code_language": "python3",
            "variables": [{"variable": "a", "value_selector": ["1", "n"], "value_type": "number"}],
            "outputs": {"x": {"type": "number", "children": None}},
            "code": "def main(a):\n\treturn {'x': a}",
        },
    ),
    (
        "template-transform",
        {"variables": [["a", ["t", "1"]]], "template": "  {{ a }}\n"},
        {"template": "  {{ a }}\n", "variables": [{"variable": "a", "value_selector": ["1", "t"], "value_type": "string"}]},
    ),
    ("document-extractor", {"variable_selector": ["fs", "1"]}, {"variable_selector": ["1", "fs"], "is_array_file": True}),
    ("http-request", {"url": ["t", "1"]}, {"url": "{{#1.t#}}", "method": "get", "body": {"data": [], "type": "none"}}),
    ("list-operator", {"variable": ["fs", "1"], "operator": ["extract_by", 2]}, {"extract_by": {"enabled": True, "serial": "2"}}),
    ("list-operator", {"variable": ["fs", "1"], "operator": ["limit", 3]}, {"limit": {"enabled": True, "size": 3}, "item_var_type": "file"}),
    ("list-operator", {"variable": ["fs", "1"], "operator": ["order_by", "desc"]}, {"order_by": {"enabled": True, "key": "name", "value": "desc"}}),
    (
        "list-operator",
        {"variable": ["fs", "1"], "operator": ["filter_by", "in", "image"]},
        {"filter_by": {"enabled": True, "conditions": [{"comparison_operator": "in", "key": "type", "value": ["image"]}]}},
    ),
    ("variable-aggregator", {"variables": [["t", "1"]]}, {"variables": [["1", "t"]], "output_type": "string"}),
    (
        "assigner",
        {"assignments": [[["x", "conversation"], "set", ["t", "1"]], [["x", "conversation"], "add", 1], [["x", "conversation"], "clear"]]},
        {
            "version": "2",
            "items": [
                {"input_type": "variable", "operation": "over-write", "value": ["1", "t"], "variable_selector": ["conversation", "x"], "write_mode": "over-write"},
                {"input_type": "constant", "operation": "+=", "value": 1, "variable_selector": ["conversation", "x"], "write_mode": "over-write"},
                {"input_type": "constant", "operation": "clear", "value": None, "variable_selector": ["conversation", "x"], "write_mode": "over-write"},
            ],
        },
    ),
    ("knowledge-retrieval", {"query": ["t", "1"], "knowledge": "a"}, {"dataset_ids": ["a"], "query_variable_selector": ["1", "t"]}),
    (
        "tool",
        {"tool": "weather", "arguments": {"city": ["t", "1"], "text": "In {{#1.t#}}", "days": 3}},
        {
            "tool_name": "weather",
            "tool_parameters": {
                "city": {"type": "variable", "value": ["1", "t"]},
                "text": {"type": "mixed", "value": "In {{#1.t#}}"},
                "days": {"type": "constant", "value": 3},
            },
        },
    ),
    ("tts", {"text": "{{#1.t#}}"}, {"type": "tool", "provider_id": "audio", "tool_name": "tts", "tool_parameters": {"text": {"type": "mixed", "value": "{{#1.t#}}"}}}),
    ("text2image", {"prompt": "a"}, {"type": "tool", "tool_name": "z_image_text_2_image"}),
    ("mermaid-converter", {"mermaid_code": "a"}, {"type": "tool", "provider_id": "hjlarry/mermaid_converter/mermaid_converter"}),
    ("markdown-exporter", {"target_type": "pdf", "md_text": "a"}, {"type": "tool", "tool_name": "md_to_pdf"}),
    ("google-search", {"query": "a"}, {"type": "tool", "tool_name": "google_search", "provider_id": "langgenius/google/google"}),
    (
        "echarts",
        {"chart_type": "pie", "chart_title": "T", "data": "1;2", "x_axisORcategories": "a;b"},
        {
            "type": "tool",
            "tool_name": "pie_chart",
            "tool_parameters": {name: {"type": "mixed", "value": value} for name, value in {"title": "T", "data": "1;2", "categories": "a;b"}.items()},
        },
    ),
    (
        "echarts",
        {"chart_type": "bar", "chart_title": "T", "data": "1;2", "x_axisORcategories": "a;b"},
        {"tool_name": "bar_chart", "tool_parameters": {name: {"type": "mixed", "value": value} for name, value in {"title": "T", "data": "1;2", "x_axis": "a;b"}.items()}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "params", "data"), BOTH_WAYS, ids=[each[0] for each in BOTH_WAYS])
def test_a_type_both_ways(kind, params, data):
    graph = graph_of(kind, params)
    written = nodes_of(dump(graph))["2"]["data"]
    assert {key: written[key] for key in data} == data
    assert "operad" not in written
    assert load(dump(graph), graph.name) == graph
    assert dump(load(dump(graph), graph.name)) == dump(graph)


def test_inputs():
    written = nodes_of(dump(NodeGraph([INPUTS])))["1"]["data"]["variables"]
    assert [each["type"] for each in written] == ["paragraph", "number", "checkbox", "file", "file-list", "json_object"]
    kinds = {
        "text-input": "string",
        "select": "string",
        "paragraph": "string",
        "checkbox": "boolean",
        "file-list": "array[file]",
    }
    variables = [{"variable": kind, "label": kind, "type": kind} for kind in kinds]
    read = load(app(("1", {"type": "start", "variables": variables})))
    assert read.nodes[0].params == {"variables": [[name, kind] for name, kind in kinds.items()]}


CONDITIONS = [
    ([["t", "1"], "contains", "x"], {"comparison_operator": "contains", "value": "x", "varType": "string"}),
    ([["t", "1"], "empty"], {"comparison_operator": "empty", "value": ""}),
    ([["n", "1"], "≥", "3"], {"value": "3", "varType": "number"}),
    ([["n", "1"], "=", "{{#1.n#}}"], {"value": "{{#1.n#}}", "numberVarType": "variable"}),
    ([["b", "1"], "is", "true"], {"value": True, "varType": "boolean"}),
    ([["f.type", "1"], "in", "image"], {"value": ["image"], "variable_selector": ["1", "f", "type"]}),
    ([["f", "1"], "exists"], {"comparison_operator": "exists", "varType": "file"}),
]


@pytest.mark.parametrize(("condition", "data"), CONDITIONS)
def test_a_condition_both_ways(condition, data):
    graph = graph_of("if-else", {"cases": [["and", [condition]]]})
    node = nodes_of(dump(graph))["2"]["data"]
    written = node["cases"][0]["conditions"][0]
    assert {key: written[key] for key in data} == data
    assert "operad" not in node
    assert load(dump(graph), graph.name) == graph


def test_conditions_on_files():
    graph = graph_of("if-else", {"cases": [["or", [[["fs", "1"], "contains", "image"]]]]})
    written = nodes_of(dump(graph))["2"]["data"]["cases"][0]["conditions"][0]["sub_variable_condition"]["conditions"][0]
    assert (written["key"], written["comparison_operator"], written["value"]) == ("type", "in", ["image"])
    assert load(dump(graph), graph.name) == graph


def test_edges_of_a_node_without_branches_are_followed_whatever_their_handles_as_in_dify():
    data = app(
        ("a", {"type": "start", "title": "Start", "variables": []}),
        ("b", {"type": "template-transform", "title": "T", "template": "x", "variables": []}),
        ("c", {"type": "end", "title": "End", "outputs": [{"variable": "x", "value_selector": ["b", "output"]}]}),
        edges=[("a", "start-source", "b"), ("b", "1", "c")],
    )
    graph = load(data)
    assert check(graph, NODE_TYPES) == []
    assert [edge.port for edge in graph.edges] == [0, 0]
    assert [handle for _, handle, _ in edges_of(dump(graph))] == ["start-source", "1"]


def test_characters_that_json_writes_as_two_surrogates_are_read():
    title = "\\ud83d \U0001f504\U0001f505 \\"
    written = json.dumps(values(app(("a", {"type": "start", "title": title, "variables": []}))), indent=1)
    assert "\\ud83d\\udd04" in written
    graph = load(written.encode())
    assert graph.by_id["a"].title == title
    assert values(dump(graph)) == json.loads(written)


def test_the_answer_of_the_api_around_a_file_is_refused_with_what_to_save():
    text = app(("a", {"type": "start", "title": "Start", "variables": []})).decode()
    with pytest.raises(InvalidError) as error:
        load(json.dumps({"data": text}).encode())
    assert [(each.code, each.where, each.message.partition(":")[0]) for each in error.value.issues] == [
        ("format", "line 1", "data")
    ]


def test_handles_of_branches():
    cases = [["and", [[["t", "1"], "is", "x"]]], ["or", [[["t", "1"], "is", "y"]]]]
    nodes = [INPUTS, NodeSpec("2", "if-else", {"cases": cases}), *(NodeSpec(n, "end", {"outputs": []}) for n in "345")]
    nodes.append(NodeSpec("6", "question-classifier", {"query_variable_selector": ["t", "1"], "classes": ["A", "B"]}))
    edges = [
        Edge("1", "2"),
        Edge("2", "3", 0),
        Edge("2", "4", 1),
        Edge("2", "6", 2),
        Edge("6", "5", 1),
        Edge("6", "5", 9),
    ]
    graph = NodeGraph(nodes, edges)
    data = dump(graph)
    cases = [case["case_id"] for case in nodes_of(data)["2"]["data"]["cases"]]
    handles = [handle for _, handle, _ in edges_of(data)]
    assert handles == ["source", cases[0], cases[1], "false", "2", "9"]
    assert len(set(cases)) == 2
    assert load(data, graph.name) == graph


def test_an_iteration():
    graph = NodeGraph(
        [
            start(["t", "string"], ["items", "array[string]"]),
            NodeSpec("5", "iteration", {"iterator_selector": ["items", "1"], "output_selector": ["text", "5-2"]}),
            NodeSpec("5-1", "iteration-start", {}, "5"),
            NodeSpec("5-2", "llm", {"system": "", "user": "{{#'5'.item#}} {{#5.index#}}"}, "5"),
            NodeSpec("6", "template-transform", {"variables": [["a", ["output", "5"]]], "template": "{{ a }}"}),
        ],
        [Edge("1", "5"), Edge("5-1", "5-2"), Edge("5", "6")],
        "each",
    )
    data = dump(graph)
    written = nodes_of(data)
    assert list(written) == ["1", "5", "5start", "5_2", "6"]
    assert written["5"]["data"]["start_node_id"] == "5start"
    assert written["5"]["data"]["iterator_input_type"] == written["5"]["data"]["output_type"] == "array[string]"
    assert written["5"]["data"]["output_selector"] == ["5_2", "text"]
    assert (written["5_2"]["parentId"], written["5_2"]["zIndex"]) == ("5", 1002)
    assert written["5_2"]["data"]["isInIteration"] is True
    assert written["5_2"]["data"]["iteration_id"] == "5"
    assert written["5_2"]["data"]["prompt_template"] == [{"role": "user", "text": "{{#5.item#}} {{#5.index#}}"}]
    assert written["5_2"]["data"]["operad"]["id"] == "5-2"
    assert written["5start"]["type"] == "custom-iteration-start"
    assert ("5start", "source", "5_2") in edges_of(data)
    assert load(data, "each") == graph
    inner, outer = written["5_2"], written["5"]
    assert inner["position"]["x"] + inner["width"] <= outer["width"]
    assert inner["position"]["y"] + inner["height"] <= outer["height"]


@pytest.mark.parametrize(
    ("params", "data"),
    [
        ({}, {"is_parallel": True, "parallel_nums": 10, "error_handle_mode": "terminated"}),
        ({"concurrency": 1, "on_error": "keep"}, {"is_parallel": False, "error_handle_mode": "continue-on-error"}),
        ({"concurrency": 3, "on_error": "skip"}, {"parallel_nums": 3, "error_handle_mode": "remove-abnormal-output"}),
    ],
)
def test_how_an_iteration_runs(params, data):
    params = {"iterator_selector": ["fs", "1"], "output_selector": ["text", "3"], **params}
    graph = graph_of("iteration", params)
    written = nodes_of(dump(graph))["2"]["data"]
    assert {key: written[key] for key in data} == data
    assert load(dump(graph), graph.name) == graph


def test_each_edge_has_an_id_of_its_own():
    graph = NodeGraph([start(), NodeSpec("2", "end", {"outputs": []})], [Edge("1", "2")] * 3)
    edges = values(dump(graph))["workflow"]["graph"]["edges"]
    assert [edge["id"] for edge in edges] == ["1-source-2-target", "1-source-2-target-2", "1-source-2-target-3"]
    assert load(dump(graph), graph.name) == graph


def test_ids_that_dify_does_not_take_get_others():
    ids = ["1", "a-b", "a.b", "a_b", "x" * 60, "é"]
    nodes = [start(), *(NodeSpec(node_id, "end", {"outputs": []}) for node_id in ids[1:])]
    graph = NodeGraph(nodes, [Edge("1", node_id) for node_id in ids[1:]])
    data = dump(graph)
    assert list(nodes_of(data)) == ["1", "a_b_2", "a_b_3", "a_b", "x" * 40, "_"]
    assert load(data, graph.name) == graph


# Files from Dify


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_says_the_same_after_a_round(path):
    data = path.read_bytes()
    graph = load(data)
    assert is_it(data)
    assert graph.name == values(data)["app"]["name"]
    assert values(dump(graph)) == values(data)
    assert load(dump(graph)) == graph
    assert dump(load(dump(graph))) == dump(graph)


def test_a_chat_of_an_old_version():
    graph = load((DATA / "chat_0.1.5.yml").read_bytes())
    by_id = graph.by_id
    assert check(graph, NODE_TYPES) == []
    assert by_id["conversation"].params == {"variables": [["asked", "array[string]", []]]}
    assert by_id["1700"].params["variables"] == [["tongue", "string"], ["sys.query", "string"], ["env.DESK", "string"]]
    assert by_id["1701"].params == {"cases": [["and", [[["sys.query", "1700"], "not empty"]]]]}
    assert by_id["1703"].params["system"].endswith("From this only: {{context}}")
    assert by_id["1703"].params["context"] == ["result", "1702"]
    assert by_id["1706"].type == "variable-aggregator"
    assert [edge.port for edge in graph.edges if edge.source == "1701"] == [0, 1]
    assert "1699" not in by_id


async def test_a_chat_runs():
    workflow = assemble(load((DATA / "chat_0.1.5.yml").read_bytes()), NODE_TYPES, lossy=True)
    job = Job(goal="", inputs={"tongue": "French", "sys.query": "", "env.DESK": "left"})
    said = await workflow.aexecute(job, ScriptedReasoner([]))
    assert said.outputs == {"answer": "Ask me something, please."}


def test_files_of_version_0_3():
    graph = load((DATA / "files_0.3.1.yml").read_bytes())
    by_id = graph.by_id
    assert by_id["pick"].params["operator"] == ["filter_by", "in", "document"]
    assert by_id["each"].params["concurrency"] == 4
    assert by_id["each"].params["on_error"] == "skip"
    assert {node.id for node in graph.nodes if node.parent == "each"} == {"eachstart", "read", "sort", "letter"}
    assert by_id["slides"].params["arguments"] == {
        "text": "# {{#write-up.text#}}",
        "count": ["count", "write-up"],
        "wide": True,
    }
    assert by_id["write-up"].params["failure"]["then"] == "branch"
    assert check(graph, NODE_TYPES) == []


def test_types_that_we_lack_are_kept_whole():
    graph = load((DATA / "agent_0.5.0.yml").read_bytes())
    agent = graph.by_id["6"]
    assert agent.type == "agent"
    assert agent.params == {"instruction": "Read {{#2.file#}}.", "query": "", "tools": [], "rounds": 4}
    ask = graph.by_id["7"]
    assert ask.params == {"question": "Is it right? {{#6.text#}}", "actions": [["approve", "Yes"]]}
    assert graph.by_id["2"].params["variables"] == [
        ["tries", "number", 0],
        ["words", "array[string]", []],
        ["file", "string", ["doc.name", "1"]],
    ]
    assert graph.by_id["8"].params["outputs"][0] == ["rounds", ["rounds", "2"]]
    assert graph.by_id["4"].params["cases"][0][1] == [
        [["doc.type", "1"], "in", "image"],
        [["tries", "2"], "=", "{{#2.tries#}}"],
    ]
    assert {issue.where for issue in check(graph, NODE_TYPES) if issue.code == "unknown-type"} == set()
    foreign = NodeGraph([start(), NodeSpec("2", "KSampler", {"seed": 3, "type": "x"}, extra={"comfyui": {"a": 1}})])
    assert load(dump(foreign), foreign.name).by_id["2"].params == {"seed": 3, "type": "x"}


READ = [
    ({"type": "assigner", "assigned_variable_selector": ["conversation", "x"], "input_variable_selector": ["1", "t"], "write_mode": "append"}, "assigner", {"assignments": [[["x", "conversation"], "append", ["t", "1"]]]}),
    ({"type": "llm", "prompt_template": {"text": "Go on: {{#1.t#}}"}}, "llm", {"system": "", "user": "Go on: {{#1.t#}}"}),
    ({"type": "llm", "prompt_template": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}, {"role": "user", "text": "c"}]}, "llm", {"system": "", "user": "", "messages": [["user", "a"], ["assistant", "b"], ["user", "c"]]}),
    ({"type": "llm", "prompt_template": [{"role": "user", "text": "See"}], "vision": {"enabled": True, "configs": {"variable_selector": ["1", "f"]}}}, "llm", {"system": "", "user": "See", "files": [["f", "1"]]}),
    ({"type": "llm", "prompt_template": [{"role": "user", "edition_type": "jinja2", "text": "", "jinja2_text": "{{ a }}"}]}, "llm", {"system": "", "user": "", "messages": [["user", "{{ a }}", True]]}),
    ({"type": "tool", "provider_id": "google", "tool_name": "google_search", "tool_parameters": {"query": {"type": "variable", "value": ["1", "t"]}}}, "google-search", {"query": "{{#1.t#}}"}),
    ({"type": "variable-aggregator", "variables": [], "advanced_settings": {"group_enabled": True, "groups": []}}, "variable-aggregator", {"variables": [], "groups": []}),
    ({"type": "list-operator", "variable": ["1", "fs"], "filter_by": {"enabled": True, "conditions": []}, "limit": {"enabled": True, "size": 2}}, "list-operator", {"variable": ["fs", "1"], "operator": ["limit", 2]}),
    ({"type": "code", "code_language": "javascript", "code": "x", "variables": [], "outputs": {}}, "code", {"variables": [], "outputs": [], "code": "x", "language": "javascript"}),
    ({"type": "iteration", "iterator_selector": ["1", "fs"], "output_selector": ["3", "x"], "flatten_output": False}, "iteration", {"iterator_selector": ["fs", "1"], "output_selector": ["x", "3"], "concurrency": 1, "flatten_output": False}),
    ({"type": "parameter-extractor", "query": ["1", "t"], "parameters": [{"name": "a", "type": "bool", "description": "d"}]}, "parameter-extractor", {"query": ["t", "1"], "parameters": [["d", "a", "boolean"]], "instruction": "", "on_mismatch": "empty"}),
    ({"type": "parameter-extractor", "query": ["1", "t"], "parameters": [{"name": "a", "type": "number", "options": ["x"], "description": "d"}]}, "parameter-extractor", {"query": ["t", "1"], "parameters": [["d", "a", "number"]], "instruction": "", "on_mismatch": "empty"}),
    ({"type": "parameter-extractor", "query": ["1", "t"], "parameters": [{"name": "a", "type": "select", "options": ["x"], "description": "d"}]}, "parameter-extractor", {"query": ["t", "1"], "parameters": [["d", "a", "string"]], "instruction": "", "on_mismatch": "empty", "options": {"a": ["x"]}}),
    ({"type": "parameter-extractor", "query": ["1", "t"], "parameters": [{"name": "a", "type": "select", "options": [1, 2], "description": "d"}]}, "parameter-extractor", {"query": ["t", "1"], "parameters": [["d", "a", "string"]], "instruction": "", "on_mismatch": "empty", "options": {"a": ["1", "2"]}}),
    ({"type": "knowledge-retrieval", "dataset_ids": ["a", "b"], "query_variable_selector": ["1", "t"]}, "knowledge-retrieval", {"knowledge": "a,b", "query": ["t", "1"]}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind", "params"), READ)
def test_other_forms_are_read(data, kind, params):
    read = read_one(data)
    assert (read.type, read.params) == (kind, params)
    whole = app(("2", data))
    assert values(dump(load(whole))) == values(whole)


def test_an_iteration_of_the_first_version_gets_a_node_that_begins_it():
    data = app(
        ("1", {"type": "start", "variables": []}),
        (
            "5",
            {
                "type": "iteration",
                "iterator_selector": ["1", "x"],
                "output_selector": ["6", "text"],
                "start_node_id": "6",
            },
        ),
        ("6", {"type": "llm", "iteration_id": "5", "isIterationStart": True, "prompt_template": []}),
        edges=[("1", "source", "5")],
    )
    graph = load(data)
    assert graph.by_id["5start"].type == "iteration-start"
    assert graph.edges[0] == replace(graph.edges[0], source="5start", target="6")
    assert values(dump(graph)) == values(data)
    assert load(dump(graph)) == graph


# Changes on either side


def test_what_is_changed_here_holds():
    graph = load((DATA / "chat_0.1.5.yml").read_bytes())
    llm = graph.by_id["1703"]
    nodes = [
        replace(n, params={**n.params, "user": "Anew: {{#1700.sys.query#}}"}) if n is llm else n for n in graph.nodes
    ]
    written = nodes_of(dump(replace(graph, nodes=nodes)))["1703"]
    assert written["data"]["prompt_template"][1]["text"] == "Anew: {{#sys.query#}}"
    assert written["data"]["model"]["name"] == "gpt-4o-mini"
    assert written["data"]["memory"]["window"] == {"enabled": True, "size": 20}
    assert written["position"] == {"x": 992, "y": 282}


def test_what_is_changed_there_holds():
    graph = graph_of("llm", {"system": "", "user": "Of {{#'1'.t#}}"})
    root = values(dump(graph))
    root["workflow"]["graph"]["nodes"][1]["data"]["prompt_template"][0]["text"] = "On {{#1.t#}}"
    assert load(write_yaml(root)).by_id["2"].params["user"] == "On {{#1.t#}}"


def test_new_nodes_bring_their_plugins():
    graph = load((DATA / "files_0.3.1.yml").read_bytes())
    added = replace(graph, nodes=[*graph.nodes, NodeSpec("sing", "google-search", {"query": "x"})])
    named = [
        each["value"]["marketplace_plugin_unique_identifier"].partition(":")[0]
        for each in values(dump(added))["dependencies"]
    ]
    assert named == ["somebody/slides", "langgenius/google"]


def test_a_difference_is_put_back():
    made = {"a": 1, "b": [1, {"c": "x"}], "d": None, "e": [1]}
    given = {"a": True, "b": [1, {"c": "y", "n": 0}], "e": [1, 2], "f": {"is": 1, "was": 2}}
    how = change(made, given)
    assert apply_difference(made, how) == given
    assert apply_difference(made, how)["a"] is True
    assert change(made, copy.deepcopy(made)) is None
    assert apply_difference({**made, "a": 2}, how)["a"] == 2
    assert apply_difference({**made, "a": 2}, how, sure=True)["a"] is True


# What cannot be held


def test_losses():
    assert losses(graph_of("llm", PROMPTS)) == []
    nodes = [
        start(["文", "string"], ["list", "array[string]"], ["sys.query", "string"]),
        NodeSpec("2", "llm", {"system": "", "user": "{{#1.文#}}"}),
        NodeSpec("3", "sub-workflow", {"workflow": "w"}),
        NodeSpec("4", "assigner", {"assignments": [[["x", "conversation"], "append", "a"]]}),
        NodeSpec("5", "end", {"outputs": []}, extra={"coze": {}}),
    ]
    graph = NodeGraph(nodes, [Edge("1", "2", input="model", extra={"awel": 1})], extra={"comfyui": 1})
    found = [(issue.where, issue.message.split()[0]) for issue in losses(graph)]
    assert found == [
        ("1", "the"),
        ("2", "'文'"),
        ("3", "Dify"),
        ("4", "assignments[0]:"),
        ("1 → 2", "that"),
        ("", "settings"),
        ("5", "settings"),
        ("1 → 2", "settings"),
    ]
    assert [issue.code for issue in losses(graph)] == ["loss"] * 5 + ["note"] * 3


# Layout


def test_layout():
    nodes = [NodeSpec(node_id, "end") for node_id in "abcd"]
    graph = NodeGraph(nodes, [Edge("a", "b"), Edge("a", "c"), Edge("b", "d"), Edge("c", "d"), Edge("a", "d")])
    at = places(graph, [])
    assert at["a"].x < at["b"].x == at["c"].x < at["d"].x
    assert at["b"].y < at["d"].y < at["c"].y


def test_layout_of_what_goes_round():
    nodes = [NodeSpec("a", "end", parent="b"), NodeSpec("b", "end", parent="a"), *(NodeSpec(n, "end") for n in "cd")]
    assert set(places(NodeGraph(nodes, [Edge("c", "d"), Edge("d", "c")]), [])) == set("abcd")


# The recorded workflows


def test_recorded_workflows_come_back_exactly(shared_data):
    count = 0
    for path in sorted((shared_data / "chat2workflow").glob("m*/*.json")) + sorted(
        (shared_data / "chat2workflow").glob("apr/*.json")
    ):
        for record in sample(json.loads(path.read_text(encoding="utf-8")), 8):
            try:
                graph = chat2workflow.load(record["workflow"] or "", record["task"])
            except InvalidError:
                continue
            if check(graph, NODE_TYPES):
                continue
            count += 1
            data = dump(graph)
            assert is_it(data)
            assert load(data, graph.name) == graph
            if count % 5 == 0:
                assert dump(load(data, graph.name)) == data
            assert losses(graph) == [] or all(
                "becomes a text" in issue.message or "cannot be named" in issue.message for issue in losses(graph)
            )
    assert count > amount(30, 300)


# Hostile files

BAD = {
    "empty": b"",
    "no mapping": b"- 1\n",
    "no YAML": b"a: [1\n",
    "not UTF-8": b"\xff\xfe\x00a",
    "too large": b"a" * (MAX_BYTES + 1),
    "bomb": b"a: &a [1,1,1,1,1,1,1,1,1,1]\n" + b"".join(b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 10)) for c in range(97, 110)),
    "deep": b"[" * 10_000,
    "deep mapping": b"".join(b" " * n + b"a:\n" for n in range(200)),
    "itself": b"&a [*a]\n",
    "merge": b"a: &a {x: 1}\nb: {<<: *a}\n",
    "tag": b"a: !!python/object/apply:os.system [ls]\n",
    "binary": b"a: !!binary aGk=\n",
    "number": b"a: " + b"1" * 10_000 + b"\n",
    "date": b"a: 2024-99-99\n",
    "key": b"? [a]\n: 1\n",
    "twice": b"a: 1\na: 2\n",
    "two documents": b"a: 1\n---\nb: 2\n",
    "another app": b"kind: app\napp: {mode: chat}\nworkflow: {graph: {nodes: [], edges: []}}\n",
    "another kind": b"kind: rag_pipeline\napp: {mode: workflow}\nworkflow: {graph: {nodes: [], edges: []}}\n",
}  # fmt: skip


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_hostile_files_are_refused(data):
    with pytest.raises(InvalidError):
        load(data, "bad")


ODD = (None, 7, [1], {"a": 1})


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_types_and_names_that_are_no_texts_are_read_or_refused(odd):
    """Also those that cannot be members of a set, or keys."""
    nodes = [{"id": "1", "data": {"type": "start"}}, {"id": "2", "data": {"type": "end"}}]
    edges = [{"source": "1", "target": "2"}]
    variables = [{"name": odd, "value": "x", "value_type": kind} for kind in ("string", "secret", odd)]
    whole = {"app": {"mode": "workflow"}, "workflow": {"environment_variables": variables}}
    whole["workflow"]["graph"] = {"nodes": nodes, "edges": edges}
    made = dump(load(json.dumps(whole).encode(), "odd"))
    assert values(made)["workflow"]["environment_variables"] == variables
    nodes.append({"id": "3", "data": {"type": odd}})
    with pytest.raises(InvalidError, match="type: must be the name of a node type"):
        load(json.dumps({"nodes": nodes, "edges": edges}).encode(), "odd")


def test_all_issues_are_named_with_their_lines():
    data = b"""kind: app
app:
  mode: chat
workflow:
  graph:
    nodes:
    - id: 1
      data: {type: start}
    - {id: a, data: {type: ''}}
    - {id: a, data: 3}
    - 7
    edges:
    - {source: a}
"""
    with pytest.raises(InvalidError) as caught:
        load(data, "bad")
    assert [issue.where for issue in caught.value.issues] == [f"line {n}" for n in (3, 7, 9, 10, 10, 11, 13)]


@pytest.mark.parametrize(
    ("data", "subject"),
    [
        (b"app: {name: greet, mode: chat}\n", "flow: 2 issues\n"),
        (b"app: {mode: chat}\n", "flow: 2 issues\n"),
        (b"app: [\n", "flow: 1 issue\n"),
    ],
)
def test_an_error_names_the_file_also_if_the_app_in_it_has_a_name(data, subject, tmp_path):
    (tmp_path / "flow.dify.yml").write_bytes(data)
    with pytest.raises(InvalidError) as caught:
        DIFY.load(tmp_path / "flow.dify.yml")
    assert str(caught.value).startswith(subject)


def test_an_error_of_content_without_a_name_names_the_app():
    with pytest.raises(InvalidError, match=r"^greet: 2 issues"):
        load(b"app: {name: greet, mode: chat}\n")


LENGTH = amount(2**18, 2**20)


@pytest.mark.parametrize(
    "text", ["{{#" + " " * LENGTH, "{{#" * (LENGTH // 2), "{{#a." + "b" * LENGTH, "{{#'" + "a" * LENGTH]
)
def test_what_looks_like_a_reference_takes_no_time(text):
    graph = graph_of("llm", {"system": "", "user": text})
    assert load(dump(graph), graph.name) == graph
    assert losses(graph) == []


def test_half_a_character_is_replaced():
    assert values(dump(graph_of("llm", {"system": "", "user": "\ud83d!"})))["app"]["mode"] == "workflow"


def test_a_bare_equals_sign_is_text():
    assert values(b"{operator: =}") == {"operator": "="}


NASTY = [None, "", 0, -1, 10**30, 1e308, True, [], {}, [[]], "x" * 200, {"a": 1}, [1], "{{#1.x#}}", ["1", "x"], "{{#", " a\nb ", {"was": 1, "is": 2}]  # fmt: skip


def _spots(value, found):
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found.append((value, key))
        _spots(inner, found)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_with_values_swapped(path):
    rng = random.Random(path.name)  # noqa: S311
    original = values(path.read_bytes())
    refused, tries = 0, amount(4, 20)
    for _ in range(tries):
        root = copy.deepcopy(original)
        for _ in range(rng.randint(1, 4)):
            holder, key = rng.choice(_spots(root, []))
            if rng.random() < 0.3:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(rng.choice(NASTY))
        data = write_yaml(root)
        try:
            graph = load(data, "swapped")
        except InvalidError:
            refused += 1
            continue
        assert values(dump(graph)) == root
        assert load(dump(graph), "swapped") == graph
        losses(graph)
        check(graph, NODE_TYPES)
    assert refused < 0.9 * tries


def test_files_with_bytes_flipped():
    rng = random.Random(7)  # noqa: S311
    for path in FILES:
        for _ in range(amount(15, 25)):
            data = bytearray(path.read_bytes())
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                graph = load(bytes(data), "flipped")
            except InvalidError:
                continue
            assert load(dump(graph), "flipped") == graph


@pytest.mark.parametrize(
    "own", [3, {"id": 3}, {"id": "1"}, {"params": {"is": 3}}, {"params": {"at": {"user": {"is": []}}}}, {"type": "x"}]
)
def test_what_stands_under_our_own_key_need_not_be_right(own):
    data = app(("1", {"type": "start", "variables": []}), ("2", {"type": "llm", "operad": own, "prompt_template": []}))
    graph = load(data)
    assert values(dump(graph)) == values(data)
    assert load(dump(graph)) == graph


def test_parameters_that_are_not_right_are_written_and_read_back():
    rng = random.Random(3)  # noqa: S311
    for kind in [*NODE_TYPES, "other"]:
        if kind == "conversation":
            continue
        for _ in range(amount(1, 8)):
            params = {
                name: copy.deepcopy(rng.choice(NASTY))
                for name in ("variables", "cases", "user", "operator", "outputs", "url", "x")
            }
            graph = graph_of(kind, params)
            assert load(dump(graph), graph.name) == graph


def test_the_format():
    assert (DIFY.name, DIFY.suffix) == ("dify", ".dify.yml")
    assert not is_it(b'{"nodes_info": [], "edges": []}')
    assert not is_it(b"kind: Pod\nworkflow: x\n")
    node = b"- {id: a, data: {type: llm, model: {completion_params: {}}}}"
    assert is_it(b"edges:\n- {source: s, target: a}\nnodes:\n" + node)
    assert not is_it(b"edges:\n- {source: s, target: a}\nnodes:\n" + node.replace(b"completion_params", b"params"))
    assert needed_plugin("start") == ""


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_a_variable_of_a_kind_of_number_is_a_number(kind):
    variable = {"name": "limit", "value_type": kind, "value": 5}
    data = app(
        ("1", {"type": "start", "variables": []}),
        ("2", {"type": "end", "outputs": [{"variable": "x", "value_selector": ["env", "limit"]}]}),
        edges=[("1", "source", "2")],
        environment_variables=[variable],
        conversation_variables=[variable],
    )
    graph = load(data)
    assert graph.by_id["1"].params["variables"] == [["env.limit", "number"]]
    assert graph.by_id["conversation"].params["variables"] == [["limit", "number", 5]]
    assert check(graph, NODE_TYPES) == []
    assert values(dump(graph)) == values(data)


@pytest.mark.parametrize(("said", "name"), [("name: workflow, ", "workflow"), ("", "file")])
def test_a_file_keeps_the_name_that_it_gives_its_workflow(said, name):
    text = f"kind: app\napp: {{{said}mode: workflow}}\nworkflow: {{graph: {{nodes: [], edges: []}}}}\n"
    assert DIFY.load(text.encode(), "file").name == name


def test_a_difference_shows_short_values_and_no_digests_of_them():
    made = {"x": 0, "title": "llm", "open": False, "none": None, "list": [], "long": "x" * 200, "more": {"a": 1}}
    how: Any = change(made, dict.fromkeys(made, "new"))
    assert {key: each["was"] for key, each in how["at"].items() if key not in ("long", "more")} == {
        "x": 0, "title": "llm", "open": False, "none": None, "list": [],
    }  # fmt: skip
    assert [len(how["at"][key]["was"]) for key in ("long", "more")] == [16, 16]
    assert apply_difference(made, how) == dict.fromkeys(made, "new")
    edited = {**made, "x": False, "title": "LLM", "open": 0, "list": [1], "long": "x" * 199}
    assert apply_difference(edited, how) == {**edited, "none": "new", "more": "new"}


def test_differences_of_files_with_digests_of_short_values_are_still_applied():
    assert apply_difference({"x": 0}, {"at": {"x": {"was": "5feceb66ffc86f38", "is": 80}}}) == {"x": 80}


@pytest.mark.parametrize(
    "data",
    [
        "", "null", "a text", "3", "[]", "- id: a", "{}", "a: 1", "nodes: {1: {type: start}}", "graph: {}", "kind: app",
        "app: {mode: chat}", "workflow: {}", "workflow: [1]", "workflow: {graph: {nodes: [1]}}", "experts: []",
        "workflow: {graph: {nodes: [{id: a}]}}", "graph: {nodes: [{data: {}}]}", '{"nodes": [{"id": "1"}], "edges": []}',
        '{"nodes_info": []}', '{"3": {"class_type": "KSampler"}}',
    ],
)  # fmt: skip
def test_the_lines_of_a_file_that_is_not_dify_s_are_an_error_as_its_workflow_is(data):
    with pytest.raises(InvalidError) as of_workflow:
        DIFY.load(data.encode(), "the file")
    with pytest.raises(InvalidError) as of_lines:
        DIFY.lines(data.encode())
    assert str(of_lines.value) == str(of_workflow.value)


@pytest.mark.parametrize("ids", [["1", "2"], ["1", "1733812"], ["a", "b"]])
@pytest.mark.parametrize("read", ["class_id", "class_name"])
def test_a_classifier_keeps_the_ids_of_its_classes_where_a_node_reads_the_chosen_one(ids, read):
    classes = [{"id": each, "name": f"class {each}"} for each in ids]
    ask = {"type": "question-classifier", "title": "", "query_variable_selector": ["1", "t"], "classes": classes}
    end = {"type": "end", "title": "", "outputs": [{"variable": "x", "value_selector": ["2", read]}]}
    file = app(("2", ask), ("3", end))
    graph = load(file)
    kept = ids if read == "class_id" and ids != ["1", "2"] else None
    assert graph.by_id["2"].params.get("class_ids") == kept
    assert values(dump(graph)) == values(file)
    new = replace(graph, nodes=[replace(spec, extra={}) for spec in graph.nodes])
    assert [each["id"] for each in nodes_of(dump(new))["2"]["data"]["classes"]] == (kept or ["1", "2"])


EXTRACT = {
    "type": "parameter-extractor",
    "title": "",
    "query": ["1", "t"],
    "instruction": "",
    "parameters": [{"name": "sum", "type": "number", "description": "A sum", "required": True}],
}


async def test_an_extractor_of_dify_goes_on_with_empty_values_and_says_why():
    begin = {"type": "start", "title": "", "variables": [{"variable": "t", "type": "paragraph", "required": True}]}
    end = {"type": "end", "title": "", "outputs": [{"variable": "x", "value_selector": ["2", "sum"]}]}
    file = app(("1", begin), ("2", EXTRACT), ("3", end), edges=[("1", "source", "2"), ("2", "source", "3")])
    graph = load(file)
    assert graph.by_id["2"].params["on_mismatch"] == "empty"
    assert values(dump(graph)) == values(file)
    heard = []
    async with ScriptedModel([Say("No sum.")] * 3) as scripted:
        async for event in assemble(graph, NODE_TYPES).stream(
            Job("", inputs={"t": "tea"}), MonoModelReasoner(scripted.model)
        ):
            heard.append(event)
    [fell] = [event for event in heard if isinstance(event, events.FellBack)]
    assert (fell.path, fell.to) == (("2",), "empty values")
    assert fell.error.startswith("scripted gave no answer that fits its schema in 3 tries")
    assert heard[-1].message.outputs == {"x": 0}


@pytest.mark.parametrize("more", [{}, {"on_mismatch": "empty"}], ids=["fails", "goes on"])
def test_a_dify_file_keeps_what_an_extractor_of_operad_does_after_a_misfit(more):
    params = {"query": ["t", "1"], "parameters": [["A sum", "sum", "number"]], "instruction": "", **more}
    graph = graph_of("parameter-extractor", params)
    assert load(dump(graph)).by_id["2"].params == params


def weigh(fruit: str) -> dict[str, object]:
    """Weigh a fruit."""
    return {"fruit": fruit, "grams": 50}


@pytest.mark.parametrize("extra", [True, False], ids=["of Dify", "of Operad"])
@pytest.mark.parametrize("tool", ["weigh", "scales"])
def test_in_a_workflow_of_dify_a_tool_gives_what_it_gives_there(tool, extra):
    inside = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["fruit", "string"]]}),
            NodeSpec("2", "end", {"outputs": [["fruit", ["fruit", "1"]]]}),
        ],
        [Edge("1", "2")],
    )
    call = {"type": "tool", "title": "", "tool_name": tool, "tool_parameters": {"fruit": {"value": "fig"}}}
    read = [{"variable": name, "value_selector": ["2", name]} for name in ("text", "json")]
    end = {"type": "end", "title": "", "outputs": read}
    begin = {"type": "start", "title": "", "variables": []}
    edges = [("1", "source", "2"), ("2", "source", "3")]
    graph = load(app(("1", begin), ("2", call), ("3", end), edges=edges))
    graph = graph if extra else replace(graph, extra={})
    services = Services(tools=[weigh], workflows={"scales": assemble(inside, NODE_TYPES)})
    outputs = assemble(graph, NODE_TYPES, services=services).run({}).message.outputs
    given = {"fruit": "fig"} if tool == "scales" else {"fruit": "fig", "grams": 50}
    assert outputs["json"] == ([given] if extra else given)
    assert outputs["text"] == (json.dumps(given) if extra or tool == "weigh" else "fig")
