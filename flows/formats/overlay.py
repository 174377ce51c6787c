"""Differences of plain values, and their application; they keep data that Operad would not write by itself.

A change is a plain value itself, so that a file can hold it: ``{"was": x, "is": y}`` for a different value, with a digest
in place of an `x` that is not short, ``{"is": y}`` for an additional value, ``{"at": {key: change}, "without": {key: x}}``
inside a mapping, and ``{"items": [change or null], "of": [digest]}`` inside a list of the same length; `of` tells which
mapping each change is for, as others may be added and removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
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
            if all(item is None for item in items):
                return None
            of = [_hash(each) for each in made_items] if any(isinstance(each, dict) for each in made_items) else []
            return {"items": items, "of": of} if of else {"items": items}
    elif type(made) is type(given) and made == given:
        return None
    return {"was": _shown(made), "is": given}


def _shown(value: Any) -> Any:
    return value if _is_short(value) else _hash(value)


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
    without = {key: _shown(value) for key, value in made.items() if key not in given}
    found: dict[str, Any] = {"at": at} if at else {}
    if without:
        found["without"] = without
    return found or None


def apply_difference(made: Any, how: Any, *, sure: bool = False, derived: Collection[str] = ()) -> Any:
    """Return a value with a change applied; the inverse of `change`.

    Args:
        made: The value.
        how: The change; values of another form are ignored.
        sure: True to apply the change even if the value is no longer the one that the change was made for.
        derived: Keys whose changes are applied so, as Operad makes their values from others and edits do not concern them.
    """
    if not isinstance(how, Mapping):
        return made
    known = cast("Change", how)
    if "is" in known:
        # If the value is not the one that the change was made for, somebody has edited it, and the edit wins.
        return known["is"] if sure or "was" not in known or _is_same(made, known["was"]) else made
    value = made
    if isinstance(value, dict):
        return _changed_mapping(cast("dict[str, Any]", value), known, sure, derived)
    items: Any = known.get("items")
    if isinstance(value, list) and isinstance(items, list):
        made_items = cast("list[Any]", value)
        changes = _aligned(made_items, cast("list[Any]", items), known.get("of"))
        pairs = zip(made_items, changes, strict=True)
        return [apply_difference(item, each, sure=sure, derived=derived) for item, each in pairs]
    return made


def _aligned(made: Sequence[Any], changes: Sequence[Any], of: Any) -> Sequence[Any]:
    """Return the change for each item of a list: that of an equal item, else that of its place in an equally long list."""
    digests = cast("list[Any]", of) if isinstance(of, list) else []
    if len(digests) != len(changes):
        return changes if len(changes) == len(made) else [None] * len(made)
    free: dict[str, list[int]] = {}
    for place, digest in reversed(list(enumerate(digests))):
        free.setdefault(str(digest), []).append(place)
    found = [places.pop() if (places := free.get(_hash(item))) else None for item in made]
    if len(made) == len(changes):
        unused = {place for places in free.values() for place in places}
        found = [number if place is None and number in unused else place for number, place in enumerate(found)]
    return [None if place is None else changes[place] for place in found]


def _changed_mapping(made: dict[str, Any], difference: Change, sure: bool, derived: Collection[str]) -> dict[str, Any]:
    changes, without = _mapping(difference.get("at")), _mapping(difference.get("without"))
    found: dict[str, Any] = {}
    for key, value in made.items():
        how, certain = changes.get(key), sure or key in derived
        if key in without and (certain or _is_same(value, without[key])):
            continue
        if _adds(how) and not certain:  # the value was added later, by an edit
            found[key] = value
        else:
            found[key] = apply_difference(value, how, sure=certain, derived=derived)
    return found | {key: changes[key]["is"] for key in changes if key not in made and _adds(changes[key])}


def merged(given: Any, was: Any, now: Any) -> Any:
    """Return a value with what turns `was` into `now`; everything else stays as it is given.

    Items of lists belong together if they have the same ``name``, else if they have the same place.

    Example:
        >>> merged({"a": 1, "more": 2}, {"a": "1", "b": 3}, {"a": "1", "b": 4})
        {'a': 1, 'more': 2, 'b': 4}
    """
    if was == now:
        return given
    if isinstance(given, list) and isinstance(was, list) and isinstance(now, list):
        lists = [cast("list[Any]", each) for each in cast("tuple[Any, ...]", (given, was, now))]
        if all(named := [_by_name(each) for each in lists]):
            return list(cast("dict[str, Any]", merged(*named)).values())
        if len({len(each) for each in lists}) == 1:
            return [merged(*items) for items in zip(*lists, strict=True)]
    if not (isinstance(given, dict) and isinstance(was, dict) and isinstance(now, dict)):
        return cast("Any", now)
    old, before, after = (cast("dict[str, Any]", each) for each in cast("tuple[Any, ...]", (given, was, now)))
    kept = {
        key: merged(value, before[key], after[key]) if key in before and key in after else after.get(key, value)
        for key, value in old.items()
        if key in after or key not in before
    }
    return kept | {key: value for key, value in after.items() if key not in old and value != before.get(key, ...)}


def _by_name(items: list[Any]) -> dict[str, Any]:
    """Return the items of a list by their names; empty unless all have different ones."""
    found = {str(name): item for item in items if (name := _mapping(item).get("name")) is not None}
    return found if len(found) == len(items) else {}


def _adds(how: Any) -> bool:
    return isinstance(how, Mapping) and "is" in how and "was" not in how


def _mapping(value: Any) -> Change:
    return cast("Change", value) if isinstance(value, Mapping) else {}
