"""Check of keyword arguments: an unknown one is an error with the nearest name and the known ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from operad.runtime.values.errors import InputError, did_you_mean

F = TypeVar("F", bound=Callable[..., None])


def known_arguments(init: F) -> F:
    """Make a constructor raise InputError instead of TypeError for unknown keyword arguments.

    Its signature remains the same, for type checkers and for `inspect.signature`.
    """
    known = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        refuse_unknown(f"{type(self).__name__}(…)", given, known)
        init(self, *args, **given)

    return cast("F", checked)


def refuse_unknown(called: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse keyword arguments that do not exist.

    Args:
        called: The call, for the error.
        given: Names of the given arguments.
        known: Names of all arguments.

    Raises:
        InputError: An argument is unknown; the message names the nearest known argument and all others.
    """
    if unknown := [f"{name!r}{did_you_mean(name, known)}" for name in given if name not in known]:
        raise InputError(f"{called} has no argument {', '.join(unknown)}; it has: {', '.join(known)}")
