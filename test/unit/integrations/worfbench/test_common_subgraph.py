"""The largest common induced subgraph, and the search of independent sets under it."""

from collections.abc import Iterable, Sequence
from itertools import combinations, count, product
from random import Random
from typing import Any

import networkx as nx
import pytest
from amounts import amount
from hypothesis import given
from hypothesis import strategies as st

from operad.integrations.worfbench import common_subgraph as module
from operad.integrations.worfbench import independent_set
from operad.integrations.worfbench.common_subgraph import common_subgraph
from operad.integrations.worfbench.independent_set import largest_independent_set
from operad.integrations.worfbench.matching import Pair

Edges = set[tuple[int, int]]


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311


def agree(one: Pair, other: Pair, gold: Edges, predicted: Edges) -> bool:
    """The definition, pair by pair; of one with itself for edges of a node to itself."""
    (a, b), (c, d) = one, other
    apart = one == other or (a != c and b != d)
    return apart and ((a, c) in gold) == ((b, d) in predicted) and ((c, a) in gold) == ((d, b) in predicted)


def valid(found: Iterable[Pair], gold: Edges, predicted: Edges) -> bool:
    return all(agree(one, other, gold, predicted) for one, other in product(found, repeat=2))


def largest_by_trying(pairs: Sequence[Pair], gold: Edges, predicted: Edges, taken: tuple[Pair, ...] = ()) -> int:
    best = len(taken)
    for index, pair in enumerate(pairs):
        if all(agree(pair, other, gold, predicted) for other in (pair, *taken)):
            best = max(best, largest_by_trying(pairs[index + 1 :], gold, predicted, (*taken, pair)))
    return best


def some_edges(draw: Random, size: int, chance: float, *, cyclic: bool) -> Edges:
    ends = product(range(size), range(size)) if cyclic else combinations(range(size), 2)
    return {edge for edge in ends if draw.random() < chance}


def some_case(draw: Random, size: int) -> tuple[list[Pair], Edges, Edges]:
    """One to one, of few labels, or any pairs; a changed copy or another graph; with cycles or without."""
    cyclic, chance, kind = draw.random() < 0.4, draw.choice([0.1, 0.2, 0.3, 0.6]), draw.randrange(3)
    gold = some_edges(draw, size, chance, cyclic=cyclic)
    other = some_edges(draw, size, chance, cyclic=cyclic)
    share = draw.choice([0, 0.2, 0.2, 1])
    predicted = {edge for edge in gold if draw.random() >= share} | {edge for edge in other if draw.random() < share}
    labels = [draw.randrange(1 + size // 2) for _ in range(size)]
    pairs = {
        0: [(node, node) for node in range(size) if draw.random() < 0.9],
        1: [(a, b) for a in range(size) for b in range(size) if labels[a] == labels[b]],
        2: [(a, b) for a in range(size) for b in range(size) if draw.random() < 2 / size],
    }[kind]
    return pairs, gold, predicted


def check(pairs: Sequence[Pair], gold: Edges, predicted: Edges, size: int) -> None:
    found = common_subgraph(pairs, gold, predicted, seconds=20)
    assert found.optimal
    assert set(found.pairs) <= set(pairs)
    assert valid(found.pairs, gold, predicted)
    assert len(found.pairs) == size, (pairs, gold, predicted)


def test_it_is_as_large_as_the_largest_found_by_trying_all():
    draw = seeded(1)
    for _ in range(amount(100, 600)):
        case = some_case(draw, draw.randrange(1, 7))
        check(*case, largest_by_trying(*case))


def test_it_is_as_large_as_the_largest_clique_of_the_association_graph():
    draw = seeded(2)
    for _ in range(amount(80, 500)):
        pairs, gold, predicted = some_case(draw, draw.randrange(8, 16))
        association: Any = nx.Graph()
        association.add_nodes_from(pair for pair in pairs if agree(pair, pair, gold, predicted))
        association.add_edges_from(
            (one, other) for one, other in combinations(association, 2) if agree(one, other, gold, predicted)
        )
        clique, _ = nx.max_weight_clique(association, weight=None)
        check(pairs, gold, predicted, len(clique))


def drawn_conflicts(draw: Random, size: int, chance: float) -> list[int]:
    conflicts = [0] * size
    for one, other in combinations(range(size), 2):
        if draw.random() < chance:
            conflicts[one] |= 1 << other
            conflicts[other] |= 1 << one
    return conflicts


@pytest.mark.parametrize("solver", [True, False])
def test_each_stage_of_the_search_finds_the_largest_set(monkeypatch: pytest.MonkeyPatch, solver: bool):
    """With no work for the first branch and bound the stages after it answer: CP-SAT, or without it the second."""
    monkeypatch.setattr(independent_set, "_WORK", 0)
    monkeypatch.setattr(independent_set, "_PUSHES", 3)
    monkeypatch.setattr(independent_set, "_DOMINATES", 0)
    if not solver:
        monkeypatch.setattr(independent_set, "find_spec", lambda _: None)
    draw = seeded(3)
    for _ in range(100):
        size = draw.randrange(1, 18)
        conflicts = drawn_conflicts(draw, size, draw.random())
        free: Any = nx.Graph()
        free.add_nodes_from(range(size))
        free.add_edges_from((a, b) for a, b in combinations(range(size), 2) if not conflicts[a] >> b & 1)
        vertices, optimal = largest_independent_set(conflicts, seconds=20)
        assert optimal
        assert len(vertices) == len(nx.max_weight_clique(free, weight=None)[0])
        assert not any(conflicts[a] >> b & 1 for a, b in combinations(vertices, 2))


@pytest.mark.slow
@given(st.integers(1, 7), st.randoms(use_true_random=False))
def test_neither_numbers_nor_sides_nor_directions_matter(size: int, draw: Random):
    pairs, gold, predicted = some_case(draw, size)
    found = len(common_subgraph(pairs, gold, predicted, seconds=20).pairs)
    left, right = draw.sample(range(99), size), draw.sample(range(99), size)
    renumbered = common_subgraph(
        draw.sample([(left[a], right[b]) for a, b in pairs], len(pairs)),
        {(left[a], left[b]) for a, b in gold},
        {(right[a], right[b]) for a, b in predicted},
        seconds=20,
    )
    swapped = common_subgraph([(b, a) for a, b in pairs], predicted, gold, seconds=20)
    turned = common_subgraph(pairs, {(b, a) for a, b in gold}, {(b, a) for a, b in predicted}, seconds=20)
    assert [len(each.pairs) for each in (renumbered, swapped, turned)] == [found] * 3


SHAPES: dict[str, Any] = {
    "nothing": nx.empty_graph(40, create_using=nx.DiGraph),
    "line": nx.path_graph(40, create_using=nx.DiGraph),
    "ring": nx.cycle_graph(40, create_using=nx.DiGraph),
    "star": nx.DiGraph((0, leaf) for leaf in range(1, 40)),
    "lines of three": nx.DiGraph((node, node + 1) for node in range(39) if node % 3 < 2),
    "tree": nx.DiGraph(((node - 1) // 2, node) for node in range(1, 40)),
    "all before all": nx.DiGraph(combinations(range(40), 2)),
    "layers": nx.DiGraph((a, b) for a in range(40) for b in range(40) if b // 5 == a // 5 + 1),
    "random": nx.DiGraph(sorted(some_edges(seeded(4), 40, 0.1, cyclic=False))),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("labels", [1, 5])
def test_a_graph_of_equal_nodes_is_itself_at_once_however_it_is_numbered(shape: str, labels: int):
    gold = SHAPES[shape]
    nodes = list(gold)
    numbers = dict(zip(nodes, seeded(5).sample(nodes, len(nodes)), strict=True))
    pairs = [(a, numbers[b]) for a in nodes for b in nodes if a % labels == b % labels]
    found = common_subgraph(
        pairs, gold.edges, {(numbers[a], numbers[b]) for a, b in gold.edges}, seconds=1, clock=lambda: 0.0
    )
    assert (len(found.pairs), found.optimal) == (len(nodes), True)


def test_without_nodes_pairs_or_edges_it_is_what_there_is():
    assert common_subgraph([], [], [], seconds=0) == ((), True)
    assert common_subgraph([], [(1, 2)], [(1, 2)], seconds=0) == ((), True)
    assert common_subgraph([(1, 5), (2, 6)], [], [], seconds=0) == (((1, 5), (2, 6)), True)
    assert common_subgraph([(1, 5)], [(1, 1)], [], seconds=0) == ((), True)
    assert common_subgraph([(1, 5), (1, 5)], [(1, 1)], [(5, 5)], seconds=0) == (((1, 5),), True)


def hard(size: int) -> tuple[list[Pair], Edges, Edges]:
    draw = seeded(6)
    gold, predicted = (some_edges(draw, size, 0.2, cyclic=False) for _ in range(2))
    return list(product(range(size), range(size))), gold, predicted


def test_without_time_it_is_valid_and_not_said_to_be_the_largest():
    pairs, gold, predicted = hard(20)
    found = common_subgraph(pairs, gold, predicted, seconds=0)
    assert not found.optimal
    assert found.pairs
    assert valid(found.pairs, gold, predicted)


@pytest.mark.parametrize("looks", [10, 100, 1000])
def test_when_time_runs_out_on_the_way_it_is_valid(monkeypatch: pytest.MonkeyPatch, looks: int):
    monkeypatch.setattr(independent_set, "find_spec", lambda _: None)
    pairs, gold, predicted = hard(20)
    found = common_subgraph(pairs, gold, predicted, seconds=looks, clock=count().__next__)
    assert not found.optimal
    assert valid(found.pairs, gold, predicted)


def test_of_too_many_pairs_some_are_looked_at_and_the_answer_is_valid(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 50)
    pairs, gold, predicted = hard(20)
    found = common_subgraph(pairs, gold, predicted, seconds=5)
    assert not found.optimal
    assert valid(found.pairs, gold, predicted)
    assert common_subgraph(pairs, gold, gold, seconds=5).optimal  # all of it is found, which no search can better


def test_thousands_of_nodes_one_to_one_are_solved():
    draw = seeded(7)
    gold = {(min(ends), max(ends)) for ends in (draw.sample(range(3000), 2) for _ in range(4000))}
    predicted = {edge for edge in sorted(gold) if draw.random() < 0.9}
    found = common_subgraph([(node, node) for node in range(3000)], gold, predicted, seconds=60)
    assert found.optimal
    assert 2600 < len(found.pairs) < 3000
