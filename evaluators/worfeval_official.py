"""What the program of WorFBench's authors computes, its faults included: for comparison with published numbers.

Where it differs from the paper:

- from 10 nodes up, START and END counted, the chain must rise in the gold workflow's listed order; below, in one of the
  first 20 topological orders that networkx lists. So a workflow may score below 1 against itself.
- the chain has one node at least: a node that matches nothing, alone against one node, scores 1.
- of equal tasks, any one may be matched with any.
- the common graph is made of the edges whose ends have the same numbers in both workflows, whatever they stand for,
  and of it the largest connected part counts: of a workflow that is numbered anew, often one node alone.
- it crashes on a gold workflow with a cycle, and on an empty prediction; both score 0 here, and only where orders are
  listed does a cycle matter.

Made after a description, not after the program. What that leaves open is settled so that scores of gold workflows
against themselves come near those of the program: START and END are nodes of the common graph, but not of the chain;
of other nodes, those that match something are. Which of equal tasks are matched is the choice of networkx.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import networkx as nx

from operad.evaluators.matching import Pair, best_matching
from operad.evaluators.plan import Plan

_ORDERS = 20
_LISTED_ORDER_FROM = 10

_MATCHED_HERE = 2_500
"""Pairs of nodes up to which networkx matches them, in a second; of more, SciPy. They choose differently among equal
nodes."""


def official_matching(table: Any) -> tuple[Pair, ...]:
    """A matching of the highest weight.

    Args:
        table: A row per gold node with the similarity of each predicted one; 0 where they may not be matched.
    """
    if table.size > _MATCHED_HERE:
        return best_matching(table)
    graph: nx.Graph[Pair] = nx.Graph()
    for predicted, gold in zip(*(places.tolist() for places in table.T.nonzero()), strict=True):
        graph.add_edge((0, predicted), (1, gold), weight=float(table[gold, predicted]))
    sides = (sorted(ends) for ends in nx.max_weight_matching(graph))
    return tuple(sorted((gold, predicted) for (_, predicted), (_, gold) in sides))


def official_chain(gold: Plan, predicted: int, matched: Iterable[Pair]) -> int:
    """How many nodes the chain has.

    Args:
        gold: The gold workflow.
        predicted: How many nodes the prediction lists.
        matched: Places of gold nodes, and of those that are predicted for them.

    Returns:
        0 where the program crashes.
    """
    of = {predicted: gold for gold, predicted in matched}
    try:
        orders = list(_orders(gold))
    except nx.NetworkXUnfeasible:
        return 0
    places = [{node: place for place, node in enumerate(order)} for order in orders]
    return max(_rising([place[of[at]] if at in of else None for at in range(predicted)]) for place in places)


def official_graph(predicted: Plan, gold: Plan, matched: Iterable[Pair]) -> int:
    """How many nodes the largest connected part of the common edges has.

    Args:
        predicted: The prediction.
        gold: The gold workflow.
        matched: As for the chain.
    """
    nodes = {predicted.ids[place] for _, place in matched} | predicted.marks
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes or predicted.ids[:1])
    graph.add_edges_from((a, b) for a, b in predicted.written & gold.written if a in nodes and b in nodes)
    return max(map(len, nx.weakly_connected_components(graph)))


def _orders(gold: Plan) -> Iterator[Sequence[int]]:
    """The orders of the gold nodes that are tried.

    Raises:
        NetworkXUnfeasible: It has a cycle.
    """
    nodes = range(len(gold.ids))
    if len(gold.ids) + len(gold.marks) >= _LISTED_ORDER_FROM:
        yield nodes
        return
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(sorted(gold.edges))
    yield from islice(nx.all_topological_sorts(graph), _ORDERS)


def _rising(places: Sequence[int | None]) -> int:
    """The length of the longest rising subsequence; 1 even where nothing is there."""
    ends: list[int] = []
    for place in places:
        if place is not None:
            at = bisect_left(ends, place)
            ends[at : at + 1] = [place]
    return max(len(ends), 1)
