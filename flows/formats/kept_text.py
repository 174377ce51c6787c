"""Text of a changed file, JSON or YAML, in which everything that stays the same keeps its text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import yaml

from operad.flows.formats.json_text import read_json
from operad.flows.formats.yaml_edit import DEEPEST, Editor, NotKeptError, Part, values_of
from operad.flows.formats.yaml_text import list_node, mapping_node, value_node
from operad.runtime.values.document import parse_yaml
from operad.runtime.values.errors import InvalidError


def keep_text(old: bytes, was: bytes, new: bytes, read: Callable[[bytes], Any]) -> bytes:
    r"""Return a changed file, in which unchanged values keep their old text; `new` if that is impossible.

    Example:
        >>> keep_text(b'{"a": 1,\n "b":"\\u00e9"}', b'{"a":1,"b":"\\u00e9"}', b'{"a":2,"b":"\\u00e9"}', read=json.loads)
        b'{"a": 2,\n "b":"\\u00e9"}'

    Args:
        old: The file as a person or another program wrote it, JSON or YAML.
        was: The values of that file as the format writes them.
        new: The changed values, written likewise; changed and new values of YAML get the layout that they have here.
        read: Function that returns the values of a file; the values of the result are those of `new`.
    """
    mark = "\ufeff" if old.startswith(b"\xef\xbb\xbf") else ""
    try:
        text, wanted = old.decode("utf-8-sig"), read(new)
    except (UnicodeDecodeError, InvalidError):
        return new
    has_returns = "\r\n" in text and "\r" not in text.replace("\r\n", "")
    text = text.replace("\r\n", "\n") if has_returns else text
    nodes, editor = (_json_nodes, _JsonEditor) if _is_json(text) else (_yaml_nodes, Editor)
    for base in (was, text.encode()):  # the format may write parts that did not change in another way
        try:
            before, after = nodes(base), nodes(new)
            merged = editor(text).edited(before, after)
            result = f"{mark}{merged}".encode() if not has_returns else f"{mark}{merged}".replace("\n", "\r\n").encode()
            if read(result) == wanted:
                return result
        except (NotKeptError, yaml.YAMLError, InvalidError, UnicodeError):
            continue
    return new


def edited(text: str, values: Any) -> str:
    r"""Return a YAML text with other values; everything that stays the same keeps its text.

    Example:
        >>> edited("a: 1  # one\nb: [x,  y]\n", {"a": 2, "b": ["x", "y", "z"]})
        'a: 2  # one\nb: [x,  y, z]\n'

    Args:
        text: The text.
        values: The wanted values, in which each alias is an `Alias`.

    Raises:
        NotKeptError: A text with these values cannot be made so, for example as an alias would precede its anchor.
    """
    try:
        node, editor = (_json_node, _JsonEditor) if _is_json(text) else (value_node, Editor)
        changed = editor(text).edited(node(values_of(text)), node(values))
        if values_of(changed) == values:
            return changed
    except InvalidError as error:
        raise NotKeptError from error
    raise NotKeptError


def _is_json(text: str) -> bool:
    try:
        return text.lstrip()[:1] in ("{", "[") and json.loads(text) is not None
    except (ValueError, RecursionError):
        return False


def _yaml_nodes(data: bytes) -> yaml.Node | None:
    return yaml.compose(data.decode(), Loader=yaml.CSafeLoader)


# JSON

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which UTF-8 cannot encode."""


def _json_nodes(data: bytes) -> yaml.Node:
    """Return the values of a file; Dify's are YAML, also in a file that is JSON."""
    text = data.decode()
    return _json_node(read_json(text, "") if text.lstrip()[:1] in ("{", "[") else parse_yaml(text, "").value)


def _json_node(value: Any) -> yaml.Node:
    """Return a value as a node; the value of a scalar is its JSON."""
    if isinstance(value, dict):
        return mapping_node({key: _json_node(each) for key, each in cast("dict[str, Any]", value).items()})
    if isinstance(value, list):
        return list_node([_json_node(each) for each in cast("list[Any]", value)])
    return yaml.ScalarNode("", json.dumps(value))


def _value_of(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _value_of(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value_of(value) for value in node.value]
    return json.loads(node.value)


def _json_part(text: str, begin: int = 0, depth: int = 0) -> Part:
    """Return the value that begins at a position of a JSON text."""
    begin = _after_space(text, begin)
    if depth > DEEPEST:
        raise NotKeptError
    if text[begin] not in "{[":
        value, end = _DECODER.raw_decode(text, begin)
        return Part(begin, end, 0, "scalar", text=json.dumps(value))
    part = Part(begin, begin, 0, "map" if text[begin] == "{" else "list", flow=True)
    end = _after_space(text, begin + 1)
    while text[end] not in "}]":
        end = _after_space(text, end + 1) if text[end] == "," else end
        if part.kind == "map":
            name, key_end = _DECODER.raw_decode(text, end)
            part.keys.append(Part(end, key_end, 0, "scalar", text=name))
            end = _after_space(text, key_end) + 1
        part.entries.append(_json_part(text, end, depth + 1))
        end = _after_space(text, part.entries[-1].end)
    part.end = end + 1
    return part


def _parts(part: Part) -> Iterator[Part]:
    yield part
    for each in part.entries:
        yield from _parts(each)


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


class _JsonEditor(Editor):
    """Editor of a JSON text; new values are indented, separated and escaped as the others of the file are."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._part = _json_part(self._text)
        unit = re.match(r"\s*[{\[][^\S\n]*\n([ \t]+)", text)
        self._unit = unit[1] if unit else None
        colons = (text[part.keys[0].end : part.entries[0].begin] for part in _parts(self._part) if part.keys)
        self._colon = next((each for each in colons if "\n" not in each), ": ")
        pairs = (each[:2] for part in _parts(self._part) if len(each := part.keys or part.entries) > 1)
        between = (text[first.end : second.begin] for first, second in pairs)
        # before the comma of a mapping there is the value of its first key
        commas = (f",{each.rpartition(',')[2]}" for each in between if "\n" not in each)
        self._plain_comma = next(commas, ", " if self._colon == ": " else ",")
        self._is_ascii = text.isascii() and bool(re.search(r"(?<!\\)\\u(?!00[01]|007f)", text))

    def _root(self) -> Part:
        return self._part

    def _comma(self, opening: str) -> str:
        return f",{opening.lstrip('{[')}" if "\n" in opening else self._plain_comma

    def _in_brackets(self, row: Any, part: Part) -> str:
        first = (part.keys or part.entries)[0].begin
        line = self._text[self._text.rfind("\n", 0, first) + 1 : first]
        margin = line[: len(line) - len(line.lstrip())]
        holders = [each for each in part.entries if each.entries]
        is_compact = holders and all("\n" not in self._text[each.begin : each.end] for each in holders)
        indent = None if is_compact or self._unit is None or (line.strip() and not holders) else self._unit
        comma = self._plain_comma if indent is None else ","
        key = f"{self._json(row.key.value, None, comma)}{self._colon}" if row.key else ""
        return f"{key}{self._json(_value_of(row.now), indent, comma)}".replace("\n", f"\n{margin}")

    def _json(self, value: Any, indent: str | None, comma: str) -> str:
        made = json.dumps(value, indent=indent, ensure_ascii=self._is_ascii, separators=(comma, self._colon))
        return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", made)
