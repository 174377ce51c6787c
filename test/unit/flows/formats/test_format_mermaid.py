import random
from xml.etree import ElementTree

import pytest

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, draw, flowchart
from operad.operators.media.errors import MediaError
from operad.runtime.values.errors import InvalidError

CASES = {"cases": [[None, []], ["or", []]]}
GRAPH = NodeGraph(
    [
        NodeSpec("1", "start"),
        NodeSpec("2", "if-else", CASES),
        NodeSpec("3", "iteration"),
        NodeSpec("3-1", "iteration-start", parent="3"),
        NodeSpec("3-2", "llm", parent="3"),
        NodeSpec("4", "question-classifier", {"classes": ['a "class"', "end"]}),
        NodeSpec("5", "end"),
    ],
    [
        Edge("1", "2"),
        Edge("2", "3"),
        Edge("2", "4", 1),
        Edge("2", "5", 2),
        Edge("3-1", "3-2"),
        Edge("3", "5"),
        Edge("4", "5", 0),
        Edge("4", "5", 1),
        Edge("4", "5", 7),
    ],
)
HOSTILE = [
    'a"b]c|d',
    "x;y\nz",
    "`md`",
    "end",
    "subgraph",
    "中文",
    "#quot;",
    "<br/>",
    "%% c",
    "-->",
    "",
    "click n0",
    "\\",
    "🙂",
]


def test_a_flowchart_shows_types_ids_ports_and_what_is_inside():
    assert flowchart(GRAPH).splitlines() == [
        "flowchart TD",
        '  n0(["start 1"])',
        '  n1{{"if-else 2"}}',
        '  subgraph n2 ["iteration 3"]',
        '    n3["iteration-start 3-1"]',
        '    n4["llm 3-2"]',
        "  end",
        '  n5{{"question-classifier 4"}}',
        '  n6(["end 5"])',
        "  n0 --> n1",
        '  n1 -->|"0"| n2',
        '  n1 -->|"1"| n5',
        '  n1 -->|"else"| n6',
        "  n3 --> n4",
        "  n2 --> n6",
        '  n5 -->|"a #34;class#34;"| n6',
        '  n5 -->|"end"| n6',
        '  n5 -->|"port 7"| n6',
    ]


def test_what_a_node_is_has_a_colour():
    lines = flowchart(GRAPH, {"1": "done", "2": "done", "3": "running", "5": "odd", "no": "done"}).splitlines()
    assert lines[-4:] == [
        "  classDef running fill:#fff3bf,stroke:#f08c00",
        "  class n2 running",
        "  classDef done fill:#d3f9d8,stroke:#2b8a3e",
        "  class n0,n1 done",
    ]


@pytest.mark.parametrize(
    ("graph", "line"),
    [
        (NodeGraph([NodeSpec("a", "x")], [Edge("a", "b")]), '  n1["b"]'),
        (NodeGraph([NodeSpec("a", "x", parent="a")]), '  n0["x a"]'),
        (NodeGraph([NodeSpec("a", "x", parent="b"), NodeSpec("b", "x", parent="a")]), '  n1["x b"]'),
        (NodeGraph([NodeSpec("a", "x", parent="gone")]), '  n0["x a"]'),
        (NodeGraph([NodeSpec("a", "x"), NodeSpec("b", "y", parent="a")], [Edge("a", "b")]), "  end"),
        (NodeGraph([NodeSpec("a", "if-else", [1])], [Edge("a", "a", 0)]), '  n0 -->|"else"| n0'),
    ],
)
def test_a_graph_that_is_not_right_is_shown_all_the_same(graph, line):
    assert line in flowchart(graph).splitlines()
    assert draw(graph, "svg").startswith(b"<svg")


def test_what_is_nested_deep_is_written():
    nodes = [NodeSpec(str(n), "loop", parent=str(n - 1) if n else "") for n in range(300)]
    assert flowchart(NodeGraph(nodes)).count("subgraph") == 299


def test_any_text_is_safe():
    rng = random.Random(3)  # noqa: S311 - to break things with
    for _ in range(40):
        nodes = [
            NodeSpec(text + str(n), rng.choice(HOSTILE), {"classes": rng.sample(HOSTILE, 3)})
            for n, text in enumerate(rng.sample(HOSTILE, len(HOSTILE)))
        ]
        nodes = [*nodes, NodeSpec("q", "question-classifier", {"classes": HOSTILE})]
        edges = [Edge("q", node.id, n) for n, node in enumerate(nodes[:-1])]
        svg = draw(NodeGraph(nodes, edges), "svg").decode()
        drawn = ElementTree.fromstring(svg)  # noqa: S314 - our own
        texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert svg.count('"pele-edge"') == len(edges)
        assert {"question-classifier q", 'a"b]c|d', "end", "<br/>"} <= {*texts}


def test_pictures_are_made():
    assert draw(GRAPH, "svg", {"1": "done"}).startswith(b"<svg")
    assert draw(GRAPH, "png").startswith(b"\x89PNG")
    with pytest.raises(InvalidError, match="did you mean 'svg'"):
        draw(GRAPH, "svgg")  # pyright: ignore[reportArgumentType]


def test_a_picture_of_three_hundred_nodes_is_made():
    nodes = [NodeSpec(str(n), "llm") for n in range(300)]
    edges = [Edge(str(n // 2), str(n)) for n in range(1, 300)]
    assert draw(NodeGraph(nodes, edges), "svg").startswith(b"<svg")


def test_one_that_is_far_too_large_says_so():
    with pytest.raises(MediaError, match="the maximum is 50,000"):
        draw(NodeGraph([NodeSpec(str(n), "x" * 50) for n in range(2000)]), "svg")


def test_markdown_has_the_flowchart_and_a_table():
    text = draw(NodeGraph([NodeSpec("a|b", "x")], [Edge("a|b", "a|b")], "n*me"), "md", {"a|b": "done"}).decode()
    assert text == (
        "# n\\*me\n\n```mermaid\nflowchart TD\n"
        '  n0["x a#124;b"]\n  n0 --> n0\n'
        "  classDef done fill:#d3f9d8,stroke:#2b8a3e\n  class n0 done\n```\n\n"
        "| id | type | inside | after | status |\n| --- | --- | --- | --- | --- |\n| a\\|b | x |  | a\\|b | done |\n"
    )


def test_a_notebook_shows_a_graph():
    bundle = GRAPH._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "```mermaid" in bundle["text/markdown"]
    too_large = NodeGraph([NodeSpec(str(n), "x" * 50) for n in range(2000)])._repr_mimebundle_()
    assert sorted(too_large) == ["text/markdown", "text/plain"]
