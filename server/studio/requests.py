"""Values of a request's JSON, checked for their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from operad.runtime.values.errors import InputError


def text(fields: Mapping[str, Any], name: str) -> str:
    """Return the text in a field of a request.

    Raises:
        InputError: The value is missing, or not a text.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, got {_value_text(value)}")
    return value


def optional_text(fields: Mapping[str, Any], name: str) -> str:
    """Return the text in a field of a request; empty if it is missing or null.

    Raises:
        InputError: The value is not a text.
    """
    return "" if fields.get(name) is None else text(fields, name)


def number(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return the whole number in a field of a request.

    Raises:
        InputError: The value is missing without a default, or is not a whole number.
    """
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**15:
        raise InputError(f"{name}: expected a whole number, got {_value_text(value)}")
    return value


def mapping(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object in a field of a request; empty if it is missing.

    Raises:
        InputError: The value is not an object.
    """
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected an object, got {_value_text(value)}")
    return cast("dict[str, Any]", value)


def _value_text(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:60]
