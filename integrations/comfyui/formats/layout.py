"""Layout of new nodes for ComfyUI's page: slots, widgets and a position on the canvas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.order import depths
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats.definitions import Definitions, NodeDefinition
from operad.integrations.comfyui.formats.widgets import follows_control, with_defaults
from operad.integrations.comfyui.formats.written import id_text, is_virtual, node_of, title_of, ui_of

_WIDTH, _GAP, _TOP, _ROW = 320, 60, 80, 26
"""Sizes of a new node in pixels: width, gap to other nodes, height of its head, height of a slot or widget."""

_FAR = 10**9
"""Positions and sizes beyond this number of pixels are ignored."""


def laid_out(graph: NodeGraph, definitions: Definitions) -> dict[int, dict[str, Any]]:
    """Return the nodes as parsed JSON without links, by their index in the graph.

    Nodes that the page wrote stay as they were. New nodes are placed below them in columns, to the right of the nodes
    whose outputs they use; their ids are numbers.
    """
    ids = _page_ids(graph)
    new_nodes = [spec for spec in graph.nodes if ui_of(spec) is None]
    columns = depths([spec.id for spec in graph.nodes], graph.edges) if new_nodes else {}
    edges_into: dict[str, list[Edge]] = {}
    ports: dict[str, int] = {}
    for edge in graph.edges:
        edges_into.setdefault(edge.target, []).append(edge)
        ports[edge.source] = max(ports.get(edge.source, 0), min(edge.port, 63) + 1)
    bottom: dict[int, float] = {}
    first_y = _free_y(graph) if new_nodes else 0
    found: dict[int, dict[str, Any]] = {}
    for position, spec in enumerate(graph.nodes):
        if ui_of(spec) is not None:
            found[position] = {**node_of(spec), "id": ids[position], "type": spec.type}
            continue
        definition = definitions.get(spec.type)
        node = _new_node(spec, definition, edges_into.get(spec.id, []), ports.get(spec.id, 0))
        rows = max(len(node["inputs"]), len(node["outputs"])) + len(node["widgets_values"])
        column, y = columns[spec.id], bottom.get(columns[spec.id], first_y)
        bottom[column] = y + _TOP + _ROW * rows + _GAP
        geometry: dict[str, Any] = {
            "pos": [column * (_WIDTH + _GAP), y],
            "size": [_WIDTH, _TOP + _ROW * rows],
            "flags": {},
            "order": position,
        }
        found[position] = {"id": ids[position], "type": spec.type, **geometry, "mode": 0, **node}
    return found


def _page_ids(graph: NodeGraph) -> list[Any]:
    """Return the id of each node on the page: its own if that is from the page or a number, or else a new number."""
    ids: list[Any] = []
    for spec in graph.nodes:
        page_id = node_of(spec).get("id")
        if ui_of(spec) is not None and id_text(page_id) == spec.id:
            ids.append(page_id)
        else:
            ids.append(int(spec.id) if spec.id.isdecimal() and spec.id == str(int(spec.id[:15])) else None)
    last = max((each for each in ids if isinstance(each, int)), default=0)
    for position, each in enumerate(ids):
        if each is None:
            last += 1
            ids[position] = last
    return ids


def _free_y(graph: NodeGraph) -> float:
    """Return the y position below all nodes of the page."""
    bottoms = [0.0]
    for spec in graph.nodes:
        match list_of(node_of(spec).get("pos")), list_of(node_of(spec).get("size")):
            case [_, int() | float() as top], [_, int() | float() as height] if max(abs(top), abs(height)) < _FAR:
                bottoms.append(top + height + _GAP)
            case _:
                pass
    return max(bottoms)


def _new_node(spec: NodeSpec, definition: NodeDefinition | None, edges: list[Edge], ports: int) -> dict[str, Any]:
    """Return the slots, widgets and title of a new node; `ports` is the number of outputs that edges use."""
    values = with_defaults(fields_of(spec.params), definition)
    definition = definition or NodeDefinition()
    known = definition.inputs
    linked = [edge.input for edge in edges if edge.input]
    sockets = [name for name, each in known.items() if not each.is_widget]
    sockets += [name for name in dict.fromkeys(linked) if name not in known and name not in values]
    inputs: list[dict[str, Any]] = [
        {"name": name, "type": known[name].type if name in known else "*", "link": None}
        for name in sockets
        if name not in values
    ]
    widgets: list[Any] = []
    for name, value in values.items():
        if name != "upload" and not is_virtual(spec):
            input_type = known[name].type if name in known else "*"
            inputs.append({"name": name, "type": input_type, "widget": {"name": name}, "link": None})
        widgets.append(value)
        if follows_control(known.get(name), name):
            widgets.append("fixed")
    unknown = ["*"] * (ports - len(definition.outputs))
    output_types, names = [*definition.outputs, *unknown], [*definition.names, *unknown]
    outputs: list[dict[str, Any]] = [
        {"name": name, "type": output_type, "links": []} for name, output_type in zip(names, output_types, strict=False)
    ]
    title: Mapping[str, Any] = {"title": title_of(spec)} if title_of(spec) != spec.type else {}
    properties = {"Node name for S&R": spec.type}
    return {"inputs": inputs, "outputs": outputs, **title, "properties": properties, "widgets_values": widgets}
