"""Check of the variables that typed nodes read from other operators: missing variables and wrong types."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from operad.flows.check import lookup, reference_fault
from operad.flows.secrets import written_keys
from operad.operators.node import Fault, NodeOperator, Reference
from operad.operators.operator import Operator
from operad.operators.variables import Selector, VariableType
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.near_names import Hints
from operad.runtime.workflow.map import Map

T = VariableType
Outputs = Mapping[str, VariableType] | None
"""Variables of an operator with their types; None if unknown."""


class Reads:
    """Check of the variables that the typed nodes of a workflow read; the constructor runs it.

    An operator without an ``output_schema`` has one variable, ``text``.

    Args:
        graph: The workflow.
        given: The operators outside of the workflow whose messages it receives, with their variables, by id; None if
            these operators are unknown.

    Attributes:
        outputs: The variables of the operators, by id.
        faults: The faults, each with the id of its node.
    """

    def __init__(self, graph: WorkflowGraph, given: Mapping[str, Outputs] | None) -> None:
        self.outputs: dict[str, Outputs] = {}
        self.faults: list[tuple[str, Fault]] = []
        self._graph = graph
        self._given = given or {}
        self._is_known = given is not None
        self._before: dict[str, set[str]] = {}
        self._hints = Hints()
        try:
            order = list(TopologicalSorter(graph.before).static_order())
        except CycleError:  # reported by the check of the graph
            return
        for node_id in order:
            parents = graph.before[node_id]
            self._before[node_id] = {*parents, *(ancestor for parent in parents for ancestor in self._before[parent])}
            operator = graph.operators[node_id]
            if isinstance(operator, NodeOperator):
                node = cast("NodeOperator[Any]", operator)
                self._check_node(node)
                self.outputs[node_id] = node.variables(self._type_of)
            else:
                self.outputs[node_id] = _outputs_of(operator)
        self.faults += written_keys(graph.operators)

    def _check_node(self, node: NodeOperator[Any]) -> None:
        found = [fault for reference in node.references if (fault := self._fault_of(node.get_id(), reference))]
        found += [
            Fault("", f"{misshapen} names no variable; write {{{{#id.variable#}}}}", "misshapen-reference")
            for text in node.texts
            for misshapen in text.misshapen
        ]
        self.faults += [(node.get_id(), fault) for fault in (*found, *node.faults(self._type_of))]

    def _fault_of(self, node_id: str, reference: Reference) -> Fault | None:
        """Return the fault of a reference; None if it is valid, or if nothing is known about the variable."""
        other = reference.selector.node
        variable = f"{reference.selector.variable!r} of {other!r}"
        if other in self._graph.operators:
            if other not in self._before[node_id]:
                source = "itself" if other == node_id else f"{other!r}, which does not run before it"
                return Fault(reference.where, f"{variable}: reads {source}", "not-before")
            outputs = self.outputs[other]
        elif other in self._given:
            outputs = self._given[other]
        elif not self._is_known:
            return None
        else:
            hint = self._hints.near(other, [*self._graph.operators, *self._given])
            return Fault(reference.where, f"{variable}: there is no operator {other!r}{hint}", "undefined-node")
        return None if outputs is None else reference_fault(reference, outputs, f"operator {other!r}", self._hints)

    def _type_of(self, selector: Selector) -> VariableType:
        outputs = self.outputs.get(selector.node, self._given.get(selector.node))
        return lookup(outputs or {}, selector.variable) or T.ANY


def _outputs_of(operator: BaseOperator) -> Outputs:
    """Return the variables of an operator that is not a node; None if they are unknown."""
    if isinstance(operator, Map):
        return {"items": T.ARRAY}
    operator_type: Any = type(operator)
    if not isinstance(operator, Operator) or operator_type.run is not Operator.run:  # runs code of its own
        return None
    if not operator.config.output_schema:
        return {"text": T.STRING}
    schema = operator.schema
    if schema is None:
        return None
    if schema.get("type") != "object":
        return {"output": _type_of_schema(schema)}
    return {name: _type_of_schema(field) for name, field in schema.get("properties", {}).items()}


def _type_of_schema(schema: Any) -> VariableType:
    """Return the type of the values that a JSON schema describes."""
    match schema:
        case {"type": "array", "items": items}:
            return _type_of_schema(items).array
        case {"type": "integer"}:
            return T.NUMBER
        case {"type": "string" | "number" | "boolean" | "object" | "array" as name}:
            return VariableType(name)
        case _:
            return T.ANY
