"""Typed answers to questions: descriptions of possible answers, and conversion to values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from operad.runtime.values.questions import approved_call
from operad.runtime.values.schema import faults

_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_TYPES = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list, as JSON",
    "object": "an object, as JSON",
}
_LONGEST_SCHEMA = 300


class WrongAnswerError(Exception):
    """An answer that does not fit its question; its text gives the reason."""


def describe_answer(schema: Mapping[str, Any] | None) -> str:
    """Return a description of possible answers; empty if any answer is possible."""
    if not schema:
        return ""
    if approved_call(schema)[0]:
        return ""  # the question names the answers
    if "enum" in schema:
        return "one of: " + ", ".join(_as_typed(choice) for choice in schema["enum"])
    if schema.get("type") == "string" and not {"pattern", "format", "maxLength", "minLength"} & schema.keys():
        return ""
    known = _TYPES.get(str(schema.get("type")))
    if known and not schema.keys() - {"type", "title", "description"}:
        return known
    text = json.dumps(schema, ensure_ascii=False)
    short = text if len(text) <= _LONGEST_SCHEMA else f"{text[:_LONGEST_SCHEMA]}…"
    return f"{known or 'an answer'} that fits {short}"


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """Return the first meaning of a typed answer that fits the schema: the text itself, yes or no in any spelling, or JSON.

    Raises:
        WrongAnswerError: No meaning fits the schema.
    """
    if schema is None:
        return text
    form = dict(schema)
    meanings: list[Any] = [text]
    stripped = text.strip()
    if stripped != text:
        meanings.append(stripped)
    if (said := _WORDS.get(stripped.lower())) is not None:
        meanings += [said, "yes" if said else "no"]
    with suppress(ValueError, RecursionError):
        meanings.append(json.loads(stripped))
    mismatches: list[str] = []
    for meaning in meanings:
        if not (mismatches := faults(form, meaning)):
            return meaning
    raise WrongAnswerError("; ".join(fault.removeprefix("$: ") for fault in mismatches))


def _as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
