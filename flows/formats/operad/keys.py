"""Keys of Operad's YAML files."""

from __future__ import annotations

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeSpec

TOP = ("workflow", "instructions", "notes", "samples", "sticky_notes", "nodes", "edges", "order", "extra")
"""Keys of a workflow."""

EDGE = ("from", "to", "port", "input", "extra")
"""Keys of an edge."""

NOTE = ("text", "color", "at", "size", "extra")
"""Keys of a sticky note."""

OWN = ("id", "type", "title", "inside", "after", "params", "nodes", "extra")
"""Keys of a node besides its parameters."""

ELSE = "else"
"""Name of the port of an if-else node that is taken if no case fits."""


def else_port(node: NodeSpec | None) -> int | None:
    """Return the number of the port `ELSE`; None if the node is not an if-else node with cases."""
    cases = fields_of(node.params).get("cases") if node is not None and node.type == "if-else" else None
    return len(list_of(cases)) if isinstance(cases, list) else None
