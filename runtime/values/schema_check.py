"""Checks of a JSON Schema: its own form, its references, and keywords that are not checked in answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from operad.runtime.values.base_errors import InvalidError, Issue
from operad.runtime.values.json_schema import UNCHECKED, matcher

Schema = dict[str, Any]
"""A JSON Schema."""

APPROVAL = "approval"
"""Keyword, in the JSON Schema of an answer, for the call of a tool that the question is about; its value is not a schema."""

ANSWER_BY = "answer_by"
"""Keyword, in the JSON Schema of an answer, for the names of the people who may answer; its value is not a schema."""

MAX_ERRORS = 20
"""Maximum number of faults of one answer that are listed."""


def check_schema(schema: Schema) -> None:
    """Check a JSON Schema, including its references.

    Raises:
        InvalidError: The schema has faults; the first `MAX_ERRORS` are listed.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    schema = {key: value for key, value in schema.items() if key not in (APPROVAL, ANSWER_BY)}
    validator: Any = validator_for(schema, default=Draft202012Validator)
    metaschema = validator(validator.META_SCHEMA)
    try:
        errors = sorted(metaschema.iter_errors(schema), key=lambda error: error.json_path)
    except RecursionError as error:
        raise invalid_schema("too-deep", "is a JSON Schema nested too deep to be checked; let it hold less") from error
    issues = [
        Issue("json-schema", without_middle(error.message), f"output_schema {error.json_path}") for error in errors
    ]
    issues += [*_reference_issues(schema), *_unchecked_issues(schema)]
    if issues:
        raise InvalidError("output_schema", issues[:MAX_ERRORS])


def _reference_issues(schema: Schema) -> Iterator[Issue]:
    """Yield an issue for each reference of a schema without a target inside it."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource: Any = DRAFT202012.create_resource(schema)
    resolver = cast("Any", Registry)().with_resource("", resource).resolver()
    for part in _objects(schema):
        reference = part.get("$ref")
        if not isinstance(reference, str):
            continue
        try:
            resolver.lookup(reference)
        except (Unresolvable, AttributeError, LookupError, TypeError, ValueError):  # or not a schema
            yield Issue(
                "reference",
                f"the reference {reference!r} has no target in this schema; schemas elsewhere are not fetched",
                "output_schema",
            )


def _unchecked_issues(schema: Schema) -> Iterator[Issue]:
    """Yield an issue for each pattern and keyword of a schema that `json_schema.schema_errors` ignores."""
    for part in _objects(schema):
        patterns: list[Any] = [part.get("pattern"), *_keys(part.get("patternProperties"))]
        for pattern in patterns:
            if isinstance(pattern, str) and matcher(pattern) is None:
                yield Issue(
                    "pattern",
                    f"{without_middle(pattern)!r} is a pattern with look-around or back-references, which may take for ever, or "
                    "an unusual one; write it without, or leave it out",
                    "output_schema",
                )
        for keyword in UNCHECKED:
            if keyword in part:
                yield Issue("keyword", f"{keyword} is not checked; use additionalProperties or items", "output_schema")


_STRICT_KEYWORDS = frozenset(
    "$ref $defs type enum const anyOf title description properties required additionalProperties items minItems maxItems "
    "pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split()
)
"""Keywords that vendors enforce: https://platform.openai.com/docs/guides/structured-outputs, on 26 November 2026."""

_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())


def is_strict(schema: Any) -> bool:
    """Return True if an endpoint can enforce the schema strictly: all objects closed, all keys required."""
    if not isinstance(schema, dict):
        return False
    schema = cast("Schema", schema)
    if not schema.keys() <= _STRICT_KEYWORDS or schema.get("format", "uuid") not in _STRICT_FORMATS:
        return False
    if not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        return False
    parts: list[Any] = [*schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    types = schema.get("type", ())
    if "object" in ([types] if isinstance(types, str) else types):
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
        parts += properties.values()
    if "array" in ([types] if isinstance(types, str) else types):
        parts.append(schema.get("items"))
    return all(map(is_strict, parts))


def _keys(value: Any) -> list[Any]:
    return list(cast("dict[Any, Any]", value)) if isinstance(value, dict) else []


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects inside a value."""
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield cast("dict[str, Any]", part)
            pending += cast("dict[str, Any]", part).values()
        elif isinstance(part, list):
            pending += cast("list[Any]", part)


def without_middle(text: str, most: int = 300) -> str:
    """Return a text; if it is longer than `most` characters, without its middle."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def invalid_schema(code: str, message: str) -> InvalidError:
    """Return the error for a faulty output schema, with one issue."""
    return InvalidError("output_schema", [Issue(code, message)])


def holds_more_than(limit: int, value: Any) -> bool:
    """Return True if a value has more than `limit` values inside, aliases counted at each use, or contains itself."""
    pending: list[Any] = [value]
    while pending and limit >= 0:
        part = pending.pop()
        if isinstance(part, dict | list):
            inner = cast("dict[str, Any]", part).values() if isinstance(part, dict) else cast("list[Any]", part)
            limit -= len(inner)
            pending += inner if limit >= 0 else ()
    return limit < 0
