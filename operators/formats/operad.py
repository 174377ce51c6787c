"""Operad's own YAML of a workflow of typed nodes, for people to read and write.

    workflow: translate
    nodes:
      1: {type: start, variables: [[text, string]]}
      2:
        type: if-else
        after: 1
        cases: [[null, [[[text, '1'], empty]]]]
      3:
        type: iteration
        after: {2: else}                # port else of 2; {2: 0} is its case 0
        iterator_selector: [text, '1']
        output_selector: [text, 3-2]
        nodes:                          # what runs inside
          3-1: {type: iteration-start}
          3-2: {type: llm, after: 3-1, system: '', user: 'Translate: {{#3.item#}}'}
      4: {type: end, after: [2, 3], outputs: [[translation, [output, '3']]]}

A node is ``id: {type, after, …its parameters…, nodes, extra}``. ``after`` is what comes before it: an id, ``{id: port}``,
``{from: id, port: …, input: …, extra: …}``, or a list of these. Where parameters are no mapping, or have one of these
names, they stand under ``params``.

What a workflow can be and no person would write has a place, too: ``nodes`` as a list of nodes with an ``id``, where
one is there twice; ``inside``, the node that one runs inside of, where it does not stand right below; ``edges``, those
to nodes that are not there, each with ``to``; ``order``, the places that the edges had, where they were not in the order
of the nodes that they lead to (leave it out for that order; it is not heeded where it does not fit).

``load(dump(graph)) == graph`` for every graph whose values are JSON's: that is the normal form. Ids need no quotes where
they are keys or in ``after``; in parameters, ``'3'`` is a text and ``3`` a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import yaml

from operad.operators.formats.format import Format
from operad.operators.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.document import MAX_BYTES, MAX_DEPTH, Document, Path_, parse_document
from operad.runtime.errors import InputError, InvalidError, Issue, did_you_mean

_TOP = ("workflow", "nodes", "edges", "order", "extra")
_EDGE = ("from", "to", "port", "input", "extra")
_OWN = ("id", "type", "inside", "after", "params", "nodes", "extra")
"""The keys of a node that are no parameters."""

ELSE = "else"

MAX_LINE = 88
"""How long what stands on one line may be, in characters."""

_STR = "tag:yaml.org,2002:str"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")
_NO_BLOCK = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What only double quotes hold."""


# Reading


def load(data: bytes, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        data: The YAML.
        name: What to call it where it does not say.

    Raises:
        InvalidError: It is not of that form; every issue is listed with its line.
    """
    return _Reader(_document(data, name)).graph(name)


def node_lines(data: bytes, name: str = "workflow") -> dict[str, int]:
    """The line of each node of a workflow by its id, counted from 1; for the issues that a check finds.

    Raises:
        InvalidError: As `load`.
    """
    reader = _Reader(_document(data, name))
    reader.graph(name)
    return reader.lines


def is_it(data: bytes) -> bool:
    """Whether it begins as these files do."""
    keys = re.findall(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", data[:MAX_BYTES], re.MULTILINE)
    return b"nodes" in keys and not re.search(
        rb"^(schema_version|kind|version|app)[ \t]*:", data[:MAX_BYTES], re.MULTILINE
    )


def _document(data: bytes, name: str) -> Document:
    if len(data) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes, and {MAX_BYTES:,} are the most")])
    try:
        return parse_document(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise InvalidError(
            name, [Issue("format", f"is no text in UTF-8: {error.reason} at byte {error.start}")]
        ) from error
    except InputError as error:
        raise InvalidError(name, [Issue("format", "is empty; write workflow: and nodes:")]) from error


class _Reader:
    """Reads one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self._nodes: list[NodeSpec] = []
        self._edges: list[tuple[Edge, Path_]] = []
        self._elses: set[int] = set()
        self.lines: dict[str, int] = {}

    def graph(self, name: str) -> NodeGraph:
        root = self._document.data
        self._known(root, _TOP, ())
        name = self._text(root, "workflow", (), name)
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
        return NodeGraph(self._nodes, edges, name, extra)

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
            parent = self._id(fields["inside"], (*path, "inside"))
        self._check_values(params, (*path, "params") if "params" in fields else path)
        self._nodes.append(
            NodeSpec(node_id, self._text(fields, "type", path), params, parent, self._extra(fields, path))
        )
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
        self._known(fields, _EDGE if target is None else tuple(key for key in _EDGE if key != "to"), path)
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
                found = _else_port(by_id.get(edge.source))
                if found is None:
                    self._report("port", f"{edge.source!r} is no if-else node with cases, so it has no port else", path)
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
                self._report("unknown-key", f"is no key here{hint}; there are: {', '.join(known)}", (*path, key))

    def _text(self, fields: Mapping[str, Any], key: str, path: Path_, default: str = "") -> str:
        value = fields.get(key, default)
        if isinstance(value, str):
            return value
        self._report("shape", f"must be a text; put it in quotes, not {_shown(value)}", (*path, key))
        return default

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


def _else_port(node: NodeSpec | None) -> int | None:
    params: Any = node.params if node is not None and node.type == "if-else" else None
    cases: Any = cast("Mapping[str, Any]", params).get("cases") if isinstance(params, Mapping) else None
    return len(cast("list[Any]", cases)) if isinstance(cases, list) else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# Writing


def dump(graph: NodeGraph) -> bytes:
    """Write a workflow. The same one gives the same bytes.

    Raises:
        InvalidError: Values in it are nested deeper than such a file can be.
    """
    root: dict[str, yaml.Node] = {"workflow": _text_node(graph.name)}
    by_id = graph.by_id
    arriving: dict[str, list[tuple[int, Edge]]] = {}
    for number, edge in enumerate(graph.edges):
        arriving.setdefault(edge.target, []).append((number, edge))
    order: list[int] = []
    level = _Level()
    open_: list[tuple[str, _Level]] = [("", level)]
    for node in graph.nodes:
        around = next((place for place in range(len(open_) - 1, -1, -1) if open_[place][0] == node.parent), 0)
        del open_[around + 1 :]
        here = open_[-1]
        leading = arriving.pop(node.id, [])
        order += (number for number, _ in leading)
        inner = here[1].add(node, [edge for _, edge in leading], by_id, inside=here[0] != node.parent)
        if node.id:
            open_.append((node.id, inner))
    root["nodes"] = level.written()
    left = [(number, edge) for numbered in arriving.values() for number, edge in numbered]
    if left:
        order += (number for number, _ in left)
        root["edges"] = yaml.SequenceNode(
            "tag:yaml.org,2002:seq", [_edge_node(edge, by_id, to=True) for _, edge in left]
        )
    if order != sorted(order):
        places = sorted(range(len(order)), key=order.__getitem__)
        root["order"] = _flow([_value_node(place) for place in places])
    if graph.extra:
        root["extra"] = _value_node(_plain(graph.extra))
    serialize = cast("Callable[..., str]", yaml.serialize)  # pyright: ignore[reportUnknownMemberType]
    text = serialize(_mapping_node(root), Dumper=_Dumper, allow_unicode=True, width=10**9, line_break="\n")
    return text.encode("utf-8")


def losses(graph: NodeGraph) -> list[Issue]:
    """What is not held exactly: values that are none of JSON's."""
    of_workflow = [("what is extra of the workflow", "", graph.extra)]
    of_nodes = [
        (what, node.id, value)
        for node in graph.nodes
        for what, value in (("parameters", node.params), ("extra", node.extra))
    ]
    of_edges = [("extra", f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    return [
        Issue("loss", f"{what}: there are values that are none of JSON's; they are written as texts or lists", where)
        for what, where, value in (*of_workflow, *of_nodes, *of_edges)
        if not _is_plain(value)
    ]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks even where they have tabs, or blanks at the ends of lines."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = cast("Any", super()).analyze_scalar(scalar)
        analysis.allow_block = analysis.allow_block or ("\n" in scalar and not _NO_BLOCK.search(scalar))
        return analysis


class _Level:
    """The nodes inside of one, as they are written."""

    def __init__(self) -> None:
        self._nodes: list[tuple[str, dict[str, yaml.Node], bool, _Level]] = []

    def add(self, node: NodeSpec, edges: Sequence[Edge], by_id: Mapping[str, NodeSpec], *, inside: bool) -> _Level:
        fields: dict[str, yaml.Node] = {"type": _text_node(node.type)}
        short = True
        if inside:
            fields["inside"] = _id_node(node.parent)
        if edges:
            after = [_edge_node(edge, by_id) for edge in edges]
            short = not any(edge.input or edge.extra for edge in edges)
            fields["after"] = after[0] if len(after) == 1 else _flow(after)
        params = _plain(node.params)
        if isinstance(params, dict) and not params.keys() & set(_OWN):
            fields |= {key: _value_node(value) for key, value in cast("dict[str, Any]", params).items()}
        else:
            fields["params"] = _value_node(params)
        if node.extra:
            fields["extra"] = _value_node(_plain(node.extra))
        size = len(node.id) + sum(len(edge.source) + 4 for edge in edges)
        short = short and not node.extra and _fits([node.type, params], MAX_LINE - size)
        level = _Level()
        self._nodes.append((node.id, fields, short, level))
        return level

    def written(self) -> yaml.Node:
        """All of it, as a mapping by id; as a list where an id is there twice."""
        ids = [node_id for node_id, *_ in self._nodes]
        listed = len(set(ids)) < len(ids)
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        for node_id, fields, short, level in self._nodes:
            if listed:
                fields = {"id": _id_node(node_id), **fields}
            if level._nodes:
                extra = fields.pop("extra", None)
                fields = {**fields, "nodes": level.written(), **({"extra": extra} if extra else {})}
                short = False
            pairs.append((_id_node(node_id), _mapping_node(fields, flow=short)))
        if listed:
            return yaml.SequenceNode("tag:yaml.org,2002:seq", [value for _, value in pairs], flow_style=False)
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)


def _edge_node(edge: Edge, by_id: Mapping[str, NodeSpec], *, to: bool = False) -> yaml.Node:
    is_else = edge.port > 0 and edge.port == _else_port(by_id.get(edge.source))
    port = _text_node(ELSE) if is_else else _value_node(edge.port)
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
        fields["input"] = _text_node(edge.input)
    if edge.extra:
        fields["extra"] = _value_node(_plain(edge.extra))
    return _mapping_node(fields, flow=True)


def _flow(items: list[yaml.Node]) -> yaml.Node:
    return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=True)


def _mapping_node(fields: Mapping[str, yaml.Node], *, flow: bool = False) -> yaml.MappingNode:
    pairs = [(_text_node(key), value) for key, value in fields.items()]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow or not pairs)


def _id_node(node_id: str) -> yaml.ScalarNode:
    """An id, without quotes where it is read as the same text without them."""
    if _NUMBER.fullmatch(node_id):
        return yaml.ScalarNode("tag:yaml.org,2002:int", node_id)
    return _text_node(node_id)


def _text_node(text: str) -> yaml.ScalarNode:
    style = None
    if _NO_BLOCK.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return yaml.ScalarNode(_STR, text, style=style)


_scalar = cast("Callable[[Any], yaml.Node]", yaml.representer.SafeRepresenter().represent_data)  # pyright: ignore[reportUnknownMemberType]


def _value_node(value: Any) -> yaml.Node:
    if isinstance(value, str):
        return _text_node(value)
    if isinstance(value, list):
        items = [_value_node(item) for item in cast("list[Any]", value)]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=_fits(value, MAX_LINE))
    if isinstance(value, dict):
        pairs = [(_text_node(key), _value_node(item)) for key, item in cast("dict[str, Any]", value).items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=_fits(value, MAX_LINE))
    return _scalar(value)


def _fits(value: Any, most: int) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return len(text) <= most and "\\n" not in text


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as one of JSON's."""
    if depth > MAX_DEPTH - 20:
        raise InvalidError(
            "the workflow", [Issue("depth", f"values in it are nested deeper than {MAX_DEPTH - 20} levels")]
        )
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _is_plain(value: Any) -> bool:
    return all(type(each) in (dict, list, str, int, float, bool, type(None)) for each in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """A value and all in it; keys, too."""
    open_ = [value]
    while open_:
        yield (value := open_.pop())
        if isinstance(value, Mapping):
            open_ += [each for pair in cast("Mapping[Any, Any]", value).items() for each in pair]
        elif isinstance(value, list | tuple):
            open_ += cast("Sequence[Any]", value)


OPERAD = Format("operad", ".operad.yaml", is_it, load, dump, losses)
"""Operad's own YAML of typed nodes."""
