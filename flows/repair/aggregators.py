"""Repair of aggregators that are written as named groups, as in Dify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.references import as_selector
from operad.flows.repair.state import Proposal, State, params_of, with_params
from operad.operators.variables import Selector, Text


def aggregator_groups(state: State) -> Iterator[Proposal]:
    """Rewrite an aggregator with named groups as one list, or as one aggregator for each group that nodes read."""
    for node in state.graph.nodes:
        if node.type == "variable-aggregator" and (groups := _groups(node, state.graph)):
            read = _read_groups(node, groups, state.graph)
            several = len(groups) > 1 and (set(read.values()) & groups.keys() or _has_long_group(groups))
            graph = (
                _as_aggregators(state.graph, node, groups, read) if several else _as_one_list(state.graph, node, groups)
            )
            what = "named groups are written as " + (f"{len(groups)} aggregators" if several else "one list")
            yield Proposal(node.id, what, "an aggregator has a list of variables, and one output", graph)


def _has_long_group(groups: Mapping[str, list[Selector]]) -> bool:
    """Return whether a group has several variables."""
    return any(len(each) > 1 for each in groups.values())


def _groups(node: NodeSpec, graph: NodeGraph) -> dict[str, list[Selector]]:
    """Return the variables by the name of their group; empty if there are no groups, or a variable names no node."""
    params = params_of(node)
    given = next((params[key] for key in ("variables", "groups", "group") if params.get(key)), None)
    groups: dict[str, list[Selector]] = {}
    has_groups = False
    for item in list_of(given):
        match item:
            case {"group_name": str() as name, "variables": [*inner]}:
                members = list_of(inner)
            case [str() as name, [[*_], *_] as inner]:
                members = cast("list[Any]", inner)
            case [str() as name, [_, _] as inner]:
                members = [cast("Any", inner)]
            case _:
                found = as_selector(item, graph)
                if not found:
                    return {}
                groups.setdefault("", []).append(found)
                continue
        selectors = [as_selector(member, graph) for member in members]
        if not all(selectors):
            return {}
        has_groups = True
        groups.setdefault(name, []).extend(selector for selector in selectors if selector)
    return groups if has_groups else {}


def _read_groups(node: NodeSpec, groups: Mapping[str, Any], graph: NodeGraph) -> dict[tuple[str, str], str]:
    """Return the group that each reader of the aggregator means, by the variable and by the reader's name for it."""
    read: dict[tuple[str, str], str] = {}
    for other in graph.nodes:
        for alias, variable in _reads_of_node(other.params, node.id):
            near = [
                *get_close_matches(variable, groups, n=1, cutoff=0.7),
                *get_close_matches(alias, groups, n=1, cutoff=0.7),
            ]
            meant = variable if variable in groups else alias if alias in groups else next(iter(near), "")
            read[alias, variable] = meant
    return read


def _reads_of_node(value: Any, node_id: str, alias: str = "") -> Iterator[tuple[str, str]]:
    """Yield each variable of a node that a value names, after the name that the value gives it, or an empty text."""
    match value:
        case [str() as variable, str() as node] if node == node_id:
            yield alias, variable
        case [str() as name, [*inner]]:
            yield from _reads_of_node(cast("Any", inner), node_id, name)
        case [*items]:
            for item in items:
                yield from _reads_of_node(item, node_id)
        case {**fields}:
            for item in cast("dict[str, Any]", fields).values():
                yield from _reads_of_node(item, node_id)
        case str():
            yield from (("", selector.variable) for selector in Text(value).selectors if selector.node == node_id)
        case _:
            pass


def _as_one_list(graph: NodeGraph, node: NodeSpec, groups: Mapping[str, list[Selector]]) -> NodeGraph:
    """Return the workflow with the variables of all groups in one list, and their readers redirected to the output."""
    members = [list(each) for each in dict.fromkeys(selector for group in groups.values() for selector in group)]
    flat = with_params(graph, node, {"variables": members})
    output = dict.fromkeys(_read_groups(node, groups, graph), "output")
    return _redirected(flat, node.id, {key: (value, node.id) for key, value in output.items()})


def _as_aggregators(
    graph: NodeGraph, node: NodeSpec, groups: Mapping[str, list[Selector]], read: Mapping[tuple[str, str], str]
) -> NodeGraph:
    """Return the workflow with an aggregator for each group, and each reader redirected to that of its group."""
    taken, ids = set(graph.by_id), dict[str, str]()
    for name in groups:
        ids[name] = node.id if not ids else free_id(taken, node.parent)
        taken.add(ids[name])
    aggregators = [
        replace(node, id=ids[name], params={"variables": [list(member) for member in dict.fromkeys(members)]})
        for name, members in groups.items()
    ]
    nodes = [new for other in graph.nodes for new in (aggregators if other is node else [other])]
    edges: list[Edge] = []
    for edge in graph.edges:
        edges.append(edge)
        if edge.target == node.id:
            edges += [replace(edge, target=aggregator.id) for aggregator in aggregators[1:]]
        elif edge.source == node.id:
            edges += [replace(edge, source=aggregator.id) for aggregator in aggregators[1:]]
    first = next(iter(groups))
    targets = {key: ("output", ids.get(meant, ids[first])) for key, meant in read.items()}
    return _redirected(replace(graph, nodes=nodes, edges=edges), node.id, targets)


def _redirected(graph: NodeGraph, node_id: str, targets: Mapping[tuple[str, str], tuple[str, str]]) -> NodeGraph:
    """Return the workflow with readers of a node redirected, by the reader's name and the variable that it reads."""

    def redirect(value: Any, alias: str = "") -> Any:
        match value:
            case [str() as variable, str() as node] if node == node_id:
                return list(targets.get((alias, variable), (variable, node)))
            case [str() as name, [*inner]]:
                return [name, redirect(cast("Any", inner), name)]
            case [*items]:
                return [redirect(item) for item in items]
            case {**fields}:
                return {key: redirect(item) for key, item in cast("dict[str, Any]", fields).items()}
            case str() if f"{node_id}" in value:
                text = Text(value)
                if not any(selector.node == node_id for selector in text.selectors):
                    return value
                return text.renamed(lambda selector: _redirected_reference(selector, node_id, targets))
            case _:
                return value

    return replace(graph, nodes=[replace(other, params=redirect(other.params)) for other in graph.nodes])


def _redirected_reference(selector: Selector, node_id: str, targets: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    """Return a reference in a text, redirected if it reads a node."""
    return (
        Selector(*targets.get(("", selector.variable), selector)).in_text
        if selector.node == node_id
        else selector.in_text
    )


def free_id(taken: set[str], parent: str = "") -> str:
    """Return the lowest number that is not a taken id, as an id; inside a container, after its id and a hyphen."""
    number = 1
    while (name := f"{parent}-{number}" if parent else str(number)) in taken:
        number += 1
    return name
