"""Positions of nodes: columns by their longest path from the start, rows by the mean row of those before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from operad.flows.node_graph import NodeGraph

WIDTH = 244
HEIGHT = 90
GAP = 60
HEAD = 68
"""Pixels above what runs inside a node, for its title."""


class Place(NamedTuple):
    """Position of a node, in pixels.

    Attributes:
        x: From the left edge of what it stands in.
        y: From the top of it.
        left: From the left of all.
        top: From the top of all.
        width: Its width.
        height: Its height.
    """

    x: float
    y: float
    left: float
    top: float
    width: float
    height: float


def places(graph: NodeGraph, starts: Sequence[str]) -> Mapping[str, Place]:
    """Lay a workflow out.

    Args:
        graph: The workflow; each id once.
        starts: The ids of small nodes that begin what runs inside another.
    """
    inside: dict[str, list[str]] = {}
    ids = {node.id for node in graph.nodes}
    for node in graph.nodes:
        inside.setdefault(node.parent if node.parent in ids else "", []).append(node.id)
    before: dict[str, list[str]] = {node_id: [] for node_id in ids}
    parent = {node_id: holder for holder, members in inside.items() for node_id in members}
    for edge in graph.edges:
        if edge.source in ids and edge.target in ids and parent[edge.source] == parent[edge.target]:
            before[edge.target].append(edge.source)
    sizes: dict[str, tuple[float, float]] = dict.fromkeys(starts, (44, 48))
    at: dict[str, tuple[float, float]] = {}
    for holder in reversed(_outwards_first(inside)):
        width, height = _level(inside[holder], before, sizes, at)
        if holder:
            sizes[holder] = (width + 2 * GAP, height + HEAD + GAP)
    found: dict[str, Place] = {}
    for holder in _outwards_first(inside):
        left, top = (found[holder].left + GAP, found[holder].top + HEAD) if holder else (0.0, 0.0)
        dx, dy = (GAP, HEAD) if holder else (0, 0)
        for node_id in inside[holder]:
            x, y = at[node_id]
            found[node_id] = Place(x + dx, y + dy, left + x, top + y, *sizes.get(node_id, (WIDTH, HEIGHT)))
    for node_id in ids - found.keys():  # nodes inside one another, in a circle
        found[node_id] = Place(0, 0, 0, 0, WIDTH, HEIGHT)
    return found


def _outwards_first(inside: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes that hold others, each after the one that it stands in."""
    order = [""] if "" in inside else []
    for holder in order:
        order += [node_id for node_id in inside[holder] if node_id in inside]
    return order


def _level(
    ids: Sequence[str],
    before: Mapping[str, Sequence[str]],
    sizes: Mapping[str, tuple[float, float]],
    at: dict[str, tuple[float, float]],
) -> tuple[float, float]:
    """Place the nodes of a level from its top left; the width and the height that it takes."""
    after: dict[str, list[str]] = {node_id: [] for node_id in ids}
    waits = {node_id: len(before[node_id]) for node_id in ids}
    for node_id in ids:
        for earlier in before[node_id]:
            after[earlier].append(node_id)
    layer = {node_id: 0 for node_id in ids if not waits[node_id]}
    ready = list(layer)
    for node_id in ready:
        for later in after[node_id]:
            layer[later] = max(layer.get(later, 0), layer[node_id] + 1)
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    last = max(layer.values(), default=0)
    columns: list[list[str]] = [[] for _ in range(last + 2)]
    for node_id in ids:
        columns[layer[node_id] if not waits[node_id] else last + 1].append(node_id)  # the last is of cycles
    row: dict[str, float] = {}
    step = max((sizes.get(node_id, (WIDTH, HEIGHT))[1] for node_id in ids), default=HEIGHT) + GAP
    x = 0.0
    for column in columns:
        wanted = {node_id: _mean([row[each] for each in before[node_id] if each in row]) for node_id in column}
        free = 0.0
        for node_id in sorted(column, key=wanted.__getitem__):
            row[node_id] = max(wanted[node_id], free)
            free = row[node_id] + 1
            at[node_id] = (round(x, 1), round(row[node_id] * step, 1))
        x += max((sizes.get(node_id, (WIDTH, HEIGHT))[0] + GAP for node_id in column), default=0)
    return x - GAP, (max(row.values(), default=0) + 1) * step - GAP


def _mean(rows: Sequence[float]) -> float:
    return sum(rows) / len(rows) if rows else 0.0
