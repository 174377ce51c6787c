"""The simplified workflow of Chat2Workflow (section 2.2): ``{"nodes_info": [{id, type, param}], "edges": [[source, port, target]]}``.
Optional keys are ``"titles"`` of nodes by their ids, and ``"instructions"`` and ``"notes"``, lists of texts (see
`NodeGraph`); values of another shape are ignored.

`load` reads this JSON, or a whole response of a model with the JSON between ``<workflow>`` tags; the text around the
tags is kept and written back. Normal form: JSON indented by two, keys in the order above, and ``param`` an object even
if it was missing or null.

The part of an id before its last hyphen is the id of the container: ``5-1`` runs inside ``5``. Where the ids of a
workflow do not fit, new ones are written, also in references: ``5-1``, ``5-2``, … inside ``5``, the start node first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from operad.flows.check import Checker, NodeType
from operad.flows.formats.format import Format, foreign
from operad.flows.formats.json_text import read_json, read_text
from operad.flows.formats.kept_text import keep_text
from operad.flows.formats.shapes import fields_of, json_or_text, list_of, pairs_of, texts_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.conditions import LENGTHS
from operad.operators.node import NodeOperator
from operad.operators.node_params import advanced, readable, rewritten
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean

NAME = "chat2workflow"
_NODE_KEYS = {"id", "type", "param"}
_TAG = re.compile(r"<workflow>(.*?)(?:</workflow>|\Z)", re.DOTALL)
_ANY_TAG = re.compile("<(?=/?workflow>)")
_SELECTION = re.compile(r"<node_selection>(.*?)</node_selection>", re.DOTALL)
_LINE_OF_TAG = re.compile(rb"^<workflow>", re.MULTILINE)
_YAML = re.compile(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", re.MULTILINE)
"""Key of Operad's or Dify's YAML. Texts in such a file may contain the tag, but not at the beginning of a line."""

_SELECTION_NAMES = {"template": "template-transform", "text-to-image": "text2image", "text-to-speech": "tts"}
"""Node types by the other names that the selection of a response has for them."""

_DISPLAY_NAMES = {
    "llm": "LLM", "if-else": "If-Else", "http-request": "HTTP Request", "template-transform": "Template", "tts": "Text to Speech",
    "text2image": "Text to Image", "echarts": "Echarts",
}  # fmt: skip
"""Names of node types in selections that are not their words with capitals."""

_START_TYPES = ("iteration-start", "loop-start")
_ID = re.compile(r'"id"\s*:\s*("(?:[^"\\]|\\.)*")')


def tagged(text: str) -> re.Match[str] | None:
    """Return the ``<workflow>`` tags of a response, with the text between them as group 1; None for JSON alone."""
    is_json = text.removeprefix("\ufeff").lstrip().startswith("{")
    return None if is_json else _TAG.search(text)  # a text in the JSON may hold the tag


def _read(data: bytes, name: str) -> NodeGraph:
    """Return the workflow of the JSON, or of a whole response, in which the JSON stands between ``<workflow>`` tags."""
    text = read_text(data, name)
    tag = tagged(text)
    root = read_json("\n" * text.count("\n", 0, tag.start(1)) + tag[1] if tag else text, name)
    issues = list(_shape_issues(root))
    if issues:
        raise InvalidError(name, issues)
    titles = {key: title for key, title in fields_of(root.get("titles")).items() if isinstance(title, str)}
    nodes = [
        NodeSpec(
            id=node["id"], type=node["type"], params=node.get("param") or {}, parent=parent_of(node["id"]),
            title=titles.get(node["id"], ""),
        )
        for node in root["nodes_info"]
    ]  # fmt: skip
    edges = [Edge(source=edge[0], port=edge[1], target=edge[2]) for edge in root["edges"]]
    instructions = texts_of(root.get("instructions"))
    notes = texts_of(root.get("notes"))
    response = {NAME: {"before": text[: tag.start()], "after": text[tag.end() :]}} if tag else {}
    return NodeGraph(nodes=nodes, edges=edges, name=name, extra=response, instructions=instructions, notes=notes)


def _write(graph: NodeGraph) -> bytes:
    """Return the JSON of a workflow, inside the whole response if the workflow was read from one."""
    ids = _written_ids(graph)
    nodes = [{"id": ids[node.id], "type": node.type, "param": _params(node, ids)} for node in _in_order(graph, ids)]
    edges = [[ids.get(edge.source, edge.source), edge.port, ids.get(edge.target, edge.target)] for edge in graph.edges]
    titles = {ids[node.id]: node.title for node in graph.nodes if node.title}
    optional: dict[str, Any] = {"titles": titles} if titles else {}
    optional |= {"instructions": list(graph.instructions)} if graph.instructions else {}
    optional |= {"notes": list(graph.notes)} if graph.notes else {}
    text = json.dumps({"nodes_info": nodes, "edges": edges, **optional}, indent=2, ensure_ascii=False)
    text = _ANY_TAG.sub(r"\\u003c", text)  # a tag in a text would be read as the tag around the JSON
    if response := fields_of(graph.extra.get(NAME)):
        text = f"{response.get('before', '')}<workflow>\n{text}\n</workflow>{response.get('after', '')}"
    else:
        text += "\n"
    return text.encode("utf-8", errors="replace")


def _dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Return the file of a changed workflow; what is unchanged keeps its text, also in a whole response of a model."""
    new, load = _write(graph), partial(_read, name=graph.name)
    try:
        texts = [_split(data.decode("utf-8")) for data in (old, _write(load(old)), new)]
        [before, text, after], was, now = texts[0], *(parts[1].encode() for parts in texts[1:])
        made = keep_text(text.encode(), was, now, lambda data: load(before.encode() + data + after.encode()))
        result = before.encode() + made + after.encode()
        return result if load(result) == load(new) else new
    except (InvalidError, UnicodeDecodeError):
        return new


def _split(text: str) -> tuple[str, str, str]:
    """Return the JSON of a file, with what is before and after it: all up to a tag and from it on."""
    tag = tagged(text)
    return (text[: tag.start(1)], tag[1], text[tag.end(1) :]) if tag else ("", text, "")


def is_it(data: bytes) -> bool:
    """Return True if a file is such JSON, even broken, or a response with the tags."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return b'"nodes_info"' in data
    return b"<workflow>" in data and bool(_LINE_OF_TAG.search(data) or not _YAML.search(data))


def node_lines(data: bytes) -> dict[str, int]:
    """Return the line of each node by its id, from 1: the line of the first key ``"id"`` with that value."""
    text = read_text(data, NAME)
    lines: dict[str, int] = {}
    line, end = 1, 0
    for found in _ID.finditer(text):
        line, end = line + text.count("\n", end, found.start()), found.start()
        lines.setdefault(str(json_or_text(found[1])), line)
    return lines


def parent_of(node_id: str) -> str:
    """Return the id of the container of a node: the part of its id before the last hyphen; empty without a hyphen."""
    return node_id.rpartition("-")[0]


def issues_of(graph: NodeGraph, types: Mapping[str, NodeType]) -> list[Issue]:
    """Return all issues of a workflow of this format.

    These are the issues of the static check, nodes in the wrong order and, in a whole response, node types that are
    only in its selection or only in its nodes.

    Args:
        graph: The workflow.
        types: The node types by name.
    """
    checker = Checker(graph, types)
    return [*checker.issues, *_order_issues(graph, checker.nodes), *_selection_issues(graph, types)]


def selected_types(selection: str) -> list[str]:
    """Return the node types in the selection of a response, without the numbers and the notes in brackets around them.

    Args:
        selection: The text between the tags of the selection.
    """
    entries = re.split(r"[,;\n]", _without_notes(selection))
    return [name for each in entries if (name := type_name(each.lstrip(" \t\r\n0123456789.")))]


def selection_of(types: Iterable[str]) -> str:
    """Return the selection of a response that names node types, each once."""
    words = (
        _DISPLAY_NAMES.get(name) or " ".join(map(str.capitalize, name.split("-"))) for name in dict.fromkeys(types)
    )
    return ", ".join(words)


def with_selection(text: str, selection: str) -> str:
    """Return the text around a workflow with another selection; unchanged if it has none."""
    return _SELECTION.sub(lambda _: f"<node_selection>{selection}</node_selection>", text, count=1)


def type_name(said: str) -> str:
    """Return the node type that a spelling such as ``Iteration Start``, ``LLM`` or ``Template`` means."""
    name = re.sub(r"[\s_-]+", "-", said.strip(" \t\r\n.*`'\"-").lower())
    return _SELECTION_NAMES.get(name, name)


# Reading


def _without_notes(text: str) -> str:
    """Return a text without its parts in brackets, which may be nested."""
    kept: list[str] = []
    depth = 0
    for part in re.split(r"([()])", text):
        depth = max(depth + {"(": 1, ")": -1}.get(part, 0), 0)
        if depth == 0 and part != ")":
            kept.append(part)
    return "".join(kept)


def _order_issues(graph: NodeGraph, nodes: Mapping[str, NodeOperator[Any]]) -> Iterator[Issue]:
    """Yield an issue for each reference to a later node, except those of a container to nodes inside it."""
    position = {node_id: number for number, node_id in reversed(list(enumerate(node.id for node in graph.nodes)))}
    for node_id, node in nodes.items():
        for other in dict.fromkeys(reference.selector.node for reference in node.references):
            if position.get(other, -1) > position[node_id] and node_id not in graph.around(other):
                yield Issue("order", f"refers to {other!r}, which stands after it in the list", node_id)


def _selection_issues(graph: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[Issue]:
    """Yield an issue for each node type that only the selection or only the nodes of a response have."""
    found = _SELECTION.search(str(fields_of(graph.extra.get(NAME)).get("before", "")))
    if found is None:
        return
    selected = selected_types(found[1])
    ids_by_type: dict[str, str] = {}
    for node in graph.nodes:
        ids_by_type.setdefault(type_name(node.type), node.id)
    for name, node_id in ids_by_type.items():
        if name not in selected:
            hint = did_you_mean(name, selected)
            yield Issue("not-selected", f"{name!r} is not listed in <node_selection>{hint}; name it there", node_id)
    for name in dict.fromkeys(name for name in selected if name not in ids_by_type):
        hint = "" if name in types else did_you_mean(name, types)
        yield Issue("not-selected", f"{name!r} is selected{hint}, and no node is of that type", "<node_selection>")


def _shape_issues(data: Any) -> Iterator[Issue]:
    """Yield the issues of JSON that does not have the form of a workflow."""
    if not isinstance(data, Mapping):
        yield Issue("format", 'must be an object with "nodes_info" and "edges"')
        return
    root = cast("Mapping[str, Any]", data)
    for key in ("nodes_info", "edges"):
        if not isinstance(root.get(key), list):
            holder = next((name for name, value in root.items() if key in fields_of(value)), None)
            hint = did_you_mean(key, root) if holder is None else f"; it is inside {holder!r}, and must be at the root"
            yield Issue("format", "must be a list" if key in root else f"is missing{hint}", key)
    for number, node in enumerate(list_of(root.get("nodes_info"))):
        yield from _node_shape_issues(node, f"nodes_info[{number}]")
    for number, edge in enumerate(list_of(root.get("edges"))):
        if not _is_edge(edge):
            message = f'must be [source, port, target], not {json.dumps(edge)[:80]}; for example ["1", 0, "2"]'
            yield Issue("misshapen-edge", message, f"edges[{number}]")


def _node_shape_issues(node: Any, where: str) -> Iterator[Issue]:
    if not isinstance(node, Mapping):
        yield Issue("misshapen-node", "must be an object with id, type and param", where)
        return
    fields = cast("Mapping[str, Any]", node)
    for key in ("id", "type"):
        if not isinstance(fields.get(key), str) or not fields[key]:
            message = "must be a text" if key in fields else f"is missing{did_you_mean(key, fields)}"
            yield Issue("misshapen-node", f"{key}: {message}", where)
    if not isinstance(fields.get("param", {}), Mapping | None):
        yield Issue("misshapen-node", "param: must be an object", where)
    for key in fields.keys() - _NODE_KEYS:
        yield Issue("misshapen-node", f"{key}: is not a key of a node{did_you_mean(key, _NODE_KEYS)}", where)


def _is_edge(edge: Any) -> bool:
    match edge:
        case [str(), bool(), str()]:
            return False
        case [str(), int(), str()]:
            return True
        case _:
            return False


# Writing


def _losses(graph: NodeGraph) -> Iterator[Issue]:
    yield from foreign(graph, NAME)
    ids = _written_ids(graph)
    for node in graph.nodes:
        if ids[node.id] != node.id:
            yield Issue("note", f"its id; it is written as {ids[node.id]!r}", node.id)
        if parent_of(ids[node.id]) != ids.get(node.parent, node.parent):
            yield Issue("loss", f"that it runs inside {node.parent!r}", node.id)
        if node.type in NODE_TYPES and node.type not in CHAT2WORKFLOW_TYPES:
            message = f"Chat2Workflow has no type {node.type!r}; it is written with that name"
            yield Issue("loss", message, node.id)
        if not isinstance(cast("object", node.params), Mapping):
            yield Issue("loss", "its parameters, which are not an object", node.id)
        if node.type in CHAT2WORKFLOW_TYPES:
            for name in advanced(NODE_TYPES[node.type].params_type, fields_of(node.params)):
                yield Issue(
                    "loss", f"{name}: Chat2Workflow has no such parameter; it is written with that name", node.id
                )
        yield from _length_losses(node)
    for edge in graph.edges:
        if edge.input:
            yield Issue("loss", f"that the edge fills the input {edge.input!r}", f"{edge.source} → {edge.target}")


def _length_losses(node: NodeSpec) -> Iterator[Issue]:
    for _, conditions in pairs_of(fields_of(node.params).get("cases")):
        for each in pairs_of(conditions, 3):
            if each[1] in LENGTHS:
                yield Issue("loss", f"cases: Chat2Workflow has no comparison {each[1]!r}", node.id)


def _written_ids(graph: NodeGraph) -> dict[str, str]:
    """Return the id that each node is written with, by its own id."""
    inside: dict[str, list[NodeSpec]] = {}
    for node in graph.nodes:
        inside.setdefault(node.parent if node.parent in graph.by_id else "", []).append(node)
    ids: dict[str, str] = {}
    taken = set(graph.by_id)
    stack = [""]
    while stack:
        container = stack.pop()
        number = 1
        for node in sorted(inside.pop(container, ()), key=lambda each: each.type not in _START_TYPES):
            parent = ids.get(node.parent, node.parent)
            new_id = node.id
            if not new_id or parent_of(new_id) != parent:
                new_id = "" if parent else node.id.replace("-", "_")
                while not new_id or new_id in taken:
                    new_id = f"{parent}-{number}" if parent else f"{node.id.replace('-', '_')}_{number}"
                    number += 1
            taken.add(new_id)
            ids.setdefault(node.id, new_id)
            stack.append(node.id)
    return {node.id: ids.get(node.id, node.id) for node in graph.nodes}  # nodes inside themselves keep their ids


def _in_order(graph: NodeGraph, ids: Mapping[str, str]) -> list[NodeSpec]:
    """Return the nodes in their order, but start nodes with a new id before the other nodes of their container."""
    first: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        first.setdefault(node.parent, position)

    def sort_key(numbered_node: tuple[int, NodeSpec]) -> tuple[int, bool]:
        position, node = numbered_node
        moved = node.type in _START_TYPES and ids[node.id] != node.id
        return (first[node.parent], False) if moved else (position, True)

    return [node for _, node in sorted(enumerate(graph.nodes), key=sort_key)]


def _params(node: NodeSpec, ids: Mapping[str, str]) -> Any:
    """Return the parameters of a node, with the new ids of nodes in references."""
    given: Any = node.params
    if not isinstance(given, Mapping):
        return {}
    params = cast("Mapping[str, Any]", given)
    if all(new_id == old for old, new_id in ids.items()) or node.type not in NODE_TYPES:
        return params
    read = readable(NODE_TYPES[node.type].params_type, params)
    return rewritten(read, params, lambda each: each._replace(node=ids.get(each.node, each.node)))


def _check(graph: NodeGraph) -> list[Issue]:
    return issues_of(graph, NODE_TYPES)


CHAT2WORKFLOW = Format(
    NAME, ".chat2workflow.json", is_it, _read, _write, _losses, _check, node_lines, dump_over=_dump_over
)
"""Format of Chat2Workflow: its JSON, or a whole response of a model with it."""

load, dump, losses = CHAT2WORKFLOW.load, CHAT2WORKFLOW.dump, CHAT2WORKFLOW.losses
