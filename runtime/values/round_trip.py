"""Exactness of values as JSON: whether a value that was written is the same when it is read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.values.output import Output, adapter, validated

_Path = tuple[Any, ...]


class Loss(NamedTuple):
    """Part of a value that its JSON form does not hold.

    Attributes:
        place: Path to the part, such as ``.card.number`` or ``[2]``; empty for the whole value.
        text: The reason, and what to write instead.
    """

    place: str
    text: str


def loss_of(value: Any, plain: Any, output: Output[Any]) -> Loss | None:
    """Return the first part of a value that its JSON form does not hold; None if the form is exact.

    The form is read back as the declared type, and must then be equal to the value; lists and tuples of the same items
    count as equal, as do numbers. Without a declared type, each object inside is read back as its own class, so that
    only secrets, excluded fields and the like are losses: a reader that names the class gets the value.

    Args:
        value: The value, as a function returned it.
        plain: Its JSON form.
        output: The declared type.

    Raises:
        ValueError: The form does not fit the declared type.
    """
    if not output.is_declared:
        return None if _equal(value, plain) else _loss_by_class(value, plain, ())
    try:
        loss = _first_loss(value, output.read_value(plain), ())
        # JSON values that are no instance of the type, such as a dict for a model, are converted as the type says
        return None if loss and _equal(value, plain) and not output.accepts(value) else loss
    except ValueError as error:
        invalid = error.__cause__
        if isinstance(invalid, ValidationError) and (loss := _loss_in_reading(value, invalid)) is not None:
            return loss
        raise


def _loss_by_class(value: Any, plain: Any, path: _Path) -> Loss | None:
    """Return the first loss in a value without a declared type, given its JSON form."""
    if _equal(value, plain):
        return None
    if isinstance(value, Mapping) and isinstance(plain, Mapping):
        given, written = cast("Mapping[Any, Any]", value), cast("Mapping[str, Any]", plain)
        if len(given) != len(written):
            return Loss(_text(path), "two of its keys have the same text in JSON; use other keys")
        pairs: Iterable[Any] = ((key, given[key], part) for key, part in zip(given, written.values(), strict=True))
    elif isinstance(value, list | tuple | set | frozenset) and isinstance(plain, list):
        pairs = ((place, *pair) for place, pair in enumerate(zip(cast("Iterable[Any]", value), plain, strict=True)))
    else:
        reading = _reader_of(type(value))
        if reading is None:
            return None
        try:
            return _first_loss(value, validated(reading, plain), path)
        except ValidationError as error:
            return _loss_in_reading(value, error, path) or Loss(_text(path), f"it cannot be read back: {error}")
    return next(filter(None, (_loss_by_class(each, part, (*path, key)) for key, each, part in pairs)), None)


@lru_cache(maxsize=256)
def _reader_of(kind: type) -> TypeAdapter[Any] | None:
    try:
        return adapter(kind)
    except InputError:  # pydantic writes some types that it cannot read
        return None


def _first_loss(value: Any, back: Any, path: _Path, owner: Any = None) -> Loss | None:
    """Return the first part of a value that differs from what was read back.

    Args:
        value: The value.
        back: The value that was read back.
        path: Path to both.
        owner: The object of which both are the last field of the path.
    """
    if _equal(value, back):
        return None
    if type(value) is type(back):
        parts = _fields_of(value)
        if parts is not None:
            others = _fields_of(back) or {}
            losses = (_first_loss(part, others.get(name), (*path, name), value) for name, part in parts.items())
            return next(filter(None, losses), None)  # equal fields, as of a model with private attributes
        if isinstance(value, Mapping) and value.keys() == back.keys():
            given = cast("Mapping[Any, Any]", value)
            return next(filter(None, (_first_loss(given[key], back[key], (*path, key)) for key in given)), None)
        if type(value).__eq__ is object.__eq__ and to_jsonable_python(value) == to_jsonable_python(back):
            return None
    if isinstance(value, list | tuple) and isinstance(back, list | tuple) and _is_same_kind(value, back):
        items = zip(cast("Sequence[Any]", value), cast("Sequence[Any]", back), strict=True)
        return next(filter(None, (_first_loss(*pair, (*path, place)) for place, pair in enumerate(items))), None)
    return Loss(_text(path), _reason(value, back, path, owner))


def _is_same_kind(value: Any, back: Any) -> bool:
    """Return True for lists and tuples of equal length, of which neither has a class of its own that was lost."""
    return len(value) == len(back) and (type(value) is type(back) or type(value) in (list, tuple))


def _equal(value: Any, back: Any) -> bool:
    try:
        return bool(value == back) or (value != value and back != back)  # noqa: PLR0124 - NaN
    except Exception:  # noqa: BLE001 - a user's `__eq__`, or an array
        return False


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a model or dataclass by name; None for other values."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields} | (value.model_extra or {})
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    return None


def _reason(value: Any, back: Any, path: _Path, owner: Any) -> str:
    field = type(owner).model_fields.get(path[-1]) if isinstance(owner, BaseModel) else None
    if isinstance(value, SecretStr | SecretBytes):
        return "secrets are written as asterisks; give the name of the secret, or pass it to the run as deps"
    if field is not None and field.exclude:
        return "the field is excluded from the JSON form; remove exclude=True, or leave the field at its default"
    if field is not None and _alias_fault(field):
        return _alias_fault(field)
    return f"as JSON, {short_repr(value)} becomes {short_repr(back)}; annotate it with its type, or convert it to JSON values"


def _alias_fault(field: Any) -> str:
    """Return the fault of a field that is written under a name under which it is not read; an empty text without one."""
    written, read = field.serialization_alias, field.validation_alias
    if written == read or (written is None and read is None):
        return ""
    return f"the field is written as {written!r} and read as {read!r}; give it one alias: Field(alias={written or read!r})"


def _loss_in_reading(value: Any, error: ValidationError, path: _Path = ()) -> Loss | None:
    """Return the loss because of which a value's JSON form cannot be read as its own class; None for another fault."""
    for fault in error.errors(include_url=False):
        place = tuple(fault["loc"])
        owner = _part_at(value, place[:-1])
        if not isinstance(owner, BaseModel) or not place:
            continue
        kind, name = type(owner), place[-1]
        if name in kind.model_computed_fields or any(
            name == computed.alias for computed in kind.model_computed_fields.values()
        ):
            told = "the computed field is written, and the model forbids it when read; set extra='ignore' in its model_config"
            return Loss(_text((*path, *place)), told)
        for field_name, field in kind.model_fields.items():
            if name in (field_name, field.serialization_alias, field.validation_alias):
                if field.exclude:
                    return Loss(_text((*path, *place[:-1], field_name)), _reason(None, None, (field_name,), owner))
                if told := _alias_fault(field):
                    return Loss(_text((*path, *place[:-1], field_name)), told)
    return None


def _part_at(value: Any, path: Sequence[Any]) -> Any:
    for step in path:
        try:
            value = value[step] if isinstance(value, Mapping | Sequence) else getattr(value, step)
        except (LookupError, AttributeError, TypeError):
            return None
    return value


def _text(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
