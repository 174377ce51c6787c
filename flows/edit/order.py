"""Order of nodes and edges in their lists: new nodes come after the nodes that they read; others keep their places."""

from __future__ import annotations

from dataclasses import replace

from operad.flows.edit.operation import Types, inside_of, reads
from operad.flows.node_graph import NodeGraph, NodeSpec


def in_order(before: NodeGraph, after: NodeGraph, types: Types) -> NodeGraph:
    """Return the workflow with new nodes in their places, and nodes that changed nodes read before these.

    Args:
        before: The workflow before the change.
        after: The changed workflow, with new nodes at the end of the list.
        types: Node types by name.
    """
    old = {id(spec): place for place, spec in enumerate(before.nodes)}
    touched = [spec for spec in after.nodes if id(spec) not in old]
    if not touched:
        return after
    by_id = {spec.id: place for place, spec in reversed(list(enumerate(before.nodes)))}
    kept = [spec for spec in after.nodes if spec.id in by_id]
    kept.sort(key=lambda spec: old.get(id(spec), by_id[spec.id]))  # a node that was removed and added again is last
    order = _Order(after, types, kept)
    new = [spec for spec in after.nodes if spec.id not in by_id]
    for spec in new:
        order.add(spec)
    ids = {spec.id for spec in new}
    reading = [spec for spec in kept if ids and ids & set(reads(after, spec, types))]
    for spec in sorted((*touched, *reading), key=order.place):
        order.bring_what_it_reads(spec)
    return replace(after, nodes=order.nodes)


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


class _Order:
    """List of nodes that is being put in order."""

    def __init__(self, graph: NodeGraph, types: Types, nodes: list[NodeSpec]) -> None:
        self.nodes = nodes
        self._graph = graph
        self._types = types
        self._moving: set[str] = set()

    def place(self, spec: NodeSpec) -> int:
        return next(number for number, node in enumerate(self.nodes) if node is spec)

    def add(self, spec: NodeSpec) -> None:
        """Insert a new node after the nodes that it reads, its predecessors and its container; else at the end."""
        containers = self._graph.around(spec.id)
        predecessors = set(containers) | {edge.source for edge in self._graph.edges if edge.target == spec.id}
        predecessors |= set(reads(self._graph, spec, self._types))
        predecessors_with_contents = predecessors | {
            inner for predecessor in predecessors - set(containers) for inner in inside_of(self._graph, predecessor)
        }
        places = [
            number
            for number, node in enumerate(self.nodes)
            if node.id in predecessors_with_contents and node.id != spec.id
        ]
        if predecessors <= set(containers) and spec.parent:  # only its container determines the place
            members = inside_of(self._graph, spec.parent)
            places += [number for number, node in enumerate(self.nodes) if node.id in members]
        self.nodes.insert(max(places, default=len(self.nodes) - 1) + 1, spec)

    def bring_what_it_reads(self, spec: NodeSpec) -> None:
        """Move nodes that a node reads before it, with the nodes inside them and the nodes that these read."""
        self._moving.add(spec.id)
        for node_id in reads(self._graph, spec, self._types):
            other = self._graph.by_id.get(node_id)
            if other is None or node_id in self._moving or self.place(other) < self.place(spec):
                continue
            inside = inside_of(self._graph, node_id)
            if spec.id in inside:
                continue
            block = [node for node in self.nodes if node is other or node.id in inside]
            node_and_containers = [self._graph.by_id[each] for each in [spec.id, *self._graph.around(spec.id)]]
            anchor = next((ancestor for ancestor in node_and_containers if ancestor.parent == other.parent), spec)
            self.nodes = [node for node in self.nodes if not any(node is moved for moved in block)]
            place = min(self.place(anchor), self.place(spec))
            self.nodes[place:place] = block
            for member in block:
                self.bring_what_it_reads(member)
        self._moving.discard(spec.id)
