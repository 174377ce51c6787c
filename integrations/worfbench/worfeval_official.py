"""Metric of the program of WorFBench's authors, including its faults, for comparison with published numbers.

Differences from the paper:

- START and END count as two more nodes of the chain, which are always right.
- With 10 nodes or more, START and END included, the chain must rise in the order in which the gold workflow lists its
  nodes; with fewer, in one of the first 20 topological orders that networkx lists. A workflow may score below 1 against
  itself.
- The index of a gold task is that of the last task with the same text, so that of equal tasks only one counts.
- The chain has at least one task: a task without a match, alone against one task, scores 1.
- In a text, everything before ``Edge:`` that looks like ``1: text`` is a task, even inside a line; of gold tasks with
  the same number, the last counts. Without ``Edge:``, the score is 0.
- The common graph consists of the edges whose ends have the same numbers in both workflows, whatever their tasks, and
  its largest connected component counts: often a single node if a workflow is numbered differently.
- The program crashes on a gold workflow with a cycle, and on an empty prediction; both score 0 here. A cycle matters
  only if topological orders are listed.

This module follows a description, not the program. Open questions, such as the treatment of START and END, equal tasks
and texts in other forms, are decided such that gold workflows score against themselves as in the program: they do to
three digits in wikihow, alfworld and toolbench, but not in lumos.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import networkx as nx

from operad.integrations.worfbench.matching import Pair
from operad.integrations.worfbench.plan import Plan

_ORDERS = 20
"""Maximum number of topological orders to try."""

_LISTED_ORDER_FROM = 10
"""Number of nodes from which only the listed order is tried."""

_NODE = re.compile(r"(\d{1,9}): (.*)")
_EDGE = re.compile(r"\(\s*(START|\d{1,9})\s*,\s*(END|\d{1,9})\s*\)")


def as_read(plan: Plan, *, once: bool = False) -> Plan:
    """Return the plan as the program reads its text, without nodes if it cannot; the plan of a graph is unchanged.

    Args:
        plan: The plan of the workflow.
        once: True to keep only the last of nodes with the same number.
    """
    if not plan.source:
        return plan
    before, marked, after = plan.source.partition("Edge:")
    nodes: list[tuple[str, str]] = _NODE.findall(before) if marked else []
    if once:
        nodes = list(dict(nodes).items())
    places = {number: place for place, (number, _) in enumerate(nodes)}
    written = frozenset[tuple[str, str]](_EDGE.findall(after))
    return Plan(
        tuple(number for number, _ in nodes),
        tuple(text for _, text in nodes),
        frozenset((places[a], places[b]) for a, b in written if a in places and b in places),
        frozenset({end for edge in written for end in edge} & {"START", "END"}),
        written,
    )


def official_chain(predicted: Plan, gold: Plan, matched: Iterable[Pair]) -> int:
    """Return the number of nodes in the longest chain.

    Args:
        predicted: The prediction.
        gold: The gold workflow.
        matched: Indexes of matched gold and predicted nodes.

    Returns:
        The number; 0 if the program crashes.
    """
    gold_text = {predicted: gold.texts[index] for index, predicted in matched}
    try:
        orders = list(_orders(gold))
    except nx.NetworkXUnfeasible:
        return 0
    orders_by_text = [{gold.texts[node]: index for index, node in enumerate(order)} for order in orders]
    listed = range(len(predicted.ids))
    longest = max(
        _longest_rising([index[gold_text[node]] if node in gold_text else None for node in listed])
        for index in orders_by_text
    )
    return longest + len(predicted.marks & gold.marks)


def official_graph(predicted: Plan, gold: Plan, matched: Iterable[Pair]) -> int:
    """Return the number of nodes in the largest connected component of the common edges.

    Args:
        predicted: The prediction.
        gold: The gold workflow.
        matched: Indexes of matched gold and predicted nodes.
    """
    nodes = {predicted.ids[place] for _, place in matched} | predicted.marks
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes or predicted.ids[:1])
    graph.add_edges_from((a, b) for a, b in predicted.written & gold.written if a in nodes and b in nodes)
    return max(map(len, nx.weakly_connected_components(graph)))


def _orders(gold: Plan) -> Iterator[Sequence[int]]:
    """Yield the orders of the gold nodes to try.

    Raises:
        NetworkXUnfeasible: The gold workflow has a cycle.
    """
    nodes = range(len(gold.ids))
    if len(gold.ids) + len(gold.marks) >= _LISTED_ORDER_FROM:
        yield nodes
        return
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(sorted(gold.edges))
    yield from islice(nx.all_topological_sorts(graph), _ORDERS)


def _longest_rising(places: Sequence[int | None]) -> int:
    """Return the length of the longest rising subsequence, and at least 1."""
    ends: list[int] = []
    for place in places:
        if place is not None:
            position = bisect_left(ends, place)
            ends[position : position + 1] = [place]
    return max(len(ends), 1)
