"""Parts of a draft: one of its changes is taken over into the file, or taken back."""

from __future__ import annotations

from dataclasses import replace

from operad.flows.node_graph import Edge, NodeGraph


def with_node_of(graph: NodeGraph, other: NodeGraph, node: str) -> NodeGraph:
    """Return a workflow in which a node, all that is inside it, and its edges are as in another workflow.

    Containers that it needs come with it. Edges between its neighbours are those of the other workflow, too: one that
    the node was put into, or that closes the gap that it leaves. Edges to nodes that are missing are left out.
    """
    inside = {each.id for one in (graph, other) for each in one.nodes if node in (each.id, *one.around(each.id))}
    inside |= {each for each in other.around(node) if each not in graph.by_id}
    nodes = [other.by_id.get(each.id) if each.id in inside else each for each in graph.nodes]
    nodes += [each for each in other.nodes if each.id in inside and each.id not in graph.by_id]
    kept = [each for each in nodes if each is not None]
    ids = {each.id for each in kept}
    around = {
        end
        for edge in (*graph.edges, *other.edges)
        if inside & {edge.source, edge.target}
        for end in (edge.source, edge.target)
    }
    edges = [each for each in graph.edges if not {each.source, each.target} <= around]
    edges += [each for each in other.edges if {each.source, each.target} <= around & ids]
    return replace(graph, nodes=kept, edges=edges)


def with_edge_of(graph: NodeGraph, other: NodeGraph, source: str, port: int, target: str) -> NodeGraph:
    """Return a workflow that has an edge if another workflow has it and both of its nodes are there."""

    def is_it(edge: Edge) -> bool:
        return (edge.source, edge.port, edge.target) == (source, port, target)

    edges = [each for each in graph.edges if not is_it(each)]
    if {source, target} <= set(graph.by_id):
        edges += [each for each in other.edges if is_it(each)]
    return replace(graph, edges=edges)
