"""Mappings of nodes that compute values: code, template-transform, list-operator, variable-aggregator, assigner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of, pairs_of, text_of
from operad.integrations.dify.nodes.conditions import read_condition
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, convert_fields, unchanged
from operad.operators.conditions import normal


def _write_arguments(params: Fields, node_context: NodeContext, *, typed: bool) -> list[Fields]:
    return [
        {"value_selector": node_context.names.write(value), "variable": name}
        | ({"value_type": node_context.kind(value)} if typed else {})
        for name, value in pairs_of(params.get("variables"))
    ]


def _read_arguments(data: Fields, node_context: NodeContext) -> list[Any]:
    return [
        [each.get("variable"), node_context.names.read(each.get("value_selector"))]
        for each in each_of(data.get("variables"))
    ]


def _write_code(params: Fields, node_context: NodeContext) -> Fields:
    outputs = [(name, kind) for name, kind in pairs_of(params.get("outputs")) if isinstance(name, str)]
    return {
        "code": params.get("code", ""),
        "code_language": "javascript" if params.get("language") == "javascript" else "python3",
        "outputs": {name: {"children": None, "type": kind} for name, kind in outputs},
        "variables": _write_arguments(params, node_context, typed=True),
    }


def _read_code(data: Fields, node_context: NodeContext) -> Fields:
    outputs = [[name, fields_of(output).get("type")] for name, output in sorted(fields_of(data.get("outputs")).items())]
    language = data.get("code_language", "python3")
    language_param = {"python3": {}, "python": {}, "javascript": {"language": language}}.get(
        str(language), {"code_language": language}
    )
    code = convert_fields(data, code=unchanged)
    return {"variables": _read_arguments(data, node_context), "outputs": outputs, **code, **language_param}


def _write_template(params: Fields, node_context: NodeContext) -> Fields:
    return {"template": params.get("template", ""), "variables": _write_arguments(params, node_context, typed=True)}


def _read_template(data: Fields, node_context: NodeContext) -> Fields:
    return {"variables": _read_arguments(data, node_context), **convert_fields(data, template=unchanged)}


_LIST_OPERATIONS = ("filter_by", "extract_by", "order_by", "limit")
"""Operations on a list, in the order in which Dify does them."""


def _write_list(params: Fields, node_context: NodeContext) -> Fields:
    kind = node_context.kind(params.get("variable"))
    item = kind[6:-1] if kind.startswith("array[") else "string"
    operations = [list_of(each) for each in (params.get("operator"), *list_of(params.get("then")))]
    arguments = {str(each[0]): each[1:] for each in operations if each}
    filter_operator, value, part = [*arguments.get("filter_by", []), None, None, None][:3]
    operator, value = (filter_operator, value) if "filter_by" in arguments else ("contains", "")
    condition: Fields = {"comparison_operator": operator, "key": part or "", "value": "" if value is None else value}
    condition["value"] = node_context.names.write_text(condition["value"])
    if "filter_by" in arguments and item == "file" and not part:
        condition |= {"key": "type", "value": [value]}
    elif item == "boolean":
        condition["comparison_operator"] = "is not" if operator == "not is" else operator
        condition["value"] = value == "true" if value in ("true", "false") else value
    elif isinstance(operator, str):
        condition["comparison_operator"] = normal(operator)
    order = [*arguments.get("order_by", []), None, None][:2]
    by_name = "name" if "order_by" in arguments and item == "file" else ""
    serial, size = arguments.get("extract_by"), arguments.get("limit")
    return {
        "extract_by": {"enabled": serial is not None, "serial": text_of((serial or ["1"])[0])},
        "filter_by": {"conditions": [condition], "enabled": "filter_by" in arguments},
        "item_var_type": item,
        "limit": {"enabled": size is not None, "size": (size or [10])[0]},
        "order_by": {"enabled": "order_by" in arguments, "key": order[1] or by_name, "value": order[0] or "asc"},
        "var_type": kind,
        "variable": node_context.names.write(params.get("variable")),
    }


def _read_list(data: Fields, node_context: NodeContext) -> Fields:
    parts = {name: fields_of(data.get(name)) for name in _LIST_OPERATIONS}
    operations: list[list[Any]] = []
    for name, part in parts.items():
        if part.get("enabled") is True:
            operations += _read_operation(name, part, node_context)
    first, *rest = operations or [["all"]]
    params: Fields = {**convert_fields(data, variable=node_context.names.read), "operator": first}
    return {**params, "then": rest} if rest else params


def _read_operation(name: str, part: Fields, node_context: NodeContext) -> list[list[Any]]:
    if name == "limit":
        return [[name, part.get("size")]]
    if name == "extract_by":
        serial = part.get("serial")
        is_number = isinstance(serial, str) and serial.isdecimal() and len(serial) < 10
        return [[name, int(cast("str", serial)) if is_number else node_context.names.read_text(serial)]]
    if name == "order_by":
        key = part.get("key")
        return [[name, part.get("value"), *([] if key in (None, "", "name") else [key])]]
    filters: list[list[Any]] = []
    for condition in each_of(part.get("conditions")):
        _, *compared = read_condition(condition, node_context)
        key = condition.get("key")
        if key not in (None, "", "type"):
            compared = [*[*compared, None][:2], key]
        filters.append([name, *compared])
    return filters


def _write_aggregator(params: Fields, node_context: NodeContext) -> Fields:
    variables = list_of(params.get("variables"))
    kinds = [node_context.kind(selector) for selector in variables]
    data: Fields = {
        "output_type": kinds[0] if kinds else "string",
        "variables": [node_context.names.write(selector) for selector in variables],
    }
    groups = [
        {
            "groupId": node_context.uuid("group", number),
            "group_name": name,
            "output_type": node_context.kind(list_of(selectors)[0]) if list_of(selectors) else "string",
            "variables": [node_context.names.write(selector) for selector in list_of(selectors)],
        }
        for number, (name, selectors) in enumerate(pairs_of(params.get("groups")))
    ]
    return {**data, "advanced_settings": {"group_enabled": True, "groups": groups}} if groups else data


def _read_aggregator(data: Fields, node_context: NodeContext) -> Fields:
    params: Fields = {"variables": [node_context.names.read(selector) for selector in list_of(data.get("variables"))]}
    settings = fields_of(data.get("advanced_settings"))
    if settings.get("group_enabled") is not True:
        return params
    groups = [
        [group.get("group_name"), [node_context.names.read(selector) for selector in list_of(group.get("variables"))]]
        for group in each_of(settings.get("groups"))
    ]
    return {"variables": [], "groups": groups}


_DIFY_OPERATIONS = {
    "append": "append",
    "extend": "extend",
    "clear": "clear",
    "add": "+=",
    "subtract": "-=",
    "multiply": "*=",
    "divide": "/=",
    "remove_first": "remove-first",
    "remove_last": "remove-last",
}

_OPERAD_OPERATIONS = {
    dify_operation: operad_operation for operad_operation, dify_operation in _DIFY_OPERATIONS.items()
} | {"over-write": "set", "set": "set"}


def _write_assigner(params: Fields, node_context: NodeContext) -> Fields:
    items: list[Fields] = []
    for assignment in map(list_of, list_of(params.get("assignments"))):
        target, operation, value = [*assignment, *[None, "set", None][len(assignment) :]][:3]
        is_variable = is_selector(value)
        set_operation = "over-write" if is_variable else "set"
        items.append(
            {
                "input_type": "variable" if is_variable else "constant",
                "operation": set_operation if operation == "set" else _DIFY_OPERATIONS.get(str(operation), operation),
                "value": node_context.names.write(value) if is_variable else node_context.names.write_text(value),
                "variable_selector": node_context.names.write(target),
                "write_mode": "over-write",
            }
        )
    return {"items": items, "version": "2"}


def _read_assigner(data: Fields, node_context: NodeContext) -> Fields:
    if "items" not in data and "assigned_variable_selector" in data:  # version 1
        target = node_context.names.read(data["assigned_variable_selector"])
        operation = _OPERAD_OPERATIONS.get(str(data.get("write_mode")), data.get("write_mode"))
        given = [] if operation == "clear" else [node_context.names.read(data.get("input_variable_selector"))]
        return {"assignments": [[target, operation, *given]]}
    assignments: list[list[Any]] = []
    for item in each_of(data.get("items")):
        operation = _OPERAD_OPERATIONS.get(str(item.get("operation")), item.get("operation"))
        value = item.get("value")
        given = (
            node_context.names.read(value)
            if item.get("input_type") == "variable"
            else node_context.names.read_text(value)
        )
        target = node_context.names.read(item.get("variable_selector"))
        assignments.append([target, operation] if given is None or operation == "clear" else [target, operation, given])
    return {"assignments": assignments}


VALUES: Mapping[str, NodeMapping] = {
    "code": NodeMapping("Code", _write_code, _read_code),
    "template-transform": NodeMapping("Template", _write_template, _read_template),
    "list-operator": NodeMapping("List Operator", _write_list, _read_list),
    "variable-aggregator": NodeMapping("Variable Aggregator", _write_aggregator, _read_aggregator),
    "assigner": NodeMapping("Variable Assigner", _write_assigner, _read_assigner),
}
