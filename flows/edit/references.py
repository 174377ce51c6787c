"""References of nodes, and their renaming."""

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
    """The node; None where its type is not known, or its parameters cannot be read."""
    try:
        return types[spec.type](spec.id, spec.params) if spec.type in types else None
    except InvalidError:
        return None


def reads(spec: NodeSpec, types: Mapping[str, NodeType]) -> list[str]:
    """The nodes whose variables a node reads, as far as its parameters can be read; those inside of it are left out."""
    node = node_of(spec, types)
    if node is not None:
        references = list(node.references)
    elif spec.type in types and not types[spec.type].body_starts_with:
        params_type = types[spec.type].params_type
        references = list(references_in(params_type, readable(params_type, spec.params)))
    else:
        references = []
    return list(dict.fromkeys(reference.selector.node for reference in references))


def following(graph: NodeGraph, types: Mapping[str, NodeType], change: Change) -> NodeGraph:
    """The workflow with other variables in the place of those that its nodes read.

    Nodes that read none of these are the same objects. Nodes of types that are not known are left as they are, and
    so are parameters that cannot be read.
    """
    nodes = [_changed(spec, types, change) for spec in graph.nodes]
    return replace(graph, nodes=nodes)


def _changed(spec: NodeSpec, types: Mapping[str, NodeType], change: Change) -> NodeSpec:
    if spec.type not in types:
        return spec
    params = rewritten(readable(types[spec.type].params_type, spec.params), spec.params, change)
    return spec if params is spec.params else replace(spec, params=params)
