"""Check of keyword arguments: an unknown one is an error with the nearest name and the known ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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
        if unknown := [name for name in given if name not in known]:
            told = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in unknown)
            raise InputError(f"{type(self).__name__}(…) has no argument {told}; it has: {', '.join(known)}")
        init(self, *args, **given)

    return cast("F", checked)
