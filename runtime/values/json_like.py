"""JSON values as callers write them, and the parts of a value that its JSON form does not hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, JsonValue, SecretBytes, SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from operad.runtime.values.arguments import short_repr

Path = tuple[Any, ...]
"""Names of fields and indices that lead to a part of a value."""


_EXCLUDED = "the field is excluded from the JSON form; remove exclude=True, or leave the field at its default"


class Loss(NamedTuple):
    """Part of a value that its JSON form does not hold.

    Attributes:
        place: Path to the part, such as ``.card.number`` or ``[2]``; empty for the whole value.
        text: The reason, and what to write instead.
    """

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


def model_as_json(model: BaseModel) -> Any:
    """Return a pydantic model as JSON values.

    Raises:
        ValueError: A part of the model is lost in that form.
    """
    plain = model.model_dump(mode="json", by_alias=True)
    try:
        loss = first_loss(model, type(model).model_validate_json(json.dumps(plain)))
    except ValidationError as error:
        loss = loss_in_reading(model, error) or Loss("", f"it cannot be read back: {error.errors()[0]['msg']}")
    except Exception as error:  # noqa: BLE001 - raised by a validator of the user's class
        loss = Loss("", f"it cannot be read back: {type(error).__name__}: {error}")
    if loss is not None:
        raise ValueError(f"{type(model).__name__} would not arrive as it is: {loss}")
    return plain


def first_loss(value: Any, back: Any, path: Path = (), owner: Any = None) -> Loss | None:
    """Return the first part of a value that differs from what was read back.

    Args:
        path: Path to both.
        owner: The object of which both are the last field of the path.
    """
    if is_equal(value, back):
        return None
    kind = cast("type[object]", type(value))
    if kind is type(back):
        parts = _fields_of(value)
        if parts is not None:
            others = _fields_of(back) or {}
            losses = (first_loss(part, others.get(name), (*path, name), value) for name, part in parts.items())
            return next(filter(None, losses), None)  # equal fields, as of a model with private attributes
        if isinstance(value, Mapping) and value.keys() == back.keys():
            given = cast("Mapping[Any, Any]", value)
            return next(filter(None, (first_loss(given[key], back[key], (*path, key)) for key in given)), None)
        if kind.__eq__ is object.__eq__ and _have_equal_json(value, back):
            return None
    if kind in (list, tuple) and kind is type(back) and len(cast("Sequence[Any]", value)) == len(back):
        items = zip(cast("Sequence[Any]", value), back, strict=True)
        return next(filter(None, (first_loss(*pair, (*path, place)) for place, pair in enumerate(items))), None)
    return Loss(path_text(path), _reason(value, back, path, owner))


def is_equal(value: Any, back: Any) -> bool:
    """Return True for equal values, NaN included; False if they cannot be compared."""
    try:
        return bool(value == back) or (value != value and back != back)
    except Exception:  # noqa: BLE001 - a user's `__eq__`, or an array
        return False


def _have_equal_json(value: Any, back: Any) -> bool:
    """Return True for equal JSON forms; of classes that only a field's serializer writes, for equal attributes."""
    try:
        return to_jsonable_python(value) == to_jsonable_python(back)
    except ValueError:
        attributes: dict[str, Any] = getattr(value, "__dict__", {})
        return bool(attributes) and is_equal(attributes, getattr(back, "__dict__", None))


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a model or dataclass by name; None for other values."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields} | (value.model_extra or {})
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    return None


def _reason(value: Any, back: Any, path: Path, owner: Any) -> str:
    field = type(owner).model_fields.get(path[-1]) if isinstance(owner, BaseModel) else None
    if isinstance(value, SecretStr | SecretBytes):
        return "secrets are written as asterisks; give the name of the secret, or pass it to the run as deps"
    if field is not None and field.exclude:
        return _EXCLUDED
    if field is not None and _alias_fault(field):
        return _alias_fault(field)
    return f"from JSON, {short_repr(value)} is read as {short_repr(back)}; annotate its exact type, or give JSON values"


def _alias_fault(field: Any) -> str:
    """Return the fault of a field that is written under a name under which it is not read; an empty text without one."""
    written, read = field.serialization_alias, field.validation_alias
    if written == read or (written is None and read is None):
        return ""
    return (
        f"the field is written as {written!r} and read as {read!r}; give it one alias: Field(alias={written or read!r})"
    )


def loss_in_reading(value: Any, error: ValidationError, path: Path = ()) -> Loss | None:
    """Return the loss because of which a value's JSON form cannot be read as its own class; None for another fault."""
    for fault in error.errors(include_url=False):
        *outer, name = fault["loc"] or ("",)
        owner = _part_at(value, outer)
        if isinstance(owner, BaseModel) and (told := _loss_of_field(owner, str(name))):
            return Loss(path_text((*path, *outer, told[0])), told[1])
    return None


def _loss_of_field(owner: BaseModel, name: str) -> tuple[str, str] | None:
    """Return the name of the field that is written or read as `name`, and the reason for its loss."""
    kind = type(owner)
    for computed, info in kind.model_computed_fields.items():
        if name in (computed, info.alias):
            return computed, "the computed field is written, and the model forbids it when read; set extra='ignore'"
    for own_name, field in kind.model_fields.items():
        told = _EXCLUDED if field.exclude else _alias_fault(field)
        if told and name in (own_name, field.serialization_alias, field.validation_alias):
            return own_name, told
    return None


def _part_at(value: Any, path: Sequence[Any]) -> Any:
    for step in path:
        try:
            value = getattr(value, step) if isinstance(step, str) and hasattr(value, step) else value[step]
        except (LookupError, AttributeError, TypeError):
            return None
    return value


def path_text(path: Path) -> str:
    """Return a path as Python code, such as ``card.number`` or ``[2]``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


JsonLike = Mapping[str, "JsonLike"] | Sequence["JsonLike"] | str | int | float | bool | BaseModel | None
"""A JSON value as callers write it: unlike `JsonValue`, a type checker accepts a ``list[str]``, or a pydantic model."""


def as_json(value: Any) -> Any:
    """Return a value with tuples as lists, mappings and pydantic models as dicts, at any depth; others are unchanged.

    Raises:
        ValueError: A part of a model, such as a secret, is lost as JSON.

    Example:
        print(as_json({"pair": (1, 2)}))  # {'pair': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, BaseModel):
        return model_as_json(value)
    return value


def json_value(value: JsonLike) -> JsonValue:
    """Return `as_json` of a value that a type checker knows to be JSON."""
    return cast("JsonValue", as_json(value))
