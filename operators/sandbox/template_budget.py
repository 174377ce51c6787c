"""Time and memory that a template may still use."""

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
"""Bytes that a value is counted as, its characters aside."""

_AT_ONCE = 100_000
"""Bytes that are paid for together."""


class LimitError(TemplateRuntimeError):
    """A template reached a limit."""


class Budget:
    """Remaining time and memory of a template.

    Args:
        seconds: How long it may take, from now.
        memory_bytes: How much it may make.

    Attributes:
        left: The bytes that it may still make.
    """

    def __init__(self, seconds: float, memory_bytes: int) -> None:
        self._seconds = seconds
        self._memory = memory_bytes
        self.left = memory_bytes
        self._end = monotonic() + seconds

    def step(self) -> None:
        """Look at the clock.

        Raises:
            LimitError: Time is over.
        """
        if monotonic() > self._end:
            raise LimitError(f"it takes longer than {self._seconds:g} s, the limit seconds; let it do less")

    def pay(self, size: int) -> None:
        """Take bytes from what is left.

        Raises:
            LimitError: There are not as many.
        """
        self.left -= size
        if self.left < 0:
            raise LimitError(f"it makes more than {self._memory:,} bytes of values, the limit memory_bytes")

    def pay_for(self, value: object) -> None:
        """Pay for a value and all in it, a value that stands in it twice twice.

        Raises:
            LimitError: It is too large.
            TypeError: There is something in it that JSON does not have.
        """
        waiting: list[object] = [value]  # the last first, so that it holds little more than one way down
        cost = 0
        while waiting:
            one = waiting.pop()
            cost += VALUE
            if isinstance(one, str):
                cost += len(one)
            elif isinstance(one, int):
                if one.bit_length() > MOST_BITS:
                    raise LimitError(f"a whole number of {one.bit_length():,} bits is too large")
            elif isinstance(one, list | tuple):
                waiting.extend(cast("Sequence[object]", one))
            elif isinstance(one, dict):
                pairs = cast("dict[object, object]", one)
                waiting.extend(pairs)
                waiting.extend(pairs.values())
            elif one is not None and not isinstance(one, float | range | Undefined):
                raise TypeError(no_plain_value(one))
            if cost > _AT_ONCE:
                self.pay(cost)
                self.step()
                cost = 0
        self.pay(cost)

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a look at the clock at each."""
        for item in items:
            self.step()
            yield item

    def paid(self, value: Any) -> Any:
        """A value that was made, paid for; what yields values pays for each when it comes.

        Raises:
            LimitError: It is too large.
            TypeError: A template cannot use it.
        """
        match value:
            case Markup():
                value = str(value)
            case Iterator():
                return self._paid_one_by_one(cast("Iterator[Any]", value))
            case KeysView() | ValuesView() | ItemsView():
                value = list(cast("Iterable[Any]", value))
            case _:
                pass
        self.pay_for(value)
        return value

    def _paid_one_by_one(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            self.pay_for(item)
            yield item


def no_plain_value(value: object) -> str:
    """Return why a value is not one that templates may hold."""
    if isinstance(value, BuiltinMethodType):
        name = value.__name__
        return f"{name!r} is a method here: write ['{name}'] for a value of that name, or {name}() to call it"
    if isinstance(value, Iterator) and not isinstance(value, OWN):
        return "a filter that yields values one by one is not a plain value: add |list"
    return f"{type(value).__name__} is not a plain value"


OWN = (Cycler, Joiner, LoopContext, Macro, Namespace)
"""Objects of Jinja's own: only the loop, a call, and an attribute may use them."""

MOST_BITS = 13_000
"""Of a whole number: more digits than about 4,000 Python does not print."""
