"""Format of Operad: YAML of typed nodes for people to read and write.

    workflow: translate
    instructions: [Translate a text.]   # the instructions it was generated from, round by round
    notes: [Only plain text.]           # what it does not fulfil, and assumptions
    samples: {5: {temp: 21}}            # what other systems answer to nodes, for dry runs and tests; runs ignore them
    sticky_notes:                       # notes on the canvas, in Markdown; runs ignore them
      1: {text: Mind the **opening hours**., color: blue, at: [0, -160], size: [240, 120]}
    nodes:
      1: {type: start, variables: {text: string}}
      2:
        type: if-else
        title: Anything to do?
        after: 1
        cases: [{conditions: [{variable: 1.text, operator: empty}]}]
      3:
        type: iteration
        after: {2: else}                # port else of 2; {2: 0} is its case 0
        iterator_selector: 1.text
        output_selector: 3-2.text
        nodes:                          # the nodes inside
          3-1: {type: iteration-start}
          3-2: {type: llm, after: 3-1, system: '', user: 'Translate: {{#3.item#}}'}
      4: {type: end, after: [2, 3], outputs: {translation: 3.output}}

A node is ``id: {type, title, after, …parameters…, nodes, extra}``. ``after`` names the predecessors: an id, ``{id: port}``,
``{from: id, port: …, input: …, extra: …}``, or a list of these. Parameters are written under ``params`` if they are not
a mapping, or if one has the name of another key of a node.

Every graph can be written, even an invalid one. ``nodes`` is a list of nodes with an ``id`` if an id occurs twice.
``inside`` names the container of a node that is not written right below it. ``edges`` lists the edges to missing nodes,
each with ``to``. ``order`` lists the numbers of the edges if they are not in the order of their targets; it may be left
out, and is ignored if it does not fit.

Parameters are written with names, and variables as ``id.variable`` (`operad.operators.named_params`); the lists of
Chat2Workflow, ``[[text, string]]`` and ``[text, '1']``, can be read, too.

``load(dump(graph)) == graph`` holds for every graph of JSON values. Ids need no quotes as keys and in ``after``; in
parameters, ``'3'`` is a text and ``3`` a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import yaml

from operad.flows.formats.format import Format
from operad.flows.formats.json_text import is_plain, plain, read_text
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.formats.yaml_text import MAX_LINE, fits, list_node, mapping_node, serialized, text_node, value_node
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, NoteColor, StickyNote
from operad.operators.named_params import named, positional
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.text import shortened

_TOP = ("workflow", "instructions", "notes", "samples", "sticky_notes", "nodes", "edges", "order", "extra")
"""Keys of a workflow."""

_EDGE = ("from", "to", "port", "input", "extra")
"""Keys of an edge."""

_NOTE = ("text", "color", "at", "size", "extra")
"""Keys of a sticky note."""

_OWN = ("id", "type", "title", "inside", "after", "params", "nodes", "extra")
"""Keys of a node besides its parameters."""

_ELSE = "else"
"""Name of the port of an if-else node that is taken if no case fits."""


def _else_port(node: NodeSpec | None) -> int | None:
    """Return the number of the port `_ELSE`; None if the node is not an if-else node with cases."""
    cases = fields_of(node.params).get("cases") if node is not None and node.type == "if-else" else None
    return len(list_of(cases)) if isinstance(cases, list) else None


def _read(data: bytes, name: str) -> NodeGraph:
    return Reader(_document_of(data, name)).graph(name)


def node_lines(data: bytes, name: str = "workflow") -> dict[str, int]:
    """Return the line of each node of a workflow by its id, from 1.

    Raises:
        InvalidError: The content is not such a file.
    """
    reader = Reader(_document_of(data, name))
    reader.graph(name)
    return reader.lines


def is_it(data: bytes) -> bool:
    """Return True if a file has the keys of such a file, no key of another format, and no list of tasks as its nodes."""
    keys = re.findall(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", data[:MAX_BYTES], re.MULTILINE)
    return (
        b"nodes" in keys
        and not re.search(
            rb"^(schema_version|kind|version|app|viewport)[ \t]*:"
            rb"|^edges[ \t]*:[ \t]*\r?\n(?:[ \t-][^\n]*\n){0,9}?[ \t-][^\n]*\bsource[\"']?[ \t]*:"  # ours lead `from` and `to`
            rb"|^nodes[ \t]*:[ \t]*(?:\r?\n[ \t]*\d+[:.)][ \t]*)?[^\s{\[#]",
            data[:MAX_BYTES],
            re.MULTILINE,
        )
    )


def _document_of(data: bytes, name: str) -> Document:
    """Return the values of a file, with their lines.

    Raises:
        InvalidError: The file is too large, not UTF-8, empty, or not YAML.
    """
    try:
        return parse_document(read_text(data, name, MAX_BYTES), name)
    except InputError as error:
        raise InvalidError(name, [Issue("format", "is empty; write workflow: and nodes:")]) from error


_MAX_DISTANCE = 1e7
"""Maximum number of pixels of a position, or of a side of a sticky note."""


class Reader:
    """Reader of one document.

    Args:
        document: The values of the file.

    Attributes:
        lines: The line of each node that was read, by its id, from 1.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self._nodes: list[NodeSpec] = []
        self._edges: list[tuple[Edge, Path_]] = []
        self._else_edges: set[int] = set()
        self.lines: dict[str, int] = {}

    def graph(self, name: str) -> NodeGraph:
        """Return the workflow; `name` is the name of a workflow that has none.

        Raises:
            InvalidError: The document is not such a workflow; every issue is listed with its line.
        """
        root = self._document.data
        self._check_keys(root, _TOP, ())
        name = self._read_text(root, "workflow", (), name)
        instructions = self._read_texts(root, "instructions")
        notes = self._read_texts(root, "notes")
        samples = self._read_mapping(root.get("samples", {}), ("samples",))
        listed = self._read_mapping(root.get("sticky_notes", {}), ("sticky_notes",))
        sticky_notes = tuple(self._read_sticky_note(note_id, each) for note_id, each in listed.items())
        extra = self._read_extra(root, ())
        if "nodes" in root:
            self._read_nodes(root["nodes"], ("nodes",), "")
        else:
            self._report("missing-key", f"nodes: is missing{did_you_mean('nodes', root)}", ())
        for number, edge in enumerate(self._read_list(root.get("edges", []), ("edges",))):
            self._read_edge(edge, ("edges", number), None)
        edges = self._ordered(self._with_else_ports(), root.get("order"))
        if self._issues:
            raise InvalidError(self._document.name, self._issues)
        return NodeGraph(self._nodes, edges, name, extra, instructions, notes, samples, sticky_notes)

    def _read_sticky_note(self, note_id: str, given: Any) -> StickyNote:
        path: Path_ = ("sticky_notes", note_id)
        fields = self._read_mapping(given, path)
        self._check_keys(fields, _NOTE, path)
        text, color = self._read_text(fields, "text", path), self._read_text(fields, "color", path, "yellow")
        if color not in get_args(NoteColor):
            known = ", ".join(get_args(NoteColor))
            self._report(
                "value",
                f"there is no color {color!r:.60}{did_you_mean(color, known.split(', '))}; there are: {known}",
                (*path, "color"),
            )
        pair = {key: self._read_pair(fields[key], (*path, key)) for key in ("at", "size") if key in fields}
        if min(pair.get("size", (1, 1))) <= 0:
            self._report("value", "width and height must be positive", (*path, "size"))
        return StickyNote(note_id, text, cast("NoteColor", color), **pair, extra=self._read_extra(fields, path))

    def _read_pair(self, value: Any, path: Path_) -> tuple[float, float]:
        numbers = cast("list[Any]", value) if isinstance(value, list) else []
        if len(numbers) == 2 and all(type(each) in (int, float) and abs(each) <= _MAX_DISTANCE for each in numbers):
            return numbers[0], numbers[1]
        self._report("value", f"must be two numbers of pixels, such as [240, 120], not {_shown(value)}", path)
        return 1, 1

    # Nodes

    def _read_nodes(self, given: Any, path: Path_, parent: str) -> None:
        """Read the nodes of the workflow or of a container, which are a mapping by id or a list."""
        if isinstance(given, list):
            for index, node in enumerate(cast("list[Any]", given)):
                node_path = (*path, index)
                fields = self._read_mapping(node, node_path)
                if "id" not in fields:
                    self._report("missing-key", "id: is missing", node_path)
                self._read_node(self._read_id(fields.get("id", ""), (*node_path, "id")), fields, node_path, parent)
        else:
            for node_id, node in self._read_mapping(given, path).items():
                fields = self._read_mapping(node, (*path, node_id))
                if "id" in fields:
                    self._report(
                        "unknown-key", "id: is the key of the node already; use params: for one", (*path, node_id)
                    )
                self._read_node(node_id, fields, (*path, node_id), parent)

    def _read_node(self, node_id: str, fields: Mapping[str, Any], path: Path_, parent: str) -> None:
        self.lines.setdefault(node_id, self._document.line(path))
        if "type" not in fields:
            self._report("missing-key", f"type: is missing{did_you_mean('type', fields)}", path)
        params: Any = {key: value for key, value in fields.items() if key not in _OWN}
        if "params" in fields:
            for key in params:
                self._report(
                    "unknown-key", f"{key}: all parameters stand under params, where that is there", (*path, key)
                )
            params = fields["params"]
        if "inside" in fields:
            if parent:
                self._report("inside", f"it stands inside {parent!r} already; leave this out", (*path, "inside"))
            parent = self._read_id(fields["inside"], (*path, "inside"))
        node_type = self._read_text(fields, "type", path)
        if node_type in NODE_TYPES:
            params = positional(NODE_TYPES[node_type].params_type, params)
        title = self._read_text(fields, "title", path)
        self._nodes.append(NodeSpec(node_id, node_type, params, parent, self._read_extra(fields, path), title))
        after = fields.get("after", [])
        is_list = isinstance(after, list)
        for index, edge in enumerate(cast("list[Any]", after) if is_list else [after]):
            self._read_edge(edge, (*path, "after", index) if is_list else (*path, "after"), node_id)
        if "nodes" in fields:
            self._read_nodes(fields["nodes"], (*path, "nodes"), node_id)

    # Edges

    def _read_edge(self, given: Any, path: Path_, target: str | None) -> None:
        """Read an edge; `target` is the node whose ``after`` contains it, or None for an edge of ``edges``."""
        if not isinstance(given, Mapping):
            self._add_edge(given, 0, path, self._required_target(target, path))
            return
        fields = cast("Mapping[str, Any]", given)
        if "from" not in fields and target is not None:
            for source, port in fields.items():
                self._add_edge(source, port, path, target)
            return
        self._check_keys(fields, _EDGE if target is None else tuple(key for key in _EDGE if key != "to"), path)
        for key in ("from", "to") if target is None else ():
            if key not in fields:
                self._report("missing-key", f"{key}: is missing", path)
        target = self._read_id(fields.get("to", ""), (*path, "to")) if target is None else target
        self._add_edge(
            fields.get("from", ""), fields.get("port", 0), path, target,
            self._read_text(fields, "input", path), self._read_extra(fields, path),
        )  # fmt: skip

    def _add_edge(
        self, source: Any, port: Any, path: Path_, target: str, input: str = "", extra: Mapping[str, Any] | None = None
    ) -> None:
        """Add an edge; the number of the port ``else`` is set when all nodes are read."""
        if port == _ELSE:
            self._else_edges.add(len(self._edges))
            port = 0
        elif isinstance(port, bool) or not isinstance(port, int):
            self._report("port", f"a port is a number from 0, or else, not {_shown(port)}", path)
            port = 0
        self._edges.append((Edge(self._read_id(source, path), target, port, input, extra or {}), path))

    def _required_target(self, target: str | None, path: Path_) -> str:
        if target is None:
            self._report("edge", "an edge here is {from: id, to: id}", path)
        return target or ""

    def _with_else_ports(self) -> list[Edge]:
        """Return the edges, with the number of the port for ``else``."""
        by_id = NodeGraph(self._nodes).by_id
        edges: list[Edge] = []
        for index, (edge, path) in enumerate(self._edges):
            port = edge.port
            if index in self._else_edges:
                else_number = _else_port(by_id.get(edge.source))
                if else_number is None:
                    self._report(
                        "port", f"{edge.source!r} is not an if-else node with cases, so it has no port else", path
                    )
                port = else_number or 0
            edges.append(Edge(edge.source, edge.target, port, edge.input, edge.extra))
        return edges

    def _ordered(self, edges: list[Edge], order: Any) -> list[Edge]:
        """Return the edges in the order that the file gives; in their own order if it gives none or does not fit."""
        if order is None:
            return edges
        positions = self._read_list(order, ("order",))
        if any(isinstance(position, bool) or not isinstance(position, int) for position in positions):
            self._report("order", "must be a list of numbers; or leave it out", ("order",))
        elif sorted(positions) == list(range(len(edges))):
            return [edges[position] for position in positions]
        return edges

    # Values

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))

    def _check_keys(self, fields: Mapping[str, Any], known: Sequence[str], path: Path_) -> None:
        for key in fields:
            if key not in known:
                hint = did_you_mean(key, known)
                self._report("unknown-key", f"is not a key here{hint}; there are: {', '.join(known)}", (*path, key))

    def _read_text(self, fields: Mapping[str, Any], key: str, path: Path_, default: str = "") -> str:
        value = fields.get(key, default)
        return value if self._is_text(value, (*path, key)) else default

    def _read_texts(self, fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
        given = self._read_list(fields.get(key, []), (key,))
        return tuple(text for number, text in enumerate(given) if self._is_text(text, (key, number)))

    def _is_text(self, value: Any, path: Path_) -> bool:
        if not isinstance(value, str):
            self._report("shape", f"must be a text; put it in quotes, not {_shown(value)}", path)
        return isinstance(value, str)

    def _read_id(self, value: Any, path: Path_) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._report("id", f"must be an id; put it in quotes, not {_shown(value)}", path)
        return ""

    def _read_extra(self, fields: Mapping[str, Any], path: Path_) -> Mapping[str, Any]:
        return self._read_mapping(fields.get("extra", {}), (*path, "extra"))

    def _read_mapping(self, value: Any, path: Path_) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value)
        self._report("shape", f"must be a mapping of keys to values, not {_shown(value)}", path)
        return {}

    def _read_list(self, value: Any, path: Path_) -> list[Any]:
        if isinstance(value, list):
            return cast("list[Any]", value)
        self._report("shape", f"must be a list, not {_shown(value)}", path)
        return []


def _shown(value: Any) -> str:
    return shortened(repr(value), 60)


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
        samples = [(_id_node(node_id), value_node(plain(answer))) for node_id, answer in graph.samples.items()]
        root["samples"] = yaml.MappingNode("tag:yaml.org,2002:map", samples)
    if graph.sticky_notes:
        notes = [(_id_node(note.id), _note_node(note)) for note in graph.sticky_notes]
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
            fields["inside"] = _id_node(node.parent)
        if edges:
            after = [_edge_node(edge, by_id) for edge in edges]
            short = not any(edge.input or edge.extra for edge in edges)
            fields["after"] = after[0] if len(after) == 1 else list_node(after, flow=True)
        params = plain(node.params)
        if node.type in NODE_TYPES:
            params = named(NODE_TYPES[node.type].params_type, params)
        if isinstance(params, dict) and not params.keys() & set(_OWN):
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
                fields = {"id": _id_node(node_id), **fields}
            if level._nodes:
                extra = fields.pop("extra", None)
                fields = {**fields, "nodes": level.written(), **({"extra": extra} if extra else {})}
                short = False
            pairs.append((_id_node(node_id), mapping_node(fields, flow=short)))
        if as_list:
            return list_node([value for _, value in pairs])
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)


def _id_node(node_id: str) -> yaml.ScalarNode:
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
    is_else = edge.port > 0 and edge.port == _else_port(by_id.get(edge.source))
    port = text_node(_ELSE) if is_else else value_node(edge.port)
    if not (edge.input or edge.extra or to):
        source = _id_node(edge.source)
        if edge.port == 0:
            return source
        if edge.source != "from":
            return yaml.MappingNode("tag:yaml.org,2002:map", [(source, port)], flow_style=True)
    fields: dict[str, yaml.Node] = {"from": _id_node(edge.source)}
    if to:
        fields["to"] = _id_node(edge.target)
    if edge.port:
        fields["port"] = port
    if edge.input:
        fields["input"] = text_node(edge.input)
    if edge.extra:
        fields["extra"] = value_node(plain(edge.extra))
    return mapping_node(fields, flow=True)


def _losses(graph: NodeGraph) -> list[Issue]:
    """Return the values that are not kept exactly: those that JSON does not have."""
    of_workflow = [("what is extra of the workflow", "", graph.extra), ("a sample of an answer", "", graph.samples)]
    of_workflow += [("extra of a sticky note", "", note.extra) for note in graph.sticky_notes]
    of_nodes = [
        (subject, node.id, value)
        for node in graph.nodes
        for subject, value in (("parameters", node.params), ("extra", node.extra))
    ]
    of_edges = [("extra", f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    return [
        Issue("loss", f"{subject}: there are values that are none of JSON's; they are written as texts or lists", where)
        for subject, where, value in (*of_workflow, *of_nodes, *of_edges)
        if not is_plain(value)
    ]


OPERAD = Format("operad", ".operad.yaml", is_it, _read, dump, _losses, lines=node_lines, keeps_notes=True)
"""Format of Operad's own YAML of typed nodes."""

load, losses = OPERAD.load, OPERAD.losses

__all__ = ["OPERAD", "dump", "is_it", "load", "losses", "node_lines"]
