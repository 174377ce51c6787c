"""Plan of a workflow: its nodes as texts, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from operad.flows.node_graph import NodeGraph
from operad.integrations.worfbench.format import TASK, load
from operad.runtime.values.errors import InputError, InvalidError

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
