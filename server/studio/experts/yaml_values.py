"""Values of a YAML text, replaced in place; comments, order and style of the rest stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from operad.flows.edit.paths import Step, path_of
from operad.runtime.values.errors import InputError
from operad.server.studio.experts.yaml_items import Part, part_at

MAX_TEXT = 2**20
"""Maximum number of characters of a text that is edited."""


def with_value(text: str, path: Sequence[Step], value: Any) -> str:
    """Return a YAML text with another value at a path; the last key may be new.

    Args:
        text: The text, which is valid YAML.
        path: Keys and indices that lead to the value.
        value: The value, of types that JSON has.

    Raises:
        InputError: The path does not exist, or leads to a part that is shared by an anchor.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"the file has {len(text):,} characters; up to {MAX_TEXT:,} are edited here")
    holder = part_at(text, ())
    if holder is None:
        raise InputError("the file is empty")
    for number, step in enumerate(path[:-1]):
        if (child := holder.child(step)) is None:
            raise InputError(f"{path_of(path[: number + 1])}: is not in the file; write it there first")
        if child.kind == "alias":
            raise _shared_error(path[: number + 1])
        holder = child
    old = holder.child(path[-1])
    if old is None:
        return _with_new_key(text, holder, path, value)
    is_alias = old.kind == "alias" and holder.kind == "map"
    if not is_alias and _is_shared(old):
        raise _shared_error(path)
    column = old.column if holder.kind == "list" else holder.keys[0].column
    new = written(value, column + 2, in_flow=holder.flow or is_alias)
    rest = text[old.end :].removeprefix("\n") if new.endswith("\n") else text[old.end :]
    return f"{text[: old.begin]}{_gap(text, holder, old)}{new}{rest}"


def _gap(text: str, holder: Part, old: Part) -> str:
    """Return the spaces that a new value needs before it: after the colon of an empty one, and in the lines of a list
    whose dashes are below the key, as nothing else may be there.
    """
    if text[: old.begin].endswith((":", "-")):
        return " "
    begins_line = not text[text.rfind("\n", 0, old.begin) + 1 : old.begin].strip()
    is_below_key = holder.kind == "map" and not holder.flow and old.column <= holder.keys[0].column
    return "  " if begins_line and is_below_key else ""


def _shared_error(path: Sequence[Step]) -> InputError:
    return InputError(f"{path_of(path)}: others share it by an anchor (& and *); edit it in the file")


def _is_shared(part: Part) -> bool:
    """Return True if a value or a part of it has an anchor, so that aliases may refer to it, or is itself an alias."""
    return bool(part.anchor) or any(each.kind != "alias" and _is_shared(each) for each in part.entries)


def _with_new_key(text: str, holder: Part, path: Sequence[Step], value: Any) -> str:
    key = path[-1]
    if holder.kind != "map" or isinstance(key, int):
        raise InputError(f"{path_of(path)}: is not in the file; edit the list as a whole")
    if not holder.keys:
        raise InputError(f"{key}: the mapping that it belongs to is empty; write it in the file")
    first = holder.keys[0]
    new = written(value, first.column + 2, in_flow=holder.flow)
    name = json.dumps(key, ensure_ascii=False) if not key.isidentifier() else key
    gap = ", " if holder.flow else "" if new.endswith("\n") else "\n"
    margin = "" if holder.flow else " " * first.column
    return f"{text[: first.begin]}{name}: {new}{gap}{margin}{text[first.begin :]}"


def written(value: Any, indent: int, *, in_flow: bool) -> str:
    """Return a value as YAML: a text of several lines as a block, if allowed; otherwise as JSON."""
    if isinstance(value, str) and "\n" in value and not in_flow and _fits_block(value):
        lines = value.split("\n")
        body, mark = (lines[:-1], "|") if value.endswith("\n") else (lines, "|-")
        return f"{mark}\n" + "".join(f"{' ' * indent}{line}\n" if line else "\n" for line in body)
    return json.dumps(value, ensure_ascii=False)


def _fits_block(text: str) -> bool:
    clean = all(character.isprintable() for line in text.split("\n") for character in line)
    return clean and not text.startswith((" ", "\n")) and not text.endswith("\n\n")
