"""Rules on containers: iterations, their start nodes, and edges across their borders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from operad.flows.edit.operation import free_id
from operad.flows.formats.chat2workflow import parent_of
from operad.flows.formats.shapes import is_selector, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.spelling import CONTAINERS, STARTS
from operad.flows.repair.state import Proposal, State, arrow, params_of, with_edges, without
from operad.flows.repair.walk import renamed
from operad.operators.variables import Selector
from operad.runtime.graph.schedule import reachable


def rename(graph: NodeGraph, names: dict[str, str]) -> NodeGraph:
    """Return the workflow with nodes renamed, from old to new ids.

    Edges, parents and parameters follow, and so do the ids of nodes inside a renamed node that begin with its id.
    """
    names = dict(names)
    to_visit = list(names)
    while to_visit:
        container = to_visit.pop()
        for node in graph.nodes:
            if node.parent == container and node.id not in names and node.id.startswith(f"{container}-"):
                names[node.id] = names[container] + node.id.removeprefix(container)
                to_visit.append(node.id)

    def rename_node(read: Selector) -> Selector:
        return Selector(read.variable, names.get(read.node, read.node))

    nodes = [
        replace(
            node,
            id=names.get(node.id, node.id),
            parent=names.get(node.parent, node.parent),
            params=renamed(node, rename_node),
        )
        for node in graph.nodes
    ]
    edges = [
        replace(edge, source=names.get(edge.source, edge.source), target=names.get(edge.target, edge.target))
        for edge in graph.edges
    ]
    return replace(graph, nodes=nodes, edges=edges)


def hyphens(state: State) -> Iterator[Proposal]:
    """Rename ids with a hyphen outside of iterations, and remove start nodes of iterations there."""
    graph = state.graph
    if not all(node.parent == parent_of(node.id) for node in graph.nodes):
        return  # in other formats, a hyphen in an id has no meaning
    for node in graph.nodes:
        container = graph.by_id.get(node.parent)
        if not node.parent or (container is not None and container.type in CONTAINERS):
            continue
        if node.type in STARTS:
            sources = [edge.source for edge in graph.edges if edge.target == node.id]
            targets = [edge.target for edge in graph.edges if edge.source == node.id]
            edges = [
                *without(graph, node.id).edges,
                *(Edge(source, target) for source in sources for target in targets if source != target),
            ]
            why = f"{node.parent!r} is not an iteration, and only an iteration has such a start"
            yield Proposal(node.id, "is left out", why, with_edges(without(graph, node.id), edges))
            continue
        name = node.id.replace("-", "_")
        if name in graph.by_id:
            name = free_id(graph.by_id)
        if parent_of(name):
            continue
        moved = rename(graph, {node.id: name})
        moved = replace(
            moved, nodes=[replace(other, parent="") if other.id == name else other for other in moved.nodes]
        )
        why = f"{node.parent!r} is not an iteration, and the hyphen says that it runs inside of one"
        yield Proposal(node.id, f"is called {name!r}", why, moved)


def bodies(state: State) -> Iterator[Proposal]:
    """Move the nodes that make the result of an empty iteration into the iteration."""
    graph = state.graph
    for node in graph.nodes:
        inside = [other for other in graph.nodes if other.parent == node.id]
        if node.type != "iteration" or any(inner.type not in STARTS for inner in inside):
            continue
        selector = params_of(node).get("output_selector")
        result_node = list_of(selector)[1] if is_selector(selector) else ""
        borders = {node.id, *(inner.id for inner in inside)}
        reached = _reached(((edge.source, edge.target) for edge in graph.edges), borders)
        orphans = [
            other.id
            for other in graph.nodes
            if other.parent and other.parent not in graph.by_id and other.id in reached
        ]
        if result_node in graph.by_id and graph.by_id[result_node].parent == node.parent and result_node in reached:
            backwards = ((edge.target, edge.source) for edge in graph.edges if edge.source != node.id)
            leading_to_result = _reached(backwards, {result_node})
            moved = [
                other.id
                for other in graph.nodes
                if other.id in reached & (leading_to_result | {result_node}) and other.parent == node.parent
            ]
        else:
            moved = orphans
        moved = [
            node_id for node_id in moved if node_id not in borders and graph.by_id[node_id].type not in ("start", "end")
        ]
        if moved:
            why = (
                "its result is made there"
                if moved is not orphans
                else "their ids say that they run inside one, and it has none"
            )
            yield Proposal(
                node.id, f"{', '.join(moved)}: inside of it", why, _moved_inside(graph, node, moved, bool(inside))
            )


def _reached(edges: Iterable[tuple[str, str]], first: set[str]) -> set[str]:
    """Return the nodes to which edges, given as source and target, lead from some nodes, without those nodes."""
    targets: dict[str, list[str]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    return reachable(first, lambda node_id: targets.get(node_id, ())) - first


def _moved_inside(graph: NodeGraph, iteration: NodeSpec, moved: Sequence[str], has_start: bool) -> NodeGraph:
    """Return the workflow with nodes moved into an iteration, and their edges redirected to it or to its start."""
    start = (
        f"{iteration.id}-1" if not has_start else next(node.id for node in graph.nodes if node.parent == iteration.id)
    )
    taken = {*graph.by_id, start}
    new_ids: dict[str, str] = {}
    for node_id in moved:
        new_ids[node_id] = free_id(taken, iteration.id)
        taken.add(new_ids[node_id])
    renamed = rename(graph, new_ids)
    moved_ids = set(new_ids.values())
    inner = [replace(node, parent=iteration.id) for node in renamed.nodes if node.id in moved_ids]
    others = [node for node in renamed.nodes if node.id not in moved_ids]
    if not has_start:
        index = next(number for number, other in enumerate(others) if other.id == iteration.id)
        others.insert(index + 1, NodeSpec(start, "iteration-start", {}, iteration.id))
    index = next(number for number, other in enumerate(others) if other.id == start)
    edges: list[Edge] = []
    for edge in renamed.edges:
        into, out = edge.target in moved_ids, edge.source in moved_ids
        if into and not out:
            edges.append(
                replace(edge, source=start, port=0)
                if edge.source in (iteration.id, start)
                else replace(edge, target=iteration.id)
            )
        elif out and not into:
            if edge.target not in (iteration.id, start):
                edges.append(replace(edge, source=iteration.id, port=0))
        else:
            edges.append(edge)
    return with_edges(replace(renamed, nodes=[*others[: index + 1], *inner, *others[index + 1 :]]), edges)


def borders(state: State) -> Iterator[Proposal]:
    """Redirect edges across the border of a container to the container, and add edges from its start inside."""
    graph = state.graph
    for edge in graph.edges:
        source, target = graph.by_id.get(edge.source), graph.by_id.get(edge.target)
        if source is None or target is None or source.parent == target.parent:
            continue
        other_edges = [other for other in graph.edges if other is not edge]
        if target.parent == source.id or source.parent == target.id:
            inner, container = (target, source) if target.parent == source.id else (source, target)
            what, replacement = "is left out", list[Edge]()
            if inner is target and inner.type not in STARTS:
                # the edge from outside is replaced by one from the start inside
                replacement = _from_start(graph, inner, other_edges)
                what = "leads from the start inside" if replacement else what
            yield Proposal(arrow(edge), what, f"what runs inside {container.id!r} begins and ends by itself",
                           with_edges(graph, [*other_edges, *replacement]))  # fmt: skip
            continue
        level = _common_container(graph, source, target)
        outer_nodes = [on_level(graph, end, level) for end in (source, target)]
        if None in outer_nodes or outer_nodes[0] is outer_nodes[1]:
            continue
        ends = cast("list[NodeSpec]", outer_nodes)
        moved = replace(edge, source=ends[0].id, target=ends[1].id, port=edge.port if ends[0] is source else 0)
        replacement = _from_start(graph, target, other_edges) if ends[1] is not target else []
        why = "edges from outside end, and edges to outside begin, at the container itself"
        yield Proposal(arrow(edge), f"is {arrow(moved)}", why, with_edges(graph, [*other_edges, moved, *replacement]))
        yield Proposal(arrow(edge), "is left out", why, with_edges(graph, [*other_edges, *replacement]))


def _from_start(graph: NodeGraph, inner: NodeSpec, edges: Sequence[Edge]) -> list[Edge]:
    """Return an edge from the start inside to a node that no edge inside leads to, as a list; else an empty list."""
    if inner.type in STARTS:
        return []
    inside = {node.id for node in graph.nodes if node.parent == inner.parent}
    if any(edge.target == inner.id and edge.source in inside for edge in edges):
        return []
    start = next((node.id for node in graph.nodes if node.parent == inner.parent and node.type in STARTS), "")
    return [Edge(start, inner.id)] if start else []


def _common_container(graph: NodeGraph, first: NodeSpec, second: NodeSpec) -> str:
    """Return the id of the innermost container around both nodes; empty if there is none."""
    around_first = [*graph.around(first.id), ""]
    around_second = {*graph.around(second.id), ""}
    return next(container for container in around_first if container in around_second)


def on_level(graph: NodeGraph, node: NodeSpec, level: str) -> NodeSpec | None:
    """Return the node itself, or the container around it, whose parent is a given node; None if there is none."""
    return next((graph.by_id[node_id] for node_id in (node.id, *graph.around(node.id))
                 if node_id in graph.by_id and graph.by_id[node_id].parent == level), None)  # fmt: skip
