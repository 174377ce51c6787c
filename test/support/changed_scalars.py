"""Values of files with one scalar, list or mapping replaced by a value of another type."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
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


def sampled(
    value: Any, chance: random.Random, count: int, places: Callable[[Any], Iterator[Path]] = scalars
) -> Iterator[tuple[Path, Any, Any]]:
    """Yield changes of a value, each as the path, the value put there and the whole."""
    paths = list(places(value))
    for _ in range(count if paths else 0):
        path, strange = chance.choice(paths), chance.choice(STRANGE)
        yield path, strange, changed(value, path, strange)
