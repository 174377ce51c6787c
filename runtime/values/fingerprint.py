"""Fingerprints: what makes two things answer alike, as JSON, the same in every process."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import JsonValue

from operad.runtime.values.errors import InputError
from operad.runtime.values.private_modules import public_name


@runtime_checkable
class Fingerprinted(Protocol):
    """Anything that says itself what makes it answer as it does."""

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes it answer as it does, without secrets and without what is so by chance."""
        ...


def fingerprint(value: object) -> JsonValue:
    """The fingerprint of a value: its own where it has one; plain values and collections by content.

    A function counts as its module and qualified name, a `functools.partial` also as what it binds,
    another callable object as its type. Code is not looked at.

    Raises:
        InputError: The value, or one in it, has no fingerprint and no JSON form.
    """
    thing: Any = value
    if isinstance(value, Fingerprinted) and not isinstance(value, type):
        return value.fingerprint()
    if isinstance(value, Enum):
        return fingerprint(value.value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        if all(isinstance(key, str) for key in mapping):
            return {str(key): fingerprint(item) for key, item in mapping.items()}
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [fingerprint(item) for item in cast("Sequence[object]", value)]
    elif isinstance(value, partial):
        bound = cast("partial[Any]", value)
        return [fingerprint(bound.func), fingerprint(bound.args), fingerprint(bound.keywords)]
    elif callable(thing):
        return name_of(thing if hasattr(thing, "__qualname__") else type(thing))
    raise InputError(
        f"{type(thing).__name__} has no JSON form and no fingerprint(), so nothing that depends on it can be told from "
        f"others: {repr(thing)[:100]}"
    )


_OWN_CLASS = re.compile(r"operad(?:\.[a-z_]\w*)*\._?([A-Z]\w*)")


def name_of(thing: object) -> str:
    """The module and qualified name of a class or function; see `lasting`."""
    return lasting(f"{public_name(getattr(thing, '__module__', None))}.{getattr(thing, '__qualname__', None)}")


def lasting(name: str) -> str:
    """A name that outlasts releases: a class of Operad's own is named without its module, which may move.

    >>> lasting("operad.runtime.workflow.map.Map"), lasting("mine.Map")
    ('operad.Map', 'mine.Map')
    >>> lasting("operad.runtime.workflow.workflow._Within")
    'operad.Within'
    """
    own = _OWN_CLASS.fullmatch(name)
    return f"operad.{own[1]}" if own else name
