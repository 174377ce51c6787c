"""Declared types of operators' answers, and the lists that a map can use in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import did_you_mean, shorten


def declared(operator: BaseOperator) -> Mapping[str, Any]:
    """Return the JSON Schema of an operator's answers; empty if it declares none."""
    schema = getattr(operator.added, "schema", None)
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}


def fault_in_list(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, str] | None:
    """Return the code and the message of an issue if a declared answer lacks a list; None if it may have the list.

    Args:
        schema: The JSON Schema of the answer.
        path: The names of the fields that lead to the list; empty for the whole answer.
    """
    at, part, missing = _at_path(schema, operator_id, path)
    if missing:
        return fault_in_path(schema, operator_id, path)
    kind = _type(part)
    return None if kind in ("", "array") else ("not-a-list", f"{at!r} is declared as {kind}, and a map needs a list")


def fault_in_path(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, str] | None:
    """Return the code and the message of an issue if a declared answer lacks a part; None if it may have the part.

    Args:
        schema: The JSON Schema of the answer.
        path: The names of the fields that lead to the part; empty for the whole answer.
    """
    at, part, missing = _at_path(schema, operator_id, path)
    properties: Mapping[str, Any] = part.get("properties", {})
    if not missing or (part.get("additionalProperties") is not False and _type(part) in ("", "object")):
        return None
    known = f"; it has: {shorten(list(properties))}" if properties else ""
    return "unknown-output", f"{at!r} has no {missing!r}{did_you_mean(missing, properties)}{known}"


def _at_path(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, Mapping[str, Any], str]:
    """Return the place and schema of the last part on a path that is declared, and the name that it lacks, if any."""
    part = _resolved(schema, schema)
    if path and path[0] == "output" and "output" not in part.get("properties", {}):
        path = path[1:]  # an answer that is not an object is named ``output``
    at = operator_id
    for name in path:
        properties: Mapping[str, Any] = part.get("properties", {})
        if name not in properties:
            return at, part, name
        at, part = f"{at}.{name}", _resolved(schema, properties[name])
    return at, part, ""


def _resolved(schema: Mapping[str, Any], part: Any) -> Mapping[str, Any]:
    """Return a part of a schema, with its reference resolved; empty if the part allows several alternatives."""
    for _ in range(10):
        ref = _mapping(part).get("$ref")
        if not isinstance(ref, str):
            break
        part = schema
        for name in ref.removeprefix("#/").split("/"):
            part = _mapping(part).get(name)
    found = _mapping(part)
    return {} if {"$ref", "anyOf", "oneOf", "allOf"} & found.keys() else found


def _mapping(part: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}


def _type(part: Mapping[str, Any]) -> str:
    """Return the declared type; empty if there is none, or several."""
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""
