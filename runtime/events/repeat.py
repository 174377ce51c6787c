"""Repeated events: events of work done earlier, or in another process, whose listeners may have received them.

Listeners that count or export events as they happen skip the repeated ones.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repeat:
    """Properties of repeated events.

    Attributes:
        traced: True if spans were written for the events when they happened.
    """

    traced: bool


traced: ContextVar[bool] = ContextVar("operad_traced", default=False)
"""True if spans are written for the events of this context."""

_repeat: ContextVar[Repeat | None] = ContextVar("operad_repeat", default=None)


@contextmanager
def repeating(repeat: Repeat) -> Generator[None, None, None]:
    """Mark the events written inside this context manager as repeated."""
    token = _repeat.set(repeat)
    try:
        yield
    finally:
        _repeat.reset(token)


def repeated() -> Repeat | None:
    """Return the properties of the current event if it is repeated; None if it is new."""
    return _repeat.get()
