"""The matching that decides which predicted node stands for which gold one, and the chain counted on it."""

import math
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain, combinations
from random import Random

import networkx as nx
import pytest
from amounts import amount
from hypothesis import given
from hypothesis import strategies as st

from operad.integrations.worfbench import matching, node_chain
from operad.integrations.worfbench.common_subgraph import common_subgraph
from operad.integrations.worfbench.matching import Pair, best_matching, one_to_one, optimal_pairs
from operad.integrations.worfbench.node_chain import longest_chain
from operad.runtime.values.errors import MissingExtraError
from operad.runtime.values.pip import pip_install

Table = list[list[int]]

WEIGHTS = [[0, 100], [0, 0, 50, 100], [0, 60, 70, 80, 90], [0, 0, 0, 61, 62, 63], [60, 70], [0, 1, 2, 3]]


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311


def matchings(table: Table, row: int = 0, used: frozenset[int] = frozenset()) -> Iterator[tuple[Pair, ...]]:
    """All of them, by trying."""
    if row == len(table):
        yield ()
        return
    yield from matchings(table, row + 1, used)
    for column, weight in enumerate(table[row]):
        if weight and column not in used:
            for rest in matchings(table, row + 1, used | {column}):
                yield ((row, column), *rest)


def best_of(table: Table) -> list[tuple[Pair, ...]]:
    by_weight: dict[int, list[tuple[Pair, ...]]] = {}
    for found in matchings(table):
        by_weight.setdefault(sum(table[a][b] for a, b in found), []).append(found)
    return by_weight[max(by_weight)]


def hundredths(table: Table) -> list[list[float]]:
    return [[weight / 100 for weight in row] for row in table]


def test_matchings_and_their_ties_are_those_found_by_trying_all():
    draw = seeded(1)
    for _ in range(amount(40, 600)):
        weights = draw.choice(WEIGHTS)
        width = draw.randrange(1, 6)
        table = [[draw.choice(weights) for _ in range(width)] for _ in range(draw.randrange(5))]
        best = best_of(table)
        assert sum(table[a][b] for a, b in best_matching(hundredths(table))) == sum(table[a][b] for a, b in best[0])
        assert optimal_pairs(hundredths(table)) == (tuple(sorted(set(chain(*best)))), True), table


def test_a_matching_is_one_to_one_and_takes_only_allowed_pairs():
    assert best_matching([[0.9, 0.8], [0.8, 0], [0, 0]]) == ((0, 1), (1, 0))
    assert best_matching([[0, 0], [0, 0]]) == ()
    assert best_matching([]) == best_matching([[]]) == ()
    assert optimal_pairs([]) == optimal_pairs([[], []]) == ((), True)


@given(st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False), st.sampled_from(WEIGHTS))
def test_numbering_the_nodes_anew_numbers_the_optimal_pairs_anew(height, width, draw, weights):
    table = [[draw.choice(weights) for _ in range(width)] for _ in range(height)]
    rows, columns = draw.sample(range(height), height), draw.sample(range(width), width)
    renumbered = [[table[rows[a]][columns[b]] for b in range(width)] for a in range(height)]
    found = optimal_pairs(hundredths(renumbered)).pairs
    assert sorted((rows[a], columns[b]) for a, b in found) == list(optimal_pairs(hundredths(table)).pairs)
    transposed = [list(column) for column in zip(*hundredths(table), strict=True)]
    assert sorted((b, a) for a, b in optimal_pairs(transposed).pairs) == list(optimal_pairs(hundredths(table)).pairs)


def test_a_rounding_error_breaks_no_tie():
    assert optimal_pairs([[1.0, 0.99999999], [1.0000001, 1.0]]).pairs == ((0, 0), (0, 1), (1, 0), (1, 1))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.1, 7])
def test_what_is_no_similarity_is_refused(wrong: float):
    with pytest.raises(ValueError, match="from 0 to 1"):
        best_matching([[0.5, wrong]])


def test_of_too_many_ties_one_matching_is_given_and_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(matching, "MAX_TIED", 8)
    pairs, complete = optimal_pairs([[1.0] * 3] * 3)
    assert (len(pairs), complete) == (3, False)
    assert optimal_pairs([[1.0] * 4] * 2).complete


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> object:
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return import_module(name)

    monkeypatch.setattr(matching, "import_module", missing)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("evaluate"))):
        best_matching([[1.0]])


def test_a_workflow_that_says_the_same_twice_is_itself_however_it_is_numbered():
    """The matching alone would have to guess which of the equal nodes stands for which."""
    draw = seeded(5)
    for _ in range(100):
        size = draw.randrange(1, 13)
        words = [draw.randrange(1 + size // 3) for _ in range(size)]
        edges = {(a, b) for a, b in combinations(range(size), 2) if draw.random() < 0.3}
        numbers = draw.sample(range(size), size)
        similarities = [
            [float(words[gold] == words[numbers.index(node)]) for node in range(size)] for gold in range(size)
        ]
        pairs = optimal_pairs(similarities).pairs
        predicted = {(numbers[a], numbers[b]) for a, b in edges}
        found = common_subgraph(pairs, edges, predicted, seconds=10)
        assert (len(found.pairs), found.optimal) == (size, True)
        listed = [(gold, numbers.index(node)) for gold, node in pairs]  # the list is in the gold graph's order
        found = longest_chain(listed, edges, seconds=10)
        assert (len(found.pairs), found.optimal) == (size, True)


# The chain


def longest_by_trying(pairs: Sequence[Pair], gold: nx.DiGraph) -> int:
    """Over every topological order: the longest list of pairs that rises on both sides."""
    best = 0
    for order in nx.all_topological_sorts(gold):
        place = {node: index for index, node in enumerate(order)}
        longest: dict[Pair, int] = {}
        for a, b in sorted(pairs, key=lambda pair: pair[1]):
            before = [longest[c, d] for c, d in longest if d < b and place[c] < place[a]]
            longest[a, b] = 1 + max(before, default=0)
        best = max(best, *longest.values(), 0)
    return best


def some_gold(draw: Random) -> nx.DiGraph:
    size = draw.randrange(1, 7)
    names = draw.sample(range(10), size)
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    chance = draw.random()
    graph.add_edges_from(edge for edge in combinations(names, 2) if draw.random() < chance)
    return graph


def valid_chain(found: Sequence[Pair], gold: nx.DiGraph) -> bool:
    rising = sorted(found, key=lambda pair: pair[1])
    one_each = len({a for a, _ in found}) == len({b for _, b in found}) == len(found)
    return one_each and not any(
        nx.has_path(gold, later, earlier) for (earlier, _), (later, _) in combinations(rising, 2)
    )


@pytest.mark.parametrize("one_each", [True, False])
def test_the_chain_is_the_longest_over_all_topological_orders(one_each: bool):
    draw = seeded(2)
    for _ in range(300):
        gold = some_gold(draw)
        nodes = list(gold)
        pairs = [(a, b) for a in nodes for b in range(6) if draw.random() < 0.4]
        if one_each:
            pairs = list(one_to_one(pairs))
        found = longest_chain(pairs, gold.edges, seconds=10)
        assert found.optimal
        assert set(found.pairs) <= set(pairs)
        assert valid_chain(found.pairs, gold)
        assert len(found.pairs) == longest_by_trying(pairs, gold), (pairs, gold.edges)


def test_a_line_listed_backwards_has_a_chain_of_one_and_forwards_of_all():
    line = [(node, node + 1) for node in range(2999)]
    assert len(longest_chain([(node, 2999 - node) for node in range(3000)], line, seconds=0).pairs) == 1
    assert len(longest_chain([(node, node) for node in range(3000)], line, seconds=0).pairs) == 3000


def test_in_a_cycle_no_node_comes_first():
    edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]
    assert len(longest_chain([(0, 0), (1, 1), (2, 2), (3, 3)], edges, seconds=0).pairs) == 4
    assert len(longest_chain([(0, 0), (2, 1), (1, 2), (3, 3)], edges, seconds=0).pairs) == 4
    assert len(longest_chain([(3, 0), (2, 1), (1, 2), (0, 3)], edges, seconds=0).pairs) == 2


def test_without_pairs_or_edges_the_chain_is_what_there_is():
    assert longest_chain([], [], seconds=0) == ((), True)
    assert longest_chain([], [(1, 2)], seconds=0) == ((), True)
    assert longest_chain([(7, 1), (5, 0)], [], seconds=0) == (((5, 0), (7, 1)), True)


def test_without_time_the_chain_is_valid_and_not_said_to_be_the_longest():
    draw = seeded(3)
    gold = nx.DiGraph(edge for edge in combinations(range(30), 2) if draw.random() < 0.2)
    pairs = [(node, draw.randrange(30)) for node in gold for _ in range(4)]
    found = longest_chain(pairs, gold.edges, seconds=0)
    assert not found.optimal
    assert valid_chain(found.pairs, gold)


def test_of_too_many_pairs_some_are_looked_at_and_the_answer_is_valid(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_chain, "MAX_PAIRS", 20)
    found = longest_chain([(a, b) for a in range(6) for b in range(6)], [(0, 1)], seconds=10)
    assert not found.optimal
    assert 1 <= len(found.pairs) <= 6


@given(st.randoms(use_true_random=False))
def test_numbering_the_gold_nodes_anew_changes_no_chain(draw):
    gold = some_gold(draw)
    pairs = [(a, b) for a in gold for b in range(5) if draw.random() < 0.5]
    anew = dict(zip(gold, draw.sample(range(50), len(gold)), strict=True))
    renumbered = longest_chain(
        [(anew[a], b) for a, b in pairs], [(anew[a], anew[b]) for a, b in gold.edges], seconds=10
    )
    assert len(renumbered.pairs) == len(longest_chain(pairs, gold.edges, seconds=10).pairs)
