"""Content of an archive → a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from operad.flows.formats.coze.archive import Archive
from operad.flows.formats.coze.contents import Contents, Listed, plain
from operad.flows.formats.coze.ends import Ends, read_ends, to_ends
from operad.flows.formats.coze.names import Names
from operad.flows.formats.coze.nodes.containers import STARTS
from operad.flows.formats.coze.nodes.models import DEFAULT_CLASS
from operad.flows.formats.coze.notes import NAME, read_note, restored, without_note
from operad.flows.formats.coze.ports import port_number
from operad.flows.formats.coze.structure import COMMENT, END_ID
from operad.flows.formats.coze.translation import output_names, read_node, with_default_class, write_node
from operad.flows.formats.coze.write import Writer
from operad.flows.formats.shapes import Fields, texts_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec


class Reader:
    """Reads one workflow.

    Args:
        archive: What its archive says.
        name: What to call it where it does not say.

    Raises:
        InvalidError: It is not of the form; every issue is listed with its line.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name
        contents = Contents(archive.flow, name)
        listed = [each for each in contents.nodes if not each.parent]
        self._comments = [[place, each.node] for place, each in enumerate(listed) if each.node["type"] == COMMENT]
        self._nodes = [each for each in contents.nodes if each.parent or each.node["type"] != COMMENT]
        self._links = contents.links
        self._notes = {each.id: read_note(each.node) for each in reversed(self._nodes)}
        ids = _our_ids({each.id: self._notes[each.id].get("id") for each in self._nodes})
        self._ours = {theirs: ours for ours, theirs in ids.items()}
        by_ids = Names(ids, {})
        outputs = {
            self._ours[each.id]: output_names(*read_node(each.node, by_ids), each.node.get("parameters"))
            for each in self._nodes
        }
        self._names = Names(ids, outputs)
        self._own_default: set[str] = set()
        """The classifiers whose way where nothing fits is a class of its own."""

    @property
    def graph(self) -> NodeGraph:
        """The workflow."""
        edges = self._edges()
        ends = self._ends()
        specs: list[NodeSpec] = []
        for each in self._nodes:
            if not (ends and each.id in (ends.merge, END_ID)):
                specs.append(self._spec(each))
                specs += self._begins(each)
        if ends:
            specs += ends.specs
            edges = to_ends(edges, self._ours[ends.merge], ends)
        flow = self._archive.flow.data
        note = read_note(flow)
        called = note.get("name") or flow.get("name")
        name = called if isinstance(called, str) else self._name
        return self._with_rest(
            NodeGraph(
                specs, edges, name, instructions=texts_of(note.get("instructions")), notes=texts_of(note.get("notes"))
            )
        )

    # Nodes

    def _spec(self, listed: Listed) -> NodeSpec:
        kind, params = read_node(listed.node, self._names)
        if kind == "question-classifier" and listed.id in self._own_default:
            params = with_default_class(params)
        spec = NodeSpec(self._ours[listed.id], kind, params, self._ours.get(listed.parent, "") if listed.parent else "")
        kept = restored(spec, self._notes[listed.id])
        written = write_node(kept, self._names)
        unedited = (written.type, written.parameters) == (listed.node["type"], listed.node.get("parameters"))
        return kept if unedited else spec

    def _begins(self, listed: Listed) -> list[NodeSpec]:
        """Return the start inside a container, which the archive lacks."""
        begin = STARTS.get(read_node(listed.node, self._names)[0])
        start = self._start(listed.id)
        return [NodeSpec(start, begin, {}, self._ours[listed.id])] if begin and listed.holds and start else []

    def _start(self, holder: str) -> str:
        usual = f"{self._ours[holder]}-1"
        start = self._notes[holder].get("start", usual)
        return start if isinstance(start, str) else usual

    def _ends(self) -> Ends | None:
        merge = next((each for each in self._nodes if "ends" in self._notes[each.id] and not each.parent), None)
        end = next((each for each in self._nodes if each.id == END_ID), None)
        if merge is None or end is None:
            return None
        return read_ends(merge.node, self._notes[merge.id], end.node, self._names)

    # Edges

    def _edges(self) -> list[Edge]:
        kinds: dict[str, tuple[str, Any]] = {
            each.id: ("", {}) if each.node["type"] == "plugin" else read_node(each.node, self._names)
            for each in self._nodes
        }
        default: dict[str, set[str]] = {}
        last: dict[str, set[str]] = {}
        for source, target, port, _ in self._links:
            kind, params = kinds.get(source, ("", {}))
            if kind == "question-classifier":
                final = f"branch_{len(params['classes']) - 1}"
                kept = default if port == DEFAULT_CLASS else last if port == final else {}
                kept.setdefault(source, set()).add(target)
        self._own_default = {source for source, targets in default.items() if targets - last.get(source, set())}
        edges: list[Edge] = []
        for source, target, port, parent in self._links:
            if parent and target == parent:
                continue
            ours = self._ours.get(source, source), self._ours.get(target, target)
            if parent and source == parent:
                edges.append(Edge(self._start(parent), ours[1]))
            elif port != DEFAULT_CLASS or source in self._own_default or source not in default:
                number = port_number(*kinds.get(source, ("", {})), port)
                edges.append(Edge(*ours, number) if number is not None else Edge(*ours, extra={NAME: port}))
        return edges

    # What else the archive says

    def _with_rest(self, graph: NodeGraph) -> NodeGraph:
        """The workflow, with what we would not write ourselves."""
        writer = Writer(graph)
        flow = writer.flow
        made = _by_id(flow["nodes"])
        there = {self._ours[each.id]: each for each in self._nodes}
        specs = [
            replace(spec, extra=_said(there[spec.id], made))
            if spec.id in there and spec.type not in STARTS.values()
            else spec
            for spec in graph.nodes
        ]
        rest: Fields = {}
        said = {key: plain(value) for key, value in self._archive.flow.data.items() if key not in ("nodes", "edges")}
        if said != {key: value for key, value in flow.items() if key not in ("nodes", "edges")}:
            words = {"description": without_note(said["description"])} if read_note(said) else {}
            rest["flow"] = {**said, **words}
        if (about := plain(self._archive.about)) != writer.about:
            rest["manifest"] = about
        if self._comments:
            rest["comments"] = self._comments
        if self._archive.others:
            rest["files"] = dict(self._archive.others)
        return replace(graph, nodes=specs, extra={NAME: rest} if rest else {})


def _our_ids(noted: Mapping[str, Any]) -> dict[str, str]:
    """Coze's ids by ours; `noted` are ours, as descriptions keep them, by Coze's."""
    ids: dict[str, str] = {}
    for theirs, ours in noted.items():
        if isinstance(ours, str):
            ids.setdefault(ours, theirs)
    known = set(ids.values())
    for theirs in noted:
        if theirs not in known:
            own = theirs
            while own in ids:
                own += "_"
            ids[own] = theirs
    return ids


def _by_id(nodes: Iterable[Fields]) -> dict[str, Fields]:
    """The nodes of a file by id, with those inside others."""
    found: dict[str, Fields] = {}
    open_ = list(nodes)
    while open_:
        node = open_.pop()
        found[node["id"]] = node
        open_ += node.get("nodes", ())
    return found


def _said(listed: Listed, made: Mapping[str, Fields]) -> Fields:
    """Return the data for ``extra`` of a node; none where it is as we would write it."""
    ours = {"id", "nodes", "edges"} if listed.holds else {"id"}
    said = {key: value for key, value in listed.node.items() if key not in ours}
    if said == {key: value for key, value in made.get(listed.id, {}).items() if key not in ours}:
        return {}
    words = {"description": without_note(listed.node["description"])} if read_note(listed.node) else {}
    return {NAME: {**said, **words}}
