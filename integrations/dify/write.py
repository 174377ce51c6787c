"""Writer of a workflow into the values of a Dify file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel

from operad.flows.check import CONVERSATION
from operad.flows.formats.overlay import apply_difference, change
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, pairs_of
from operad.flows.formats.variable_types import VariableTypes
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.secrets import secrets_of
from operad.integrations.dify.in_workflow import selectors_named
from operad.integrations.dify.layout import Place, places
from operad.integrations.dify.names import OUTSIDE, STARTS, Names, dify_ids
from operad.integrations.dify.nodes import MAPPED, handles
from operad.integrations.dify.nodes.failure import read_failure, write_failure
from operad.integrations.dify.nodes.flow import TRIGGERS
from operad.integrations.dify.nodes.node_mapping import NodeContext
from operad.integrations.dify.nodes.sources import http_type
from operad.integrations.dify.nodes.tools import tool_type
from operad.integrations.dify.notes import insert_notes
from operad.integrations.dify.plugins import needed_plugin
from operad.integrations.dify.typed_fields import with_types

VERSION = "0.4.0"
EXTRA = "dify"
"""Key in `extra` of the data from a Dify file."""
OWN = "operad"
"""Key in a node's data, and in the root of a file, of the data that only Operad reads."""
INSTRUCTIONS, NOTES = "instructions", "notes"
"""Keys of the instructions and notes of a workflow, under `OWN` in the root."""
DIFY_AGENT = "dify-agent"
"""Type of an agent node of version 2, whose agent is kept in Dify and not in the file."""
ABSENT = "absent"
"""Mark in `extra` of nodes and edges that Operad needs and the file does not have."""

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
    """Return the data from a Dify file in the `extra` of a workflow, a node or an edge."""
    return fields_of(extra.get(EXTRA))


def plain(value: Any) -> Any:
    """Return parameters as plain values."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json", exclude_unset=True))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True)
class Written:
    """Node of a file as Operad writes it by itself.

    Attributes:
        spec: The node of the workflow.
        data: The data of the node.
        envelope: The fields around the data, such as the position.
    """

    spec: NodeSpec
    data: Fields
    envelope: Fields

    @property
    def final(self) -> Fields:
        """Node with the data from its Dify file put back."""
        kept_data = kept(self.spec.extra)
        data = apply_difference(self.data, kept_data.get("data"), derived=("label",))
        return {**apply_difference(self.envelope, kept_data.get("envelope"), sure=True), "data": data}


class Writer:
    """Writer of one workflow.

    Args:
        graph: The workflow.
        secrets: Names of environment variables that are secrets, besides those that the workflow names.

    Attributes:
        specs: The nodes that are nodes in Dify, each id once.
        ids: Dify's ids of the nodes, by Operad's.
        names: The translation of references.
    """

    def __init__(self, graph: NodeGraph, secrets: Collection[str] = ()) -> None:
        self._graph = graph
        by_id = graph.by_id
        self.specs = [spec for spec in graph.nodes if spec.type != CONVERSATION and by_id[spec.id] is spec]
        kept_ids = {spec.id: kept(spec.extra).get("id") for spec in self.specs}
        self.ids = dify_ids(
            self.specs, {operad_id: dify_id for operad_id, dify_id in kept_ids.items() if isinstance(dify_id, str)}
        )
        types = {spec.id: spec.type for spec in self.specs}
        self.names = Names(self.ids, types, {secret.name for secret in secrets_of(graph)} | set(secrets))
        self._kinds = VariableTypes(graph)
        self._handles_of: dict[str, Sequence[str]] = {}
        self._types = types
        self._parents = {spec.id: spec.parent for spec in self.specs}
        self._start_ids = {spec.parent: self.ids[spec.id] for spec in reversed(self.specs) if spec.type in STARTS}

    def type_of(self, node_id: str, data: Fields) -> str:
        """Return Operad's type of a node with this data in Dify; a trigger beside the start node keeps Dify's."""
        known = self._types.get(node_id, "")
        return known if known in TRIGGERS else read_type(data)

    def node_context(self, node_id: str) -> NodeContext:
        """Return the context of writing a node."""
        return NodeContext(self.ids[node_id], self.names, self._kinds.of, self._start_ids.get(node_id, ""))

    @cached_property
    def nodes(self) -> Sequence[Written]:
        """Nodes of the file, as Operad writes them by itself."""
        positions = places(
            NodeGraph(nodes=self.specs, edges=self._graph.edges), [s.id for s in self.specs if s.type in STARTS]
        )
        numbers: Counter[str] = Counter()
        data_of: dict[str, Fields] = {}
        for spec in self.specs:
            numbers[spec.type] += 1
            data_of[spec.id] = self._node_data(spec, numbers[spec.type])
        read_back = read_params(data_of, self)
        written: list[Written] = []
        for spec in self.specs:
            data = data_of[spec.id]
            params = change(read_back[spec.id][1], _without_unread(spec, read_back[spec.id][1]))
            operad_data: Fields = {} if params is None else {"params": params}
            if self.ids[spec.id] != spec.id:
                operad_data["id"] = spec.id
            if read_back[spec.id][0] != spec.type:
                operad_data["type"] = spec.type
            envelope = self._envelope(spec, positions[spec.id])
            written.append(Written(spec, {**data, OWN: operad_data} if operad_data else data, envelope))
        return written

    def _node_data(self, spec: NodeSpec, number: int) -> Fields:
        """Return the data of a node; `number` counts the nodes of its type so far."""
        mapping = MAPPED.get(spec.type)
        fields = fields_of(plain(spec.params))
        title = mapping.title if mapping else spec.type
        data: Fields = {
            "desc": "",
            "selected": False,
            "title": spec.title or (f"{title} {number}" if number > 1 and title else title),
            "type": (mapping.type or spec.type) if mapping else spec.type,
        }
        if spec.parent:
            in_loop = self._types.get(spec.parent) == "loop"
            data |= {"isInIteration": not in_loop, "isInLoop": in_loop}
            data["loop_id" if in_loop else "iteration_id"] = self.names.write_id(spec.parent)
        written = mapping.write(fields, self.node_context(spec.id)) if mapping else fields
        kind = written.get("type", data["type"]) if spec.type == "start" else data["type"]  # triggers are start nodes
        failure = write_failure(fields.get("failure"), data["type"]) if mapping else {}
        return {**written, **failure, **data, "type": kind}

    def _envelope(self, spec: NodeSpec, place: Place) -> Fields:
        """Return the fields around the data of a node."""
        is_start = spec.type in STARTS
        envelope: Fields = {
            "height": place.height,
            "id": self.ids[spec.id],
            "position": {"x": place.x, "y": place.y},
            "positionAbsolute": {"x": place.left, "y": place.top},
            "selected": False,
            "sourcePosition": "right",
            "targetPosition": "left",
            "type": f"custom-{spec.type}" if is_start else "custom",
            "width": place.width,
        }
        if spec.parent:
            envelope |= {"parentId": self.names.write_id(spec.parent), "zIndex": 1002}
        return {**envelope, "draggable": False, "selectable": False} if is_start else envelope

    def edges(self, datas: Mapping[str, Fields]) -> list[Fields]:
        """Return the edges of the file, each with an id of its own.

        Args:
            datas: The data of the nodes in the file, by Operad's ids.
        """
        numbers: Counter[str] = Counter()
        edges: list[Fields] = []
        for edge in self._graph.edges:
            written = self._edge(edge, datas)
            numbers[written["id"]] += 1
            number = numbers[written["id"]]
            edges.append({**written, "id": f"{written['id']}-{number}"} if number > 1 else written)
        return edges

    def _edge(self, edge: Edge, datas: Mapping[str, Fields]) -> Fields:
        """Return an edge in Dify's form."""
        source, target = self.names.write_id(edge.source), self.names.write_id(edge.target)
        handle_names = self._handles(edge.source, datas)
        handle = handle_names[edge.port] if 0 <= edge.port < len(handle_names) else str(edge.port)
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
        if node_id not in self._handles_of:
            self._handles_of[node_id] = handles(datas.get(node_id, {}))
        return self._handles_of[node_id]

    @property
    def rest(self) -> Fields:
        """Values of the file without nodes, edges and dependencies."""
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
        """Plugins that the nodes need, in the form of a file's dependencies."""
        needed = sorted({needed_plugin(kind) for kind in self._types.values()} - {""})
        return [
            {
                "current_identifier": None,
                "type": "marketplace",
                "value": {"marketplace_plugin_unique_identifier": plugin},
            }
            for plugin in needed
        ]


def write_conversation(conversation: NodeSpec | None) -> list[Fields]:
    """Return the variables of a conversation node in Dify's form."""
    params = plain(conversation.params) if conversation else None
    variables: list[Fields] = []
    for parts in map(list_of, list_of(fields_of(params).get("variables"))):
        if len(parts) > 1 and isinstance(parts[0], str):
            name, kind, *value = parts
            variables.append(
                {
                    "description": "",
                    "id": str(uuid5(NAMESPACE_URL, f"operad:dify/{CONVERSATION}/{name}")),
                    "name": name,
                    "selector": [CONVERSATION, name],
                    "value": value[0] if value else None,
                    "value_type": kind,
                }
            )
    return variables


def _without_unread(spec: NodeSpec, read_back: Fields) -> Any:
    """Return the parameters of a node; of a start node, without inputs from outside of the graph that no node reads."""
    params = plain(spec.params)
    if spec.type != "start" or not isinstance(fields_of(params).get("variables"), list):
        return params
    read = [name for name, _ in pairs_of(read_back.get("variables"))]
    inputs = [
        each
        for each in params["variables"]
        if (name := str(list_of(each)[0]) if list_of(each) else "").partition(".")[0] not in OUTSIDE or name in read
    ]
    return params if len(inputs) == len(params["variables"]) else {**params, "variables": inputs}


_COMMON_FIELDS = ("title", "type", "desc", "selected", "isInIteration", "isInLoop", "iteration_id", "loop_id", OWN)


def read_type(data: Fields) -> str:
    """Return Operad's type of a node, from its data in Dify."""
    kind = str(data.get("type"))
    if kind in TRIGGERS:
        return "start"
    if kind == "agent" and data.get("agent_node_kind") == DIFY_AGENT.replace("-", "_"):
        return DIFY_AGENT
    if kind == "tool":
        return tool_type(data)
    if kind == "http-request":
        return http_type(data)
    return "variable-aggregator" if kind == "variable-assigner" and "output_type" in data else kind


def read_params(datas: Mapping[str, Fields], writer: Writer) -> Mapping[str, tuple[str, Fields]]:
    """Return the types and the parameters of nodes, by Operad's ids.

    Args:
        datas: The data of the nodes in Dify, by Operad's ids.
        writer: The writer of the workflow, which knows the names and the types of variables.
    """
    writer.names.outside.clear()
    writer.names.of_start.clear()
    params: dict[str, tuple[str, Fields]] = {}
    # The start node comes last: values from outside of the graph that other nodes read become its inputs.
    for node_id in sorted(datas, key=lambda node_id: read_type(datas[node_id]) == "start"):
        data = with_types(datas[node_id])
        node_type = writer.type_of(node_id, data)
        mapping = MAPPED.get(node_type)
        if mapping is None:
            params[node_id] = node_type, {key: value for key, value in data.items() if key not in _COMMON_FIELDS}
        else:
            failure = read_failure(data)
            params[node_id] = (
                node_type,
                mapping.read(data, writer.node_context(node_id)) | ({"failure": failure} if failure else {}),
            )
    return params


def values_of(graph: NodeGraph) -> Fields:
    """Return the values of the file of a workflow."""
    writer = Writer(graph)
    written_nodes = [written for written in writer.nodes if ABSENT not in kept(written.spec.extra)]
    node_values = [written.final for written in written_nodes]
    datas = {written.spec.id: final["data"] for written, final in zip(written_nodes, node_values, strict=True)}
    edges = [
        apply_difference(written_edge, kept(edge.extra).get("edge"), sure=True)
        for edge, written_edge in zip(graph.edges, writer.edges(datas), strict=True)
        if ABSENT not in kept(edge.extra)
    ]
    kept_data = kept(graph.extra)
    insert_notes(graph.sticky_notes, node_values)
    root: Fields = apply_difference(writer.rest, kept_data.get("rest"), derived=("id",))
    for key, texts in ((INSTRUCTIONS, graph.instructions), (NOTES, graph.notes)):
        if texts:
            root = {**root, OWN: {**fields_of(root.get(OWN)), key: list(texts)}}
    graph_values = {**root["workflow"]["graph"], "nodes": node_values, "edges": edges}
    root = {**root, "workflow": {**_with_secrets(root["workflow"], graph, node_values), "graph": graph_values}}
    return {**root, **_dependencies(writer.dependencies, kept_data.get("dependencies"))}


def _with_secrets(workflow: Fields, graph: NodeGraph, nodes: Sequence[Fields]) -> Fields:
    """Return the workflow of a file with a secret environment variable without a value for each secret that it names."""
    known = [variable.get("name") for variable in each_of(workflow.get("environment_variables"))]  # of any form
    named = {each.variable for each in selectors_named(nodes) if each.node == "env"}
    added = [
        {
            "description": "",
            "id": str(uuid5(NAMESPACE_URL, f"operad:dify/env/{secret.name}")),
            "name": secret.name,
            "selector": ["env", secret.name],
            "value": "",
            "value_type": "secret",
        }
        for secret in secrets_of(graph)
        if secret.name not in known and secret.name in named
    ]
    if not added:
        return workflow
    return {**workflow, "environment_variables": [*list_of(workflow.get("environment_variables")), *added]}


def _dependencies(needed: list[Fields], difference: Any) -> Fields:
    """Return the field of the plugins that the file named, and those that nodes need since the workflow was changed."""
    if not isinstance(difference, dict):
        return {"dependencies": needed}
    kept_change = cast("Fields", difference)
    added = [plugin for plugin in needed if plugin not in kept_change.get("was", [])]
    named = kept_change.get("is")
    if isinstance(named, list):
        return {"dependencies": [*cast("list[Any]", named), *added]}
    given = {"dependencies": named} if "is" in kept_change else {}
    return {"dependencies": added} if added else given
