"""Changes to a YAML text that keep the text, the comments and the layout of everything that stays the same.

An editor compares two versions of the values, the one of the text and the wanted one, and writes anew only what differs.
It descends into mappings by their keys, into lists whose items have an ``id`` each by these ids, and into other lists by
the items that are equal. Comments right before an entry belong to it: they move and go with it.

An alias is a value of its own, `Alias`: a change of what it stands for is a change at its anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple, cast

import yaml

from operad.flows.formats.yaml_text import Alias, list_node, on_one_line, serialized, value_node
from operad.runtime.values.document import parse_words
from operad.runtime.values.errors import InputError

Step = str | int

_MAP = "tag:yaml.org,2002:map"

_NOTHING = value_node(None)

_ANCHOR = re.compile(r"&\S+[ \t]*(?:#[^\n]*)?(?:\r?\n[ \t]*(?:#[^\n]*)?(?=\r?\n))*\r?\n( *)")
"""Anchor of a block, up to its first entry."""

DEEPEST = 60
"""Depth to which values are compared; a deeper text is written anew."""


def values_of(text: str) -> Any:
    r"""Return the values of a YAML text, in which each alias is an `Alias`.

    Example:
        >>> values_of("a: &x {b: 1}\nc: *x\n")
        {'a': {'b': 1}, 'c': Alias(anchor='x')}

    Raises:
        InvalidError: The text is not YAML, or exceeds a limit.
        NotKeptError: The text has a form that cannot be changed.
    """
    value = parse_words(text, "").value
    part = part_of(text)
    return None if part is None else _with_aliases(part, value)


class NotKeptError(InputError):
    """Text that cannot be changed without touching what stays the same."""

    def __init__(self) -> None:
        super().__init__("this cannot be changed here without touching other parts; edit it in the file")


@dataclass(slots=True)
class Part:
    """A value in a YAML text.

    Attributes:
        begin: Position of its first character, or of its anchor; for the entries of a block, see `Editor`.
        end: Position after its last character; comments and blank lines that follow are not included.
        column: Column of its first entry, or of its first character.
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

    @property
    def is_block(self) -> bool:
        """True for a list or a mapping with its entries on lines of their own."""
        return bool(self.entries) and not self.flow

    def child(self, step: Step) -> Part | None:
        """Return the item or the value at a step; None if there is none."""
        if isinstance(step, int):
            return self.entries[step] if self.kind == "list" and step < len(self.entries) else None
        found = (value for key, value in zip(self.keys, self.entries, strict=False) if key.text == step)
        return next(found, None) if self.kind == "map" else None


def part_of(text: str, path: Sequence[Step] = ()) -> Part | None:
    """Return the value at a path of a YAML text; None if there is none."""
    events = cast("Iterator[Any]", yaml.parse(text, yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]
    found = next((_read(text, event, events, 0) for event in events if isinstance(event, yaml.NodeEvent)), None)
    for step in path:
        found = found and found.child(step)
    return found


def anchored(text: str, path: Sequence[Step], name: str) -> tuple[str, str]:
    """Return the text with an anchor at a value, and the name of the anchor, which is new if the value had none."""
    part = part_of(text, path)
    assert part is not None  # noqa: S101 - the path is one of the text
    if part.anchor:
        return text, part.anchor
    gap = "\n" + " " * part.column if part.is_block else " "
    anchor = stem = re.sub(r"[^\w-]+", "-", name).strip("-") or "value"
    number = 1
    while re.search(rf"&{anchor}(?![^\s,\]}}])", text):
        number += 1
        anchor = f"{stem}-{number}"
    return f"{text[: part.begin]}&{anchor}{gap}{text[part.begin :]}", anchor


def _read(text: str, event: Any, events: Iterator[Any], depth: int) -> Part:
    if depth > DEEPEST:
        raise NotKeptError
    begin, end, column = int(event.start_mark.index), int(event.end_mark.index), int(event.start_mark.column)
    anchor = event.anchor or ""
    if isinstance(event, yaml.AliasEvent):
        return Part(begin, end, column, "alias", anchor=anchor)
    if isinstance(event, yaml.ScalarEvent):
        keeps_breaks = event.style in ("|", ">") and "+" in text[begin:end].partition("\n")[0]
        end = end - 1 if keeps_breaks else begin + len(text[begin:end].rstrip())
        return Part(begin, end, column, "scalar", anchor=anchor, text=event.value)
    is_list = isinstance(event, yaml.SequenceStartEvent)
    part = Part(begin, end, column, "list" if is_list else "map", bool(event.flow_style), anchor)
    while not isinstance(next_event := next(events), yaml.CollectionEndEvent):
        if not is_list:
            part.keys.append(_read(text, next_event, events, depth + 1))
            if text[part.keys[-1].begin - 2 : part.keys[-1].begin] == "? ":
                raise NotKeptError
            next_event = next(events)
        part.entries.append(_read(text, next_event, events, depth + 1))
    if not part.is_block:
        part.end = int(cast("Any", next_event).end_mark.index)
        return part
    part.end = max(part.entries[-1].end, part.keys[-1].end + 1 if part.keys else 0)
    if anchor:  # it is on a line above the first entry
        if (found := _ANCHOR.match(text, begin)) is None:
            raise NotKeptError
        part.column = len(found[1])
    return part


def _with_aliases(part: Part, value: Any) -> Any:
    if part.kind == "alias":
        return Alias(part.anchor)
    if part.kind == "list":
        return [_with_aliases(entry, item) for entry, item in zip(part.entries, value, strict=True)]
    if part.kind == "map":
        return {
            key.text: _with_aliases(entry, value[key.text]) for key, entry in zip(part.keys, part.entries, strict=True)
        }
    return value


# Comparison


class _Row(NamedTuple):
    """An entry of the changed text.

    Attributes:
        place: Its index in the old text; None for a new entry.
        key: Its key; None for an item of a list.
        was: Its value before; None for a new entry.
        now: Its value.
    """

    place: int | None
    key: yaml.Node | None
    was: yaml.Node | None
    now: yaml.Node


def _content(node: yaml.Node | None) -> Any:
    """Return the content of a node as a value that can be compared and hashed, without its layout."""
    if isinstance(node, yaml.MappingNode):
        return ("map", tuple((key.value, _content(value)) for key, value in node.value))
    if isinstance(node, yaml.SequenceNode):
        return ("list", tuple(map(_content, node.value)))
    return node and (node.tag, node.value)


def _has_lines(node: yaml.Node | None) -> bool:
    """Return whether a mapping has a text of several lines."""
    values = [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else []
    return any(isinstance(value, yaml.ScalarNode) and "\n" in value.value for value in values)


def _mapping_rows(part: Part, was: yaml.MappingNode, now: yaml.MappingNode) -> list[_Row] | None:
    before = {str(key.value): value for key, value in was.value}
    after = {str(key.value): (key, value) for key, value in now.value}
    old = {key.text: place for place, key in enumerate(part.keys)}
    if len(old) < len(part.keys):
        return None
    renamed = _renamed(before, {name: value for name, (_, value) in after.items()})
    return [
        _Row(old.get(renamed.get(key, key)), after[key][0], before.get(renamed.get(key, key)), after[key][1])
        for key in _order(list(old), list(before), list(after), renamed)
    ]


def _list_rows(part: Part, was: yaml.SequenceNode, now: yaml.SequenceNode) -> list[_Row] | None:
    old_ids = [child.text if (child := entry.child("id")) else "" for entry in part.entries]
    was_ids, now_ids = _ids(was), _ids(now)
    if was_ids and now_ids and all(old_ids) and len(set(old_ids)) == len(old_ids):
        old = {name: place for place, name in enumerate(old_ids)}
        before, after = dict(zip(was_ids, was.value, strict=True)), dict(zip(now_ids, now.value, strict=True))
        renamed = _renamed(before, after)
        return [
            _Row(old.get(renamed.get(key, key)), None, before.get(renamed.get(key, key)), after[key])
            for key in _order(old_ids, was_ids, now_ids, renamed)
        ]
    if len(part.entries) != len(was.value):
        return None
    rows: list[_Row] = []
    for begin, end, first, last in pairs(
        [_content(item) for item in was.value], [_content(item) for item in now.value]
    ):
        paired = min(end - begin, last - first)
        rows += [_Row(begin + n, None, was.value[begin + n], now.value[first + n]) for n in range(paired)]
        rows += [_Row(None, None, None, now.value[n]) for n in range(first + paired, last)]
    return rows


_MOST_COMPARED = 10**7
"""Maximum product of the lengths of two lists that are compared item by item, as that may take as many steps."""


def pairs(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stretches of two lists that belong together: equal ones, and what lies between them."""
    begin = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    rest = before[begin:], after[begin:]
    ends = zip(reversed(rest[0]), reversed(rest[1]), strict=False)
    tail = next((n for n, (a, b) in enumerate(ends) if a != b), min(map(len, rest)))
    rest = rest[0][: len(rest[0]) - tail], rest[1][: len(rest[1]) - tail]
    yield 0, begin, 0, begin
    if len(rest[0]) * len(rest[1]) > _MOST_COMPARED:
        yield begin, begin + len(rest[0]), begin, begin + len(rest[1])
    else:
        for _, *places in SequenceMatcher(None, *rest, False).get_opcodes():
            first, last, new_first, new_last = (begin + place for place in places)
            yield first, last, new_first, new_last
    yield len(before) - tail, len(before), len(after) - tail, len(after)


def _renamed(before: Mapping[str, yaml.Node], after: Mapping[str, yaml.Node]) -> dict[str, str]:
    """Return the old names of entries that got other ones: mappings in the same place with mostly the same content."""
    gone, new = [key for key in before if key not in after], [key for key in after if key not in before]
    if not gone or not new:
        return {}
    follows = {key: last for last, key in pairwise(["", *before])}
    found: dict[str, str] = {}
    for last, key in pairwise(["", *after]):
        old = next((each for each in gone if follows[each] == found.get(last, last)), None) if key in new else None
        if old is not None and _is_alike(before[old], after[key]):
            found[key] = old
    return found


def _is_alike(old: yaml.Node, new: yaml.Node) -> bool:
    if not isinstance(old, yaml.MappingNode) or not isinstance(new, yaml.MappingNode):
        return False
    fields = [{(key.value, _content(value)) for key, value in node.value} for node in (old, new)]
    return 2 * len(fields[0] & fields[1]) >= max(len(fields[0]), len(fields[1]))


def _ids(node: yaml.SequenceNode) -> list[str]:
    """Return the id of each item of a list; none unless all are mappings with different ids."""
    found = [
        [str(value.value) for key, value in item.value if key.value == "id" and isinstance(value, yaml.ScalarNode)]
        for item in node.value
        if isinstance(item, yaml.MappingNode)
    ]
    ids = [each[0] for each in found if len(each) == 1]
    return ids if len(set(ids)) == len(node.value) else []


def _order(old: Sequence[str], was: Sequence[str], now: Sequence[str], renamed: Mapping[str, str]) -> Sequence[str]:
    """Return the keys of the changed text in the order of the old text, each new key after the key that it follows.

    If the change moved keys, return them in the new order.
    """
    new_names = {name: key for key, name in renamed.items()}
    old, was = ([new_names.get(key, key) for key in keys] for keys in (old, was))
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


# Text


class Editor:
    """Editor of one text.

    The text of a block begins with the comments before its first entry, if that is on a line of its own, and ends with
    the line of its last entry. The text of any other value begins with its anchor and ends with its last character.
    """

    def __init__(self, text: str) -> None:
        self._end_of_file = "\n" if text and not text.endswith("\n") else ""
        self._text = f"{text}{self._end_of_file}"

    def edited(self, was: yaml.Node | None, now: yaml.Node | None) -> str:
        """Return the text with other values: with what turns the first of two versions of them into the second."""
        root = self._root()
        if root is None or root.kind == "scalar" or was is None or now is None:
            raise NotKeptError
        begin = self._entry_begin(root, 0) if root.is_block else root.begin  # comments at the top are of the file
        kept = self._kept(root, was, now, begin)
        if kept is None:
            raise NotKeptError
        changed = f"{self._text[:begin]}{kept}{self._text[self._end(root) :]}"
        is_last = not root.is_block or changed.endswith(
            self._text[self._text.rfind("\n", 0, -1) + 1 :]
        )  # a new line may need its end
        return changed.removesuffix(self._end_of_file) if is_last else changed

    def _root(self) -> Part | None:
        return part_of(self._text)

    def _kept(self, part: Part, was: yaml.Node | None, now: yaml.Node, begin: int) -> str | None:
        """Return the text of a value at its place; None if it has to be written anew."""
        if was is not None and _content(was) == _content(now):
            return self._text[begin : self._end(part)]
        rows: list[_Row] | None = None
        if part.kind == "map" and isinstance(was, yaml.MappingNode) and isinstance(now, yaml.MappingNode):
            rows = _mapping_rows(part, was, now)
        elif part.kind == "list" and isinstance(was, yaml.SequenceNode) and isinstance(now, yaml.SequenceNode):
            rows = _list_rows(part, was, now)
        elif was is not None and isinstance(now, yaml.SequenceNode) and part.kind != "list":
            return self._as_item(part, was, now, begin)
        if not rows or not part.entries:
            return None
        return self._block(part, rows, begin) if part.is_block else self._flow(part, rows)

    def _flow(self, part: Part, rows: Sequence[_Row]) -> str:
        """Return a list or a mapping in brackets; entries that stay keep what separates them from those before."""
        starts = [each.begin for each in part.keys or part.entries]
        ends = [max(start, entry.end) for start, entry in zip(starts, part.entries, strict=True)]
        opening = self._text[part.begin : starts[0]]
        between = self._text[ends[0] : starts[1]] if len(starts) > 1 else self._comma(opening)
        between = between if "#" not in between else ", "
        written: list[str] = []
        for row in rows:
            separator = between
            if row.place is not None:
                value, key = part.entries[row.place], part.keys[row.place] if part.keys else None
                head = self._text[starts[row.place] : value.begin]
                if row.key and key and row.key.value != key.text:
                    head = self._in_brackets(row._replace(now=_NOTHING), part)[: -len("null")]
                kept = self._kept(value, row.was, row.now, value.begin)
                if kept is None and (not key or ":" in self._text[key.end : value.begin]):
                    kept = self._in_brackets(row._replace(key=None), part)
                text = self._in_brackets(row, part) if kept is None else f"{head}{kept}"
                separator = self._text[ends[row.place - 1] : starts[row.place]] if row.place else separator
            else:
                text = self._in_brackets(row, part)
            written += [separator if written else "", text]
        return f"{opening}{''.join(written)}{self._text[ends[-1] : part.end]}"

    def _comma(self, opening: str) -> str:
        """Return what separates the entries of a list or a mapping in brackets that has one, given its beginning."""
        return f",{opening[len(opening.rstrip()) :]}" if "\n" in opening else ", "

    def _in_brackets(self, row: _Row, part: Part) -> str:
        """Return an entry as it is written anew inside of brackets."""
        holder = yaml.MappingNode(_MAP, [(row.key, row.now)]) if row.key else list_node([row.now])
        return serialized(on_one_line(holder))[1:-2]

    def _block(self, part: Part, rows: Sequence[_Row], begin: int) -> str:
        """Return a list or a mapping whose entries are on lines of their own."""
        starts = [self._entry_begin(part, place) for place in range(len(part.entries))]
        ends = [self._entry_end(part, place, starts) for place in range(len(starts))]
        margin = " " * part.column
        leads = [self._text[end + 1 : start] for end, start in zip([begin - 1, *ends], starts, strict=False)]
        mappings = [entry for entry in part.entries if entry.kind == "map" and entry.entries]
        prefers_block = 2 * sum(entry.is_block for entry in mappings) > len(mappings)
        is_inline = bool(self._text[self._text.rfind("\n", 0, begin) + 1 : begin].strip())
        written: list[str] = []
        for row in rows:
            lead = margin if row.place is None else leads[row.place] or margin
            if is_inline and not written:
                lead = ""
            entry = (
                self._new_entry(row, part.column, prefers_block)
                if row.place is None
                else self._entry(part, row, row.place, starts[row.place], ends[row.place])
            )
            written.append(f"{lead}{entry}")
        return "\n".join(written)

    def _entry(self, part: Part, row: _Row, place: int, start: int, end: int) -> str:
        """Return an entry of a block that was there before."""
        value, key = part.entries[place], part.keys[place] if part.keys else None
        begin = self._block_begin(value, start) if value.is_block else value.begin
        kept = None if self._needs_lines(value, row) else self._kept(value, row.was, row.now, begin)
        if kept is not None:
            head = self._text[start:begin]
            if row.key and key and row.key.value != key.text:
                head = (
                    f"{self._written(row._replace(now=_NOTHING), 0)[: -len(' null')]}{self._text[key.end + 1 : begin]}"
                )
            if value.is_block and value.kind == "map" and isinstance(row.now, yaml.SequenceNode):
                head = head.replace(f"&{value.anchor} ", "", 1)  # it is at the item now
            return f"{head}{kept}{self._text[self._end(value) : end]}"
        first, newline, more = self._written(row, part.column).partition("\n")
        remark = self._text[value.end : self._line_end(value.end)] if key and not value.is_block else ""
        return f"{first}{remark}{newline}{more}"

    def _needs_lines(self, value: Part, row: _Row) -> bool:
        """Return whether a value in brackets gets a text of several lines, which brackets would hold in one line."""
        is_plain = value.flow and not re.search(r"[#&]", self._text[value.begin : self._end(value)])  # nothing is lost
        return is_plain and _has_lines(row.now) and not _has_lines(row.was)

    def _new_entry(self, row: _Row, column: int, prefers_block: bool) -> str:
        now = row.now
        if isinstance(now, yaml.MappingNode) and now.value and prefers_block:
            now = yaml.MappingNode(now.tag, now.value, flow_style=False)
        return self._written(row._replace(now=now), column)

    def _written(self, row: _Row, column: int) -> str:
        """Return an entry of a block as it is written anew in a column."""
        holder = yaml.MappingNode(_MAP, [(row.key, row.now)], flow_style=False) if row.key else list_node([row.now])
        written = (
            serialized(holder).removesuffix("...\n").removesuffix("\n")
        )  # an end mark follows a text of blank lines
        return re.sub(r"\n(?=[^\n])", "\n" + " " * column, written)

    def _as_item(self, part: Part, was: yaml.Node, now: yaml.SequenceNode, begin: int) -> str | None:
        """Return the text of a list in which the old value is an item; None if it is none."""
        place = next((n for n, item in enumerate(now.value) if _content(item) == _content(was)), None)
        kept = self._text[begin : self._end(part)]
        if place is None or (not part.is_block and "\n" in kept):
            return None
        items = [_Row(None, None, None, item) for item in now.value]
        if not part.is_block:
            return (
                f"[{', '.join(kept if n == place else self._in_brackets(item, part) for n, item in enumerate(items))}]"
            )
        first, margin = self._entry_begin(part, 0), "\n" + " " * part.column
        anchor = f"&{part.anchor}{margin}  " if part.anchor else ""
        shifted = re.sub(r"\n(?=[^\n])", "\n  ", self._text[first : self._end(part)])
        written = [
            f"- {anchor}{shifted}" if n == place else self._written(item, part.column) for n, item in enumerate(items)
        ]
        return f"{self._text[begin:first]}{margin.join(written)}"

    # Positions

    def _line_end(self, place: int) -> int:
        end = self._text.find("\n", place)
        return len(self._text) if end < 0 else end

    def _end(self, part: Part) -> int:
        """Return the position of the end of a value's text."""
        return self._line_end(part.end) if part.is_block else part.end

    def _entry_begin(self, holder: Part, place: int) -> int:
        """Return the position of the key or the dash of an entry of a block."""
        if holder.keys:
            return holder.keys[place].begin
        line = self._text.rfind("\n", 0, holder.entries[place].begin) + 1
        while self._text[line + holder.column : line + holder.column + 1] != "-":
            if not line:
                raise NotKeptError
            line = self._text.rfind("\n", 0, line - 1) + 1
        return line + holder.column

    def _block_begin(self, part: Part, after: int) -> int:
        """Return the position where a block begins, which is in an entry that begins at `after`."""
        first = self._entry_begin(part, 0)
        line = self._text.rfind("\n", 0, first) + 1
        if line <= after:
            return first
        while line - 1 > after and _is_comment_or_empty(self._text[self._text.rfind("\n", 0, line - 1) + 1 : line - 1]):
            line = self._text.rfind("\n", 0, line - 1) + 1
        return line

    def _entry_end(self, holder: Part, place: int, starts: Sequence[int]) -> int:
        """Return the position of the end of the last line of an entry, or of comments after it that are farther in."""
        key = holder.keys[place].end if holder.keys else 0
        end = line_end = self._line_end(max(holder.entries[place].end, key))
        if place + 1 == len(starts):
            return end
        while (next_end := self._line_end(line_end + 1)) < starts[place + 1]:
            line = self._text[line_end + 1 : next_end]
            if line.strip() and len(line) - len(line.lstrip()) > holder.column:
                end = next_end
            line_end = next_end
        return end


def _is_comment_or_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")
