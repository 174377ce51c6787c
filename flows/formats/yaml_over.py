"""Changes to a YAML file that keep the text, the comments and the layout of unchanged entries.

An entry is a key of a mapping, or an item of a list whose items have an ``id`` each, such as the nodes of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from operad.runtime.values.errors import InvalidError

DEEPEST = 40
"""Depth to which mappings are compared; a deeper file is written anew."""


def keep_text(old: bytes, was: bytes, now: bytes, new: bytes, read: Callable[[bytes], Any]) -> bytes:
    """Return a changed file, in which unchanged entries keep their old text; `new` if that is impossible.

    Args:
        old: The file as a person wrote it.
        was: The values of that file as the format writes them, each entry on lines of its own.
        now: The changed values, written likewise.
        new: The changed values in the layout that changed and new entries get.
        read: Function that returns the values of a file; the values of the result are those of `new`.
    """
    try:
        levels = [_parsed(text.decode()) for text in (old, was, now, new)]
        merged = "".join(_merged(*levels)).encode()
        return merged if read(merged) == read(new) else new
    except (_NotKeptError, yaml.YAMLError, InvalidError, UnicodeDecodeError):
        return new


class _NotKeptError(Exception):
    """The text of a file cannot be kept."""


class _Entry(NamedTuple):
    """Lines of a key of a mapping or of an item of a list.

    Attributes:
        lead: The comments and empty lines right before the entry.
        head: The first line of a key with entries below it; nothing for an item with entries; all lines otherwise.
        inner: The entries below; None for any other value.
        column: The column of the key or the dash.
        is_item: True for an item with entries below, whose first line has a space in the place of the dash.
    """

    lead: list[str]
    head: list[str]
    inner: _Level | None
    column: int
    is_item: bool = False

    @property
    def lines(self) -> list[str]:
        """Lines of the entry without the lead."""
        return self.around(self.inner.lines) if self.inner else self.head

    def around(self, inner: Iterable[str]) -> list[str]:
        """Return the lines of the entry with other entries below it."""
        below = list(inner)
        if not self.is_item:
            return [*self.head, *below]
        first = next(number for number, line in enumerate(below) if not _is_comment_or_empty(line, len(line)))
        return [*below[:first], _with_character(below[first], self.column, "-"), *below[first + 1 :]]


class _Level(NamedTuple):
    """Entries of a mapping or a list in block style, and the comments after the last one."""

    entries: Mapping[str, _Entry]
    tail: list[str]

    @property
    def lines(self) -> list[str]:
        """All lines of the entries, and the comments after them."""
        return [line for entry in self.entries.values() for line in (*entry.lead, *entry.lines)] + self.tail


def _parsed(text: str) -> _Level:
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _NotKeptError
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return _mapping_level(root, lines, 0, len(lines), 0)


def _mapping_level(node: yaml.MappingNode, lines: list[str], begin: int, end: int, depth: int) -> _Level:
    """Return the entries of a mapping, whose lines are `begin` up to `end`."""
    if depth > DEEPEST:
        raise _NotKeptError
    keys = [(str(key.value), key.start_mark.line, key.start_mark.column) for key, _ in node.value]
    entries: dict[str, _Entry] = {}
    spans, tail = _spans(keys, lines, begin, end)
    for (name, start, column), (lead, stop), (_, value) in zip(keys, spans, node.value, strict=True):
        if name in entries:
            raise _NotKeptError
        inner = None
        if value.start_mark.line > start and not getattr(value, "flow_style", True):
            if isinstance(value, yaml.MappingNode):
                inner = _mapping_level(value, lines, start + 1, stop, depth + 1)
            elif ids := _ids(value, lines):
                inner = _list_level(ids, value, lines, start + 1, stop, depth + 1)
        entries[name] = _Entry(lead, lines[start : start + 1] if inner else lines[start:stop], inner, column)
    return _Level(entries, tail)


def _list_level(
    ids: Sequence[tuple[str, int, int]], node: yaml.Node, lines: list[str], begin: int, end: int, depth: int
) -> _Level:
    """Return the items of a list, whose lines are `begin` up to `end`, by their ids."""
    if depth > DEEPEST:
        raise _NotKeptError
    spaced = list(lines)
    for _, start, column in ids:
        spaced[start] = _with_character(spaced[start], column, " ")
    spans, tail = _spans(ids, lines, begin, end)
    return _Level(
        {
            name: _Entry(lead, lines[start:stop], None, column)
            if item.flow_style
            else _Entry(lead, [], _mapping_level(item, spaced, start, stop, depth + 1), column, is_item=True)
            for (name, start, column), (lead, stop), item in zip(ids, spans, node.value, strict=True)
        },
        tail,
    )


def _ids(node: yaml.Node, lines: list[str]) -> list[tuple[str, int, int]]:
    """Return the id of each item of a list with the line and column of its dash; none unless all have different ids."""
    found: list[tuple[str, int, int]] = []
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        if not isinstance(item, yaml.MappingNode):
            return []
        start, indent = item.start_mark.line, lines[item.start_mark.line][: item.start_mark.column]
        ids = [value.value for key, value in item.value if key.value == "id" and isinstance(value, yaml.ScalarNode)]
        if len(ids) != 1 or indent.strip() != "-":
            return []
        found.append((str(ids[0]), start, indent.index("-")))
    return found if len({name for name, _, _ in found}) == len(found) else []


def _spans(
    places: Sequence[tuple[str, int, int]], lines: list[str], begin: int, end: int
) -> tuple[list[tuple[list[str], int]], list[str]]:
    """Return the comments before each entry and the line where it ends, and the comments after the last entry."""
    found: list[tuple[list[str], int]] = []
    lead = lines[begin : places[0][1]] if places else lines[begin:end]
    for index, (_, start, column) in enumerate(places):
        next_start = places[index + 1][1] if index + 1 < len(places) else end
        stop = next_start
        while stop > start + 1 and _is_comment_or_empty(lines[stop - 1], column):
            stop -= 1
        found.append((lead, stop))
        lead = lines[stop:next_start]
    return found, lead


def _with_character(line: str, column: int, by: str) -> str:
    return line[:column] + by + line[column + 1 :]


def _is_comment_or_empty(line: str, column: int) -> bool:
    """Return True for an empty line, and for a comment that is indented by at most `column`."""
    text = line.strip()
    return not text or (text.startswith("#") and len(line) - len(line.lstrip()) <= column)


def _merged(old: _Level, was: _Level, now: _Level, new: _Level) -> Iterator[str]:
    """Yield the lines of the changed file; an entry that the format writes the same as before keeps its old lines."""
    column = next((entry.column for entry in old.entries.values()), 0)
    for key in _order(list(old.entries), list(was.entries), list(now.entries)):
        now_entry = now.entries[key]
        old_entry, was_entry, new_entry = old.entries.get(key), was.entries.get(key), new.entries.get(key, now_entry)
        if old_entry is None:
            yield from _shifted(new_entry.lines, column - new_entry.column)
            continue
        yield from old_entry.lead
        if was_entry is not None and was_entry.lines == now_entry.lines:
            yield from old_entry.lines
        elif old_entry.inner and was_entry is not None and was_entry.inner and now_entry.inner:
            yield from old_entry.around(
                _merged(old_entry.inner, was_entry.inner, now_entry.inner, new_entry.inner or now_entry.inner)
            )
        else:
            yield from _shifted(new_entry.lines, column - new_entry.column)
    yield from old.tail


def _order(old: Sequence[str], was: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the keys of the changed file in the order of the old file, each new key after the key that it follows.

    If the change moved keys, return them in the new order.
    """
    now_keys, old_keys, was_keys = set(now), set(old), set(was)
    if [key for key in was if key in now_keys] != [key for key in now if key in was_keys]:
        return now
    followers: dict[str, list[str]] = {}
    last = ""
    for key in now:
        if key in old_keys:
            last = key
        else:
            followers.setdefault(last, []).append(key)
    kept = [key for key in old if key in now_keys]
    return [*followers.get("", ()), *(each for key in kept for each in (key, *followers.get(key, ())))]


def _shifted(lines: list[str], by: int) -> Iterator[str]:
    """Yield lines, indented by some more columns, or fewer if negative."""
    for line in lines:
        yield line if not line.strip() else " " * by + line if by >= 0 else line[-by:]
