"""Nodes of a workflow as models are shown them: in drafted form, whole, in short, or with long texts cut and marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from operad.flows.catalogue import NodeType
from operad.flows.edit.operation import inside_of
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.drafting import drafted
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.variables import plain
from operad.runtime.reasoning.prompt import cut, fence

EXCERPTS = 3_000
"""Characters that all nodes of a skeleton together show of their parameters, up to 120 each."""


def whole(graph: NodeGraph, types: Mapping[str, NodeType], titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Describe the nodes of a workflow, a line each, with all their parameters in drafted form.

        print(whole(graph, NODE_TYPES))

    Args:
        graph: The workflow.
        types: The node types by name.
        titles: The titles of nodes that people gave them, by id.
    """
    return skeleton(graph, types, None, titles)


def skeleton(
    graph: NodeGraph,
    types: Mapping[str, NodeType],
    most: int | None = 120,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The nodes that are there, a line each: id, type, title, what it follows, and its parameters in drafted form.

    Args:
        graph: The workflow.
        types: The node types by name.
        most: Characters of the parameters of each node; what is cut is marked. None for all.
        titles: The titles of nodes that people gave them, by id.
    """
    most = None if most is None else min(most, EXCERPTS // max(len(graph.nodes), 1))
    before: dict[str, list[str]] = {}
    for edge in graph.edges:
        before.setdefault(edge.target, []).append(_from(edge))
    return "\n".join(_line(node, before.get(node.id, []), most, types, titles.get(node.id, "")) for node in graph.nodes)


def _from(edge: Edge) -> str:
    return f"{edge.source}:{edge.port}" if edge.port else edge.source


def _line(node: NodeSpec, before: Sequence[str], most: int | None, types: Mapping[str, NodeType], title: str) -> str:
    after = f" after {', '.join(before)}" if before else ""
    inside = f" inside {node.parent}" if node.parent else ""
    params = compact(_drafted(node, types))
    shown = params if most is None or len(params) <= most else f"{params[:most]}[… cut]"
    called = f" {compact(title)}" if title else ""
    return f"{node.id} {node.type}{called}{inside}{after}: {shown}"


def _drafted(node: NodeSpec, types: Mapping[str, NodeType]) -> Any:
    params: Any = node.params
    return drafted(types[node.type], fields_of(params)) if node.type in types and _is_object(params) else params


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def nodes_now(graph: NodeGraph, ids: Iterable[str], types: Mapping[str, NodeType]) -> str:
    """The parameters that some nodes have, in the form in which they are drafted."""
    params = {
        each: drafted(types[spec.type], fields_of(spec.params))
        for each in ids
        if (spec := graph.by_id.get(each)) is not None and spec.type in types
    }
    return fence(compact(params)) if params else ""


def concerned(
    graph: NodeGraph,
    ids: Iterable[str],
    most: int | None = None,
    types: Mapping[str, NodeType] = MappingProxyType({}),
) -> str:
    """Some nodes as they are written, with those inside them and their edges.

    Args:
        graph: The workflow.
        ids: The ids of the nodes.
        most: Characters that it may take; to keep to it, long texts are cut, the more the less room there is.
        types: The node types by name, of those that are shown in drafted form.
    """
    wanted = {each for one in ids for each in (one, *inside_of(graph, one)) if each in graph.by_id}
    if not wanted:
        return ""
    nodes = [
        {"id": spec.id, "type": spec.type, "inside": spec.parent, "params": _drafted(spec, types)}
        for spec in graph.nodes
        if spec.id in wanted
    ]
    edges = [
        f"{_from(edge)} -> {edge.target}" for edge in graph.edges if wanted.intersection((edge.source, edge.target))
    ]
    text = compact({"nodes": nodes, "edges": edges})
    if most is None:
        return fence(text)
    for longest in (1_600, 800, 400, 200, 100):
        if len(fence(text)) > most:
            text = compact({"nodes": _with_short_texts(plain(nodes), longest), "edges": edges})
    return fence(text if len(fence(text)) <= most else cut(text, max(most - _AROUND, 0)))


_AROUND = 60
"""Characters that the fences take and the mark of a text that is cut."""


def _with_short_texts(value: Any, longest: int) -> Any:
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
    """A value as JSON without blanks."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
