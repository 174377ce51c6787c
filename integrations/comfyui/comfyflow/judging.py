"""ComfyFlow's criteria for a workflow: the graph that a server would get, and its faults (section 3.3 of the paper).

Each metric is a set of codes of issues (`METRICS`). Most of them come from ComfyUI's own check
(`operad.integrations.comfyui.formats.check`); ``terminal-node``, ``terminal-output-node`` and ``disconnected`` come from this
module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from operad.flows.formats.json_text import read_text
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, in_order
from operad.integrations.comfyui.comfyflow.answer import Answer, read_answer
from operad.integrations.comfyui.formats import Definitions, check, executable, load
from operad.integrations.comfyui.formats.written import NAME
from operad.runtime.values.errors import InputError, InvalidError, Issue, shorten

Metric = Literal["format", "undefined", "connected", "missing", "illegal", "terminal", "terminal_but_outputs", "sound"]

_NO_FORMAT = frozenset({"unknown-type", "duplicate-id"})
_UNDEFINED = frozenset({"undefined-variable", "dangling-edge"})

METRICS: Mapping[Metric, Collection[str]] = {
    "format": _NO_FORMAT,
    "undefined": _UNDEFINED,
    "connected": frozenset({"cycle", "disconnected"}),
    "missing": frozenset({"missing-param"}),
    "illegal": frozenset({"illegal-param"}),
    "terminal": frozenset({"terminal-node", "terminal-output-node"}),
    "terminal_but_outputs": frozenset({"terminal-node"}),
}
"""Codes of the issues that each metric counts, the gravest metric first; ``sound`` counts all issues of the check
except files that the server lacks."""

_EMPTY = Issue("empty", "has no node that would run")
_NOT_UNSOUND = frozenset({"missing-file", "disconnected", "terminal-node", "terminal-output-node"})
_RANK_BY_CODE = {code: place for place, codes in enumerate(METRICS.values()) for code in codes} | {"missing-file": 99}


@dataclass(frozen=True, slots=True)
class Judged:
    """Workflow with its issues.

    Attributes:
        graph: Graph that a server would get: the nodes in the order of the code (for other forms, of the equivalent
            code), and the links except those of undefined variables. Empty if the workflow cannot be read.
        issues: Faults, the gravest first, each with the id of its node; or the reason why the workflow cannot be read.
        is_read: True if the workflow can be read and has nodes.
        selected: Classes that the answer selected; None if it has no list of them between their tags.
        is_tagged: True if the workflow is between the tags of an answer.
    """

    graph: NodeGraph
    issues: Sequence[Issue]
    is_read: bool = True
    selected: Sequence[str] | None = None
    is_tagged: bool = False

    def fails(self, metric: Metric) -> bool:
        """Return whether the workflow is at fault by a metric; without a valid format, it is at fault by all."""
        codes = {issue.code for issue in self.issues}
        if not self.is_read or not codes.isdisjoint(_NO_FORMAT):
            return True
        return bool(codes - _NOT_UNSOUND) if metric == "sound" else not codes.isdisjoint(METRICS[metric])

    @property
    def is_dag(self) -> bool:
        """True if the workflow is a directed acyclic graph, even with unknown classes or several components."""
        codes = {issue.code for issue in self.issues}
        return self.is_read and codes.isdisjoint({"cycle", "duplicate-id", *_UNDEFINED})


def judge(content: str | bytes, definitions: Definitions) -> Judged:
    """Return a workflow with its faults by ComfyFlow's criteria.

    Args:
        content: A workflow in any of ComfyUI's forms, or a model's whole answer with one.
        definitions: The classes of the server.

    Raises:
        InputError: There are no definitions.
    """
    if not definitions:
        raise InputError("ComfyFlow's scores need the classes of a server: its answer at /object_info")
    try:
        text = read_text(_bytes_of(content), "workflow")
    except InvalidError as error:
        return Judged(NodeGraph(), error.issues, is_read=False)
    answer = read_answer(text)
    try:
        graph = _load(answer)
        executable_graph = executable(graph, definitions)
    except InvalidError as error:
        return Judged(NodeGraph(), error.issues, False, answer.selected, answer.is_tagged)
    if not executable_graph.nodes:
        return Judged(NodeGraph(), [_EMPTY], False, answer.selected, answer.is_tagged)
    linked = _ordered_and_linked(executable_graph, is_code=not _is_json(answer.workflow))
    issues = [*check(graph, definitions), *_disconnected(linked), *_terminals(linked, definitions)]
    issues.sort(key=lambda issue: _RANK_BY_CODE.get(issue.code, len(METRICS)))
    return Judged(linked, tuple(issues), True, answer.selected, answer.is_tagged)


def graph_of_gold(content: str | bytes, definitions: Definitions) -> NodeGraph:
    """Return the graph of a gold workflow, in the form of `Judged.graph`.

    Raises:
        InvalidError: The workflow cannot be read, or has no nodes.
    """
    answer = read_answer(read_text(_bytes_of(content), "gold"))
    executable_graph = executable(_load(answer, "gold"), definitions)
    if not executable_graph.nodes:
        raise InvalidError("gold", [_EMPTY])
    return _ordered_and_linked(executable_graph, is_code=not _is_json(answer.workflow))


def _bytes_of(content: str | bytes) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content


def _load(answer: Answer, name: str = "workflow") -> NodeGraph:
    """Read the workflow of an answer.

    Raises:
        InvalidError: The answer has no workflow, or it cannot be read.
    """
    if not answer.workflow.strip():
        raise InvalidError(name, [Issue("empty", "holds no workflow")])
    return load(answer.workflow.encode(), name)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _ordered_and_linked(graph: NodeGraph, *, is_code: bool) -> NodeGraph:
    """Return the graph with its nodes in order, and without links of missing nodes and undefined variables."""
    ids = graph.by_id
    edges = [
        edge
        for edge in graph.edges
        if edge.input and edge.source in ids and edge.target in ids and not _is_undefined(edge)
    ]
    nodes = list(graph.nodes) if is_code else [ids[node_id] for node_id in in_order(list(ids), edges)]
    return NodeGraph(nodes, edges, graph.name)


def _is_undefined(edge: Edge) -> bool:
    return "undefined" in fields_of(edge.extra.get(NAME))


# Issues of the graph


def _disconnected(graph: NodeGraph) -> Iterator[Issue]:
    """Yield an issue for each connected component except the largest."""
    import networkx as nx  # not at import: other scores do not need it

    whole: nx.Graph[str] = nx.Graph()
    whole.add_nodes_from(spec.id for spec in graph.nodes)
    whole.add_edges_from((edge.source, edge.target) for edge in graph.edges)
    for nodes in sorted(nx.connected_components(whole), key=len, reverse=True)[1:]:
        part = [spec.id for spec in graph.nodes if spec.id in nodes]
        what = f"nothing links {shorten(part)} with the rest of the workflow"
        yield Issue("disconnected", f"{what}; link what belongs to it, and take out the rest", part[0])


def _terminals(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    """Yield an issue for each node without successors whose class declares outputs."""
    used = {edge.source for edge in graph.edges}
    terminal_nodes = [spec for spec in graph.nodes if spec.id not in used]
    output_classes = _output_classes(definitions, terminal_nodes)
    for spec in terminal_nodes:
        definition = definitions.get(spec.type)
        if definition is None or not definition.outputs:
            continue
        problem = f"{spec.type} gives {shorten(definition.outputs)}, and nothing takes it"
        if definition.output_node:
            yield Issue("terminal-output-node", f"{problem}, although it is an output itself", spec.id)
        else:
            names = list(dict.fromkeys(name for kind in definition.outputs for name in output_classes.get(kind, ())))
            hint = f", such as {' or '.join(names[:3])}" if names else ""
            yield Issue("terminal-node", f"{problem}: link it with a node that ends the workflow{hint}", spec.id)


def _output_classes(definitions: Definitions, terminal_nodes: Iterable[NodeSpec]) -> Mapping[str, Sequence[str]]:
    """Return, for each type of output of terminal nodes, the output classes that take it and give nothing."""
    kinds = {kind for spec in terminal_nodes if (found := definitions.get(spec.type)) for kind in found.outputs}
    classes_by_type: dict[str, list[str]] = {}
    if kinds:
        for name, definition in definitions.classes.items():
            if definition.output_node and not definition.outputs:
                for kind in {
                    input_definition.type
                    for input_definition in definition.inputs.values()
                    if input_definition.required
                } & kinds:
                    classes_by_type.setdefault(kind, []).append(name)
    return classes_by_type
