"""Plan of a workflow: its nodes as texts, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from operad.flows.formats.worfbench import TASK, load
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError

_MARKS = frozenset({"start", "end"})
"""The types of nodes that only say where a workflow begins and ends."""

Workflow = str | bytes | NodeGraph
"""A text in WorFBench's form, or a graph of any format."""


class Plan(NamedTuple):
    """Scored content of a workflow.

    Attributes:
        ids: Ids of the nodes, as listed, without START and END.
        texts: Text of each node: that of a task, or the type of another node.
        edges: From place to place in the list.
        marks: The ids of START and END, if edges name them, and of nodes of these types.
        written: All edges, from id to id.
        source: The text it was read from; empty for a graph.
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
        InputError: It has no nodes.
        InvalidError: The text is not a workflow.
    """
    graph = gold if isinstance(gold, NodeGraph) else load(_bytes(gold), "gold workflow")
    if not (plan := plan_of(graph)).ids:
        raise InputError(f"gold workflow {graph.name!r}: has no nodes, so that nothing can be scored against it")
    return plan._replace(source=_source(gold))


def predicted_plan(predicted: Workflow) -> Plan:
    """Return the plan of a prediction, empty if it cannot be read. Tasks may have no edges."""
    if isinstance(predicted, NodeGraph):
        return plan_of(predicted)
    data = _bytes(predicted)
    for said in (data, data + b"\nEdge:"):
        try:
            return plan_of(load(said, "prediction"))._replace(source=_source(predicted))
        except InvalidError:
            continue
    return plan_of(NodeGraph())


def plan_of(graph: NodeGraph) -> Plan:
    """Return the plan of a workflow.

    Of two nodes with one id, edges lead to the first; those to nodes that are not there are left out.
    """
    nodes = [node for node in graph.nodes if node.type not in _MARKS]
    places: dict[str, int] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node.id, place)
    written = frozenset((edge.source, edge.target) for edge in graph.edges)
    return Plan(
        tuple(node.id for node in nodes),
        tuple(_text(node.type, node.params) for node in nodes),
        frozenset((places[a], places[b]) for a, b in written if a in places and b in places),
        frozenset(node.id for node in graph.nodes if node.type in _MARKS),
        written,
    )


def _text(kind: str, params: Any) -> str:
    said = cast("Mapping[str, Any]", params).get(TASK) if kind == TASK and isinstance(params, Mapping) else None
    return said if isinstance(said, str) else kind


def _source(workflow: Workflow) -> str:
    return "" if isinstance(workflow, NodeGraph) else _bytes(workflow).decode("utf-8", "replace")


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else text
