"""Nodes that ComfyUI's page never wrote, as it would: with slots, widgets, and a place on the canvas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.comfyui.definitions import Definitions, NodeDefinition
from operad.flows.formats.comfyui.order import depths
from operad.flows.formats.comfyui.widgets import follows_control, with_defaults
from operad.flows.formats.comfyui.written import id_text, node_of, title_of, ui_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of

_WIDTH, _GAP, _TOP, _ROW = 320, 60, 80, 26
"""Of a node, in pixels: its width, what is left free around it, its head, and each of its slots and widgets."""


_FAR = 10**9
"""Farther than anything stands, in pixels."""


def laid_out(graph: NodeGraph, definitions: Definitions) -> dict[int, dict[str, Any]]:
    """The nodes as parsed JSON, by their places in the graph; without links.

    Nodes that the page wrote are as they were. The others stand to the right of those that they get something from, in
    columns, below what the page wrote; their ids are numbers.
    """
    ids = _numbers(graph)
    new = [spec for spec in graph.nodes if ui_of(spec) is None]
    column = depths([spec.id for spec in graph.nodes], graph.edges) if new else {}
    into: dict[str, list[Edge]] = {}
    ports: dict[str, int] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge)
        ports[edge.source] = max(ports.get(edge.source, 0), min(edge.port, 63) + 1)
    bottom: dict[int, float] = {}
    floor = _floor(graph) if new else 0
    found: dict[int, dict[str, Any]] = {}
    for place, spec in enumerate(graph.nodes):
        if ui_of(spec) is not None:
            found[place] = {**node_of(spec), "id": ids[place], "type": spec.type}
            continue
        definition = definitions.get(spec.type)
        node = _node(spec, definition, into.get(spec.id, []), ports.get(spec.id, 0))
        rows = max(len(node["inputs"]), len(node["outputs"])) + len(node["widgets_values"])
        x, y = column[spec.id], bottom.get(column[spec.id], floor)
        bottom[x] = y + _TOP + _ROW * rows + _GAP
        box: dict[str, Any] = {
            "pos": [x * (_WIDTH + _GAP), y],
            "size": [_WIDTH, _TOP + _ROW * rows],
            "flags": {},
            "order": place,
        }
        found[place] = {"id": ids[place], "type": spec.type, **box, "mode": 0, **node}
    return found


def _numbers(graph: NodeGraph) -> list[Any]:
    """The id that each node has on the page: its own where that is a number or comes from there, or else a free one."""
    ids: list[Any] = []
    for spec in graph.nodes:
        written = node_of(spec).get("id")
        if ui_of(spec) is not None and id_text(written) == spec.id:
            ids.append(written)
        else:
            ids.append(int(spec.id) if spec.id.isdecimal() and spec.id == str(int(spec.id[:15])) else None)
    free = max((each for each in ids if isinstance(each, int)), default=0)
    for place, each in enumerate(ids):
        if each is None:
            free += 1
            ids[place] = free
    return ids


def _floor(graph: NodeGraph) -> float:
    """Return the free position below the nodes of the page."""
    ends = [0.0]
    for spec in graph.nodes:
        match list_of(node_of(spec).get("pos")), list_of(node_of(spec).get("size")):
            case [_, int() | float() as top], [_, int() | float() as height] if max(abs(top), abs(height)) < _FAR:
                ends.append(top + height + _GAP)
            case _:
                pass
    return max(ends)


def _node(spec: NodeSpec, definition: NodeDefinition | None, into: list[Edge], ports: int) -> dict[str, Any]:
    values = with_defaults(mapping_of(spec.params), definition)
    definition = definition or NodeDefinition()
    known = definition.inputs
    linked = [edge.input for edge in into if edge.input]
    sockets = [name for name, each in known.items() if not each.is_widget]
    sockets += [name for name in dict.fromkeys(linked) if name not in known and name not in values]
    inputs: list[dict[str, Any]] = [
        {"name": name, "type": known[name].type if name in known else "*", "link": None}
        for name in sockets
        if name not in values
    ]
    widgets: list[Any] = []
    for name, value in values.items():
        if name != "upload":
            kind = known[name].type if name in known else "*"
            inputs.append({"name": name, "type": kind, "widget": {"name": name}, "link": None})
        widgets.append(value)
        if follows_control(known.get(name), name):
            widgets.append("fixed")
    missing = ["*"] * (ports - len(definition.outputs))
    kinds, names = [*definition.outputs, *missing], [*definition.names, *missing]
    outputs: list[dict[str, Any]] = [
        {"name": name, "type": kind, "links": []} for name, kind in zip(names, kinds, strict=False)
    ]
    title: Mapping[str, Any] = {"title": title_of(spec)} if title_of(spec) != spec.type else {}
    properties = {"Node name for S&R": spec.type}
    return {"inputs": inputs, "outputs": outputs, **title, "properties": properties, "widgets_values": widgets}
