"""The simplified workflow of Chat2Workflow (section 2.2): ``{"nodes_info": [{id, type, param}], "edges": [[source, port, target]]}``.
What a workflow was made from stands behind these, as the texts of ``"instructions"`` and ``"notes"``; a value of another shape is not heeded.

Read is that JSON, or a whole response of a model with it between ``<workflow>`` tags; what stands around the tags is kept
and written back. Normal form: JSON indented by two, its keys in the order above, ``param`` an object where it was left
out or null.

The hyphen in an id says what a node runs inside of. Where ids say otherwise, they are written anew: those inside node 5
as ``5-1``, ``5-2``, …, what begins there first; and what names them names them so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from operad.flows.check import Checker, NodeType
from operad.flows.formats.format import Format, content_of, foreign
from operad.flows.formats.json_text import read_json, read_text
from operad.flows.formats.shapes import fields_of, texts_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
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
"""A key of Operad's or Dify's YAML, whose texts may name the tag, but never at the beginning of a line."""

_SPOKEN = {"template": "template-transform", "text-to-image": "text2image", "text-to-speech": "tts"}
"""Types that have another name in the selection."""

_FIRST = ("iteration-start", "loop-start")
_ID = re.compile(r'"id"\s*:\s*("(?:[^"\\]|\\.)*")')


def load(source: str | bytes | Path, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        source: The JSON; or a whole response, from which the part between ``<workflow>`` tags is taken; or the path
            of a file.
        name: What to call it.

    Raises:
        InvalidError: It is not of that form; every issue is listed, that of broken JSON with line and column.
    """
    text = source if isinstance(source, str) else read_text(content_of(source), name)
    tag = _TAG.search(text)
    if tag and text.lstrip().startswith("{"):  # a text in the JSON names it
        tag = None
    data = read_json("\n" * text.count("\n", 0, tag.start(1)) + tag[1] if tag else text, name)
    issues = list(_misshapen(data))
    if issues:
        raise InvalidError(name, issues)
    nodes = [
        NodeSpec(id=node["id"], type=node["type"], params=node.get("param") or {}, parent=parent_of(node["id"]))
        for node in data["nodes_info"]
    ]
    edges = [Edge(source=edge[0], port=edge[1], target=edge[2]) for edge in data["edges"]]
    instructions = texts_of(data.get("instructions"))
    notes = texts_of(data.get("notes"))
    around = {NAME: {"before": text[: tag.start()], "after": text[tag.end() :]}} if tag else {}
    return NodeGraph(nodes=nodes, edges=edges, name=name, extra=around, instructions=instructions, notes=notes)


def dump(graph: NodeGraph) -> bytes:
    """Write a workflow; as a whole response where it was read from one."""
    names = _names(graph)
    nodes = [
        {"id": names[node.id], "type": node.type, "param": _params(node, names)} for node in _in_order(graph, names)
    ]
    edges = [
        [names.get(edge.source, edge.source), edge.port, names.get(edge.target, edge.target)] for edge in graph.edges
    ]
    said = {"instructions": list(graph.instructions)} if graph.instructions else {}
    said |= {"notes": list(graph.notes)} if graph.notes else {}
    text = json.dumps({"nodes_info": nodes, "edges": edges, **said}, indent=2, ensure_ascii=False)
    text = _ANY_TAG.sub(r"\\u003c", text)  # of a text; it would be taken for one around the JSON
    if around := _around(graph):
        text = f"{around.get('before', '')}<workflow>\n{text}\n</workflow>{around.get('after', '')}"
    else:
        text += "\n"
    return text.encode("utf-8", errors="replace")


def losses(graph: NodeGraph) -> list[Issue]:
    """Return the parts of a workflow that the format does not hold as they are."""
    return list(_losses(graph))


def is_it(data: bytes) -> bool:
    """Return whether a file is such JSON, however broken, or holds the tags of a response."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return b'"nodes_info"' in data
    return b"<workflow>" in data and bool(_LINE_OF_TAG.search(data) or not _YAML.search(data))


def node_lines(data: bytes) -> dict[str, int]:
    """The line of each node by its id, counted from 1: that of the first ``"id"`` with it."""
    text = read_text(data, NAME)
    lines: dict[str, int] = {}
    line, end = 1, 0
    for found in _ID.finditer(text):
        line, end = line + text.count("\n", end, found.start()), found.start()
        lines.setdefault(_plain(found[1]), line)
    return lines


def parent_of(node_id: str) -> str:
    """The node that one runs inside of: what stands before the last hyphen of its id; empty without one."""
    return node_id.rpartition("-")[0]


def issues_of(graph: NodeGraph, types: Mapping[str, NodeType]) -> list[Issue]:
    """All that is wrong with a workflow of this format: what the full static check finds, wrong order, and, in a whole
    response, nodes that its selection does not name or that only it names.

    Args:
        graph: The workflow.
        types: The node types by name.
    """
    checker = Checker(graph, types)
    return [*checker.issues, *_order_issues(graph, checker.nodes), *_selection_issues(graph, types)]


def selected_types(selection: str) -> list[str]:
    """The node types that a response's selection names, without notes in brackets and numbers before them.

    Args:
        selection: What stands between its tags.
    """
    said = re.split(r"[,;\n]", _without_notes(selection))
    return [name for each in said if (name := type_name(each.lstrip(" \t\r\n0123456789.")))]


def type_name(said: str) -> str:
    """The name of a type as people write it: ``Iteration Start``, ``LLM``, ``Template``."""
    name = re.sub(r"[\s_-]+", "-", said.strip(" \t\r\n.*`'\"-").lower())
    return _SPOKEN.get(name, name)


# Reading


def _without_notes(text: str) -> str:
    """A text without what stands in brackets, which may be nested."""
    kept: list[str] = []
    depth = 0
    for part in re.split(r"([()])", text):
        depth = max(depth + {"(": 1, ")": -1}.get(part, 0), 0)
        if depth == 0 and part != ")":
            kept.append(part)
    return "".join(kept)


def _plain(quoted: str) -> str:
    try:
        return json.loads(quoted)
    except ValueError:
        return quoted


def _order_issues(graph: NodeGraph, nodes: Mapping[str, NodeOperator[Any]]) -> Iterator[Issue]:
    """Nodes that stand after one that refers to them; only an iteration's ``output_selector`` may point forward."""
    place = {node_id: number for number, node_id in reversed(list(enumerate(node.id for node in graph.nodes)))}
    for node_id, node in nodes.items():
        for other in dict.fromkeys(reference.selector.node for reference in node.references):
            if place.get(other, -1) > place[node_id]:
                yield Issue("order", f"refers to {other!r}, which stands after it in the list", node_id)


def _selection_issues(graph: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[Issue]:
    found = _SELECTION.search(str(_around(graph).get("before", "")))
    if found is None:
        return
    chosen = selected_types(found[1])
    there: dict[str, str] = {}
    for node in graph.nodes:
        there.setdefault(type_name(node.type), node.id)
    for name, node_id in there.items():
        if name not in chosen:
            hint = did_you_mean(name, chosen)
            yield Issue("not-selected", f"{name!r} stands not in <node_selection>{hint}; name it there", node_id)
    for name in dict.fromkeys(name for name in chosen if name not in there):
        hint = "" if name in types else did_you_mean(name, types)
        yield Issue("not-selected", f"{name!r} is selected{hint}, and no node is of that type", "<node_selection>")


def _misshapen(data: Any) -> Iterator[Issue]:
    if not isinstance(data, Mapping):
        yield Issue("format", 'must be an object with "nodes_info" and "edges"')
        return
    root = cast("Mapping[str, Any]", data)
    for key in ("nodes_info", "edges"):
        if not isinstance(root.get(key), list):
            what = "must be a list" if key in root else f"is missing{did_you_mean(key, root)}"
            yield Issue("format", what, key)
    for number, node in enumerate(_list(root.get("nodes_info"))):
        yield from _misshapen_node(node, f"nodes_info[{number}]")
    for number, edge in enumerate(_list(root.get("edges"))):
        if not _is_edge(edge):
            yield Issue(
                "misshapen-edge", f"must be [source, port, target], not {json.dumps(edge)[:80]}", f"edges[{number}]"
            )


def _misshapen_node(node: Any, where: str) -> Iterator[Issue]:
    if not isinstance(node, Mapping):
        yield Issue("misshapen-node", "must be an object with id, type and param", where)
        return
    fields = cast("Mapping[str, Any]", node)
    for key in ("id", "type"):
        if not isinstance(fields.get(key), str) or not fields[key]:
            what = "must be a text" if key in fields else f"is missing{did_you_mean(key, fields)}"
            yield Issue("misshapen-node", f"{key}: {what}", where)
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


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else []


# Writing


def _losses(graph: NodeGraph) -> Iterator[Issue]:
    yield from foreign(graph, NAME)
    names = _names(graph)
    for node in graph.nodes:
        if names[node.id] != node.id:
            yield Issue("loss", f"its id; it is written as {names[node.id]!r}", node.id)
        if parent_of(names[node.id]) != names.get(node.parent, node.parent):
            yield Issue("loss", f"that it runs inside {node.parent!r}", node.id)
        if node.type in NODE_TYPES and node.type not in CHAT2WORKFLOW_TYPES:
            what = f"Chat2Workflow has no type {node.type!r}; it is written with that name"
            yield Issue("loss", what, node.id)
        if not _is_object(node.params):
            yield Issue("loss", "its parameters, which are not an object", node.id)
        if node.type in CHAT2WORKFLOW_TYPES:
            for name in advanced(NODE_TYPES[node.type].params_type, fields_of(node.params)):
                yield Issue(
                    "loss", f"{name}: Chat2Workflow has no such parameter; it is written with that name", node.id
                )
    for edge in graph.edges:
        if edge.input:
            yield Issue("loss", f"that the edge fills the input {edge.input!r}", f"{edge.source} → {edge.target}")


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _names(graph: NodeGraph) -> dict[str, str]:
    """The ids that nodes are written with, by their own."""
    inside: dict[str, list[NodeSpec]] = {}
    for node in graph.nodes:
        inside.setdefault(node.parent if node.parent in graph.by_id else "", []).append(node)
    names: dict[str, str] = {}
    taken = set(graph.by_id)
    open_ = [""]
    while open_:
        here = open_.pop()
        number = 1
        for node in sorted(inside.pop(here, ()), key=lambda each: each.type not in _FIRST):
            parent = names.get(node.parent, node.parent)
            name = node.id
            if not name or parent_of(name) != parent:
                name = "" if parent else node.id.replace("-", "_")
                while not name or name in taken:
                    name = f"{parent}-{number}" if parent else f"{node.id.replace('-', '_')}_{number}"
                    number += 1
            taken.add(name)
            names.setdefault(node.id, name)
            open_.append(node.id)
    return {node.id: names.get(node.id, node.id) for node in graph.nodes}  # those inside themselves keep theirs


def _in_order(graph: NodeGraph, names: Mapping[str, str]) -> list[NodeSpec]:
    """The nodes as they stand; where ids are new, what begins inside a node before what else is there."""
    first: dict[str, int] = {}
    for place, node in enumerate(graph.nodes):
        first.setdefault(node.parent, place)

    def place_of(numbered: tuple[int, NodeSpec]) -> tuple[int, bool]:
        place, node = numbered
        moved = node.type in _FIRST and names[node.id] != node.id
        return (first[node.parent], False) if moved else (place, True)

    return [node for _, node in sorted(enumerate(graph.nodes), key=place_of)]


def _params(node: NodeSpec, names: Mapping[str, str]) -> Any:
    """The parameters, with the new names of nodes in what they read."""
    given: Any = node.params
    if not isinstance(given, Mapping):
        return {}
    params = cast("Mapping[str, Any]", given)
    if all(name == old for old, name in names.items()) or node.type not in NODE_TYPES:
        return params
    read = readable(NODE_TYPES[node.type].params_type, params)
    return rewritten(read, params, lambda each: each._replace(node=names.get(each.node, each.node)))


def _around(graph: NodeGraph) -> Mapping[str, Any]:
    """Return the text around the tags of a response; empty without tags."""
    around: Any = graph.extra.get(NAME)
    return cast("Mapping[str, Any]", around) if isinstance(around, Mapping) else {}


def _check(graph: NodeGraph) -> list[Issue]:
    return issues_of(graph, NODE_TYPES)


CHAT2WORKFLOW = Format(NAME, ".chat2workflow.json", is_it, load, dump, losses, _check, node_lines)
"""Chat2Workflow's JSON, or a whole response with it."""
