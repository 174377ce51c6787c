"""Variables that a node may read, and nodes that an edge may lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.check import CONVERSATION, Checker
from operad.flows.edit import Connect
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import FILE_PARTS, VariableType
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.drawn import title_of_node
from operad.server.studio.unfinished import outputs_of


def candidates(graph: NodeGraph, node_id: str) -> list[dict[str, Any]]:
    """Return the variables that may be read in a node: those of nodes before it, and of the containers around it.

    Raises:
        InputError: There is no such node.
    """
    _require(graph, node_id)
    checker = Checker(graph, NODE_TYPES)
    found = list(_inner(graph, checker, node_id))
    around = [node_id, *_around(graph, node_id)]
    for here in around:
        level = graph.by_id[here].parent
        before = [
            spec
            for spec in graph.nodes
            if spec.parent == level and spec.id != here and (checker.comes_before(spec.id, here) or _talks(spec, level))
        ]
        for spec in reversed(before):
            found += _variables(spec, outputs_of(checker, spec))
    return found


def _talks(spec: NodeSpec, level: str) -> bool:
    return spec.type == CONVERSATION and not level


def _inner(graph: NodeGraph, checker: Checker, node_id: str) -> Iterator[dict[str, Any]]:
    for holder in _around(graph, node_id):
        yield from _variables(graph.by_id[holder], checker.inner.get(holder, {}))


def _around(graph: NodeGraph, node_id: str) -> list[str]:
    around: list[str] = []
    while (node_id := graph.by_id[node_id].parent) in graph.by_id and node_id not in around:
        around.append(node_id)
    return around


def _variables(spec: NodeSpec, outputs: Mapping[str, VariableType]) -> Iterator[dict[str, Any]]:
    for name, kind in outputs.items():
        yield {
            "reference": f"{spec.id}.{name}",
            "node": spec.id,
            "title": title_of_node(spec),
            "name": name,
            "type": kind.value,
            "parts": list(FILE_PARTS) if kind is VariableType.FILE else [],
        }


def connectable(graph: NodeGraph, source: str, port: int) -> dict[str, str | None]:
    """Return for each other node why no edge can lead there from a port; None where one can.

    Raises:
        InputError: There is no such node.
    """
    _require(graph, source)
    checker = Checker(graph, NODE_TYPES)
    starts = {each.body_starts_with for each in NODE_TYPES.values()} | {"start"}
    reasons: dict[str, str | None] = {}
    for spec in graph.nodes:
        if spec.id == source:
            continue
        faults = list(Connect(source=source, target=spec.id, port=port).faults(graph, NODE_TYPES))
        if faults:
            reasons[spec.id] = faults[0].what
        elif spec.type in starts:
            reasons[spec.id] = f"{spec.id!r} begins what it belongs to; no edge leads to it"
        elif checker.comes_before(spec.id, source):
            reasons[spec.id] = f"{spec.id!r} leads to {source!r} already; this edge would close a cycle"
        else:
            reasons[spec.id] = None
    return reasons


def _require(graph: NodeGraph, node_id: str) -> None:
    if node_id not in graph.by_id:
        raise InputError(f"there is no node {node_id!r}{did_you_mean(node_id, graph.by_id)}")
