"""Validation by untrusted JSON Schemas: nothing is fetched, and the time is proportional to the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema import ValidationError

MOST_REFERENCES = 100_000
"""Maximum number of references that one validation follows; their number may grow exponentially."""

UNCHECKED = ("unevaluatedProperties", "unevaluatedItems")
"""Ignored keywords: their validation takes time out of proportion."""

_left: ContextVar[int] = ContextVar("operad_references_left")


class EndlessSchemaError(Exception):
    """A validation follows more than `MOST_REFERENCES`, or leads in a circle."""


def schema_errors(schema: Mapping[str, Any], value: Any) -> list[ValidationError]:
    """Return the violations of a valid JSON Schema by a value.

    Patterns that `matcher` does not support, and `UNCHECKED` keywords, are ignored.

    Raises:
        EndlessSchemaError: The validation has no end.
        OverflowError: A number is too large.
        Unresolvable: The schema refers to a schema outside itself; nothing is fetched.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    validator = _bounded(cast("Any", validator_for)(schema, default=Draft202012Validator))
    _left.set(MOST_REFERENCES)
    try:
        return list(validator(schema, registry=cast("Any", Registry)()).iter_errors(value))
    except RecursionError as error:
        raise EndlessSchemaError("it leads in a circle, or is nested too deep, as may be the value") from error


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
def _bounded(validator: Any) -> Any:
    """Return a validator class whose keywords are replaced by bounded ones."""
    from jsonschema import validators

    own: Mapping[str, Any] = validator.VALIDATORS
    following = {keyword: _following(own[keyword]) for keyword in _REFERENCES if keyword in own}
    bounded = {keyword: rule for keyword, rule in _RULES.items() if keyword in own}
    return cast("Any", validators).extend(validator, bounded | following)


def _following(own: Callable[..., Iterator[ValidationError] | None]) -> Callable[..., Iterator[ValidationError]]:
    def follow(*given: Any) -> Iterator[ValidationError]:
        left = _left.get()
        if not left:
            raise EndlessSchemaError(f"it follows more than {MOST_REFERENCES:,} references")
        _left.set(left - 1)
        yield from own(*given) or ()

    return follow


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield _fault(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for pattern, inner in patterns.items():
        for name, value in _fields(instance).items():
            if (matches := matcher(pattern)) and matches(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    named, patterns = _fields(schema.get("properties")), _fields(schema.get("patternProperties"))
    for name, value in _fields(instance).items():
        if name in named or any(_matches(pattern, name) for pattern in patterns):
            continue
        if inner is False:
            yield _fault(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(value, inner, path=name)


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    items = cast("list[Any]", instance) if wanted and isinstance(instance, list) else []
    if len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
        yield _fault(f"{items!r} has non-unique elements")


def _passed_over(*_: Any) -> tuple[()]:
    return ()


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_RULES: Mapping[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
    **dict.fromkeys(UNCHECKED, _passed_over),
}


def _matches(pattern: str, text: str) -> bool:
    """Return True if the pattern matches, as far as `matcher` supports it."""
    matches = matcher(pattern)
    return matches is None or matches(text)


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _fault(message: str) -> ValidationError:
    from jsonschema import ValidationError

    return ValidationError(message)
