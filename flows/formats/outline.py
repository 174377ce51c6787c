"""Outline of a workflow for a terminal: a line for each node, with its predecessors; nested nodes are indented."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from operad.flows.node_graph import Edge, NodeGraph

MARKS = {"added": "+", "changed": "~"}
"""Mark of a node by its status."""


def outline(graph: NodeGraph, status: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Yield a line for each node: a mark, its id and type, and the nodes that it follows.

        for line in outline(graph):
            print(line)

    Args:
        graph: The workflow.
        status: The status of nodes, "added" or "changed", by id; the marks are + and ~.
    """
    incoming: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        incoming.setdefault(edge.target, []).append(edge)
    depths: dict[str, int] = {}
    for node in graph.nodes:
        depths[node.id] = depths.get(node.parent, -1) + 1 if node.parent else 0
    names = {node.id: f"{'  ' * depths[node.id]}{node.id} {node.type}" for node in graph.nodes}
    width = max(map(len, names.values()), default=0)
    for node in graph.nodes:
        sources = ", ".join(
            f"{edge.source}:{edge.port}" if edge.port else edge.source for edge in incoming.get(node.id, ())
        )
        mark = MARKS.get(status.get(node.id, ""), " ")
        yield f"{mark} {names[node.id]:{width}}{f'  <- {sources}' if sources else ''}".rstrip()
