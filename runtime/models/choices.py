"""Answers from a fixed set of choices, as a JSON Schema allows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

Step = tuple[str, ...]
"""Alternatives for the next piece of an answer; a single text if nothing is left to choose."""


def steps_of(schema: Any) -> tuple[Step, ...]:
    """Return the steps from which an answer is assembled; an empty tuple if the schema permits more than choices.

        {"type": "object", "properties": {"fruit": {"enum": ["fig", "pear"]}}, "required": ["fruit"],
         "additionalProperties": false}

    gives `('{"fruit": "',)` and `('fig"}', 'pear"}')`. Supported are closed objects whose keys are all required, with
    values that are such objects, `enum`, `const`, booleans or null. No text of a step is a prefix of another. Steps
    begin at boundaries of tokens: a token may begin with a space, but does not continue after a quote.
    """
    if not isinstance(schema, dict) or "properties" not in schema:
        return ()
    steps: list[Step] = []
    for part in _steps_of_value(cast("dict[str, Any]", schema), before="") or ():
        start = _QUOTE if all(text.startswith(_QUOTE) for text in part) else ""
        if len(part) == 1:
            start = part[0]
        if steps:
            steps[-1] = tuple(text + start for text in steps[-1])
        else:
            steps.append((start,))
        if len(part) > 1:
            steps.append(tuple(text.removeprefix(start) for text in part))
    return tuple(steps)


def grammar_of(texts: Sequence[str]) -> str:
    """Return a GBNF grammar that permits exactly these texts."""
    return "root ::= " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


_QUOTE = ' "'

_KEYS = {"type", "enum", "const", "properties", "required", "additionalProperties", "title", "description"}
"""Supported keys of a schema; any other key may exclude a choice."""


def _steps_of_value(schema: Any, before: str = " ") -> list[Step] | None:
    """Return the steps of answers to a schema, with `before` in front; None if it permits more than choices."""
    if not isinstance(schema, dict) or schema.keys() - _KEYS:
        return None
    schema = cast("dict[str, Any]", schema)
    if (values := _values(schema)) is not None:
        return [tuple(before + value for value in values)] if values else None
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        return None
    properties: dict[str, Any] = schema.get("properties", {})
    if set(properties) != set(schema.get("required", ())):
        return None
    parts: list[Step] = [(f"{before}{{",)]
    for number, (key, inner) in enumerate(properties.items()):
        inner_parts = _steps_of_value(inner)
        if inner_parts is None:
            return None
        parts += [(f"{', ' if number else ''}{_text(key)}:",), *inner_parts]
    return [*parts, ("}",)]


def _values(schema: dict[str, Any]) -> Step | None:
    """Return the texts of the values that a schema enumerates; None if it does not enumerate values."""
    if "const" in schema:
        return (_text(schema["const"]),)
    if "enum" in schema:
        return tuple(dict.fromkeys(_text(value) for value in schema["enum"]))
    kind = schema.get("type")
    return ("true", "false") if kind == "boolean" else ("null",) if kind == "null" else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
