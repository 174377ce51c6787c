"""One change of a draft, accepted or refused alone."""

import pytest

from operad.flows.edit import difference
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.server.studio.chatting import with_edge_of, with_node_of


def graph(edges, *nodes, parents=()):
    parents = dict(parents)
    specs = [NodeSpec(each[0], "llm", {"user": each[1:]}, parents.get(each[0], "")) for each in nodes]
    return NodeGraph(specs, [Edge(edge[0], edge[1]) for edge in edges], "flow")


def ids(graph):
    return "".join(sorted(each.id for each in graph.nodes)), sorted(
        f"{each.source}{each.target}" for each in graph.edges
    )


FILE = graph(["ad"], "a", "d")
DRAFT = graph(["ab", "bc", "cd"], "a", "b", "c", "d!")


def test_a_node_that_was_put_into_an_edge_takes_the_place_of_the_edge():
    draft = graph(["ab", "bd"], "a", "b", "d")
    assert ids(with_node_of(FILE, draft, "b")) == ids(draft)
    assert ids(with_node_of(draft, FILE, "b")) == ids(FILE)


def test_an_edge_to_a_node_that_was_not_accepted_is_left_out_until_it_is():
    half = with_node_of(FILE, DRAFT, "b")
    assert ids(half) == ("abd", ["ab", "ad"])
    whole = with_node_of(with_node_of(half, DRAFT, "c"), DRAFT, "d")
    whole = with_edge_of(whole, DRAFT, "a", 0, "d")
    assert not difference(whole, DRAFT)


def test_a_changed_node_is_accepted_or_refused_without_the_others():
    assert with_node_of(FILE, DRAFT, "d").by_id["d"].params == {"user": "!"}
    assert with_node_of(DRAFT, FILE, "d").by_id["d"].params == {"user": ""}
    assert ids(with_node_of(DRAFT, FILE, "d"))[0] == "abcd"


def test_a_container_comes_and_goes_with_all_that_is_inside_it():
    file, draft = graph([], "a"), graph(["aw", "xy"], "a", "w", "x", "y", parents=[("x", "w"), ("y", "w")])
    assert ids(with_node_of(file, draft, "w")) == ids(draft)
    assert ids(with_node_of(draft, file, "w")) == ids(file)
    assert ids(with_node_of(file, draft, "x")) == ("awx", ["aw"])


@pytest.mark.parametrize("order", ["bcd", "dcb", "cbd"])
def test_accepting_one_after_the_other_comes_to_the_draft(order):
    made = FILE
    for node in order:
        made = with_node_of(made, DRAFT, node)
    made = with_edge_of(made, DRAFT, "a", 0, "d")
    assert not difference(made, DRAFT)


@pytest.mark.parametrize("order", ["bcd", "dcb", "cbd"])
def test_refusing_one_after_the_other_comes_to_the_file(order):
    left = DRAFT
    for node in order:
        left = with_node_of(left, FILE, node)
    left = with_edge_of(left, FILE, "a", 0, "d")
    assert not difference(left, FILE)


def test_an_edge_alone_is_taken_over_in_both_directions():
    file, draft = graph(["ab"], "a", "b", "c"), graph(["ac"], "a", "b", "c")
    assert ids(with_edge_of(file, draft, "a", 0, "c")) == ("abc", ["ab", "ac"])
    assert ids(with_edge_of(file, draft, "a", 0, "b")) == ("abc", [])
