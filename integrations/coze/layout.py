"""Positions of nodes: columns by the longest path to a node, rows in the order of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.flows.formats.order import depths
from operad.flows.formats.shapes import Fields
from operad.flows.node_graph import Edge


def places(ids: Sequence[str], edges: Iterable[Fields]) -> dict[str, tuple[int, int]]:
    """Return the position of each node, in pixels from the left and from the top.

    Args:
        ids: The ids of the nodes.
        edges: The edges in Coze's form.
    """
    columns = depths(ids, (Edge(edge["source_node"], edge["target_node"]) for edge in edges))
    next_row: dict[int, int] = {}
    positions: dict[str, tuple[int, int]] = {}
    for node_id in ids:
        row = next_row.setdefault(columns[node_id], 0)
        next_row[columns[node_id]] += 1
        positions[node_id] = (460 * columns[node_id], 260 * row)
    return positions
