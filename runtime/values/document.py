"""YAML text → plain values that know where they came from. Hostile text ends in an error, not in harm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.composer import Composer

from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor

MAX_BYTES = 4 * 2**20
"""The largest YAML file, in bytes."""

MAX_VALUES = 200_000
"""The most values that a document may hold once its aliases are replaced by what they stand for."""

_MOST_NODES = 2 * MAX_VALUES
"""Nodes, keys among them, past which a document is read no further: it has too many values in any case."""

TEXT_SIZE = 20
"""Characters of a text with an anchor that count as a value, so that aliases make no more text than a file may have."""

MAX_NUMBER = 300
"""Characters that a number may have."""

MAX_DEPTH = 60
"""How deep values may be nested."""

_COLLECTIONS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}

Path_ = tuple["str | int", ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file.

    Attributes:
        name: The file, as the user named it.
        data: Its content: mappings, lists, text, numbers, booleans, None. An alias is the same
            object as what it stands for.
        anchors: The names given by anchors, by the `id` of the value.
        lines: The line of each value, by its path, counted from 1: that of its key, or its own in a list.
    """

    name: str
    data: dict[str, Any]
    anchors: dict[int, str]
    lines: dict[Path_, int]

    def line(self, path: Path_) -> int:
        """The line of the value at `path`, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, path: Path_) -> str:
        """``file:line path``, for people."""
        return f"{self.name}:{self.line(path)} {dotted(path)}".rstrip()


def read_document(path: str | Path, name: str = "") -> Document:
    """Read and parse a YAML file; `name` is what errors call it, by default its path.

    Raises:
        InputError: There is no such file, it is too large or not text.
        InvalidError: It is not YAML, not a mapping, nested too deep or too large once aliases are
            replaced; duplicate keys.
    """
    file = FileDescriptor.of(path)
    return parse_document(file.read_text(MAX_BYTES), name or str(path))


def parse_document(text: str, name: str, *, list_as: str = "") -> Document:
    """Parse YAML text.

    Args:
        text: The text.
        name: What errors call it.
        list_as: The key under which a list is put that is all of the text; without it, such a text is refused.

    Raises:
        InputError: It is empty.
        InvalidError: As `read_document`.
    """
    try:
        loader = _Loader(text)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that YAML does not have; half a surrogate pair
        raise InvalidError(f"{name} is not YAML", [Issue("yaml", " ".join(str(error).split()), name)]) from error
    try:
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        raise InvalidError(f"{name} is not YAML", [_issue(error, text, name, loader.anchor_names.values())]) from error
    except RecursionError as error:
        raise InvalidError(f"{name} cannot be read", [Issue("depth", "is nested too deep", name)]) from error
    except _TooManyError as error:
        issue = Issue("size", f"holds more than {MAX_VALUES:,} values", f"{name}:{error.args[0]}")
        raise InvalidError(f"{name} cannot be read", [issue]) from error
    finally:
        loader.dispose()
    if node is None:
        raise InputError(f"{name}: is empty")
    if list_as and isinstance(node, yaml.SequenceNode):
        key = yaml.ScalarNode("tag:yaml.org,2002:str", list_as, node.start_mark, node.start_mark)
        node = yaml.MappingNode("tag:yaml.org,2002:map", [(key, node)], node.start_mark, node.end_mark)
    if not isinstance(node, yaml.MappingNode):
        raise InvalidError(f"{name} cannot be read", [Issue("shape", "must be a mapping of keys to values", name)])
    return _Values(name, loader).document(node)


def dotted(path: Path_) -> str:
    """``experts[0].workflow`` for ``("experts", 0, "workflow")``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads ten times as fast, where libyaml is there."""


class _TooManyError(Exception):
    """More nodes than a file may have; its argument is the line of the first that is too many."""


class _Loader(Composer, _Parser):
    """A safe loader that remembers anchors."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        Composer.__init__(self)
        self.anchor_names: dict[int, str] = {}
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = cast("Any", self).peek_event()
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise _TooManyError(event.start_mark.line + 1)
        anchor = getattr(event, "anchor", None)
        node = super().compose_node(parent, index)
        if node is not None and anchor:
            self.anchor_names[id(node)] = anchor
        return node


class _Values:
    """Makes plain values of nodes; each node once, so that aliases stay identical."""

    def __init__(self, name: str, loader: _Loader) -> None:
        self._name = name
        self._loader = loader
        self._made: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._issues: list[Issue] = []
        self._anchors: dict[int, str] = {}

    def document(self, root: yaml.MappingNode) -> Document:
        data, _ = self._make(root, 0)
        if self._issues:
            raise InvalidError(f"{self._name} cannot be read", self._issues)
        lines = dict(_lines(root, (), MAX_VALUES))
        return Document(self._name, data, self._anchors, lines)

    def _make(self, node: yaml.Node, depth: int) -> tuple[Any, int]:
        """The node's value, and how many values it holds."""
        if id(node) in self._open:
            raise self._refuse(node, "cycle", "contains itself")
        if id(node) in self._made:
            return self._made[id(node)]
        if depth > MAX_DEPTH:
            raise self._refuse(node, "depth", f"is nested deeper than {MAX_DEPTH} levels")
        self._open.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            value = self._scalar(node)
            size = 1 + len(node.value) // TEXT_SIZE if id(node) in self._loader.anchor_names else 1
        else:
            if node.tag not in _COLLECTIONS:
                self._issues.append(Issue("tag", f"the tag {node.tag!r} is not allowed here", self._where(node)))
            make = self._mapping if isinstance(node, yaml.MappingNode) else self._sequence
            value, size = make(node, depth + 1)
        if size > MAX_VALUES:
            raise self._refuse(node, "size", f"holds more than {MAX_VALUES:,} values once its aliases are replaced")
        if id(node) in self._loader.anchor_names:
            self._anchors[id(value)] = self._loader.anchor_names[id(node)]
        self._open.remove(id(node))
        self._made[id(node)] = (value, size)
        return value, size

    def _mapping(self, node: yaml.Node, depth: int) -> tuple[dict[str, Any], int]:
        mapping: dict[str, Any] = {}
        size = 1
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in mapping:
                self._issues.append(Issue("duplicate-key", f"key {key!r} stands here twice", self._where(key_node)))
            mapping[key], count = self._make(value_node, depth)
            size += count
        return mapping, size

    def _sequence(self, node: yaml.Node, depth: int) -> tuple[list[Any], int]:
        made = [self._make(item, depth) for item in node.value]
        return [value for value, _ in made], 1 + sum(count for _, count in made)

    def _key(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:merge":
            return str(node.value)
        if isinstance(node, yaml.ScalarNode):
            raise self._refuse(node, "key", "merge keys (<<) are not read; write the keys themselves")
        raise self._refuse(node, "key", "a key must be plain text")

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag.endswith((":int", ":float")) and len(node.value) > MAX_NUMBER:
            self._issues.append(Issue("tag", f"a number of {len(node.value):,} characters", self._where(node)))
            return None
        try:
            return cast("Any", self._loader).construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:  # bad tags
            no_value = f"{node.value[:80]!r} is no {node.tag.rpartition(':')[2]}"
            problem = getattr(error, "problem", None) or (str(error) if isinstance(error, ValueError) else no_value)
            self._issues.append(Issue("tag", f"this value cannot be read: {problem}", self._where(node)))
            return None

    def _refuse(self, node: yaml.Node, code: str, message: str) -> InvalidError:
        return InvalidError(f"{self._name} cannot be read", [*self._issues, Issue(code, message, self._where(node))])

    def _where(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def _lines(node: yaml.Node, path: Path_, budget: int) -> Iterator[tuple[Path_, int]]:
    open_: list[tuple[yaml.Node, Path_, int]] = [(node, path, node.start_mark.line + 1)]
    while open_ and budget:
        node, path, line = open_.pop()
        budget -= 1
        yield path, line
        if isinstance(node, yaml.MappingNode):
            open_ += [(value, (*path, str(key.value)), key.start_mark.line + 1) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            open_ += [(item, (*path, n), item.start_mark.line + 1) for n, item in enumerate(node.value)]


def _issue(error: yaml.YAMLError, text: str, name: str, anchors: Iterable[str]) -> Issue:
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return Issue("yaml", str(error), name)
    row, column = int(mark.line), int(mark.column)
    line = "".join(text.splitlines()[row : row + 1])
    problem = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    _, undefined, alias = problem.partition("found undefined alias ")
    if "\t" in line[: column + 1]:
        problem = "a tab; YAML indents with spaces only"
    elif undefined:
        alias = alias.strip("'")
        problem = f"nothing has the anchor &{alias[:80]}{did_you_mean(alias[:80], anchors)}"
    return Issue("yaml", f"{problem}: {line.strip()[:80]!r}", f"{name}:{row + 1}:{column + 1}")
