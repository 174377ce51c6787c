"""Access to the data of ComfyUI's page on a node, a link or a workflow, which `extra` keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec

NAME = "comfyui"
"""Name of the format, and key of its data in `extra`.

The data are, for a node, ``{"ui": node as the page wrote it}``, ``{"api": fields of the server's form besides class and
inputs}`` or, for a class of `VIRTUAL` in code, ``{"title": title}``; for an edge, ``{"ui": link}``; for a graph, ``{"ui": document}`` without nodes, and with links as ids. In
a graph read from code, an edge whose variable was not assigned has ``{"undefined": variable}``, and the graph has
``{"variables": {assigned variable: (node, port)}}``, with the ids of the code.
"""

SETTER, GETTER = "SetNode", "GetNode"
"""Classes of KJNodes: a getter gives what the setter of the same name is given."""

VIRTUAL = {
    "Note": "text",
    "MarkdownNote": "text",
    "PrimitiveNode": "value",
    "Reroute": "",
    SETTER: "name",
    GETTER: "name",
}
"""Classes that only the page has, and servers do not run, with the names of their values; empty for none."""

MUTED, BYPASSED = 2, 4
"""Modes of nodes that do not run: a muted node has no output, a bypassed node passes its inputs on."""

INLET, OUTLET = "-10", "-20"
"""Ids in the links of a subgraph for the inputs and the outputs of the node that stands for the subgraph."""


def ui_of(owner: NodeSpec | Edge | NodeGraph) -> Any:
    """Return the data of the page on a node, an edge or a graph; None if it does not come from the page."""
    return fields_of(owner.extra.get(NAME)).get("ui")


def node_of(spec: NodeSpec) -> Mapping[str, Any]:
    """Return the data of the page on a node; empty if it does not come from the page."""
    return fields_of(ui_of(spec))


def is_virtual(spec: NodeSpec) -> bool:
    """Return True for a node that only the page has, such as a note or a reroute."""
    return spec.type in VIRTUAL and "api" not in fields_of(spec.extra.get(NAME))


def is_group(spec: NodeSpec) -> bool:
    """Return True for a group node, which the page had before subgraphs: ``workflow>Name``."""
    return spec.type.startswith(("workflow>", "workflow/"))


def group_fault(spec: NodeSpec) -> str:
    """Return why a group node is not run: the order of its values depends on the widgets that the page shows."""
    why = "is a group node, whose nodes only ComfyUI's page can put in its place"
    return f"{spec.type!r} {why}; ungroup it there (Convert to nodes) or convert it to a subgraph, and save again"


def mode_of(spec: NodeSpec) -> Any:
    """Return the mode of a node: 0 if it runs, `MUTED` or `BYPASSED`."""
    return node_of(spec).get("mode", 0)


def slots(spec: NodeSpec, side: str) -> Sequence[Mapping[str, Any]]:
    """Return the slots of a node, ``inputs`` or ``outputs``, as the page wrote them."""
    return [fields_of(each) for each in list_of(node_of(spec).get(side))]


def slot_name(spec: NodeSpec | None, slot: int) -> str:
    """Return the name of an input by its slot, or the slot's number if it has no name; empty if it does not exist."""
    inputs = list_of(node_of(spec).get("inputs")) if spec else ()
    return named(inputs[slot], slot) if 0 <= slot < len(inputs) else ""


def named(written: Any, slot: int) -> str:
    """Return the name of a slot as the page wrote it, or else its number."""
    name = fields_of(written).get("name")
    return name if isinstance(name, str) and name else str(slot)


def title_of(spec: NodeSpec) -> str:
    """Return the title of a node for people."""
    extra = fields_of(spec.extra.get(NAME))
    api_title = fields_of(fields_of(extra.get("api")).get("_meta")).get("title")
    title = node_of(spec).get("title") or extra.get("title") or api_title
    return title if isinstance(title, str) else spec.type


def titled(spec: NodeSpec) -> NodeSpec:
    """Return a node that was read with its title, unless that is its class."""
    title = title_of(spec)
    return spec if title == spec.type else replace(spec, title=title)


def id_text(written: Any) -> str:
    """Return an id as text; empty for other values."""
    match written:
        case bool():
            return ""
        case int():
            return str(written) if abs(written) < 2**63 else ""
        case float() if written.is_integer() and abs(written) < 2**53:
            return str(int(written))
        case str():
            return written
        case _:
            return ""


def link_parts(link: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return id, source, source slot, target, target slot and type of a link, a list or an object; None if missing."""
    if isinstance(link, dict):
        fields = fields_of(link)
        keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
        first, second, third, fourth, fifth, sixth = (fields.get(key) for key in keys)
    else:
        first, second, third, fourth, fifth, sixth = [*list_of(link), *[None] * 6][:6]
    return first, second, third, fourth, fifth, sixth
