"""Estimated sizes of the values that filters, methods and operators of a template would create."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from operad.operators.sandbox.template_budget import MOST_BITS, VALUE, Budget, LimitError

_WIDEST = 10_000
"""Maximum width, precision or indentation."""


def width_of(number: int | str) -> int:
    """Return a width as a positive integer.

    Raises:
        LimitError: The width is larger than `_WIDEST`.
    """
    if len(str(number)) > len(str(_WIDEST)) or abs(int(number)) > _WIDEST:
        raise LimitError(f"{str(number)[:20]} is too wide; the maximum is {_WIDEST:,}")
    return abs(int(number))


def size_of(budget: Budget, value: object) -> int:
    """Charge a value and return its size in bytes."""
    before = budget.left
    budget.pay_for(value)
    return before - budget.left


def pay_for_product(budget: Budget, left: Any, right: Any) -> None:
    """Charge the product of two values: the size of a repeated text or list."""
    if isinstance(left, int) and isinstance(right, int):
        return  # both factors are bounded, and so is the product
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int) and times > 1:
            budget.pay(size_of(budget, cast("object", value)) * times)


def check_power(base: Any, power: Any) -> None:
    """Raise LimitError if a power has too many digits."""
    if isinstance(base, int) and isinstance(power, int) and abs(base) > 1 and base.bit_length() * power > MOST_BITS:
        raise LimitError(
            f"a number of {base.bit_length():,} bits to a power of {power.bit_length():,} bits is too large"
        )


_PERCENT = re.compile(r"%(?:\([^()]*(\()?[^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")


def pay_for_percent(budget: Budget, text: str, values: Any) -> None:
    """Charge the estimated size of a text formatted by `%`."""
    fields = _PERCENT.findall(text)
    for parenthesis, *widths in fields:
        if parenthesis:
            raise LimitError("a name in a format cannot contain '(' here")
        if "*" in widths:
            raise LimitError("a width in a format cannot be '*' here; write the number")
        budget.pay(sum(width_of(width) for width in widths if width))
    budget.pay(size_of(budget, values) * len(fields) + len(text))


def by_length(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """Charge the length of a text: most methods and filters return a text of about the same length."""
    if isinstance(value, str):
        budget.pay(len(value))


def _by_parts(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """Charge a value per character, for methods that split a text into many values or are slow."""
    if isinstance(value, str):
        budget.pay(len(value) * VALUE)


def _by_width(budget: Budget, value: Any, width: Any = 80, *args: Any, **kwargs: Any) -> None:
    if isinstance(width, int):
        budget.pay(width_of(width))


def _expandtabs_cost(budget: Budget, value: Any, tabsize: Any = 8) -> None:
    budget.pay(str(value).count("\t") * width_of(tabsize))


def _replace_cost(budget: Budget, value: Any, old: Any = "", new: Any = "", *args: Any, **kwargs: Any) -> None:
    text, old, new = str(value), str(old), str(new)
    budget.pay((text.count(old) if old else len(text) + 1) * len(new) + len(text))


def _indent_cost(budget: Budget, value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> None:
    each = len(width) if isinstance(width, str) else width_of(width)
    budget.pay((len(str(value).splitlines()) + 1) * each)


def _join_filter_cost(budget: Budget, value: Any, d: Any = "", *args: Any, **kwargs: Any) -> None:
    budget.pay(len(value) * len(str(d)))


def _join_method_cost(budget: Budget, text: str, items: Any) -> None:
    budget.pay(len(items) * len(text))


_RUNS = re.compile(r"\s+|\S+")
"""Words, and the space between them."""


def _wordwrap_cost(
    budget: Budget, value: Any, width: Any = 79, break_long_words: Any = True, wrapstring: Any = None, *args: Any
) -> None:
    text, width = str(value), max(1, width)
    _by_parts(budget, text)
    lines = 2 * len(text) // width + len(text.splitlines()) + 1
    budget.pay(lines * len(wrapstring or "\n"))
    longest = max(map(len, _RUNS.findall(text)), default=0)
    budget.pay(longest * longest // width)  # the rest of a word that is too long is copied for each line


def _urlize_cost(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    text = str(value)
    _by_parts(budget, text)
    most_links = text.count(".") + text.count(":")
    budget.pay(most_links * sum(len(str(each)) for each in (*args, *kwargs.values())))


def _batch_cost(budget: Budget, value: Any, linecount: Any = 1, fill_with: Any = None) -> None:
    _by_parts(budget, value)
    budget.pay(VALUE * width_of(linecount))


def _round_cost(budget: Budget, value: Any, precision: Any = 0, *args: Any, **kwargs: Any) -> None:
    if abs(precision) > 300:
        raise LimitError(f"a precision of {precision} is too large")


def _tojson_cost(budget: Budget, value: Any, indent: Any = None) -> None:
    if indent is None:
        return
    if not 0 <= int(indent) <= 16:
        raise LimitError(f"an indentation of {indent} is too large; the maximum is 16")
    lines = size_of(budget, value) // VALUE
    budget.pay(lines * _depth(value) * int(indent))


def _depth(value: Any) -> int:
    """Return the number of levels of lists and dicts in a value, which was charged before."""
    depth, level = 0, [value]
    while level := [item for each in level if isinstance(each, list | tuple | dict) for item in _items(each)]:
        depth += 1
    return depth


def _items(value: Any) -> Iterable[Any]:
    return cast("dict[Any, Any]", value).values() if isinstance(value, dict) else value


def _sum_cost(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TypeError("sum adds numbers only")


def _format_cost(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    pay_for_percent(budget, str(value), kwargs or args)


ESTIMATES: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(("batch", "slice"), _batch_cost),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _by_width),
    **dict.fromkeys(
        "list map max min partition reject rpartition rsplit select sort split splitlines striptags title "
        "unique wordcount".split(),
        _by_parts,
    ),
    "expandtabs": _expandtabs_cost,
    "format": _format_cost,
    "indent": _indent_cost,
    "join": _join_filter_cost,
    "pprint": Budget.pay_for,
    "replace": _replace_cost,
    "round": _round_cost,
    "sum": _sum_cost,
    "tojson": _tojson_cost,
    "urlize": _urlize_cost,
    "wordwrap": _wordwrap_cost,
}
"""Costs of text methods and filters, paid before they run; their results are paid for afterwards."""

METHOD_ESTIMATES: Mapping[str, Callable[..., None]] = {**ESTIMATES, "join": _join_method_cost}
