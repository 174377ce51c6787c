import json
import random

import pytest

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.worfbench.plan import MAX_BYTES, WORFBENCH, dump, is_it, load, losses
from operad.runtime.values.errors import InvalidError

PRINTED = """\
Node:
1: Rub the jade with a dry cloth.
2: Heat it to (3, 4) degrees: Edge: slowly.
3: Let it dry.
Edge: (START,1) (START,2) (1,3) (2,3) (3,END)"""


def shape(text):
    graph = load(text.encode())
    tasks = [(node.id, node.params["task"]) for node in graph.nodes if node.type == "task"]
    return tasks, [(edge.source, edge.target) for edge in graph.edges]


def test_the_printed_form_is_read_and_written():
    graph = load(PRINTED.encode(), "jade")
    assert graph == NodeGraph(
        [
            NodeSpec("START", "start", {"variables": []}),
            NodeSpec("1", "task", {"task": "Rub the jade with a dry cloth."}),
            NodeSpec("2", "task", {"task": "Heat it to (3, 4) degrees: Edge: slowly."}),
            NodeSpec("3", "task", {"task": "Let it dry."}),
            NodeSpec("END", "end", {"outputs": []}),
        ],
        [Edge("START", "1"), Edge("START", "2"), Edge("1", "3"), Edge("2", "3"), Edge("3", "END")],
        "jade",
    )
    assert dump(graph).decode() == PRINTED
    assert losses(graph) == []
    assert is_it(PRINTED.encode())


@pytest.mark.parametrize(
    "text",
    [
        "Node:\n1: a\n2: b\nEdges:\n(START,1) (1,2) (2,END)",
        "Nodes:\n1. a\n2. b\nEdge:\n(START, 1), (1, 2), (2, END)",
        "1:a\n2:b\nedges: (START,1)(1,2)(2,END)",
        "**Nodes:**\n- 1: a\n- 2: b\n\nGraph:\n- **Edge:** (START,1)\n- **Edge:** (1,2)\n- **Edge:** (2,END)",
        "Sure! Here it is.\n\n```\nNode:\n1) a\n2) b\nEdge: (START,1) -> (1,2) -> (2,END)\n```\nThat is all.",
        "Node:\n1: a\n2: b\nSo we see:\n1. a\n2. again\nEdge: (Start,1) (1,2) (2,End)",
        "Node:\r\n01: a\r\n02: b\r\nEdge: (START,01) (1,2) (2,END)\r\n",
        "Node:\n1: a\n2: b\n(START,1) (1,2) (2,END)",
        "**Nodes**\n**1**: a\n**2**: b\n**Edges**\n(START,1) (1,2) (2,END)",
        "**Node**:\n**1:** a\n- **2.** b\n**Edge**:\n(START,1) (1,2) (2,END)",
        "Node：\n1：a\n2：b\nEdge：（START，1）（1，2）（2，END）",
    ],
)
def test_it_is_read_liberally(text):
    assert shape(text) == ([("1", "a"), ("2", "b")], [("START", "1"), ("1", "2"), ("2", "END")])


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"", ["format", "format"]),
        (b"Node:\n1: a", ["format"]),
        (b"Edge: (1,2)", ["format"]),
        (b"\xff\xfe", ["format"]),
        (b"x" * (MAX_BYTES + 1), ["size"]),
        (b"Node:\n1: (1,2)\n", ["format"]),
    ],
)
def test_what_is_none_of_it_says_so(data, codes):
    with pytest.raises(InvalidError) as caught:
        load(data)
    assert [issue.code for issue in caught.value.issues] == codes
    assert not is_it(data)


def test_another_workflow_is_written_with_what_is_lost():
    graph = NodeGraph(
        [
            NodeSpec("s", "start", {"variables": [["a", "string"]]}),
            NodeSpec("x", "llm", {"user": "hi"}, extra={"dify": 1}),
            NodeSpec("t", "task", {"task": "two\nlines", "more": 1}, parent="x"),
        ],
        [Edge("s", "x"), Edge("x", "t", 1), Edge("t", "gone")],
        extra={"dify": {}},
    )
    assert dump(graph).decode() == "Node:\n1: llm\n2: two lines\nEdge: (START,1) (1,2)"
    assert [issue.where for issue in losses(graph)] == ["", "s", "s", "x", "x", "x", "t", "t", "t", "x → t", "t → gone"]
    assert WORFBENCH.losses == losses


def test_mutated_texts_are_read_or_refused():
    rng = random.Random(5)  # noqa: S311 - to break things with
    for _ in range(2000):
        broken = bytearray(PRINTED.encode())
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(broken))
            broken[at : at + rng.randint(0, 5)] = rng.choice([b"", b"(", b"\n", b"99999999999: x\n", b"Edge:", b"\xff"])
        try:
            graph = load(bytes(broken))
        except InvalidError:
            continue
        again = load(dump(graph))
        assert len(again.nodes) <= len(graph.nodes)
        assert load(dump(again)) == again


def test_every_gold_comes_back_the_same(shared_data):
    printed, count = 0, 0
    for file in sorted(shared_data.glob("worfbench/*.json")):
        for item in json.loads(file.read_text()):
            gold = item["conversations"][-1]["content"]
            graph = load(gold.encode())
            assert load(dump(graph)) == graph
            assert not losses(graph)
            count += 1
            printed += dump(graph).decode() == gold
    assert (count, printed) == (1423, 1216)
