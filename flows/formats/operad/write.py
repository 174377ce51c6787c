"""Writer of Operad's YAML files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml

from operad.flows.formats.operad.keys import ELSE, OWN, else_port
from operad.flows.formats.plain import plain
from operad.flows.formats.yaml_text import MAX_LINE, fits, list_node, mapping_node, serialized, text_node, value_node
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, StickyNote
from operad.operators.named_params import named
from operad.operators.nodes import NODE_TYPES

_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")


def dump(graph: NodeGraph) -> bytes:
    """Return the file of a workflow, short nodes on one line; the same workflow gives the same bytes.

    Raises:
        InvalidError: Values of the workflow are nested too deep.
    """
    root, by_id = _head(graph), graph.by_id
    edges_into: dict[str, list[tuple[int, Edge]]] = {}
    for number, edge in enumerate(graph.edges):
        edges_into.setdefault(edge.target, []).append((number, edge))
    order: list[int] = []
    level = _Level()
    open_levels: list[tuple[str, _Level]] = [("", level)]
    for node in graph.nodes:
        depth = next(
            (position for position in range(len(open_levels) - 1, -1, -1) if open_levels[position][0] == node.parent), 0
        )
        del open_levels[depth + 1 :]
        current = open_levels[-1]
        edges = edges_into.pop(node.id, [])
        order += (number for number, _ in edges)
        inner_level = current[1].add(node, [edge for _, edge in edges], by_id, inside=current[0] != node.parent)
        if node.id:
            open_levels.append((node.id, inner_level))
    root["nodes"] = level.written()
    edges_to_missing = [(number, edge) for numbered in edges_into.values() for number, edge in numbered]
    if edges_to_missing:
        order += (number for number, _ in edges_to_missing)
        root["edges"] = list_node([_edge_node(edge, by_id, to=True) for _, edge in edges_to_missing])
    if order != sorted(order):
        positions = sorted(range(len(order)), key=order.__getitem__)
        root["order"] = list_node([value_node(position) for position in positions], flow=True)
    if graph.extra:
        root["extra"] = value_node(plain(graph.extra))
    return serialized(mapping_node(root)).encode()


def _head(graph: NodeGraph) -> dict[str, yaml.Node]:
    """Return what stands before the nodes."""
    root: dict[str, yaml.Node] = {"workflow": text_node(graph.name)}
    if graph.instructions:
        root["instructions"] = value_node(plain(graph.instructions))
    if graph.notes:
        root["notes"] = value_node(plain(graph.notes))
    if graph.samples:
        samples = [(id_node(node_id), value_node(plain(answer))) for node_id, answer in graph.samples.items()]
        root["samples"] = yaml.MappingNode("tag:yaml.org,2002:map", samples)
    if graph.sticky_notes:
        notes = [(id_node(note.id), _note_node(note)) for note in graph.sticky_notes]
        root["sticky_notes"] = yaml.MappingNode("tag:yaml.org,2002:map", notes)
    return root


class _Level:
    """Nodes of the workflow, or inside one container, in the form of a file."""

    def __init__(self) -> None:
        self._nodes: list[tuple[str, dict[str, yaml.Node], bool, _Level]] = []

    def add(self, node: NodeSpec, edges: Sequence[Edge], by_id: Mapping[str, NodeSpec], *, inside: bool) -> _Level:
        """Add a node with its incoming edges; return the level of the nodes inside it."""
        fields: dict[str, yaml.Node] = {"type": text_node(node.type)}
        short = True
        if node.title:
            fields["title"] = text_node(node.title)
        if inside:
            fields["inside"] = id_node(node.parent)
        if edges:
            after = [_edge_node(edge, by_id) for edge in edges]
            short = not any(edge.input or edge.extra for edge in edges)
            fields["after"] = after[0] if len(after) == 1 else list_node(after, flow=True)
        params = plain(node.params)
        if node.type in NODE_TYPES:
            params = named(NODE_TYPES[node.type].params_type, params)
        if isinstance(params, dict) and not params.keys() & set(OWN):
            fields |= {key: value_node(value) for key, value in cast("dict[str, Any]", params).items()}
        else:
            fields["params"] = value_node(params)
        if node.extra:
            fields["extra"] = value_node(plain(node.extra))
        size = len(node.id) + sum(len(edge.source) + 4 for edge in edges)
        short = short and not node.extra and fits([node.type, node.title, params], MAX_LINE - size)
        level = _Level()
        self._nodes.append((node.id, fields, short, level))
        return level

    def written(self) -> yaml.Node:
        """Return the nodes as a mapping by id, or as a list if an id occurs twice."""
        ids = [node_id for node_id, *_ in self._nodes]
        as_list = len(set(ids)) < len(ids)
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        for node_id, fields, short, level in self._nodes:
            if as_list:
                fields = {"id": id_node(node_id), **fields}
            if level._nodes:
                extra = fields.pop("extra", None)
                fields = {**fields, "nodes": level.written(), **({"extra": extra} if extra else {})}
                short = False
            pairs.append((id_node(node_id), mapping_node(fields, flow=short)))
        if as_list:
            return list_node([value for _, value in pairs])
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)


def id_node(node_id: str) -> yaml.ScalarNode:
    """Return an id; without quotes if it is a number, which is read back as the same text."""
    return yaml.ScalarNode("tag:yaml.org,2002:int", node_id) if _NUMBER.fullmatch(node_id) else text_node(node_id)


def _note_node(note: StickyNote) -> yaml.Node:
    """Return a sticky note, without fields that have their default."""
    default = StickyNote(note.id)
    fields: dict[str, yaml.Node] = {"text": text_node(note.text)}
    if note.color != default.color:
        fields["color"] = text_node(note.color)
    if note.at is not None:
        fields["at"] = list_node([value_node(each) for each in note.at], flow=True)
    if note.size != default.size:
        fields["size"] = list_node([value_node(each) for each in note.size], flow=True)
    if note.extra:
        fields["extra"] = value_node(plain(note.extra))
    return mapping_node(fields, flow=not note.extra and fits([note.text], MAX_LINE - 60))


def _edge_node(edge: Edge, by_id: Mapping[str, NodeSpec], *, to: bool = False) -> yaml.Node:
    """Return an edge in its shortest form; with its target if `to` is True."""
    is_else = edge.port > 0 and edge.port == else_port(by_id.get(edge.source))
    port = text_node(ELSE) if is_else else value_node(edge.port)
    if not (edge.input or edge.extra or to):
        source = id_node(edge.source)
        if edge.port == 0:
            return source
        if edge.source != "from":
            return yaml.MappingNode("tag:yaml.org,2002:map", [(source, port)], flow_style=True)
    fields: dict[str, yaml.Node] = {"from": id_node(edge.source)}
    if to:
        fields["to"] = id_node(edge.target)
    if edge.port:
        fields["port"] = port
    if edge.input:
        fields["input"] = text_node(edge.input)
    if edge.extra:
        fields["extra"] = value_node(plain(edge.extra))
    return mapping_node(fields, flow=True)
