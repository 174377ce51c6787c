"""A workflow → the values of a Dify file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel

from operad.flows.check import CONVERSATION
from operad.flows.formats.dify.kinds import Kinds
from operad.flows.formats.dify.layout import Place, places
from operad.flows.formats.dify.names import STARTS, Names, dify_ids
from operad.flows.formats.dify.nodes import MAPPED, handles
from operad.flows.formats.dify.nodes.failure import read_failure, write_failure
from operad.flows.formats.dify.nodes.mapped import Mapped, Side
from operad.flows.formats.dify.nodes.sources import http_type
from operad.flows.formats.dify.nodes.tools import of_tool, tool_type
from operad.flows.formats.dify.overlay import change, changed
from operad.flows.formats.dify.plugins import Plugins
from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec

VERSION = "0.4.0"
EXTRA = "dify"
"""The key of what is kept here of a Dify file."""
OWN = "operad"
"""The key in a node's data, and in the file's root, of what is kept there of ours."""
INSTRUCTIONS, NOTES = "instructions", "notes"
"""The key in ours of the root for what the workflow was made from."""
ABSENT = "absent"
"""Marks, in `extra`, what the file does not have, and we need."""

_FEATURES: Fields = {
    "file_upload": {"enabled": False},
    "opening_statement": "",
    "retriever_resource": {"enabled": True},
    "sensitive_word_avoidance": {"enabled": False},
    "speech_to_text": {"enabled": False},
    "suggested_questions": [],
    "suggested_questions_after_answer": {"enabled": False},
    "text_to_speech": {"enabled": False, "language": "", "voice": ""},
}


def kept(extra: Mapping[str, Any]) -> Fields:
    """Return the data that are kept of a Dify file."""
    return fields_of(extra.get(EXTRA))


def plain(value: Any) -> Any:
    """Parameters as plain values."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json", exclude_unset=True))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True)
class Written:
    """A node of a file, before what is kept of one is put in.

    Attributes:
        spec: The node.
        data: Its data.
        envelope: What stands around it.
    """

    spec: NodeSpec
    data: Fields
    envelope: Fields

    @property
    def final(self) -> Fields:
        """The node with what is kept of a file."""
        mine = kept(self.spec.extra)
        how = mine.get("data")
        data = changed(self.data, how)
        title = fields_of(fields_of(fields_of(how).get("at")).get("title"))
        if "is" in title:  # a number behind ours depends on the nodes around it, and says nothing of a change
            data = {**data, "title": title["is"]}
        return {**changed(self.envelope, mine.get("envelope"), sure=True), "data": data}


class Writer:
    """Writes one workflow.

    Args:
        graph: The workflow.
        plugins: What stands behind node types.

    Attributes:
        specs: The nodes that are nodes there.
        plugins: As given.
        ids: The ids of the nodes there, by ours.
        names: References.
    """

    def __init__(self, graph: NodeGraph, plugins: Plugins) -> None:
        self._graph = graph
        self.plugins = plugins
        first = graph.by_id
        self.specs = [spec for spec in graph.nodes if spec.type != CONVERSATION and first[spec.id] is spec]
        fixed = {spec.id: kept(spec.extra).get("id") for spec in self.specs}
        self.ids = dify_ids(self.specs, {ours: theirs for ours, theirs in fixed.items() if isinstance(theirs, str)})
        types = {spec.id: spec.type for spec in self.specs}
        self.names = Names(self.ids, types)
        self._kinds = Kinds(graph)
        self._known_handles: dict[str, Sequence[str]] = {}
        self._types = types
        self._parents = {spec.id: spec.parent for spec in self.specs}
        self._begins = {spec.parent: self.ids[spec.id] for spec in reversed(self.specs) if spec.type in STARTS}

    def side(self, node_id: str) -> Side:
        """Return the context of writing a node."""
        return Side(self.ids[node_id], self.names, self._kinds.of, self.plugins, self._begins.get(node_id, ""))

    def mapped(self, kind: str) -> Mapped | None:
        """Return the mapping of a node type; None for one that is not known there."""
        return of_tool(kind, self.plugins) if kind in self.plugins.tools else MAPPED.get(kind)

    @cached_property
    def nodes(self) -> Sequence[Written]:
        """The nodes."""
        at = places(
            NodeGraph(nodes=self.specs, edges=self._graph.edges), [s.id for s in self.specs if s.type in STARTS]
        )
        numbers: Counter[str] = Counter()
        datas: dict[str, Fields] = {}
        for spec in self.specs:
            numbers[spec.type] += 1
            datas[spec.id] = self._data(spec, numbers[spec.type])
        read = read_params(datas, self)
        made: list[Written] = []
        for spec in self.specs:
            data = datas[spec.id]
            params = change(read[spec.id][1], plain(spec.params))
            own: Fields = {} if params is None else {"params": params}
            if self.ids[spec.id] != spec.id:
                own["id"] = spec.id
            if read[spec.id][0] != spec.type:
                own["type"] = spec.type
            envelope = self._envelope(spec, at[spec.id])
            made.append(Written(spec, {**data, OWN: own} if own else data, envelope))
        return made

    def _data(self, spec: NodeSpec, number: int) -> Fields:
        mapped = self.mapped(spec.type)
        fields = fields_of(plain(spec.params))
        title = mapped.title if mapped else spec.type
        data: Fields = {
            "desc": "",
            "selected": False,
            "title": f"{title} {number}" if number > 1 and title else title,
            "type": (mapped.type or spec.type) if mapped else spec.type,
        }
        if spec.parent:
            in_loop = self._types.get(spec.parent) == "loop"
            data |= {"isInIteration": not in_loop, "isInLoop": in_loop}
            data["loop_id" if in_loop else "iteration_id"] = self.names.write_id(spec.parent)
        made = mapped.write(fields, self.side(spec.id)) if mapped else fields
        return {**made, **(write_failure(fields.get("failure")) if mapped else {}), **data}

    def _envelope(self, spec: NodeSpec, place: Place) -> Fields:
        small = spec.type in STARTS
        envelope: Fields = {
            "height": place.height,
            "id": self.ids[spec.id],
            "position": {"x": place.x, "y": place.y},
            "positionAbsolute": {"x": place.left, "y": place.top},
            "selected": False,
            "sourcePosition": "right",
            "targetPosition": "left",
            "type": f"custom-{spec.type}" if small else "custom",
            "width": place.width,
        }
        if spec.parent:
            envelope |= {"parentId": self.names.write_id(spec.parent), "zIndex": 1002}
        return {**envelope, "draggable": False, "selectable": False} if small else envelope

    def edges(self, datas: Mapping[str, Fields]) -> list[Fields]:
        """The edges, each with an id of its own.

        Args:
            datas: The data of the nodes, as it stands in the file, by our ids.
        """
        numbers: Counter[str] = Counter()
        found: list[Fields] = []
        for edge in self._graph.edges:
            made = self._edge(edge, datas)
            numbers[made["id"]] += 1
            number = numbers[made["id"]]
            found.append({**made, "id": f"{made['id']}-{number}"} if number > 1 else made)
        return found

    def _edge(self, edge: Edge, datas: Mapping[str, Fields]) -> Fields:
        source, target = self.names.write_id(edge.source), self.names.write_id(edge.target)
        known = self._handles(edge.source, datas)
        handle = known[edge.port] if 0 <= edge.port < len(known) else str(edge.port)
        parent = self._parents.get(edge.target, "")
        in_loop = self._types.get(parent) == "loop"
        data: Fields = {
            "isInIteration": bool(parent) and not in_loop,
            "isInLoop": in_loop,
            "sourceType": datas.get(edge.source, {}).get("type", ""),
            "targetType": datas.get(edge.target, {}).get("type", ""),
        }
        if parent:
            data["loop_id" if in_loop else "iteration_id"] = self.names.write_id(parent)
        return {
            "data": data,
            "id": f"{source}-{handle}-{target}-target",
            "source": source,
            "sourceHandle": handle,
            "target": target,
            "targetHandle": "target",
            "type": "custom",
            "zIndex": 1002 if parent else 0,
        }

    def _handles(self, node_id: str, datas: Mapping[str, Fields]) -> Sequence[str]:
        if node_id not in self._known_handles:
            self._known_handles[node_id] = handles(datas.get(node_id, {}))
        return self._known_handles[node_id]

    @property
    def rest(self) -> Fields:
        """The file without its nodes, its edges and its dependencies."""
        types = set(self._types.values())
        conversation = next((spec for spec in self._graph.nodes if spec.type == CONVERSATION), None)
        return {
            "app": {
                "description": "",
                "icon": "🤖",
                "icon_background": "#FFEAD5",
                "mode": "advanced-chat" if "answer" in types and "end" not in types else "workflow",
                "name": self._graph.name,
                "use_icon_as_answer_icon": False,
            },
            "kind": "app",
            "version": VERSION,
            "workflow": {
                "conversation_variables": write_conversation(conversation),
                "environment_variables": [],
                "features": _FEATURES,
                "graph": {"viewport": {"x": 0, "y": 0, "zoom": 0.7}},
                "rag_pipeline_variables": [],
            },
        }

    @property
    def dependencies(self) -> list[Fields]:
        """The plugins that the nodes need."""
        needed = sorted({self.plugins.needed(kind) for kind in self._types.values()} - {""})
        return [
            {
                "current_identifier": None,
                "type": "marketplace",
                "value": {"marketplace_plugin_unique_identifier": plugin},
            }
            for plugin in needed
        ]


def write_conversation(conversation: NodeSpec | None) -> list[Fields]:
    """The variables of a conversation."""
    params = plain(conversation.params) if conversation else None
    found: list[Fields] = []
    for parts in map(list_of, list_of(fields_of(params).get("variables"))):
        if len(parts) > 1 and isinstance(parts[0], str):
            name, kind, *value = parts
            found.append(
                {
                    "description": "",
                    "id": str(uuid5(NAMESPACE_URL, f"operad:dify/{CONVERSATION}/{name}")),
                    "name": name,
                    "selector": [CONVERSATION, name],
                    "value": value[0] if value else None,
                    "value_type": kind,
                }
            )
    return found


_STRUCTURE = ("title", "type", "desc", "selected", "isInIteration", "isInLoop", "iteration_id", "loop_id", OWN)


def read_type(data: Fields, plugins: Plugins) -> str:
    """Our type of a node."""
    kind = str(data.get("type"))
    if kind == "tool":
        return tool_type(data, plugins)
    if kind == "http-request":
        return http_type(data)
    return "variable-aggregator" if kind == "variable-assigner" and "output_type" in data else kind


def read_params(datas: Mapping[str, Fields], writer: Writer) -> Mapping[str, tuple[str, Fields]]:
    """The types and the parameters of nodes.

    Args:
        datas: Their data, by our ids.
        writer: How names and types stand to each other.
    """
    writer.names.outside.clear()
    found: dict[str, tuple[str, Fields]] = {}
    # The start node last: what others read from outside of the graph is given to it.
    for node_id in sorted(datas, key=lambda node_id: datas[node_id].get("type") == "start"):
        data = datas[node_id]
        kind = read_type(data, writer.plugins)
        mapped = writer.mapped(kind)
        if mapped is None:
            found[node_id] = kind, {key: value for key, value in data.items() if key not in _STRUCTURE}
        else:
            failure = read_failure(data)
            found[node_id] = kind, mapped.read(data, writer.side(node_id)) | ({"failure": failure} if failure else {})
    return found


def values_of(graph: NodeGraph, plugins: Plugins) -> Fields:
    """Return the values of the file of a workflow.

    Args:
        graph: The workflow.
        plugins: The plugins and models that are to stand behind node types.
    """
    writer = Writer(graph, plugins)
    present = [written for written in writer.nodes if ABSENT not in kept(written.spec.extra)]
    finals = [written.final for written in present]
    datas = {written.spec.id: final["data"] for written, final in zip(present, finals, strict=True)}
    edges = [
        changed(made, kept(edge.extra).get("edge"), sure=True)
        for edge, made in zip(graph.edges, writer.edges(datas), strict=True)
        if ABSENT not in kept(edge.extra)
    ]
    mine = kept(graph.extra)
    for note in mine.get("notes", []):
        finals.insert(note["at"], note["note"])
    root: Fields = changed(writer.rest, mine.get("rest"))
    for key, texts in ((INSTRUCTIONS, graph.instructions), (NOTES, graph.notes)):
        if texts:
            root = {**root, OWN: {**fields_of(root.get(OWN)), key: list(texts)}}
    shell = {**root["workflow"]["graph"], "nodes": finals, "edges": edges}
    root = {**root, "workflow": {**root["workflow"], "graph": shell}}
    plugins_needed = _dependencies(writer.dependencies, mine.get("dependencies"))
    return root if plugins_needed is None else {**root, "dependencies": plugins_needed}


def _dependencies(needed: list[Fields], how: Any) -> Any:
    """The plugins that a file names, and those that have come to be needed since."""
    if not isinstance(how, dict):
        return needed
    mine = cast("Fields", how)
    was, found = mine.get("was", []), mine.get("is")
    if isinstance(found, list):
        return [*cast("list[Any]", found), *(plugin for plugin in needed if plugin not in was)]
    return [plugin for plugin in needed if plugin not in was] or found
