"""JSON values as callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, JsonValue

from operad.runtime.values.losses import model_as_json

JsonLike = Mapping[str, "JsonLike"] | Sequence["JsonLike"] | str | int | float | bool | BaseModel | None
"""A JSON value as callers write it: unlike `JsonValue`, a type checker accepts a ``list[str]``, or a pydantic model."""


def as_json(value: Any) -> Any:
    """Return a value with tuples as lists, mappings and pydantic models as dicts, at any depth; others are unchanged.

    Raises:
        ValueError: A part of a model, such as a secret, is lost as JSON.

    Example:
        print(as_json({"pair": (1, 2)}))  # {'pair': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, BaseModel):
        return model_as_json(value)
    return value


def json_value(value: JsonLike) -> JsonValue:
    """Return `as_json` of a value that a type checker knows to be JSON."""
    return cast("JsonValue", as_json(value))
