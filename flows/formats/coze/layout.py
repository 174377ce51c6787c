"""Positions of nodes: columns by the longest path to them, rows one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.flows.formats.shapes import Fields


def places(ids: Sequence[str], edges: Iterable[Fields]) -> dict[str, tuple[int, int]]:
    """The place of each node, in pixels from the left and from the top.

    Args:
        ids: The nodes.
        edges: The edges, as Coze writes them.
    """
    before: dict[str, set[str]] = {each: set() for each in ids}
    for edge in edges:
        if edge["target_node"] in before and edge["source_node"] in before:
            before[edge["target_node"]].add(edge["source_node"])
    column = dict.fromkeys(ids, 0)
    for _ in range(min(len(ids), 60)):
        deeper = {each: max((column[other] + 1 for other in before[each]), default=0) for each in ids}
        if deeper == column:
            break
        column = deeper
    rows: dict[int, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for each in ids:
        row = rows.setdefault(column[each], 0)
        rows[column[each]] += 1
        found[each] = (460 * column[each], 260 * row)
    return found
