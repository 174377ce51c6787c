"""Difference of two plain values, and its application; it keeps data that Operad would not write by itself.

A change is a plain value itself, so that a file can hold it: ``{"was": x, "is": y}`` for a different value, with a digest
in place of an `x` that is not short, ``{"is": y}`` for an additional value, ``{"at": {key: change}, "without": [key]}``
inside a mapping, and ``{"items": [change or null]}`` inside a list of the same length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from typing import Any, cast

Change = Mapping[str, Any]

_MAX_SHOWN = 60
"""Maximum length of a text that a change shows, in characters."""


def change(made: Any, given: Any) -> Change | None:
    """Return the difference that turns `made` into `given`; None where they are the same."""
    made_value, given_value = made, given
    if isinstance(made_value, dict) and isinstance(given_value, dict):
        return _mapping_change(cast("dict[str, Any]", made_value), cast("dict[str, Any]", given_value))
    if isinstance(made_value, list) and isinstance(given_value, list):
        made_items, given_items = cast("list[Any]", made_value), cast("list[Any]", given_value)
        if len(made_items) == len(given_items):
            items = [change(each, another) for each, another in zip(made_items, given_items, strict=True)]
            return {"items": items} if any(item is not None for item in items) else None
    elif type(made) is type(given) and made == given:
        return None
    return {"was": made if _is_short(made) else _hash(made), "is": given}


def _is_short(value: Any) -> bool:
    """Return True if a change shows a value itself, for readers, and not a digest of it."""
    if isinstance(value, str):
        return len(value) <= _MAX_SHOWN and value.isprintable()
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, bool | int) or value in ([], {})


def _is_same(made: Any, was: Any) -> bool:
    """Return True if a value is the one that a change was made for."""
    return (_is_short(made) and type(made) is type(was) and made == was) or _hash(made) == was


def _hash(value: Any) -> str:
    """Return a digest of a plain value, of 16 characters."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _mapping_change(made: dict[str, Any], given: dict[str, Any]) -> Change | None:
    at = {key: change(made[key], value) if key in made else {"is": value} for key, value in given.items()}
    at = {key: each for key, each in at.items() if each is not None}
    without = [key for key in made if key not in given]
    found: dict[str, Any] = {"at": at} if at else {}
    if without:
        found["without"] = without
    return found or None


def apply_difference(made: Any, how: Any, *, sure: bool = False) -> Any:
    """Return a value with a change applied; the inverse of `change`.

    Args:
        made: The value.
        how: The change; values of another form are ignored.
        sure: True to apply the change even if the value is no longer the one that the change was made for.
    """
    if not isinstance(how, Mapping):
        return made
    known = cast("Change", how)
    if "is" in known:
        # If the value is not the one that the change was made for, somebody has edited it, and the edit wins.
        return known["is"] if sure or "was" not in known or _is_same(made, known["was"]) else made
    value = made
    if isinstance(value, dict):
        return _changed_mapping(cast("dict[str, Any]", value), known, sure)
    items: Any = known.get("items")
    if isinstance(value, list) and isinstance(items, list):
        made_items, item_changes = cast("list[Any]", value), cast("Sequence[Any]", items)
        if len(made_items) == len(item_changes):
            return [apply_difference(one, each, sure=sure) for one, each in zip(made_items, item_changes, strict=True)]
    return made


def _changed_mapping(made: dict[str, Any], difference: Change, sure: bool) -> dict[str, Any]:
    at: Any = difference.get("at")
    changes: Mapping[str, Any] = cast("Mapping[str, Any]", at) if isinstance(at, Mapping) else {}
    without: Any = difference.get("without")
    removed = cast("list[Any]", without) if isinstance(without, list) else []
    found = {
        key: apply_difference(value, changes.get(key), sure=sure) for key, value in made.items() if key not in removed
    }
    for key, item_change in changes.items():
        if key not in made and isinstance(item_change, Mapping) and "is" in item_change and "was" not in item_change:
            found[key] = cast("Change", item_change)["is"]
    return found
