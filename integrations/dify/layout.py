"""Positions of nodes: columns by the longest path from the start, rows by the mean row of the predecessors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from operad.flows.node_graph import Edge, NodeGraph, depths

WIDTH = 244
HEIGHT = 90
GAP = 60
HEAD = 68
"""Height of a container's title above the nodes inside it, in pixels."""


class Place(NamedTuple):
    """Position of a node, in pixels.

    Attributes:
        x: The distance from the left edge of the container.
        y: The distance from the top of the container.
        left: The distance from the left edge of the canvas.
        top: The distance from the top of the canvas.
        width: The width.
        height: The height.
    """

    x: float
    y: float
    left: float
    top: float
    width: float
    height: float


def places(graph: NodeGraph, starts: Sequence[str]) -> Mapping[str, Place]:
    """Return the position and size of each node, by its id.

    Args:
        graph: The workflow; each id once.
        starts: The ids of the start nodes inside containers, which are small.
    """
    inside: dict[str, list[str]] = {}
    ids = {node.id for node in graph.nodes}
    for node in graph.nodes:
        inside.setdefault(node.parent if node.parent in ids else "", []).append(node.id)
    predecessors: dict[str, list[str]] = {node_id: [] for node_id in ids}
    holder_of = {node_id: holder for holder, members in inside.items() for node_id in members}
    for edge in graph.edges:
        if edge.source in ids and edge.target in ids and holder_of[edge.source] == holder_of[edge.target]:
            predecessors[edge.target].append(edge.source)
    sizes: dict[str, tuple[float, float]] = dict.fromkeys(starts, (44, 48))
    positions: dict[str, tuple[float, float]] = {}
    for holder in reversed(_outermost_first(inside)):
        width, height = _place_level(inside[holder], predecessors, sizes, positions)
        if holder:
            sizes[holder] = (width + 2 * GAP, height + HEAD + GAP)
    placed: dict[str, Place] = {}
    for holder in _outermost_first(inside):
        left, top = (placed[holder].left + GAP, placed[holder].top + HEAD) if holder else (0.0, 0.0)
        inset_x, inset_y = (GAP, HEAD) if holder else (0, 0)
        for node_id in inside[holder]:
            x, y = positions[node_id]
            placed[node_id] = Place(x + inset_x, y + inset_y, left + x, top + y, *sizes.get(node_id, (WIDTH, HEIGHT)))
    for node_id in ids - placed.keys():  # nodes inside themselves
        placed[node_id] = Place(0, 0, 0, 0, WIDTH, HEIGHT)
    return placed


def _outermost_first(inside: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ids of the containers, each after the container around it; the empty id is the workflow."""
    order = [""] if "" in inside else []
    for holder in order:
        order += [node_id for node_id in inside[holder] if node_id in inside]
    return order


def _place_level(
    ids: Sequence[str],
    predecessors: Mapping[str, Sequence[str]],
    sizes: Mapping[str, tuple[float, float]],
    positions: dict[str, tuple[float, float]],
) -> tuple[float, float]:
    """Add the positions of the nodes of a level to `positions`; return the width and the height of the level."""
    layer = depths(ids, (Edge(earlier, node_id) for node_id in ids for earlier in predecessors[node_id]))
    columns: list[list[str]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for node_id in ids:
        columns[layer[node_id]].append(node_id)
    rows: dict[str, float] = {}
    row_height = max((sizes.get(node_id, (WIDTH, HEIGHT))[1] for node_id in ids), default=HEIGHT) + GAP
    x = 0.0
    for column in columns:
        wanted_rows = {
            node_id: _mean([rows[each] for each in predecessors[node_id] if each in rows]) for node_id in column
        }
        next_row = 0.0
        for node_id in sorted(column, key=wanted_rows.__getitem__):
            rows[node_id] = max(wanted_rows[node_id], next_row)
            next_row = rows[node_id] + 1
            positions[node_id] = (round(x, 1), round(rows[node_id] * row_height, 1))
        x += max((sizes.get(node_id, (WIDTH, HEIGHT))[0] + GAP for node_id in column), default=0)
    return x - GAP, (max(rows.values(), default=0) + 1) * row_height - GAP


def _mean(rows: Sequence[float]) -> float:
    return sum(rows) / len(rows) if rows else 0.0
