"""Wrong arguments: errors for unknown ones, and the text of wrong values in errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.near_names import did_you_mean
from operad.runtime.values.text import shortened


class ArgumentError(InputError, ValueError):
    """A constructor was called with unknown, missing or wrong arguments."""


F = TypeVar("F", bound=Callable[..., None])


def known_arguments(init: F) -> F:
    """Make a constructor raise ArgumentError instead of TypeError for unknown and missing arguments.

    Its signature remains the same, for type checkers and for `inspect.signature`.
    """
    parameters = list(inspect.signature(init).parameters.values())[1:]
    known = [parameter.name for parameter in parameters]
    positional = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        if unknown := [name for name in given if name not in known]:
            names = dict.fromkeys([*_names_in_subclasses(self, checked), *known])
            raise unknown_arguments(f"{type(self).__name__}(…)", unknown, list(names))
        if doubled := [name for name in positional[: len(args)] if name in given]:
            raise ArgumentError(
                f"{type(self).__name__}(…) got {doubled[0]!r} twice: by position and by name; the positional arguments "
                f"are {', '.join(positional)}"
            )
        if missing := [name for name in required[len(args) :] if name not in given]:
            raise ArgumentError(f"{type(self).__name__}(…): {', '.join(missing)} missing")
        init(self, *args, **given)

    return cast("F", checked)


def _names_in_subclasses(instance: object, base_init: object) -> Iterator[str]:
    """Yield the names of the arguments that subclasses add to a constructor and do not pass on."""
    for each in type(instance).__mro__:
        init = vars(each).get("__init__")
        if init is base_init:
            return
        if inspect.isfunction(init):
            parameters = list(inspect.signature(init).parameters.values())[1:]
            yield from (p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def refuse_unknown(called: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse keyword arguments that do not exist.

    Args:
        called: The call, for the error.

    Raises:
        ArgumentError: An argument is unknown; the message names the nearest known argument and all others.
    """
    if unknown := [name for name in given if name not in known]:
        raise unknown_arguments(called, unknown, known)


def unknown_arguments(called: str, unknown: Iterable[str], known: Sequence[str]) -> ArgumentError:
    """Return the error of a call with unknown arguments."""
    names = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in unknown)
    return ArgumentError(f"{called} has no argument {names}; it has: {', '.join(known)}")


def short_repr(value: object) -> str:
    """Return the text of a value of a wrong type for error messages: its shortened `repr` and its type."""
    kind = type(value).__name__
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's `__repr__`, or a number of too many digits
        return f"an instance of {kind}"
    if text.startswith("<") and " at 0x" in text:  # the address of an object does not help the reader
        name = getattr(value, "__qualname__", None)
        return f"the {kind} {name}" if name else f"an instance of {kind}"
    return f"{shortened(text, 60)} ({kind})"
