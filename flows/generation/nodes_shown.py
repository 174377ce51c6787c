"""Nodes of a workflow in prompts: in drafted form, whole, in short, or with long texts cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from operad.flows.catalogue import NodeType
from operad.flows.edit.operation import inside_of, node_of
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.drafting import drafted
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.variables import plain
from operad.runtime.values.text import cut, fence

EXCERPTS = 3_000
"""Maximum number of characters of the parameters of all nodes in a skeleton, up to 120 each."""


def whole(graph: NodeGraph, types: Mapping[str, NodeType], titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a line for each node of a workflow, with all its parameters in drafted form.

        print(whole(graph, NODE_TYPES))

    Args:
        graph: The workflow.
        types: Node types by name.
        titles: Titles that people gave to nodes, by id.
    """
    return skeleton(graph, types, None, titles)


def skeleton(
    graph: NodeGraph,
    types: Mapping[str, NodeType],
    most: int | None = 120,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a line for each node of a workflow: id, type, title, predecessors, and parameters in drafted form.

    Args:
        graph: The workflow.
        types: Node types by name.
        most: Maximum number of characters of the parameters of a node; a cut is marked. None for no limit.
        titles: Titles that people gave to nodes, by id.
    """
    most = None if most is None else min(most, EXCERPTS // max(len(graph.nodes), 1))
    predecessors: dict[str, list[str]] = {}
    branching = _branching(graph, types)
    for edge in graph.edges:
        source = f"{edge.source}:{edge.port}" if edge.source in branching else edge.source
        predecessors.setdefault(edge.target, []).append(source)
    return "\n".join(
        _line(node, predecessors.get(node.id, []), most, types, titles.get(node.id, "")) for node in graph.nodes
    )


def _branching(graph: NodeGraph, types: Mapping[str, NodeType]) -> set[str]:
    """Return the ids of the nodes with several ports, at least as far as edges leave them."""
    used = {edge.source for edge in graph.edges if edge.port}
    return used | {spec.id for spec in graph.nodes if (node := node_of(spec, types)) and len(node.ports) > 1}


def _line(
    node: NodeSpec, predecessors: Sequence[str], most: int | None, types: Mapping[str, NodeType], title: str
) -> str:
    """Return the line of a node in a skeleton."""
    shown_predecessors = f" after {', '.join(predecessors)}" if predecessors else ""
    inside = f" inside {node.parent}" if node.parent else ""
    params = compact(_drafted_params(node, types))
    shown = params if most is None or len(params) <= most else f"{params[:most]}[… cut]"
    shown_title = f" {compact(title)}" if title else ""
    return f"{node.id} {node.type}{shown_title}{inside}{shown_predecessors}: {shown}"


def _drafted_params(node: NodeSpec, types: Mapping[str, NodeType]) -> Any:
    """Return a node's parameters in drafted form; unchanged if its type is unknown."""
    params: Any = node.params
    return (
        drafted(types[node.type], fields_of(params)) if node.type in types and isinstance(params, Mapping) else params
    )


def nodes_now(graph: NodeGraph, ids: Iterable[str], types: Mapping[str, NodeType]) -> str:
    """Return the current parameters of nodes by id, in drafted form; empty if there are none."""
    params = {
        node_id: drafted(types[spec.type], fields_of(spec.params))
        for node_id in ids
        if (spec := graph.by_id.get(node_id)) is not None and spec.type in types
    }
    return fence(compact(params)) if params else ""


def concerned(
    graph: NodeGraph,
    ids: Iterable[str],
    most: int | None = None,
    types: Mapping[str, NodeType] = MappingProxyType({}),
) -> str:
    """Return nodes in drafted form as JSON, with the nodes inside them and their edges.

    Args:
        graph: The workflow.
        ids: The ids of the nodes.
        most: Maximum number of characters, for which long texts are cut shorter and shorter; None for no limit.
        types: Types by name of the nodes to show in drafted form.
    """
    wanted = {
        inner_id for node_id in ids for inner_id in (node_id, *inside_of(graph, node_id)) if inner_id in graph.by_id
    }
    if not wanted:
        return ""
    nodes = [
        {"id": spec.id, "type": spec.type, "inside": spec.parent, "params": _drafted_params(spec, types)}
        for spec in graph.nodes
        if spec.id in wanted
    ]
    branching = _branching(graph, types)
    edges = [
        f"{edge.source}{f':{edge.port}' if edge.source in branching else ''} -> {edge.target}"
        for edge in graph.edges
        if wanted.intersection((edge.source, edge.target))
    ]
    text = compact({"nodes": nodes, "edges": edges})
    if most is None:
        return fence(text)
    for longest in (1_600, 800, 400, 200, 100):
        if len(fence(text)) > most:
            text = compact({"nodes": _with_short_texts(plain(nodes), longest), "edges": edges})
    return fence(text if len(fence(text)) <= most else cut(text, max(most - _FENCE_CHARACTERS, 0)))


_FENCE_CHARACTERS = 60
"""Number of characters that the fences and the mark of a cut take."""


def _with_short_texts(value: Any, longest: int) -> Any:
    """Return a JSON value with every text cut to a length."""
    match value:
        case str():
            return cut(value, longest)
        case list():
            return [_with_short_texts(each, longest) for each in cast("list[Any]", value)]
        case dict():
            return {key: _with_short_texts(each, longest) for key, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def compact(value: Any) -> str:
    """Return a value as JSON without whitespace."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
