"""Reader of Operad's YAML files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from operad.flows.formats.json_text import read_text
from operad.flows.formats.operad.keys import EDGE, ELSE, NOTE, OWN, TOP, else_port
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, NoteColor, StickyNote
from operad.operators.named_params import positional
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.text import shortened


def document_of(data: bytes, name: str) -> Document:
    """Return the values of a file, with their lines.

    Raises:
        InvalidError: The file is too large, not UTF-8, empty, or not YAML.
    """
    try:
        return parse_document(read_text(data, name, MAX_BYTES), name)
    except InputError as error:
        raise InvalidError(name, [Issue("format", "is empty; write workflow: and nodes:")]) from error


MAX_DISTANCE = 1e7
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
        self._check_keys(root, TOP, ())
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
        self._check_keys(fields, NOTE, path)
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
        if len(numbers) == 2 and all(type(each) in (int, float) and abs(each) <= MAX_DISTANCE for each in numbers):
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
        params: Any = {key: value for key, value in fields.items() if key not in OWN}
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
        self._check_keys(fields, EDGE if target is None else tuple(key for key in EDGE if key != "to"), path)
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
        if port == ELSE:
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
                else_number = else_port(by_id.get(edge.source))
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
