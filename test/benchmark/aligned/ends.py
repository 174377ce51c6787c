"""Merging of the ends of a workflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from operad.flows.edit.operation import free_id
from operad.flows.edit.variables import named_outputs
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.state import params_of, with_params


def can_be_merged(graph: NodeGraph, ids: Sequence[str]) -> bool:
    """Return whether all outputs of some ends can be read, and their ids are unique."""
    ends = [graph.by_id[each] for each in ids]
    return len(set(ids)) == len(ids) and all(
        len(named_outputs(end)) == len(list_of(params_of(end).get("outputs"))) for end in ends
    )


def with_merged_ends(graph: NodeGraph, ids: Sequence[str]) -> NodeGraph:
    """Return the workflow with one end in place of several, the first; what led to the others leads to it.

    Outputs that differ under one name become one, through a variable-aggregator each that all that led to the ends
    leads to.
    """
    first, *others = (graph.by_id[node_id] for node_id in ids)
    values_by_name: dict[str, list[Any]] = {}
    for end in (first, *others):
        for name, value in named_outputs(end):
            values = values_by_name.setdefault(name, [])
            values += [] if value in values else [value]
    several = {name: values for name, values in values_by_name.items() if len(values) > 1}
    aggregators: dict[str, str] = {}
    for name, values in several.items():
        aggregators[name] = free_id(graph.by_id, first.parent)
        spec = NodeSpec(aggregators[name], "variable-aggregator", {"variables": values}, first.parent)
        graph = replace(graph, nodes=[*graph.nodes, spec])
    outputs = [
        [name, ["output", aggregators[name]] if name in aggregators else values[0]]
        for name, values in values_by_name.items()
    ]
    nodes = [spec for spec in graph.nodes if not any(spec is other for other in others)]
    graph = replace(graph, nodes=nodes, edges=_edges(graph, ids, list(aggregators.values())))
    params = {**params_of(first), "outputs": outputs}
    return with_params(graph, first, params) if params != first.params else graph


def _edges(graph: NodeGraph, ids: Sequence[str], aggregators: Sequence[str]) -> list[Edge]:
    """Return the edges after the merge: edges to the ends lead to the aggregators, or without these to the end."""
    end = ids[0]
    edges: list[Edge] = []
    redirected: set[tuple[str, int, str]] = set()
    for edge in graph.edges:
        if edge.source in ids[1:]:
            continue
        for target in (aggregators or [end]) if edge.target in ids else [edge.target]:
            key = (edge.source, edge.port, target)
            if edge.target not in ids or key not in redirected:
                redirected.add(key)
                edges.append(edge if target == edge.target else replace(edge, target=target))
    return [*edges, *(Edge(aggregator, end) for aggregator in aggregators)]
