"""Fingerprints: JSON values that are equal, in every process, for things that behave alike."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any, cast

from pydantic import BaseModel, JsonValue

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.private_modules import public_name


def fingerprint(value: object) -> JsonValue:
    """Return the fingerprint of a value: of its method `fingerprint` if it has one, otherwise made from its content.

    The method returns the attributes that determine the object's answers, without secrets and random values.
    A pydantic model or a dataclass is represented by its class and its fields.
    A function is represented by its module and qualified name, a `functools.partial` also by its bound arguments,
    another callable object by its type. Source code is not compared.

    Raises:
        InputError: The value, or a part of it, has no fingerprint and no JSON form.
    """
    anything: Any = value
    own = getattr(anything, "fingerprint", None)
    if callable(own) and not isinstance(value, type):
        return cast("JsonValue", own())
    if isinstance(value, Enum):
        return fingerprint(value.value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if (fields := _fields_of(value)) is not None:
        return {"type": name_of(cast("type", anything.__class__)), "fields": fingerprint(fields)}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in cast("Mapping[object, object]", value)):
        return {key: fingerprint(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [fingerprint(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, partial):
        bound = cast("partial[Any]", value)
        return [fingerprint(bound.func), fingerprint(bound.args), fingerprint(bound.keywords)]
    if callable(anything):
        return name_of(anything if hasattr(anything, "__qualname__") else type(anything))
    raise InputError(
        f"{type(anything).__name__} has no JSON form and no fingerprint(), so its values cannot be distinguished from "
        f"each other: {repr(anything)[:100]}"
    )


def _fields_of(value: object) -> Mapping[str, object] | None:
    """Return the fields of a pydantic model or of a dataclass; None for other values."""
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    return None


_OWN_CLASS = re.compile(r"operad(?:\.[a-z_]\w*)*\._?([A-Z]\w*)")


def name_of(thing: object) -> str:
    """Return the module and qualified name of a class or function; see `stable_name`."""
    return stable_name(f"{public_name(getattr(thing, '__module__', None))}.{getattr(thing, '__qualname__', None)}")


def stable_name(name: str) -> str:
    """Return a name that is stable across releases: classes of Operad lose their module, which may change.

    >>> stable_name("operad.runtime.workflow.map.Map"), stable_name("mine.Map")
    ('operad.Map', 'mine.Map')
    >>> stable_name("operad.runtime.workflow.workflow._Within")
    'operad.Within'
    """
    own_class = _OWN_CLASS.fullmatch(name)
    return f"operad.{own_class[1]}" if own_class else name
