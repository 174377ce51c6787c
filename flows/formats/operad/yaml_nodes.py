"""YAML nodes in the style of Operad's files: short values on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml

from operad.flows.formats.yaml_text import HALF

MAX_LINE = 88
"""Maximum length of a value on one line, in characters."""

_STR = "tag:yaml.org,2002:str"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")
_NO_BLOCK = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that need double quotes."""

_TAB_FIRST = re.compile("[ \n]*\t")
"""Beginning of a text that libyaml would take for the indentation of a block."""


def flow_node(items: list[yaml.Node]) -> yaml.Node:
    """Return a list on one line."""
    return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=True)


def mapping_node(fields: Mapping[str, yaml.Node], *, flow: bool = False) -> yaml.MappingNode:
    """Return a mapping; on one line if `flow` is True."""
    pairs = [(text_node(key), value) for key, value in fields.items()]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow or not pairs)


def id_node(node_id: str) -> yaml.ScalarNode:
    """Return an id; without quotes if it is a number, which is read back as the same text."""
    if _NUMBER.fullmatch(node_id):
        return yaml.ScalarNode("tag:yaml.org,2002:int", node_id)
    return text_node(node_id)


def text_node(text: str) -> yaml.ScalarNode:
    """Return a text; as a block if it has several lines."""
    text = HALF.sub("\ufffd", text)
    style = None
    if _NO_BLOCK.search(text) or _TAB_FIRST.match(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return yaml.ScalarNode(_STR, text, style=style)


_scalar = cast("Callable[[Any], yaml.Node]", yaml.representer.SafeRepresenter().represent_data)  # pyright: ignore[reportUnknownMemberType]


def value_node(value: Any) -> yaml.Node:
    """Return a value of JSON; on one line if it is short."""
    if isinstance(value, str):
        return text_node(value)
    if isinstance(value, list):
        items = [value_node(item) for item in cast("list[Any]", value)]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=fits(value, MAX_LINE))
    if isinstance(value, dict):
        pairs = [(text_node(key), value_node(item)) for key, item in cast("dict[str, Any]", value).items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=fits(value, MAX_LINE))
    return _scalar(value)


def fits(value: Any, most: int) -> bool:
    """Return True if a JSON value fits on a line with at most this number of characters."""
    text = json.dumps(value, ensure_ascii=False)
    return len(text) <= most and "\\n" not in text


def serialized(root: yaml.Node) -> bytes:
    """Return the text of a document, in UTF-8."""
    serialize = cast("Callable[..., str]", yaml.serialize)  # pyright: ignore[reportUnknownMemberType]
    return serialize(root, Dumper=_Dumper, allow_unicode=True, width=10**9, line_break="\n").encode("utf-8")


class _Dumper(yaml.SafeDumper):
    """Dumper that writes texts of several lines as blocks, even with tabs or with blanks at the ends of lines."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = cast("Any", super()).analyze_scalar(scalar)
        analysis.allow_block = analysis.allow_block or ("\n" in scalar and not _NO_BLOCK.search(scalar))
        return analysis
