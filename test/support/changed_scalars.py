"""Values of files with one scalar, list or mapping replaced by a value of another type."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

STRANGE: Sequence[Any] = ("strange", "1000", 7, 2.5, True, None, [], ["a", {"b": 1}], {}, {"a": [1]}, -1, "{{#1.x#}}")
"""Values that take the place of another."""

Path = tuple["str | int", ...]


def scalars(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the scalars in a value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from scalars(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from scalars(each, (*path, number))
    else:
        yield path


def containers(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the lists and mappings in a value."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(each, dict | list):
                yield (*path, key)
                yield from containers(each, (*path, key))


def changed(value: Any, path: Path, strange: Any) -> Any:
    """Return a copy of a value with another value at a path."""
    made = copy.deepcopy(value)
    holder = made
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = copy.deepcopy(strange)
    return made


Field = tuple[Any, tuple[str, ...]]
"""Type of the node, if the field is one of its data, and path of the field without numbers of items."""


def distinct_fields(values: Iterable[Any]) -> dict[Field, tuple[int, Path]]:
    """Return each distinct field of files with a place that has it: the number of the file and the path."""
    found: dict[Field, tuple[int, Path]] = {}
    for number, value in enumerate(values):
        for places in (scalars, containers):
            for path in places(value):
                found.setdefault(_field(value, path), (number, path))
    return found


def _field(value: Any, path: Path) -> Field:
    kind: Any = None
    for step in path:
        if step == "data" and isinstance(value, dict) and isinstance(value["data"], dict):
            kind = value["data"].get("type")
        value = value[step]
    return kind, tuple("*" if isinstance(step, int) else step for step in path)
