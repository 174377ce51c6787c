"""Rules on containers: iterations, their starts, and edges across their borders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from operad.flows.formats.chat2workflow import parent_of
from operad.flows.formats.shapes import is_selector, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.aggregators import free_id
from operad.flows.repair.names import STARTS
from operad.flows.repair.spelling import CONTAINERS, around
from operad.flows.repair.state import Proposal, State, arrow, params_of, with_edges, without
from operad.flows.repair.walk import ids_renamed

_START_OF = {"iteration": "iteration-start", "loop": "loop-start"}


def rename(graph: NodeGraph, names: dict[str, str]) -> NodeGraph:
    """The workflow with other ids, in whatever names them, and in the ids of what runs inside, where these begin so."""
    names = dict(names)
    open_ = list(names)
    while open_:
        holder = open_.pop()
        for node in graph.nodes:
            if node.parent == holder and node.id not in names and node.id.startswith(f"{holder}-"):
                names[node.id] = names[holder] + node.id.removeprefix(holder)
                open_.append(node.id)
    params = ids_renamed(graph.nodes, names)
    nodes = [
        replace(node, id=names.get(node.id, node.id), parent=names.get(node.parent, node.parent), params=params[number])
        for number, node in enumerate(graph.nodes)
    ]
    edges = [
        replace(edge, source=names.get(edge.source, edge.source), target=names.get(edge.target, edge.target))
        for edge in graph.edges
    ]
    return replace(graph, nodes=nodes, edges=edges)


def hyphens(state: State) -> Iterator[Proposal]:
    """Ids with a hyphen outside of iterations: ids without; starts of iterations there are left out."""
    graph = state.graph
    if not all(node.parent == parent_of(node.id) for node in graph.nodes):
        return  # of a format whose ids say nothing
    for node in graph.nodes:
        holder = graph.by_id.get(node.parent)
        if not node.parent or (holder is not None and holder.type in CONTAINERS):
            continue
        if node.type in STARTS:
            into = [edge.source for edge in graph.edges if edge.target == node.id]
            onward = [edge.target for edge in graph.edges if edge.source == node.id]
            edges = [*without(graph, node.id).edges, *(Edge(one, two) for one in into for two in onward if one != two)]
            why = f"{node.parent!r} is not an iteration, and only an iteration has such a start"
            yield Proposal(node.id, "is left out", why, with_edges(without(graph, node.id), edges))
            continue
        name = node.id.replace("-", "_")
        if name in graph.by_id:
            name = free_id(set(graph.by_id))
        if parent_of(name):
            continue
        moved = rename(graph, {node.id: name})
        moved = replace(moved, nodes=[replace(each, parent="") if each.id == name else each for each in moved.nodes])
        why = f"{node.parent!r} is not an iteration, and the hyphen says that it runs inside of one"
        yield Proposal(node.id, f"is called {name!r}", why, moved)


def bodies(state: State) -> Iterator[Proposal]:
    """Iterations with nothing inside, whose result is that of a node outside: the nodes on the way to it run inside."""
    graph = state.graph
    for node in graph.nodes:
        inside = [each for each in graph.nodes if each.parent == node.id]
        if node.type != "iteration" or any(each.type not in STARTS for each in inside):
            continue
        result = next(iter(kept_inside(replace(graph, nodes=[node]))), "")
        doors = {node.id, *(each.id for each in inside)}
        after = _following(graph, doors, lambda edge: (edge.source, edge.target))
        orphans = [
            each.id for each in graph.nodes if each.parent and each.parent not in graph.by_id and each.id in after
        ]
        if result in graph.by_id and graph.by_id[result].parent == node.parent and result in after:
            before = _following(graph, {result}, lambda edge: (edge.target, edge.source), stop=node.id)
            moved = [
                each.id for each in graph.nodes if each.id in after & (before | {result}) and each.parent == node.parent
            ]
        else:
            moved = orphans
        moved = [each for each in moved if each not in doors and graph.by_id[each].type not in ("start", "end")]
        if moved:
            why = (
                "its result is made there"
                if moved is not orphans
                else "their ids say that they run inside one, and it has none"
            )
            yield Proposal(
                node.id, f"{', '.join(moved)}: inside of it", why, _moved_inside(graph, node, moved, bool(inside))
            )


def _following(graph: NodeGraph, first: set[str], way: Callable[[Edge], tuple[str, str]], stop: str = "") -> set[str]:
    found, open_ = set[str](), list(first)
    while open_:
        here = open_.pop()
        for edge in graph.edges:
            one, other = way(edge)
            if one == here and other not in found and other != stop and other not in first:
                found.add(other)
                open_.append(other)
    return found


def _moved_inside(graph: NodeGraph, holder: NodeSpec, moved: Sequence[str], has_start: bool) -> NodeGraph:
    start = f"{holder.id}-1" if not has_start else next(each.id for each in graph.nodes if each.parent == holder.id)
    taken = {*graph.by_id, start}
    names: dict[str, str] = {}
    for each in moved:
        names[each] = free_id(taken, holder.id)
        taken.add(names[each])
    made = rename(graph, names)
    mine = set(names.values())
    inner = [replace(each, parent=holder.id) for each in made.nodes if each.id in mine]
    rest = [each for each in made.nodes if each.id not in mine]
    if not has_start:
        place = next(number for number, each in enumerate(rest) if each.id == holder.id)
        rest.insert(place + 1, NodeSpec(start, "iteration-start", {}, holder.id))
    place = next(number for number, each in enumerate(rest) if each.id == start)
    edges: list[Edge] = []
    for edge in made.edges:
        into, out = edge.target in mine, edge.source in mine
        if into and not out:
            edges.append(
                replace(edge, source=start, port=0)
                if edge.source in (holder.id, start)
                else replace(edge, target=holder.id)
            )
        elif out and not into:
            if edge.target not in (holder.id, start):
                edges.append(replace(edge, source=holder.id, port=0))
        else:
            edges.append(edge)
    return with_edges(replace(made, nodes=[*rest[: place + 1], *inner, *rest[place + 1 :]]), edges)


def missing_starts(state: State) -> Iterator[Proposal]:
    """Containers with nodes inside and no start: one before what nothing inside leads to."""
    graph = state.graph
    for node in graph.nodes:
        wanted = _START_OF.get(node.type)
        inside = [each for each in graph.nodes if each.parent == node.id]
        if not wanted or not inside or any(each.type == wanted for each in inside):
            continue
        names: dict[str, str] = {}
        first = f"{node.id}-1"
        if first in graph.by_id:
            taken = {*graph.by_id}
            names = {first: free_id(taken, node.id)}
        moved = rename(graph, names)
        inside_ids = {names.get(each.id, each.id) for each in inside}
        led_to = {edge.target for edge in moved.edges if edge.source in inside_ids}
        heads = [each for each in inside_ids if each not in led_to] or sorted(inside_ids)[:1]
        place = next(number for number, each in enumerate(moved.nodes) if each.parent == node.id)
        start = NodeSpec(first, wanted, {}, node.id)
        nodes = [*moved.nodes[:place], start, *moved.nodes[place:]]
        edges = [*moved.edges, *(Edge(first, head) for head in sorted(heads))]
        what = f"{first!r} of type {wanted!r} is added" + (f"; {first!r} is now {names[first]!r}" if names else "")
        why = "what runs inside begins with one"
        yield Proposal(node.id, what, why, with_edges(replace(moved, nodes=nodes), edges))


def borders(state: State) -> Iterator[Proposal]:
    """Edges across the border of a container: to and from the container itself, and from its start inside."""
    graph = state.graph
    for edge in graph.edges:
        source, target = graph.by_id.get(edge.source), graph.by_id.get(edge.target)
        if source is None or target is None or source.parent == target.parent:
            continue
        rest = [each for each in graph.edges if each is not edge]
        if target.parent == source.id or source.parent == target.id:
            inner, holder = (target, source) if target.parent == source.id else (source, target)
            what, more = "is left out", list[Edge]()
            if inner is target and inner.type not in STARTS:  # in place of the edge from the start
                more = _from_start(graph, inner, rest)
                what = "leads from the start inside" if more else what
            yield Proposal(arrow(edge), what, f"what runs inside {holder.id!r} begins and ends by itself",
                           with_edges(graph, [*rest, *more]))  # fmt: skip
            continue
        level = _common(graph, source, target)
        outer = [on_level(graph, each, level) for each in (source, target)]
        if None in outer or outer[0] is outer[1]:
            continue
        ends = cast("list[NodeSpec]", outer)
        moved = replace(edge, source=ends[0].id, target=ends[1].id, port=edge.port if ends[0] is source else 0)
        more = _from_start(graph, target, rest) if ends[1] is not target else []
        why = "edges from outside end, and edges to outside begin, at the container itself"
        yield Proposal(arrow(edge), f"is {arrow(moved)}", why, with_edges(graph, [*rest, moved, *more]))
        yield Proposal(arrow(edge), "is left out", why, with_edges(graph, [*rest, *more]))


def _from_start(graph: NodeGraph, inner: NodeSpec, edges: Sequence[Edge]) -> list[Edge]:
    """An edge from the start inside to a node that nothing else inside leads to."""
    if inner.type in STARTS:
        return []
    inside = {node.id for node in graph.nodes if node.parent == inner.parent}
    if any(edge.target == inner.id and edge.source in inside for edge in edges):
        return []
    start = next((node.id for node in graph.nodes if node.parent == inner.parent and node.type in STARTS), "")
    return [Edge(start, inner.id)] if start else []


def _common(graph: NodeGraph, one: NodeSpec, other: NodeSpec) -> str:
    mine = [*around(graph, one.id), ""]
    theirs = {*around(graph, other.id), ""}
    return next(each for each in mine if each in theirs)


def on_level(graph: NodeGraph, node: NodeSpec, level: str) -> NodeSpec | None:
    """The node itself, or the one around it, that runs inside of another; None where there is none."""
    return next((graph.by_id[each] for each in (node.id, *around(graph, node.id))
                 if each in graph.by_id and graph.by_id[each].parent == level), None)  # fmt: skip


def kept_inside(graph: NodeGraph) -> set[str]:
    """The nodes inside iterations that their results are of."""
    results = [params_of(node).get("output_selector") for node in graph.nodes if node.type == "iteration"]
    return {list_of(each)[1] for each in results if is_selector(each)}
