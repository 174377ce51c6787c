"""Which candidate is changed next, as values alone."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.configs.optimise.tree import Node, Tree, back_up, select, ucb1

BENCHMARK = Path(__file__).parents[3] / "benchmark"

scores = st.floats(0, 1)
growths = st.lists(st.tuples(st.integers(0, 99), scores, st.booleans()), max_size=40)


def grown(first, steps):
    """A tree of steps: whose child, its score, and whether a candidate came of it at all."""
    tree = Tree.of(first)
    for parent, score, came in steps:
        number = parent % len(tree.nodes)
        tree = tree.grown(number, score) if came else back_up(tree, number, made=False)
    return tree


def test_what_a_candidate_brings_counts_for_all_above_it():
    tree = Tree.of(0.2).grown(0, 0.5).grown(1, 0.4).grown(0, 0.1)
    assert tree.nodes == (
        Node(None, 0.2, visits=4, made=2), Node(0, 0.5, visits=2, made=1), Node(1, 0.4), Node(0, 0.1),
    )  # fmt: skip
    assert tree.worth() == [0.5, 0.5, 0.4, 0.1]
    assert back_up(tree, 2, made=False).nodes[2] == Node(1, 0.4, visits=2, failed=1)


def test_where_nothing_new_comes_of_it_a_candidate_is_worth_less_and_so_are_those_above_it():
    tree = Tree.of(0.2).grown(0, 0.6)
    for _ in range(3):
        tree = back_up(tree, 1, made=False)
    assert tree.worth() == pytest.approx([0.375, 0.375])
    assert tree.grown(1, 0.5).worth()[0] == 0.5


@pytest.mark.parametrize(
    ("value", "pulls", "of", "exploration", "bound"),
    [
        (0.5, 1, 1, 1.0, 0.5),  # the logarithm of 1 is 0
        (0.5, 2, 10, math.sqrt(2), 0.5 + math.sqrt(2 * math.log(10) / 2)),  # as Auer and others have it
        (0.5, 8, 10, 0.0, 0.5),
    ],
)
def test_the_upper_bound_is_that_of_ucb1(value, pulls, of, exploration, bound):
    assert ucb1(value, pulls, of, exploration) == pytest.approx(bound)


@pytest.mark.parametrize(
    ("steps", "exploration", "chosen"),
    [
        ([], 0.15, 0),
        ([(0, 0.9, True)], 0.15, 1),  # what is better is changed further
        ([(0, 0.1, True)], 0.15, 0),  # what is worse is not
        ([(0, 0.5, True), *[(1, 0.5, True)] * 30], 0.15, {2, *range(3, 32)}),
        ([(0, 0.9, True), *[(1, 0.0, False)] * 20], 0.0, 0),  # where nothing new comes of it, elsewhere
        ([(0, 0.4, True), *[(1, 0.1, True)] * 2], 0.15, 1),
        ([(0, 0.4, True), *[(1, 0.1, True)] * 20], 0.15, 0),  # where nothing good does, in time
    ],
)
def test_what_is_chosen(steps, exploration, chosen):
    assert select(grown(0.3, steps), exploration=exploration) in (chosen if isinstance(chosen, set) else {chosen})


def test_between_equal_ones_the_seed_decides_and_all_have_a_chance():
    tree = grown(0.0, [(0, 0.5, True)] * 4)
    lots = [select(tree, seed=seed) for seed in range(60)]
    assert set(lots) == {1, 2, 3, 4}
    assert lots == [select(tree, seed=seed) for seed in range(60)]


@given(scores, growths, st.integers(), st.floats(0, 3))
def test_any_tree_keeps_its_account_and_some_node_is_chosen(first, steps, seed, exploration):
    tree = grown(first, steps)
    root = tree.nodes[0]
    assert root.visits == 1 + len(steps)
    assert sum(node.made + node.failed for node in tree.nodes) == len(steps)
    worth = tree.worth()
    for number, node in enumerate(tree.nodes):
        below = [child for child, other in enumerate(tree.nodes) if other.parent == number]
        assert node.made == len(below)
        assert worth[number] == max([node.worth, *(worth[child] for child in below)])
        assert node.visits == 1 + node.failed + sum(tree.nodes[child].visits for child in below)
    chosen = select(tree, exploration=exploration, seed=seed)
    assert chosen == select(tree, exploration=exploration, seed=seed)
    assert chosen in range(len(tree.nodes))


@given(scores, growths)
def test_without_exploration_one_of_the_best_is_chosen(first, steps):
    tree = grown(first, steps)
    assert tree.nodes[select(tree, exploration=0.0)].worth == max(node.worth for node in tree.nodes)


@pytest.mark.slow
def test_it_finds_the_best_more_often_than_choice_by_lot_and_than_the_best_so_far_where_that_is_a_trap(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARK))
    bench: Any = import_module("bench_optimise")

    def found(family, choose, rounds):
        after = [bench.found_after(bench.FAMILIES[family], choose, seed, rounds) for seed in range(60)]
        return sum(each is not None for each in after)

    for family in bench.FAMILIES:
        assert found(family, bench.by_ucb1(0.15), 40) > found(family, bench.by_lot, 40)
    assert found("hill", bench.by_ucb1(0.15), 40) > 50
    assert found("trap", bench.by_ucb1(0.15), 60) > found("trap", bench.by_the_best, 60)
