"""Canvases of Coze Studio, of our own: they run by the rules of their nodes, or say why not, and are written back."""

import json
import random
from copy import deepcopy
from pathlib import Path

import pytest
from amounts import amount, sample
from coze_runs import outputs_of, told

from operad.flows.edit import apply, parse
from operad.flows.formats.table import FORMATS, find_format, read
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze.format import COZE, COZE_CANVAS
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).parents[2] / "data" / "coze_canvas_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
RUNS = [name for name, outcome in OUTCOMES.items() if "outputs" in outcome]
TOLD = [name for name in OUTCOMES if name not in RUNS]


def canvas(name):
    return (DATA / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", RUNS)
def test_a_canvas_runs_by_cozes_rules(name):
    found, graph = read(canvas(name), name)
    assert found is COZE_CANVAS
    assert outputs_of(graph, OUTCOMES[name]) == OUTCOMES[name]["outputs"]
    assert told(graph) == ([], [])


@pytest.mark.parametrize("name", TOLD)
def test_a_canvas_that_cannot_run_as_at_coze_names_the_node_and_the_feature(name):
    refusals, losses = told(COZE_CANVAS.load(canvas(name)))
    outcome = OUTCOMES[name]
    said, *_ = refusals or losses
    assert said.message.partition("; there are: ")[0] == outcome["refused" if refusals else "differs"]
    assert said.where in ("110001", "900001", "conversation")


@pytest.mark.parametrize("name", sample(OUTCOMES, 2))
def test_a_canvas_is_written_back_as_it_was(name):
    graph = COZE_CANVAS.load(canvas(name), name)
    assert COZE_CANVAS.losses(graph) == []
    assert json.loads(COZE_CANVAS.dump(graph)) == json.loads(canvas(name))


@pytest.mark.parametrize("name", sample(RUNS, 4))
def test_a_canvas_becomes_an_archive_that_runs_the_same(name):
    graph = COZE.load(COZE.dump(COZE_CANVAS.load(canvas(name), name)))
    assert outputs_of(graph, OUTCOMES[name]) == OUTCOMES[name]["outputs"]


@pytest.mark.parametrize("name", sample(RUNS, 4))
def test_a_workflow_without_its_canvas_is_written_as_one_that_runs_the_same(name):
    graph = COZE_CANVAS.load(canvas(name), name)
    bare = NodeGraph(
        [NodeSpec(each.id, each.type, each.params, each.parent) for each in graph.nodes],
        [Edge(each.source, each.target, each.port) for each in graph.edges],
        graph.name,
    )
    written = COZE_CANVAS.dump(bare)
    again = COZE_CANVAS.load(written, name)
    assert outputs_of(again, OUTCOMES[name]) == OUTCOMES[name]["outputs"]
    assert COZE_CANVAS.dump(again) == written


def test_a_change_leaves_all_other_nodes_edges_versions_and_positions_as_they_were():
    before = json.loads(canvas("mixed"))
    graph = COZE_CANVAS.load(canvas("mixed"))
    edited = apply(graph, parse("set 120001 user 'Cut {{#110002.item#}}'")).graph
    after = json.loads(COZE_CANVAS.dump(edited))
    [inner] = after["nodes"][2]["blocks"]
    values = {each["name"]: each["input"]["value"].get("content") for each in inner["data"]["inputs"]["llmParam"]}
    assert values["prompt"] == "Cut {{p}}"
    assert values["modelName"] == "Doubao"
    assert {key: inner[key] for key in ("id", "type", "meta", "version")} == {
        key: before["nodes"][2]["blocks"][0][key] for key in ("id", "type", "meta", "version")
    }
    after["nodes"][2]["blocks"] = before["nodes"][2]["blocks"]
    assert after == before


def test_a_removed_node_takes_its_edges_along():
    graph = COZE_CANVAS.load(canvas("output"))
    after = json.loads(COZE_CANVAS.dump(apply(graph, parse("remove_node 110001")).graph))
    assert [each["id"] for each in after["nodes"]] == ["100001", "900001"]
    assert [(each["sourceNodeID"], each["targetNodeID"]) for each in after["edges"]] == [("100001", "900001")]


@pytest.mark.parametrize(
    "text", ['{"nodes": [], "edges": []}', '{"nodes": [{"type": "1"}]}', "[]", '{"nodes_info": []}']
)
def test_other_json_is_no_canvas(text):
    assert find_format(text.encode()) is not COZE_CANVAS


def test_a_misshapen_canvas_names_every_place():
    nodes = [{"id": "1", "type": "1", "data": {}}, 7, {"type": "3"}]
    text = json.dumps({"nodes": nodes, "edges": [{"sourceNodeID": "1"}, 3]})
    with pytest.raises(InvalidError) as raised:
        FORMATS["coze-canvas"].load(text)
    assert [issue.code for issue in raised.value.issues] == ["misshapen-edge"] * 2 + ["misshapen-node"] * 2


ODD = [None, True, 0, -1, 1.5, "", "7", [], {}, [[]], {"a": 1}, "{{", ["a"], {"value": 3}, {"type": "list"}]


def test_whatever_is_replaced_in_a_canvas_it_is_read_or_refused():
    names = list(OUTCOMES)
    files = {name: json.loads(canvas(name)) for name in names}
    for seed in range(amount(20, 60)):
        chance = random.Random(seed)  # noqa: S311
        document = deepcopy(files[chance.choice(names)])
        for _ in range(chance.randrange(1, 4)):
            places, waiting = [], [document]
            while waiting:
                inner = waiting.pop()
                keys = list(inner) if isinstance(inner, dict) else range(len(inner))
                places += [(inner, key) for key in keys]
                waiting += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
            holder, key = chance.choice(places)
            holder[key] = deepcopy(chance.choice(ODD))
        try:
            graph = COZE_CANVAS.load(json.dumps(document), "canvas")
        except InvalidError:
            continue
        told(graph)
        for each in (COZE_CANVAS, COZE):
            each.losses(graph)
            each.dump(graph)
