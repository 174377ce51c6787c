"""Typed answers to questions: descriptions of possible answers, and conversion to values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from operad.runtime.values.questions import approved_call
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import shortened

_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_TYPES = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list, as JSON",
    "object": "an object, as JSON",
}
_JSON_TYPES = {"string": "text", "boolean": "true | false", "integer": "a whole number", "number": "a number"}
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
        return "one of: " + ", ".join(map(_as_typed, schema["enum"])) + _titles(schema)
    if only := _only_field(schema):
        return describe_answer(only[1])
    if fields := _flat_fields(schema):
        return f"as JSON: {{{', '.join(fields)}}}"
    if schema.get("type") == "string" and not {"pattern", "format", "maxLength", "minLength"} & schema.keys():
        return ""
    known = _TYPES.get(str(schema.get("type")))
    if known and not schema.keys() - {"type", "title", "description"}:
        return known
    text = shortened(json.dumps(schema, ensure_ascii=False), _LONGEST_SCHEMA)
    return f"{known or 'an answer'} that fits {text}"


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """Return the first meaning of a typed answer that fits the schema: the text itself, yes or no, or JSON.

    Yes and no are read in any spelling for a boolean, and where both are choices. The text may be the value of the only
    field of an object.

    Raises:
        WrongAnswerError: No meaning fits the schema.
    """
    if schema is None:
        return text
    stripped = text.strip()
    meanings: list[Any] = [text] if stripped == text else [text, stripped]
    if (said := _WORDS.get(stripped.lower())) is not None:
        meanings.append(said)
    with suppress(ValueError, RecursionError):
        meanings.append(json.loads(stripped))
    return _fitting(meanings, dict(schema))


def _fitting(meanings: Sequence[Any], schema: dict[str, Any]) -> Any:
    """Return the first meaning that fits the schema, or as the value of its only field."""
    words = [("no", "yes")[meaning] for meaning in meanings if isinstance(meaning, bool)]
    mismatches: list[str] = []
    for meaning in [*meanings, *(words if words and _chooses_yes_or_no(schema) else ())]:
        if not (found := AnswerSchema.unchecked(schema).faults(meaning)):
            return meaning
        mismatches = mismatches if isinstance(meaning, bool) else found  # an error shows a typed "n", not its meaning
    only, typed = _only_field(schema), meanings[-1]
    is_object = isinstance(typed, dict)
    if only is None or (is_object and only[0] in typed):
        raise _wrong(mismatches)
    name, field = only
    try:
        answer = {name: _fitting([typed] if is_object else meanings, field)}
    except WrongAnswerError as error:
        raise (_wrong([*mismatches, f"as the value of {name!r}: {error}"]) if is_object else error) from None
    if mismatches := AnswerSchema.unchecked(schema).faults(answer):
        raise _wrong(mismatches)
    return answer


def _chooses_yes_or_no(schema: dict[str, Any]) -> bool:
    """Return True if yes and no are choices, also of a class of choices or beside null, and not any text fits."""
    are_choices = not (
        AnswerSchema.unchecked(schema).faults("yes") or AnswerSchema.unchecked(schema).faults("no")
    ) and bool(AnswerSchema.unchecked(schema).faults("neither yes nor no"))
    return are_choices or bool(approved_call(schema)[0])


def _wrong(mismatches: Sequence[str]) -> WrongAnswerError:
    return WrongAnswerError("; ".join(mismatch.removeprefix("$: ") for mismatch in mismatches))


def _only_field(schema: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the schema of the only field of an object; None for other schemas."""
    fields = _fields(schema)
    if len(fields) != 1:
        return None
    [(name, field)] = fields.items()
    return name, field | {key: schema[key] for key in ("$defs",) if key in schema}


def _flat_fields(schema: Mapping[str, Any]) -> list[str]:
    """Return descriptions of the fields of an object, if these are all texts, numbers or choices; otherwise none."""
    described: list[str] = []
    for name, field in _fields(schema).items():
        if "enum" in field:
            kind = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in field["enum"]) + _titles(field)
        else:
            kind = _JSON_TYPES.get(str(field.get("type")))
        if not kind:
            return []
        optional = "" if name in schema.get("required", ()) else " (optional)"
        described.append(f"{json.dumps(name, ensure_ascii=False)}: {kind}{optional}")
    return described


def _fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of an object's fields by name; none if one of them is not an object."""
    fields: Any = schema.get("properties")
    known = isinstance(fields, dict) and all(isinstance(each, dict) for each in cast("dict[str, Any]", fields).values())
    return cast("dict[str, dict[str, Any]]", fields) if known else {}


def _titles(schema: Mapping[str, Any]) -> str:
    return f" ({schema['description']})" if schema.get("description") else ""


def _as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
