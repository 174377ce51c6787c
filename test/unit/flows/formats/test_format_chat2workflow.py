"""Chat2Workflow's JSON, and whole responses: read, written, and written with ids that say what runs inside of what."""

import json

import pytest

from operad.flows.formats.chat2workflow import CHAT2WORKFLOW, dump, load, losses, node_lines
from operad.flows.formats.format import check_nodes
from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.errors import InvalidError

FLOW = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["name", "string"]]}},
        {"id": "2", "type": "end", "param": {"outputs": [["text", ["name", "1"]]]}},
    ],
    "edges": [["1", 0, "2"]],
}


def response(selection):
    text = json.dumps(FLOW, indent=2)
    return f"So:\n<node_selection>{selection}</node_selection>\n<workflow>\n{text}\n</workflow>\nDone.\n".encode()


def test_what_stands_around_the_tags_comes_back():
    assert dump(load(response("Start, End"))) == response("Start, End")
    assert node_lines(response("Start, End"))["1"] == 7
    assert CHAT2WORKFLOW.is_it(response(""))


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ("Start, End (2x)", []),
        ("start", ["'end' is not listed in <node_selection>; name it there"]),
        ("Start, End, Template", ["'template-transform' is selected, and no node is of that type"]),
    ],
)
def test_nodes_are_those_of_the_selection(selection, said):
    assert [issue.message for issue in CHAT2WORKFLOW.check(load(response(selection)))] == said


def test_ids_come_to_say_what_runs_inside_of_what():
    graph = NodeGraph(
        [
            NodeSpec("a-b", "start", {"variables": [["items", "array[string]"]]}),
            NodeSpec("each", "iteration", {"iterator_selector": ["items", "a-b"], "output_selector": ["text", "say"]}),
            NodeSpec("say", "llm", {"system": "", "user": "{{#'each'.item#}} of {{#a-b.items#}}"}, "each"),
            NodeSpec("begin", "iteration-start", {}, "each"),
            NodeSpec("end", "end", {"outputs": [["said", ["output", "each"]]]}),
        ],
        [Edge("a-b", "each"), Edge("begin", "say"), Edge("each", "end")],
    )
    assert check_nodes(graph) == []
    again = load(dump(graph))
    assert [node.id for node in again.nodes] == ["a_b", "each", "each-1", "each-2", "end"]
    assert again.by_id["each-2"].params["user"] == "{{#'each'.item#}} of {{#a_b.items#}}"
    assert CHAT2WORKFLOW.check(again) == []
    assert [issue.where for issue in losses(graph)] == ["a-b", "say", "begin"]


def test_new_ids_reach_conditions_that_are_written_without_a_value():
    graph = NodeGraph(
        [
            NodeSpec("a-b", "start", {"variables": [["x", "string"]]}),
            NodeSpec("if", "if-else", {"cases": [[None, [[["x", "a-b"], "empty"]]]]}),
        ],
        [Edge("a-b", "if")],
    )
    assert load(dump(graph)).by_id["if"].params == {"cases": [[None, [[["x", "a_b"], "empty"]]]]}


def test_recorded_workflows_come_back_exactly(shared_data):
    count = 0
    for path in sorted(shared_data.glob("chat2workflow/[am]*/*.json")):
        for record in json.loads(path.read_text(encoding="utf-8")):
            try:
                graph = load(record["workflow"] or "", record["task"])
            except InvalidError:
                continue
            count += 1
            assert load(dump(graph), record["task"]) == graph
            assert losses(graph) == []
    assert count == 568


def test_parameters_that_chat2workflow_lacks_are_losses():
    start = NodeSpec("1", "start", {"variables": [["text", "string"]], "defaults": {"text": "none"}})
    model = NodeSpec("2", "llm", {"system": "", "user": "{{#1.text#}}", "failure": {"retries": 2}})
    assert [(issue.where, issue.message) for issue in losses(NodeGraph([start, model]))] == [
        ("1", "defaults: Chat2Workflow has no such parameter; it is written with that name"),
        ("2", "failure: Chat2Workflow has no such parameter; it is written with that name"),
    ]


@pytest.mark.parametrize("form", [str, str.encode])
def test_text_has_the_same_size_limit_as_a_file(form):
    text = json.dumps(FLOW)
    assert load(form(text + " " * (MAX_BYTES - len(text)))).name == "workflow"
    with pytest.raises(InvalidError) as caught:
        load(form(text + "é" * ((MAX_BYTES - len(text)) // 2 + 1)))
    assert [issue.code for issue in caught.value.issues] == ["size"]
