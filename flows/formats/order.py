"""Topological order of nodes, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from operad.flows.node_graph import Edge
from operad.runtime.values.errors import Issue, shorten


def in_order(ids: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Return the ids in topological order, otherwise in the given order; the ids of a cycle come last."""
    return list(depths(ids, edges))


def depths(ids: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the length of the longest path to each node, in the order of `in_order`."""
    successors: dict[str, list[str]] = {node_id: [] for node_id in ids}
    open_count = dict.fromkeys(successors, 0)
    for edge in edges:
        if edge.source in successors and edge.target in successors:
            successors[edge.source].append(edge.target)
            open_count[edge.target] += 1
    depth = {node_id: 0 for node_id, count in open_count.items() if not count}
    queue = list(depth)
    depths_found: dict[str, int] = {}
    for node_id in queue:
        depths_found[node_id] = depth[node_id]
        for successor in successors[node_id]:
            depth[successor] = max(depth.get(successor, 0), depth[node_id] + 1)
            open_count[successor] -= 1
            if not open_count[successor]:
                queue.append(successor)
    return {**depths_found, **{node_id: depth.get(node_id, 0) for node_id in successors if node_id not in depths_found}}


def cycle_issues(predecessors: Mapping[str, Sequence[str]]) -> Iterator[Issue]:
    """Yield the issue of a cycle, if there is one; the predecessors of each node are given by its id."""
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        ids: list[str] = error.args[1]
        yield Issue("cycle", f"each of these leads to the next: {shorten(ids, 20).replace(', ', ' → ')}", ids[0])
