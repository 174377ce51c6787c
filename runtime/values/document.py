"""Safe YAML parser: plain values with their lines. Hostile text ends in an error, within limits of size and depth.

Operad's own files, and forms of answers, are read as people write them: ``true``, ``false``, ``null`` and decimal numbers
are values, and everything else without quotes is text, such as ``yes``, ``NO``, ``12:30``, ``2026-01-01`` and
``010``, which YAML 1.1 reads as other values. Numbers that are not finite are errors. Files of other platforms are read by YAML 1.1, as these read them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from operad.runtime.values.base_errors import InputError, InvalidError, Issue
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.near_names import did_you_mean
from operad.runtime.values.yaml_faults import syntax_issue, with_excerpt

MAX_BYTES = 4 * 2**20
"""Maximum size of a YAML file, in bytes."""

MAX_VALUES = 200_000
"""Maximum number of values in a document after its aliases are expanded."""

TEXT_SIZE = 20
"""Number of characters of an anchored text that count as one value, to limit the text that aliases expand to."""

MAX_NUMBER = 300
"""Maximum length of a number, in characters."""

MAX_DEPTH = 60
"""Maximum nesting of values."""

_COLLECTIONS = {None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")}
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_TEXTS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "value", "merge")}
"""Tags of text; a bare `=` or `<<` is text, except for a key `<<`."""
# A subset of what YAML 1.1 reads as such, so that a text that a library writes without quotes remains a text.
_PLAIN = {
    "null": re.compile(r"null|Null|NULL|~|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*)"),
    "float": re.compile(
        r"[-+]?(?:(?:0|[1-9][0-9_]*)\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?i:inf)|\.(?i:nan)"
    ),
}
"""Texts without quotes that stand for other values."""

Path_ = tuple["str | int", ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file.

    Attributes:
        name: Name of the file, as given by the user.
        data: Its content: mappings, lists, text, numbers, booleans, None. An alias is the same
            object as its anchor.
        lines: Line of each value, by its path, counted from 1: in a mapping the line of its key, in a list its own.
        written: As of `YamlValues`.
    """

    name: str
    data: dict[str, Any]
    anchors: dict[int, str]
    lines: dict[Path_, int]
    written: Mapping[tuple[int, str | int], str] = field(default_factory=dict[tuple[int, "str | int"], str])

    def line(self, path: Path_) -> int:
        """Return the line of the value at `path`, or of the nearest enclosing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, path: Path_) -> str:
        """Return ``file:line path``, for messages."""
        return f"{self.name}:{self.line(path)} {dotted(path)}".rstrip()


def read_document(path: str | Path, name: str = "") -> Document:
    """Read and parse a YAML file; `name` is its name in messages, by default its path.

    Raises:
        InputError: The file does not exist, is too large or is not text.
        InvalidError: The text is not YAML, not a mapping, nested too deeply, too large after its aliases are expanded,
            or has duplicate keys.
    """
    file = FileDescriptor.of(path)
    return parse_document(file.read_text(MAX_BYTES), name or str(path))


class YamlValues(NamedTuple):
    """Values of a YAML text, with their lines.

    Attributes:
        value: Mappings with text as keys, lists, text, numbers, booleans, dates, None. An alias is the same object as
            its anchor.
        lines: Line of each value in a mapping or a list, counted from 1, by the `id` of that container and the key or
            index.
        anchors: Names of the anchors of mappings and lists, by the `id` of the value.
        first: Line of the whole value; 0 for a text without a value.
        written: Texts of the values that are written in another way than in JSON, such as ``1.10`` or ``~``, and empty
            ones of keys without a value in braces; by container and key, as `lines`.
        marks: Positions of the values in the text, in characters; by container and key, as `lines`.
        slips: Faults that do not prevent reading, such as duplicate keys, with their positions.
    """

    value: Any
    lines: Mapping[tuple[int, str | int], int]
    anchors: dict[int, str]
    first: int
    written: Mapping[tuple[int, str | int], str]
    marks: Mapping[tuple[int, str | int], int]
    slips: Sequence[tuple[Issue, int]]

    def line(self, holder: Any, key: str | int) -> int:
        """Return the line of the value under a key or index of `holder`, a mapping or a list; 0 if there is none."""
        return self.lines.get((id(holder), key), 0)


def parse_yaml(text: str, name: str, *, merges: bool = False) -> YamlValues:
    """Parse YAML text of another platform with any value, by YAML 1.1.

    Args:
        name: Name of the text in messages.
        merges: True if mappings may contain others by merge keys (``<<``), which are a fault otherwise.

    Raises:
        InvalidError: The text is not YAML, nested too deeply, too large after its aliases are expanded, or has
            duplicate keys.
    """
    return _without_slips(_read(text, name, yaml_1_1=True, merges=merges), name)


def parse_words(text: str, name: str) -> YamlValues:
    """Parse YAML text with any value, in which words are text; faults that do not prevent reading are `slips`.

    Args:
        name: Name of the text in messages.

    Raises:
        InvalidError: The text is not YAML, nested too deeply, or too large after its aliases are expanded.
    """
    return _read(text, name, yaml_1_1=False)


def _without_slips(values: YamlValues, name: str) -> YamlValues:
    if values.slips:
        raise InvalidError(f"{name} cannot be read", [issue for issue, _ in values.slips])
    return values


def _read(text: str, name: str, *, yaml_1_1: bool, merges: bool = False) -> YamlValues:
    try:
        reader = _Reader(text, name, yaml_1_1, merges)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that is not allowed in YAML; a lone surrogate
        raise InvalidError(f"{name} is not YAML", [syntax_issue(error, text, name)]) from error
    try:
        return reader.read()
    except yaml.YAMLError as error:
        raise InvalidError(f"{name} is not YAML", [*reader.issues, syntax_issue(error, text, name)]) from error


def parse_document(text: str, name: str, *, list_as: str = "") -> Document:
    """Parse YAML text with a mapping.

    Args:
        name: Name of the document in messages.
        list_as: Key under which to put a top-level list; by default, a top-level list is an error.

    Raises:
        InputError: The text is empty.
        InvalidError: As `read_document`.
    """
    parsed = _without_slips(parse_words(text, name), name)
    data, lines = parsed.value, parsed.lines
    if data is None:
        raise InputError(f"{name}: is empty")
    if list_as and isinstance(data, list):
        data = {list_as: cast("Any", data)}
        lines = {**lines, (id(data), list_as): parsed.first}
    if not isinstance(data, dict):
        raise InvalidError(f"{name} cannot be read", [Issue("shape", "must be a mapping of keys to values", name)])
    by_path = dict(_by_path(data, parsed.first, lines))
    return Document(name, cast("dict[str, Any]", data), parsed.anchors, by_path, parsed.written)


def dotted(path: Path_) -> str:
    """Return ``experts[0].workflow`` for ``("experts", 0, "workflow")``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _by_path(data: Any, first: int, lines: Mapping[tuple[int, str | int], int]) -> Iterator[tuple[Path_, int]]:
    """Yield the path and the line of each value in `data`, at most `MAX_VALUES`."""
    pending: list[tuple[Any, Path_, int]] = [(data, (), first)]
    remaining = MAX_VALUES
    while pending and remaining:
        value, path, line = pending.pop()
        remaining -= 1
        yield path, line
        if isinstance(value, dict | list):
            holder = cast("dict[str, Any] | list[Any]", value)
            children: Iterable[tuple[str | int, Any]] = (
                holder.items() if isinstance(holder, dict) else enumerate(holder)
            )
            pending += [(item, (*path, key), lines[id(holder), key]) for key, item in children]


class _Container:
    """A mapping or a list whose end has not been read yet.

    Attributes:
        value: The items read so far.
        line: Line where it begins.
        key: Key whose value comes next; None if a key comes next.
        size: Number of values in it, aliases expanded.
        mark: Position where it begins.
    """

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, start: Any, in_braces: bool) -> None:
        self.value = value
        self.anchor = anchor
        self.line = int(start.line) + 1
        self.mark = int(start.index)
        self.in_braces = in_braces
        self.key: str | None = None
        self.size = 1


class _Reader:
    """Builder of values from the parser's events, without recursion, which checks the limits while reading."""

    def __init__(self, text: str, name: str, yaml_1_1: bool, merges: bool = False) -> None:
        parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
        self._loader: Any = parser(text)
        self._text = text
        self._name = name
        self._yaml_1_1 = yaml_1_1
        self._merges = merges
        self._stack: list[_Container] = []
        self._anchored: dict[str, tuple[Any, int, int, str | None]] = {}
        self._top_value: Any = None
        self._first_line = 0
        self._count = 0
        self._current: Any = None
        self._lines: dict[tuple[int, str | int], int] = {}
        self._written: dict[tuple[int, str | int], str] = {}
        self._marks: dict[tuple[int, str | int], int] = {}
        self._anchors: dict[int, str] = {}
        self._slips: list[tuple[Issue, int]] = []

    @property
    def issues(self) -> list[Issue]:
        """Faults so far."""
        return [issue for issue, _ in self._slips]

    @property
    def _current_line(self) -> int:
        return int(self._current.line) + 1

    def read(self) -> YamlValues:
        """Return the values of the whole text.

        Raises:
            InvalidError: The text exceeds a limit, or has an alias without an anchor.
        """
        documents = 0
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                self._current = event.start_mark
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    raise self._error("yaml", "a second document begins here; put it into a file of its own")
                self._handle(event)
        finally:
            self._loader.dispose()
        places = self._written, self._marks, self._slips
        return YamlValues(self._top_value, self._lines, self._anchors, self._first_line, *places)

    def _handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin_container(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = self._stack.pop()
            if self._merges and isinstance(done.value, dict) and "<<" in done.value:
                self._merge(done.value)
            if done.anchor:
                self._anchored[done.anchor] = (done.value, done.size, done.line, None)
            self._add_value(done.value, done.size, done.line, done.mark)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _merge(self, value: dict[str, Any]) -> None:
        """Put the keys of the mappings under ``<<`` into a mapping that has them not; earlier mappings come first."""
        given = value.pop("<<")
        for source in cast("list[Any]", given) if isinstance(given, list) else [given]:
            if not isinstance(source, dict):
                self._report("key", "a merge key (<<) takes a mapping, or a list of mappings")
                return
            for key, each in cast("dict[str, Any]", source).items():
                if key not in value:
                    value[key] = each
                    self._lines[id(value), key] = self._lines[id(cast("Any", source)), key]

    def _alias(self, event: Any) -> None:
        """Add the value of an alias, as a key or a value."""
        anchor: str = event.anchor
        if any(enclosing.anchor == anchor for enclosing in self._stack):
            raise self._error("cycle", f"*{anchor[:80]} contains itself")
        if anchor not in self._anchored:
            problem = f"there is no anchor &{anchor[:80]}{did_you_mean(anchor[:80], self._anchored)}"
            mark = event.start_mark
            issue = Issue(
                "yaml",
                with_excerpt(problem, self._text, mark.line),
                f"{self._name}:{self._current_line}:{mark.column + 1}",
            )
            raise InvalidError(f"{self._name} is not YAML", [*self.issues, issue])
        value, size, line, written = self._anchored[anchor]
        if self._expects_key():
            if not isinstance(value, str):
                raise self._error("key", "a key must be plain text")
            self._set_key(value)
            return
        self._count_values(size)
        self._add_value(value, size, line, int(event.start_mark.index), written)

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        size = 1 + len(text) // TEXT_SIZE
        written: str | None = None
        if self._expects_key():
            if text == "<<" and event.implicit[0] and not self._merges:
                raise self._error("key", "merge keys (<<) are not supported; write the keys themselves")
            self._set_key(text)
            value: Any = text
        else:
            value = self._scalar_value(event)
            in_braces = bool(self._stack) and self._stack[-1].in_braces
            if not isinstance(value, str) and (text or in_braces) and text != json.dumps(value, default=str):
                written = text
            self._count_values(1)
            mark = int(event.start_mark.index)
            self._add_value(value, size if event.anchor else 1, self._current_line, mark, written)
        if event.anchor:
            self._anchored[event.anchor] = (value, size, self._current_line, written)

    def _scalar_value(self, event: Any) -> Any:
        """Return the value of a scalar by its tag; if tag or value are invalid, report a fault and return None."""
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._tag_of(event)
        if tag in _TEXTS:
            return event.value
        if tag not in _SCALARS and not (self._yaml_1_1 and tag == _TIMESTAMP):
            self._report("tag", f"the tag {tag!r} is not allowed here")
            return None
        if tag.endswith(("int", "float")) and len(event.value) > MAX_NUMBER:
            self._report("tag", f"a number of {len(event.value):,} characters")
            return None
        try:
            value = self._loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        except (ValueError, LookupError, AttributeError, OverflowError) as error:  # a value that does not match its tag
            no_value = f"{event.value[:80]!r} is not a valid {tag.rpartition(':')[2]}"
            problem = str(error) if isinstance(error, ValueError) else no_value
            self._report("tag", f"this value cannot be read: {problem}")
            return None
        if not self._yaml_1_1 and isinstance(value, float) and not math.isfinite(value):
            self._report("value", f"{event.value[:80]!r} is not a finite number; put it in quotes if a text is meant")
            return None
        return value

    def _tag_of(self, event: Any) -> str:
        """Return the tag of a scalar without one."""
        if self._yaml_1_1:
            return str(self._loader.resolve(yaml.ScalarNode, event.value, event.implicit))
        names = (
            [name for name, pattern in _PLAIN.items() if pattern.fullmatch(event.value)] if event.implicit[0] else []
        )
        return f"tag:yaml.org,2002:{(names or ['str'])[0]}"

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _set_key(self, key: str) -> None:
        enclosing = self._stack[-1]
        if key in enclosing.value:
            self._report("duplicate-key", f"duplicate key {key!r}")
        enclosing.key = key
        self._lines[id(enclosing.value), key] = self._current_line

    def _begin_container(self, event: Any) -> None:
        """Begin a mapping or a list."""
        if self._expects_key():
            is_template = isinstance(event, yaml.MappingStartEvent) and event.flow_style
            hint = "; put a text that begins with {{ in quotes" if is_template else ""
            raise self._error("key", f"a key must be plain text{hint}")
        if event.tag not in _COLLECTIONS:
            self._report("tag", f"the tag {event.tag!r} is not allowed here")
        if len(self._stack) > MAX_DEPTH:
            raise self._error("depth", f"is nested deeper than {MAX_DEPTH} levels")
        self._count_values(1)
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors[id(value)] = event.anchor
        in_braces = isinstance(value, dict) and bool(event.flow_style)
        self._stack.append(_Container(value, event.anchor, event.start_mark, in_braces))

    def _add_value(self, value: Any, size: int, line: int, mark: int, written: str | None = None) -> None:
        """Add a finished value to the innermost open mapping or list; without one, it is the whole value."""
        if not self._stack:
            self._top_value, self._first_line = value, line
            return
        enclosing = self._stack[-1]
        enclosing.size += size
        place: tuple[int, str | int]
        if isinstance(enclosing.value, list):
            place = id(enclosing.value), len(enclosing.value)
            self._lines[place] = line
            enclosing.value.append(value)
        else:
            assert enclosing.key is not None  # noqa: S101 - a value follows its key
            place = id(enclosing.value), enclosing.key
            enclosing.value[enclosing.key] = value
            enclosing.key = None
        self._marks[place] = mark
        if written is not None:
            self._written[place] = written

    def _count_values(self, size: int) -> None:
        """Count values towards `MAX_VALUES`."""
        self._count += size
        if self._count > MAX_VALUES:
            raise self._error("size", f"holds more than {MAX_VALUES:,} values once its aliases are replaced")

    def _report(self, code: str, message: str) -> None:
        issue = Issue(code, message, f"{self._name}:{self._current_line}")
        self._slips.append((issue, int(self._current.index)))

    def _error(self, code: str, message: str) -> InvalidError:
        self._report(code, message)
        return InvalidError(f"{self._name} cannot be read", self.issues)
