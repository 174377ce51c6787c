"""Reader of the workflow in an archive of Coze."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from operad.flows.formats.json_text import plain
from operad.flows.formats.shapes import Fields, texts_of
from operad.flows.formats.variable_types import VariableTypes
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze.archive import Archive
from operad.integrations.coze.constants import constants_in, conversation_of
from operad.integrations.coze.ends import Ends, read_ends, to_ends
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.containers import ENDS_EARLY, STARTS
from operad.integrations.coze.nodes.models import DEFAULT_CLASS
from operad.integrations.coze.notes import NAME, read_note, restored, without_note
from operad.integrations.coze.ports import port_number
from operad.integrations.coze.structure import COMMENT, END_ID
from operad.integrations.coze.translation import (
    ends_early,
    is_readable_container,
    output_names,
    read_node,
    with_default_class,
    write_node,
)
from operad.integrations.coze.write import Writer, title_in
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InvalidError, Issue

# Nodes and edges in a workflow's file, with those inside containers.


@dataclass(frozen=True, slots=True)
class Listed:
    """Node of a file.

    Attributes:
        node: The fields of the node, as JSON values.
        parent: The id of the container that it is in; empty for none.
        holds: True for a container whose nodes Operad reads.
    """

    node: Fields
    parent: str
    holds: bool

    @property
    def id(self) -> str:
        """Id of the node."""
        return str(self.node["id"])


class Link(NamedTuple):
    """Edge of a file.

    Attributes:
        source: The id of the node that the edge leaves.
        target: The id of the node that the edge leads to.
        port: The name of the source's port; None if the edge names none.
        parent: The id of the container that lists the edge; empty for none.
    """

    source: str
    target: str
    port: Any
    parent: str


class Contents:
    """Nodes and edges of a workflow's file, with those inside containers.

    Args:
        document: The file.
        name: The name of the file, for errors.

    Attributes:
        nodes: The nodes, each container before the nodes inside it.
        links: The edges.

    Raises:
        InvalidError: Nodes or edges are malformed; every issue is listed with its line.
    """

    def __init__(self, document: Document, name: str) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self.nodes: list[Listed] = []
        self.links: list[Link] = []
        self._read_level(document.data, "", ())
        if self._issues:
            raise InvalidError(name, self._issues)

    def _read_level(self, given: Mapping[str, Any], parent: str, path: Path_) -> None:
        """Read the nodes and edges of a level, and those of the containers in it."""
        for index, edge in enumerate(self._list(given, "edges", path)):
            match edge:
                case {"source_node": str() | int() as source, "target_node": str() | int() as target, **more}:
                    self.links.append(Link(str(source), str(target), more.get("source_port"), parent))
                case _:
                    self._report("misshapen-edge", "must have a source_node and a target_node", (*path, "edges", index))
        for index, node in enumerate(self._list(given, "nodes", path)):
            node_path = (*path, "nodes", index)
            match node:
                case {"id": str() | int(), "type": str()}:
                    fields = cast("Fields", plain(node))
                    listed = Listed(fields, parent, is_readable_container(fields))
                    self.nodes.append(listed)
                    if listed.holds:
                        self._read_level(cast("Fields", node), listed.id, node_path)
                case _:
                    self._report("misshapen-node", "must have an id and a type", node_path)

    def _list(self, given: Mapping[str, Any], key: str, path: Path_) -> list[Any]:
        value = given.get(key)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if value is not None or key == "nodes":
            self._report("format", f"{key}: must be a list", (*path, key))
        return []

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))


class Reader:
    """Reader of one workflow.

    Args:
        archive: The content of the archive.
        name: The name of a workflow that has none.

    Raises:
        InvalidError: The workflow's file is malformed; every issue is listed with its line.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name
        contents = Contents(archive.flow, name)
        top_level = [listed for listed in contents.nodes if not listed.parent]
        self._comments = [
            [place, listed.node] for place, listed in enumerate(top_level) if listed.node["type"] == COMMENT
        ]
        self._nodes = [listed for listed in contents.nodes if listed.parent or listed.node["type"] != COMMENT]
        self._links = contents.links
        self._notes = {listed.id: read_note(listed.node) for listed in reversed(self._nodes)}
        ids = _coze_ids({listed.id: self._notes[listed.id].get("id") for listed in self._nodes})
        self._operad_ids = {coze_id: operad_id for operad_id, coze_id in ids.items()}
        self._constants = constants_in([listed.node for listed in self._nodes])
        by_ids = Names(ids, {}, constants=self._constants)
        outputs = {
            self._operad_ids[listed.id]: output_names(*read_node(listed.node, by_ids), listed.node.get("parameters"))
            for listed in self._nodes
        }
        names = Names(ids, outputs, constants=self._constants)
        specs = [
            restored(NodeSpec(self._operad_ids[listed.id], *read_node(listed.node, names)), self._notes[listed.id])
            for listed in self._nodes
        ]
        specs += conversation_of(self._constants, specs)
        self._names = Names(ids, outputs, VariableTypes(NodeGraph(specs)).of, self._constants)
        self._own_default: set[str] = set()
        """Classifiers whose port ``default`` leads elsewhere than their last class, so that it becomes a class."""

    @property
    def graph(self) -> NodeGraph:
        """The workflow."""
        edges = self._edges()
        ends = self._ends()
        specs: list[NodeSpec] = []
        for listed in self._nodes:
            if not (ends and listed.id in (ends.merge, END_ID)):
                specs.append(self._node_spec(listed))
                specs += self._start_nodes(listed)
        specs += conversation_of(self._constants, specs)
        if ends:
            specs += ends.specs
            edges = to_ends(edges, self._operad_ids[ends.merge], ends)
        flow = self._archive.flow.data
        note = read_note(flow)
        given_name = note.get("name") or flow.get("name")
        name = given_name if isinstance(given_name, str) else self._name
        return self._with_archived(
            NodeGraph(
                specs, edges, name, instructions=texts_of(note.get("instructions")), notes=texts_of(note.get("notes"))
            )
        )

    # Nodes

    def _node_spec(self, listed: Listed) -> NodeSpec:
        kind, params = read_node(listed.node, self._names)
        if kind == "question-classifier" and listed.id in self._own_default:
            params = with_default_class(params)
        spec = NodeSpec(
            self._operad_ids[listed.id], kind, params, self._operad_ids.get(listed.parent, "") if listed.parent else ""
        )
        kept_spec = restored(spec, self._notes[listed.id])
        written = write_node(kept_spec, self._names)
        unedited = (written.type, written.parameters) == (listed.node["type"], listed.node.get("parameters"))
        return kept_spec if unedited else spec

    def _start_nodes(self, listed: Listed) -> list[NodeSpec]:
        """Return the start node inside a container, for which Coze has no node; empty for other nodes."""
        start_type = STARTS.get(read_node(listed.node, self._names)[0])
        start_id = self._start_id(listed.id)
        if not (start_type and listed.holds and start_id):
            return []
        return [NodeSpec(start_id, start_type, {}, self._operad_ids[listed.id])]

    def _start_id(self, holder: str) -> str:
        default = f"{self._operad_ids[holder]}-1"
        start = self._notes[holder].get("start", default)
        return start if isinstance(start, str) else default

    def _ends(self) -> Ends | None:
        merge = next((each for each in self._nodes if "ends" in self._notes[each.id] and not each.parent), None)
        end = next((each for each in self._nodes if each.id == END_ID), None)
        if merge is None or end is None:
            return None
        return read_ends(merge.node, self._notes[merge.id], end.node, self._names)

    # Edges

    def _edges(self) -> list[Edge]:
        """Return the edges; inside a container, edges from it become edges from its start node."""
        kinds: dict[str, tuple[str, Any]] = {
            listed.id: ("", {}) if listed.node["type"] == "plugin" else read_node(listed.node, self._names)
            for listed in self._nodes
        }
        default_targets: dict[str, set[str]] = {}
        last_targets: dict[str, set[str]] = {}
        for source, target, port, _ in self._links:
            kind, params = kinds.get(source, ("", {}))
            if kind == "question-classifier":
                last_port = f"branch_{len(params['classes']) - 1}"
                targets_of = default_targets if port == DEFAULT_CLASS else last_targets if port == last_port else {}
                targets_of.setdefault(source, set()).add(target)
        self._own_default = {
            source for source, targets in default_targets.items() if targets - last_targets.get(source, set())
        }
        edges: list[Edge] = []
        for source, target, port, parent in self._links:
            if parent and target == parent:
                continue
            ends = self._operad_ids.get(source, source), self._operad_ids.get(target, target)
            if parent and source == parent:
                edges.append(Edge(self._start_id(parent), ends[1]))
            elif port != DEFAULT_CLASS or source in self._own_default or source not in default_targets:
                number = port_number(*kinds.get(source, ("", {})), port)
                edges.append(Edge(*ends, number) if number is not None else Edge(*ends, extra={NAME: port}))
        return edges

    # Other data of the archive

    def _with_archived(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow with the data of the archive that `Writer` would not write by itself."""
        listed_nodes = {self._operad_ids[listed.id]: listed for listed in self._nodes}
        writer = Writer(graph)
        flow = writer.flow
        written = _by_id(flow["nodes"])
        specs = [
            replace(
                spec,
                extra=_archived_data(listed_nodes[spec.id], written),
                title=title_in(listed_nodes[spec.id].node, spec),
            )
            if spec.id in listed_nodes and spec.type not in STARTS.values()
            else spec
            for spec in graph.nodes
        ]
        rest: Fields = {}
        archived = {
            key: plain(value) for key, value in self._archive.flow.data.items() if key not in ("nodes", "edges")
        }
        if archived != {key: value for key, value in flow.items() if key not in ("nodes", "edges")}:
            description = {"description": without_note(archived["description"])} if read_note(archived) else {}
            rest["flow"] = {**archived, **description}
        if (manifest := plain(self._archive.about)) != writer.about:
            rest["manifest"] = manifest
        if self._comments:
            rest["comments"] = self._comments
        if self._archive.others:
            rest["files"] = dict(self._archive.others)
        return replace(graph, nodes=specs, extra={NAME: rest} if rest else {})


def _coze_ids(kept_ids: Mapping[str, Any]) -> dict[str, str]:
    """Return Coze's ids by Operad's; `kept_ids` are Operad's ids that descriptions keep, by Coze's."""
    ids: dict[str, str] = {}
    for coze_id, operad_id in kept_ids.items():
        if isinstance(operad_id, str):
            ids.setdefault(operad_id, coze_id)
    known = set(ids.values())
    for coze_id in kept_ids:
        if coze_id not in known:
            new_id = coze_id
            while new_id in ids:
                new_id += "_"
            ids[new_id] = coze_id
    return ids


def _by_id(nodes: Iterable[Fields]) -> dict[str, Fields]:
    """Return the nodes of a file by id, with the nodes inside containers."""
    found: dict[str, Fields] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        found[node["id"]] = node
        stack += node.get("nodes", ())
    return found


def _archived_data(listed: Listed, written: Mapping[str, Fields]) -> Fields:
    """Return the data for ``extra`` of a node; empty if `Writer` writes the same data by itself."""
    skipped = {"id", "nodes", "edges"} if listed.holds else {"id"}
    archived = {key: value for key, value in listed.node.items() if key not in skipped}
    if archived == {key: value for key, value in written.get(listed.id, {}).items() if key not in skipped}:
        return {}
    description = {"description": without_note(listed.node["description"])} if read_note(listed.node) else {}
    return {NAME: {**archived, **description, **({ENDS_EARLY: True} if ends_early(listed.node) else {})}}
