"""Slips in the JSON of Chat2Workflow's responses that have one reading: text that is not JSON, names of types, edges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from operad.flows.formats.json_text import MAX_DEPTH
from operad.flows.formats.shapes import fields_of, list_of
from operad.operators.nodes import NODE_TYPES


class Shaped(NamedTuple):
    """JSON value after a rule, with a note (place, change) for each repair."""

    value: Any
    notes: Sequence[tuple[str, str]] = ()


ALIASES: Mapping[str, str] = {
    "answer-generation": "llm", "agent": "llm", "chat": "llm", "gpt": "llm", "large-language-model": "llm", "model": "llm",
    "begin": "start", "input": "start", "output": "end", "finish": "end", "stop": "end",
    "classifier": "question-classifier", "intent-classifier": "question-classifier",
    "python": "code", "python-code": "code", "code-execution": "code", "script": "code",
    "doc-extractor": "document-extractor", "file-extractor": "document-extractor", "extractor": "document-extractor",
    "http": "http-request", "request": "http-request", "web-request": "http-request",
    "condition": "if-else", "branch": "if-else", "ifelse": "if-else", "switch": "if-else", "if": "if-else",
    "list-filter": "list-operator", "list-operation": "list-operator",
    "template": "template-transform", "jinja": "template-transform", "template-conversion": "template-transform",
    "aggregator": "variable-aggregator", "variable-assigner": "variable-aggregator", "merge": "variable-aggregator",
    "loop-over": "iteration", "for-each": "iteration", "foreach": "iteration", "iterator": "iteration",
    "iterationstart": "iteration-start",
    "text-to-speech": "tts", "speech": "tts", "text2speech": "tts", "audio": "tts",
    "text-to-image": "text2image", "image-generation": "text2image", "image-generator": "text2image", "txt2img": "text2image",
    "mermaid": "mermaid-converter", "markdown": "markdown-exporter", "exporter": "markdown-exporter",
    "md-exporter": "markdown-exporter", "file-exporter": "markdown-exporter",
    "search": "google-search", "web-search": "google-search", "google": "google-search",
    "chart": "echarts", "e-charts": "echarts",
}  # fmt: skip
"""Names that models give to node types, with the types that they mean."""


def with_types(value: Any) -> Shaped:
    """Correct the name of a node type if a single type of the catalogue is similar."""
    given = list_of(fields_of(value).get("nodes_info"))
    nodes = [_with_type(node) for node in given]
    notes = [
        (str(new.get("id", "")), f"type {old['type']!r} is called {new['type']!r}")
        for old, new in zip(given, nodes, strict=True)
        if new is not old
    ]
    return Shaped({**value, "nodes_info": nodes}, notes) if notes else Shaped(value)


def _with_type(node: Any) -> Any:
    said = fields_of(node).get("type")
    name = known_type(said) if isinstance(said, str) and said not in NODE_TYPES else ""
    return {**node, "type": name} if name else node


def known_type(word: str) -> str:
    """Return the node type that a word means; empty if that is uncertain."""
    name = re.sub(r"[\s_./-]+", "-", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", word.strip()).lower()).removesuffix("-node")
    if name in NODE_TYPES:
        return name
    if name in ALIASES:
        return ALIASES[name]
    by_joined_name = {node_type.replace("-", ""): node_type for node_type in NODE_TYPES}
    if name.replace("-", "") in by_joined_name:
        return by_joined_name[name.replace("-", "")]
    similar = get_close_matches(name, [*NODE_TYPES, *ALIASES], n=2, cutoff=0.8)
    types = {ALIASES.get(each, each) for each in similar}
    return types.pop() if len(types) == 1 else ""


def with_edges(value: Any) -> Shaped:
    """Rewrite each edge as ``[source, port, target]``: without a fourth item, and with port 0 if it names none."""
    given = list_of(fields_of(value).get("edges"))
    edges = [_edge(edge) for edge in given]
    notes = [
        (f"edges[{number}]", f"is written {edge}") for number, edge in enumerate(edges) if edge is not given[number]
    ]
    return Shaped({**value, "edges": edges}, notes) if notes else Shaped(value)


def _edge(edge: Any) -> Any:
    match edge:
        case [source, target]:
            return [source, 0, target]
        case [source, port, target, _]:
            return [source, port, target]
        case _:
            return edge


SHAPE_RULES: dict[str, tuple[Callable[[Any], Shaped], str]] = {
    "type-names": (with_types, "no other type is spelt like it"),
    "edge-form": (with_edges, "an edge is [source, port, target]"),
}
"""Rules by name: the function, and the reason of its repairs."""


# Rule on the text before its JSON can be read.

_MOST_REPAIRED = 2**20
"""Maximum number of characters of broken JSON to repair, as the time grows with the length."""


def with_json(text: str) -> str:
    """Return the JSON object that a text most likely means: without code fences and words around it, and valid.

    The text is unchanged if it is valid JSON, or holds no object that can be repaired.
    """
    if _is_json(text) or len(text) > _MOST_REPAIRED or _depth(text) > MAX_DEPTH or "{" not in text:
        return text
    from json_repair import repair_json

    try:
        found = cast("Any", repair_json(text[text.index("{") :], return_objects=True))
    except (ValueError, RecursionError, TypeError, IndexError):
        return text
    value = next(filter(fields_of, (found, *list_of(found))), None)  # a list, if brackets follow the object
    return json.dumps(value, ensure_ascii=False, indent=2) if value else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _depth(text: str) -> int:
    """Return the depth to which brackets are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


TEXT_RULES: dict[str, tuple[Callable[[str], str], str]] = {
    "json": (with_json, "what is not JSON is read as the JSON that it most likely means"),
}
"""Rules by name: the function, and the description of its repair."""
