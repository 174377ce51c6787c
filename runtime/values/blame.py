"""Operators at fault, as callers name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast


class HasId(Protocol):
    """Object with an operator id."""

    def get_id(self) -> str:
        """Return the id."""
        ...


Blamable = str | HasId | Callable[..., Any]
"""Operator at fault: its id, the operator itself, or the function from which it was created."""


Blame = Sequence[Blamable] | Blamable
"""Operators at fault, or one."""


def ids_of_blamed(blame: Blame) -> tuple[str, ...]:
    """Return the ids of the blamed operators; the id of a function is its name.

    Raises:
        InputError: A blamed object is not a `Blamable`.
    """
    several = cast("Sequence[Any]", blame if isinstance(blame, list | tuple) else (blame,))
    return tuple(map(_id_of, several))


def _id_of(blamed: Any) -> str:
    if isinstance(blamed, str):
        return blamed
    if not isinstance(blamed, type):
        get_id = getattr(blamed, "get_id", None)
        if callable(get_id):
            return str(get_id())
        name = getattr(blamed, "__name__", None)
        if callable(blamed) and isinstance(name, str):
            return name
    from operad.runtime.values.errors import InputError  # imported late: that module imports this one

    raise InputError(
        f"FaultError(blame=…) expects operators, functions or ids; got {blamed!r:.100} ({type(blamed).__name__})"
    )
