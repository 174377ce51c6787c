"""Flowchart of a workflow in Mermaid's language.

A node shows its type and its id. An edge from a port shows the port: the number of an if-else case, ``else``, or the
name of a class. Nodes inside a container are drawn in a frame. A node that edges name but that does not exist has a
dashed border.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.mermaid import Flowchart, Shape

COLOURS: Mapping[str, str] = {
    "running": "fill:#fff3bf,stroke:#f08c00",
    "done": "fill:#d3f9d8,stroke:#2b8a3e",
    "failed": "fill:#ffe3e3,stroke:#c92a2a",
    "skipped": "fill:#f1f3f5,stroke:#868e96,color:#868e96",
    "added": "fill:#d3f9d8,stroke:#2b8a3e",
    "changed": "fill:#fff3bf,stroke:#f08c00",
}
"""Styles of nodes by their status."""

_SHAPES: Mapping[str, Shape] = {
    "start": "round",
    "end": "round",
    "if-else": "hexagon",
    "question-classifier": "hexagon",
}


def write(graph: NodeGraph, status: Mapping[str, str] | None = None) -> str:
    """Return the flowchart of a workflow.

        print(write(graph, {"2": "done"}))

    Args:
        graph: The workflow; it need not be valid.
        status: The status of nodes, by id: running, done, failed, skipped, added or changed.

    Returns:
        The flowchart in Mermaid's language.
    """
    by_id = {node.id: graph.by_id[node.id] for node in graph.nodes}  # of several with one id, the first
    ends = [end for edge in graph.edges for end in (edge.source, edge.target)]
    missing = [end for end in dict.fromkeys(ends) if end not in by_id]
    around = {node_id: list(_ancestors(node_id, by_id)) for node_id in by_id}
    chart = Flowchart()
    _write_nodes(chart, by_id, around)
    for node_id in missing:
        chart.node(node_id, node_id)
    frames = {ancestors[0] for ancestors in around.values() if ancestors}
    for edge in graph.edges:
        if _can_be_drawn(edge, around, frames):
            chart.edge(edge.source, edge.target, port_label(by_id.get(edge.source), edge.port))
    for state, colours in COLOURS.items():
        chart.style(state, colours, [key for key, each in (status or {}).items() if each == state and key in by_id])
    chart.style("missing", "stroke-dasharray:4", missing)
    return chart.code()


def port_label(node: NodeSpec | None, port: int) -> str:
    """Return the label of a port: the case, the class or the number; empty for port 0 of other node types."""
    params: Any = node.params if node is not None else None
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {}
    if node is not None and node.type == "if-else":
        return "else" if port == len(_list(fields.get("cases"))) else str(port)
    classes = _list(fields.get("classes"))
    if node is not None and node.type == "question-classifier" and 0 <= port < len(classes):
        return str(classes[port])
    return f"port {port}" if port else ""


def _ancestors(node_id: str, by_id: Mapping[str, NodeSpec]) -> Sequence[str]:
    """Return the containers around a node, innermost first; none if they form a cycle or one does not exist."""
    ancestors: list[str] = []
    parent = by_id[node_id].parent
    while parent:
        if parent not in by_id or parent == node_id or parent in ancestors:
            return ()
        ancestors.append(parent)
        parent = by_id[parent].parent
    return ancestors


def _write_nodes(chart: Flowchart, by_id: Mapping[str, NodeSpec], around: Mapping[str, Sequence[str]]) -> None:
    """Write the nodes, those inside a container in its frame; a stack, because containers may be nested deeply."""
    children: dict[str, list[str]] = {}
    for node_id, ancestors in around.items():
        children.setdefault(ancestors[0] if ancestors else "", []).append(node_id)
    stack = [iter(children.get("", ()))]
    while stack:
        for node_id in stack[-1]:
            node_type = by_id[node_id].type
            if node_id in children:
                chart.begin_frame(node_id, f"{node_type} {node_id}")
                stack.append(iter(children[node_id]))
                break
            chart.node(node_id, f"{node_type} {node_id}", _SHAPES.get(node_type, "box"))
        else:
            stack.pop()
            if stack:
                chart.end_frame()


def _can_be_drawn(edge: Edge, around: Mapping[str, Sequence[str]], frames: Collection[str]) -> bool:
    """Return False for an edge between a container and itself or a node inside it, which Mermaid cannot draw."""
    source, target = edge.source, edge.target
    inside = source in around.get(target, ()) or target in around.get(source, ())
    return not (inside or (source == target and source in frames))


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
