"""Safe YAML parser: plain values with their lines. Hostile text ends in an error, within limits of size and depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor

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
        lines: Line of each value, by its path, counted from 1: the line of its key or, in a list, its own.
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
        InputError: There is no such file, it is too large or not text.
        InvalidError: It is not YAML, not a mapping, nested too deeply, too large after its aliases are expanded, or has
            duplicate keys.
    """
    file = FileDescriptor.of(path)
    return parse_document(file.read_text(MAX_BYTES), name or str(path))


class YamlValues(NamedTuple):
    """Values of a YAML text, with their lines.

    Attributes:
        value: Mappings with text as keys, lists, text, numbers, booleans, dates, None. An alias is the same object as
            its anchor.
        lines: Line of each value in a mapping or a list, by the `id` of that and the key or index, counted from 1.
        anchors: Names of the anchors of mappings and lists, by the `id` of the value.
        first: Line of the whole value; 0 for a text without a value.
    """

    value: Any
    lines: Mapping[tuple[int, str | int], int]
    anchors: dict[int, str]
    first: int

    def line(self, holder: Any, key: str | int) -> int:
        """Return the line of a value in a mapping or a list; 0 if there is none."""
        return self.lines.get((id(holder), key), 0)


def parse_yaml(text: str, name: str) -> YamlValues:
    """Parse YAML text with any value.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        InvalidError: It is not YAML, nested too deeply, too large after its aliases are expanded, or has duplicate
            keys.
    """
    try:
        reader = _Reader(text, name)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that is not allowed in YAML; a lone surrogate
        raise InvalidError(f"{name} is not YAML", [Issue("yaml", " ".join(str(error).split()), name)]) from error
    try:
        return reader.read()
    except yaml.YAMLError as error:
        raise InvalidError(f"{name} is not YAML", [*reader.issues, _issue(error, text, name)]) from error


def parse_document(text: str, name: str, *, list_as: str = "") -> Document:
    """Parse YAML text with a mapping.

    Args:
        text: The text.
        name: Name of the document in messages.
        list_as: Key under which to put a top-level list; by default, such a text is an error.

    Raises:
        InputError: It is empty.
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
    open_: list[tuple[Any, Path_, int]] = [(data, (), first)]
    left = MAX_VALUES
    while open_ and left:
        value, path, line = open_.pop()
        left -= 1
        yield path, line
        if isinstance(value, dict | list):
            holder = cast("dict[str, Any] | list[Any]", value)
            inside: Iterable[tuple[str | int, Any]] = holder.items() if isinstance(holder, dict) else enumerate(holder)
            open_ += [(item, (*path, key), lines[id(holder), key]) for key, item in inside]


class _Open:
    """A mapping or a list that is being read, and the line where it begins."""

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.key: str | None = None
        self.size = 1


class _Reader:
    """Builds values from events, without recursion, so that the limits hold while it reads."""

    def __init__(self, text: str, name: str) -> None:
        parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
        self._loader: Any = parser(text)
        self._text = text
        self._name = name
        self._open: list[_Open] = []
        self._named: dict[str, tuple[Any, int, int]] = {}
        self._root: Any = None
        self._first = 0
        self._count = 0
        self._at = 0
        self._lines: dict[tuple[int, str | int], int] = {}
        self._anchors: dict[int, str] = {}
        self.issues: list[Issue] = []

    def read(self) -> YamlValues:
        documents = 0
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                self._at = event.start_mark.line + 1
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    raise self._refusal("yaml", "a second document begins here; put it into a file of its own")
                self._take(event)
        finally:
            self._loader.dispose()
        if self.issues:
            raise InvalidError(f"{self._name} cannot be read", self.issues)
        return YamlValues(self._root, self._lines, self._anchors, self._first)

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = self._open.pop()
            if done.anchor:
                self._named[done.anchor] = (done.value, done.size, done.line)
            self._add(done.value, done.size, done.line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _alias(self, event: Any) -> None:
        anchor: str = event.anchor
        if any(around.anchor == anchor for around in self._open):
            raise self._refusal("cycle", f"*{anchor[:80]} contains itself")
        if anchor not in self._named:
            problem = f"there is no anchor &{anchor[:80]}{did_you_mean(anchor[:80], self._named)}"
            mark = event.start_mark
            issue = Issue(
                "yaml", _in_line(problem, self._text, mark.line), f"{self._name}:{self._at}:{mark.column + 1}"
            )
            raise InvalidError(f"{self._name} is not YAML", [*self.issues, issue])
        value, size, line = self._named[anchor]
        if self._wants_key():
            if not isinstance(value, str):
                raise self._refusal("key", "a key must be plain text")
            self._key(value)
            return
        self._tally(size)
        self._add(value, size, line)

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        size = 1 + len(text) // TEXT_SIZE
        if self._wants_key():
            if text == "<<" and event.implicit[0]:
                raise self._refusal("key", "merge keys (<<) are not supported; write the keys themselves")
            self._key(text)
            value: Any = text
        else:
            value = self._value(event)
            self._tally(1)
            self._add(value, size if event.anchor else 1, self._at)
        if event.anchor:
            self._named[event.anchor] = (value, size, self._at)

    def _value(self, event: Any) -> Any:
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

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _key(self, key: str) -> None:
        around = self._open[-1]
        if key in around.value:
            self._report("duplicate-key", f"duplicate key {key!r}")
        around.key = key
        self._lines[id(around.value), key] = self._at

    def _begin(self, event: Any) -> None:
        if self._wants_key():
            is_template = isinstance(event, yaml.MappingStartEvent) and event.flow_style
            hint = "; put a text that begins with {{ in quotes" if is_template else ""
            raise self._refusal("key", f"a key must be plain text{hint}")
        if event.tag not in _COLLECTIONS:
            self._report("tag", f"the tag {event.tag!r} is not allowed here")
        if len(self._open) > MAX_DEPTH:
            raise self._refusal("depth", f"is nested deeper than {MAX_DEPTH} levels")
        self._tally(1)
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors[id(value)] = event.anchor
        self._open.append(_Open(value, event.anchor, self._at))

    def _add(self, value: Any, size: int, line: int) -> None:
        if not self._open:
            self._root, self._first = value, line
            return
        around = self._open[-1]
        around.size += size
        if isinstance(around.value, list):
            self._lines[id(around.value), len(around.value)] = line
            around.value.append(value)
        elif around.key is not None:
            around.value[around.key] = value
            around.key = None

    def _tally(self, size: int) -> None:
        self._count += size
        if self._count > MAX_VALUES:
            raise self._refusal("size", f"holds more than {MAX_VALUES:,} values once its aliases are replaced")

    def _report(self, code: str, message: str) -> None:
        self.issues.append(Issue(code, message, f"{self._name}:{self._at}"))

    def _refusal(self, code: str, message: str) -> InvalidError:
        self._report(code, message)
        return InvalidError(f"{self._name} cannot be read", self.issues)


def _issue(error: yaml.YAMLError, text: str, name: str) -> Issue:
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return Issue("yaml", str(error), name)
    row, column = int(mark.line), int(mark.column)
    context, begins = getattr(error, "context", None), getattr(error, "context_mark", None)
    if context == "while scanning a quoted scalar" and begins is not None:
        problem = _in_line("the quote that opens here is not closed", text, begins.line)
        return Issue("yaml", problem, f"{name}:{begins.line + 1}:{begins.column + 1}")
    if context and begins is not None and begins.line != row:
        context = f"{context} that begins in line {begins.line + 1}"
    problem = " ".join(filter(None, (context, getattr(error, "problem", None))))
    if problem.startswith("mapping values are not allowed"):
        problem = "a second `: ` in one line; put a text that contains `: ` in quotes"
    if "\t" in "".join(text.splitlines()[row : row + 1])[: column + 1]:
        problem = "a tab; YAML indents with spaces only"
    return Issue("yaml", _in_line(problem, text, row), f"{name}:{row + 1}:{column + 1}")


def _in_line(problem: str, text: str, row: int) -> str:
    return f"{problem}: {''.join(text.splitlines()[row : row + 1]).strip()[:80]!r}"
