"""What computes values: code, template-transform, list-operator, variable-aggregator, assigner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from operad.flows.formats.dify.nodes.conditions import read_condition
from operad.flows.formats.dify.nodes.mapped import Mapped, Side, picked, same
from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of, pairs_of, text_of
from operad.operators.conditions import normal


def _write_arguments(params: Fields, side: Side, *, typed: bool) -> list[Fields]:
    return [
        {"value_selector": side.names.write(value), "variable": name}
        | ({"value_type": side.kind(value)} if typed else {})
        for name, value in pairs_of(params.get("variables"))
    ]


def _read_arguments(data: Fields, side: Side) -> list[Any]:
    return [
        [each.get("variable"), side.names.read(each.get("value_selector"))] for each in each_of(data.get("variables"))
    ]


def _write_code(params: Fields, side: Side) -> Fields:
    outputs = [(name, kind) for name, kind in pairs_of(params.get("outputs")) if isinstance(name, str)]
    return {
        "code": params.get("code", ""),
        "code_language": "python3",
        "outputs": {name: {"children": None, "type": kind} for name, kind in outputs},
        "variables": _write_arguments(params, side, typed=True),
    }


def _read_code(data: Fields, side: Side) -> Fields:
    outputs = [[name, fields_of(output).get("type")] for name, output in sorted(fields_of(data.get("outputs")).items())]
    language = data.get("code_language", "python3")
    other = {} if language in ("python3", "python") else {"code_language": language}
    code = picked(data, code=same)
    return {"variables": _read_arguments(data, side), "outputs": outputs, **code, **other}


def _write_template(params: Fields, side: Side) -> Fields:
    return {"template": params.get("template", ""), "variables": _write_arguments(params, side, typed=True)}


def _read_template(data: Fields, side: Side) -> Fields:
    return {"variables": _read_arguments(data, side), **picked(data, template=same)}


def _write_list(params: Fields, side: Side) -> Fields:
    kind = side.kind(params.get("variable"))
    item = kind[6:-1] if kind.startswith("array[") else "string"
    what, first, *rest = [*list_of(params.get("operator")), None, None][:3]
    operator, value = (first, rest[0]) if what == "filter_by" else ("contains", "")
    condition: Fields = {"comparison_operator": operator, "key": "", "value": "" if value is None else value}
    condition["value"] = side.names.write_text(condition["value"])
    if what == "filter_by" and item == "file":
        condition |= {"key": "type", "value": [value]}
    elif item == "boolean":
        condition["comparison_operator"] = "is not" if operator == "not is" else operator
        condition["value"] = value == "true" if value in ("true", "false") else value
    elif isinstance(operator, str):
        condition["comparison_operator"] = normal(operator)
    order = {"enabled": what == "order_by", "key": "name" if what == "order_by" and item == "file" else ""}
    return {
        "extract_by": {"enabled": what == "extract_by", "serial": text_of(first) if what == "extract_by" else "1"},
        "filter_by": {"conditions": [condition], "enabled": what == "filter_by"},
        "item_var_type": item,
        "limit": {"enabled": what == "limit", "size": first if what == "limit" else 10},
        "order_by": {**order, "value": first if what == "order_by" else "asc"},
        "var_type": kind,
        "variable": side.names.write(params.get("variable")),
    }


def _read_list(data: Fields, side: Side) -> Fields:
    parts = {name: fields_of(data.get(name)) for name in ("filter_by", "extract_by", "order_by", "limit")}
    on = [name for name, part in parts.items() if part.get("enabled") is True]
    operator: list[Any] = []
    if len(on) == 1:
        name, part = on[0], parts[on[0]]
        conditions = each_of(part.get("conditions"))
        if name == "limit":
            operator = [name, part.get("size")]
        elif name == "extract_by":
            serial = part.get("serial")
            whole = isinstance(serial, str) and serial.isdecimal() and len(serial) < 10
            operator = [name, int(cast("str", serial)) if whole else side.names.read_text(serial)]
        elif name == "order_by" and part.get("key") in (None, "", "name"):
            operator = [name, part.get("value")]
        elif name == "filter_by" and len(conditions) == 1 and conditions[0].get("key") in (None, "", "type"):
            _, *operator = [name, *read_condition(conditions[0], side)]
            operator[0] = name
    return {**picked(data, variable=side.names.read), "operator": operator}


def _write_aggregator(params: Fields, side: Side) -> Fields:
    variables = list_of(params.get("variables"))
    kinds = [side.kind(selector) for selector in variables]
    return {
        **picked(params, advanced_settings=same),
        "output_type": kinds[0] if kinds else "string",
        "variables": [side.names.write(selector) for selector in variables],
    }


def _read_aggregator(data: Fields, side: Side) -> Fields:
    params: Fields = {"variables": [side.names.read(selector) for selector in list_of(data.get("variables"))]}
    settings = data.get("advanced_settings")
    return {**params, "advanced_settings": settings} if fields_of(settings).get("group_enabled") is True else params


_OPERATIONS = {
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

_OF_OPERATIONS = {theirs: ours for ours, theirs in _OPERATIONS.items()} | {"over-write": "set", "set": "set"}


def _write_assigner(params: Fields, side: Side) -> Fields:
    items: list[Fields] = []
    for assignment in map(list_of, list_of(params.get("assignments"))):
        target, operation, value = [*assignment, *[None, "set", None][len(assignment) :]][:3]
        by_name = is_selector(value)
        set_to = "over-write" if by_name else "set"
        items.append(
            {
                "input_type": "variable" if by_name else "constant",
                "operation": set_to if operation == "set" else _OPERATIONS.get(str(operation), operation),
                "value": side.names.write(value) if by_name else side.names.write_text(value),
                "variable_selector": side.names.write(target),
                "write_mode": "over-write",
            }
        )
    return {"items": items, "version": "2"}


def _read_assigner(data: Fields, side: Side) -> Fields:
    if "items" not in data and "assigned_variable_selector" in data:  # version 1
        target = side.names.read(data["assigned_variable_selector"])
        operation = _OF_OPERATIONS.get(str(data.get("write_mode")), data.get("write_mode"))
        given = [] if operation == "clear" else [side.names.read(data.get("input_variable_selector"))]
        return {"assignments": [[target, operation, *given]]}
    assignments: list[list[Any]] = []
    for item in each_of(data.get("items")):
        operation = _OF_OPERATIONS.get(str(item.get("operation")), item.get("operation"))
        value = item.get("value")
        given = side.names.read(value) if item.get("input_type") == "variable" else side.names.read_text(value)
        target = side.names.read(item.get("variable_selector"))
        assignments.append([target, operation] if given is None or operation == "clear" else [target, operation, given])
    return {"assignments": assignments}


VALUES: Mapping[str, Mapped] = {
    "code": Mapped("Code", _write_code, _read_code),
    "template-transform": Mapped("Template", _write_template, _read_template),
    "list-operator": Mapped("List Operator", _write_list, _read_list),
    "variable-aggregator": Mapped("Variable Aggregator", _write_aggregator, _read_aggregator),
    "assigner": Mapped("Variable Assigner", _write_assigner, _read_assigner),
}
