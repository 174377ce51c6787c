import asyncio
import io
import json
import random
import struct
import zipfile
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from amounts import amount, sample

from operad.flows.check import check
from operad.flows.formats import chat2workflow
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze.format import COZE, MAX_FILES, dump, is_it, load, losses
from operad.integrations.coze.names import normal_text
from operad.integrations.coze.nodes import MAPPED
from operad.integrations.coze.write import places
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime.values.errors import InvalidError

START = NodeSpec("1", "start", {"variables": [["text", "string"], ["papers", "array[file]"], ["n", "number"]]})
END = NodeSpec("9", "end", {"outputs": [["said", ["text", "2"]]]})


def pack(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return stream.getvalue()


def unpack(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {path: archive.read(path).decode() for path in archive.namelist()}


def flow_of(data):
    return yaml.safe_load(next(text for path, text in unpack(data).items() if path.endswith("-draft.yaml")))


def archive_of(flow, name="summary"):
    manifest = {"type": "Workflow", "version": "1.0.0", "main": {"id": 7, "name": name}, "sub": []}
    folder = f"Workflow-{name}-draft-0001"
    return pack(
        {
            f"{folder}/MANIFEST.yml": yaml.safe_dump(manifest),
            f"{folder}/workflow/{name}-draft.yaml": yaml.safe_dump(flow, sort_keys=False),
        }
    )


def normal(graph):
    """The normal form that the module declares, with edges in an order of their own."""

    def in_order(parent):
        inside = [node for node in graph.nodes if node.parent == parent]
        for node in sorted(inside, key=lambda node: node.type not in ("iteration-start", "loop-start")):
            yield node
            yield from in_order(node.id)

    def texts(value):
        if isinstance(value, str):
            return normal_text(value)
        if isinstance(value, dict):
            return {key: texts(item) for key, item in value.items()}
        return [texts(item) for item in value] if isinstance(value, list) else value

    def params(node):
        made: Any = texts(node.params)
        for case in made["cases"] if node.type == "if-else" else []:
            case[0] = "or" if case[0] == "or" else "and" if len(case[1]) > 1 else None
        return made

    nodes = list(in_order(""))
    ends = [node for node in nodes if node.type == "end"]
    if len(ends) > 1:
        nodes = [*(node for node in nodes if node.type != "end"), *ends]
    edges = sorted(graph.edges, key=lambda edge: (edge.source, edge.target, edge.port))
    return NodeGraph([replace(node, params=params(node)) for node in nodes], edges, graph.name, graph.extra)


def issues_of(data):
    with pytest.raises(InvalidError) as caught:
        load(data, "given")
    return [issue.code for issue in caught.value.issues]


# Out and back


@pytest.mark.parametrize("node_type", [each for each in NODE_TYPES.values() if each.type not in ("start", "end")])
def test_every_type_comes_back_the_same(node_type):
    node = NodeSpec("2", node_type.type, dict(node_type.example))
    graph = NodeGraph([START, node, END], [Edge("1", "2"), Edge("2", "9")], "one")
    assert load(dump(graph)) == graph
    if node_type.type not in MAPPED:
        assert flow_of(dump(graph))["nodes"][1]["type"] == "plugin"


@pytest.mark.parametrize(
    "params",
    [
        {"cases": [["or", [[["text", "1"], "start with", "a"], [["text", "1"], "in", ["a", "b"]]]]]},
        {"cases": [[None, [[["n", "1"], "=", "3"]]], [None, [[["n", "1"], "≥", "{{#2.x#}}"]]]]},
        {"cases": [[None, [[["papers", "1"], "all of", ["image"]]]], ["and", [[["a", "1"], "is", "true"]] * 2]]},
        {"cases": [[None, []]]},
        {"cases": [[None, [[["f", "1"], "exists"]]], [None, [[["f", "1"], "not empty"]]]]},
        {"cases": [[None, [[["text", "1"], "is", "a {{#1.text#}} b"]]]]},
        {"cases": [["or", [[["text", "1"], "null"], [["f", "1"], "exists"], [["n", "1"], "not null"]]]]},
    ],
)
def test_conditions_come_back_the_same(params):
    graph = NodeGraph(
        [START, NodeSpec("2", "if-else", params), END], [Edge("1", "2"), Edge("2", "9", len(params["cases"]))]
    )
    assert load(dump(graph)) == graph


@pytest.mark.parametrize(
    ("operator", "number", "nearest"),
    [("exists", 10, "not empty"), ("not null", 10, "not empty"), ("not exists", 9, "empty"), ("null", 9, "empty")],
)
def test_whether_a_text_exists_is_written_as_whether_it_is_empty(operator, number, nearest):
    node = NodeSpec("2", "if-else", {"cases": [[None, [[["text", "1"], operator]]]]})
    graph = NodeGraph([START, node, END], [Edge("1", "2"), Edge("2", "9", 1)])
    [branch] = flow_of(dump(graph))["nodes"][1]["parameters"]["branches"]
    [condition] = branch["condition"]["conditions"]
    assert (condition["operator"], condition["left"]["input"].keys()) == (number, {"value"})
    assert f"1.text: Coze has no {operator!r} here; {nearest!r} is written" in [each.message for each in losses(graph)]


@pytest.mark.parametrize(
    "params", [None, [], {"user": 3}, {"a": {"b": [1, None]}}, "text", {"user": "x", "system": ""}]
)
def test_parameters_that_are_not_right_come_back_the_same(params):
    graph = NodeGraph([NodeSpec("2", kind, params) for kind in ("llm",)] + [NodeSpec("x y", "odd", params)], [])
    assert load(dump(graph)) == graph


def test_an_archive_looks_as_coze_makes_them():
    data = dump(
        NodeGraph(
            [START, NodeSpec("2", "llm", {"system": "", "user": "Hi {{#'1'.text#}}"}), END], [Edge("1", "2")], "my flow"
        )
    )
    assert data == dump(load(data))
    assert is_it(data)
    assert list(unpack(data)) == [
        "Workflow-my_flow-draft/MANIFEST.yml",
        "Workflow-my_flow-draft/workflow/my_flow-draft.yaml",
    ]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {(file.flag_bits, file.create_system, file.external_attr) for file in archive.infolist()} == {(8, 0, 0)}
    assert struct.unpack_from("<HH", data, 10) == (0, 0)
    flow = flow_of(data)
    assert flow["name"] == "my_flow"
    assert [node["id"] for node in flow["nodes"]] == ["100001", "110001", "900001"]
    model = {each["name"]: each["input"]["value"] for each in flow["nodes"][1]["parameters"]["llmParam"]}
    assert model["prompt"] == "Hi {{_100001_text}}"
    assert flow["nodes"][1]["parameters"]["node_inputs"] == [
        {"name": "_100001_text", "input": {"value": {"path": "text", "ref_node": "100001"}}}
    ]
    assert load(data).name == "my flow"


def test_names_in_a_text_never_clash():
    user = "{{#1.a.b#}} {{#1.a_b#}} {{_100001_a_b}} {{ other }} {{#1.a_b#}}"
    graph = NodeGraph([START, NodeSpec("2", "llm", {"system": "{{x}}", "user": user})], [])
    assert load(dump(graph)) == graph


def test_code_is_wrapped_so_that_coze_can_call_it():
    code = "import json\n\ndef main(a, b):\n    return {'sum': a + b}"
    params = {"variables": [["a", ["n", "1"]], ["b", ["n", "1"]]], "outputs": [["sum", "number"]], "code": code}
    data = dump(NodeGraph([START, NodeSpec("2", "code", params)], [Edge("1", "2")]))
    wrapped = flow_of(data)["nodes"][1]["parameters"]
    assert wrapped["language"] == 3
    there = {}
    exec(wrapped["code"], there)  # noqa: S102 - what Coze does
    assert asyncio.run(there["main"](SimpleNamespace(params={"a": 2, "b": 3}))) == {"sum": 5}
    assert load(data).by_id["2"].params["code"] == code


def test_ports_have_the_names_of_coze():
    cases = [[None, [[["text", "1"], "is", "a"]]]] * 3
    classes = {"query_variable_selector": ["text", "1"], "classes": ["a", "b"]}
    graph = NodeGraph(
        [START, NodeSpec("2", "if-else", {"cases": cases}), NodeSpec("3", "question-classifier", classes), END],
        [
            Edge("1", "2"),
            *(Edge("2", "9", port) for port in range(3)),
            Edge("2", "3", 3),
            Edge("3", "9"),
            Edge("3", "9", 1),
        ],
    )
    assert [edge.get("source_port") for edge in flow_of(dump(graph))["edges"]] == [
        *(None, "true", "true_1", "true_2", "false", "branch_0", "branch_1", "default")
    ]
    assert load(dump(graph)) == graph


def test_an_iteration_holds_its_own_nodes_and_edges():
    body = [
        NodeSpec(
            "5",
            "iteration",
            {"iterator_selector": ["papers", "1"], "output_selector": ["text", "5-3"], "on_error": "skip"},
        ),
        NodeSpec("5-1", "iteration-start", {}, "5"),
        NodeSpec("5-2", "document-extractor", {"variable_selector": ["item", "5"]}, "5"),
        NodeSpec("5-3", "llm", {"system": "", "user": "{{#5-2.text#}} {{#5.index#}}"}, "5"),
        NodeSpec("5-4", "tts", {"text": "{{#5-2.text#}}"}, "5"),
    ]
    inside = [Edge("5-1", "5-2"), Edge("5-2", "5-3"), Edge("5-2", "5-4")]
    graph = NodeGraph([START, *body, END], [Edge("1", "5"), Edge("5", "9"), *inside])
    batch = flow_of(dump(graph))["nodes"][1]
    assert (batch["type"], len(batch["nodes"])) == ("batch", 3)
    assert [(edge.get("source_port"), edge.get("target_port")) for edge in batch["edges"]] == [
        ("batch-function-inline-output", None),
        (None, None),
        (None, None),
        (None, "batch-function-inline-input"),
        (None, "batch-function-inline-input"),
    ]
    assert load(dump(graph)) == graph
    assert [issue.message for issue in losses(graph)] == [
        "Coze has no field for on_error, or not for all of it; it is kept in the description"
    ]


def test_a_loop_comes_back_the_same():
    params = {"loop_count": 3, "variables": [["x", "number", 1]], "break_conditions": [[["x", "5"], "=", "2"]]}
    body = [
        NodeSpec("5", "loop", params),
        NodeSpec("begin", "loop-start", {}, "5"),
        NodeSpec("5-2", "loop-end", {}, "5"),
    ]
    graph = NodeGraph([START, *body, END], [Edge("1", "5"), Edge("5", "9"), Edge("begin", "5-2")])
    assert load(dump(graph)) == graph


SEVERAL = NodeGraph(
    [
        START,
        NodeSpec("2", "if-else", {"cases": [[None, [[["text", "1"], "is", "a"]]]]}),
        NodeSpec("3", "llm", {"system": "", "user": "a"}),
        NodeSpec("7", "end", {"outputs": [["a", ["text", "1"]], ["b", ["text", "3"]]]}),
        NodeSpec("8", "end", {"outputs": [["b", ["n", "1"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3"), Edge("2", "8", 1), Edge("3", "7"), Edge("3", "8")],
)


def test_several_ends_are_one_there_and_several_again_here():
    flow = flow_of(dump(SEVERAL))
    merge, end = flow["nodes"][-2:]
    assert (merge["type"], end["id"]) == ("variable_merge", "900001")
    assert [(group["name"], len(group["variables"])) for group in merge["parameters"]["mergeGroups"]] == [
        ("a", 1),
        ("b", 2),
    ]
    assert [node["type"] for node in flow["nodes"]].count("end") == 1
    assert normal(load(dump(SEVERAL))) == normal(SEVERAL)


def test_ends_that_were_changed_there_stay_one():
    flow = flow_of(dump(SEVERAL))
    flow["nodes"][-1]["parameters"]["node_inputs"].pop()
    graph = load(archive_of(flow, "workflow"))
    assert [node.type for node in graph.nodes].count("end") == 1
    assert graph.by_id["900001"].params == {"outputs": [["a", ["a.output", graph.nodes[-2].id]]]}
    assert load(dump(graph)) == graph


def test_recorded_workflows_come_back_the_same(shared_data):
    count = 0
    for file in sorted(shared_data.glob("chat2workflow/*/*.json")):
        if file.parent.name == "dataset":
            continue
        for response in sample(json.loads(file.read_text()), 8):
            try:
                graph = chat2workflow.load(response["workflow"] or "", response["task"])
            except InvalidError:
                continue
            if not check(graph, CHAT2WORKFLOW_TYPES):
                count += 1
                assert normal(load(dump(graph))) == normal(graph)
    assert count == amount(32, 311)


# What others made


def given(name, value, kind="string"):
    return {"name": name, "input": {"type": kind, "value": value}}


def refers(name, node, path):
    return {"name": name, "input": {"value": {"path": path, "ref_node": node}}}


FOREIGN = {
    "schema_version": "1.0.0",
    "name": "summary",
    "id": 7482702358159,
    "description": "示例",
    "mode": "workflow",
    "icon": "plugin_icon/workflow.png",
    "nodes": [
        {
            "id": "100001", "type": "start", "title": "开始", "icon": "x", "description": "", "position": {"x": 180, "y": 39.7},
            "parameters": {"node_outputs": {"url": {"type": "string", "required": True, "description": "文章"}}},
        },
        {
            "id": "140349", "type": "plugin", "title": "读取", "icon": "x", "description": "d", "position": {"x": 1, "y": 2},
            "parameters": {
                "apiParam": [given("apiID", "1"), given("apiName", "Link"), given("pluginID", "2")],
                "node_inputs": [refers("url", "100001", "url")],
                "node_outputs": {"data": {"type": "object", "properties": {"content": {"type": "string"}}}},
                "settingOnError": {"retryTimes": 0},
            },
        },
        {
            "id": "197398", "type": "llm", "title": "提炼", "icon": "x", "description": "d", "position": {"x": 3, "y": 4}, "version": "3",
            "parameters": {
                "llmParam": [
                    given("temperature", "1", "float"), given("modelName", "豆包"), given("prompt", "See {{input}} and {{ x }}"),
                    given("systemPrompt", ""), given("responseFormat", "0", "integer"),
                ],
                "node_inputs": [refers("input", "140349", "data.content")],
                "node_outputs": {"output": {"type": "string"}},
            },
        },
        {"id": "157201", "type": "comment", "title": "", "icon": "", "description": "", "position": {"x": 5, "y": 6}, "parameters": {"note": "n"}},
        {
            "id": "900001", "type": "end", "title": "结束", "icon": "x", "description": "", "position": {"x": 7, "y": 8},
            "parameters": {"node_inputs": [refers("said", "197398", "output")], "terminatePlan": "returnVariables"},
        },
    ],
    "edges": [
        {"source_node": "100001", "target_node": "140349"},
        {"source_node": "140349", "target_node": "197398"},
        {"source_node": "197398", "target_node": "900001"},
    ],
}  # fmt: skip


def test_what_others_made_is_read_and_written_back():
    graph = load(archive_of(FOREIGN))
    assert graph.by_id["197398"].params == {"system": "", "user": "See {{#140349.json.data.content#}} and {{ x }}"}
    assert graph.by_id["900001"].params == {"outputs": [["said", ["text", "197398"]]]}
    assert graph.by_id["140349"].type == "tool"
    assert flow_of(dump(graph)) == FOREIGN
    assert load(dump(graph)) == graph
    assert losses(graph) == []


def test_what_is_changed_here_is_written_over_what_they_said():
    graph = load(archive_of(FOREIGN))
    nodes = [
        replace(node, params={"system": "Be brief.", "user": "{{#100001.url#}}"}) if node.type == "llm" else node
        for node in graph.nodes
    ]
    written = flow_of(dump(replace(graph, nodes=nodes)))["nodes"][2]
    model = {each["name"]: each["input"]["value"] for each in written["parameters"]["llmParam"]}
    assert written["title"] == "提炼"
    assert (model["systemPrompt"], model["prompt"], model["modelName"]) == ("Be brief.", "{{_100001_url}}", "豆包")


def test_what_was_changed_there_counts_more_than_a_description():
    graph = NodeGraph(
        [START, NodeSpec("2", "if-else", {"cases": [[None, [[["text", "1"], "start with", "a"]]]]})], [Edge("1", "2")]
    )
    flow = flow_of(dump(graph))
    flow["nodes"][1]["parameters"]["branches"][0]["condition"]["conditions"][0]["operator"] = 1
    again = load(archive_of(flow))
    assert again.by_id["2"].params == {"cases": [[None, [[["text", "1"], "is", "a"]]]]}


def test_other_workflows_in_an_archive_stay_in_it():
    files = unpack(archive_of(FOREIGN))
    files["Workflow-summary-draft-0001/workflow/other-draft.yaml"] = "name: other\nnodes: []\n"
    assert "name: other\nnodes: []\n" in unpack(dump(load(pack(files)))).values()


# What is lost


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (NodeSpec("2", "list-operator", {"variable": ["papers", "1"], "operator": ["limit", 2]}), "cannot run"),
        (
            NodeSpec("2", "template-transform", {"variables": [], "template": "{% if x %}{% endif %}"}),
            "nothing else of Jinja",
        ),
        (NodeSpec("2", "tts", {"text": "Say {{#1.text#}}"}), "make it in a template before"),
        (NodeSpec("2", "llm", {"system": "", "user": "x"}, extra={"dify": {}}), "settings that only dify has"),
        (
            NodeSpec("2", "llm", {"system": "", "user": "x"}, extra={"dify": {"data": {"at": {"title": {"is": "A"}}}}}),
            "settings that only dify has: title",
        ),
        (NodeSpec("2", "llm", {"system": "", "user": "x"}, parent="gone"), "runs inside 'gone'"),
    ],
)
def test_what_is_lost_is_said(node, said):
    (issue,) = losses(NodeGraph([START, node], []))
    assert (issue.code, issue.where) == ("note" if said.startswith("settings") else "loss", "2")
    assert said in issue.message


# Hostile archives


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "format"),
        (b"PK\x03\x04", "format"),
        (b"x" * (16 * 2**20 + 1), "size"),
        (pack({}), "format"),
        (pack({"MANIFEST.yml": "a: 1"}), "format"),
        (pack({"MANIFEST.yml": "", "workflow/a-draft.yaml": ""}), "format"),
        (pack({"../MANIFEST.yml": "a: 1"}), "path"),
        (pack({"/etc/x.yaml": "a: 1"}), "path"),
        (pack({"C:/x.yaml": "a: 1"}), "path"),
        (pack({"workflow/a\\..\\b.yaml": "a: 1"}), "path"),
        (pack({"workflow/a-draft.yaml": b"\0" * (40 * 2**20)}), "size"),
        (pack({f"workflow/{n}.yaml": "a: 1" for n in range(MAX_FILES + 1)}), "size"),
        (pack({"workflow/a-draft.yaml": b"\xff\xfe"}), "format"),
        (pack({"workflow/a-draft.yaml": "nodes: 3"}), "format"),
        (pack({"workflow/a-draft.yaml": "nodes: [1, {id: 1}]\nedges: [[]]"}), "misshapen-node"),
        (pack({"workflow/a-draft.yaml": "a: &a [x]\nb: &b [*a, *a]\nnodes: " + "[" * 3000}), "depth"),
        (pack({"workflow/a-draft.yaml": "nodes: !!python/name:os.system x"}), "tag"),
    ],
)
def test_hostile_archives_are_refused(data, code):
    assert code in issues_of(data)


def test_nothing_is_written_to_a_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load(archive_of(FOREIGN))
    assert list(tmp_path.iterdir()) == []


def test_issues_have_lines():
    with pytest.raises(InvalidError) as caught:
        load(pack({"workflow/a-draft.yaml": "nodes:\n- id: 1\n  type: x\n- id: 2\nedges:\n- {source_node: 1}"}))
    assert [issue.where for issue in caught.value.issues] == [
        "workflow/a-draft.yaml:6 edges[0]",
        "workflow/a-draft.yaml:4 nodes[1]",
    ]


def test_mutated_bytes_are_read_or_refused():
    rng = random.Random(11)  # noqa: S311 - to break things with
    whole = [dump(SEVERAL), archive_of(FOREIGN)]
    for _ in range(1500):
        broken = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(broken))
            if rng.random() < 0.7:
                broken[at] = rng.randrange(256)
            else:
                del broken[at : at + rng.randint(1, 30)]
        try:
            load(bytes(broken))
        except InvalidError:
            continue


ODD = [
    None,
    0,
    -1,
    True,
    "",
    "x",
    [],
    {},
    [[]],
    {"a": 1},
    1e308,
    10**40,
    "{{#1.x#}}",
    ["a", "b"],
    {"path": 1, "ref_node": {}},
]


def mutated(value, rng, rate):
    if rng.random() < rate:
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {key: mutated(item, rng, rate) for key, item in value.items() if rng.random() > rate / 2}
    if isinstance(value, list):
        made = [mutated(item, rng, rate) for item in value if rng.random() > rate / 2]
        return made + made[:1] if rng.random() < rate else made
    return value


def test_mutated_workflows_are_read_or_refused_and_come_back():
    rng = random.Random(13)  # noqa: S311 - to break things with
    flows = [flow_of(dump(SEVERAL)), FOREIGN]
    for node_type in NODE_TYPES.values():
        node = NodeSpec("2", node_type.type, dict(node_type.example))
        flows.append(flow_of(dump(NodeGraph([START, node, END], [Edge("1", "2"), Edge("2", "9")]))))
    for turn in range(amount(60, 200)):
        flow = mutated(flows[turn % len(flows)], rng, rng.choice([0.005, 0.02, 0.05]))
        try:
            graph = load(archive_of(flow))
        except InvalidError:
            continue
        losses(graph)
        load(dump(graph))


def test_it_is_told_from_other_zips():
    assert not is_it(pack({"a.txt": "x"}))
    assert not is_it(b"MANIFEST.yml")
    assert COZE.suffix == ".coze.zip"


def test_any_graph_is_written_and_read_again():
    rng = random.Random(23)  # noqa: S311 - to break things with
    ids = ["1", "2", "5", "5-1", "", "123456", "900001", "a b"]
    types = [*NODE_TYPES, "odd", ""]
    for _ in range(amount(60, 150)):
        nodes = [
            NodeSpec(
                rng.choice(ids),
                kind,
                mutated(dict(NODE_TYPES[kind].example), rng, 0.05) if kind in NODE_TYPES else rng.choice(ODD),
                rng.choice(["", "", "", *ids]),
                rng.choice([{}, {}, {"coze": rng.choice(ODD)}, {"dify": 1}]),
            )
            for kind in rng.sample(types, 5)
        ]
        edges = [Edge(rng.choice(ids), rng.choice(ids), rng.choice([0, 0, 1, -1])) for _ in range(6)]
        graph = NodeGraph(nodes, edges, rng.choice(["a", "", "中文"]), rng.choice([{}, {"coze": rng.choice(ODD)}]))
        losses(graph)
        assert load(dump(graph)).name == graph.name or not graph.name


def test_each_node_of_a_long_chain_has_a_column_of_its_own():
    ids = [f"n{number}" for number in range(200)]
    edges = [{"source_node": source, "target_node": target} for source, target in pairwise(ids)]
    positions = places(ids[::-1], edges)
    assert [positions[each] for each in ids] == [(460 * number, 0) for number in range(200)]


def test_nodes_of_a_cycle_have_positions():
    edges = [{"source_node": source, "target_node": target} for source, target in ("ab", "bc", "cb", "cd")]
    positions = places("abcd", edges)
    assert list(positions) == list("abcd")
    assert len(set(positions.values())) == 4
