"""Variables of nodes with missing parameters, so that other nodes can refer to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.check import Checker, NodeType
from operad.flows.formats.shapes import Fields, fields_of, is_selector, list_of
from operad.flows.node_graph import NodeSpec
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, VariableType
from operad.runtime.values.errors import OperadError

Outputs = Mapping[str, VariableType]


def outputs_of(checker: Checker, spec: NodeSpec) -> Outputs:
    """Return the variables of a node; if it has faults, those that it will have once missing parameters are set.

    Args:
        checker: Check of the node's workflow.
    """
    if spec.id in checker.outputs:
        return checker.outputs[spec.id]
    kind = NODE_TYPES.get(spec.type)
    if kind is None:
        return {}
    params = fields_of(spec.params)
    placeholders: Fields = {
        name: _placeholder(kind.example.get(name))
        for name, field in kind.params_type.model_fields.items()
        if field.is_required()
    }
    readable = {**placeholders}
    for name, value in params.items():
        if _try_node(kind, spec.id, {**placeholders, name: value}):
            readable[name] = value
        elif isinstance(value, list):
            readable[name] = [
                item for item in list_of(value) if _try_node(kind, spec.id, {**placeholders, name: [item]})
            ]
    node = _try_node(kind, spec.id, {**placeholders, **params}) or _try_node(kind, spec.id, readable)
    return node.variables(_any_type) if node else {}


def _placeholder(example: Any) -> Any:
    """Return a placeholder for a required parameter: an empty list, or the value of the example."""
    return example if is_selector(example) or not isinstance(example, list) else list[Any]()


def _try_node(kind: NodeType, node_id: str, params: Fields) -> NodeOperator[Any] | None:
    """Return a node with these parameters; None if they are not valid."""
    try:
        return kind(node_id, params)
    except (OperadError, ValueError, TypeError, LookupError):
        return None


def _any_type(selector: Selector) -> VariableType:
    return VariableType.ANY
