"""The form that ComfyUI's page saves: nodes with places and widgets, links, groups, and definitions of subgraphs.

Normal form: JSON indented by two. Unchanged parts are written as they were, with keys in their order. Subgraphs are
kept as they are; `subgraphs` returns them as graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats.definitions import Definitions
from operad.integrations.comfyui.formats.layout import laid_out
from operad.integrations.comfyui.formats.widgets import places, values_of
from operad.integrations.comfyui.formats.written import NAME, id_text, link_parts, named, slot_name, ui_of
from operad.runtime.values.errors import InvalidError, Issue


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
        spec = NodeSpec(id_text(node["id"]), node["type"], extra={NAME: {"ui": node}})
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
