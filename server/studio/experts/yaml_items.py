"""Items of lists and fields of mappings in a YAML text, added and removed in place.

Comments, order and style of everything else stay as they are; aliases and anchors stay in place.
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
        begin: Position of its first character, or of its anchor if it has one.
        end: Position after its last character; comments and blank lines that follow are not included.
        column: Column of its first character.
        kind: "scalar", "list", "map" or "alias".
        flow: True for a list or mapping in brackets.
        anchor: Name of its anchor, or of the anchor that it is an alias of.
        entries: Items of a list; values of a mapping.
        keys: Keys of a mapping.
        text: Value of a scalar; empty for others.
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
        """Return the positions of items, or of fields from the start of the key to the end of the value."""
        starts = self.keys if self.kind == "map" else self.entries
        return [(start.begin, max(start.end, entry.end)) for start, entry in zip(starts, self.entries, strict=True)]


def part_at(text: str, path: Sequence[Step]) -> Part | None:
    """Return the value at a path of a YAML text; None if there is none."""
    events = cast("Iterator[Any]", yaml.parse(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
    found: Part | None = next(
        (_read_part(text, event, events) for event in events if isinstance(event, yaml.NodeEvent)), None
    )
    for step in path:
        found = found and found.child(step)
    return found


def with_item(text: str, path: Sequence[Step], at: int, written: str) -> str:
    """Return the text with another item in a list, or another field, after an existing one, in a mapping.

    Args:
        text: The text.
        path: Path of the list or mapping.
        at: Index of the new item.
        written: The item in YAML; its further lines are indented by two spaces in a block list.
    """
    holder = _own_part(text, path)
    spans = holder.spans()
    if holder.flow:
        if not spans:
            return _replaced(text, holder.end - 1, holder.end - 1, written)
        if at < len(spans):
            return _replaced(text, spans[at][0], spans[at][0], f"{written}, ")
        return _replaced(text, spans[-1][1], spans[-1][1], f", {written}")
    mark, margin = "- " if holder.kind == "list" else "", " " * holder.column
    lines = re.sub(r"\n(?=[^\n])", f"\n{margin}{'  ' if mark else ''}", written)
    if at == 0:
        begin = _item_begin(text, holder, 0)
        return _replaced(text, begin, begin, f"{mark}{lines}\n{margin}")
    end = _line_end(text, spans[at - 1][1])
    return _replaced(text, end, end, f"\n{margin}{mark}{lines}")


def without_item(text: str, path: Sequence[Step], at: int) -> str:
    """Return the text without an item of a list or a field of a mapping; a comment on its last line is removed, too."""
    holder = _own_part(text, path)
    spans = holder.spans()
    begin, end = spans[at]
    if holder.flow:
        if at + 1 < len(spans):
            comma = text.index(",", end) + 1
            return _replaced(text, begin, comma + len(text[comma:]) - len(text[comma:].lstrip(" ")), "")
        if at == 0:
            return _replaced(text, begin, end, "")
        comma = text.index(",", spans[at - 1][1])
        kept = text[comma + 1 : begin].rstrip(" ")
        return _replaced(text, comma, end, kept)
    begin, end = _item_begin(text, holder, at), _line_end(text, end)
    if len(spans) == 1:
        return _replaced(text, begin, end, "[]" if holder.kind == "list" else "{}")
    line = text.rfind("\n", 0, begin) + 1
    if text[line:begin].strip():  # its line starts with the dash or the key of the part around it
        rest = text[end:].lstrip()
        return _replaced(text, begin, len(text) - len(rest), "")
    return _replaced(text, line, min(end + 1, len(text)), "")


def with_part(text: str, path: Sequence[Step], written: str) -> str:
    """Return the text with a value in one line, or an alias, replaced by other YAML."""
    part = part_at(text, path)
    if part is None:
        raise InputError(f"{path_of(path)}: is not in the file")
    return _replaced(text, part.begin, part.end, written)


def anchored(text: str, path: Sequence[Step], name: str) -> tuple[str, str]:
    """Return the text with an anchor at a value, and the name of the anchor, which is new if the value had none."""
    part = _own_part(text, path)
    if part.anchor:
        return text, part.anchor
    gap = " " if part.flow or part.kind == "scalar" else "\n" + " " * part.column
    anchor = re.sub(r"[^\w-]+", "-", name).strip("-") or "operator"
    return _replaced(text, part.begin, part.begin, f"&{anchor}{gap}"), anchor


def scalar(value: str) -> str:
    """Return a name as YAML: plain if possible, otherwise quoted."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _own_part(text: str, path: Sequence[Step]) -> Part:
    part = part_at(text, path)
    if part is None or part.kind == "alias":
        raise InputError(f"{path_of(path)}: stands elsewhere in the file, by an anchor; edit it in the file")
    return part


def _replaced(text: str, begin: int, end: int, new: str) -> str:
    return f"{text[:begin]}{new}{text[end:]}"


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _item_begin(text: str, holder: Part, at: int) -> int:
    """Return the position of the dash of an item, or of the key of a field."""
    begin = holder.spans()[at][0]
    if holder.kind == "map":
        return begin
    line = text.rfind("\n", 0, begin) + 1
    while text[line + holder.column : line + holder.column + 1] != "-":
        line = text.rfind("\n", 0, line - 1) + 1
    return line + holder.column


def _read_part(text: str, event: Any, events: Iterator[Any]) -> Part:
    start_mark, end_mark = event.start_mark, event.end_mark
    begin, column = int(start_mark.index), int(start_mark.column)
    anchor = event.anchor or ""
    if isinstance(event, yaml.AliasEvent):
        return Part(begin, end_mark.index, column, "alias", anchor=anchor)
    if isinstance(event, yaml.ScalarEvent):
        end = int(end_mark.index)
        return Part(begin, begin + len(text[begin:end].rstrip()), column, "scalar", anchor=anchor, text=event.value)
    is_list = isinstance(event, yaml.SequenceStartEvent)
    part = Part(begin, begin, column, "list" if is_list else "map", bool(event.flow_style), anchor)
    while not isinstance(next_event := next(events), yaml.CollectionEndEvent):
        if not is_list:
            part.keys.append(_read_part(text, next_event, events))
            next_event = next(events)
        part.entries.append(_read_part(text, next_event, events))
    part.end = cast("Any", next_event.end_mark).index if part.flow else part.spans()[-1][1]
    if anchor and not part.flow and part.entries:  # the anchor is on a line above, or next to the key
        start_mark = (part.keys or part.entries)[0]
        line = text.rfind("\n", 0, start_mark.begin) + 1
        part.column = start_mark.column if not is_list else len(text[line:]) - len(text[line:].lstrip(" "))
    return part
