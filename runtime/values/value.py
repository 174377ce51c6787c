"""Frozen values, whose constructors report wrong arguments in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from operad.runtime.values.arguments import ArgumentError, short_repr, unknown_arguments
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.validation import nearest_choice, requirement


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
