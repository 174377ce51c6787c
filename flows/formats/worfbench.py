"""The text of WorFBench: ``Node:``, numbered tasks, ``Edge:``, pairs of their numbers with START and END.

    Node:
    1: Rub the jade piece with a dry cloth.
    2: Let it air dry.
    Edge: (START,1) (1,2) (2,END)

A task is a node of type ``task`` with the parameter ``task``, its text. START and END are nodes of the types ``start``
and ``end``, with these ids, where edges name them. Read is also ``Edges:``, a full stop or a bracket after a number, a
heading in bold, a list of edges, an answer around it, in which the first line with a number is its task. Written is the form above, with tasks numbered from 1 in their
order and blanks in a text as one; that is the normal form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, cast

from operad.flows.formats.format import Format, content_of, foreign_settings, without_instructions
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean, shorten

TASK = "task"
START, END = "START", "END"

_EMPTY: Mapping[str, dict[str, Any]] = {"start": {"variables": []}, "end": {"outputs": []}}
"""The parameters of START and END."""

MAX_BYTES = 16 * 2**20
"""The largest file, in bytes."""

_EDGES = re.compile(r"^[ \t*#>-]*(?:the )?edges?[ \t*]*[:(]", re.IGNORECASE | re.MULTILINE)
_NODES = re.compile(r"^[ \t*#>-]*nodes?[ \t*]*:[ \t*]*", re.IGNORECASE | re.MULTILINE)
_NODE = re.compile(r"^[ \t*>-]*(?P<number>\d{1,9})[ \t]?[:.)](?!\d)(?P<text>.*)$", re.MULTILINE)
_EDGE = re.compile(r"\(\s*(?P<source>START|\d{1,9})\s*,\s*(?P<target>END|\d{1,9})\s*\)", re.IGNORECASE)


def load(source: str | bytes | Path, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        source: The text, alone or inside an answer; or the path of a file.
        name: What to call it.

    Raises:
        InvalidError: It is not text, or has no nodes, or nothing about edges.
    """
    text = _text(content_of(source), name)
    before, after = _parts(text)
    texts: dict[str, str] = {}
    for found in _NODE.finditer(before):
        texts.setdefault(str(int(found["number"])), _blanks(found["text"]))
    tasks = [NodeSpec(number, TASK, {TASK: said}) for number, said in texts.items()]
    edges = [Edge(_end(found["source"]), _end(found["target"])) for found in _EDGE.finditer(after)]
    issues: list[Issue] = []
    if not tasks:
        issues.append(Issue("format", 'has no nodes; write them below "Node:", one a line, as "1: what is done"'))
    if not edges and not _EDGES.search(text):
        issues.append(Issue("format", 'has no edges; write them after "Edge:", as "(START,1) (1,2) (2,END)"'))
    if issues:
        raise InvalidError(name, issues)
    named = {end for edge in edges for end in (edge.source, edge.target)}
    begin = [NodeSpec(START, "start", dict(_EMPTY["start"]))] if START in named else []
    finish = [NodeSpec(END, "end", dict(_EMPTY["end"]))] if END in named else []
    return NodeGraph([*begin, *tasks, *finish], edges, name)


def dump(graph: NodeGraph) -> bytes:
    """Write a workflow. A node of another type is written as the name of its type."""
    numbers = _numbers(graph)
    tasks = [node for node in graph.nodes if node.type not in _EMPTY]
    lines = [f"{place}: {_label(node)}".rstrip() for place, node in enumerate(tasks, start=1)]
    pairs = [
        f"({numbers[edge.source]},{numbers[edge.target]})"
        for edge in graph.edges
        if edge.source in numbers and edge.target in numbers
    ]
    text = "\n".join(["Node:", *lines, " ".join(["Edge:", *pairs])])
    return text.encode("utf-8", errors="replace")


def losses(graph: NodeGraph) -> list[Issue]:
    """Return the losses of the text, which holds only tasks and their order."""
    return list(_losses(graph))


def check(graph: NodeGraph) -> list[Issue]:
    """Return the issues of a plan of tasks: edges that lead nowhere, unreachable tasks, circles."""
    return list(_faults(graph))


def node_lines(data: bytes) -> dict[str, int]:
    """The line of each task by its number, counted from 1."""
    text = _text(data, "")
    before, _ = _parts(text)
    skipped = text.find(before) if before else 0
    lines: dict[str, int] = {}
    line, end = 1 + text.count("\n", 0, max(skipped, 0)), 0
    for found in _NODE.finditer(before):
        line, end = line + before.count("\n", end, found.start()), found.start()
        lines.setdefault(str(int(found["number"])), line)
    return lines


def is_it(data: bytes) -> bool:
    """Return whether there are numbered nodes, and edges below them."""
    before, after = _parts(data[:MAX_BYTES].decode("utf-8", errors="replace"))
    return bool(_NODE.search(before) and _EDGE.search(after))


def _faults(graph: NodeGraph) -> Iterator[Issue]:
    known = graph.by_id
    before: dict[str, list[str]] = {node_id: [] for node_id in known}
    for edge in graph.edges:
        missing = [end for end in (edge.source, edge.target) if end not in known]
        for end in missing:
            what = f"there is no node {end!r}{did_you_mean(end, known)}"
            yield Issue("dangling-edge", what, f"{edge.source} → {edge.target}")
        if not missing:
            before[edge.target].append(edge.source)
    for end in (START, END):
        if end not in known:
            yield Issue("no-start" if end == START else "no-end", f"no edge names {end}")
    after = {node_id for sources in before.values() for node_id in sources}
    for node_id, sources in before.items():
        if not sources and node_id not in after:
            yield Issue("isolated", "no edge leads to it or from it", node_id)
        elif not sources and node_id != START:
            yield Issue("unreachable", f"no edge leads to it; say (START,{node_id}) if it is the first", node_id)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        ids: list[str] = error.args[1]
        yield Issue("cycle", f"each of these leads to the next: {shorten(ids, 20).replace(', ', ' → ')}", ids[0])


def _losses(graph: NodeGraph) -> Iterator[Issue]:
    numbers = _numbers(graph)
    yield from (Issue("loss", what) for what in foreign_settings(graph.extra, WORFBENCH.name))
    yield from without_instructions(graph)
    for node in graph.nodes:
        yield from (Issue("loss", what, node.id) for what in _lost(node, numbers[node.id]))
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        if edge.source not in numbers or edge.target not in numbers:
            yield Issue("loss", "an edge to or from a node that is not there", where)
        elif edge.port or edge.input or edge.extra:
            yield Issue("loss", f"port {edge.port} and all else but the ends of the edge", where)


def _lost(node: NodeSpec, number: str) -> Iterator[str]:
    kept: dict[str, Any] = _EMPTY.get(node.type, {TASK: _label(node)})
    lost = [key for key, value in _params(node).items() if key not in kept or kept[key] != value]
    if node.type not in (TASK, *_EMPTY):
        yield f"{node.type!r} is written as its name, without its parameters"
    elif lost:
        yield f"{', '.join(map(str, lost))}: only the text of a task is written"
    if node.id != number:
        yield f"its id; it is written as {number}"
    if node.parent:
        yield f"that it runs inside {node.parent!r}"
    yield from foreign_settings(node.extra, WORFBENCH.name)


def _text(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes, and {MAX_BYTES:,} are the most")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(
            name, [Issue("format", f"is not text in UTF-8: {error.reason} at byte {error.start}")]
        ) from error


def _parts(text: str) -> tuple[str, str]:
    """Return the lines on nodes and those on edges; without a heading, all lines without a node are on edges."""
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


def _numbers(graph: NodeGraph) -> Mapping[str, str]:
    """Return the name of each node in the text."""
    numbers: dict[str, str] = {}
    place = 0
    for node in graph.nodes:
        if node.type in _EMPTY:
            numbers.setdefault(node.id, START if node.type == "start" else END)
        else:
            place += 1
            numbers.setdefault(node.id, str(place))
    return numbers


def _label(node: NodeSpec) -> str:
    said = _params(node).get(TASK)
    return _blanks(said) if node.type == TASK and isinstance(said, str) else _blanks(node.type)


def _params(node: NodeSpec) -> Mapping[str, Any]:
    params: Any = node.params
    return cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {"params": params}


def _blanks(text: str) -> str:
    return " ".join(text.split())


def _end(name: str) -> str:
    return name.upper() if name.isalpha() else str(int(name))


WORFBENCH = Format("worfbench", ".worfbench.txt", is_it, load, dump, losses, check, node_lines, runs=False)
"""The text of WorFBench."""
