"""Types of the variables of a workflow, as far as they are known; the workflow need not be valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.node_graph import NodeGraph
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, VariableType, part_type
from operad.runtime.values.errors import InvalidError

T = VariableType

MAX_STEPS = 50
"""Maximum number of nodes that determine the type of a variable, one by another."""


class VariableTypes:
    """Lookup of the types of variables."""

    def __init__(self, graph: NodeGraph) -> None:
        self._by_id = graph.by_id
        self._nodes: dict[str, NodeOperator[Any] | None] = {}
        self._known: dict[tuple[str, bool], Mapping[str, VariableType]] = {}
        self._open: list[tuple[str, bool]] = []

    def of(self, selector: Selector) -> VariableType:
        """Return the type of a variable; `ANY` if it is unknown."""
        for inside in (True, False):
            outputs = self._variables(selector.node, inside)
            if selector.variable in outputs:
                return outputs[selector.variable]
            name, _, path = selector.variable.partition(".")
            if name in outputs:
                return part_type(outputs[name], path) or T.ANY
        return T.ANY

    def _variables(self, node_id: str, inside: bool) -> Mapping[str, VariableType]:
        """Return the variables of a node for nodes inside it, or its outputs; empty if they depend on themselves."""
        key = (node_id, inside)
        if key not in self._known:
            node = self._node(node_id)
            if node is None or key in self._open or len(self._open) >= MAX_STEPS:
                return {}
            self._open.append(key)
            self._known[key] = node.inside(self.of) if inside else node.variables(self.of)
            self._open.pop()
        return self._known[key]

    def _node(self, node_id: str) -> NodeOperator[Any] | None:
        if node_id not in self._nodes:
            spec = self._by_id.get(node_id)
            node_type = NODE_TYPES.get(spec.type) if spec else None
            try:
                self._nodes[node_id] = node_type(node_id, spec.params) if node_type and spec else None
            except InvalidError:
                self._nodes[node_id] = None
        return self._nodes[node_id]
