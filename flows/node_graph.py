"""A workflow of typed nodes as it is written: ids, types, parameters, edges. Nothing in it need be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

from operad.runtime.values.errors import OperadError


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as it is written.

    Attributes:
        id: Its identity.
        type: The name of its type.
        params: Its parameters, unread.
        parent: The node that it runs inside of; empty for none.
        extra: What a format says of it and others have no place for, by the format's name; written back unchanged.
    """

    id: str
    type: str
    params: Any = field(default_factory=dict[str, Any])
    parent: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge as it is written.

    Attributes:
        source: The node that it leaves.
        target: The node that it leads to.
        port: The number of the port that it leaves from, counted from 0.
        input: The input of the target that it fills, where edges carry values (ComfyUI).
        extra: As of a node.
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
        nodes: The nodes; those inside another name it as their parent.
        edges: The edges.
        name: What to call the workflow.
        extra: As of a node.
        instructions: What it was made from, in words, round by round; files that can hold it keep it.
        notes: What it does not do of that, and what was assumed; kept in files likewise.
    """

    nodes: Sequence[NodeSpec] = ()
    edges: Sequence[Edge] = ()
    name: str = "workflow"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: Sequence[str] = ()
    notes: Sequence[str] = ()

    @cached_property
    def by_id(self) -> Mapping[str, NodeSpec]:
        """The nodes by id; of several with one id, the first."""
        return {node.id: node for node in reversed(self.nodes)}

    @property
    def is_imported(self) -> bool:
        """True if a format says more of it than others have a place for."""
        return any(each.extra for each in (self, *self.nodes, *self.edges))

    def inside(self, parent: str) -> NodeGraph:
        """Return the nodes that run inside a node; for an empty id, those that run inside none."""
        ids = {node.id for node in self.nodes if node.parent == parent}
        return NodeGraph(
            nodes=[node for node in self.nodes if node.parent == parent],
            edges=[edge for edge in self.edges if edge.source in ids and edge.target in ids],
            name=parent or self.name,
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the picture for a notebook; the flowchart's code where it cannot be drawn."""
        draw: Any = import_module("operad.flows.picture").draw
        bundle: dict[str, str] = {"text/plain": repr(self), "text/markdown": draw(self, "md").decode()}
        with suppress(OperadError):  # no extra, or too large: the flowchart's code says as much
            bundle["image/svg+xml"] = draw(self, "svg").decode()
        return bundle
