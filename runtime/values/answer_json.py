"""JSON in the answer of a model: whole, in a code fence, amid prose, or repaired; and slips with only one reading."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema import ValidationError


MAX_SLIPS = 200
"""Maximum number of faults of an answer in which slips are searched for."""

_ITEM = re.compile(r"([-*•]|[0-9]+[.)])[ \t]+([^\s\"'\[{].*)")
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def readings(errors: Sequence[ValidationError], schema: Mapping[str, Any], value: Any, depth: int = 0) -> list[Any]:
    """Return the only reading of a value with slips, which may have further faults; nothing if there is none.

    Args:
        errors: The violations of the schema by the value.
        value: The answer, or a part of it.
        depth: Number of keys that lead to the part.
    """
    by_path: dict[tuple[str | int, ...], dict[str, Any]] = {}
    for error in errors if len(errors) <= MAX_SLIPS else ():
        found = list(_part_readings(error, schema))
        for _, branch in groupby(error.context or (), key=lambda inner: inner.schema_path[0]):  # of anyOf or oneOf
            found += readings(list(branch), schema, error.instance, len(error.absolute_path))
        by_path.setdefault(tuple(error.absolute_path)[depth:], {}).update((json.dumps(each), each) for each in found)
    if not by_path or any(len(found) != 1 for found in by_path.values()):
        return []
    for path in sorted(by_path, key=len, reverse=True):
        value = _replaced(value, path, *by_path[path].values())
    return [value]


def values_alone(text: str) -> Iterator[Any]:
    """Yield the values that a text may stand for as a part of an object: a JSON value, the text, the items of a list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, dict):  # which may be the first item of a list
        yield value
    items = [_ITEM.fullmatch(line.rstrip()) for line in text.splitlines() if line.strip()]
    marks = [item[1] for item in items if item]
    if len(items) > 1 and marks in ([items[0] and items[0][1]] * len(items), *_numbered(len(items))):
        yield [item[2] for item in items if item]


def _numbered(count: int) -> Iterator[list[str]]:
    """Yield the marks of a numbered list: ``1.``, ``2.``, or ``1)``, ``2)``."""
    return ([f"{number}{sign}" for number in range(1, count + 1)] for sign in ".)")


def _part_readings(error: ValidationError, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the readings of the value that an error is about."""
    value, required = cast("Any", error.instance), cast("Any", error.validator_value)
    if "propertyNames" in error.absolute_schema_path:  # about a key, at the path of its object
        return
    if error.validator in ("enum", "const") and isinstance(value, str):
        listed = required if error.validator == "enum" else [required]
        yield from (each for each in listed if isinstance(each, str) and _plain(each) == _plain(value))
    elif error.validator == "type":
        types = [required] if isinstance(required, str) else required
        is_number = (
            isinstance(value, str) and _JSON_NUMBER.fullmatch(value) and ("number" in types or "integer" in types)
        )
        if is_number or (value in ("true", "false") and "boolean" in types):
            with suppress(ValueError):  # too many digits
                yield json.loads(value)
        if type(value) is int and "string" in types:
            yield str(value)
        # An item of a list of lists is not wrapped: [1, 2] may be [[1], [2]] or [[1, 2]].
        is_field = bool(error.absolute_path) and isinstance(error.absolute_path[-1], str)
        if "array" in types and is_field and _is_item(value, cast("Any", error.schema).get("items"), schema):
            yield [value]


def _is_item(value: Any, items: Any, schema: Mapping[str, Any]) -> bool:
    """Return True if a value is one item of a list; False if it may stand for several, or for none."""
    form = _fields(items)
    if "$ref" in form:
        form = _fields(_fields(schema.get("$defs")).get(str(form["$ref"]).removeprefix("#/$defs/")))
    if isinstance(value, str):
        return value in form.get("enum", ())
    if isinstance(value, dict):
        required = form.get("required")
        return (
            bool(required) and isinstance(required, list) and all(key in value for key in cast("list[Any]", required))
        )
    return isinstance(value, int | float) and "type" in form


def _fields(schema: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else {}


def _plain(text: str) -> str:
    return text.strip().casefold()


def _replaced(value: Any, path: Sequence[str | int], part: Any) -> Any:
    """Return a copy of a value with another part at a path."""
    if not path:
        return part
    changed = copy(value)
    changed[path[0]] = _replaced(value[path[0]], path[1:], part)
    return changed


MAX_STARTS = 100
"""Maximum number of brackets in an answer at which JSON is searched for amid prose."""

MAX_MENDED = 16_000
"""Maximum length, in characters, of an answer that is repaired; repair may take quadratic time."""

_FENCE_BEGINS = re.compile(r"```[ \t]*(?:[\w-]+[ \t]*)?\n")

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.ASCII | re.DOTALL)
"""Escape of a JSON text; the group matches half of a surrogate pair."""

_FENCE_ENDS = re.compile(r"\n[ \t]*```")


def unfenced(text: str) -> str:
    """Return the content of the code fence if the text is nothing else; otherwise the text."""
    begin, end = _FENCE_BEGINS.match(text), text.rfind("\n")
    fenced = begin and end >= begin.end() and _FENCE_ENDS.fullmatch(text, end)
    return text[begin.end() : end].strip() if begin and fenced else text


def _load_json(text: str) -> Any:
    return json.loads(text, parse_constant=refuse_constant)


def refuse_constant(constant: str) -> Any:
    """Raise ValueError for NaN and Infinity, which are not JSON."""
    raise ValueError(f"{constant} is not JSON")


def without_half_escapes(text: str) -> str:
    """Return a JSON text in which each escape of half a surrogate pair is replaced by the escape of U+FFFD."""
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape[1] else escape[0], text) if "\\u" in text else text


def candidates(text: str, repair: bool) -> Iterator[Any]:
    """Yield possible values of an answer: the whole text, code fences and JSON amid prose, and at last repaired JSON.

    Of several values, the last comes first: a model drafts before it answers.
    """
    text = text.strip()
    fenced = list(_fenced(text))
    found = list[tuple[int, Any]]()
    for end, candidate in ((len(text), text), *fenced):
        try:
            found.append((end, _load_json(candidate)))
        except (ValueError, RecursionError):
            continue
    found += _embedded(text)
    yield from (value for _, value in sorted(found, key=lambda each: each[0], reverse=True))
    for candidate in (*(inner for _, inner in fenced), text) if repair else ():
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start >= 0 and len(candidate) - start <= MAX_MENDED:
            yield from _repaired(candidate[start:])


def _fenced(text: str) -> Iterator[tuple[int, str]]:
    """Yield the end and the content of each code fence; a single pattern for begin and end would take quadratic time."""
    at = 0
    while (begin := _FENCE_BEGINS.search(text, at)) and (end := _FENCE_ENDS.search(text, begin.end())):
        yield end.end(), text[begin.end() : end.start()]
        at = end.end()


def _embedded(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the end and the value of JSON amid prose: those that begin at one of the first `MAX_STARTS` brackets."""
    decoder = json.JSONDecoder()
    at = 0
    for start in islice(re.finditer(r"[{\[]", text), MAX_STARTS):
        if start.start() < at:
            continue
        try:
            value, at = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        yield at, value


def _repaired(text: str) -> Iterator[Any]:
    """Yield the object or list of a text, after repairing its JSON; nothing if that is impossible."""
    import json_repair

    try:
        value: Any = json_repair.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value
