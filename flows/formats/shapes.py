"""Values of foreign files, taken as a wanted type; empty if they have another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

Fields = dict[str, Any]


def fields_of(value: Any) -> Fields:
    """Return a mapping as a dictionary; an empty one for any other value."""
    if isinstance(value, dict):
        return cast("Fields", value)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list; an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def each_of(value: Any) -> list[Fields]:
    """Return the mappings in a list; none for any other value."""
    return [fields_of(item) for item in list_of(value) if isinstance(item, dict)]


def pairs_of(value: Any, size: int = 2) -> list[list[Any]]:
    """Return the lists with `size` items in a list; none for any other value."""
    return [item for item in map(list_of, list_of(value)) if len(item) == size]


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts of a list; none if it has other items, or for any other value."""
    texts = tuple(each for each in list_of(value) if isinstance(each, str))
    return texts if len(texts) == len(list_of(value)) else ()


def text_of(value: Any) -> str:
    """Return a text, or any other value as JSON with sorted keys."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text; a text that is not JSON unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def is_selector(value: Any) -> bool:
    """Return True if a value is a list of two texts, such as the reference ``[variable, id]``."""
    return (
        isinstance(value, list) and len(list_of(value)) == 2 and all(isinstance(each, str) for each in list_of(value))
    )
