"""Safe YAML parser: plain values with their lines. Hostile text ends in an error, within limits of size and depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor
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
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp")}
_TEXTS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "value", "merge")}
"""Tags of text; a bare `=` or `<<` is text, except for a key `<<`."""

Path_ = tuple["str | int", ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file.

    Attributes:
        name: Name of the file, as given by the user.
        data: Its content: mappings, lists, text, numbers, booleans, None. An alias is the same
            object as its anchor.
        anchors: Names of anchors, by the `id` of the value.
        lines: Line of each value, by its path, counted from 1: in a mapping the line of its key, in a list its own.
    """

    name: str
    data: dict[str, Any]
    anchors: dict[int, str]
    lines: dict[Path_, int]

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
    """

    value: Any
    lines: Mapping[tuple[int, str | int], int]
    anchors: dict[int, str]
    first: int

    def line(self, holder: Any, key: str | int) -> int:
        """Return the line of the value under a key or index of `holder`, a mapping or a list; 0 if there is none."""
        return self.lines.get((id(holder), key), 0)


def parse_yaml(text: str, name: str) -> YamlValues:
    """Parse YAML text with any value.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        InvalidError: The text is not YAML, nested too deeply, too large after its aliases are expanded, or has
            duplicate keys.
    """
    try:
        reader = _Reader(text, name)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that is not allowed in YAML; a lone surrogate
        raise InvalidError(f"{name} is not YAML", [syntax_issue(error, text, name)]) from error
    try:
        return reader.read()
    except yaml.YAMLError as error:
        raise InvalidError(f"{name} is not YAML", [*reader.issues, syntax_issue(error, text, name)]) from error


def parse_document(text: str, name: str, *, list_as: str = "") -> Document:
    """Parse YAML text with a mapping.

    Args:
        text: The text.
        name: Name of the document in messages.
        list_as: Key under which to put a top-level list; by default, a top-level list is an error.

    Raises:
        InputError: The text is empty.
        InvalidError: As `read_document`.
    """
    parsed = parse_yaml(text, name)
    data, lines = parsed.value, parsed.lines
    if data is None:
        raise InputError(f"{name}: is empty")
    if list_as and isinstance(data, list):
        data = {list_as: cast("Any", data)}
        lines = {**lines, (id(data), list_as): parsed.first}
    if not isinstance(data, dict):
        raise InvalidError(f"{name} cannot be read", [Issue("shape", "must be a mapping of keys to values", name)])
    return Document(name, cast("dict[str, Any]", data), parsed.anchors, dict(_by_path(data, parsed.first, lines)))


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
        anchor: Name of its anchor, if any.
        line: Line where it begins.
        key: Key whose value comes next; None if a key comes next.
        size: Number of values in it, aliases expanded.
    """

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.key: str | None = None
        self.size = 1


class _Reader:
    """Builder of values from the parser's events, without recursion, which checks the limits while reading."""

    def __init__(self, text: str, name: str) -> None:
        parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
        self._loader: Any = parser(text)
        self._text = text
        self._name = name
        self._stack: list[_Container] = []
        self._anchored: dict[str, tuple[Any, int, int]] = {}
        self._top_value: Any = None
        self._first_line = 0
        self._count = 0
        self._current_line = 0
        self._lines: dict[tuple[int, str | int], int] = {}
        self._anchors: dict[int, str] = {}
        self.issues: list[Issue] = []

    def read(self) -> YamlValues:
        """Return the values of the whole text.

        Raises:
            InvalidError: The text has faults, or exceeds a limit.
        """
        documents = 0
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                self._current_line = event.start_mark.line + 1
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    raise self._error("yaml", "a second document begins here; put it into a file of its own")
                self._handle(event)
        finally:
            self._loader.dispose()
        if self.issues:
            raise InvalidError(f"{self._name} cannot be read", self.issues)
        return YamlValues(self._top_value, self._lines, self._anchors, self._first_line)

    def _handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin_container(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = self._stack.pop()
            if done.anchor:
                self._anchored[done.anchor] = (done.value, done.size, done.line)
            self._add_value(done.value, done.size, done.line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _alias(self, event: Any) -> None:
        """Add the value of an alias, as a key or a value.

        Raises:
            InvalidError: The anchor is missing, or the alias is inside its own anchor.
        """
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
        value, size, line = self._anchored[anchor]
        if self._expects_key():
            if not isinstance(value, str):
                raise self._error("key", "a key must be plain text")
            self._set_key(value)
            return
        self._count_values(size)
        self._add_value(value, size, line)

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        size = 1 + len(text) // TEXT_SIZE
        if self._expects_key():
            if text == "<<" and event.implicit[0]:
                raise self._error("key", "merge keys (<<) are not supported; write the keys themselves")
            self._set_key(text)
            value: Any = text
        else:
            value = self._scalar_value(event)
            self._count_values(1)
            self._add_value(value, size if event.anchor else 1, self._current_line)
        if event.anchor:
            self._anchored[event.anchor] = (value, size, self._current_line)

    def _scalar_value(self, event: Any) -> Any:
        """Return the value of a scalar by its tag; if tag or value are invalid, report a fault and return None."""
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in _TEXTS:
            return event.value
        if tag not in _SCALARS:
            self._report("tag", f"the tag {tag!r} is not allowed here")
            return None
        if tag.endswith(("int", "float")) and len(event.value) > MAX_NUMBER:
            self._report("tag", f"a number of {len(event.value):,} characters")
            return None
        try:
            return self._loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        except (ValueError, LookupError, AttributeError, OverflowError) as error:  # a value that does not match its tag
            no_value = f"{event.value[:80]!r} is not a valid {tag.rpartition(':')[2]}"
            problem = str(error) if isinstance(error, ValueError) else no_value
            self._report("tag", f"this value cannot be read: {problem}")
            return None

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
        self._stack.append(_Container(value, event.anchor, self._current_line))

    def _add_value(self, value: Any, size: int, line: int) -> None:
        """Add a finished value to the innermost open mapping or list; without one, it is the whole value."""
        if not self._stack:
            self._top_value, self._first_line = value, line
            return
        enclosing = self._stack[-1]
        enclosing.size += size
        if isinstance(enclosing.value, list):
            self._lines[id(enclosing.value), len(enclosing.value)] = line
            enclosing.value.append(value)
        elif enclosing.key is not None:
            enclosing.value[enclosing.key] = value
            enclosing.key = None

    def _count_values(self, size: int) -> None:
        """Count values towards `MAX_VALUES`."""
        self._count += size
        if self._count > MAX_VALUES:
            raise self._error("size", f"holds more than {MAX_VALUES:,} values once its aliases are replaced")

    def _report(self, code: str, message: str) -> None:
        self.issues.append(Issue(code, message, f"{self._name}:{self._current_line}"))

    def _error(self, code: str, message: str) -> InvalidError:
        self._report(code, message)
        return InvalidError(f"{self._name} cannot be read", self.issues)
