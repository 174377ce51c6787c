"""Operations on edges and branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from operad.flows.edit.nodes import AddNode
from operad.flows.edit.operation import (
    BRANCHES,
    NewId,
    NodeId,
    Operation,
    Port,
    Types,
    border,
    branches,
    edges_between,
    port_number,
    undefined,
    unsure_edge,
    with_params,
    wrong_port,
)
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph
from operad.operators.conditions import Case
from operad.operators.named_params import in_lists
from operad.operators.node import Fault
from operad.operators.variables import short_json


class Connect(Operation):
    """Adds an edge."""

    op: Literal["connect"] = "connect"
    source: NodeId = Field(description="The node that it leaves.")
    target: NodeId = Field(description="The node that it leads to.")
    port: Port = 0

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: missing nodes, nodes in different containers, a missing port, an existing edge."""
        yield from border(graph, self.source, self.target)
        yield from wrong_port(graph, types, self.source, self.port)
        if {self.source, self.target} <= graph.by_id.keys() and self._exists(graph):
            number = port_number(graph, self.source, self.port)
            what = f"an edge leads from port {number} of {self.source!r} to {self.target!r} already; leave this out"
            yield Fault("target", what, "duplicate-edge")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new edge as the last edge."""
        edge = Edge(self.source, self.target, port_number(graph, self.source, self.port))
        return replace(graph, edges=[*graph.edges, edge])

    def _exists(self, graph: NodeGraph) -> bool:
        return bool(edges_between(graph, self.source, self.target, self.port))


class Disconnect(Operation):
    """Removes an edge."""

    op: Literal["disconnect"] = "disconnect"
    source: NodeId
    target: NodeId
    port: Port | None = Field(default=None, description="The port that it leaves from, where there are several edges.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a missing edge, or several edges that could be meant."""
        yield from unsure_edge(graph, self.source, self.target, self.port)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow without the edge."""
        removed = edges_between(graph, self.source, self.target, self.port)
        return replace(graph, edges=[edge for edge in graph.edges if not any(edge is other for other in removed)])


class InsertBetween(Operation):
    """Adds a node in the middle of an edge."""

    op: Literal["insert_between"] = "insert_between"
    source: NodeId = Field(description="The node that the edge leaves.")
    target: NodeId = Field(description="The node that it leads to.")
    id: NewId
    type: str = Field(description="The type of the new node.")
    params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], description="Its parameters.")
    port: Port | None = Field(default=None, description="The port that the edge leaves, where there are several.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a missing edge, a taken id, an unknown type or parameter."""
        yield from self._new_node(graph).faults(graph, types)
        unsure = list(unsure_edge(graph, self.source, self.target, self.port))
        yield from unsure or border(graph, self.source, self.target)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new node as the last node, and two edges in place of the old one."""
        split = edges_between(graph, self.source, self.target, self.port)[0]
        edges: list[Edge] = []
        for edge in graph.edges:
            edges += [replace(edge, target=self.id), Edge(self.id, self.target)] if edge is split else [edge]
        return replace(self.apply_if_faulty(graph), edges=edges)

    def apply_if_faulty(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow with the new node, unless its id is taken."""
        return self._new_node(graph).apply_if_faulty(graph)

    def _new_node(self, graph: NodeGraph) -> AddNode:
        source = graph.by_id.get(self.source)
        return AddNode(id=self.id, type=self.type, params=self.params, inside=source.parent if source else "")


class AddBranch(Operation):
    """Adds a case to an if-else node, or a class to a question-classifier; edges from later ports follow these."""

    op: Literal["add_branch"] = "add_branch"
    node: NodeId
    branch: JsonValue = Field(
        description='A case, {"logic": "or", "conditions": [{"variable": "1.city", "operator": "is", "value": "Berlin"}]}; '
        "or a class, in words."
    )
    port: int | None = Field(
        default=None, ge=0, description="The port that it gets; by default the one behind the other branches."
    )

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a node without branches, a value that is not a branch, a missing port."""
        missing = list(undefined(graph, "node", self.node))
        yield from missing
        if missing:
            return
        spec = graph.by_id[self.node]
        if spec.type not in BRANCHES:
            known = " and ".join(BRANCHES)
            what = f"{self.node!r} is of type {spec.type!r}, and only {known} have branches; add one of these"
            yield Fault("node", what, "no-branches")
            return
        name, count = BRANCHES[spec.type], branches(spec)
        if not isinstance(fields_of(spec.params).get(name, []), list):
            yield Fault("node", f"{name} of {self.node!r} is not a list; use set", "no-branches")
        elif self.port is not None and self.port > count:
            yield Fault("port", f"{self.node!r} has {count} branches; give 0 to {count}", "port-out-of-range")
        if spec.type == "if-else":
            try:
                TypeAdapter(Case).validate_python(in_lists(Case, self.branch))
            except ValidationError:
                form = '{"conditions": [{"variable": "id.variable", "operator": …, "value": …}, …]}'
                yield Fault("branch", f"a case is {form}, not {short_json(self.branch)}", "param")
        elif not isinstance(self.branch, str) or not self.branch.strip():
            yield Fault("branch", f"a class is a text, not {short_json(self.branch)}", "param")
        elif self.branch in list_of(fields_of(spec.params).get(name)):
            yield Fault("branch", f"{self.node!r} has the class {self.branch!r} already", "param")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new branch, whose port has no edge yet."""
        spec = graph.by_id[self.node]
        name, count = BRANCHES[spec.type], branches(spec)
        new_port = count if self.port is None else self.port
        listed = list_of(fields_of(spec.params).get(name))
        graph = with_params(
            graph, self.node, {**spec.params, name: [*listed[:new_port], self.branch, *listed[new_port:]]}
        )
        edges = [
            replace(edge, port=edge.port + 1) if edge.source == self.node and new_port <= edge.port < count else edge
            for edge in graph.edges
        ]
        return replace(graph, edges=edges)
