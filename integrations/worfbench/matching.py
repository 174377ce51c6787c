"""Matching of predicted nodes with gold nodes: matchings of the highest weight.

Nodes are numbers, and a pair is (gold, predicted). Both scores of WorFBench begin here ("Benchmarking Agentic Workflow
Generation", section 3, on WorFEval). Needs the extra ``evaluate``, for SciPy.

If a workflow has equal tasks, several matchings have the highest weight, and which one a solver returns depends on the
numbers of the nodes. A score must not depend on these. Therefore `optimal_pairs` returns every pair that is part of
*some* matching of the highest weight, and the scores (`longest_chain`, `common_subgraph`) take the best one-to-one
choice of these pairs. If the matching is unique, that is the matching. If ties come from nodes of equal text, as they
usually do, any one-to-one choice can be completed to a matching of the highest weight. In other ties, a choice may mix
several such matchings, which no rule on two pairs at a time could forbid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from operad.runtime.values.errors import MissingExtraError
from operad.runtime.values.pip import pip_install

Pair = tuple[int, int]

MAX_PAIRS = 10_000
"""Maximum number of pairs to search, such as those of 100 equal nodes with 100, or of 10,000 nodes one to one.

Of more pairs, only this number, from one matching, is searched, and the result does not count as optimal.
"""

MAX_TIED = 1_000_000
"""Maximum number of pairs that `optimal_pairs` returns, of some 100 bytes each."""

_UNIT = 1_000_000
"""Weight of similarity 1: weights are integers in millionths, so that sums and ties are exact."""

_FAR = 1 << 30
"""Length of the arc of a pair that is not allowed: above all weights and distances; sums fit 32 bits."""


class OptimalPairs(NamedTuple):
    """Pairs of the matchings of the highest weight.

    Attributes:
        pairs: The pairs in ascending order.
        complete: True if all pairs are listed; False if there are more than `MAX_TIED`, and one matching is listed.
    """

    pairs: tuple[Pair, ...]
    complete: bool


class Alignment(NamedTuple):
    """Gold nodes and the predicted nodes that match them, one to one.

    Attributes:
        pairs: The pairs in ascending order.
        optimal: True if it is proven that no such set of pairs is larger.
    """

    pairs: tuple[Pair, ...]
    optimal: bool


def best_matching(similarities: Sequence[Sequence[float]]) -> tuple[Pair, ...]:
    """Return a matching of the highest weight, in which each node is in one pair at most.

    Args:
        similarities: Similarities from 0 to 1, a row for each gold node and a column for each predicted node: an array
            or nested sequences. Pairs of 0 (and below half a millionth) are not allowed.

    Returns:
        One of the matchings of the highest weight, in ascending order; every pair has a positive weight.

    Raises:
        MissingExtraError: SciPy is not installed.
        ValueError: A similarity is not a number from 0 to 1. Rounding errors above 1 count as 1.
    """
    return tuple(
        sorted(pair for component in _components(similarities) for pair in component.pairs(*component.matching()))
    )


def optimal_pairs(similarities: Sequence[Sequence[float]]) -> OptimalPairs:
    """Return every pair that is part of some matching of the highest weight.

    The result depends only on the similarities, in millionths, and not on how nodes are numbered.

    Args:
        similarities: As for `best_matching`.

    Raises:
        MissingExtraError: SciPy is not installed.
        ValueError: A similarity is not a number from 0 to 1. Rounding errors above 1 count as 1.
    """
    tied = [(component, component.tied()) for component in _components(similarities)]
    if sum(len(rows) for _, (rows, _) in tied) > MAX_TIED:
        return OptimalPairs(
            tuple(sorted(pair for component, _ in tied for pair in component.pairs(*component.matching()))), False
        )
    return OptimalPairs(tuple(sorted(pair for component, found in tied for pair in component.pairs(*found))), True)


def one_to_one(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return the most pairs in which each node occurs once.

    Raises:
        MissingExtraError: SciPy is not installed, and a node is in more than one pair.
    """
    pairs = sorted(set(pairs))
    golds, predicted = (sorted(set(side)) for side in sides(pairs))
    if len(golds) == len(predicted) == len(pairs):
        return tuple(pairs)
    row = {gold: index for index, gold in enumerate(golds)}
    column = {node: index for index, node in enumerate(predicted)}
    ends = ([row[gold] for gold, _ in pairs], [column[node] for _, node in pairs])
    table = scipy_module("sparse").csr_array(([True] * len(pairs), ends), shape=(len(golds), len(predicted)))
    matched: list[int] = scipy_module("sparse.csgraph").maximum_bipartite_matching(table, perm_type="column").tolist()
    return tuple((gold, predicted[to]) for gold, to in zip(golds, matched, strict=True) if to >= 0)


def shared_nodes(pairs: Sequence[Pair]) -> list[int]:
    """Return, for each pair, the bitset of the other pairs that share a node with it."""
    golds, predicted = sides(pairs)
    with_gold, with_predicted = places(golds), places(predicted)
    return [(with_gold[a] | with_predicted[b]) & ~(1 << index) for index, (a, b) in enumerate(pairs)]


def places(nodes: Iterable[int]) -> dict[int, int]:
    """Return, by node, the bitset of the indexes at which the node is listed."""
    found: dict[int, int] = {}
    for index, node in enumerate(nodes):
        found[node] = found.get(node, 0) | 1 << index
    return found


def sides(pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    """Return the gold nodes and the predicted nodes of the pairs."""
    return [gold for gold, _ in pairs], [predicted for _, predicted in pairs]


def scipy_module(name: str) -> Any:
    """Import a module of SciPy.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    try:
        return import_module(f"scipy.{name}")
    except ImportError as error:
        raise MissingExtraError(
            f"scores of a workflow against a gold one need the package scipy: {pip_install('evaluate')}"
        ) from error


@dataclass(frozen=True)
class _Component:
    """Connected component of the graph of allowed pairs.

    Attributes:
        golds: Numbers of the gold nodes, by row.
        predicted: Numbers of the predicted nodes, by column.
        weights: Weights of the pairs by row and column, in millionths; 0 for pairs that are not allowed.
    """

    golds: Any
    predicted: Any
    weights: Any

    def pairs(self, rows: Any, columns: Any) -> Iterator[Pair]:
        """Return pairs of node numbers from rows and columns."""
        return zip(self.golds[rows].tolist(), self.predicted[columns].tolist(), strict=True)

    def matching(self) -> tuple[Any, Any]:
        """Return the rows and columns of a matching of the highest weight."""
        if self.weights.size == 1:
            return [0], [0]
        rows, columns = scipy_module("optimize").linear_sum_assignment(self.weights, maximize=True)
        allowed = self.weights[rows, columns] > 0
        return rows[allowed], columns[allowed]

    def tied(self) -> tuple[Any, Any]:
        """Return the rows and columns of the pairs of all matchings of the highest weight.

        Two such matchings differ by cycles and paths that alternate between them and do not change the weight. In a
        graph with an arc from row to column for each allowed pair (of length minus its weight), an arc back for each
        matched pair (of length plus its weight), and arcs of length 0 between an extra node and each node that may gain
        or lose its partner, these are cycles of length 0. With the distances from the extra node as potentials, no arc
        is shorter than 0, and a pair is on such a cycle if its arc has length 0 and joins two nodes of one strong
        component of arcs of length 0.
        """
        if self.weights.size == 1:
            return [0], [0]
        np: Any = import_module("numpy")
        rows, columns = self.matching()
        height, width = self.weights.shape
        weight = self.weights[rows, columns]
        lengths = np.where(self.weights > 0, -self.weights, _FAR)
        row_at, column_at = np.zeros(height, np.int32), np.zeros(width, np.int32)  # distances from the extra node
        while True:
            row_at[rows] = column_at[columns] + weight
            nearer = np.minimum((row_at[:, None] + lengths).min(axis=0), column_at)
            if (nearer == column_at).all():
                break
            column_at = nearer
        tight = row_at[:, None] + lengths == column_at
        free_row, free_column = np.full(height, True), np.full(width, True)
        free_row[rows] = free_column[columns] = False
        loses_row, loses_column = row_at == 0, column_at == 0
        sparse = scipy_module("sparse")
        arcs = [
            [None, tight, loses_row[:, None]],
            [
                sparse.coo_array((weight > 0, (columns, rows)), shape=(width, height)),
                None,
                (free_column & loses_column)[:, None],
            ],
            [free_row[None, :], loses_column[None, :], None],
        ]
        graph = sparse.block_array([[None if part is None else sparse.coo_array(part) for part in row] for row in arcs])
        _, group = scipy_module("sparse.csgraph").connected_components(graph, connection="strong")
        mask = tight & (group[:height, None] == group[None, height:-1])
        mask[rows, columns] = True
        return np.nonzero(mask)


def _components(similarities: Sequence[Sequence[float]]) -> Iterator[_Component]:
    """Yield the connected components of the allowed pairs.

    Raises:
        ValueError: A similarity is not a number from 0 to 1.
    """
    sparse, graphs = scipy_module("sparse"), scipy_module("sparse.csgraph")
    np: Any = import_module("numpy")
    given = np.asarray(similarities, dtype=float)
    if not given.size:
        return
    if not ((given >= 0) & (given <= 1.001)).all():
        raise ValueError(
            "similarities must be from 0 to 1, where 0 is a pair that is not allowed: no NaN, none below 0"
        )
    weights = np.rint(np.minimum(given, 1) * _UNIT).astype(np.int32)
    allowed = sparse.csr_array(weights > 0)
    count, component = graphs.connected_components(
        sparse.block_array([[None, allowed], [allowed.T, None]]), directed=False
    )
    nodes = np.argsort(component, kind="stable")  # by component, gold nodes first
    for group in np.split(nodes, np.searchsorted(component[nodes], np.arange(1, count))):
        golds, predicted = group[group < len(weights)], group[group >= len(weights)] - len(weights)
        if golds.size and predicted.size:
            yield _Component(golds, predicted, weights[np.ix_(golds, predicted)])
