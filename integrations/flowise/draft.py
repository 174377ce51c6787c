"""Nodes and edges of Operad while they are made from those of a file, whose keys become named secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operad.flows.formats.fields import Remark
from operad.flows.node_graph import Edge, NodeSpec
from operad.flows.secrets import with_named_keys
from operad.runtime.values.keys_in_text import KeyNames


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


def with_secrets(draft: Draft) -> tuple[Draft, dict[str, str]]:
    """Return the nodes with the keys of requests as secrets, and the values of these secrets by name."""
    names = KeyNames()
    requests = [spec for spec in draft.specs.values() if spec.type == "request"]
    draft.specs |= {spec.id: spec for spec in with_named_keys(requests, names)}
    return draft, names.values
