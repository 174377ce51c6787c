"""Items of lists and fields of mappings in a YAML text, added and removed where they stand.

Comments, order and style of everything else stay as they are; aliases and anchors keep their places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from operad.flows.edit.paths import Step, path_of
from operad.runtime.values.errors import InputError

_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z_][\w-]*", re.IGNORECASE)


@dataclass
class Part:
    """A value in a YAML text.

    Attributes:
        begin: Place of its first character, that of its anchor if it has one.
        end: Place behind its last character; comments and blank lines after it are not part of it.
        column: Column in which it begins.
        kind: "scalar", "list", "map" or "alias".
        flow: True for a list or mapping in brackets.
        anchor: Name of its anchor, or of the anchor that it is an alias of.
        entries: Items of a list; values of a mapping.
        keys: Keys of a mapping.
    """

    begin: int
    end: int
    column: int
    kind: str
    flow: bool = False
    anchor: str = ""
    entries: list[Part] = field(default_factory=list["Part"])
    keys: list[Part] = field(default_factory=list["Part"])
    text: str = ""

    def child(self, step: Step) -> Part | None:
        """Return the item or the value at a step; None if there is none."""
        if isinstance(step, int):
            return self.entries[step] if self.kind == "list" and step < len(self.entries) else None
        found = (value for key, value in zip(self.keys, self.entries, strict=False) if key.text == step)
        return next(found, None) if self.kind == "map" else None

    def spans(self) -> list[tuple[int, int]]:
        """Return the places of items, or of fields from the key to the end of the value."""
        firsts = self.keys if self.kind == "map" else self.entries
        return [(one.begin, max(one.end, other.end)) for one, other in zip(firsts, self.entries, strict=True)]


def part_at(text: str, path: Sequence[Step]) -> Part | None:
    """Return the value at a path of a YAML text; None if there is none."""
    events = cast("Iterator[Any]", yaml.parse(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
    found: Part | None = next(
        (_part(text, event, events) for event in events if isinstance(event, yaml.NodeEvent)), None
    )
    for step in path:
        found = found and found.child(step)
    return found


def with_item(text: str, path: Sequence[Step], at: int, written: str) -> str:
    """Return the text with another item in a list, or, behind another field, another field in a mapping.

    Args:
        text: The text.
        path: Path of the list or mapping.
        at: Place of the new item.
        written: The item in YAML; further lines of it are indented by two spaces where the list is a block.
    """
    holder = _require(text, path)
    spans = holder.spans()
    if holder.flow:
        if not spans:
            return _spliced(text, holder.end - 1, holder.end - 1, written)
        if at < len(spans):
            return _spliced(text, spans[at][0], spans[at][0], f"{written}, ")
        return _spliced(text, spans[-1][1], spans[-1][1], f", {written}")
    mark, margin = "- " if holder.kind == "list" else "", " " * holder.column
    lines = re.sub(r"\n(?=[^\n])", f"\n{margin}{'  ' if mark else ''}", written)
    if at == 0:
        begin = _dash(text, holder, 0)
        return _spliced(text, begin, begin, f"{mark}{lines}\n{margin}")
    end = _line_end(text, spans[at - 1][1])
    return _spliced(text, end, end, f"\n{margin}{mark}{lines}")


def without_item(text: str, path: Sequence[Step], at: int) -> str:
    """Return the text without an item of a list, or a field of a mapping; a comment on its last line goes with it."""
    holder = _require(text, path)
    spans = holder.spans()
    begin, end = spans[at]
    if holder.flow:
        if at + 1 < len(spans):
            comma = text.index(",", end) + 1
            return _spliced(text, begin, comma + len(text[comma:]) - len(text[comma:].lstrip(" ")), "")
        if at == 0:
            return _spliced(text, begin, end, "")
        comma = text.index(",", spans[at - 1][1])
        kept = text[comma + 1 : begin].rstrip(" ")
        return _spliced(text, comma, end, kept)
    begin, end = _dash(text, holder, at), _line_end(text, end)
    if len(spans) == 1:
        return _spliced(text, begin, end, "[]" if holder.kind == "list" else "{}")
    line = text.rfind("\n", 0, begin) + 1
    if text[line:begin].strip():  # it shares its line with the dash or the key of what it is in
        rest = text[end:].lstrip()
        return _spliced(text, begin, len(text) - len(rest), "")
    return _spliced(text, line, min(end + 1, len(text)), "")


def with_part(text: str, path: Sequence[Step], written: str) -> str:
    """Return the text with other YAML in place of a value in one line, or of an alias."""
    part = part_at(text, path)
    if part is None:
        raise InputError(f"{path_of(path)}: is not in the file")
    return _spliced(text, part.begin, part.end, written)


def anchored(text: str, path: Sequence[Step], name: str) -> tuple[str, str]:
    """Return the text with an anchor at a value, and the name of the anchor: the one that it has, or a new one."""
    part = _require(text, path)
    if part.anchor:
        return text, part.anchor
    gap = " " if part.flow or part.kind == "scalar" else "\n" + " " * part.column
    anchor = re.sub(r"[^\w-]+", "-", name).strip("-") or "operator"
    return _spliced(text, part.begin, part.begin, f"&{anchor}{gap}"), anchor


def scalar(value: str) -> str:
    """Return a name as YAML: plain where it can be, else quoted."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _require(text: str, path: Sequence[Step]) -> Part:
    part = part_at(text, path)
    if part is None or part.kind == "alias":
        raise InputError(f"{path_of(path)}: stands elsewhere in the file, by an anchor; edit it in the file")
    return part


def _spliced(text: str, begin: int, end: int, new: str) -> str:
    return f"{text[:begin]}{new}{text[end:]}"


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _dash(text: str, holder: Part, at: int) -> int:
    """The place of the dash of an item, or of the key of a field."""
    begin = holder.spans()[at][0]
    if holder.kind == "map":
        return begin
    line = text.rfind("\n", 0, begin) + 1
    while text[line + holder.column : line + holder.column + 1] != "-":
        line = text.rfind("\n", 0, line - 1) + 1
    return line + holder.column


def _part(text: str, event: Any, events: Iterator[Any]) -> Part:
    first, last = event.start_mark, event.end_mark
    begin, column = int(first.index), int(first.column)
    anchor = event.anchor or ""
    if isinstance(event, yaml.AliasEvent):
        return Part(begin, last.index, column, "alias", anchor=anchor)
    if isinstance(event, yaml.ScalarEvent):
        end = int(last.index)
        return Part(begin, begin + len(text[begin:end].rstrip()), column, "scalar", anchor=anchor, text=event.value)
    is_list = isinstance(event, yaml.SequenceStartEvent)
    part = Part(begin, begin, column, "list" if is_list else "map", bool(event.flow_style), anchor)
    while not isinstance(ended := next(events), yaml.CollectionEndEvent):
        if not is_list:
            part.keys.append(_part(text, ended, events))
            ended = next(events)
        part.entries.append(_part(text, ended, events))
    part.end = cast("Any", ended.end_mark).index if part.flow else part.spans()[-1][1]
    if anchor and not part.flow and part.entries:  # the anchor stands in a line above, or beside the key
        first = (part.keys or part.entries)[0]
        line = text.rfind("\n", 0, first.begin) + 1
        part.column = first.column if not is_list else len(text[line:]) - len(text[line:].lstrip(" "))
    return part
