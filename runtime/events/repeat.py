"""Events that are told once more: of work that was done earlier, or in another process, where others may have heard them.

Who counts what happens, or writes it down as it happens, passes over what others have.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repeat:
    """What is known of events that are told once more.

    Attributes:
        traced: Whether spans were written of them when they happened.
    """

    traced: bool


traced: ContextVar[bool] = ContextVar("operad_traced", default=False)
"""Whether spans are written of what happens in this context."""

_repeat: ContextVar[Repeat | None] = ContextVar("operad_repeat", default=None)


@contextmanager
def repeating(repeat: Repeat) -> Generator[None, None, None]:
    """Meanwhile, events are told once more."""
    token = _repeat.set(repeat)
    try:
        yield
    finally:
        _repeat.reset(token)


def repeated() -> Repeat | None:
    """What is known of the event that is being told, if it is told once more; None if it happens now."""
    return _repeat.get()
