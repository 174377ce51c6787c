"""Data of ComfyUI's own page on a node, a link or a workflow, as it is kept in `extra`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of

NAME = "comfyui"
"""The name of the format, under which `extra` keeps what it says.

Of a node, ``{"ui": node}`` as the page wrote it, or ``{"api": what the server's form says besides class and inputs}``;
of an edge, ``{"ui": link}``; of a graph, ``{"ui": document}``, with the nodes left out and links by their ids. An edge
of code whose variable was not assigned has ``{"undefined": variable}``, and its graph ``{"variables": those assigned}``.
"""

VIRTUAL = {"Note", "MarkdownNote", "Reroute", "PrimitiveNode"}
"""The classes that only the page knows; no server has them."""

MUTED, BYPASSED = 2, 4
"""The modes of nodes that do not run: one gives nothing, the other passes on what it gets."""

INLET, OUTLET = "-10", "-20"
"""The ids that stand, in the links of a subgraph, for the inputs and the outputs of what it is put in for."""


def ui_of(owner: NodeSpec | Edge | NodeGraph) -> Any:
    """Return the data of the page on it; None where it comes from elsewhere."""
    return mapping_of(owner.extra.get(NAME)).get("ui")


def node_of(spec: NodeSpec) -> Mapping[str, Any]:
    """Return the data of the page on a node; empty where it comes from elsewhere."""
    return mapping_of(ui_of(spec))


def is_virtual(spec: NodeSpec) -> bool:
    """Return whether a node is known to the page alone."""
    return spec.type in VIRTUAL and "api" not in mapping_of(spec.extra.get(NAME))


def mode_of(spec: NodeSpec) -> Any:
    """The mode of a node: 0 for one that runs."""
    return node_of(spec).get("mode", 0)


def slots(spec: NodeSpec, side: str) -> Sequence[Mapping[str, Any]]:
    """The ``inputs`` or the ``outputs`` of a node, as the page wrote them."""
    return [mapping_of(each) for each in list_of(node_of(spec).get(side))]


def slot_name(spec: NodeSpec | None, slot: int) -> str:
    """The name of an input, by its slot: its number where it bears none, as a reroute's; empty where there is none."""
    inputs = list_of(node_of(spec).get("inputs")) if spec else ()
    return named(inputs[slot], slot) if 0 <= slot < len(inputs) else ""


def named(written: Any, slot: int) -> str:
    """The name of an input as it is written, or else its number."""
    name = mapping_of(written).get("name")
    return name if isinstance(name, str) and name else str(slot)


def title_of(spec: NodeSpec) -> str:
    """Return the title of a node for people."""
    said = mapping_of(spec.extra.get(NAME))
    title = mapping_of(mapping_of(said.get("api")).get("_meta")).get("title") if "api" in said else None
    title = node_of(spec).get("title") or title
    return title if isinstance(title, str) else spec.type


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
    """Id, source, source's slot, target, target's slot and type of a link, in either form; None for what is missing."""
    if isinstance(link, dict):
        said = mapping_of(link)
        keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
        first, second, third, fourth, fifth, sixth = (said.get(key) for key in keys)
    else:
        first, second, third, fourth, fifth, sixth = [*list_of(link), *[None] * 6][:6]
    return first, second, third, fourth, fifth, sixth
