"""Flowchart of a workflow in Mermaid's language.

A node shows its type and its id. An edge from a port shows the port: the number of an if-else case, ``else``, or the
name of a class. Nodes inside a container are drawn in a frame. A node that edges name but that does not exist has a
dashed border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.graph.chart import label

COLOURS: Mapping[str, str] = {
    "running": "fill:#fff3bf,stroke:#f08c00",
    "done": "fill:#d3f9d8,stroke:#2b8a3e",
    "failed": "fill:#ffe3e3,stroke:#c92a2a",
    "skipped": "fill:#f1f3f5,stroke:#868e96,color:#868e96",
    "added": "fill:#d3f9d8,stroke:#2b8a3e",
    "changed": "fill:#fff3bf,stroke:#f08c00",
}
"""Styles of nodes by their status."""

_MISSING = "missing"
_SHAPES: Mapping[str, tuple[str, str]] = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "if-else": ("{{", "}}"),
    "question-classifier": ("{{", "}}"),
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
    chart = _Chart(graph)
    lines = ["flowchart TD", *chart.level("", "  "), *chart.edges()]
    shown = {node_id: state for node_id, state in (status or {}).items() if state in COLOURS and node_id in chart.names}
    for state, colours in COLOURS.items():
        if ids := [chart.names[node_id] for node_id, each in shown.items() if each == state]:
            lines += [f"  classDef {state} {colours}", f"  class {','.join(ids)} {state}"]
    if chart.missing:
        lines += [
            f"  classDef {_MISSING} stroke-dasharray:4",
            f"  class {','.join(chart.names[node_id] for node_id in chart.missing)} {_MISSING}",
        ]
    return "\n".join(lines) + "\n"


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


class _Chart:
    """Nodes of the chart: their names in it, and their containers."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        by_id = graph.by_id
        self._by_id = {node.id: by_id[node.id] for node in graph.nodes}  # `by_id` has another order
        ends = [end for edge in graph.edges for end in (edge.source, edge.target)]
        self.missing = [end for end in dict.fromkeys(ends) if end not in self._by_id]
        self.names = {node_id: f"n{number}" for number, node_id in enumerate([*self._by_id, *self.missing])}
        self._ancestors_of = {node_id: list(self._ancestors(node_id)) for node_id in self._by_id}
        self._children: dict[str, list[str]] = {}
        for node_id, around in self._ancestors_of.items():
            self._children.setdefault(around[0] if around else "", []).append(node_id)

    def _ancestors(self, node_id: str) -> Iterator[str]:
        """Yield the containers around a node, innermost first; none if they form a cycle or one does not exist."""
        ancestors: list[str] = []
        parent = self._by_id[node_id].parent
        while parent:
            if parent not in self._by_id or parent == node_id or parent in ancestors:
                return
            ancestors.append(parent)
            parent = self._by_id[parent].parent
        yield from ancestors

    def level(self, parent: str, indent: str) -> Iterator[str]:
        """Yield the lines of the nodes inside a container; for an empty id, of the whole chart."""
        stack = [(iter(self._children.get(parent, ())), indent)]
        while stack:
            ids, indent = stack[-1]
            for node_id in ids:
                name, text = self.names[node_id], label(f"{self._by_id[node_id].type} {node_id}")
                if node_id in self._children:
                    yield f"{indent}subgraph {name} [{text}]"
                    stack.append((iter(self._children[node_id]), indent + "  "))
                    break
                left, right = _SHAPES.get(self._by_id[node_id].type, ("[", "]"))
                yield f"{indent}{name}{left}{text}{right}"
            else:
                stack.pop()
                if stack:
                    yield f"{stack[-1][1]}end"
                else:
                    yield from (f"{indent}{self.names[each]}[{label(each)}]" for each in self.missing)

    def edges(self) -> Iterator[str]:
        """Yield the lines of the edges. Mermaid cannot draw edges between a container and the nodes inside it."""
        for edge in self._graph.edges:
            if self._can_be_drawn(edge):
                text = port_label(self._by_id.get(edge.source), edge.port)
                arrow = f"-->|{label(text)}|" if text else "-->"
                yield f"  {self.names[edge.source]} {arrow} {self.names[edge.target]}"

    def _can_be_drawn(self, edge: Edge) -> bool:
        inside = edge.source in self._ancestors_of.get(edge.target, ()) or edge.target in self._ancestors_of.get(
            edge.source, ()
        )
        itself_a_frame = edge.source == edge.target and edge.source in self._children
        return not inside and not itself_a_frame


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
