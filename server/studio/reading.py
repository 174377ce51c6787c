"""Variables that a node may read, and nodes that an edge may lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.check import CONVERSATION, Checker
from operad.flows.edit import Connect
from operad.flows.node_graph import NodeGraph, NodeSpec, names_of
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import FILE_PARTS, VariableType
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.unfinished import outputs_of


def candidates(graph: NodeGraph, node_id: str) -> list[dict[str, Any]]:
    """Return the variables that a node may read: those of nodes before it, of the containers around it, and inside it.

    Raises:
        InputError: The node does not exist.
    """
    _check_exists(graph, node_id)
    checker, names = Checker(graph, NODE_TYPES), names_of(graph)
    found = [
        row
        for container in graph.around(node_id)
        for row in _variable_rows(graph.by_id[container], checker.inner.get(container, {}), names)
    ]
    levels = [node_id, *graph.around(node_id)]
    for inner_id in levels:
        parent = graph.by_id[inner_id].parent
        before = [
            spec
            for spec in graph.nodes
            if spec.parent == parent
            and spec.id != inner_id
            and (checker.comes_before(spec.id, inner_id) or (spec.type == CONVERSATION and not parent))
        ]
        for spec in reversed(before):
            found += _variable_rows(spec, outputs_of(checker, spec), names)
    return [*found, *_variables_inside(graph, checker, node_id, names)]


def _variables_inside(
    graph: NodeGraph, checker: Checker, node_id: str, names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the variables of a container that its results and conditions may name: its own, and of nodes inside."""
    yield from _variable_rows(graph.by_id[node_id], checker.inner.get(node_id, {}), names)
    for spec in graph.nodes:
        if spec.parent == node_id:
            yield from _variable_rows(spec, outputs_of(checker, spec), names)


def _variable_rows(
    spec: NodeSpec, outputs: Mapping[str, VariableType], names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for name, kind in outputs.items():
        yield {
            "reference": f"{spec.id}.{name}",
            "node": spec.id,
            "title": names[spec.id],
            "name": name,
            "type": kind.value,
            "parts": list(FILE_PARTS) if kind is VariableType.FILE else [],
        }


def connectable(graph: NodeGraph, source: str, port: int) -> dict[str, str | None]:
    """Return for each other node the reason why an edge from the port cannot lead to it; None if it can.

    Raises:
        InputError: The node does not exist.
    """
    _check_exists(graph, source)
    checker = Checker(graph, NODE_TYPES)
    starts = {node_type.body_starts_with for node_type in NODE_TYPES.values()} | {"start"}
    reasons: dict[str, str | None] = {}
    for spec in graph.nodes:
        if spec.id == source:
            continue
        faults = list(Connect(source=source, target=spec.id, port=port).faults(graph, NODE_TYPES))
        if faults:
            reasons[spec.id] = faults[0].what
        elif spec.type in starts:
            reasons[spec.id] = f"{spec.id!r} is the start; no edge leads to it"
        elif checker.comes_before(spec.id, source):
            reasons[spec.id] = f"{spec.id!r} leads to {source!r} already; this edge would close a cycle"
        else:
            reasons[spec.id] = None
    return reasons


def _check_exists(graph: NodeGraph, node_id: str) -> None:
    if node_id not in graph.by_id:
        raise InputError(f"there is no node {node_id!r}{did_you_mean(node_id, graph.by_id)}")
