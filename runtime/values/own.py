"""Copies of values, so that each reader of a value has its own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

_UNCHANGEABLE = frozenset({str, int, float, bool, type(None), bytes})


def own(value: Any) -> Any:
    """Return a value that its reader may change: the value itself if it cannot change, otherwise a copy.

        shared = {"items": [1]}
        own(shared)["items"].append(2)
        print(shared)  # {'items': [1]}

    Texts, numbers and None are returned after one look at their type; a list or dict of them is copied in C. Only what
    holds further lists and dicts is copied part by part. An object that cannot be copied, such as a lock, is shared.
    """
    kind = cast("type[object]", type(value))
    if kind in _UNCHANGEABLE:
        return value
    if kind is dict:
        fields = cast("dict[Any, Any]", value)
        if _UNCHANGEABLE.issuperset(map(type, fields.values())):
            return fields.copy()
        return {key: own(each) for key, each in fields.items()}
    if kind is list:
        items = cast("list[Any]", value)
        return items.copy() if _UNCHANGEABLE.issuperset(map(type, items)) else [own(each) for each in items]
    if kind is tuple:
        return tuple([own(each) for each in value])
    if hasattr(value, "own"):
        return value.own()
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a user's class
        return value
