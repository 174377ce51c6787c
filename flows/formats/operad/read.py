"""A file → a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from operad.flows.formats.operad.keys import EDGE, ELSE, OWN, TOP, else_port
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.named_params import positional
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean


def document_of(data: bytes, name: str) -> Document:
    """The values of a file, with their lines.

    Raises:
        InvalidError: It is too large, no text, empty, or no YAML.
    """
    if len(data) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes, and {MAX_BYTES:,} are the most")])
    try:
        return parse_document(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise InvalidError(
            name, [Issue("format", f"is not text in UTF-8: {error.reason} at byte {error.start}")]
        ) from error
    except InputError as error:
        raise InvalidError(name, [Issue("format", "is empty; write workflow: and nodes:")]) from error


class Reader:
    """Reads one document.

    Args:
        document: The values of the file.

    Attributes:
        lines: The line of each node that was read, by its id, counted from 1.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self._nodes: list[NodeSpec] = []
        self._edges: list[tuple[Edge, Path_]] = []
        self._elses: set[int] = set()
        self.lines: dict[str, int] = {}

    def graph(self, name: str) -> NodeGraph:
        """The workflow; `name` is what to call it where the file does not say.

        Raises:
            InvalidError: It is not of the form; every issue is listed with its line.
        """
        root = self._document.data
        self._known(root, TOP, ())
        name = self._text(root, "workflow", (), name)
        instructions = self._texts(root, "instructions")
        notes = self._texts(root, "notes")
        extra = self._extra(root, ())
        if "nodes" in root:
            self._read_nodes(root["nodes"], ("nodes",), "")
        else:
            self._report("missing-key", f"nodes: is missing{did_you_mean('nodes', root)}", ())
        for number, edge in enumerate(self._list(root.get("edges", []), ("edges",))):
            self._read_edge(edge, ("edges", number), None)
        edges = self._in_order(self._numbered(), root.get("order"))
        if self._issues:
            raise InvalidError(self._document.name, self._issues)
        return NodeGraph(self._nodes, edges, name, extra, instructions, notes)

    # Nodes

    def _read_nodes(self, given: Any, path: Path_, parent: str) -> None:
        if isinstance(given, list):
            for number, node in enumerate(cast("list[Any]", given)):
                at = (*path, number)
                fields = self._mapping(node, at)
                if "id" not in fields:
                    self._report("missing-key", "id: is missing", at)
                self._read_node(self._id(fields.get("id", ""), (*at, "id")), fields, at, parent)
        else:
            for node_id, node in self._mapping(given, path).items():
                fields = self._mapping(node, (*path, node_id))
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
            parent = self._id(fields["inside"], (*path, "inside"))
        self._check_values(params, (*path, "params") if "params" in fields else path)
        kind = self._text(fields, "type", path)
        if kind in NODE_TYPES:
            params = positional(NODE_TYPES[kind].params_type, params)
        self._nodes.append(NodeSpec(node_id, kind, params, parent, self._extra(fields, path)))
        after = fields.get("after", [])
        several = isinstance(after, list)
        for number, edge in enumerate(cast("list[Any]", after) if several else [after]):
            self._read_edge(edge, (*path, "after", number) if several else (*path, "after"), node_id)
        if "nodes" in fields:
            self._read_nodes(fields["nodes"], (*path, "nodes"), node_id)

    # Edges

    def _read_edge(self, given: Any, path: Path_, target: str | None) -> None:
        if not isinstance(given, Mapping):
            self._add_edge(given, 0, path, self._needed(target, path))
            return
        fields = cast("Mapping[str, Any]", given)
        if "from" not in fields and target is not None:
            for source, port in fields.items():
                self._add_edge(source, port, path, target)
            return
        self._known(fields, EDGE if target is None else tuple(key for key in EDGE if key != "to"), path)
        for key in ("from", "to") if target is None else ():
            if key not in fields:
                self._report("missing-key", f"{key}: is missing", path)
        target = self._id(fields.get("to", ""), (*path, "to")) if target is None else target
        self._add_edge(
            fields.get("from", ""), fields.get("port", 0), path, target,
            self._text(fields, "input", path), self._extra(fields, path),
        )  # fmt: skip

    def _add_edge(
        self, source: Any, port: Any, path: Path_, target: str, input: str = "", extra: Mapping[str, Any] | None = None
    ) -> None:
        if port == ELSE:
            self._elses.add(len(self._edges))
            port = 0
        elif isinstance(port, bool) or not isinstance(port, int):
            self._report("port", f"a port is a number from 0, or else, not {_shown(port)}", path)
            port = 0
        self._edges.append((Edge(self._id(source, path), target, port, input, extra or {}), path))

    def _needed(self, target: str | None, path: Path_) -> str:
        if target is None:
            self._report("edge", "an edge here is {from: id, to: id}", path)
        return target or ""

    def _numbered(self) -> list[Edge]:
        """The edges with numbers for ``else``."""
        by_id = NodeGraph(self._nodes).by_id
        edges: list[Edge] = []
        for number, (edge, path) in enumerate(self._edges):
            port = edge.port
            if number in self._elses:
                found = else_port(by_id.get(edge.source))
                if found is None:
                    self._report(
                        "port", f"{edge.source!r} is not an if-else node with cases, so it has no port else", path
                    )
                port = found or 0
            edges.append(Edge(edge.source, edge.target, port, edge.input, edge.extra))
        return edges

    def _in_order(self, edges: list[Edge], order: Any) -> list[Edge]:
        if order is None:
            return edges
        places = self._list(order, ("order",))
        if any(isinstance(place, bool) or not isinstance(place, int) for place in places):
            self._report("order", "must be a list of numbers; or leave it out", ("order",))
        elif sorted(places) == list(range(len(edges))):
            return [edges[place] for place in places]
        return edges

    # Values

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))

    def _known(self, fields: Mapping[str, Any], known: Sequence[str], path: Path_) -> None:
        for key in fields:
            if key not in known:
                hint = did_you_mean(key, known)
                self._report("unknown-key", f"is not a key here{hint}; there are: {', '.join(known)}", (*path, key))

    def _text(self, fields: Mapping[str, Any], key: str, path: Path_, default: str = "") -> str:
        value = fields.get(key, default)
        return value if self._is_text(value, (*path, key)) else default

    def _texts(self, fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
        given = self._list(fields.get(key, []), (key,))
        return tuple(text for number, text in enumerate(given) if self._is_text(text, (key, number)))

    def _is_text(self, value: Any, path: Path_) -> bool:
        if not isinstance(value, str):
            self._report("shape", f"must be a text; put it in quotes, not {_shown(value)}", path)
        return isinstance(value, str)

    def _id(self, value: Any, path: Path_) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._report("id", f"must be an id; put it in quotes, not {_shown(value)}", path)
        return ""

    def _extra(self, fields: Mapping[str, Any], path: Path_) -> Mapping[str, Any]:
        extra = self._mapping(fields.get("extra", {}), (*path, "extra"))
        self._check_values(extra, (*path, "extra"))
        return extra

    def _mapping(self, value: Any, path: Path_) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value)
        self._report("shape", f"must be a mapping of keys to values, not {_shown(value)}", path)
        return {}

    def _list(self, value: Any, path: Path_) -> list[Any]:
        if isinstance(value, list):
            return cast("list[Any]", value)
        self._report("shape", f"must be a list, not {_shown(value)}", path)
        return []

    def _check_values(self, value: Any, path: Path_) -> None:
        """Dates and such, which YAML reads and JSON does not have."""
        if isinstance(value, Mapping):
            for key, item in cast("Mapping[str, Any]", value).items():
                self._check_values(item, (*path, key))
        elif isinstance(value, list):
            for number, item in enumerate(cast("list[Any]", value)):
                self._check_values(item, (*path, number))
        elif not isinstance(value, str | int | float | None):
            self._report("value", f"YAML reads a {type(value).__name__} here; put it in quotes for a text", path)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
