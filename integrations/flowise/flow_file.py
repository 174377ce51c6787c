"""Nodes and edges of a file of AgentFlow v2."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from operad.flows.formats.json_text import read_json, read_text, write_json
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import Edge, in_order
from operad.integrations.flowise.kinds import DECISIONS, START, STICKY_NOTE, SUFFIX, accepting
from operad.runtime.values.errors import InvalidError, Issue, shorten

_MARKS = re.compile(rb'"(?:inputParams|inputAnchors)"\s*:|"name"\s*:\s*"[a-zA-Z]+Agentflow"')
_RECORD = re.compile(rb'"flowData"\s*:\s*"\s*\{')
_V1 = ("Multi Agents", "Sequential Agents")


def is_it(data: bytes) -> bool:
    """Return True if a file looks like one of Flowise, also of the forms that cannot be read."""
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    if start and _RECORD.search(data):
        return True
    return start and b'"nodes"' in data and b'"edges"' in data and _MARKS.search(data) is not None


@dataclass(frozen=True)
class FlowNode:
    """Node of a file.

    Attributes:
        fields: The fields of the node.
        id: The id.
        parent: The id of the iteration that it is in; empty for none.
    """

    fields: Fields
    id: str
    parent: str

    @property
    def kind(self) -> str:
        """Name of the kind, such as ``llmAgentflow``."""
        return str(fields_of(self.fields["data"]).get("name"))

    @property
    def label(self) -> str:
        """Label that people gave the node."""
        label = fields_of(self.fields["data"]).get("label")
        return label if isinstance(label, str) else ""

    @property
    def inputs(self) -> Fields:
        """Values of the dialog."""
        return fields_of(fields_of(self.fields["data"]).get("inputs"))

    @cached_property
    def accepting(self) -> Collection[str]:
        """Names of the fields whose variables Flowise fills in: as the file says, otherwise those of the kind."""
        listed = each_of(fields_of(self.fields["data"]).get("inputParams"))
        if not listed:
            return accepting(self.kind)
        return {str(each.get("name")) for each in listed if each.get("acceptVariable") is True}


class Link(NamedTuple):
    """Edge of a file.

    Attributes:
        source: The id of the node that the edge leaves.
        target: The id of the node that the edge leads to.
        port: The number of the output; 0 for kinds with one.
    """

    source: str
    target: str
    port: int


class FlowFile:
    """Nodes and edges of a file.

    Args:
        root: The values of the file, which have the form of `faults`.

    Attributes:
        root: The values of the file.
        nodes: The nodes that run, by id, in the order of the file.
        links: The edges between them.
    """

    def __init__(self, root: Fields) -> None:
        self.root = root
        listed = [FlowNode(each, str(each["id"]), _parent(each)) for each in root["nodes"]]
        self.nodes: Mapping[str, FlowNode] = {node.id: node for node in listed if node.kind != STICKY_NOTE}
        self.links: Sequence[Link] = [
            Link(each["source"], each["target"], self._port(each))
            for each in root["edges"]
            if each["source"] in self.nodes and each["target"] in self.nodes
        ]

    def _port(self, edge: Fields) -> int:
        numbered = self.nodes[edge["source"]].kind in DECISIONS
        found = re.search(r"-output-([0-9]{1,6})$", str(edge.get("sourceHandle"))) if numbered else None
        return int(found[1]) if found else 0

    @cached_property
    def order(self) -> Sequence[str]:
        """Ids of the nodes, each after those before it."""
        return in_order(list(self.nodes), [Edge(each.source, each.target) for each in self.links])

    def before(self, node_id: str) -> set[str]:
        """Return the ids of the nodes from which a path leads to a node."""
        return self._closure(node_id, self._sources)

    def after(self, node_id: str, without: Collection[Link] = ()) -> set[str]:
        """Return the ids of the nodes to which a path leads from a node, without some edges."""
        targets: dict[str, list[str]] = {each: [] for each in self.nodes}
        for link in self.links:
            if link not in without:
                targets[link.source].append(link.target)
        return self._closure(node_id, targets)

    @cached_property
    def _sources(self) -> Mapping[str, list[str]]:
        sources: dict[str, list[str]] = {each: [] for each in self.nodes}
        for link in self.links:
            sources[link.target].append(link.source)
        return sources

    @staticmethod
    def _closure(node_id: str, next_of: Mapping[str, Sequence[str]]) -> set[str]:
        found: set[str] = set()
        pending = list(next_of[node_id])
        while pending:
            if (each := pending.pop()) not in found:
                found.add(each)
                pending += next_of[each]
        return found

    @cached_property
    def states(self) -> set[str]:
        """Names of the values of the flow's state."""
        first = [state for node in self.nodes.values() for state in each_of(node.inputs.get("startState"))]
        return self.states_set(self.nodes) | {key for each in first if isinstance(key := each.get("key"), str) and key}

    def states_set(self, nodes: Collection[str]) -> set[str]:
        """Return the names of the values of the flow's state that nodes set, or nodes inside them."""
        setting = [each.inputs for each in self.nodes.values() if each.id in nodes or each.parent in nodes]
        updates = [inputs[field] for inputs in setting for field in inputs if field.endswith("UpdateState")]
        return {
            key for listed in updates for each in each_of(listed) if isinstance(key := each.get("key"), str) and key
        }

    def ends(self, parent: str) -> list[str]:
        """Return the ids of the nodes of a level that no edge leaves."""
        left = {link.source for link in self.links}
        return [node.id for node in self.nodes.values() if node.parent == parent and node.id not in left]

    def mentions(self, node_id: str) -> bool:
        """Return True if a text of the file names the output of a node."""
        name = re.compile(r"\{\{\s*" + re.escape(node_id).replace("_", r"\\*_") + r"\s*(?:\}\}|\.output\.)")
        return any(name.search(text) for node in self.nodes.values() for text in _texts(node.inputs))


def _parent(node: Fields) -> str:
    parent = node.get("parentNode") or node.get("parentId")
    return parent if isinstance(parent, str) else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in [*fields_of(value).values(), *list_of(value)]:
        yield from _texts(each)


def read_file(data: bytes, name: str) -> FlowFile:
    """Return the nodes and edges of a file.

    Args:
        data: The file.
        name: The name of the file, for errors.

    Raises:
        InvalidError: The file is not JSON, or not an AgentFlow v2; every issue is listed.
    """
    root = read_json(read_text(data, name), name)
    if issues := list(faults(root)):
        raise InvalidError(name, issues)
    return FlowFile(root)


def faults(root: Any) -> Iterator[Issue]:
    """Yield the issues because of which the values of a file are not an AgentFlow v2."""
    fields = fields_of(root)
    missing = [key for key in ("nodes", "edges") if not isinstance(fields.get(key), list)]
    if missing and _RECORD.search(write_json(root)):
        yield Issue("format", "holds flows of Flowise as texts under flowData; save each text as a file of its own")
        return
    yield from (Issue("format", f"{key}: must be a list") for key in missing)
    if missing:
        return
    if other := _other_form(fields):
        yield Issue("format", f"{other}: only AgentFlow v2 is read; build the flow anew in Flowise, under Agentflows")
        return
    ids: set[str] = set()
    for number, node in enumerate(fields["nodes"]):
        where, given = f"nodes[{number}]", fields_of(node)
        node_id = given.get("id")
        if not isinstance(node_id, str) or not node_id:
            yield Issue("misshapen-node", f"{where}: must have an id, a text")
        elif node_id in ids:
            yield Issue("duplicate-id", f"{where}: another node has this id, too", node_id)
        elif not isinstance(fields_of(given.get("data")).get("name"), str):
            yield Issue("misshapen-node", f"{where}: must have data with the name of its kind", node_id)
        ids.add(str(node_id))
    yield from _several_starts(fields)
    for number, edge in enumerate(fields["edges"]):
        ends = [fields_of(edge).get(end) for end in ("source", "target")]
        if not all(isinstance(end, str) for end in ends):
            yield Issue("misshapen-edge", f"edges[{number}]: must have a source and a target, as texts")
        else:
            missing = [str(end) for end in ends if end not in ids]
            yield from (Issue("dangling-edge", f"edges[{number}]: there is no node {end!r}") for end in missing)


def _several_starts(fields: Fields) -> Iterator[Issue]:
    """Yield the issue of a flow with more than one start node, which Flowise does not allow."""
    nodes = each_of(fields["nodes"])
    starts = [str(each.get("id")) for each in nodes if fields_of(each.get("data")).get("name") == START]
    if len(starts) > 1:
        yield Issue("several-starts", f"{shorten(starts)} are start nodes; keep one of them", starts[1])


def _other_form(fields: Fields) -> str:
    """Return the name of an older form of Flowise's files; empty for AgentFlow v2."""
    datas = [fields_of(node.get("data")) for node in each_of(fields["nodes"])]
    names = [str(data.get("name")) for data in datas]
    if START in names or any(name.endswith(SUFFIX) for name in names) or not names:
        return ""
    form = "an AgentFlow v1" if any(data.get("category") in _V1 for data in datas) else "a chatflow"
    return f"is {form} of Flowise ({shorten(list(dict.fromkeys(names)))})"
