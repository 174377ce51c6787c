"""Conversion of values to JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from operad.runtime.values.document import MAX_DEPTH
from operad.runtime.values.errors import InvalidError, Issue


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as a value of JSON; other types become texts or lists.

    Raises:
        InvalidError: The value is nested too deep.
    """
    if depth > MAX_DEPTH - 20:
        raise InvalidError(
            "the workflow", [Issue("depth", f"values in it are nested deeper than {MAX_DEPTH - 20} levels")]
        )
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def is_plain(value: Any) -> bool:
    """Return True if a value consists of JSON types only."""
    return all(type(each) in (dict, list, str, int, float, bool, type(None)) for each in _with_descendants(value))


def _with_descendants(value: Any) -> Iterator[Any]:
    """Yield a value and all values and keys inside it."""
    stack = [value]
    while stack:
        yield (value := stack.pop())
        if isinstance(value, Mapping):
            stack += [each for pair in cast("Mapping[Any, Any]", value).items() for each in pair]
        elif isinstance(value, list | tuple):
            stack += cast("Sequence[Any]", value)
