"""Answers that consist of choices: JSON of which a schema leaves nothing open but a few given values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

Step = tuple[str, ...]
"""Texts of which the answer goes on with one."""


def steps_of(schema: Any) -> tuple[Step, ...]:
    """Return the steps in which an answer is put together; none if the schema leaves more open than choices.

        {"type": "object", "properties": {"fruit": {"enum": ["fig", "pear"]}}, "required": ["fruit"],
         "additionalProperties": false}

    gives `('{"fruit": "',)` and `('fig"}', 'pear"}')`. Only closed objects whose keys are all required are read;
    below them, objects of the same kind, `enum`, `const`, booleans and null. No text of a step is the beginning of
    another. Steps begin where tokens do: a space is of one token with what follows, a quote is not.
    """
    if not isinstance(schema, dict) or "properties" not in schema:
        return ()
    steps: list[Step] = []
    for part in _parts(cast("dict[str, Any]", schema), before="") or ():
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
    """Return the GBNF grammar of some texts."""
    return "root ::= " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


_QUOTE = ' "'

_KEYS = {"type", "enum", "const", "properties", "required", "additionalProperties", "title", "description"}
"""Keys of a schema that are understood; another one may forbid a choice."""


def _parts(schema: Any, before: str = " ") -> list[Step] | None:
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
        below = _parts(inner)
        if below is None:
            return None
        parts += [(f"{', ' if number else ''}{_text(key)}:",), *below]
    return [*parts, ("}",)]


def _values(schema: dict[str, Any]) -> Step | None:
    """The texts of the values that a schema gives; None if it gives none."""
    if "const" in schema:
        return (_text(schema["const"]),)
    if "enum" in schema:
        return tuple(dict.fromkeys(_text(value) for value in schema["enum"]))
    kind = schema.get("type")
    return ("true", "false") if kind == "boolean" else ("null",) if kind == "null" else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
