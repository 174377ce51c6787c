import json
import random

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.flows.formats import chat2workflow
from operad.flows.formats.operad import OPERAD, dump, is_it, load, losses, node_lines
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, StickyNote
from operad.runtime.values.errors import InvalidError

WRITTEN = """\
workflow: translate
nodes:
  1: {type: start, variables: {texts: 'array[string]', language: string}}
  2:
    type: if-else
    after: 1
    cases: [{conditions: [{variable: 1.language, operator: empty}]}]
  3:
    type: iteration
    after:
      2: else
    iterator_selector: 1.texts
    output_selector: 3-2.text
    nodes:
      3-1: {type: iteration-start}
      3-2:
        type: llm
        after: 3-1
        system: ''
        user: |-
          Translate into {{#1.language#}}:
          {{#3.item#}}
  4: {type: end, after: [{2: 0}, 3], outputs: {translation: 3.output}}
"""


def graph_of(text):
    return load(text.encode(), "given")


def issues_of(text):
    with pytest.raises(InvalidError) as caught:
        load(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    return [(issue.code, issue.where) for issue in caught.value.issues]


def test_a_workflow_reads_as_it_is_written():
    graph = graph_of(WRITTEN)
    assert graph.name == "translate"
    assert [(node.id, node.type, node.parent) for node in graph.nodes] == [
        ("1", "start", ""),
        ("2", "if-else", ""),
        ("3", "iteration", ""),
        ("3-1", "iteration-start", "3"),
        ("3-2", "llm", "3"),
        ("4", "end", ""),
    ]
    assert graph.by_id["3-2"].params == {"system": "", "user": "Translate into {{#1.language#}}:\n{{#3.item#}}"}
    assert graph.edges == [Edge("1", "2"), Edge("2", "3", 1), Edge("3-1", "3-2"), Edge("2", "4"), Edge("3", "4")]


def test_it_is_written_the_same_way_each_time():
    written = dump(graph_of(WRITTEN)).decode()
    assert written == dump(graph_of(written)).decode()
    assert written == WRITTEN.replace("    after:\n      2: else\n", "    after: {2: else}\n").replace("{2: 0}", "2")


@pytest.mark.parametrize(
    ("after", "edges"),
    [
        ("1", [Edge("1", "2")]),
        ("'1'", [Edge("1", "2")]),
        ("{1: 3}", [Edge("1", "2", 3)]),
        ("[1, 1-1]", [Edge("1", "2"), Edge("1-1", "2")]),
        ("{1: 0, a: 2}", [Edge("1", "2"), Edge("a", "2", 2)]),
        ("{from: 1, port: 2, input: model}", [Edge("1", "2", 2, "model")]),
        ("{from: from, extra: {x: 1}}", [Edge("from", "2", extra={"x": 1})]),
        ("[]", []),
    ],
)
def test_what_comes_before_a_node(after, edges):
    assert graph_of(f"nodes:\n  2: {{type: end, after: {after}}}").edges == edges


@pytest.mark.parametrize(
    ("graph", "line"),
    [
        (NodeGraph([NodeSpec("a", "x", None)]), "  a: {type: x, params: null}"),
        (NodeGraph([NodeSpec("a", "x", {"after": 1})]), "  a: {type: x, params: {after: 1}}"),
        (NodeGraph([NodeSpec("b", "x", parent="a")]), "  b: {type: x, inside: a}"),
        (NodeGraph([NodeSpec("a", "x"), NodeSpec("a", "y")]), "- {id: a, type: x}"),
        (NodeGraph([NodeSpec("null", "x"), NodeSpec("1.0", "x")]), "  '1.0': {type: x}"),
        (NodeGraph([], [Edge("a", "b", 1)]), "- {from: a, to: b, port: 1}"),
    ],
)
def test_what_nobody_would_write_has_a_place(graph, line):
    written = dump(graph).decode()
    assert line in written.splitlines()
    again = load(written.encode())
    assert (list(again.nodes), list(again.edges)) == (list(graph.nodes), list(graph.edges))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nodes:\n  1: {typ: x}", [("missing-key", "f.yaml:2 nodes.1")]),
        ("nodes:\n  1:\n    type: 3\n", [("shape", "f.yaml:3 nodes.1.type")]),
        ("nodes:\n  1: {type: x, after: {2: yes}}", [("port", "f.yaml:2 nodes.1.after")]),
        ("nodes:\n  1: {type: x, after: {2: else}}", [("port", "f.yaml:2 nodes.1.after")]),
        ("nodes:\n  1: {type: x, after: 1.5}", [("id", "f.yaml:2 nodes.1.after")]),
        ("nodes:\n  1: {type: x}\n  1: {type: y}", [("duplicate-key", "f.yaml:3")]),
        ("nodes:\n  1: {type: x, on: !!timestamp 2001-01-01}", [("tag", "f.yaml:2")]),
        ("node: {}", [("unknown-key", "f.yaml:1 node"), ("missing-key", "f.yaml:1")]),
        ("nodes: []\nedges:\n- 1", [("edge", "f.yaml:3 edges[0]")]),
        ("nodes: 3\norder: [a]", [("shape", "f.yaml:1 nodes"), ("order", "f.yaml:2 order")]),
        (
            "nodes:\n  a:\n    type: x\n    nodes:\n      b: {type: y, inside: c}",
            [("inside", "f.yaml:5 nodes.a.nodes.b.inside")],
        ),
        ("nodes: {a: {type: x, params: 1, p: 2}}", [("unknown-key", "f.yaml:1 nodes.a.p")]),
        ("", [("format", "")]),
        ("- 1", [("shape", "f.yaml")]),
        ("nodes: [\n", [("yaml", "f.yaml:2:1")]),
        (b"\xff\xfe\x00", [("format", "byte 0")]),
        ("nodes: \x01", [("yaml", "f.yaml:1")]),
        ("nodes: {1: {type: !!bool maybe}}", [("tag", "f.yaml:1")]),
    ],
)
def test_issues_name_their_lines(text, found):
    assert [each for each in issues_of(text) if each in found] == found


def test_all_issues_are_found_at_once():
    assert len(issues_of("nodes:\n  1: {type: 1, after: 1.5}\n  2: {}\nextra: 3\nother: 1")) == 5


def test_the_lines_of_nodes_are_known():
    assert node_lines(WRITTEN.encode()) == {"1": 3, "2": 4, "3": 8, "3-1": 15, "3-2": 16, "4": 23}


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
        + "".join(f"d{n}: &d{n} [{', '.join([f'*d{n - 1}' if n else '*c'] * 9)}]\n" for n in range(9)),
        "nodes: " + "[" * 5000,
        "nodes: " + "{a: " * 500 + "1" + "}" * 500,
        "nodes: &x {1: *x}",
        "nodes: {1: {type: x, n: " + "9" * 6000 + "}}",
        "nodes: !!python/object/apply:os.system [ls]",
        "nodes: {<<: {1: {type: x}}}",
    ],
)
def test_hostile_text_is_an_issue_and_no_harm(text):
    assert issues_of(text)


def test_a_file_that_is_too_large_is_not_read():
    assert issues_of(b"#" * (5 * 2**20)) == [("size", "")]


def test_mutated_files_are_read_or_refused():
    rng = random.Random(7)  # noqa: S311 - to break things with
    data = WRITTEN.encode()
    for _ in range(1500):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(broken))
            match rng.randrange(3):
                case 0:
                    broken[at] = rng.randrange(256)
                case 1:
                    del broken[at : at + rng.randint(1, 20)]
                case _:
                    broken[at:at] = rng.choice(
                        [b"&a ", b"*a", b"!!int ", b"\n", b"{", b"]", b": ", b"\t", b"? ", b"!!set "]
                    )
        try:
            graph = load(bytes(broken))
        except InvalidError:
            continue
        assert load(dump(graph)) == graph


LINES = st.text("ab \t\n:#-|>'\"{[,é", max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | LINES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDS = st.sampled_from(["1", "2", "3", "3-1", "3-2", "a b", "", "null", "from", "0x1", "1.5", "é\n", "a: b"]) | st.text(
    max_size=5
)
EXTRA = st.dictionaries(st.text(max_size=5), VALUES, max_size=2)
NODES = st.builds(
    NodeSpec,
    IDS,
    st.sampled_from(["llm", "if-else", "start"]) | st.text(),
    st.dictionaries(st.sampled_from(["type", "after", "cases", "x"]) | st.text(), VALUES, max_size=3) | VALUES,
    st.just("") | IDS,
    EXTRA,
)
EDGES = st.builds(Edge, IDS, IDS, st.integers(), st.just("") | st.text(), EXTRA)
GRAPHS = st.builds(NodeGraph, st.lists(NODES, max_size=6), st.lists(EDGES, max_size=8), st.text(), EXTRA)


@given(GRAPHS)
@settings(max_examples=amount(15, 80))
def test_any_graph_comes_back_the_same(graph):
    assert load(dump(graph), "other") == graph
    assert losses(graph) == []


def test_what_json_does_not_have_is_a_loss():
    graph = NodeGraph([NodeSpec("1", "x", {"a": (1, 2)})])
    assert [(issue.code, issue.where) for issue in losses(graph)] == [("loss", "1")]
    assert load(dump(graph)).nodes[0].params == {"a": [1, 2]}


def test_values_too_deep_for_a_file_are_refused():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(InvalidError, match="nested deeper"):
        dump(NodeGraph([NodeSpec("1", "x", {"a": value})]))


def test_an_order_that_does_not_fit_is_not_heeded():
    graph = graph_of("nodes:\n  1: {type: x}\n  2: {type: x, after: [1, 3]}\norder: [0, 1, 2]")
    assert graph.edges == [Edge("1", "2"), Edge("3", "2")]


def test_files_are_told_apart():
    assert is_it(WRITTEN.encode())
    assert not is_it(b"schema_version: 1.0.0\nnodes: []")
    assert not is_it(b"nodes:\n- {id: a, data: {type: start}}\nedges: []\nviewport: {x: 0}\n")
    assert not is_it(b"app: {}\nkind: app\n")
    assert OPERAD.suffix == ".operad.yaml"


def test_recorded_workflows_come_back_the_same(shared_data):
    count = 0
    for file in sorted(shared_data.glob("chat2workflow/*/*.json")):
        for response in json.loads(file.read_text()):
            try:
                graph = chat2workflow.load(response["workflow"])
            except (InvalidError, KeyError, TypeError):
                continue
            count += 1
            if count % 5 == 0:
                assert load(dump(graph)) == graph
    assert count > (0 if count == 0 else 500)


def test_sticky_notes_come_back_and_wrong_ones_are_told_with_their_lines():
    notes = (StickyNote("1", "Mind the **hours**.", "blue", (0, -160.5)), StickyNote("b", "a\nb\n", size=(300, 90)))
    graph = NodeGraph([NodeSpec("1", "start", {"variables": []})], sticky_notes=notes)
    assert load(dump(graph)).sticky_notes == notes
    with pytest.raises(InvalidError) as caught:
        load("nodes: {}\nsticky_notes: {1: {tex: a, color: yelow, at: [1], size: [0, 1]}, 2: 5}")
    assert [(issue.code, issue.where.rpartition(" ")[2]) for issue in caught.value.issues] == [
        ("unknown-key", "sticky_notes.1.tex"),
        ("value", "sticky_notes.1.color"),
        ("value", "sticky_notes.1.at"),
        ("value", "sticky_notes.1.size"),
        ("shape", "sticky_notes.2"),
    ]
