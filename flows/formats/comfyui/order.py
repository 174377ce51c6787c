"""Order of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.flows.node_graph import Edge


def in_order(ids: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """The ids so that each comes after those it gets something from, else in the order given; those of a cycle last."""
    return list(depths(ids, edges))


def depths(ids: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the length of the longest chain before each node, in the order of `in_order`."""
    after: dict[str, list[str]] = {each: [] for each in ids}
    waits = dict.fromkeys(after, 0)
    for edge in edges:
        if edge.source in after and edge.target in after:
            after[edge.source].append(edge.target)
            waits[edge.target] += 1
    depth = {each: 0 for each, count in waits.items() if not count}
    ready = list(depth)
    found: dict[str, int] = {}
    for each in ready:
        found[each] = depth[each]
        for following in after[each]:
            depth[following] = max(depth.get(following, 0), depth[each] + 1)
            waits[following] -= 1
            if not waits[following]:
                ready.append(following)
    return {**found, **{each: depth.get(each, 0) for each in after if each not in found}}
