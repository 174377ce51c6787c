"""Graph of typed nodes as a file describes it: ids, types, parameters and edges; it need not be valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

from operad.runtime.graph.schedule import reachable
from operad.runtime.values.errors import OperadError


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Node as a file describes it; it need not be valid.

    Attributes:
        id: The id.
        type: The name of the node type.
        params: The parameters, not validated.
        parent: The id of the container that the node runs inside of; empty for none.
        extra: Data that only one format has a place for, by the name of the format; written back unchanged.
    """

    id: str
    type: str
    params: Any = field(default_factory=dict[str, Any])
    parent: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Edge:
    """Edge as a file describes it; it need not be valid.

    Attributes:
        source: The id of the node that the edge leaves.
        target: The id of the node that the edge leads to.
        port: The number of the source's port, from 0.
        input: The name of the target's input that the edge fills, in formats whose edges carry values (ComfyUI).
        extra: Data of one format, as in `NodeSpec`.
    """

    source: str
    target: str
    port: int = 0
    input: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class NodeGraph:
    """Typed nodes and edges, in the order of the file.

        from operad.flows.check import check
        from operad.flows.node_graph import Edge, NodeSpec
        from operad.operators.nodes import NODE_TYPES

        nodes = [NodeSpec("1", "start", {"variables": [["name", "string"]]}), NodeSpec("2", "end", {"outputs": [["name", ["name", "1"]]]})]
        graph = NodeGraph(nodes, [Edge("1", "2")], "greet")
        print(check(graph, NODE_TYPES))  # []

    Attributes:
        nodes: The nodes. Nodes inside a container name it as their parent.
        edges: The edges.
        name: The name of the workflow.
        extra: Data of one format, as in `NodeSpec`.
        instructions: The instructions that the workflow was generated from, round by round; saved by formats that can.
        notes: Parts of the instructions that the workflow does not fulfil, and assumptions; saved likewise.
        left_out: Ids of the nodes that `runnable` has left out.
    """

    nodes: Sequence[NodeSpec] = ()
    edges: Sequence[Edge] = ()
    name: str = "workflow"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: Sequence[str] = ()
    notes: Sequence[str] = ()
    left_out: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def by_id(self) -> Mapping[str, NodeSpec]:
        """Nodes by id; if several have the same id, the first."""
        return {node.id: node for node in reversed(self.nodes)}

    @property
    def is_imported(self) -> bool:
        """True if the workflow has data that only one format has a place for."""
        return any(each.extra for each in (self, *self.nodes, *self.edges))

    @cached_property
    def runnable(self) -> NodeGraph:
        """The workflow that runs: one imported from Dify without the nodes that no path reaches from its start.

        Dify lets such nodes stand on its canvas. In other workflows they are an issue.
        """
        if "dify" not in self.extra or all(node.type != "start" for node in self.nodes):
            return self
        starts = [node.id for node in self.nodes if node.type in ("start", "iteration-start", "loop-start")]
        reached = reachable(starts, lambda source: [edge.target for edge in self.edges if edge.source == source])
        left = {node.id for node in self.nodes if not {node.id, *self.around(node.id)} <= reached}
        left -= {node.id for node in self.nodes if node.type == "conversation"}
        if any(edge.source in left and edge.target in self.by_id.keys() - left for edge in self.edges):
            return self  # nodes that run would wait for them
        return replace(
            self,
            nodes=[node for node in self.nodes if node.id not in left],
            edges=[edge for edge in self.edges if left.isdisjoint((edge.source, edge.target))],
            left_out=frozenset(left),
        )

    def around(self, node_id: str) -> list[str]:
        """Return the ids of the containers around a node, the innermost first."""
        found: list[str] = []
        node = self.by_id.get(node_id)
        while node and node.parent in self.by_id and node.parent not in found:
            found.append(node.parent)
            node = self.by_id[node.parent]
        return found

    def inside(self, parent: str) -> NodeGraph:
        """Return the nodes inside a container and their edges; for an empty id, those outside of all containers."""
        ids = {node.id for node in self.nodes if node.parent == parent}
        return NodeGraph(
            nodes=[node for node in self.nodes if node.parent == parent],
            edges=[edge for edge in self.edges if edge.source in ids and edge.target in ids],
            name=parent or self.name,
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the picture for a notebook; the flowchart's code if the workflow cannot be drawn."""
        draw: Any = import_module("operad.flows.picture").draw
        bundle: dict[str, str] = {"text/plain": repr(self), "text/markdown": draw(self, "md").decode()}
        with suppress(OperadError):  # the extra is missing or the workflow is too large: show the code only
            bundle["image/svg+xml"] = draw(self, "svg").decode()
        return bundle
