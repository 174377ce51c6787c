"""Foreign values, taken as the wanted shape; empty where they have another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

Fields = dict[str, Any]


def fields_of(value: Any) -> Fields:
    """A mapping."""
    if isinstance(value, dict):
        return cast("Fields", value)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """A list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def each_of(value: Any) -> list[Fields]:
    """The mappings in a list."""
    return [fields_of(item) for item in list_of(value) if isinstance(item, dict)]


def pairs_of(value: Any, size: int = 2) -> list[list[Any]]:
    """The lists of so many values in a list."""
    return [item for item in map(list_of, list_of(value)) if len(item) == size]


def texts_of(value: Any) -> tuple[str, ...]:
    """The texts of a list of nothing else."""
    texts = tuple(each for each in list_of(value) if isinstance(each, str))
    return texts if len(texts) == len(list_of(value)) else ()


def text_of(value: Any) -> str:
    """A value as text; of what is none, the same one for every order of its keys."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


def is_selector(value: Any) -> bool:
    """Return whether a value is a list of two texts, as ``[variable, id]`` is."""
    return (
        isinstance(value, list) and len(list_of(value)) == 2 and all(isinstance(each, str) for each in list_of(value))
    )
