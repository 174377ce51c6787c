"""Positions of nodes: columns by the longest path to a node, rows in the order of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.flows.formats.shapes import Fields


def places(ids: Sequence[str], edges: Iterable[Fields]) -> dict[str, tuple[int, int]]:
    """Return the position of each node, in pixels from the left and from the top.

    Args:
        ids: The ids of the nodes.
        edges: The edges in Coze's form.
    """
    predecessors: dict[str, set[str]] = {node_id: set() for node_id in ids}
    for edge in edges:
        if edge["target_node"] in predecessors and edge["source_node"] in predecessors:
            predecessors[edge["target_node"]].add(edge["source_node"])
    columns = dict.fromkeys(ids, 0)
    for _ in range(min(len(ids), 60)):
        updated = {
            node_id: max((columns[source] + 1 for source in predecessors[node_id]), default=0) for node_id in ids
        }
        if updated == columns:
            break
        columns = updated
    next_row: dict[int, int] = {}
    positions: dict[str, tuple[int, int]] = {}
    for node_id in ids:
        row = next_row.setdefault(columns[node_id], 0)
        next_row[columns[node_id]] += 1
        positions[node_id] = (460 * columns[node_id], 260 * row)
    return positions
