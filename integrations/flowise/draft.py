"""Nodes and edges of Operad while they are made from those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operad.flows.formats.fields import Remark
from operad.flows.node_graph import Edge, NodeSpec


@dataclass
class Draft:
    """Nodes and edges of Operad while they are made.

    Attributes:
        specs: The nodes by id.
        edges: The edges.
        groups: The ids of the nodes that a node of the file became, in the order in which they run, by its id.
        remarks: Differences of the nodes here.
    """

    specs: dict[str, NodeSpec] = field(default_factory=dict[str, NodeSpec])
    edges: list[Edge] = field(default_factory=list[Edge])
    groups: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    remarks: list[Remark] = field(default_factory=list[Remark])

    @property
    def owners(self) -> Mapping[str, str]:
        """Ids of the nodes of the file, by those of Operad's nodes."""
        return {node_id: owner for owner, ids in self.groups.items() for node_id in ids}

    def add(self, owner: str, spec: NodeSpec, after: str = "", port: int = 0) -> str:
        """Add a node, and the edge to it from another one; return its id."""
        self.specs[spec.id] = spec
        self.groups.setdefault(owner, []).append(spec.id)
        if after:
            self.edges.append(Edge(after, spec.id, port))
        return spec.id
