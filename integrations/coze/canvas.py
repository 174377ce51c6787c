"""Canvas of Coze and of Coze Studio: the JSON ``{nodes, edges, versions}`` that its page saves as ``schema``.

A canvas has the nodes of an archive in another form (coze-dev/coze-studio, backend/domain/workflow/entity/vo/canvas.go):
types are numbers, inputs are typed values ``{type, value: {type: ref, content: {blockID, name}}}``, outputs are a list.
It is turned into the workflow of an archive, which `Reader` reads and `Writer` writes; so both forms have the same
mappings of node types. The canvas that was read is kept in ``extra``: parts that the workflow still has are written back
as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.flows.formats.json_text import read_json, read_text, write_json
from operad.flows.formats.overlay import merged
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.coze.archive import Archive
from operad.integrations.coze.inputs import coze_type
from operad.integrations.coze.notes import NAME
from operad.integrations.coze.read import Reader
from operad.integrations.coze.translation import MISREAD
from operad.integrations.coze.write import Writer
from operad.operators.variables import Selector
from operad.runtime.values.document import Document
from operad.runtime.values.errors import InvalidError, Issue

TYPES: Mapping[str, str] = {
    "1": "start", "2": "end", "3": "llm", "4": "plugin", "5": "code", "6": "knowledge", "8": "condition", "9": "subflow",
    "11": "variable", "12": "database", "13": "output", "15": "text", "16": "image_generate", "18": "question",
    "19": "break", "20": "loop_set_variable", "21": "loop", "22": "intent", "27": "knowledge_write", "28": "batch",
    "29": "continue", "30": "input", "31": "comment", "32": "variable_merge", "37": "message_list",
    "38": "clear_conversation_history", "39": "create_conversation", "40": "set_variable", "42": "database_update",
    "43": "database_select", "44": "database_delete", "45": "http", "46": "database_insert", "51": "edit_conversation",
    "52": "delete_conversation", "53": "conversation_list", "54": "conversation_history", "55": "create_message",
    "56": "edit_message", "57": "delete_message", "58": "json_stringify", "59": "json_parse", "60": "knowledge_delete",
}  # fmt: skip
"""Names of node types in archives, by their numbers on a canvas (backend/domain/workflow/entity/node_meta.go)."""

_NUMBERS = {name: number for number, name in TYPES.items()}

_FILES = {
    1: "file", 2: "image", 3: "doc", 4: "code", 5: "ppt", 6: "txt", 7: "excel", 8: "audio", 9: "zip", 10: "video",
    11: "svg", 12: "voice", 10000: "time",
}  # fmt: skip
"""Types that a canvas writes as ``string`` with an ``assistType``."""

_ASSIST = {name: number for number, name in _FILES.items()}

_CLIPBOARD = "coze-workflow-clipboard-data"
"""Type of nodes that were copied from the page; the canvas stands under ``json``."""


def _canvas_in(document: Any) -> Fields:
    """Return the canvas in a document: all of it, or what was copied from the page."""
    fields = fields_of(document)
    return fields_of(fields.get("json")) if fields.get("type") == _CLIPBOARD else fields


def is_canvas(data: bytes) -> bool:
    """Return True for a canvas: its edges have the ids of nodes, and its nodes have numbers as types."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
        return False
    try:
        canvas = _canvas_in(read_json(read_text(data, ""), ""))
    except InvalidError:
        return False
    nodes, edges = each_of(canvas.get("nodes")), canvas.get("edges", [])
    has_types = any(isinstance(each.get("data"), dict) and str(each.get("type")) in TYPES for each in nodes)
    return has_types and isinstance(edges, list) and all("sourceNodeID" in each for each in each_of(edges))


def read_canvas(data: bytes, name: str) -> NodeGraph:
    """Return the workflow of a canvas.

    Raises:
        InvalidError: The file is not a canvas; every issue is listed.
    """
    document = read_json(read_text(data, name), name)
    if not isinstance(_canvas_in(document).get("nodes"), list):
        raise InvalidError(name, [Issue("format", 'must be an object with lists "nodes" and "edges"', name)])
    graph = _graph_of(fields_of(document), name)
    return replace(graph, extra={**graph.extra, NAME: {**fields_of(graph.extra.get(NAME)), "canvas": document}})


def write_canvas(graph: NodeGraph) -> bytes:
    """Return a workflow as a canvas; parts that were read from one and did not change are written as they were."""
    kept = fields_of(fields_of(graph.extra.get(NAME)).get("canvas"))
    ids = set(_ids_of(_canvas_in(kept).get("nodes")))
    writer = Writer(graph, ids)
    old_flow = Writer(_graph_of(kept, graph.name), ids).flow if ids else {}
    canvas = _CanvasWriter(writer).level(writer.flow, old_flow, _canvas_in(kept), "nodes")
    canvas = {**canvas, "versions": canvas.get("versions", {"loop": "v2"})}
    if kept.get("type") == _CLIPBOARD:
        return write_json({**kept, "json": canvas if "versions" in _canvas_in(kept) else _without(canvas, "versions")})
    return write_json(canvas if not kept or "versions" in kept else _without(canvas, "versions"))


def _without(fields: Fields, *keys: str) -> Fields:
    return {key: value for key, value in fields.items() if key not in keys}


def _ids_of(nodes: Any) -> Iterator[str]:
    for node in each_of(nodes):
        yield str(node.get("id"))
        yield from _ids_of(node.get("blocks"))


def _graph_of(document: Fields, name: str) -> NodeGraph:
    canvas = _canvas_in(document)
    flow: Fields = {
        "schema_version": "1.0.0", "name": name, "id": 1, "description": "", "mode": "workflow",
        "icon": "plugin_icon/workflow.png", **_flow_level(canvas, "nodes"),
    }  # fmt: skip
    return Reader(Archive(Document(name, flow, {}, {}), {}, {}), name).graph


# From a canvas


def _flow_level(given: Mapping[str, Any], key: str) -> Fields:
    """Return the nodes and edges of a level as an archive has them; misshapen ones stay, and `Reader` reports them."""
    edges = given.get("edges", [])
    return {
        "nodes": [_flow_node(cast("Fields", each)) if isinstance(each, dict) else each for each in list_of(given[key])],
        "edges": [_flow_edge(cast("Fields", each)) if isinstance(each, dict) else each for each in list_of(edges)]
        if isinstance(edges, list | None)
        else edges,
    }


def _flow_edge(edge: Fields) -> Fields:
    names = {"source_node": "sourceNodeID", "target_node": "targetNodeID"}
    ports = {"source_port": "sourcePortID", "target_port": "targetPortID"}
    made = {ours: edge[theirs] for ours, theirs in names.items() if theirs in edge}
    return made | {ours: edge[theirs] for ours, theirs in ports.items() if edge.get(theirs)}


def _flow_node(node: Fields) -> Fields:
    data, meta = fields_of(node.get("data")), fields_of(node.get("meta"))
    head, inputs = fields_of(data.get("nodeMeta")), fields_of(data.get("inputs"))
    kind = node.get("type")
    made: Fields = {"id": node.get("id"), "type": TYPES.get(kind, kind) if isinstance(kind, str) else kind}
    made |= {key: head[key] for key in ("title", "icon", "description") if key in head}
    places = {"position": "position", "canvas_position": "canvasPosition"}
    made |= {ours: meta[theirs] for ours, theirs in places.items() if theirs in meta}
    made |= {"version": node["version"]} if "version" in node else {}
    parameters: Fields = {key: _archived(value) for key, value in inputs.items() if key != "inputParameters"}
    if "inputParameters" in inputs:
        parameters["node_inputs"] = _archived(inputs["inputParameters"])
    if "outputs" in data:
        try:
            parameters["node_outputs"] = {each["name"]: _archived_output(each) for each in data["outputs"] or ()}
        except MISREAD:
            parameters["node_outputs"] = data["outputs"]  # no mapping: the node is not read
    made["parameters"] = parameters
    return made | (_flow_level(node, "blocks") if isinstance(node.get("blocks"), list) else {})


def _archived(value: Any) -> Any:
    """Return a value with all typed inputs in it as an archive has them."""
    if isinstance(value, list):
        return [_archived(each) for each in list_of(value)]
    if not isinstance(value, dict):
        return value
    fields = fields_of(value)
    return {key: _archived_input(each) if key == "input" else _archived(each) for key, each in fields.items()}


def _archived_input(given: Any) -> Any:
    """Return a typed input as an archive has it; a value of another kind, such as a global variable, stays."""
    try:
        value = given["value"]
        content = value["content"]
        if value["type"] == "literal":
            return {**_archived_type(given), "value": content}
        if value["type"] == "ref" and content["source"] == "block-output":
            return {**_archived_type(given), "value": {"path": content["name"], "ref_node": content["blockID"]}}
    except MISREAD:
        pass
    return given


def _archived_output(given: Any) -> Fields:
    if "input" in given:
        return {"value": _archived_input(given["input"])}
    others = _without(fields_of(given), "name", "type", "schema", "assistType")
    return {**_archived_type(given), "value": None, **others}


def _archived_type(given: Any) -> Fields:
    kind, schema = given["type"], given.get("schema")
    if kind == "string" and given.get("assistType"):
        return {"type": _FILES[given["assistType"]]}
    if kind == "list" and schema:
        return {"type": "list", "items": {**_archived_type(schema), "value": None}}
    fields = each_of(schema)
    if kind == "object" and fields and all("name" in each and "input" not in each for each in fields):
        return {"type": "object", "properties": {each["name"]: _archived_output(each) for each in fields}}
    return {"type": kind}


# To a canvas


class _CanvasWriter:
    """Writer of the nodes and edges of an archive's workflow as those of a canvas."""

    def __init__(self, writer: Writer) -> None:
        self._names = writer.names

    def level(self, flow: Fields, old_flow: Fields, old: Fields, key: str) -> Fields:
        """Return a level of the canvas.

        Args:
            flow: The level of the workflow.
            old_flow: The same level of the workflow that was read; empty if there is none.
            old: The level of the canvas that was read; empty if there is none.
            key: The key of the nodes: ``nodes``, or ``blocks`` in a container.
        """
        old_nodes = {str(each.get("id")): each for each in reversed(each_of(old.get(key)))}
        before = {str(each.get("id")): each for each in reversed(each_of(old_flow.get("nodes")))}
        nodes = [
            self._node(each, before.get(str(each["id"]), {}), old_nodes.get(str(each["id"]), {}))
            for each in each_of(flow.get("nodes"))
        ]
        edges: list[Any] = list_of(old.get("edges"))
        if not old or flow.get("edges") != old_flow.get("edges"):
            edges = _merged_edges(edges, each_of(flow.get("edges")))
        return {**old, key: nodes, **({"edges": edges} if edges or "edges" in old or not old else {})}

    def _node(self, node: Fields, before: Fields, old: Fields) -> Fields:
        made = old
        if not old or _without(node, "nodes", "edges") != _without(before, "nodes", "edges"):
            made = self._changed_node(node, old)
            changed = merged(old, self._changed_node(before, old), made) if old and before else made
            made = changed if _flow_node(changed) == _flow_node(made) else made
        return {**made, **self.level(node, before, made, "blocks")} if "nodes" in node else made

    def _changed_node(self, node: Fields, old: Fields) -> Fields:
        data, kind, parameters = fields_of(old.get("data")), str(node["type"]), fields_of(node.get("parameters"))
        head = {key: node[key] for key in ("title", "icon", "description") if key in node}
        places = {"position": "position", "canvasPosition": "canvas_position"}
        meta: Fields = {} if fields_of(old.get("meta")) else {"position": {"x": 0, "y": 0}}
        meta |= {theirs: node[ours] for theirs, ours in places.items() if ours in node}
        made: Fields = {**data, "nodeMeta": {**fields_of(data.get("nodeMeta")), **head}}
        outputs = parameters.get("node_outputs")
        if isinstance(outputs, Mapping):
            made["outputs"] = [self._output(name, each) for name, each in fields_of(outputs).items()]
        if kind == "start":
            made["trigger_parameters"] = made.get("outputs", [])
        else:
            others = _without(parameters, "node_inputs", "node_outputs")
            inputs = {"inputParameters": parameters["node_inputs"]} if "node_inputs" in parameters else {}
            made["inputs"] = self._written({**inputs, **others})
        version = {"version": node["version"]} if "version" in node else {}
        return {
            **old,
            "id": node["id"],
            "type": _NUMBERS.get(kind, kind),
            "meta": {**fields_of(old.get("meta")), **meta},
            "data": made,
            **version,
        }

    def _written(self, value: Any) -> Any:
        """Return a value with all inputs in it as a canvas has them; the inverse of `_archived`."""
        if isinstance(value, list):
            return [self._written(each) for each in list_of(value)]
        if not isinstance(value, dict):
            return value
        fields = fields_of(value)
        return {key: self._input(each) if key == "input" else self._written(each) for key, each in fields.items()}

    def _input(self, given: Any) -> Any:
        fields = fields_of(given)
        value = fields.get("value")
        reference = fields_of(value)
        if not fields or reference.get("type") in ("ref", "literal", "object_ref"):
            return given
        if {"path", "ref_node"} <= reference.keys():
            kind = fields if "type" in fields else coze_type(self._names.type_of(self._selector(reference)))
            content = {"source": "block-output", "blockID": reference["ref_node"], "name": reference["path"]}
            return {**_canvas_type(kind), "value": {"type": "ref", "content": content}}
        literal: Fields = {"type": "literal", "content": value}
        return {**_canvas_type(fields if "type" in fields else {"type": "string"}), "value": literal}

    def _selector(self, reference: Fields) -> Selector:
        variable, node = self._names.selector(reference)
        return Selector(variable, node)

    def _output(self, name: str, given: Any) -> Fields:
        fields = fields_of(given)
        if isinstance(fields.get("value"), dict):
            return {"name": name, "input": self._input(fields["value"])}
        others = _without(fields, "type", "items", "properties", "value")
        return {**_canvas_type({"type": "string"} | fields), "name": name, **others}


def _canvas_type(given: Mapping[str, Any]) -> Fields:
    """Return a type as a canvas has it; the inverse of `_archived_type`."""
    kind = str(given.get("type"))
    if kind in _ASSIST:
        return {"type": "string", "assistType": _ASSIST[kind]}
    if kind == "list":
        return {"type": "list", "schema": _canvas_type(fields_of(given.get("items")) or {"type": "string"})}
    if kind == "object":
        properties = fields_of(given.get("properties"))
        fields = [{**_canvas_type(fields_of(each)), "name": name} for name, each in properties.items()]
        return {"type": "object", "schema": fields}
    return {"type": "float" if kind == "number" else kind}


def _merged_edges(old: Sequence[Any], edges: Sequence[Fields]) -> list[Any]:
    """Return the edges as a canvas has them; those that it had come first, as they were."""

    def key(edge: Fields) -> tuple[str, ...]:
        return tuple(str(edge.get(name, "")) for name in ("source_node", "target_node", "source_port"))

    wanted = {key(each): each for each in edges}
    kept = [each for each in each_of(old) if wanted.pop(key(_flow_edge(each)), None)]
    names = {"source_node": "sourceNodeID", "target_node": "targetNodeID", "source_port": "sourcePortID",
             "target_port": "targetPortID"}  # fmt: skip
    return [*kept, *({names[name]: value for name, value in each.items()} for each in wanted.values())]
