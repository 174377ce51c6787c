"""The scheduler, as a table: what happened, and what may start because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime.graph.schedule import Plan, Progress, Repeat, Skip, children_of, reachable

Graph = Mapping[str, Sequence[str]]

CHAIN = {"a": [], "b": ["a"], "c": ["b"]}
FAN = {"a": [], "b": ["a"], "c": ["a"], "d": ["a"]}
JOIN = {"a": [], "b": [], "c": [], "d": ["a", "b", "c"]}
DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
SHORT_CUT = {"a": [], "b": ["a"], "c": ["a", "b"]}
TWO_ISLANDS = {"a": [], "b": [], "c": ["a"], "d": ["b"]}
DOUBLE_EDGE = {"a": [], "b": ["a", "a"]}


@pytest.mark.parametrize(
    ("graph", "roots", "story"),
    [
        pytest.param({}, "", [], id="nothing"),
        pytest.param({"a": []}, "a", [("a", "")], id="one node"),
        pytest.param(CHAIN, "a", [("a", "b"), ("b", "c"), ("c", "")], id="chain"),
        pytest.param(FAN, "a", [("a", "bcd"), ("d", ""), ("b", ""), ("c", "")], id="fan"),
        pytest.param(JOIN, "abc", [("c", ""), ("a", ""), ("b", "d"), ("d", "")], id="join waits for the last"),
        pytest.param(DIAMOND, "a", [("a", "bc"), ("c", ""), ("b", "d"), ("d", "")], id="diamond, right side first"),
        pytest.param(SHORT_CUT, "a", [("a", "b"), ("b", "c"), ("c", "")], id="a short cut does not hurry"),
        pytest.param(TWO_ISLANDS, "ab", [("b", "d"), ("d", ""), ("a", "c"), ("c", "")], id="islands run apart"),
        pytest.param(DOUBLE_EDGE, "a", [("a", "b"), ("b", "")], id="a double edge starts its node once"),
    ],
)
def test_a_finished_node_readies_those_that_waited_for_it_alone(
    graph: Graph, roots: str, story: list[tuple[str, str]]
) -> None:
    plan = Plan(graph)
    progress = Progress(plan)

    assert _names(plan, plan.roots) == roots
    for finished, ready in story:
        assert _names(plan, progress.finish(plan.ids.index(finished))) == ready


def test_children_and_what_is_reached_from_nodes_include_unknown_parents_and_cycles() -> None:
    children = children_of({"a": ["c"], "b": ["a", "gone"], "c": ["b"], "d": ["b"]})

    assert children == {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "gone": ["b"]}
    assert reachable(["d"], children.__getitem__) == {"d"}
    assert reachable(["gone"], children.__getitem__) == {*children}


@pytest.mark.parametrize(
    ("graph", "start", "found"),
    [
        (CHAIN, "b", "bc"),
        (FAN, "a", "abcd"),
        (FAN, "bd", "bd"),
        (DIAMOND, "b", "bd"),
        (TWO_ISLANDS, "a", "ac"),
        (TWO_ISLANDS, "", ""),
    ],
)
def test_descendants_are_the_nodes_and_all_that_depends_on_them(graph: Graph, start: str, found: str) -> None:
    plan = Plan(graph)

    assert _names(plan, sorted(plan.descendants(map(plan.ids.index, start)))) == found


@pytest.mark.parametrize(
    ("graph", "on_the_cycle"),
    [
        ({"a": ["a"]}, {"a"}),
        ({"a": ["b"], "b": ["a"]}, {"a", "b"}),
        ({"x": [], "a": ["x", "c"], "b": ["a"], "c": ["b"], "y": ["c"]}, {"a", "b", "c"}),
    ],
    ids=["itself", "two", "three, with a way in and a way out"],
)
def test_a_cycle_is_refused_with_the_ids_along_it(graph: Graph, on_the_cycle: set[str]) -> None:
    with pytest.raises(CycleError) as caught:
        Plan(graph)

    path = caught.value.args[1]
    assert path[0] == path[-1]
    assert set(path) == on_the_cycle
    assert all(before in graph[after] for before, after in pairwise(path))


def test_a_cycle_of_twenty_thousand_nodes_is_named_without_recursion() -> None:
    size = 20_000

    with pytest.raises(CycleError) as caught:
        Plan({str(n): [str((n - 1) % size)] for n in range(size)})

    assert len(caught.value.args[1]) == size + 1


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 12))
    return {str(n): draw(st.lists(st.sampled_from(range(n)).map(str), max_size=4)) if n else [] for n in range(size)}


@given(graphs())
def test_parents_and_children_are_the_same_edges_seen_from_both_ends(graph: Graph) -> None:
    plan = Plan(graph)

    downwards = sorted((parent, child) for parent, children in enumerate(plan.children) for child in children)
    upwards = sorted((parent, child) for child, parents in enumerate(plan.parents) for parent in parents)
    assert downwards == upwards
    assert {plan.ids[n]: [plan.ids[p] for p in parents] for n, parents in enumerate(plan.parents)} == graph


@given(graphs())
def test_a_back_edge_from_a_descendant_makes_a_cycle(graph: Graph) -> None:
    plan = Plan(graph)
    for node in plan.descendants([0]):
        with pytest.raises(CycleError):
            Plan({**graph, "0": [plan.ids[node]]})


@pytest.mark.parametrize(
    ("again", "repeated", "starts"),
    [("a", "abcd", "a"), ("b", "bd", "b"), ("bc", "bcd", "bc"), ("d", "d", "d")],
)
def test_a_repeat_runs_nodes_and_all_that_depends_on_them_and_starts_with_those_that_wait_for_nothing(
    again: str, repeated: str, starts: str
) -> None:
    plan = Plan(DIAMOND)
    repeat = Repeat.of(plan, [plan.ids.index(each) for each in again], dict.fromkeys(range(4)), [])
    assert (_names(plan, sorted(repeat.again)), _names(plan, repeat.progress.ready)) == (repeated, starts)
    assert not repeat.lost


def test_a_repeat_leaves_the_loser_of_a_race_alone_unless_the_race_is_run_again() -> None:
    plan = Plan({"fast": [], "slow": [], "first": ["fast", "slow"], "after": ["first"]}, {"first": "any"})
    ran = {0: None, 2: None, 3: None}  # slow was cancelled
    assert Repeat.of(plan, [3], ran, []).lost == {1}
    race = Repeat.of(plan, [2], ran, [])
    assert (race.lost, race.progress.ready) == (set(), [1, 2])


def test_a_repeat_keeps_skips_except_those_of_nodes_that_run_again() -> None:
    plan = Plan({"a": [], "b": ["a"], "c": ["a"], "d": ["c"]}, ports={("a", "b"): frozenset("x")})
    ran, skipped = {0: ["y"], 2: None, 3: None}, [Skip(1, 0, 1)]
    repeat = Repeat.of(plan, [2], ran, skipped)
    assert (repeat.again, repeat.lost, repeat.progress.ready) == ({2, 3}, set(), [2])
    assert Repeat.of(plan, [0], ran, skipped).again == {0, 1, 2, 3}


def _names(plan: Plan, nodes: Sequence[int]) -> str:
    return "".join(plan.ids[node] for node in nodes)
