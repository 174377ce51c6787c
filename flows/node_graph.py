"""Graph of typed nodes as a file describes it, valid or not: its nodes and edges, picture, order, and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, cast, get_args

from operad.operators.media.mermaid import render_mermaid
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.errors import InvalidError, Issue, OperadError, did_you_mean, shorten
from operad.runtime.values.mermaid import Flowchart, Shape, markdown_page


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Node as a file describes it; it need not be valid.

    Attributes:
        id: The id.
        type: The name of the node type.
        params: The parameters, not validated.
        parent: The id of the container that the node runs inside of; empty for none.
        extra: Data that only one format has a place for, by the name of the format; written back unchanged.
        title: The title that a person gave to the node; empty for none. `name_of` gives its name.
    """

    id: str
    type: str
    params: Any = field(default_factory=dict[str, Any])
    parent: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    title: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """Edge as a file describes it; it need not be valid.

    Attributes:
        source: The id of the node that the edge leaves.
        target: The id of the node that the edge leads to.
        port: The number of the source's port, from 0.
        input: The name of the target's input that the edge fills, in formats whose edges carry values (ComfyUI).
        extra: Data of one format, as in `NodeSpec`.
    """

    source: str
    target: str
    port: int = 0
    input: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


NoteColor = Literal["yellow", "blue", "cyan", "green", "pink", "violet"]


@dataclass(frozen=True, slots=True)
class StickyNote:
    """Note on the canvas, which runs, checks and costs ignore.

    Attributes:
        id: The id, which a node may have, too.
        text: The text, in Markdown.
        color: The colour.
        at: The position on the canvas, in pixels from the left and from the top; None for above the nodes.
        size: The width and height in pixels.
        extra: Data of one format, as in `NodeSpec`.
    """

    id: str
    text: str = ""
    color: NoteColor = "yellow"
    at: tuple[float, float] | None = None
    size: tuple[float, float] = (240, 120)
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class NodeGraph:
    """Typed nodes and edges, in the order of the file.

        from operad.flows.check import check
        from operad.flows.node_graph import Edge, NodeSpec
        from operad.operators.nodes import NODE_TYPES

        nodes = [NodeSpec("1", "start", {"variables": [["name", "string"]]}), NodeSpec("2", "end", {"outputs": [["name", ["name", "1"]]]})]
        graph = NodeGraph(nodes, [Edge("1", "2")], "greet")
        print(check(graph, NODE_TYPES))  # []

    Attributes:
        nodes: The nodes. Nodes inside a container name it as their parent.
        edges: The edges.
        name: The name of the workflow.
        extra: Data of one format, as in `NodeSpec`.
        instructions: The instructions that the workflow was generated from, round by round; saved by formats that can.
        notes: Parts of the instructions that the workflow does not fulfil, and assumptions; saved likewise.
        samples: Samples of what other systems answer to nodes, by node id, for dry runs and tests; saved likewise.
        sticky_notes: Notes on the canvas.
        left_out: Ids of the nodes that `runnable` has left out.
    """

    nodes: Sequence[NodeSpec] = ()
    edges: Sequence[Edge] = ()
    name: str = "workflow"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: Sequence[str] = ()
    notes: Sequence[str] = ()
    samples: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sticky_notes: Sequence[StickyNote] = ()
    left_out: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def by_id(self) -> Mapping[str, NodeSpec]:
        """Nodes by id; if several have the same id, the first."""
        return {node.id: node for node in reversed(self.nodes)}

    @property
    def is_imported(self) -> bool:
        """True if the workflow has data that only one format has a place for."""
        return any(each.extra for each in (self, *self.nodes, *self.edges, *self.sticky_notes))

    @cached_property
    def runnable(self) -> NodeGraph:
        """The workflow that runs: one imported from Dify without the nodes that no path reaches from its start.

        Dify lets such nodes stand on its canvas. In other workflows they are an issue.
        """
        if "dify" not in self.extra or all(node.type != "start" for node in self.nodes):
            return self
        starts = [node.id for node in self.nodes if node.type in ("start", "iteration-start", "loop-start")]
        reached = reachable(starts, lambda source: [edge.target for edge in self.edges if edge.source == source])
        left = {node.id for node in self.nodes if not {node.id, *self.around(node.id)} <= reached}
        left -= {node.id for node in self.nodes if node.type == "conversation"}
        triggers = {
            node.id for node in self.nodes if node.type.startswith("trigger-")
        }  # those that did not start the run
        if any(edge.source in left - triggers and edge.target in self.by_id.keys() - left for edge in self.edges):
            return self  # nodes that run would wait for them
        return replace(
            self,
            nodes=[node for node in self.nodes if node.id not in left],
            edges=[edge for edge in self.edges if left.isdisjoint((edge.source, edge.target))],
            left_out=frozenset(left),
        )

    def around(self, node_id: str) -> list[str]:
        """Return the ids of the containers around a node, the innermost first."""
        found: list[str] = []
        node = self.by_id.get(node_id)
        while node and node.parent in self.by_id and node.parent not in found:
            found.append(node.parent)
            node = self.by_id[node.parent]
        return found

    def inside(self, parent: str) -> NodeGraph:
        """Return the nodes inside a container and their edges; for an empty id, those outside of all containers."""
        ids = {node.id for node in self.nodes if node.parent == parent}
        return NodeGraph(
            nodes=[node for node in self.nodes if node.parent == parent],
            edges=[edge for edge in self.edges if edge.source in ids and edge.target in ids],
            name=parent or self.name,
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the picture for a notebook; the flowchart's code if the workflow cannot be drawn."""
        bundle: dict[str, str] = {"text/plain": repr(self), "text/markdown": draw(self, "md").decode()}
        with suppress(OperadError):  # the extra is missing or the workflow is too large: show the code only
            bundle["image/svg+xml"] = draw(self, "svg").decode()
        return bundle


# Flowchart in Mermaid's language. A node shows its title, its type and its id. An edge from a port shows the port: the number of an
# if-else case, ``else``, or the name of a class. Nodes inside a container are drawn in a frame. A node that edges name
# but that does not exist has a dashed border.

MAX_TITLE = 80
"""Maximum number of characters of a title that is shown."""

COLOURS: Mapping[str, str] = {
    "running": "fill:#fff3bf,stroke:#f08c00",
    "done": "fill:#d3f9d8,stroke:#2b8a3e",
    "failed": "fill:#ffe3e3,stroke:#c92a2a",
    "skipped": "fill:#f1f3f5,stroke:#868e96,color:#868e96",
    "added": "fill:#d3f9d8,stroke:#2b8a3e",
    "changed": "fill:#fff3bf,stroke:#f08c00",
}
"""Styles of nodes by their status."""

_SHAPES: Mapping[str, Shape] = {
    "start": "round",
    "end": "round",
    "if-else": "hexagon",
    "question-classifier": "hexagon",
}


def flowchart(graph: NodeGraph, status: Mapping[str, str] | None = None) -> str:
    """Return the flowchart of a workflow.

        print(flowchart(graph, {"2": "done"}))

    Args:
        graph: The workflow; it need not be valid.
        status: The status of nodes, by id: running, done, failed, skipped, added or changed.

    Returns:
        The flowchart in Mermaid's language.
    """
    by_id = {node.id: graph.by_id[node.id] for node in graph.nodes}  # of several with one id, the first
    ends = [end for edge in graph.edges for end in (edge.source, edge.target)]
    missing = [end for end in dict.fromkeys(ends) if end not in by_id]
    around = {node_id: list(_ancestors(node_id, by_id)) for node_id in by_id}
    chart = Flowchart()
    _write_nodes(chart, by_id, around)
    for node_id in missing:
        chart.node(node_id, node_id)
    frames = {ancestors[0] for ancestors in around.values() if ancestors}
    for edge in graph.edges:
        if _can_be_drawn(edge, around, frames):
            chart.edge(edge.source, edge.target, port_label(by_id.get(edge.source), edge.port))
    for state, colours in COLOURS.items():
        chart.style(state, colours, [key for key, each in (status or {}).items() if each == state and key in by_id])
    chart.style("missing", "stroke-dasharray:4", missing)
    return chart.code()


def port_label(node: NodeSpec | None, port: int) -> str:
    """Return the label of a port: the case, the class or the number; empty for port 0 of other node types."""
    params: Any = node.params if node is not None else None
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {}
    if node is not None and node.type == "if-else":
        return "else" if port == len(_list(fields.get("cases"))) else str(port)
    classes = _list(fields.get("classes"))
    if node is not None and node.type == "question-classifier" and 0 <= port < len(classes):
        return str(classes[port])
    return f"port {port}" if port else ""


def _ancestors(node_id: str, by_id: Mapping[str, NodeSpec]) -> Sequence[str]:
    """Return the containers around a node, innermost first; none if they form a cycle or one does not exist."""
    ancestors: list[str] = []
    parent = by_id[node_id].parent
    while parent:
        if parent not in by_id or parent == node_id or parent in ancestors:
            return ()
        ancestors.append(parent)
        parent = by_id[parent].parent
    return ancestors


def _write_nodes(chart: Flowchart, by_id: Mapping[str, NodeSpec], around: Mapping[str, Sequence[str]]) -> None:
    """Write the nodes, those inside a container in its frame; a stack, because containers may be nested deeply."""
    children: dict[str, list[str]] = {}
    for node_id, ancestors in around.items():
        children.setdefault(ancestors[0] if ancestors else "", []).append(node_id)
    stack = [iter(children.get("", ()))]
    while stack:
        for node_id in stack[-1]:
            node_type, title = by_id[node_id].type, " ".join(by_id[node_id].title.split())[:MAX_TITLE]
            shown = f"{title} ({node_type} {node_id})" if title else f"{node_type} {node_id}"
            if node_id in children:
                chart.begin_frame(node_id, shown)
                stack.append(iter(children[node_id]))
                break
            chart.node(node_id, shown, _SHAPES.get(node_type, "box"))
        else:
            stack.pop()
            if stack:
                chart.end_frame()


def _can_be_drawn(edge: Edge, around: Mapping[str, Sequence[str]], frames: Collection[str]) -> bool:
    """Return False for an edge between a container and itself or a node inside it, which Mermaid cannot draw."""
    source, target = edge.source, edge.target
    inside = source in around.get(target, ()) or target in around.get(source, ())
    return not (inside or (source == target and source in frames))


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


PictureTarget = Literal["svg", "png", "md"]


def draw(graph: NodeGraph, target: PictureTarget = "svg", status: Mapping[str, str] | None = None) -> bytes:
    """Draw a workflow.

    Args:
        graph: The workflow; it need not be valid.
        target: The kind of file: a picture, or Markdown with the flowchart and a table of the nodes.
        status: The status of nodes, by id: running, done, failed or skipped.

    Returns:
        The content of the file.

    Raises:
        InvalidError: The target is unknown.
        MediaError: The workflow is too large to be drawn.
        MissingExtraError: The extra ``media`` is not installed; ``md`` needs none.
    """
    if target not in get_args(PictureTarget):
        known = ", ".join(get_args(PictureTarget))
        hint = did_you_mean(str(target), get_args(PictureTarget))
        raise InvalidError("the picture", [Issue("target", f"there is no {target!r:.60}{hint}; there are {known}")])
    if target == "md":
        return _markdown(graph, status or {}).encode("utf-8", errors="replace")
    return render_mermaid(flowchart(graph, status), target)


def _markdown(graph: NodeGraph, status: Mapping[str, str]) -> str:
    """Return Markdown with the flowchart and a table of the nodes."""
    predecessors: dict[str, list[str]] = {}
    for edge in graph.edges:
        predecessors.setdefault(edge.target, []).append(edge.source)
    heads = ["id", "type", "inside", "after", *(["status"] if status else [])]
    rows = [
        [
            node.id,
            node.type,
            node.parent,
            ", ".join(predecessors.get(node.id, ())),
            *([status.get(node.id, "")] if status else []),
        ]
        for node in graph.nodes
    ]
    return markdown_page(graph.name, flowchart(graph, status), heads, rows)


def in_order(ids: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Return the ids in topological order, otherwise in the given order; the ids of a cycle come last."""
    return list(depths(ids, edges))


def depths(ids: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the length of the longest path to each node, in the order of `in_order`."""
    successors: dict[str, list[str]] = {node_id: [] for node_id in ids}
    open_count = dict.fromkeys(successors, 0)
    for edge in edges:
        if edge.source in successors and edge.target in successors:
            successors[edge.source].append(edge.target)
            open_count[edge.target] += 1
    depth = {node_id: 0 for node_id, count in open_count.items() if not count}
    queue = list(depth)
    depths_found: dict[str, int] = {}
    for node_id in queue:
        depths_found[node_id] = depth[node_id]
        for successor in successors[node_id]:
            depth[successor] = max(depth.get(successor, 0), depth[node_id] + 1)
            open_count[successor] -= 1
            if not open_count[successor]:
                queue.append(successor)
    return {**depths_found, **{node_id: depth.get(node_id, 0) for node_id in successors if node_id not in depths_found}}


def cycle_issues(predecessors: Mapping[str, Sequence[str]]) -> Iterator[Issue]:
    """Yield the issue of a cycle, if there is one; the predecessors of each node are given by its id."""
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        ids: list[str] = error.args[1]
        yield Issue("cycle", f"each of these leads to the next: {shorten(ids, 20).replace(', ', ' → ')}", ids[0])


_TYPE_NAMES: Mapping[str, str] = {"llm": "LLM", "tts": "Text to speech", "text2image": "Text to image",
    "request": "HTTP request", "http-request": "HTTP GET", "if-else": "If / else", "echarts": "Chart", "comfyui": "ComfyUI"}  # fmt: skip


def name_of_type(node_type: str) -> str:
    """Return the name of a node type; a class of ComfyUI, such as KSampler, is its own name."""
    return _TYPE_NAMES.get(node_type) or (
        node_type.replace("-", " ").capitalize() if node_type.islower() else node_type
    )


def titles_of(graph: NodeGraph) -> dict[str, str]:
    """Return the titles that people gave to nodes, by their ids, in one line each."""
    return {spec.id: title for spec in graph.nodes if (title := _line(spec.title))}


def name_of(spec: NodeSpec) -> str:
    """Return the name of a node, which other nodes may have, too.

    Example:
        >>> name_of(NodeSpec("1", "request")), name_of(NodeSpec("2", "llm", title="Draft"))
        ('HTTP request', 'Draft')
    """
    return _line(spec.title) or name_of_type(spec.type)


def names_of(graph: NodeGraph) -> dict[str, str]:
    """Return the names of all nodes by their ids; a name that several nodes have is followed by the id.

    Example:
        >>> names_of(NodeGraph([NodeSpec("1", "start"), NodeSpec("2", "llm"), NodeSpec("3", "llm")]))
        {'1': 'Start', '2': 'LLM #2', '3': 'LLM #3'}
    """
    names = {node_id: name_of(spec) for node_id, spec in graph.by_id.items()}
    counts = Counter(names.values())
    return {node_id: name if counts[name] == 1 else f"{name} #{node_id}" for node_id, name in names.items()}


def _line(title: str) -> str:
    return " ".join(title.split())[:MAX_TITLE]
