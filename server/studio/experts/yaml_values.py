"""Values of a YAML text replaced where they stand: comments, order and style of all else stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import yaml

from operad.flows.edit.paths import Step, path_of
from operad.runtime.values.errors import InputError

_ALIAS = re.compile(r"\s*:\s+(\*[^\s,\[\]{}]+)")

MAX_TEXT = 2**20
"""Characters of the longest text that is edited."""


def with_value(text: str, path: Sequence[Step], value: Any) -> str:
    """Return a YAML text in which the value at a path is another; the last key may be new.

    Args:
        text: The text, which can be read.
        path: The keys and places that lead to the value.
        value: The value, of JSON.

    Raises:
        InputError: The path leads nowhere, or to a part that others share by an anchor.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"the file has {len(text):,} characters; up to {MAX_TEXT:,} are edited here")
    holder = _root(text)
    for number, step in enumerate(path[:-1]):
        child = _child(holder, step)
        if child is None:
            raise InputError(f"{path_of(path[: number + 1])}: is not in the file; write it there first")
        holder = child
    old = _child(holder, path[-1])
    if old is not None and (alias := _alias_at(text, holder, path[-1])):
        return f"{text[: alias[0]]}{written(value, 0, in_flow=True)}{text[alias[1] :]}"
    if old is not None:
        return _replaced(text, holder, old, path, value)
    if not isinstance(holder, yaml.MappingNode) or isinstance(path[-1], int):
        raise InputError(f"{path_of(path)}: is not in the file; edit the list as a whole")
    return _added(text, holder, str(path[-1]), value)


def _root(text: str) -> yaml.Node:
    root = yaml.compose(text, yaml.SafeLoader)  # pyright: ignore[reportUnknownMemberType]
    if root is None:
        raise InputError("the file is empty")
    return root


def _child(node: yaml.Node, step: Step) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in _pairs(node) if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    return cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value)


def _alias_at(text: str, holder: yaml.Node, key: Step) -> tuple[int, int] | None:
    """The place of a value that is an alias, such as ``*facts``; it stands for a part that is elsewhere."""
    if not isinstance(holder, yaml.MappingNode):
        return None
    after = next((each.end_mark.index for each, _ in _pairs(holder) if each.value == key), None)
    found = None if after is None else _ALIAS.match(text, cast("int", after))
    return found.span(1) if found else None


def _replaced(text: str, holder: yaml.Node, old: yaml.Node, path: Sequence[Step], value: Any) -> str:
    begin, end = _span(old)
    around = _span(holder)
    shared = begin < around[0] or end > around[1] or any(_is_shared(text, part, begin, end) for part in _parts(old))
    if shared:
        raise InputError(f"{path_of(path)}: others share it by an anchor (& and *); edit it in the file")
    was = text[begin:end]
    blank = was[len(was.rstrip()) :]
    in_flow = bool(getattr(holder, "flow_style", False))
    column = old.start_mark.column if isinstance(holder, yaml.SequenceNode) else _column(holder)
    new = written(value, column + 2, in_flow=in_flow)
    tail = blank if "\n" in blank and not new.endswith("\n") else blank.removeprefix("\n")
    return f"{text[:begin]}{new}{tail if blank else ''}{text[end:]}"


def _added(text: str, holder: yaml.MappingNode, key: str, value: Any) -> str:
    pairs = _pairs(holder)
    in_flow = bool(holder.flow_style)
    if not pairs:
        raise InputError(f"{key}: the mapping that it belongs to is empty; write it in the file")
    at = pairs[0][0].start_mark
    column = cast("int", at.column)
    new = written(value, column + 2, in_flow=in_flow)
    name = json.dumps(key, ensure_ascii=False) if not key.isidentifier() else key
    gap = ", " if in_flow else "" if new.endswith("\n") else "\n"
    place = "" if in_flow else " " * column
    begin = cast("int", at.index)
    return f"{text[:begin]}{name}: {new}{gap}{place}{text[begin:]}"


def written(value: Any, indent: int, *, in_flow: bool) -> str:
    """Return a value as YAML: a text of several lines as a block, where blocks may stand; else as JSON."""
    if isinstance(value, str) and "\n" in value and not in_flow and _fits_block(value):
        lines = value.split("\n")
        body, mark = (lines[:-1], "|") if value.endswith("\n") else (lines, "|-")
        return f"{mark}\n" + "".join(f"{' ' * indent}{line}\n" if line else "\n" for line in body)
    return json.dumps(value, ensure_ascii=False)


def _fits_block(text: str) -> bool:
    clean = all(each.isprintable() for line in text.split("\n") for each in line)
    return clean and not text.startswith((" ", "\n")) and not text.endswith("\n\n")


def _column(node: yaml.Node) -> int:
    """The column of a mapping's keys."""
    pairs = _pairs(node) if isinstance(node, yaml.MappingNode) else []
    return cast("int", pairs[0][0].start_mark.column) if pairs else 0


def _span(node: yaml.Node) -> tuple[int, int]:
    return cast("int", node.start_mark.index), cast("int", node.end_mark.index)


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    if isinstance(node, yaml.MappingNode):
        for _, value in _pairs(node):
            yield from _parts(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in cast("list[yaml.Node]", node.value):
            yield from _parts(value)


def _is_shared(text: str, node: yaml.Node, begin: int, end: int) -> bool:
    """True if a part has an anchor of its own; an alias in it stands for a part that stays where it is."""
    first, _ = _span(node)
    return begin <= first < end and text[first : first + 1] == "&"
