"""Values as those of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from operad.runtime.values.document import MAX_DEPTH
from operad.runtime.values.errors import InvalidError, Issue


def plain(value: Any, depth: int = 0) -> Any:
    """A value as one of JSON's."""
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
    """Return whether a value is one of JSON's already."""
    return all(type(each) in (dict, list, str, int, float, bool, type(None)) for each in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """A value and all in it; keys, too."""
    open_ = [value]
    while open_:
        yield (value := open_.pop())
        if isinstance(value, Mapping):
            open_ += [each for pair in cast("Mapping[Any, Any]", value).items() for each in pair]
        elif isinstance(value, list | tuple):
            open_ += cast("Sequence[Any]", value)
