"""Rules on edges: missing edges, ports, cycles, and the order of the list of nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.containers import on_level, rename
from operad.flows.repair.spelling import STARTS
from operad.flows.repair.state import Proposal, State, arrow, params_of, with_edges, without
from operad.flows.repair.walk import selectors_of


def one_start(state: State) -> Iterator[Proposal]:
    """Join several start nodes into one with the inputs of all."""
    starts = [node for node in state.graph.nodes if node.type == "start" and not node.parent and params_of(node)]
    if len(starts) < 2:
        return
    first, *others = starts
    variables: dict[str, Any] = {}
    for node in starts:
        for item in filter(None, map(list_of, list_of(params_of(node).get("variables")))):
            variables.setdefault(str(item[0]), item)
    new_ids = {node.id: first.id for node in others}
    joined = replace(first, params={**first.params, "variables": list(variables.values())})
    kept = [joined if node is first else node for node in state.graph.nodes if node not in others]
    renamed = rename(replace(state.graph, nodes=kept), new_ids)
    edges = [edge for edge in renamed.edges if edge.target != first.id]
    what = f"{', '.join(node.id for node in others)}: taken together with it"
    yield Proposal(first.id, what, "a workflow begins once", with_edges(renamed, edges))


def ports(state: State) -> Iterator[Proposal]:
    """Correct a port that a node does not have, if only one port is possible."""
    for edge in state.graph.edges:
        node = state.checker.nodes.get(edge.source)
        if node is None:
            continue
        count = len(node.ports) or 1
        if 0 <= edge.port < count:
            continue
        used = {other.port for other in state.graph.edges if other.source == edge.source}
        free = [port for port in range(count) if port not in used]
        invalid = {port for port in used if not 0 <= port < count}
        if count > 1 and not (len(free) == 1 and len(invalid) == 1):
            continue
        port = free[0] if count > 1 else 0
        edges = [replace(other, port=port) if other == edge else other for other in state.graph.edges]
        why = "it is the only port" if count == 1 else "it is the only port that no edge leaves from"
        yield Proposal(arrow(edge), f"port {edge.port} is {port}", why, with_edges(state.graph, edges))


def cycles(state: State) -> Iterator[Proposal]:
    """Remove an edge that closes a cycle and that no reference needs."""
    for issue in state.issues:
        if issue.code != "cycle" or " → " not in issue.message:
            continue
        cycle = issue.message.rpartition(": ")[2].split(" → ")
        reads = reads_of(state.graph)
        for edge in reversed(state.graph.edges):
            is_in_cycle = any(
                edge.source == first and edge.target == second for first, second in itertools.pairwise(cycle)
            )
            if is_in_cycle and edge.source not in reads.get(edge.target, ()):
                other_edges = [other for other in state.graph.edges if other is not edge]
                why = "it closes a cycle, and its target reads nothing of its source"
                yield Proposal(arrow(edge), "is left out", why, replace(state.graph, edges=other_edges))


def reads_of(graph: NodeGraph) -> dict[str, list[str]]:
    """Return the ids of the other nodes that each node names in its parameters, even if these are not valid."""
    named = {node.id: dict.fromkeys(selector.node for selector in selectors_of(node)) for node in graph.nodes}
    return {reader: [each for each in read if each in graph.by_id and each != reader] for reader, read in named.items()}


def unconnected(state: State) -> Iterator[Proposal]:
    """Connect unreachable nodes to the nodes that they read, or to the start if a node reads them."""
    graph = state.graph
    unreachable = [issue.where for issue in state.issues if issue.code in ("isolated", "unreachable")]
    reads = reads_of(graph)
    read = {other for others in reads.values() for other in others}
    for node_id in dict.fromkeys(unreachable):
        node = graph.by_id.get(node_id)
        if node is None or any(edge.target == node_id for edge in graph.edges if edge.source in graph.by_id):
            continue
        sources = _on_same_level(graph, node, reads[node_id])
        sources = [source for source in sources if not state.checker.comes_before(node_id, source)]
        has_outgoing = any(edge.source == node_id for edge in graph.edges)
        if not sources and (has_outgoing or node_id in read or node.type == "end"):
            sources = [
                each.id for each in graph.nodes if each.parent == node.parent and each.type in ("start", *STARTS)
            ][:1]
        if sources:
            direct_sources = [
                source for source in sources if not any(state.checker.comes_before(source, other) for other in sources)
            ]
            added = [Edge(source, node_id, port=_free_port(state, source)) for source in direct_sources or sources]
            what = "; ".join(arrow(edge) for edge in added) + (" is added" if len(added) == 1 else " are added")
            yield Proposal(node_id, what, "it reads them" if reads[node_id] else "others read it",
                           with_edges(graph, [*graph.edges, *added]))  # fmt: skip


def unread_isolated(state: State) -> Iterator[Proposal]:
    """Remove isolated nodes that no node reads and that could not be connected."""
    read = {other for others in reads_of(state.graph).values() for other in others}
    for issue in state.issues:
        node = state.graph.by_id.get(issue.where)
        if issue.code == "isolated" and node is not None and node.id not in read and node.type not in ("start", "end"):
            yield Proposal(node.id, "is left out", "no edge leads to it or from it, and nothing reads it",
                           without(state.graph, node.id))  # fmt: skip


def _on_same_level(graph: NodeGraph, node: NodeSpec, others: Sequence[str]) -> list[str]:
    """Return other nodes, or the containers around them, that run in the same container as a node."""
    found: list[str] = []
    for node_id in others:
        visible = on_level(graph, graph.by_id[node_id], node.parent)
        if visible is not None and visible.id != node.id and visible.id not in found:
            found.append(visible.id)
    return found


def _free_port(state: State, source: str) -> int:
    """Return the port of a new edge: the first without an edge, so that branches stay distinct."""
    node = state.checker.nodes.get(source)
    if node is None or not node.ports:
        return 0
    used = {edge.port for edge in state.graph.edges if edge.source == source}
    return next((port for port in range(len(node.ports)) if port not in used), 0)


def late_reads(state: State) -> Iterator[Proposal]:
    """Add the missing edge from a node that is read to its reader, or to a branching node before the reader."""
    graph, checker = state.graph, state.checker
    for node in graph.nodes:
        reader = state.known(node)
        if reader is None:
            continue
        for other in dict.fromkeys(reference.selector.node for reference in reader.references):
            if other not in graph.by_id or other == node.id or other in graph.around(node.id):
                continue
            source = on_level(graph, graph.by_id[other], graph.by_id[node.id].parent)
            target = node
            if source is None:  # the node that is read is further out: the container around the reader waits for it
                level = graph.by_id[other].parent
                source, outer = graph.by_id[other], on_level(graph, node, level)
                if outer is None:
                    continue
                target = outer
            if source.id == target.id or checker.comes_before(source.id, target.id) or source.type in STARTS:
                continue
            port = _free_port(state, source.id)
            branching = [
                each for each in graph.nodes
                if each.parent == target.parent and each.id != source.id and checker.comes_before(each.id, target.id)
                and (operator := checker.nodes.get(each.id)) and operator.ports and not checker.comes_before(each.id, source.id)
            ]  # fmt: skip
            for each in [*sorted(branching, key=lambda each: checker.count_before(each.id)), target]:
                if checker.comes_before(each.id, source.id):
                    continue
                edge = Edge(source.id, each.id, port)
                why = f"{node.id!r} reads {other!r}"
                yield Proposal(arrow(edge), "is added", why, with_edges(graph, [*graph.edges, edge]))


def order(state: State) -> Iterator[Proposal]:
    """Sort the list such that each node comes after the nodes that it reads, with as few changes as possible."""
    graph = state.graph
    if not any(issue.code == "order" for issue in state.issues):
        return
    place = {node.id: number for number, node in enumerate(graph.nodes)}
    if len(place) < len(graph.nodes):
        return
    nodes_read = _nodes_read(graph)
    for node in graph.nodes:  # a container comes after what it reads and before the nodes inside it
        if node.parent in graph.by_id:
            nodes_read[node.id].add(node.parent)
    for edges in (graph.edges, ()):  # in the direction of the edges, too, unless that is impossible
        wanted = {node_id: set(others) for node_id, others in nodes_read.items()}
        for edge in edges:
            source, target = graph.by_id.get(edge.source), graph.by_id.get(edge.target)
            if source and target and source.parent == target.parent:
                wanted[target.id].add(source.id)
        ordered = _topological_order(wanted, place)
        if ordered:
            nodes = [graph.by_id[each] for each in ordered]
            yield Proposal("nodes_info", "each node stands after those that it reads", "it is read in that order",
                           replace(graph, nodes=nodes))  # fmt: skip


def _nodes_read(graph: NodeGraph) -> dict[str, set[str]]:
    """Return the nodes that each node reads, except its containers and the nodes inside it."""
    reads = reads_of(graph)
    return {
        node.id: {
            node_id
            for node_id in reads[node.id]
            if node_id not in graph.around(node.id) and node.id not in graph.around(node_id)
        }
        for node in graph.nodes
    }


def _topological_order(before: dict[str, set[str]], place: dict[str, int]) -> list[str]:
    """Return the ids in topological order, otherwise by their place in the list; empty if there is a cycle."""
    import networkx as nx  # not at import: few repairs need it

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(before)
    graph.add_edges_from((source, target) for target, sources in before.items() for source in sources)
    try:
        return list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))
    except nx.NetworkXUnfeasible:
        return []
