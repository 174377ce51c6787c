"""A value that fits a JSON Schema, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plausible(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a JSON Schema: the first alternative, one item per list, ``text`` for strings.

        print(plausible({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))

    References inside the schema are followed; patterns and formats are ignored.
    """
    return _plausible(schema, schema, 0)


def plausible_answer(request: Mapping[str, Any]) -> str:
    """Return JSON that fits the schema in a request, or a word if there is none."""
    response_format: Any = request.get("response_format") or {}
    schema = response_format.get("json_schema", {}).get("schema")
    return "text" if schema is None else json.dumps(plausible(schema))


def _plausible(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if "const" in schema:
        return schema["const"]
    if "$ref" in schema:
        target: Any = root
        for part in filter(None, str(schema["$ref"]).lstrip("#").split("/")):
            target = target[part]
        return _plausible(target, root, depth + 1)
    for key in ("enum", "anyOf", "oneOf"):
        if key in schema:
            first: Any = schema[key][0]
            return first if key == "enum" else _plausible(first, root, depth)
    return _plausible_of_type(schema, root, depth)


def _plausible_of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        properties: Mapping[str, Any] = schema.get("properties", {})
        return {name: _plausible(part, root, depth + 1) for name, part in properties.items()}
    if kind == "array":
        wanted = max(int(schema.get("minItems", 0)), 0 if depth > 8 else 1)
        return [_plausible(schema.get("items", {}), root, depth + 1)] * min(wanted, schema.get("maxItems", wanted))
    if kind in {"integer", "number"}:
        return max(schema.get("minimum", 1), min(1, schema.get("maximum", 1)))
    if kind == "string":
        return "text".ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]
    return {"boolean": True, "null": None}[kind]
