"""Plan of a workflow: its nodes as texts, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from operad.flows.formats.format import Format, foreign_settings, without_instructions
from operad.flows.formats.json_text import MAX_BYTES, read_text
from operad.flows.node_graph import MAX_TITLE, Edge, NodeGraph, NodeSpec, cycle_issues
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.text import short_line

# Format of WorFBench: ``Node:``, numbered tasks, ``Edge:``, pairs of their numbers with START and END.
#
#     Node:
#     1: Rub the jade piece with a dry cloth.
#     2: Let it air dry.
#     Edge: (START,1) (1,2) (2,END)
#
# A task is a node of type ``task`` with its text in the parameter ``task``. START and END become nodes of the types
# ``start`` and ``end`` with these ids, if edges name them. `load` also accepts ``Edges:``, a full stop or a bracket after
# a number, bold headings and numbers, full-width punctuation, a list of edges, and an answer of a model around the text,
# in which the first line with a number is the task of that number. The normal form, which `dump` writes, is the form
# above with tasks numbered from 1 in their order and single blanks in texts.

TASK = "task"
START, END = "START", "END"

_BOUNDARY_PARAMS: Mapping[str, dict[str, Any]] = {"start": {"variables": []}, "end": {"outputs": []}}
"""Parameters of START and END, by their node types."""

_EDGES = re.compile(r"^[ \t*#>-]*(?:the )?edges?[ \t*]*[:：(（]", re.IGNORECASE | re.MULTILINE)
_NODES = re.compile(r"^[ \t*#>-]*nodes?[ \t*]*[:：][ \t*]*", re.IGNORECASE | re.MULTILINE)
_NODE = re.compile(
    r"^[ \t*>-]*?(?P<bold>\*\*)?(?P<number>\d{1,9})(?:\*\*)?[ \t]?[:：.)](?!\d)(?(bold)(?:\*\*)?)(?P<text>.*)$",
    re.MULTILINE,
)
_EDGE = re.compile(r"[(（]\s*(?P<source>START|\d{1,9})\s*[,，]\s*(?P<target>END|\d{1,9})\s*[)）]", re.IGNORECASE)


def _read(data: bytes, name: str) -> NodeGraph:
    text = read_text(data, name)
    node_text, edge_text = _split(text)
    texts: dict[str, str] = {}
    for found in _NODE.finditer(node_text):
        texts.setdefault(str(int(found["number"])), _collapsed(found["text"]))
    tasks = [NodeSpec(number, TASK, {TASK: label}) for number, label in texts.items()]
    edges = [Edge(_node_id(found["source"]), _node_id(found["target"])) for found in _EDGE.finditer(edge_text)]
    issues: list[Issue] = []
    if not tasks:
        issues.append(Issue("format", 'has no nodes; write them below "Node:", one a line, as "1: what is done"'))
    if not edges and not _EDGES.search(text):
        issues.append(Issue("format", 'has no edges; write them after "Edge:", as "(START,1) (1,2) (2,END)"'))
    if issues:
        raise InvalidError(name, issues)
    named_ids = {end for edge in edges for end in (edge.source, edge.target)}
    begin = [NodeSpec(START, "start", dict(_BOUNDARY_PARAMS["start"]))] if START in named_ids else []
    finish = [NodeSpec(END, "end", dict(_BOUNDARY_PARAMS["end"]))] if END in named_ids else []
    return NodeGraph([*begin, *tasks, *finish], edges, name)


def _write(graph: NodeGraph) -> bytes:
    """Return the text of a workflow; a node that is not a task is written as the name of its type."""
    ids = _written_ids(graph)
    tasks = [node for node in graph.nodes if node.type not in _BOUNDARY_PARAMS]
    lines = [f"{place}: {_label(node)}".rstrip() for place, node in enumerate(tasks, start=1)]
    pairs = [
        f"({ids[edge.source]},{ids[edge.target]})" for edge in graph.edges if edge.source in ids and edge.target in ids
    ]
    text = "\n".join(["Node:", *lines, " ".join(["Edge:", *pairs])])
    return text.encode("utf-8", errors="replace")


def node_lines(data: bytes) -> dict[str, int]:
    """Return the line of each task by its number, from 1."""
    text = read_text(data, "")
    node_text, _ = _split(text)
    offset = text.find(node_text) if node_text else 0
    lines: dict[str, int] = {}
    line, end = 1 + text.count("\n", 0, max(offset, 0)), 0
    for found in _NODE.finditer(node_text):
        line, end = line + node_text.count("\n", end, found.start()), found.start()
        lines.setdefault(str(int(found["number"])), line)
    return lines


def is_it(data: bytes) -> bool:
    """Return True if a file has numbered nodes and, below them, edges."""
    node_text, edge_text = _split(data[:MAX_BYTES].decode("utf-8", errors="replace"))
    return bool(_NODE.search(node_text) and _EDGE.search(edge_text))


def _plan_issues(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the issues of a plan of tasks: edges to missing nodes, unreachable tasks, cycles."""
    known = graph.by_id
    predecessors: dict[str, list[str]] = {node_id: [] for node_id in known}
    for edge in graph.edges:
        missing = [end for end in (edge.source, edge.target) if end not in known]
        for end in missing:
            message = f"there is no node {end!r}{did_you_mean(end, known)}"
            yield Issue("dangling-edge", message, f"{edge.source} → {edge.target}")
        if not missing:
            predecessors[edge.target].append(edge.source)
    for end in (START, END):
        if end not in known:
            yield Issue("no-start" if end == START else "no-end", f"no edge names {end}")
    with_successors = {node_id for sources in predecessors.values() for node_id in sources}
    for node_id, sources in predecessors.items():
        if not sources and node_id not in with_successors:
            yield Issue("isolated", "no edge leads to it or from it", node_id)
        elif not sources and node_id != START:
            yield Issue("unreachable", f"no edge leads to it; say (START,{node_id}) if it is the first", node_id)
    yield from cycle_issues(predecessors)


def _losses(graph: NodeGraph) -> Iterator[Issue]:
    ids = _written_ids(graph)
    yield from (Issue("loss", message) for message in foreign_settings(graph.extra, WORFBENCH.name))
    yield from without_instructions(graph)
    for node in graph.nodes:
        yield from (Issue("loss", message, node.id) for message in _node_losses(node, ids[node.id]))
        if node.title:
            yield Issue("note", f"the title {short_line(node.title, MAX_TITLE)!r}", node.id)
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        if edge.source not in ids or edge.target not in ids:
            yield Issue("loss", "an edge to or from a node that is not there", where)
        elif edge.port or edge.input or edge.extra:
            yield Issue("loss", f"port {edge.port} and all else but the ends of the edge", where)


def _node_losses(node: NodeSpec, written_id: str) -> Iterator[str]:
    kept: dict[str, Any] = _BOUNDARY_PARAMS.get(node.type, {TASK: _label(node)})
    lost = [key for key, value in _params(node).items() if key not in kept or kept[key] != value]
    if node.type not in (TASK, *_BOUNDARY_PARAMS):
        yield f"{node.type!r} is written as its name, without its parameters"
    elif lost:
        yield f"{', '.join(map(str, lost))}: only the text of a task is written"
    if node.id != written_id:
        yield f"its id; it is written as {written_id}"
    if node.parent:
        yield f"that it runs inside {node.parent!r}"
    yield from foreign_settings(node.extra, WORFBENCH.name)


def _split(text: str) -> tuple[str, str]:
    """Split a text into its lines of nodes and of edges; without a heading, all lines but nodes belong to the edges."""
    first = _NODES.search(text)
    text = text[first.end() :] if first else text
    if heading := _EDGES.search(text):
        return text[: heading.start()], text[heading.start() :]
    tasks: set[str] = set()

    def without_tasks(found: re.Match[str]) -> str:
        again = found["number"] in tasks
        tasks.add(found["number"])
        return found[0] if again else ""

    return text, _NODE.sub(without_tasks, text)


def _written_ids(graph: NodeGraph) -> Mapping[str, str]:
    """Return the id that each node has in the text, by its own id: a number, START or END."""
    ids: dict[str, str] = {}
    number = 0
    for node in graph.nodes:
        if node.type in _BOUNDARY_PARAMS:
            ids.setdefault(node.id, START if node.type == "start" else END)
        else:
            number += 1
            ids.setdefault(node.id, str(number))
    return ids


def _label(node: NodeSpec) -> str:
    label = _params(node).get(TASK)
    return _collapsed(label) if node.type == TASK and isinstance(label, str) else _collapsed(node.type)


def _params(node: NodeSpec) -> Mapping[str, Any]:
    params: Any = node.params
    return cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {"params": params}


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _node_id(name: str) -> str:
    return name.upper() if name.isalpha() else str(int(name))


WORFBENCH = Format("worfbench", ".worfbench.txt", is_it, _read, _write, _losses, _plan_issues, node_lines, runs=False)
"""Format of the text of WorFBench."""

load, dump, losses = WORFBENCH.load, WORFBENCH.dump, WORFBENCH.losses


_MARKS = frozenset({"start", "end"})
"""Types of nodes that only mark the beginning and the end of a workflow."""

Workflow = str | bytes | NodeGraph
"""Workflow as a text in WorFBench's form, or as a graph of any format."""


class Plan(NamedTuple):
    """Scored content of a workflow.

    Attributes:
        ids: Ids of the nodes in the order of the list, without START and END.
        texts: Text of each node: the text of a task, or the type of another node.
        edges: Edges as pairs of indexes in the list.
        marks: Ids of START and END, if edges name them, and of nodes of these types.
        written: All edges as pairs of ids.
        source: Text that the plan was read from; empty for a graph.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    edges: frozenset[tuple[int, int]]
    marks: frozenset[str]
    written: frozenset[tuple[str, str]]
    source: str = ""


def gold_plan(gold: Workflow) -> Plan:
    """Return the plan of a gold workflow.

    Raises:
        InputError: The workflow has no nodes.
        InvalidError: The text is not a workflow.
    """
    graph = gold if isinstance(gold, NodeGraph) else load(_bytes(gold), "gold workflow")
    if not (plan := plan_of(graph)).ids:
        raise InputError(f"gold workflow {graph.name!r}: has no nodes, so that nothing can be scored against it")
    return plan._replace(source=_source(gold))


def predicted_plan(predicted: Workflow) -> Plan:
    """Return the plan of a prediction; empty if it cannot be read. The edges may be missing."""
    if isinstance(predicted, NodeGraph):
        return plan_of(predicted)
    data = _bytes(predicted)
    for text in (data, data + b"\nEdge:"):
        try:
            return plan_of(load(text, "prediction"))._replace(source=_source(predicted))
        except InvalidError:
            continue
    return plan_of(NodeGraph())


def plan_of(graph: NodeGraph) -> Plan:
    """Return the plan of a workflow.

    If nodes have the same id, edges lead to the first. Edges to missing nodes are ignored.
    """
    nodes = [node for node in graph.nodes if node.type not in _MARKS]
    indexes: dict[str, int] = {}
    for index, node in enumerate(nodes):
        indexes.setdefault(node.id, index)
    written = frozenset((edge.source, edge.target) for edge in graph.edges)
    return Plan(
        tuple(node.id for node in nodes),
        tuple(_text(node.type, node.params) for node in nodes),
        frozenset((indexes[a], indexes[b]) for a, b in written if a in indexes and b in indexes),
        frozenset(node.id for node in graph.nodes if node.type in _MARKS),
        written,
    )


def _text(node_type: str, params: Any) -> str:
    """Return the text of a task, or the type of another node."""
    task = cast("Mapping[str, Any]", params).get(TASK) if node_type == TASK and isinstance(params, Mapping) else None
    return task if isinstance(task, str) else node_type


def _source(workflow: Workflow) -> str:
    return "" if isinstance(workflow, NodeGraph) else _bytes(workflow).decode("utf-8", "replace")


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else text
