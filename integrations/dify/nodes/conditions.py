"""Conditions of if-else, list-operator and loop nodes."""

from __future__ import annotations

from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, text_of
from operad.integrations.dify.nodes.node_mapping import NodeContext
from operad.operators.conditions import normal

_WITHOUT_VALUE = ("empty", "not empty", "exists", "not exists", "null", "not null")

_FILE_OPERATORS = ("contains", "not contains", "all of")


def write_condition(condition: list[Any], node_context: NodeContext, *place: object) -> Fields:
    """Return a condition in Dify's form; `place` is its place in the node, for its id."""
    selector, operator, *rest = [*condition, None, None][: max(len(condition), 2)]
    files = list_of(rest[1]) if len(rest) > 1 else []
    value = node_context.names.write_text(rest[0]) if rest else None
    kind = node_context.kind(selector)
    data: Fields = {
        "comparison_operator": normal(operator) if isinstance(operator, str) else operator,
        "id": node_context.uuid(*place),
        "value": "" if value is None else value,
        "varType": kind,
        "variable_selector": node_context.names.write(selector),
    }
    is_file_type = text_of((list_of(selector) or [""])[0]).endswith(".type")
    if files:
        logic, conditions = [*files, None][:2]
        data["sub_variable_condition"] = {
            "case_id": node_context.uuid(*place, "case"),
            "conditions": [
                _write_file_condition(list_of(each), node_context, *place, number)
                for number, each in enumerate(list_of(conditions))
            ],
            "logical_operator": logic,
        }
    elif kind == "boolean" and value in ("true", "false"):
        data["value"] = value == "true"
    elif kind == "number" and "{{#" in text_of(value):
        data["numberVarType"] = "variable"
    elif kind == "array[file]" and operator in _FILE_OPERATORS:
        file_types: list[Any] = list_of(value) or [value]
        type_condition = {
            "comparison_operator": "not in" if operator == "not contains" else "in",
            "id": node_context.uuid(*place, "type"),
            "key": "type",
            "varType": "string",
        }
        data["sub_variable_condition"] = {
            "case_id": node_context.uuid(*place, "case"),
            "conditions": [{**type_condition, "value": file_types}],
            "logical_operator": "and",
        }
        data["value"] = ""
    elif is_file_type and operator in ("in", "not in") and isinstance(value, str):
        data["value"] = [value]
    return data


def read_condition(data: Fields, node_context: NodeContext) -> list[Any]:
    """Return a condition of Dify in Operad's form: ``[variable, operator, value]``."""
    selector, operator = node_context.names.read(data.get("variable_selector")), data.get("comparison_operator")
    value = data.get("value")
    sub_condition = fields_of(data.get("sub_variable_condition"))
    if operator in _FILE_OPERATORS and sub_condition.get("conditions"):
        conditions = each_of(sub_condition.get("conditions"))
        value = _file_types(operator, conditions)
        if value is None:
            logic = sub_condition.get("logical_operator") or "and"
            return [selector, operator, None, [logic, [_read_file_condition(each) for each in conditions]]]
    if operator in _WITHOUT_VALUE and not value:
        return [selector, operator]
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    value_list = list_of(value)
    value = value_list[0] if len(value_list) == 1 else value
    return [selector, operator, node_context.names.read_text(value)]


def _file_types(operator: str, conditions: list[Fields]) -> Any:
    """Return the file types that a condition on the files of a list names; None for a condition of another form.

    Dify decides by the conditions on the files alone, whatever the operator of the condition around them.
    """
    compared = {"contains": "in", "not contains": "not in"}.get(operator)
    match conditions:
        case [{"key": "type", "comparison_operator": how, "value": value}] if how == compared:
            return value
        case _:
            return None


def _write_file_condition(condition: list[Any], node_context: NodeContext, *place: object) -> Fields:
    part, operator, value = [*condition, None, None][:3]
    return {
        "comparison_operator": normal(operator) if isinstance(operator, str) else operator,
        "id": node_context.uuid(*place, "file"),
        "key": part,
        "value": "" if value is None else value,
        "varType": "number" if part == "size" else "string",
    }


def _read_file_condition(data: Fields) -> list[Any]:
    operator, value = data.get("comparison_operator"), data.get("value")
    if operator in _WITHOUT_VALUE and not value:
        return [data.get("key"), operator]
    return [data.get("key"), operator, str(value) if isinstance(value, int | float) else value]
