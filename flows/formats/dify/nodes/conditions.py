"""The conditions of if-else, list-operator and loop."""

from __future__ import annotations

from typing import Any

from operad.flows.formats.dify.nodes.mapped import Side
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, text_of
from operad.operators.conditions import normal

_UNARY = ("empty", "not empty", "exists", "not exists", "null", "not null")

_OF_FILES = ("contains", "not contains", "all of")


def write_condition(condition: list[Any], side: Side, *place: object) -> Fields:
    """A condition there; `place` is where in the node it stands, for its id."""
    selector, operator, *rest = [*condition, None, None][: max(len(condition), 2)]
    value = side.names.write_text(rest[0]) if rest else None
    kind = side.kind(selector)
    data: Fields = {
        "comparison_operator": normal(operator) if isinstance(operator, str) else operator,
        "id": side.uuid(*place),
        "value": "" if value is None else value,
        "varType": kind,
        "variable_selector": side.names.write(selector),
    }
    of_file = text_of((list_of(selector) or [""])[0]).endswith(".type")
    if kind == "boolean" and value in ("true", "false"):
        data["value"] = value == "true"
    elif kind == "number" and "{{#" in text_of(value):
        data["numberVarType"] = "variable"
    elif kind == "array[file]" and operator in _OF_FILES:
        wanted: list[Any] = list_of(value) or [value]
        inner = {"comparison_operator": "in", "id": side.uuid(*place, "type"), "key": "type", "varType": "string"}
        data["sub_variable_condition"] = {
            "case_id": side.uuid(*place, "case"),
            "conditions": [{**inner, "value": wanted}],
            "logical_operator": "and",
        }
        data["value"] = ""
    elif of_file and operator in ("in", "not in") and isinstance(value, str):
        data["value"] = [value]
    return data


def read_condition(data: Fields, side: Side) -> list[Any]:
    """A condition of ours."""
    selector, operator = side.names.read(data.get("variable_selector")), data.get("comparison_operator")
    value = data.get("value")
    inner = fields_of(data.get("sub_variable_condition"))
    if inner.get("conditions"):
        value = _of_files(each_of(inner.get("conditions")))
    if operator in _UNARY and not value:
        return [selector, operator]
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    of_one = list_of(value)
    value = of_one[0] if len(of_one) == 1 else value
    return [selector, operator, side.names.read_text(value)]


def _of_files(conditions: list[Fields]) -> Any:
    """The kinds of files that a condition on each of them names; None for a condition of another form."""
    match conditions:
        case [{"key": "type", "comparison_operator": "in", "value": value}]:
            return value
        case _:
            return None
