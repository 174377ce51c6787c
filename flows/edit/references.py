"""References of nodes to variables, and their renaming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from operad.flows.check import NodeType
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.node import NodeOperator, references_in
from operad.operators.node_params import Change, readable, rewritten
from operad.runtime.values.errors import InvalidError


def node_of(spec: NodeSpec, types: Mapping[str, NodeType]) -> NodeOperator[Any] | None:
    """Return the operator of a node; None if its type is unknown or its parameters are not valid."""
    try:
        return types[spec.type](spec.id, spec.params) if spec.type in types else None
    except InvalidError:
        return None


def reads(graph: NodeGraph, spec: NodeSpec, types: Mapping[str, NodeType]) -> list[str]:
    """Return the ids of the nodes that a node reads, as far as its parameters are valid, without nodes inside it."""
    node = node_of(spec, types)
    if node is not None:
        references = list(node.references)
    elif spec.type in types and not types[spec.type].body_starts_with:
        params_type = types[spec.type].params_type
        references = list(references_in(params_type, readable(params_type, spec.params)))
    else:
        references = []
    read = dict.fromkeys(reference.selector.node for reference in references)
    return [node_id for node_id in read if spec.id not in graph.around(node_id)]


def following(graph: NodeGraph, types: Mapping[str, NodeType], change: Change) -> NodeGraph:
    """Return the workflow with every variable that its nodes read replaced by the result of a function.

    Nodes without a replaced variable stay the same objects. Nodes of unknown types and parameters that are not valid
    are not changed.
    """
    nodes = [_changed(spec, types, change) for spec in graph.nodes]
    return replace(graph, nodes=nodes)


def _changed(spec: NodeSpec, types: Mapping[str, NodeType], change: Change) -> NodeSpec:
    """Return a node with its variables replaced; the same object if none is."""
    if spec.type not in types:
        return spec
    params = rewritten(readable(types[spec.type].params_type, spec.params), spec.params, change)
    return spec if params is spec.params else replace(spec, params=params)
