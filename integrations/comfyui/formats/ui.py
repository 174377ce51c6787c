"""The form that ComfyUI's page saves: nodes with places and widgets, links, groups, and definitions of subgraphs.

Normal form: JSON indented by two. Unchanged parts are written as they were, with keys in their order. Subgraphs are
kept as they are; `subgraphs` returns them as graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, depths
from operad.integrations.comfyui.formats.definitions import Definitions, NodeDefinition
from operad.integrations.comfyui.formats.widgets import follows_control, places, values_of, with_defaults
from operad.integrations.comfyui.formats.written import (
    NAME,
    id_text,
    is_virtual,
    link_parts,
    named,
    node_of,
    slot_name,
    title_of,
    titled,
    ui_of,
)
from operad.runtime.values.errors import InvalidError, Issue

# Layout of new nodes for ComfyUI's page: slots, widgets and a position on the canvas.

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


def is_ui(data: Any) -> bool:
    """Return True if parsed JSON has this form."""
    return isinstance(fields_of(data).get("nodes"), list) and isinstance(fields_of(data).get("links"), list)


def load_ui(data: Mapping[str, Any], name: str) -> NodeGraph:
    """Return the graph of parsed JSON.

    Raises:
        InvalidError: The JSON does not have this form; every issue is listed, also those of subgraphs.
    """
    issues = list(_shape_issues(data, ""))
    subgraph_list = fields_of(data.get("definitions")).get("subgraphs", [])
    if not isinstance(subgraph_list, list):
        issues.append(Issue("format", "must be a list", "definitions.subgraphs"))
    for index, subgraph in enumerate(list_of(subgraph_list)):
        where = f"definitions.subgraphs[{index}]"
        if not isinstance(fields_of(subgraph).get("id"), str) or not is_ui(subgraph):
            issues.append(Issue("format", "must be an object with id, nodes and links", where))
        else:
            issues += _shape_issues(fields_of(subgraph), f"{where}.")
    if issues:
        raise InvalidError(name, issues)
    return _graph_of(data, name)


def subgraphs(graph: NodeGraph) -> Mapping[str, NodeGraph]:
    """Return the subgraphs that a graph defines, by the type of the nodes that stand for them.

    Edges from `INLET` and to `OUTLET` continue the edges of the node that stands for the subgraph.
    """
    written = list_of(fields_of(fields_of(ui_of(graph)).get("definitions")).get("subgraphs"))
    return {each["id"]: _graph_of(each, str(each.get("name") or each["id"])) for each in written}


def dump_document(graph: NodeGraph, definitions: Definitions) -> dict[str, Any]:
    """Return a graph as parsed JSON; nodes that the page did not write are laid out.

    Args:
        graph: The graph.
        definitions: The node classes, which give nodes their slots and widgets. Nodes of an unknown class get slots for
            their edges and widgets for their parameters.
    """
    nodes = laid_out(graph, definitions)
    old_document = fields_of(ui_of(graph))
    links = _links_of(graph, nodes, list_of(old_document.get("links")), old_document.get("last_link_id"))
    document = dict(old_document) or {
        "last_node_id": 0,
        "last_link_id": 0,
        "nodes": [],
        "links": [],
        "groups": [],
        "config": {},
        "extra": {},
        "version": 0.4,
    }
    document |= {"nodes": _with_values(graph, nodes, definitions), "links": links}
    new_ids = [nodes[place]["id"] for place, spec in enumerate(graph.nodes) if ui_of(spec) is None]
    _raise_counter(document, "last_node_id", new_ids)
    old_links = {id_text(each) for each in list_of(old_document.get("links"))}
    link_ids = [link_parts(link)[0] for link in links]
    _raise_counter(document, "last_link_id", [each for each in link_ids if id_text(each) not in old_links])
    return document


# Reading


def _graph_of(data: Mapping[str, Any], name: str) -> NodeGraph:
    """Return the graph of a document or of a subgraph."""
    nodes: list[NodeSpec] = []
    for node in list_of(data["nodes"]):
        spec = titled(NodeSpec(id_text(node["id"]), node["type"], extra={NAME: {"ui": node}}))
        nodes.append(replace(spec, params=values_of(spec)))
    by_id = {spec.id: spec for spec in reversed(nodes)}
    edges: list[Edge] = []
    for link in list_of(data["links"]):
        _, source, port, target, slot, _ = link_parts(link)
        fills = slot_name(by_id.get(id_text(target)), slot)
        edges.append(Edge(id_text(source), id_text(target), port, fills, {NAME: {"ui": link}}))
    rest = {**data, "nodes": [], "links": [link_parts(link)[0] for link in list_of(data["links"])]}
    return NodeGraph(nodes, edges, name, {NAME: {"ui": rest}})


def _shape_issues(data: Mapping[str, Any], path: str) -> Iterator[Issue]:
    for index, node in enumerate(list_of(data.get("nodes"))):
        where = f"{path}nodes[{index}]"
        if not isinstance(node, dict):
            yield Issue("misshapen-node", "must be an object with id and type", where)
            continue
        fields = fields_of(node)
        if not id_text(fields.get("id")):
            yield Issue("misshapen-node", "id: must be a whole number or a text", where)
        if not isinstance(fields.get("type"), str) or not fields["type"]:
            yield Issue("misshapen-node", "type: must be the name of a class", where)
        for side in ("inputs", "outputs"):
            listed = fields.get(side)
            if listed is not None and not (isinstance(listed, list) and all(map(_is_slot, list_of(listed)))):
                yield Issue("misshapen-node", f"{side}: must be a list of objects with name and type", where)
    for index, link in enumerate(list_of(data.get("links"))):
        if not _is_link(link):
            yield Issue("misshapen-link", "must be [id, from, from_slot, to, to_slot, type]", f"{path}links[{index}]")


def _is_slot(written: Any) -> bool:
    links = fields_of(written).get("links")
    return isinstance(written, dict) and isinstance(links, list | None)


def _is_link(link: Any) -> bool:
    number, source, port, target, slot, _ = link_parts(link)
    return bool(id_text(number) and id_text(source) and id_text(target) and type(port) is int and type(slot) is int)


# Writing


def _raise_counter(document: dict[str, Any], key: str, new: Sequence[Any]) -> None:
    """Raise the counter of ids to the highest new id."""
    numbers = [each for each in (document.get(key), *new) if isinstance(each, int)]
    if new and numbers:
        document[key] = max(numbers)


def _with_values(graph: NodeGraph, nodes: Mapping[int, Any], definitions: Definitions) -> list[dict[str, Any]]:
    """Return the nodes as the page writes them, with the current values of their parameters."""
    for place, spec in enumerate(graph.nodes):
        if ui_of(spec) is not None:
            _write_values(nodes[place], spec, definitions)
    return list(nodes.values())


def _write_values(node: dict[str, Any], spec: NodeSpec, definitions: Definitions) -> None:
    """Write the changed parameters of a node into its lists of values."""
    written = node.get("widgets_values")
    values: Any = dict(fields_of(written)) if isinstance(written, dict) else list(list_of(written))
    definition = definitions.get(spec.type)
    known_places = places(spec, definition)
    old_values = values_of(replace(spec, params={}), definition)
    named_values = dict(fields_of(node.get("widgets_values_named")))
    for name, value in fields_of(spec.params).items():
        if name in old_values and type(old_values[name]) is type(value) and old_values[name] == value:
            continue
        if name in known_places:
            values[known_places[name]] = value
        if name in named_values:
            named_values[name] = value
    if written is not None:
        node["widgets_values"] = values
    if "widgets_values_named" in node:
        node["widgets_values_named"] = named_values


def _links_of(
    graph: NodeGraph, nodes: Mapping[int, dict[str, Any]], old_links: Sequence[Any], last_id: Any
) -> list[Any]:
    """Return the links of the edges; slots of nodes change only for links that are new, gone or moved."""
    links: list[Any] = []
    new_edges: list[Edge] = []
    kept: set[str] = set()
    for edge in graph.edges:
        link = ui_of(edge)
        if link is not None and _is_unchanged(edge, link, graph.by_id.get(edge.target)):
            links.append(link)
            kept.add(id_text(link_parts(link)[0]))
        else:
            new_edges.append(edge)
    removed = {id_text(each) for each in old_links} - kept
    if removed:
        for node in nodes.values():
            _remove_links(node, removed)
    slots_of = (
        {spec.id: _Slots(nodes[place]) for place, spec in reversed(list(enumerate(graph.nodes)))} if new_edges else {}
    )
    link_id = max([each for each in [*old_links, last_id] if isinstance(each, int)], default=0)
    for edge in new_edges:
        if edge.source in slots_of and edge.target in slots_of and edge.input and edge.port >= 0:
            link_id += 1
            source, target = slots_of[edge.source], slots_of[edge.target]
            output_type = source.add_output_link(edge.port, link_id)
            slot = target.add_input_link(edge.input, link_id, output_type)
            links.append([link_id, source.node["id"], edge.port, target.node["id"], slot, output_type])
    return links


def _is_unchanged(edge: Edge, link: Any, target: NodeSpec | None) -> bool:
    _, source, port, target_id, slot, _ = link_parts(link)
    link_ends = (id_text(source), port, id_text(target_id), slot_name(target, slot))
    return link_ends == (edge.source, edge.port, edge.target, edge.input)


def _remove_links(node: dict[str, Any], removed: set[str]) -> None:
    """Remove links from the slots of a node."""
    if isinstance(node.get("inputs"), list):
        node["inputs"] = [
            {**each, "link": None} if id_text(each.get("link")) in removed else each for each in node["inputs"]
        ]
    if isinstance(node.get("outputs"), list):
        node["outputs"] = [
            {**each, "links": [link for link in list_of(each["links"]) if id_text(link) not in removed]}
            if any(id_text(link) in removed for link in list_of(each.get("links")))
            else each
            for each in node["outputs"]
        ]


class _Slots:
    """Slots of a node, to which links are added; they are copied before the first addition."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node
        self._inputs: list[dict[str, Any]] | None = None
        self._outputs: list[dict[str, Any]] | None = None
        self._slot_by_name: dict[str, int] = {}

    def add_output_link(self, port: int, number: int) -> Any:
        """Add a link to an output; return the type of the output, or the wildcard if the node does not have it."""
        if self._outputs is None:
            self._outputs = [{**each, "links": [*list_of(each.get("links"))]} for each in self._written("outputs")]
            self.node["outputs"] = self._outputs
        if port >= len(self._outputs):
            return "*"
        self._outputs[port]["links"].append(number)
        return self._outputs[port].get("type", "*")

    def add_input_link(self, name: str, number: int, kind: Any) -> int:
        """Set the link of an input, which is added if the node does not have it; return the slot of the input."""
        if self._inputs is None:
            self._inputs = [dict(each) for each in self._written("inputs")]
            self._slot_by_name = {named(each, slot): slot for slot, each in reversed(list(enumerate(self._inputs)))}
            self.node["inputs"] = self._inputs
        slot = self._slot_by_name.setdefault(name, len(self._inputs))
        if slot == len(self._inputs):
            self._inputs.append({"name": name, "type": kind})
        self._inputs[slot]["link"] = number
        return slot

    def _written(self, side: str) -> Sequence[Mapping[str, Any]]:
        return [fields_of(each) for each in list_of(self.node.get(side))]
