"""Variables of nodes that are not finished: so that other nodes can read them while something is missing."""

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
    """Return the variables of a node; of one with faults, those that it has once missing parameters are there.

    Args:
        checker: The check of its workflow.
        spec: The node.
    """
    if spec.id in checker.outputs:
        return checker.outputs[spec.id]
    kind = NODE_TYPES.get(spec.type)
    if kind is None:
        return {}
    given = fields_of(spec.params)
    blank: Fields = {
        name: _blank(kind.example.get(name))
        for name, field in kind.params_type.model_fields.items()
        if field.is_required()
    }
    readable = {**blank}
    for name, value in given.items():
        if _node(kind, spec.id, {**blank, name: value}):
            readable[name] = value
        elif isinstance(value, list):
            readable[name] = [item for item in list_of(value) if _node(kind, spec.id, {**blank, name: [item]})]
    node = _node(kind, spec.id, {**blank, **given}) or _node(kind, spec.id, readable)
    return node.variables(_any) if node else {}


def _blank(example: Any) -> Any:
    """A value that a required parameter can have for the time being: an empty list, or that of the example."""
    return example if is_selector(example) or not isinstance(example, list) else list[Any]()


def _node(kind: NodeType, node_id: str, params: Fields) -> NodeOperator[Any] | None:
    """The node with these parameters; None where they cannot be read."""
    try:
        return kind(node_id, params)
    except (OperadError, ValueError, TypeError, LookupError):
        return None


def _any(selector: Selector) -> VariableType:
    return VariableType.ANY
