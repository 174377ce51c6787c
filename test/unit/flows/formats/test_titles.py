"""Titles that people give to nodes, in each format."""

import pytest

from operad.flows.edit import RenameNode, apply
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, names_of

GRAPH = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["letter", "string"]]}),
        NodeSpec("2", "llm", {"system": "", "user": "Answer {{#1.letter#}}"}),
        NodeSpec("3", "llm", {"system": "", "user": "Check {{#2.text#}}"}),
        NodeSpec("4", "end", {"outputs": [["answer", ["text", "3"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3"), Edge("3", "4")],
    "letters",
)
WRITTEN = ("operad", "dify", "coze", "coze-canvas", "chat2workflow", "flowise")


def renamed(graph, node, title):
    return apply(graph, [RenameNode(node=node, title=title)]).graph


@pytest.mark.parametrize("name", WRITTEN)
def test_a_title_is_written_read_changed_and_taken_away(name):
    found = FORMATS[name]
    old = found.dump(GRAPH)
    graph = found.load(old, "letters")
    assert [spec.title for spec in graph.nodes] == [""] * 4
    for title in ("Draft: 1 #x", "Entwürfe", ""):
        graph = renamed(graph, "2", title)
        written = found.dump_keeping_text(graph, old)
        old, graph = written, found.load(written, "letters")
        assert [spec.title for spec in graph.nodes] == ["", title, "", ""]
        assert graph.by_id["2"].params == GRAPH.by_id["2"].params
        assert found.load(found.dump(graph), "letters") == graph


@pytest.mark.parametrize("name", ["operad", "dify", "coze-canvas"])
def test_another_title_changes_one_line(name):
    found = FORMATS[name]
    old = found.dump(renamed(found.load(found.dump(GRAPH), "letters"), "2", "Draft"))
    new = found.dump_keeping_text(renamed(found.load(old, "letters"), "2", "Answer"), old)
    before, after = old.decode().splitlines(), new.decode().splitlines()
    assert len(before) == len(after)
    assert [(one, other) for one, other in zip(before, after, strict=True) if one != other] == [
        (line, line.replace("Draft", "Answer")) for line in before if "Draft" in line
    ]
    assert sum("Draft" in line for line in before) == 1


@pytest.mark.parametrize("name", WRITTEN)
def test_a_title_stays_on_the_way_to_another_platform(name):
    graph = FORMATS[name].load(FORMATS[name].dump(renamed(GRAPH, "2", "Draft")), "letters")
    for other in WRITTEN:
        again = FORMATS[other].load(FORMATS[other].dump(graph), "letters")
        assert "Draft" in [spec.title for spec in again.nodes], other


def test_a_name_that_several_nodes_have_is_followed_by_the_id():
    assert names_of(GRAPH) == {"1": "Start", "2": "LLM #2", "3": "LLM #3", "4": "End"}
    assert names_of(renamed(GRAPH, "2", " Draft\ta "))["3"] == "LLM"
    assert names_of(renamed(GRAPH, "2", "x" * 150))["2"] == "x" * 80
