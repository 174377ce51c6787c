"""Faults that pydantic finds in a value, in the words of Operad's errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.runtime.values.near_names import did_you_mean

_REQUIREMENTS: Mapping[str, str] = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "callable_type": "must be a function",
    "dict_type": "must be a mapping of keys to values",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "json_invalid": "is not JSON",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_type": "must be text",
}
"""Requirements by pydantic's type of error; fields in braces come from the error's context."""
_LENGTHS: Mapping[str, tuple[str, str, str]] = {
    "string_too_long": ("at most", "max_length", "character"),
    "string_too_short": ("at least", "min_length", "character"),
    "too_long": ("at most", "max_length", "item"),
    "too_short": ("at least", "min_length", "item"),
}
"""Words for limits of lengths, by pydantic's type of error: the limit, its name in the context, and the unit."""
_CHOICE = re.compile(r"'([^']*)'")


def requirement(fault: Mapping[str, Any]) -> str:
    """Return the requirement that a value does not meet, such as ``must be a whole number``.

        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(int).validate_python("three")
        except ValidationError as error:
            print(requirement(error.errors()[0]))

    Args:
        fault: A fault of a `ValidationError`, as its method `errors` returns it.

    Returns:
        The requirement, or pydantic's message for kinds of faults that this module does not know.
    """
    if fault["type"] in _LENGTHS:
        limit, name, unit = _LENGTHS[fault["type"]]
        number = fault["ctx"][name]
        if limit == "at least" and number == 1:
            return "must not be empty"
        return f"must have {limit} {number} {unit}{'' if number == 1 else 's'}"
    template = _REQUIREMENTS.get(fault["type"])
    if template is None:
        return str(fault["msg"]).removeprefix("Value error, ")
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in fault.get("ctx", {}).items()
    }
    return template.format_map(context)


def nearest_choice(fault: Mapping[str, Any]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a text that is nearly one of the permitted ones, or an empty string."""
    expected, value = fault.get("ctx", {}).get("expected"), fault["input"]
    if fault["type"] not in ("enum", "literal_error") or not isinstance(value, str) or len(value) > 100:
        return ""
    return did_you_mean(value, _CHOICE.findall(str(expected)))
