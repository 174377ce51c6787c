"""Remaining time and memory of a template."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from time import monotonic
from types import BuiltinMethodType
from typing import Any, cast

from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

VALUE = 64
"""Size of a value in bytes, without its characters."""

_CHARGED_TOGETHER = 100_000
"""Number of bytes that are charged together."""


class LimitError(TemplateRuntimeError):
    """A template reached a limit."""


class Budget:
    """Remaining time and memory of a template.

    Args:
        seconds: Time limit in seconds, from now.
        memory_bytes: Maximum total size of the created values.

    Attributes:
        left: Number of bytes that can still be charged.
    """

    def __init__(self, seconds: float, memory_bytes: int) -> None:
        self._seconds = seconds
        self._memory = memory_bytes
        self.left = memory_bytes
        self._end = monotonic() + seconds

    def step(self) -> None:
        """Check the clock.

        Raises:
            LimitError: The time limit is exceeded.
        """
        if monotonic() > self._end:
            raise LimitError(f"it takes longer than {self._seconds:g} s, the limit seconds; let it do less")

    def pay(self, size: int) -> None:
        """Charge a number of bytes.

        Raises:
            LimitError: The memory limit is exceeded.
        """
        self.left -= size
        if self.left < 0:
            raise LimitError(f"it makes more than {self._memory:,} bytes of values, the limit memory_bytes")

    def pay_for(self, value: object) -> None:
        """Charge a value with all values inside it, as often as they occur.

        Raises:
            LimitError: The value is too large.
            TypeError: The value contains an object that is not a plain value.
        """
        pending: list[object] = [value]  # depth first, so that the list stays short
        cost = 0
        while pending:
            item = pending.pop()
            cost += VALUE
            if isinstance(item, str):
                cost += len(item)
            elif isinstance(item, int):
                if item.bit_length() > MOST_BITS:
                    raise LimitError(f"a whole number of {item.bit_length():,} bits is too large")
            elif isinstance(item, list | tuple):
                pending.extend(cast("Sequence[object]", item))
            elif isinstance(item, dict):
                pairs = cast("dict[object, object]", item)
                pending.extend(pairs)
                pending.extend(pairs.values())
            elif item is not None and not isinstance(item, float | range | Undefined):
                raise TypeError(no_plain_value(item))
            if cost > _CHARGED_TOGETHER:
                self.pay(cost)
                self.step()
                cost = 0
        self.pay(cost)

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, and check the clock at each."""
        for item in items:
            self.step()
            yield item

    def paid(self, value: Any) -> Any:
        """Return a created value after charging it; items of an iterator are charged when they are yielded.

        Raises:
            LimitError: The value is too large.
            TypeError: The value is not a plain value.
        """
        match value:
            case Markup():
                value = str(value)
            case Iterator():
                return self._charged_items(cast("Iterator[Any]", value))
            case KeysView() | ValuesView() | ItemsView():
                value = list(cast("Iterable[Any]", value))
            case _:
                pass
        self.pay_for(value)
        return value

    def _charged_items(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            self.pay_for(item)
            yield item


def no_plain_value(value: object) -> str:
    """Return the message for a value that templates may not contain."""
    if isinstance(value, BuiltinMethodType):
        name = value.__name__
        return f"{name!r} is a method here: write ['{name}'] for a value of that name, or {name}() to call it"
    if isinstance(value, Iterator) and not isinstance(value, OWN):
        return "a filter that yields values one by one is not a plain value: add |list"
    return f"{type(value).__name__} is not a plain value"


OWN = (Cycler, Joiner, LoopContext, Macro, Namespace)
"""Types of Jinja's own objects, which only loops, calls and attributes may use."""

MOST_BITS = 13_000
"""Maximum size of an integer, in bits: Python does not print more than about 4,000 digits."""
