"""Metric of the program of WorFBench's authors, its faults included: for comparison with published numbers.

Where it differs from the paper:

- START and END are two nodes more of the chain, and always right.
- from 10 nodes up, START and END counted, the chain must rise in the gold workflow's listed order; below, in one of the
  first 20 topological orders that networkx lists. So a workflow may score below 1 against itself.
- the place of a gold task is that of the last task with its text: of equal tasks, one counts.
- the chain has one task at least: a task that matches nothing, alone against one task, scores 1.
- of a text, all before ``Edge:`` that looks like ``1: text`` is a task, inside a line too; of the gold ones with one
  number the last counts. Without ``Edge:`` the score is 0.
- the common graph is made of the edges whose ends have the same numbers in both workflows, whatever they stand for,
  and of it the largest connected part counts: of a workflow that is numbered anew, often one node alone.
- it crashes on a gold workflow with a cycle, and on an empty prediction; both score 0 here, and only where orders are
  listed does a cycle matter.

Made after a description, not after the program. Its open questions, such as how START and END, equal tasks and texts
in other forms are taken, is settled so that scores of gold workflows against themselves are those of the program: they
are to three digits in wikihow, alfworld and toolbench, not in lumos.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import networkx as nx

from operad.evaluators.matching import Pair
from operad.evaluators.plan import Plan

_ORDERS = 20
_LISTED_ORDER_FROM = 10

_NODE = re.compile(r"(\d{1,9}): (.*)")
_EDGE = re.compile(r"\(\s*(START|\d{1,9})\s*,\s*(END|\d{1,9})\s*\)")


def as_read(plan: Plan, *, once: bool = False) -> Plan:
    """The workflow as the program reads its text, without nodes where it cannot; that of a graph as it is.

    Args:
        plan: The workflow.
        once: True if of nodes with one number there is only the last.
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
    """Return the number of nodes the chain has.

    Args:
        predicted: The prediction.
        gold: The gold workflow.
        matched: Places of gold nodes, and of those that are predicted for them.

    Returns:
        0 where the program crashes.
    """
    of = {predicted: gold.texts[place] for place, predicted in matched}
    try:
        orders = list(_orders(gold))
    except nx.NetworkXUnfeasible:
        return 0
    places = [{gold.texts[node]: place for place, node in enumerate(order)} for order in orders]
    listed = range(len(predicted.ids))
    longest = max(_rising([place[of[at]] if at in of else None for at in listed]) for place in places)
    return longest + len(predicted.marks & gold.marks)


def official_graph(predicted: Plan, gold: Plan, matched: Iterable[Pair]) -> int:
    """Return the number of nodes the largest connected part of the common edges has.

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
