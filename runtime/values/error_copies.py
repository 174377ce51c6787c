"""Copies of errors: pickled for another process, or copied in this one, with their attributes and causes.

An exception is pickled by default as its class and its arguments, without causes. Many cannot be read again, because
their constructors take other arguments. Each part of an error is therefore pickled and read once in advance, and a part
that does not survive is replaced by its description.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from operad.runtime.values.text import shortened

E = TypeVar("E", bound=BaseException)

Described = Callable[[BaseException], BaseException]
"""Function that returns an error with the description of another one, which cannot be pickled."""

_Pickled = tuple[bytes, "_Pickled | None"]
"""A pickled error, and its cause, unless the first contains that."""

_KIND = "_combined_with"


@cache
def combined(base: type[E], kind: type[BaseException]) -> type[E]:
    """Return a class derived from `base` and another type of error; `base` itself if they cannot be combined."""
    members = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        _KIND: kind,
        "__getattr__": _cause_attribute,
    }
    try:
        both = type(base.__name__, (base, kind), members)
        both.__new__(both, "")
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return base
    return cast("type[E]", both)


def _cause_attribute(error: BaseException, name: str) -> Any:
    """Return an attribute of the cause; in another process, it may be the context only: see `_restored`."""
    if not name.startswith("__"):
        for cause in (error.__cause__, error.__context__):
            if cause is not None and hasattr(cause, name):
                return getattr(cause, name)
    raise AttributeError(f"{type(error).__name__!r} object has no attribute {name!r}")


def reduced(error: BaseException, described: Described) -> tuple[Any, ...]:
    """Return the parts of an error for pickle, as `__reduce__` of its class does.

    Args:
        described: Function that returns an error in place of a cause that cannot be pickled.
    """
    kind = cast("Any", type(error))
    other: Any = getattr(kind, _KIND, None)
    if other is not None:
        kind, other = kind.__bases__[0], other if _pickled(other) else None
    while _pickled(kind) is None:  # a class inside a function
        kind = kind.__bases__[0]
    return _restored, (kind, other, _pickled_args(error), _pickled_attributes(error), _pickled_cause(error, described))


def copied(error: E, memo: dict[int, Any] | None = None) -> E:
    """Return a copy of an error with the same cause; a deep one with a `memo`, as far as its attributes can be copied."""
    kind = type(error)
    new = kind.__new__(kind, *error.args)
    BaseException.__init__(new, *error.args)
    attributes = vars(error)
    if memo is not None:
        memo[id(error)] = new
        attributes = {name: _deep(value, memo) for name, value in attributes.items()}
    vars(new).update(attributes)
    new.__cause__, new.__context__ = error.__cause__, error.__context__
    new.__suppress_context__ = error.__suppress_context__
    return new


def _deep(value: object, memo: dict[int, Any]) -> object:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - a lock, for example
        return value


def _restored(
    kind: type[BaseException],
    other: type[BaseException] | None,
    args: tuple[object, ...],
    attributes: Mapping[str, bytes],
    cause: _Pickled | None,
) -> BaseException:
    """Return the error of which `reduced` returned the parts."""
    kind = kind if other is None else combined(kind, other)
    error = kind.__new__(kind, *args)
    BaseException.__init__(error, *args)
    vars(error).update({name: pickle.loads(value) for name, value in attributes.items()})  # noqa: S301 - of `reduced`
    if cause is not None:
        # Pools of processes replace the cause by the traceback of the other process; the context stays.
        error.__cause__ = error.__context__ = _with_causes(cause)
    return error


def _with_causes(pickled: _Pickled) -> BaseException:
    error = cast("BaseException", pickle.loads(pickled[0]))  # noqa: S301 - of `reduced`
    if pickled[1] is not None:
        error.__cause__ = _with_causes(pickled[1])
    return error


def _pickled_cause(error: BaseException, described: Described, seen: tuple[BaseException, ...] = ()) -> _Pickled | None:
    cause = error.__cause__
    if cause is None or cause in seen:
        return None
    pickled = _pickled(cause)
    if pickled is not None and type(cause).__reduce__ is type(described(cause)).__reduce__:
        return pickled, None  # it pickles its own cause
    pickled = pickled or cast("bytes", _pickled(described(cause)))
    return pickled, _pickled_cause(cause, described, (*seen, cause))


def _pickled_args(error: BaseException) -> tuple[object, ...]:
    return tuple(arg if _pickled(arg) else _text_of(arg) for arg in error.args)


def _pickled_attributes(error: BaseException) -> dict[str, bytes]:
    pickled: dict[str, bytes] = {}
    for name, value in vars(error).items():
        kept = _pickled(value)
        if kept is None and isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            kept = _pickled({key: each if _pickled(each) else _text_of(each) for key, each in entries})
        pickled[name] = kept or pickle.dumps(_text_of(cast("object", value)))
    return pickled


def _text_of(value: object) -> str:
    return shortened(repr(value), 200)


def _pickled(value: object) -> bytes | None:
    """Return a pickled value; None if it cannot be pickled, or cannot be read again."""
    try:
        pickled = pickle.dumps(value)
        pickle.loads(pickled)  # noqa: S301 - it has just been pickled
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return None
    return pickled
