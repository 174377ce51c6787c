"""Workflows as plain JSON, which operators pass on; independent of file formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import JsonValue

from operad.flows.formats.shapes import each_of, fields_of, pairs_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.variables import plain


def to_json(graph: NodeGraph) -> dict[str, JsonValue]:
    """Return a workflow as JSON: ``{name, nodes: [{id, type, inside, params, title}], edges: [[source, port, target]], samples}``."""
    return {
        "name": graph.name,
        "nodes": [
            {"id": spec.id, "type": spec.type, "inside": spec.parent, "params": plain(spec.params)}
            | ({"title": spec.title} if spec.title else {})
            for spec in graph.nodes
        ],
        "edges": [[edge.source, edge.port, edge.target] for edge in graph.edges],
        **({"samples": plain(graph.samples)} if graph.samples else {}),
    }


def from_json(value: Any) -> NodeGraph:
    """Return the workflow that JSON of `to_json` describes; nodes and edges of another form are ignored."""
    fields = fields_of(value)
    nodes = [
        NodeSpec(
            str(item.get("id", "")),
            str(item.get("type", "")),
            item.get("params"),
            str(item.get("inside") or ""),
            title=str(item.get("title") or ""),
        )
        for item in each_of(fields.get("nodes"))
    ]
    edges = [
        Edge(source, target, port)
        for source, port, target in pairs_of(fields.get("edges"), 3)
        if isinstance(source, str) and isinstance(target, str) and isinstance(port, int)
    ]
    name = str(fields.get("name") or "workflow")
    return NodeGraph(nodes, edges, name, samples=fields_of(fields.get("samples")))


def with_originals(graph: NodeGraph, base: NodeGraph) -> NodeGraph:
    """Return the workflow with equal nodes and edges replaced by those of the base, and with data of the base's format.

    Args:
        graph: A workflow that was made from the base by way of JSON.
        base: The workflow before the change.
    """
    old = base.by_id
    edges = {(edge.source, edge.port, edge.target): edge for edge in base.edges}

    def original(spec: NodeSpec) -> NodeSpec:
        base_spec = old.get(spec.id)
        if base_spec is None or (base_spec.type, base_spec.parent) != (spec.type, spec.parent):
            return spec
        return base_spec if plain(base_spec.params) == spec.params else replace(base_spec, params=spec.params)

    return NodeGraph(
        nodes=[original(spec) for spec in graph.nodes],
        edges=[edges.get((edge.source, edge.port, edge.target), edge) for edge in graph.edges],
        name=base.name if base.nodes else graph.name,
        extra=base.extra if base.nodes else graph.extra,
        samples=graph.samples,
        sticky_notes=base.sticky_notes,
    )


def workflow_of(outputs: Mapping[str, Any]) -> NodeGraph | None:
    """Return the workflow in an operator's outputs; None if there is none."""
    value: Any = outputs.get("workflow")
    return from_json(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
