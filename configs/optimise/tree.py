"""Selection of the next candidate to change: a search tree whose every node may be expanded again.

From the root down, each node is a bandit: its arms are to make another child of it, and to go on to one of its
children. The arm is chosen by UCB1 (Auer, Cesa-Bianchi and Fischer, Machine Learning 47, 2002) and what comes of it is
backed up to all above, as in UCT (Kocsis and Szepesvári, ECML 2006); nodes are whole workflows, as in AFlow
(arXiv:2410.10762). Two things differ, as `test/benchmark/bench_optimise.py` shows that they must: an arm is worth the
best candidate behind it, not the mean, for one good workflow is wanted and most changes of a good one are bad; and the
weight of exploration is small, for a search can pay for some dozens of pulls. A candidate of which nothing new can be
made any more is worth less and less. Nothing here runs anything.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

EXPLORATION = 0.15
"""The weight of what is seldom tried, beside scores from 0 to 1."""

CREDIT = 5
"""Number of attempts that bring something each candidate is given in advance."""


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate in the tree, identified by its number.

    Attributes:
        parent: Number of its parent; None for the root.
        score: Its own score, from 0 to 1.
        visits: Number of observations here or below: its own score, and each attempt to create a candidate.
        made: Number of candidates created from this node.
        failed: Number of attempts to create a candidate from this node that failed.
    """

    parent: int | None
    score: float
    visits: int = 1
    made: int = 0
    failed: int = 0

    @property
    def worth(self) -> float:
        """Value of changing it: its score for each attempt that created a candidate, and 0 for each other attempt."""
        brought = CREDIT + self.made
        return self.score * brought / (brought + self.failed)


@dataclass(frozen=True, slots=True)
class Tree:
    """Candidates by what they were made of; a node's number is its place, the root's is 0."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, score: float) -> Tree:
        """A tree of the root alone, which has that score."""
        return cls((Node(None, score),))

    def grown(self, parent: int, score: float) -> Tree:
        """The tree with another child of `parent`."""
        return Tree((*back_up(self, parent, made=True).nodes, Node(parent, score)))

    def worth(self) -> list[float]:
        """Value of each node: the maximum of itself and all nodes below it."""
        worth = [node.worth for node in self.nodes]
        for number in range(len(self.nodes) - 1, 0, -1):  # a child comes after its parent
            parent = self.nodes[number].parent or 0
            worth[parent] = max(worth[parent], worth[number])
        return worth


def back_up(tree: Tree, number: int, *, made: bool) -> Tree:
    """The tree after an attempt to change a node, counted at all above it; `made`, that it brought a candidate."""
    nodes = list(tree.nodes)
    node = nodes[number]
    nodes[number] = replace(node, made=node.made + made, failed=node.failed + (not made))
    at: int | None = number
    while at is not None:
        nodes[at] = replace(nodes[at], visits=nodes[at].visits + 1)
        at = nodes[at].parent
    return Tree(tuple(nodes))


def ucb1(value: float, pulls: int, of: int, exploration: float) -> float:
    """The upper bound of an arm: its value, and what it may be worth more as it was pulled but so often of all times."""
    return value + exploration * math.sqrt(math.log(of) / pulls)


def select(tree: Tree, *, exploration: float = EXPLORATION, seed: int = 0) -> int:
    """Return the number of the node to change next; ties are broken at random.

    Args:
        tree: The tree so far.
        exploration: Weight of seldom tried nodes; 0 selects by value alone.
        seed: Seed of random choices, combined with the tree.
    """
    lot = random.Random(f"{seed} {tree.nodes[0].visits}")  # noqa: S311 - no secret
    worth = tree.worth()
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(number)
    at = 0
    while True:
        node = tree.nodes[at]
        bounds = {at: ucb1(node.worth, 1 + node.made + node.failed, node.visits, exploration)}
        for child in children.get(at, ()):
            bounds[child] = ucb1(worth[child], tree.nodes[child].visits, node.visits, exploration)
        most = max(bounds.values())
        chosen = lot.choice([number for number, bound in bounds.items() if bound == most])
        if chosen == at:
            return at
        at = chosen
