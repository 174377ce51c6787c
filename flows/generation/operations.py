"""Operations as models write them, in the notation of drafts, as operations on a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operad.flows.check import NodeType
from operad.flows.edit.paths import PathError, steps_of, value_at, with_value
from operad.flows.formats.shapes import fields_of, is_selector
from operad.flows.generation.drafting import as_declared, drafted, params_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.conditions import Case


def declared_operations(
    said: Sequence[Mapping[str, Any]], graph: NodeGraph, types: Mapping[str, NodeType]
) -> list[dict[str, Any]]:
    """Return operations with parameters as they are declared, from drafted ones; others stay as they are.

    A variable ``"2.text"`` becomes ``["text", "2"]`` where a parameter takes a variable. A path of ``set`` may lead into
    the drafted form, ``outputs[0].value``: then the whole parameter is set.

    Args:
        said: The operations.
        graph: The workflow that they change.
        types: The node types by name.
    """
    kinds = {spec.id: spec.type for spec in graph.nodes}
    made: list[dict[str, Any]] = []
    for each in said:
        operation = dict(each)
        match operation.get("op"):
            case "add_node" | "insert_between":
                kind = str(operation.get("type", ""))
                kinds[str(operation.get("id", ""))] = kind
                if kind in types and "params" in operation:
                    operation["params"] = params_of(types[kind], fields_of(operation["params"]), kinds)
            case "set":
                operation |= _set(operation, graph, types.get(kinds.get(str(operation.get("node")), "")))
            case "add_output":
                operation["value"] = as_declared(operation.get("value"))
            case "add_branch" if isinstance(operation.get("branch"), Mapping):
                operation["branch"] = _case(operation["branch"], types)
            case _:
                pass
        made.append(operation)
    return made


def _set(operation: Mapping[str, Any], graph: NodeGraph, node_type: NodeType | None) -> dict[str, Any]:
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
    if spec is None or is_selector(value) or not any(isinstance(each, str) for each in steps[1:]):
        return {"value": as_declared(value)} if isinstance(value, str) and _takes_variable(spec, path) else {}
    try:
        whole = with_value(drafted(node_type, fields_of(spec.params)), steps, value)
    except (PathError, TypeError):
        return {}
    return {"path": name, "value": params_of(node_type, {name: whole[name]}, graph.by_id)[name]}


def _takes_variable(spec: NodeSpec | None, path: str) -> bool:
    """Return whether a variable stands at a path of declared parameters now."""
    try:
        return spec is not None and is_selector(value_at(spec.params, steps_of(path)))
    except PathError:
        return False


def _case(branch: Mapping[str, Any], types: Mapping[str, NodeType]) -> Any:
    made = params_of(types["if-else"], {"cases": [dict(branch)]}) if "if-else" in types else {}
    cases: list[Any] = made.get("cases", [])
    return list(cases[0]) if cases and set(branch) <= set(Case._fields) else dict(branch)
