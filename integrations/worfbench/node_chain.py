"""Node chain of WorFEval: the predicted nodes whose order the gold graph allows.

"Benchmarking Agentic Workflow Generation", section 3, takes the longest increasing subsequence for each topological
order of the gold graph. This module finds the longest one over all of these orders without listing them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import networkx as nx

from operad.integrations.worfbench.independent_set import largest_independent_set, members
from operad.integrations.worfbench.matching import (
    MAX_PAIRS,
    Alignment,
    Pair,
    one_to_one,
    places,
    scipy_module,
    shared_nodes,
    sides,
)


def longest_chain(
    pairs: Iterable[Pair],
    gold_edges: Iterable[tuple[int, int]],
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Alignment:
    """Return the most pairs that, in the prediction's order, rise in some topological order of the gold graph.

    Two pairs exclude each other if the pair whose predicted node comes first has the gold node that must come later. A
    set without two such pairs rises in some topological order, as edges added along it close no cycle. If the pairs are
    one to one, "must come later and came first" is a partial order. Its largest antichain is the result, which, by
    Dilworth's theorem, has the number of pairs less a maximum matching of the relation and needs no search. Otherwise
    pairs that share a node also exclude each other, which is not an order, and the result needs a search.

    The nodes of a cycle in the gold graph have no order among each other.

    Args:
        pairs: Pairs of a gold node and an index in the prediction's list.
        gold_edges: Edges from a gold node to a later one.
        seconds: Time limit of the search.
        clock: Function that returns the time in seconds.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    gold_edges = list(gold_edges)
    ordered = sorted(set(pairs), key=lambda pair: (pair[1], pair[0]))
    if len(ordered) > MAX_PAIRS:
        fewer = one_to_one(ordered)[:MAX_PAIRS]
        return longest_chain(fewer, gold_edges, seconds=seconds, clock=clock)._replace(optimal=False)
    golds, predicted = sides(ordered)
    above = _above(golds, gold_edges)
    later = [above[gold] >> index + 1 << index + 1 for index, gold in enumerate(golds)]
    if len(set(golds)) == len(set(predicted)) == len(ordered):
        return Alignment(tuple(sorted(ordered[index] for index in _antichain(later))), True)
    below = _above(golds, [(end, start) for start, end in gold_edges])
    earlier = [below[gold] & (1 << index) - 1 for index, gold in enumerate(golds)]
    conflicts = [a | b | c for a, b, c in zip(shared_nodes(ordered), later, earlier, strict=True)]
    depth = [above[gold].bit_count() for gold in golds]
    found = largest_independent_set(
        conflicts,
        seconds=seconds,
        bound=lambda indices: len(one_to_one(ordered[index] for index in indices)),
        orders=[sorted(range(len(ordered)), key=lambda index: (predicted[index], depth[index]))],
        clock=clock,
    )
    return Alignment(tuple(sorted(ordered[index] for index in found.vertices)), found.optimal)


def _above(golds: Sequence[int], edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return, by gold node, the bitset of the indexes in `golds` of nodes that must come before it."""
    graph: nx.DiGraph[int] = nx.DiGraph(edges)
    graph.add_nodes_from(golds)
    condensed = nx.condensation(graph)
    indexes = places(golds)
    above: dict[int, int] = {}
    up_to: dict[int, int] = {}
    for component in nx.topological_sort(condensed):
        before = 0
        for earlier in condensed.predecessors(component):
            before |= up_to[earlier]
        up_to[component] = before
        for node in condensed.nodes[component]["members"]:
            above[node] = before
            up_to[component] |= indexes.get(node, 0)
    return above


def _antichain(later: Sequence[int]) -> list[int]:
    """Return the largest antichain of a partial order given as bitsets, by a minimum vertex cover (König)."""
    if not any(later):
        return list(range(len(later)))
    sparse, graphs = scipy_module("sparse"), scipy_module("sparse.csgraph")
    np: Any = import_module("numpy")
    width = len(later) // 8 + 1
    rows = [np.frombuffer(bitset.to_bytes(width, "little"), np.uint8) for bitset in later]
    columns = [np.flatnonzero(np.unpackbits(row, bitorder="little")).astype(np.int32) for row in rows]
    starts = np.cumsum([0, *map(len, columns)])
    values = np.concatenate(columns)
    table = sparse.csr_array((np.ones(len(values), bool), values, starts), shape=(len(later), len(later)))
    partner: list[int] = graphs.maximum_bipartite_matching(table, perm_type="column").tolist()
    owner = {column: row for row, column in enumerate(partner) if column >= 0}
    frontier = [row for row, column in enumerate(partner) if column < 0]
    rows_reached, columns_reached = set(frontier), 0
    while frontier:
        new_columns = later[frontier.pop()] & ~columns_reached
        columns_reached |= new_columns
        for column in members(new_columns):
            rows_reached.add(owner[column])  # the column has an owner; otherwise the matching could grow
            frontier.append(owner[column])
    return [index for index in sorted(rows_reached) if not columns_reached >> index & 1]
