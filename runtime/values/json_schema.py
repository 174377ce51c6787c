"""Untrusted JSON Schemas: checks of their form, references and keywords, and validation by them.

Nothing is fetched, and the time of a validation is proportional to the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.values.base_errors import InvalidError, Issue

if TYPE_CHECKING:
    from jsonschema import ValidationError

MOST_REFERENCES = 100_000
"""Maximum number of references that one validation follows; their number may grow exponentially."""

UNCHECKED = ("unevaluatedProperties", "unevaluatedItems")
"""Ignored keywords, whose validation may take more than linear time."""

_references_left: ContextVar[int] = ContextVar("operad_references_left")


class EndlessSchemaError(Exception):
    """A validation follows more than `MOST_REFERENCES` references, or its references form a cycle."""


def validator_of(schema: Mapping[str, Any]) -> Any:
    """Return the validator of a valid JSON Schema, for `schema_errors`; building it takes longer than using it.

    Patterns that `matcher` does not support, and `UNCHECKED` keywords, are ignored.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = _bounded_class(cast("Any", validator_for)(schema, default=Draft202012Validator))
    return kind(schema, registry=cast("Any", Registry)())


def schema_errors(validator: Any, value: Any) -> list[ValidationError]:
    """Return the violations of a JSON Schema by a value.

    Args:
        validator: Result of `validator_of` for the schema.

    Raises:
        EndlessSchemaError: References of the schema form a cycle, or too many are followed.
        OverflowError: A number is too large.
        Unresolvable: The schema refers to a schema outside itself; nothing is fetched.
    """
    _references_left.set(MOST_REFERENCES)
    try:
        return list(validator.iter_errors(value))
    except RecursionError as error:
        raise EndlessSchemaError("it leads in a circle, or is nested too deep, as may be the value") from error


def of_meant_branch(error: ValidationError) -> Sequence[ValidationError]:
    """Return the violations of the branch of an ``anyOf`` that a value is meant for, or the error itself.

    That is the branch of its type and constants; if several are, the one with the fewest violations.
    """
    by_branch = groupby(error.context or (), key=lambda inner: inner.schema_path[0])
    branches = [list(branch) for _, branch in by_branch]
    meant = sorted((branch for branch in branches if not any(map(_is_of_another_branch, branch))), key=len)
    is_clear = len(branches) > 1 and meant and (len(meant) == 1 or len(meant[0]) < len(meant[1]))
    return meant[0] if is_clear else [error]


def _is_of_another_branch(error: ValidationError) -> bool:
    """Return True for a violation by a value of another type, or with another constant, alone or under a key."""
    depth = len(error.relative_path)
    return (depth == 0 and error.validator == "type") or (depth < 2 and error.validator == "const")


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that searches a text for a regular expression in linear time; None for unsupported expressions.

    Python's `re` backtracks: for ``(a+)+$`` and thirty letters it takes minutes, and blocks the whole process.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:  # look-around, a back-reference
        return None


@cache
def _bounded_class(validator: Any) -> Any:
    """Return a validator class derived from `validator`, with keyword functions whose time is bounded."""
    from jsonschema import validators

    rules: Mapping[str, Any] = validator.VALIDATORS
    following = {keyword: _counting_references(rules[keyword]) for keyword in _REFERENCE_KEYWORDS if keyword in rules}
    bounded = {keyword: rule for keyword, rule in _BOUNDED_KEYWORDS.items() if keyword in rules}
    return cast("Any", validators).extend(validator, bounded | following)


def _counting_references(
    rule: Callable[..., Iterator[ValidationError] | None],
) -> Callable[..., Iterator[ValidationError]]:
    """Return a keyword function for references that limits their number to `MOST_REFERENCES`."""

    def follow(*arguments: Any) -> Iterator[ValidationError]:
        references_left = _references_left.get()
        if not references_left:
            raise EndlessSchemaError(f"it follows more than {MOST_REFERENCES:,} references")
        _references_left.set(references_left - 1)
        yield from rule(*arguments) or ()

    return follow


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for pattern, inner in patterns.items():
        for name, value in _fields(instance).items():
            if (matches := matcher(pattern)) and matches(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    named, patterns = _fields(schema.get("properties")), _fields(schema.get("patternProperties"))
    for name, value in _fields(instance).items():
        if name in named or any(_matches(pattern, name) for pattern in patterns):
            continue
        if inner is False:
            yield _error(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(value, inner, path=name)


def _unique_items(validator: Any, is_required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    items = cast("list[Any]", instance) if is_required and isinstance(instance, list) else []
    if len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
        yield _error(f"{items!r} has non-unique elements")


def _ignored(*_: Any) -> tuple[()]:
    return ()


_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
_BOUNDED_KEYWORDS: Mapping[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    **dict.fromkeys(UNCHECKED, _ignored),
}


def _matches(pattern: str, text: str) -> bool:
    """Return True if the pattern matches the text, or is not supported by `matcher`."""
    matches = matcher(pattern)
    return matches is None or matches(text)


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _error(message: str) -> ValidationError:
    from jsonschema import ValidationError

    return ValidationError(message)


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
