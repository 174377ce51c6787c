"""A changed YAML file over the old one: entries that say the same keep their text, comments and layout.

An entry is a key of a mapping, or an item of a list whose items have an ``id`` each, such as the nodes of a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml

DEEPEST = 40
"""Depth to which mappings are compared; a deeper file is written anew."""


def merged(old: str, was: str, now: str, new: str) -> str | None:
    """Return the text of a changed file, with what is the same as it stands in the old one; None where that cannot be.

    Args:
        old: The file as a person wrote it.
        was: The same values as the format writes them, each entry in lines of its own.
        now: The changed values, written likewise.
        new: The changed values in the layout that new entries are to have.
    """
    try:
        return "".join(_merged(_root(old), _root(was), _root(now), _root(new)))
    except (_NotKeptError, yaml.YAMLError):
        return None


class _NotKeptError(Exception):
    """The text of a file cannot be kept."""


class _Entry(NamedTuple):
    """A key of a mapping or an item of a list, in lines.

    Attributes:
        lead: The comments and empty lines right before it.
        head: Its first line where entries are below, none of an item; else all its lines.
        inner: The entries below; None for another value.
        column: Where the key or the dash begins.
        is_item: Whether it is an item with entries below, which have a space for the dash.
    """

    lead: list[str]
    head: list[str]
    inner: _Level | None
    column: int
    is_item: bool = False

    @property
    def lines(self) -> list[str]:
        """All of it but the lead."""
        return self.around(self.inner.lines) if self.inner else self.head

    def around(self, inner: Iterable[str]) -> list[str]:
        """The lines with other entries below."""
        below = list(inner)
        if not self.is_item:
            return [*self.head, *below]
        first = next(number for number, line in enumerate(below) if not _is_aside(line, len(line)))
        return [*below[:first], _replaced(below[first], self.column, "-"), *below[first + 1 :]]


class _Level(NamedTuple):
    """The entries of a mapping or a list in block style, and the comments behind the last one."""

    entries: Mapping[str, _Entry]
    tail: list[str]

    @property
    def lines(self) -> list[str]:
        """All of it."""
        return [line for entry in self.entries.values() for line in (*entry.lead, *entry.lines)] + self.tail


def _root(text: str) -> _Level:
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _NotKeptError
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return _level(root, lines, 0, len(lines), 0)


def _level(node: yaml.MappingNode, lines: list[str], begin: int, end: int, depth: int) -> _Level:
    """The entries of a mapping that stands in some lines."""
    if depth > DEEPEST:
        raise _NotKeptError
    keys = [(str(key.value), key.start_mark.line, key.start_mark.column) for key, _ in node.value]
    entries: dict[str, _Entry] = {}
    spans, tail = _spans(keys, lines, begin, end)
    for (name, start, column), (lead, own), (_, value) in zip(keys, spans, node.value, strict=True):
        if name in entries:
            raise _NotKeptError
        inner = None
        if value.start_mark.line > start and not getattr(value, "flow_style", True):
            if isinstance(value, yaml.MappingNode):
                inner = _level(value, lines, start + 1, own, depth + 1)
            elif ids := _ids(value, lines):
                inner = _items(ids, value, lines, start + 1, own, depth + 1)
        entries[name] = _Entry(lead, lines[start : start + 1] if inner else lines[start:own], inner, column)
    return _Level(entries, tail)


def _items(
    ids: Sequence[tuple[str, int, int]], node: yaml.Node, lines: list[str], begin: int, end: int, depth: int
) -> _Level:
    """The items of a list that stands in some lines."""
    if depth > DEEPEST:
        raise _NotKeptError
    spaced = list(lines)
    for _, start, column in ids:
        spaced[start] = _replaced(spaced[start], column, " ")
    spans, tail = _spans(ids, lines, begin, end)
    return _Level(
        {
            name: _Entry(lead, lines[start:own], None, column)
            if item.flow_style
            else _Entry(lead, [], _level(item, spaced, start, own, depth + 1), column, is_item=True)
            for (name, start, column), (lead, own), item in zip(ids, spans, node.value, strict=True)
        },
        tail,
    )


def _ids(node: yaml.Node, lines: list[str]) -> list[tuple[str, int, int]]:
    """The ids of the items of a list, each with the place of its dash; none where an item has none of its own."""
    found: list[tuple[str, int, int]] = []
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        if not isinstance(item, yaml.MappingNode):
            return []
        start, before = item.start_mark.line, lines[item.start_mark.line][: item.start_mark.column]
        own = [value.value for key, value in item.value if key.value == "id" and isinstance(value, yaml.ScalarNode)]
        if len(own) != 1 or before.strip() != "-":
            return []
        found.append((str(own[0]), start, before.index("-")))
    return found if len({name for name, _, _ in found}) == len(found) else []


def _spans(
    places: Sequence[tuple[str, int, int]], lines: list[str], begin: int, end: int
) -> tuple[list[tuple[list[str], int]], list[str]]:
    """The comments before each entry and where it ends; and the comments behind the last one."""
    found: list[tuple[list[str], int]] = []
    lead = lines[begin : places[0][1]] if places else lines[begin:end]
    for number, (_, start, column) in enumerate(places):
        stop = places[number + 1][1] if number + 1 < len(places) else end
        own = stop
        while own > start + 1 and _is_aside(lines[own - 1], column):
            own -= 1
        found.append((lead, own))
        lead = lines[own:stop]
    return found, lead


def _replaced(line: str, column: int, by: str) -> str:
    return line[:column] + by + line[column + 1 :]


def _is_aside(line: str, column: int) -> bool:
    """Return whether a line is empty, or a comment that is indented by at most a column."""
    said = line.strip()
    return not said or (said.startswith("#") and len(line) - len(line.lstrip()) <= column)


def _merged(old: _Level, was: _Level, now: _Level, new: _Level) -> Iterator[str]:
    """The entries of the changed file, each as it stands in the old one where it was written the same."""
    column = next((entry.column for entry in old.entries.values()), 0)
    for key in _order(list(old.entries), list(was.entries), list(now.entries)):
        after = now.entries[key]
        mine, before, short = old.entries.get(key), was.entries.get(key), new.entries.get(key, after)
        if mine is None:
            yield from _shifted(short.lines, column - short.column)
            continue
        yield from mine.lead
        if before is not None and before.lines == after.lines:
            yield from mine.lines
        elif mine.inner and before is not None and before.inner and after.inner:
            yield from mine.around(_merged(mine.inner, before.inner, after.inner, short.inner or after.inner))
        else:
            yield from _shifted(short.lines, column - short.column)
    yield from old.tail


def _order(old: Sequence[str], was: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """The keys of the changed file: as in the old one, the new ones behind those that they follow.

    They are in the new order where the change was one of the order.
    """
    present, known, before = set(now), set(old), set(was)
    if [key for key in was if key in present] != [key for key in now if key in before]:
        return now
    behind: dict[str, list[str]] = {}
    last = ""
    for key in now:
        if key in known:
            last = key
        else:
            behind.setdefault(last, []).append(key)
    kept = [key for key in old if key in present]
    return [*behind.get("", ()), *(each for key in kept for each in (key, *behind.get(key, ())))]


def _shifted(lines: list[str], by: int) -> Iterator[str]:
    """Lines that are indented more, or less."""
    for line in lines:
        yield line if not line.strip() else " " * by + line if by >= 0 else line[-by:]
