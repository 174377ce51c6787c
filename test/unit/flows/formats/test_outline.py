"""A workflow as lines of text."""

from operad.flows.formats.outline import outline
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec

GRAPH = NodeGraph(
    [
        NodeSpec("1", "start"),
        NodeSpec("2", "if-else"),
        NodeSpec("3", "iteration"),
        NodeSpec("3-1", "llm", parent="3"),
        NodeSpec("4", "end"),
    ],
    [Edge("1", "2"), Edge("2", "3", 1), Edge("2", "4"), Edge("3", "4")],
)


def test_each_node_is_a_line_with_what_it_follows_and_a_mark():
    assert list(outline(GRAPH, {"3-1": "added", "4": "changed"})) == [
        "  1 start",
        "  2 if-else    <- 1",
        "  3 iteration  <- 2:1",
        "+   3-1 llm",
        "~ 4 end        <- 2, 3",
    ]
    assert list(outline(NodeGraph())) == []
