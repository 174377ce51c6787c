"""Frozen values, whose constructors report wrong arguments, and faults that pydantic finds, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from operad.runtime.values.arguments import ArgumentError, short_repr, unknown_arguments
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.near_names import did_you_mean


class Record(BaseModel):
    """A frozen value that Operad constructs in each call of an operator, as fast as pydantic does; see `Value`."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    _indifferent: ClassVar[frozenset[str]] = frozenset({"id"})
    """Fields that the fingerprint omits: those that do not influence answers, and secrets."""

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are equal for instances that behave alike: type and fields, without ids and secrets.

        Raises:
            InputError: A field has no JSON form.
        """
        fields = type(self).model_fields.keys() - self._indifferent
        return {"type": name_of(type(self))} | {name: fingerprint(getattr(self, name)) for name in fields}


if TYPE_CHECKING:  # type checkers take the arguments from the fields
    from pydantic._internal._model_construction import ModelMetaclass as _ValueType
else:

    class _ValueType(type(BaseModel)):
        """Type of the classes of values: their constructors raise `ArgumentError` instead of `ValidationError`."""

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(**cls._by_name(args, fields) if args else fields)
            except ValidationError as error:
                shows_input = not cls.model_config.get("hide_input_in_errors")
                called = f"{cls.__name__}(…)"
                raise wrong_arguments(error, called, list(cls.model_fields), shows_input=shows_input) from error

        def _by_name(cls, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
            """Return the fields with the positional argument under its name."""
            name: str = cls._positional
            if len(args) > 1 or not name:
                told = f"at most one positional argument, {name!r}" if name else "no positional arguments"
                example = name or next(iter(cls.model_fields), "")
                raise ArgumentError(f"{cls.__name__}(…) takes {told}: write {cls.__name__}({example}=…)")
            if name in fields:
                raise ArgumentError(f"{cls.__name__}(…) got {name!r} twice: by position and by name")
            return {name: args[0], **fields}


class Value(Record, metaclass=_ValueType):
    """A frozen value that rejects unknown fields.

    Raises:
        ArgumentError: An argument is unknown, missing, or has another type.
    """

    _positional: ClassVar[str] = ""
    """Name of the field that can be given by position; empty for none."""


def wrong_arguments(
    error: ValidationError, called: str, known: Sequence[str], *, shows_input: bool = True
) -> ArgumentError:
    """Return the error of a call with wrong arguments.

    Args:
        error: The faults that pydantic found.
        called: The call, such as ``Job(…)``.
        shows_input: False if the values may be secret.
    """
    faults = error.errors(include_url=False)
    unknown = [str(each["loc"][0]) for each in faults if each["type"] == "extra_forbidden" and len(each["loc"]) == 1]
    if unknown:
        return unknown_arguments(called, unknown, known)
    told: dict[str, list[str]] = {}
    for fault in faults:
        name, *inner = fault["loc"] or ["value"]
        place = f"{name}{''.join(f'[{part}]' for part in inner if isinstance(part, int))}"
        told.setdefault(place, []).append(_fault_text(fault, shows_input=shows_input))
    # a union has a fault for each of its members
    return ArgumentError(
        f"{called}: " + "; ".join(f"{place}: {' or '.join([*dict.fromkeys(texts)])}" for place, texts in told.items())
    )


def _fault_text(fault: Any, *, shows_input: bool) -> str:
    if fault["type"] == "missing":
        return "is missing"
    got = f", got {short_repr(fault['input'])}" if shows_input and fault["type"] != "value_error" else ""
    return f"{requirement(fault)}{nearest_choice(fault)}{got}"


_REQUIREMENTS: Mapping[str, str] = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "callable_type": "must be a function",
    "dict_type": "must be a mapping of keys to values",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "json_invalid": "is not JSON",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_type": "must be text",
}
"""Requirements by pydantic's type of error; fields in braces come from the error's context."""
_LENGTHS: Mapping[str, tuple[str, str, str]] = {
    "string_too_long": ("at most", "max_length", "character"),
    "string_too_short": ("at least", "min_length", "character"),
    "too_long": ("at most", "max_length", "item"),
    "too_short": ("at least", "min_length", "item"),
}
"""Words for limits of lengths, by pydantic's type of error: the limit, its name in the context, and the unit."""
_CHOICE = re.compile(r"'([^']*)'")


def requirement(fault: Mapping[str, Any]) -> str:
    """Return the requirement that a value does not meet, such as ``must be a whole number``.

        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(int).validate_python("three")
        except ValidationError as error:
            print(requirement(error.errors()[0]))

    Args:
        fault: A fault of a `ValidationError`, as its method `errors` returns it.

    Returns:
        The requirement, or pydantic's message for kinds of faults that this module does not know.
    """
    if fault["type"] in _LENGTHS:
        limit, name, unit = _LENGTHS[fault["type"]]
        number = fault["ctx"][name]
        if limit == "at least" and number == 1:
            return "must not be empty"
        return f"must have {limit} {number} {unit}{'' if number == 1 else 's'}"
    template = _REQUIREMENTS.get(fault["type"])
    if template is None:
        return str(fault["msg"]).removeprefix("Value error, ")
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in fault.get("ctx", {}).items()
    }
    return template.format_map(context)


def nearest_choice(fault: Mapping[str, Any]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a text that is nearly one of the permitted ones, or an empty string."""
    expected, value = fault.get("ctx", {}).get("expected"), fault["input"]
    if fault["type"] not in ("enum", "literal_error") or not isinstance(value, str) or len(value) > 100:
        return ""
    return did_you_mean(value, _CHOICE.findall(str(expected)))
