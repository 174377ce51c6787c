"""The form that ComfyUI's page saves: nodes with places and widgets, links, groups, and definitions of subgraphs.

Normal form: JSON indented by two. What is not changed comes back as it was, keys in their order; subgraphs are kept as
they are, and `subgraphs` tells what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.formats.comfyui.definitions import Definitions
from operad.flows.formats.comfyui.layout import laid_out
from operad.flows.formats.comfyui.widgets import places, values_of
from operad.flows.formats.comfyui.written import INLET, NAME, OUTLET, id_text, link_parts, named, slot_name, ui_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of
from operad.runtime.values.errors import InvalidError, Issue

_BOUNDS = (INLET, OUTLET)


def is_ui(data: Any) -> bool:
    """Return whether parsed JSON is of this form."""
    return isinstance(mapping_of(data).get("nodes"), list) and isinstance(mapping_of(data).get("links"), list)


def load_ui(data: Mapping[str, Any], name: str) -> NodeGraph:
    """The graph of parsed JSON.

    Raises:
        InvalidError: It is not of this form; every issue is listed, those of subgraphs too.
    """
    issues = list(_misshapen(data, ""))
    written = mapping_of(data.get("definitions")).get("subgraphs", [])
    if not isinstance(written, list):
        issues.append(Issue("format", "must be a list", "definitions.subgraphs"))
    for place, each in enumerate(list_of(written)):
        where = f"definitions.subgraphs[{place}]"
        if not isinstance(mapping_of(each).get("id"), str) or not is_ui(each):
            issues.append(Issue("format", "must be an object with id, nodes and links", where))
        else:
            issues += _misshapen(mapping_of(each), f"{where}.")
    if issues:
        raise InvalidError(name, issues)
    return _graph_of(data, name)


def subgraphs(graph: NodeGraph) -> Mapping[str, NodeGraph]:
    """The subgraphs that a graph defines, by the type of the nodes that stand for them.

    Their edges from `INLET` and to `OUTLET` are those of the node that stands for them.
    """
    written = list_of(mapping_of(mapping_of(ui_of(graph)).get("definitions")).get("subgraphs"))
    return {each["id"]: _graph_of(each, str(each.get("name") or each["id"])) for each in written}


def dump_document(graph: NodeGraph, definitions: Definitions) -> dict[str, Any]:
    """A graph as parsed JSON; nodes that the page never wrote are laid out.

    Args:
        graph: The graph.
        definitions: The classes of its nodes: their slots and widgets. Of one that is not there, slots are as the edges
            say, and widgets as the parameters do.
    """
    nodes = laid_out(graph, definitions)
    before = mapping_of(ui_of(graph))
    links = _relink(graph, nodes, list_of(before.get("links")), before.get("last_link_id"))
    document = dict(before) or {
        "last_node_id": 0,
        "last_link_id": 0,
        "nodes": [],
        "links": [],
        "groups": [],
        "config": {},
        "extra": {},
        "version": 0.4,
    }
    document |= {"nodes": _listed(graph, nodes, definitions), "links": links}
    new = [nodes[place]["id"] for place, spec in enumerate(graph.nodes) if ui_of(spec) is None]
    _raise_last(document, "last_node_id", new)
    old = {id_text(each) for each in list_of(before.get("links"))}
    numbers = [link_parts(link)[0] for link in links]
    _raise_last(document, "last_link_id", [each for each in numbers if id_text(each) not in old])
    return document


# Reading


def _graph_of(data: Mapping[str, Any], name: str) -> NodeGraph:
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


def _misshapen(data: Mapping[str, Any], path: str) -> Iterator[Issue]:
    for place, node in enumerate(list_of(data.get("nodes"))):
        where = f"{path}nodes[{place}]"
        if not isinstance(node, dict):
            yield Issue("misshapen-node", "must be an object with id and type", where)
            continue
        said = mapping_of(node)
        if not id_text(said.get("id")):
            yield Issue("misshapen-node", "id: must be a whole number or a text", where)
        if not isinstance(said.get("type"), str) or not said["type"]:
            yield Issue("misshapen-node", "type: must be the name of a class", where)
        for side in ("inputs", "outputs"):
            listed = said.get(side)
            if listed is not None and not (isinstance(listed, list) and all(map(_is_slot, list_of(listed)))):
                yield Issue("misshapen-node", f"{side}: must be a list of objects with name and type", where)
    for place, link in enumerate(list_of(data.get("links"))):
        if not _is_link(link):
            yield Issue("misshapen-link", "must be [id, from, from_slot, to, to_slot, type]", f"{path}links[{place}]")


def _is_slot(written: Any) -> bool:
    links = mapping_of(written).get("links")
    return isinstance(written, dict) and isinstance(links, list | None)


def _is_link(link: Any) -> bool:
    number, source, port, target, slot, _ = link_parts(link)
    return bool(id_text(number) and id_text(source) and id_text(target) and type(port) is int and type(slot) is int)


# Writing


def _raise_last(document: dict[str, Any], key: str, new: Sequence[Any]) -> None:
    numbers = [each for each in (document.get(key), *new) if isinstance(each, int)]
    if new and numbers:
        document[key] = max(numbers)


def _listed(graph: NodeGraph, nodes: Mapping[int, Any], definitions: Definitions) -> list[dict[str, Any]]:
    """The nodes as the page writes them, with the values that their parameters have now."""
    for place, spec in enumerate(graph.nodes):
        if ui_of(spec) is not None:
            _set_values(nodes[place], spec, definitions)
    return list(nodes.values())


def _set_values(node: dict[str, Any], spec: NodeSpec, definitions: Definitions) -> None:
    written = node.get("widgets_values")
    values: Any = dict(mapping_of(written)) if isinstance(written, dict) else list(list_of(written))
    definition = definitions.get(spec.type)
    where = places(spec, definition)
    before = values_of(replace(spec, params={}), definition)
    named = dict(mapping_of(node.get("widgets_values_named")))
    for name, value in mapping_of(spec.params).items():
        if name in before and type(before[name]) is type(value) and before[name] == value:
            continue
        if name in where:
            values[where[name]] = value
        if name in named:
            named[name] = value
    if written is not None:
        node["widgets_values"] = values
    if "widgets_values_named" in node:
        node["widgets_values_named"] = named


def _relink(graph: NodeGraph, nodes: Mapping[int, dict[str, Any]], before: Sequence[Any], last: Any) -> list[Any]:
    """The links of the edges. Slots of nodes change only where links came, went or moved."""
    links: list[Any] = []
    new: list[Edge] = []
    same: set[str] = set()
    for edge in graph.edges:
        link = ui_of(edge)
        if link is not None and _unmoved(edge, link, graph.by_id.get(edge.target)):
            links.append(link)
            same.add(id_text(link_parts(link)[0]))
        else:
            new.append(edge)
    gone = {id_text(each) for each in before} - same
    if gone:
        for node in nodes.values():
            _unlink(node, gone)
    slots_of = {spec.id: _Slots(nodes[place]) for place, spec in reversed(list(enumerate(graph.nodes)))} if new else {}
    number = max([each for each in [*before, last] if isinstance(each, int)], default=0)
    for edge in new:
        if edge.source in slots_of and edge.target in slots_of and edge.input and edge.port >= 0:
            number += 1
            source, target = slots_of[edge.source], slots_of[edge.target]
            kind = source.leave(edge.port, number)
            slot = target.enter(edge.input, number, kind)
            links.append([number, source.node["id"], edge.port, target.node["id"], slot, kind])
    return links


def _unmoved(edge: Edge, link: Any, target: NodeSpec | None) -> bool:
    _, source, port, into, slot, _ = link_parts(link)
    said = (id_text(source), port, id_text(into), slot_name(target, slot))
    return said == (edge.source, edge.port, edge.target, edge.input)


def _unlink(node: dict[str, Any], gone: set[str]) -> None:
    if isinstance(node.get("inputs"), list):
        node["inputs"] = [
            {**each, "link": None} if id_text(each.get("link")) in gone else each for each in node["inputs"]
        ]
    if isinstance(node.get("outputs"), list):
        node["outputs"] = [
            {**each, "links": [link for link in list_of(each["links"]) if id_text(link) not in gone]}
            if any(id_text(link) in gone for link in list_of(each.get("links")))
            else each
            for each in node["outputs"]
        ]


class _Slots:
    """The slots of a node, which take new links; they are copied before the first."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node
        self._inputs: list[dict[str, Any]] | None = None
        self._outputs: list[dict[str, Any]] | None = None
        self._named: dict[str, int] = {}

    def leave(self, port: int, number: int) -> Any:
        """Have a link leave from an output; the type of that."""
        if self._outputs is None:
            self._outputs = [{**each, "links": [*list_of(each.get("links"))]} for each in self._written("outputs")]
            self.node["outputs"] = self._outputs
        if port >= len(self._outputs):
            return "*"
        self._outputs[port]["links"].append(number)
        return self._outputs[port].get("type", "*")

    def enter(self, name: str, number: int, kind: Any) -> int:
        """Have a link lead to the input of that name, which is made where there is none; the slot of it."""
        if self._inputs is None:
            self._inputs = [dict(each) for each in self._written("inputs")]
            self._named = {named(each, slot): slot for slot, each in reversed(list(enumerate(self._inputs)))}
            self.node["inputs"] = self._inputs
        slot = self._named.setdefault(name, len(self._inputs))
        if slot == len(self._inputs):
            self._inputs.append({"name": name, "type": kind})
        self._inputs[slot]["link"] = number
        return slot

    def _written(self, side: str) -> Sequence[Mapping[str, Any]]:
        return [mapping_of(each) for each in list_of(self.node.get(side))]
