"""Order of nodes and edges in their lists: new nodes come after the nodes that they read; others keep their places."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from operad.flows.edit.operation import Types, inside_of, reads
from operad.flows.node_graph import NodeGraph, NodeSpec


def in_order(before: NodeGraph, after: NodeGraph, types: Types) -> NodeGraph:
    """Return the workflow with new nodes in their places.

    Args:
        before: The workflow before the change.
        after: The changed workflow, with new nodes at the end of the list.
        types: Node types by name.
    """
    old = {spec.id: place for place, spec in reversed(list(enumerate(before.nodes)))}
    nodes = [spec for spec in after.nodes if spec.id in old]
    places = {id(spec): place for place, spec in enumerate(before.nodes)}
    nodes.sort(key=lambda spec: places.get(id(spec), old[spec.id]))  # one that was removed and added again is last
    new = [spec for spec in after.nodes if spec.id not in old]
    read = {spec.id: set(reads(after, spec, types)) for spec in after.nodes} if new else {}
    for spec in new:
        nodes.insert(_place(spec, nodes, after, read), spec)
    return replace(after, nodes=nodes) if nodes != after.nodes else after


def _place(new: NodeSpec, nodes: Sequence[NodeSpec], graph: NodeGraph, read: Mapping[str, Collection[str]]) -> int:
    """Return the place of a new node: after its predecessors, and before the nodes that read it, if both is possible."""
    containers = set(graph.around(new.id))

    def after(ids: Collection[str]) -> int:
        inside = {inner for each in set(ids) - containers for inner in inside_of(graph, each)}
        return max((number for number, node in enumerate(nodes, 1) if node.id in {*ids, *inside}), default=0)

    predecessors = {*containers, *read[new.id], *(edge.source for edge in graph.edges if edge.target == new.id)}
    if predecessors <= containers and new.parent:  # only its container determines the place
        predecessors |= inside_of(graph, new.parent)
    latest = after(predecessors - {new.id}) or len(nodes)
    readers = {spec.id for spec in nodes if new.id in read[spec.id] and spec.id not in containers}
    readers |= {outer for each in readers for outer in graph.around(each) if outer not in containers}
    first = next((number for number, node in enumerate(nodes) if node.id in readers), latest)
    return max(min(first, latest), after({*containers, *read[new.id]} - {new.id}))


def edges_in_order(before: NodeGraph, after: NodeGraph) -> NodeGraph:
    """Return the workflow with edges sorted by the place of their targets, if they were sorted so before the change."""

    def places(graph: NodeGraph) -> list[int]:
        place = {spec.id: number for number, spec in reversed(list(enumerate(graph.nodes)))}
        return [place.get(edge.target, len(place)) for edge in graph.edges]

    old_places, new_places = places(before), places(after)
    if old_places != sorted(old_places) or new_places == sorted(new_places):
        return after
    return replace(
        after, edges=[after.edges[number] for number in sorted(range(len(new_places)), key=new_places.__getitem__)]
    )
