"""Selection of the next candidate to change: a search tree whose every node may be expanded again.

From the root down, each node is a bandit. Its arms are to create another child of the node, and to go on to one of
the existing children. UCB1 chooses the arm (Auer, Cesa-Bianchi and Fischer, Machine Learning 47, 2002), and its result
is backed up to all ancestors, as in UCT (Kocsis and Szepesvári, ECML 2006). Nodes are whole workflows, as in AFlow
(arXiv:2410.10762). Two things differ, for reasons that `test/benchmark/bench_optimise.py` shows. The value of an arm is
the best candidate below it, not the mean, because one good workflow is wanted and most changes of a good one are bad.
The weight of exploration is small, because a search can only pay for some dozens of pulls. The value of a candidate
decreases with each failed attempt to change it. This module runs nothing.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

EXPLORATION = 0.15
"""Weight of exploration, for scores from 0 to 1."""

CREDIT = 5
"""Number of successful attempts with which each candidate starts."""


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
        """Value of changing the node: its score for each attempt that created a candidate, 0 for each other attempt."""
        successes = CREDIT + self.made
        return self.score * successes / (successes + self.failed)


@dataclass(frozen=True, slots=True)
class Tree:
    """Tree of candidates; the number of a node is its place, the root has the number 0."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, score: float) -> Tree:
        """Return a tree that consists of a root with a score."""
        return cls((Node(None, score),))

    def grown(self, parent: int, score: float) -> Tree:
        """Return the tree with another child of `parent`."""
        return Tree((*back_up(self, parent, made=True).nodes, Node(parent, score)))

    def worth(self) -> list[float]:
        """Return the value of each node: the maximum over the node and all nodes below it."""
        worth = [node.worth for node in self.nodes]
        for number in range(len(self.nodes) - 1, 0, -1):  # a child comes after its parent
            parent = self.nodes[number].parent or 0
            worth[parent] = max(worth[parent], worth[number])
        return worth


def back_up(tree: Tree, number: int, *, made: bool) -> Tree:
    """Return the tree after an attempt to change a node, which counts for all its ancestors.

    Args:
        tree: The tree before.
        number: Number of the changed node.
        made: True if the attempt created a candidate.
    """
    nodes = list(tree.nodes)
    node = nodes[number]
    nodes[number] = replace(node, made=node.made + made, failed=node.failed + (not made))
    ancestor: int | None = number
    while ancestor is not None:
        nodes[ancestor] = replace(nodes[ancestor], visits=nodes[ancestor].visits + 1)
        ancestor = nodes[ancestor].parent
    return Tree(tuple(nodes))


def ucb1(value: float, pulls: int, of: int, exploration: float) -> float:
    """Return the upper confidence bound of an arm: its value, and a bonus for arms that were seldom pulled."""
    return value + exploration * math.sqrt(math.log(of) / pulls)


def select(tree: Tree, *, exploration: float = EXPLORATION, seed: int = 0) -> int:
    """Return the number of the node to change next; ties are broken at random.

    Args:
        tree: The tree so far.
        exploration: Weight of seldom tried nodes; 0 selects by value alone.
        seed: Seed of random choices, combined with the tree.
    """
    rng = random.Random(f"{seed} {tree.nodes[0].visits}")  # noqa: S311 - no secret
    worth = tree.worth()
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(number)
    current = 0
    while True:
        node = tree.nodes[current]
        bounds = {current: ucb1(node.worth, 1 + node.made + node.failed, node.visits, exploration)}
        for child in children.get(current, ()):
            bounds[child] = ucb1(worth[child], tree.nodes[child].visits, node.visits, exploration)
        highest = max(bounds.values())
        chosen = rng.choice([number for number, bound in bounds.items() if bound == highest])
        if chosen == current:
            return current
        current = chosen
