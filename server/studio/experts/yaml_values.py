"""Values of a YAML text, replaced in place; comments, order and style of the rest stay."""

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
        return _with_replaced(text, holder, old, path, value)
    if not isinstance(holder, yaml.MappingNode) or isinstance(path[-1], int):
        raise InputError(f"{path_of(path)}: is not in the file; edit the list as a whole")
    return _with_new_key(text, holder, str(path[-1]), value)


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
    """Return the position of a value that is an alias, such as ``*facts``; None for other values."""
    if not isinstance(holder, yaml.MappingNode):
        return None
    key_end = next((key_node.end_mark.index for key_node, _ in _pairs(holder) if key_node.value == key), None)
    found = None if key_end is None else _ALIAS.match(text, cast("int", key_end))
    return found.span(1) if found else None


def _with_replaced(text: str, holder: yaml.Node, old: yaml.Node, path: Sequence[Step], value: Any) -> str:
    begin, end = _span(old)
    holder_span = _span(holder)
    is_shared = (
        begin < holder_span[0]
        or end > holder_span[1]
        or any(_is_shared(text, node, begin, end) for node in _nodes_in(old))
    )
    if is_shared:
        raise InputError(f"{path_of(path)}: others share it by an anchor (& and *); edit it in the file")
    old_text = text[begin:end]
    trailing_blank = old_text[len(old_text.rstrip()) :]
    in_flow = bool(getattr(holder, "flow_style", False))
    column = old.start_mark.column if isinstance(holder, yaml.SequenceNode) else _column(holder)
    new = written(value, column + 2, in_flow=in_flow)
    tail = trailing_blank if "\n" in trailing_blank and not new.endswith("\n") else trailing_blank.removeprefix("\n")
    return f"{text[:begin]}{new}{tail if trailing_blank else ''}{text[end:]}"


def _with_new_key(text: str, holder: yaml.MappingNode, key: str, value: Any) -> str:
    pairs = _pairs(holder)
    in_flow = bool(holder.flow_style)
    if not pairs:
        raise InputError(f"{key}: the mapping that it belongs to is empty; write it in the file")
    first_key = pairs[0][0].start_mark
    column = cast("int", first_key.column)
    new = written(value, column + 2, in_flow=in_flow)
    name = json.dumps(key, ensure_ascii=False) if not key.isidentifier() else key
    gap = ", " if in_flow else "" if new.endswith("\n") else "\n"
    margin = "" if in_flow else " " * column
    begin = cast("int", first_key.index)
    return f"{text[:begin]}{name}: {new}{gap}{margin}{text[begin:]}"


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


def _column(node: yaml.Node) -> int:
    """Return the column of a mapping's keys."""
    pairs = _pairs(node) if isinstance(node, yaml.MappingNode) else []
    return cast("int", pairs[0][0].start_mark.column) if pairs else 0


def _span(node: yaml.Node) -> tuple[int, int]:
    return cast("int", node.start_mark.index), cast("int", node.end_mark.index)


def _nodes_in(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    if isinstance(node, yaml.MappingNode):
        for _, value in _pairs(node):
            yield from _nodes_in(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in cast("list[yaml.Node]", node.value):
            yield from _nodes_in(value)


def _is_shared(text: str, node: yaml.Node, begin: int, end: int) -> bool:
    """Return True if a part has an anchor, so that aliases may refer to it."""
    first, _ = _span(node)
    return begin <= first < end and text[first : first + 1] == "&"
