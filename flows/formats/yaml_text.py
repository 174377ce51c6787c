"""YAML of others → plain values with their lines, and back. Hostile text ends in `InvalidError`, soon."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import yaml

from operad.runtime.values.document import MAX_BYTES, MAX_DEPTH, MAX_NUMBER, MAX_VALUES, TEXT_SIZE
from operad.runtime.values.errors import InvalidError, Issue

_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp")}


class YamlText(NamedTuple):
    """What a text says.

    Attributes:
        value: Mappings with text as keys, lists, text, numbers, booleans, dates, None.
        lines: The line, from 1, of what a mapping or a list holds, by the `id` of it and the key or the place.
    """

    value: Any
    lines: Mapping[tuple[int, str | int], int]

    def line(self, holder: Any, key: str | int) -> int:
        """The line of what a mapping or a list holds; 0 where it holds no such thing."""
        return self.lines.get((id(holder), key), 0)


def read_yaml(data: bytes, name: str) -> YamlText:
    """Read a text.

    Args:
        data: The text, as UTF-8.
        name: What errors call it.

    Raises:
        InvalidError: It is no such text, too large, nested too deep, or has duplicate keys.
    """
    if len(data) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes, and at most {MAX_BYTES:,} are read")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(name, [Issue("encoding", f"is not UTF-8: {error.reason}", f"byte {error.start}")]) from error
    reader = _Reader(text, name)
    try:
        value = reader.read()
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        what = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None)))) or str(error)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidError(name, [*reader.issues, Issue("yaml", what, where)]) from error
    except (LookupError, AttributeError) as error:
        issue = Issue("yaml", "a value is not what its tag (!!) says; leave the tag out", f"line {reader.at}")
        raise InvalidError(name, [*reader.issues, issue]) from error
    except (ValueError, OverflowError) as error:
        where = f"line {reader.at}"
        raise InvalidError(name, [*reader.issues, Issue("yaml", f"a value cannot be read: {error}", where)]) from error
    if reader.issues:
        raise InvalidError(name, reader.issues)
    return YamlText(value, reader.lines)


class _Open:
    """A mapping or a list that is being read."""

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.size = 1


class _Reader:
    """Builds values from events, without recursion, so that each bound holds while it reads."""

    def __init__(self, text: str, name: str) -> None:
        loader = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._loader: Any = loader(text)
        self._name = name
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._root: Any = None
        self._count = 0
        self.at = 0
        self.issues: list[Issue] = []
        self.lines: dict[tuple[int, str | int], int] = {}

    def read(self) -> Any:
        documents = 0
        while self._loader.check_event():
            event = self._loader.get_event()
            self.at = event.start_mark.line + 1
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refuse("yaml", "a second document begins here, and one is read")
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                done = self._open.pop()
                if done.anchor:
                    self._anchors[done.anchor] = (done.value, done.size)
                self._add(done.value, done.size, counted=True)
        return self._root

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._refuse("yaml", f"*{event.anchor[:80]} stands for nothing that is complete before it")
        value, size = self._anchors[event.anchor]
        self._add(value, size)

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            self._key(event)
            return
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == "tag:yaml.org,2002:value":  # a bare `=`, as in the conditions of if-else
            tag = "tag:yaml.org,2002:str"
        if tag not in _PLAIN:
            raise self._refuse("yaml", f"the tag {tag!r} is not read")
        if tag.endswith(("int", "float")) and len(event.value) > MAX_NUMBER:
            raise self._refuse("yaml", f"a number of {len(event.value):,} characters")
        value = self._loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        if event.anchor:
            self._anchors[event.anchor] = (value, 1 + len(event.value) // TEXT_SIZE)
        self._add(value, 1)

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _key(self, event: Any) -> None:
        around = self._open[-1]
        if event.value == "<<" and event.implicit[0]:
            raise self._refuse("yaml", "merge keys (<<) are not read; write the keys themselves")
        if event.value in around.value:
            self.issues.append(Issue("duplicate-key", f"{event.value!r} stands here twice", f"line {self.at}"))
        around.key = str(event.value)
        self.lines[id(around.value), around.key] = self.at

    def _begin(self, event: Any) -> None:
        if self._wants_key():
            raise self._refuse("yaml", "a key must be plain text")
        if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise self._refuse("yaml", f"the tag {event.tag!r} is not read")
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse("depth", f"is nested deeper than {MAX_DEPTH} levels")
        self._tally(1)
        self._open.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def _add(self, value: Any, size: int, *, counted: bool = False) -> None:
        if not counted:
            self._tally(size)
        if not self._open:
            self._root = value
            return
        around = self._open[-1]
        around.size += size
        if isinstance(around.value, list):
            self.lines[id(around.value), len(around.value)] = self.at
            around.value.append(value)
        elif around.key is not None:
            around.value[around.key] = value
            around.key = None

    def _tally(self, size: int) -> None:
        self._count += size
        if self._count > MAX_VALUES:
            raise self._refuse("size", f"holds more than {MAX_VALUES:,} values, once aliases are replaced")

    def _refuse(self, code: str, message: str) -> InvalidError:
        return InvalidError(self._name, [*self.issues, Issue(code, message, f"line {self.at}")])


HALF = re.compile("[\ud800-\udfff]")
"""Half a character, which no file can hold."""

ODD_BREAK = re.compile("[\x85\u2028\u2029]")
"""What ends a line in YAML, and comes back only from double quotes."""


class _Dumper(yaml.SafeDumper):
    """Writes each value out, texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    text = HALF.sub("\ufffd", text)
    as_block = "\n" in text and not text.startswith((" ", "\n", "\t"))
    style = '"' if ODD_BREAK.search(text) else "|" if as_block else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_multi_representer(str, _text)
_Dumper.add_representer(str, _text)


def write_yaml(value: Any) -> bytes:
    """Plain values as YAML, in UTF-8: keys in alphabetical order, lists and mappings as blocks."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=True, width=1000).encode("utf-8")
