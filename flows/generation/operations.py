"""Conversion of operations from the drafted form, in which models write them, to the declared form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operad.flows.check import NodeType
from operad.flows.edit.batch import read_operations
from operad.flows.edit.paths import PathError, steps_of, value_at, with_value
from operad.flows.formats.shapes import fields_of, is_selector
from operad.flows.generation.drafting import as_declared, drafted, params_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.conditions import Case
from operad.runtime.values.errors import InvalidError


def declared_operations(
    operations: Sequence[Mapping[str, Any]], graph: NodeGraph, types: Mapping[str, NodeType]
) -> list[dict[str, Any]]:
    """Return operations with parameters in declared form, from drafted ones; other operations are not changed.

    A variable ``"2.text"`` becomes ``["text", "2"]`` where a parameter takes a variable. A path of ``set`` may lead into
    the drafted form, such as ``outputs[0].value``; then the operation sets the whole parameter.

    Args:
        operations: The operations.
        graph: The workflow that the operations change.
        types: Node types by name.
    """
    types_by_id = {spec.id: spec.type for spec in graph.nodes}
    declared: list[dict[str, Any]] = []
    for item in operations:
        operation = dict(item)
        match operation.get("op"):
            case "add_node" | "insert_between":
                node_type = str(operation.get("type", ""))
                types_by_id[str(operation.get("id", ""))] = node_type
                if node_type in types and "params" in operation:
                    operation["params"] = params_of(types[node_type], fields_of(operation["params"]), types_by_id)
            case "set":
                operation |= _declared_set_fields(
                    operation, graph, types.get(types_by_id.get(str(operation.get("node")), ""))
                )
            case "add_output":
                operation["value"] = as_declared(operation.get("value"))
            case "add_branch" if isinstance(operation.get("branch"), Mapping):
                operation["branch"] = _declared_case(operation["branch"], types)
            case _:
                pass
        declared.append(operation)
        graph = _after(operation, graph, types)
    return declared


def _after(operation: dict[str, Any], graph: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """Return the workflow after an operation, which later ones build on; unchanged if the operation has faults."""
    try:
        [read] = read_operations(operation)
    except InvalidError:
        return graph
    return graph if any(read.faults(graph, types)) else read.apply(graph, types)


def _declared_set_fields(operation: Mapping[str, Any], graph: NodeGraph, node_type: NodeType | None) -> dict[str, Any]:
    """Return the fields of a ``set`` operation that change in declared form."""
    path, value = operation.get("path"), operation.get("value")
    if node_type is None or not isinstance(path, str):
        return {}
    try:
        steps = steps_of(path)
    except PathError:
        return {}
    name = str(steps[0])
    if len(steps) == 1:
        return {"value": params_of(node_type, {name: value}, graph.by_id).get(name, value)}
    spec = graph.by_id.get(str(operation.get("node")))
    in_place = {"value": as_declared(value)} if _takes_variable(spec, path) else {}
    is_drafted = isinstance(value, Mapping) or any(isinstance(step, str) for step in steps[1:])
    if spec is None or is_selector(value) or not is_drafted:
        return in_place
    try:
        whole = with_value(drafted(node_type, fields_of(spec.params)), steps, value)
    except (PathError, TypeError):
        return in_place
    return {"path": name, "value": params_of(node_type, {name: whole[name]}, graph.by_id)[name]}


def _takes_variable(spec: NodeSpec | None, path: str) -> bool:
    """Return whether the current value at a path of declared parameters is a variable."""
    try:
        return spec is not None and is_selector(value_at(spec.params, steps_of(path)))
    except PathError:
        return False


def _declared_case(branch: Mapping[str, Any], types: Mapping[str, NodeType]) -> Any:
    """Return a case of an if-else in declared form."""
    params = params_of(types["if-else"], {"cases": [dict(branch)]}) if "if-else" in types else {}
    cases: list[Any] = params.get("cases", [])
    return list(cases[0]) if cases and set(branch) <= set(Case._fields) else dict(branch)
