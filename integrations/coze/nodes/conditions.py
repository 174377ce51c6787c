"""Conditions of if-else nodes."""

from __future__ import annotations

import json
from typing import Any

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.names import Names
from operad.operators.conditions import LENGTHS, Condition, normal
from operad.operators.variables import VariableType

T = VariableType

_OPERATOR_NUMBERS = {
    "is": 1, "=": 1, "is not": 2, "≠": 2, "contains": 7, "not contains": 8, "empty": 9, "not exists": 9,
    "not empty": 10, "exists": 10, ">": 13, "≥": 14, "<": 15, "≤": 16,
    "length >": 3, "length ≥": 4, "length <": 5, "length ≤": 6,
    "start with": 7, "end with": 7, "in": 7, "all of": 7, "not in": 8,  # Coze has only similar ones
}  # fmt: skip
"""Coze's number of each operator."""

_OPERATOR_OF_NUMBER = {
    1: "is", 2: "is not", 7: "contains", 8: "not contains", 9: "empty", 10: "not empty",
    13: ">", 14: "≥", 15: "<", 16: "≤", 3: "length >", 4: "length ≥", 5: "length <", 6: "length ≤",
}  # fmt: skip
"""Operator of each of Coze's numbers; `_NUMBER_OPERATORS` and `_FILE_OPERATORS` replace it for these types."""

_NUMBER_OPERATORS = {"is": "=", "is not": "≠"}

_FILE_OPERATORS = {"empty": "not exists", "not empty": "exists"}


def write_condition(condition: Condition, names: Names) -> Fields:
    """Return a condition in Coze's form."""
    operator = normal(condition.operator)
    left: Fields = names.given(condition.variable)
    if operator in _FILE_OPERATORS.values() and names.type_of(condition.variable) in (T.FILE, T.ANY):
        left = {"type": "file", **left}
    written: Fields = {"left": {"input": left}, "operator": _OPERATOR_NUMBERS.get(operator, 7)}
    value = condition.value
    if isinstance(value, str) and value in ("true", "false") and operator in ("is", "is not"):
        written["right"] = {"input": {"type": "boolean", "value": value == "true"}}
    elif isinstance(value, str):
        given, _ = names.value(value)
        is_number = operator in (*_NUMBER_OPERATORS.values(), ">", "≥", "<", "≤", *LENGTHS)
        kind = "integer" if operator in LENGTHS else "float"
        written["right"] = {"input": {**given, "type": kind} if is_number else given}
    elif value is not None:
        written["right"] = {"input": {"type": "list", "items": {"type": "string"}, "value": json.dumps(value)}}
    return written


def nearest_operator(condition: Condition, names: Names) -> str:
    """Return the operator that Coze has for a condition: the same one, or the most similar one."""
    return read_condition(write_condition(condition, names), names)[1]


def read_condition(given: Any, names: Names) -> list[Any]:
    """Return a condition of Coze in Operad's form: ``[variable, operator, value]``."""
    number = given["operator"]
    if number in (11, 12):  # is true, is false
        variable, node = names.variable(given["left"]["input"])
        if variable == "isSuccess":  # of a node that may fail
            return [["error_type", node], "empty" if number == 11 else "not empty"]
        return [[variable, node], "is", "true" if number == 11 else "false"]
    operator = _OPERATOR_OF_NUMBER[number]
    left, right = given["left"]["input"], given.get("right", {}).get("input")
    if left.get("type") == "file":
        operator = _FILE_OPERATORS.get(operator, operator)
    selector = names.variable(left)
    if right is None:
        return [selector, operator]
    if right.get("type") in ("float", "integer", "number"):
        operator = _NUMBER_OPERATORS.get(operator, operator)
    value = right["value"]
    if isinstance(value, bool):
        return [selector, operator, "true" if value else "false"]
    if right.get("type") == "list" and isinstance(value, str):
        return [selector, operator, json.loads(value)]
    return [selector, operator, str(value) if isinstance(value, int | float) else names.read_value(right, [])]
