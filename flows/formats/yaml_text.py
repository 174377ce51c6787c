"""Reading of untrusted YAML with the lines of its values, and writing of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import yaml

from operad.flows.formats.json_text import read_text
from operad.runtime.values.document import MAX_BYTES, YamlValues, parse_yaml
from operad.runtime.values.errors import InvalidError


def read_yaml(data: bytes, name: str, *, merges: bool = False) -> YamlValues:
    """Return the values of a YAML file, with their lines.

    Args:
        data: The content, in UTF-8.
        name: The name of the file, for errors.
        merges: True if mappings may contain others by merge keys.

    Raises:
        InvalidError: The file is not UTF-8 or not YAML, too large, nested too deep, or has duplicate keys.
    """
    text = read_text(data, name, MAX_BYTES)
    if text.lstrip()[:1] in ("{", "["):
        text = _PAIR.sub(_joined, text)
    try:
        return parse_yaml(text, name, merges=merges)
    except InvalidError as error:
        issues = [replace(each, where=_line_and_column(each.where.removeprefix(name))) for each in error.issues]
        raise InvalidError(name, issues) from error


_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
"""Character beyond the first 65,536 as JSON escapes it, by two surrogates, which YAML refuses; and backslashes before."""


def _joined(pair: re.Match[str]) -> str:
    halves = bytes.fromhex(pair[2] + pair[3])
    return pair[1] + halves.decode("utf-16-be")


def _line_and_column(place: str) -> str:
    """Return ``line 2, column 5`` for ``:2:5``."""
    return ", ".join(f"{unit} {number}" for unit, number in zip(("line", "column"), place.split(":")[1:], strict=False))


MAX_LINE = 88
"""Maximum length of a value on one line, in characters."""

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which UTF-8 cannot encode."""

_NO_BLOCK = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that need double quotes, such as those that end a line in YAML."""

_TAB_FIRST = re.compile("[ \n]*\t")
"""Beginning of a text that libyaml would take for the indentation of a block."""

_ALIAS, _STR, _SEQ, _MAP = "!alias", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass(frozen=True, slots=True)
class Alias:
    """Alias of a value of a YAML text, ``*anchor``."""

    anchor: str


class TextDumper(yaml.SafeDumper):
    """Dumper that writes each value out, and texts of several lines as blocks, even with blanks at the ends of lines."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: no value is written as an alias of an equal one."""
        return True

    def analyze_scalar(self, scalar: str) -> Any:
        """Return the styles that a text can have."""
        analysis: Any = cast("Any", super()).analyze_scalar(scalar)
        analysis.allow_block = analysis.allow_block or ("\n" in scalar and not _NO_BLOCK.search(scalar))
        return analysis

    def serialize_node(self, node: yaml.Node, parent: Any, index: Any) -> None:
        """Write a node, which may be an `Alias`."""
        if node.tag == _ALIAS:
            cast("Any", self).emit(yaml.AliasEvent(node.value))
        else:
            cast("Any", super()).serialize_node(node, parent, index)


TextDumper.add_multi_representer(str, lambda _, text: text_node(str(text)))
TextDumper.add_representer(str, lambda _, text: text_node(text))


def write_yaml(value: Any) -> bytes:
    """Return plain values as YAML, in UTF-8: keys in alphabetical order, lists and mappings as blocks."""
    return yaml.dump(value, Dumper=TextDumper, allow_unicode=True, sort_keys=True, width=1000).encode("utf-8")


# Nodes: values with their layout


_SPACE_LAST = re.compile(r"\n[ \t]+\n*\Z")
"""End of a text that a block would hold in a line of nothing but space, where readers see the end before it."""


def text_node(text: str) -> yaml.ScalarNode:
    """Return a text; as a block if it has several lines."""
    text = _HALF.sub("\ufffd", text)
    style = None
    if _NO_BLOCK.search(text) or _TAB_FIRST.match(text):
        style = '"'
    elif "\n" in text:
        style = "|" if text.strip() and not _SPACE_LAST.search(text) else '"'
    return yaml.ScalarNode(_STR, text, style=style)


_scalar = cast("Callable[[Any], yaml.Node]", yaml.representer.SafeRepresenter().represent_data)  # pyright: ignore[reportUnknownMemberType]


def value_node(value: Any) -> yaml.Node:
    """Return a value of JSON; on one line if it is short."""
    if isinstance(value, str):
        return text_node(value)
    if isinstance(value, Alias):
        return yaml.ScalarNode(_ALIAS, value.anchor)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return list_node([value_node(item) for item in items], flow=fits(items, MAX_LINE))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return mapping_node({key: value_node(item) for key, item in fields.items()}, flow=fits(fields, MAX_LINE))
    return _scalar(value)


def list_node(items: list[yaml.Node], *, flow: bool = False) -> yaml.SequenceNode:
    """Return a list; on one line if `flow` is True."""
    return yaml.SequenceNode(_SEQ, items, flow_style=flow or not items)


def mapping_node(fields: Mapping[str, yaml.Node], *, flow: bool = False) -> yaml.MappingNode:
    """Return a mapping; on one line if `flow` is True."""
    return yaml.MappingNode(
        _MAP, [(text_node(key), value) for key, value in fields.items()], flow_style=flow or not fields
    )


def on_one_line(node: yaml.Node) -> yaml.Node:
    """Return a value in the form that it has inside of brackets."""
    if isinstance(node, yaml.MappingNode):
        pairs = [(on_one_line(key), on_one_line(value)) for key, value in node.value]
        return yaml.MappingNode(_MAP, pairs, flow_style=True)
    if isinstance(node, yaml.SequenceNode):
        return yaml.SequenceNode(_SEQ, [on_one_line(item) for item in node.value], flow_style=True)
    return yaml.ScalarNode(node.tag, node.value, style='"') if node.tag == _STR and "\n" in node.value else node


def fits(value: Any, most: int) -> bool:
    """Return True if a JSON value fits on a line with at most this number of characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return len(text) <= most and "\\n" not in text


def serialized(root: yaml.Node) -> str:
    """Return the text of a document."""
    serialize = cast("Callable[..., str]", yaml.serialize)  # pyright: ignore[reportUnknownMemberType]
    return serialize(root, Dumper=TextDumper, allow_unicode=True, width=10**9, line_break="\n")
