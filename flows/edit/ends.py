"""Operations on the ends of a workflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from operad.flows.edit.operation import (
    NewId,
    NodeId,
    Operation,
    Types,
    before,
    free_id,
    taken,
    undefined,
)
from operad.flows.edit.variables import named_outputs, outputs_of, with_outputs
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.node import Fault
from operad.runtime.values.errors import shorten


def _no_end(graph: NodeGraph, where: str, node_id: str) -> Iterator[Fault]:
    missing = list(undefined(graph, where, node_id))
    yield from missing
    if not missing and (kind := graph.by_id[node_id].type) != "end":
        ends = shorten([spec.id for spec in graph.nodes if spec.type == "end"]) or "none"
        yield Fault(where, f"{node_id!r} is of type {kind!r}, and no end; ends are: {ends}", "no-end")


class SplitEnd(Operation):
    """Gives some of the nodes that lead to an end an end of their own.

    Each of the two ends has those outputs whose nodes come before it; an output of which that holds for neither stays
    where it is.
    """

    op: Literal["split_end"] = "split_end"
    node: NodeId = Field(description="The end.")
    id: NewId
    sources: list[str] = Field(min_length=1, description="The nodes that are to lead to the new end, and not to it.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: no such end, a taken id, sources without an edge to the end, or no source left for the end."""
        end_faults = list(_no_end(graph, "node", self.node))
        yield from end_faults
        yield from taken(graph, self.id, "end")
        if end_faults:
            return
        sources = list(dict.fromkeys(edge.source for edge in graph.edges if edge.target == self.node))
        shown_sources = shorten(sources) or "none"
        for source in self.sources:
            if source not in sources:
                what = f"no edge leads from {source!r} to {self.node!r}; these nodes lead to it: {shown_sources}"
                yield Fault("sources", what, "no-edge")
        if sources and not set(sources) - set(self.sources):
            what = f"nothing would lead to {self.node!r} any more; leave one of these out: {shown_sources}"
            yield Fault("sources", what, "no-edge")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new end as the last node."""
        end = graph.by_id[self.node]
        graph = self.apply_if_faulty(graph)
        edges = [
            replace(edge, target=self.id) if edge.target == self.node and edge.source in self.sources else edge
            for edge in graph.edges
        ]
        graph = replace(graph, edges=edges)
        new_outputs = [output for output in outputs_of(end) if _can_have(graph, self.id, output)]
        old_outputs = [
            output for output in outputs_of(end) if output not in new_outputs or _can_have(graph, self.node, output)
        ]
        graph = with_outputs(graph, graph.by_id[self.id], new_outputs)
        return graph if old_outputs == outputs_of(end) else with_outputs(graph, end, old_outputs)

    def apply_if_faulty(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow with the new end without outputs, unless its id is taken."""
        if self.id in graph.by_id:
            return graph
        parent = graph.by_id[self.node].parent if self.node in graph.by_id else ""
        return replace(graph, nodes=[*graph.nodes, NodeSpec(self.id, "end", {"outputs": []}, parent)])


def _can_have(graph: NodeGraph, end_id: str, output: Any) -> bool:
    """Return whether the node of an output comes before an end."""
    match list_of(output):
        case [_, [_, str() as node_id]]:
            return node_id in before(graph, end_id)
        case _:
            return False


class MergeEnds(Operation):
    """Makes one end of several, the first; what led to the others leads to it.

    Outputs that differ under one name become one, through a variable-aggregator each that all that led to the ends
    leads to.
    """

    op: Literal["merge_ends"] = "merge_ends"
    nodes: list[str] = Field(min_length=2, description="The ends; the first one stays.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: nodes of another type than end, duplicates, and nodes that run inside different nodes."""
        end_faults = [fault for node_id in dict.fromkeys(self.nodes) for fault in _no_end(graph, "nodes", node_id)]
        yield from end_faults
        if len(set(self.nodes)) < len(self.nodes):
            yield Fault("nodes", "an end is named twice; name each once", "duplicate-id")
        elif not end_faults and len({graph.by_id[node_id].parent for node_id in self.nodes}) > 1:
            yield Fault("nodes", "they run inside different nodes; only ends side by side can be one", "crosses-border")
        for node_id in self.nodes if not end_faults else ():
            end = graph.by_id[node_id]
            if len(named_outputs(end)) < len(outputs_of(end)):
                yield Fault("nodes", f"outputs of {node_id!r} cannot be read; set these first", "param")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the first end only, and with the aggregators as the last nodes."""
        first, *others = (graph.by_id[node_id] for node_id in self.nodes)
        values_by_name: dict[str, list[Any]] = {}
        for end in (first, *others):
            for name, value in named_outputs(end):
                values = values_by_name.setdefault(name, [])
                values += [] if value in values else [value]
        several = {name: values for name, values in values_by_name.items() if len(values) > 1}
        aggregators: dict[str, str] = {}
        for name, values in several.items():
            aggregators[name] = free_id(graph, first.parent)
            spec = NodeSpec(aggregators[name], "variable-aggregator", {"variables": values}, first.parent)
            graph = replace(graph, nodes=[*graph.nodes, spec])
        outputs = [
            [name, ["output", aggregators[name]] if name in aggregators else values[0]]
            for name, values in values_by_name.items()
        ]
        nodes = [spec for spec in graph.nodes if not any(spec is other for other in others)]
        graph = replace(graph, nodes=nodes, edges=self._edges(graph, list(aggregators.values())))
        return with_outputs(graph, first, outputs) if outputs != outputs_of(first) else graph

    def _edges(self, graph: NodeGraph, aggregators: Sequence[str]) -> list[Edge]:
        """Return the edges after the merge: edges to the ends lead to the aggregators, or without these to the end."""
        end = self.nodes[0]
        edges: list[Edge] = []
        redirected: set[tuple[str, int, str]] = set()
        for edge in graph.edges:
            if edge.source in self.nodes[1:]:
                continue
            for target in (aggregators or [end]) if edge.target in self.nodes else [edge.target]:
                key = (edge.source, edge.port, target)
                if edge.target not in self.nodes or key not in redirected:
                    redirected.add(key)
                    edges.append(edge if target == edge.target else replace(edge, target=target))
        return [*edges, *(Edge(aggregator, end) for aggregator in aggregators)]
