"""Rules on the form of the JSON: nodes_info and edges, the keys of nodes, the names of types, and the form of edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from operad.flows.formats.shapes import fields_of, list_of
from operad.operators.node import NodeOperator
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

_PARAM_KEYS = ("params", "parameters", "parameter", "config", "inputs", "data", "settings", "args")
_NODE_LISTS = ("nodes", "node_info", "nodes_infos", "node_list", "nodesInfo", "nodes-info")
_EDGE_LISTS = ("edge", "connections", "links", "edges_info", "connection")
_SOURCES = ("source", "from", "src", "source_id", "start", "sourceNode", "source_node")
_TARGETS = ("target", "to", "dst", "target_id", "end", "targetNode", "target_node")
_PORTS = ("port", "source_port", "sourcePort", "sourceHandle", "handle", "index", "branch")


def with_root(value: Any) -> Shaped:
    """Move the object with the nodes to the root, with the keys ``nodes_info`` and ``edges``."""
    root, notes = _find_root(value)
    key = _nodes_key(root)
    if not key:
        return Shaped(value)
    found = dict(root)
    if key != "nodes_info":
        found["nodes_info"] = found.pop(key)
        notes.append((key, "is called nodes_info"))
    if by_id := fields_of(found["nodes_info"]):
        found["nodes_info"] = [{"id": name, **node} if isinstance(node, dict) else node for name, node in by_id.items()]
        notes.append(("nodes_info", "was an object by id, and is a list"))
    found, lifted = _lift_edges(found)
    notes += lifted
    other = next((each for each in _EDGE_LISTS if isinstance(found.get(each), list)), "")
    if "edges" not in found and other:
        found["edges"] = found.pop(other)
        notes.append((other, "is called edges"))
    if not isinstance(found.get("edges"), list):
        found["edges"] = []
        notes.append(("edges", "is a list, here without any"))
    return Shaped(found, notes) if notes else Shaped(value)


def _find_root(value: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the object with the nodes, which may be inside another object or a list, and notes."""
    notes: list[tuple[str, str]] = []
    for _ in range(3):
        if _nodes_key(fields_of(value)):
            break
        inner = [each for each in (*fields_of(value).values(), *list_of(value)) if _nodes_key(fields_of(each))]
        if len(inner) != 1:
            break
        value = inner[0]
        notes.append(("", "the workflow stood inside another value, and is taken out of it"))
    return fields_of(value), notes


def _lift_edges(root: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the root, and notes, with edges that a misplaced bracket put inside a node moved beside the nodes."""
    nodes: list[Any] = []
    edges: Any = root.get("edges")
    for node in list_of(root["nodes_info"]):
        fields = fields_of(node)
        if "edges" in fields and "type" in fields and edges is None:
            edges = fields["edges"]
            node = {key: each for key, each in fields.items() if key != "edges"}
        elif set(fields) == {"edges"} and edges is None:
            edges = fields["edges"]
            continue
        nodes.append(node)
    if edges is root.get("edges"):
        return root, []
    return {**root, "nodes_info": nodes, "edges": edges}, [
        ("edges", "stood inside a node, and stands beside nodes_info")
    ]


def with_nodes(value: Any) -> Shaped:
    """Give each node the keys id, type and param; remove values that are not nodes."""
    if not _is_root(value):
        return Shaped(value)
    notes: list[tuple[str, str]] = []
    nodes: list[Any] = []
    for number, node in enumerate(cast("list[Any]", value["nodes_info"])):
        where = f"nodes_info[{number}]"
        if not isinstance(node, dict):
            notes.append((where, "is not a node, and is left out"))
            continue
        given = cast("dict[str, Any]", node)
        mended = _node(given)
        if not (mended.get("id") and mended.get("type")):
            if set(given) <= {"id", "param"} and nodes and "id" not in given:
                continue
            notes.append((where, "has no id or no type, and is left out"))
            continue
        if mended != given:
            notes.append((str(mended["id"]), "has the keys id, type and param, its id as a text"))
        nodes.append(mended)
    return Shaped({**value, "nodes_info": nodes}, notes) if notes else Shaped(value)


def _node(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node with the keys id, type and param, as far as it has them under any known name."""
    node = {key.lower() if key.lower() in ("id", "type", "param") else key: each for key, each in given.items()}
    for other, key in (("node_id", "id"), ("nodeId", "id"), ("node_type", "type"), ("nodeType", "type")):
        if key not in node and other in node:
            node[key] = node.pop(other)
    for other in _PARAM_KEYS:
        if "param" not in node and isinstance(node.get(other), dict):
            node["param"] = node.pop(other)
    if isinstance(node.get("id"), int | float) and not isinstance(node["id"], bool):
        node["id"] = str(node["id"]) if isinstance(node["id"], int) else f"{node['id']:g}"
    param = node.get("param")
    param = dict(cast("dict[str, Any]", param)) if isinstance(param, dict) else {}
    node_type: type[NodeOperator[Any]] | None = NODE_TYPES.get(str(node.get("type")))
    fields = node_type.params_type.model_fields if node_type else {}
    for key in [key for key in node if key not in ("id", "type", "param")]:
        misplaced = node.pop(key)
        if key in fields and key not in param:
            param[key] = misplaced
    kept = {key: node[key] for key in ("id", "type") if key in node}
    return {**kept, "param": param} if "param" in node or param else kept


def with_types(value: Any) -> Shaped:
    """Correct the name of a node type if a single type of the catalogue is similar."""
    if not _is_root(value):
        return Shaped(value)
    notes: list[tuple[str, str]] = []
    nodes: list[Any] = []
    for node in cast("list[Any]", value["nodes_info"]):
        given = fields_of(node)
        if isinstance(given.get("type"), str) and given["type"] not in NODE_TYPES:
            name = known_type(given["type"])
            if name:
                notes.append((str(given.get("id", "")), f"type {given['type']!r} is called {name!r}"))
                node = {**given, "type": name}
        nodes.append(node)
    return Shaped({**value, "nodes_info": nodes}, notes) if notes else Shaped(value)


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
    """Rewrite each edge as ``[source, port, target]``; remove values that are not edges."""
    if not _is_root(value):
        return Shaped(value)
    notes: list[tuple[str, str]] = []
    edges: list[Any] = []
    for number, edge in enumerate(cast("list[Any]", value["edges"])):
        mended = _edge(edge)
        if mended is None:
            notes.append((f"edges[{number}]", "is not an edge, and is left out"))
            continue
        if mended != edge:
            notes.append((f"edges[{number}]", f"is written {mended}"))
        edges.append(mended)
    return Shaped({**value, "edges": edges}, notes) if notes else Shaped(value)


def _edge(edge: Any) -> list[Any] | None:
    """Return an edge as ``[source, port, target]``; None if it has no known form."""
    match edge:
        case {**fields}:
            given = cast("dict[str, Any]", fields)
            source, target = _first_value(given, _SOURCES), _first_value(given, _TARGETS)
            port = _first_value(given, _PORTS)
        case [source, target]:
            port = 0
        case [source, port, target] | [source, port, target, _]:
            if _port(port) is None and _port(target) is not None:  # [source, target, port]
                port, target = target, port
        case str() if len(ends := re.split(r"\s*(?:-+>|→|,)\s*", edge)) == 2:
            source, port, target = ends[0], 0, ends[1]
        case _:
            return None
    ends = [_id(source), _id(target)]
    return [ends[0], _port(port) or 0, ends[1]] if all(ends) else None


def _id(value: Any) -> str:
    """Return the id of a node as text; empty if the value is not an id."""
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        return _id(value[0])
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value).strip()


def _port(value: Any) -> int | None:
    """Return the number of a port; None if the value is not a port."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,6}\s*", value):
        return int(value)
    return 0 if value in (None, "source", "default", "out", "output", "") else None


def _first_value(given: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((given[key] for key in keys if key in given), None)


def _nodes_key(value: Mapping[str, Any]) -> str:
    """Return the key of the nodes in an object; empty if it has none."""
    if isinstance(value.get("nodes_info"), list | dict):
        return "nodes_info"
    return next((key for key in _NODE_LISTS if isinstance(value.get(key), list)), "")


def _is_root(value: Any) -> bool:
    """Return whether a value is an object with lists of nodes and edges."""
    if not isinstance(value, dict):
        return False
    root = cast("dict[str, Any]", value)
    return isinstance(root.get("nodes_info"), list) and isinstance(root.get("edges"), list)


SHAPE_RULES: dict[str, tuple[Callable[[Any], Shaped], str]] = {
    "root": (with_root, "the format has nodes_info and edges at its root"),
    "node-keys": (with_nodes, "a node has the keys id, type and param"),
    "type-names": (with_types, "no other type is spelt like it"),
    "edge-form": (with_edges, "an edge is [source, port, target]"),
}
"""Rules by name: the function, and the reason of its repairs."""
