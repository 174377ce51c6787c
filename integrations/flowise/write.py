"""Writer of a workflow into a file of AgentFlow v2.

A file that was read is kept in ``extra["flowise"]``. It is read again, and only what has changed since is written into it:
of a node, the fields of the dialog that differ between the node as it was and as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from operad.flows.check import CONVERSATION
from operad.flows.formats.overlay import apply_difference, change
from operad.flows.formats.shapes import Fields, fields_of, is_selector, list_of, pairs_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, depths
from operad.flows.secrets import file_secrets
from operad.integrations.flowise.draft import Draft, with_secrets
from operad.integrations.flowise.flow_file import FlowFile, FlowNode, faults
from operad.integrations.flowise.kinds import (
    AGENT,
    CLASSIFIER,
    CONDITION,
    DECISIONS,
    EXECUTE,
    FUNCTION,
    HUMAN,
    ITERATION,
    KINDS,
    LLM,
    LOOP,
    RETRIEVER,
    START,
    TOOL,
    WITHOUT_OUTPUT,
    fields_of_kind,
)
from operad.integrations.flowise.names import OUTSIDE, WrittenNames
from operad.integrations.flowise.nodes import WRITERS
from operad.integrations.flowise.nodes.models import of_variable
from operad.integrations.flowise.notes import written_note
from operad.integrations.flowise.read import read_flow
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.secret import fill_secrets

NAME = "flowise"
"""Name of the format, and key of its data in ``extra``."""

_STATES = {
    START: "startState",
    LLM: "llmUpdateState",
    AGENT: "agentUpdateState",
    LOOP: "loopUpdateState",
    TOOL: "toolUpdateState",
    RETRIEVER: "retrieverUpdateState",
    FUNCTION: "customFunctionUpdateState",
    EXECUTE: "executeFlowUpdateState",
}
"""Field of the new values of the flow's state, by kind."""

_COLUMN, _ROW = 260, 130


def default_label(kind: str, node_id: str) -> str:
    """Return the label of a node that has no title of its own."""
    return "Start" if kind == START else f"{KINDS[kind].label if kind in KINDS else kind} {node_id}"


def title_in(node: FlowNode) -> str:
    """Return the title of a node of a file; empty for the default label."""
    return "" if node.label == default_label(node.kind, node.id) else node.label


class Writer:
    """Writer of one workflow.

    Attributes:
        root: The values of the file.
        before: The nodes and edges as they were read from it.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        kept = fields_of(graph.extra.get(NAME)).get("file")
        empty: Fields = {"nodes": [], "edges": []}
        old: Fields = empty if list(faults(kept)) else deepcopy(fields_of(kept))
        self._file = FlowFile(old)
        try:
            self.before = with_secrets(read_flow(self._file))[0]
        except InvalidError:
            self._file, self.before = FlowFile(empty), Draft()
        self._owners = dict(self.before.owners)
        self._by_id = graph.by_id
        start = next((spec for spec in graph.nodes if spec.type == "start"), None)
        variables = pairs_of(fields_of(start.params).get("variables")) if start else []
        is_form = any(not str(name).startswith(OUTSIDE) for name, _ in variables)
        self._names = WrittenNames(graph, is_form)
        nodes = self._nodes()
        self.root: Fields = {
            **self._file.root,
            "nodes": nodes,
            "edges": self._edges({str(each["id"]) for each in nodes}),
        }

    # Nodes

    def _nodes(self) -> list[Fields]:
        written: list[Fields] = []
        for fields in self._file.root["nodes"]:
            node = self._file.nodes.get(str(fields["id"]))
            if node is None:
                written += self._note(fields)
            elif node.id in self._by_id or not self.before.groups.get(node.id):
                inputs, spec = self._inputs(node), self._by_id.get(node.id)
                changes: Fields = {} if inputs is node.inputs else {"inputs": inputs}
                if spec and spec.title != title_in(node):
                    changes["label"] = spec.title or default_label(node.kind, node.id)
                written.append({**fields, "data": {**fields["data"], **changes}} if changes else fields)
        new = [spec for spec in self._graph.nodes if self._by_id[spec.id] is spec and self._is_new(spec)]
        known = {str(fields["id"]) for fields in self._file.root["nodes"]}
        notes = [written_note(note) for note in self._graph.sticky_notes if note.id not in known]
        return [*written, *self._placed([self._new_node(spec) for spec in new], written), *notes]

    def _note(self, fields: Fields) -> list[Fields]:
        """Return a note of the file with its changes; nothing if it was removed."""
        note = next((each for each in self._graph.sticky_notes if each.id == str(fields["id"])), None)
        return [] if note is None else [written_note(note, fields)]

    def _is_new(self, spec: NodeSpec) -> bool:
        """Return True for a node that becomes a node of its own, and was not in the file."""
        if spec.id in self._owners or spec.type not in WRITERS:
            return False
        return not (spec.type == "assigner" and self._updated(spec))

    def _updated(self, spec: NodeSpec) -> str:
        """Return the id of the node whose update of the state an assigner is; empty if it is a node of its own."""
        main = self._by_id.get(spec.id.removesuffix("_state"))
        kind = WRITERS[main.type][0] if main and main.id != spec.id and main.type in WRITERS else ""
        return main.id if main and kind in _STATES else ""

    def _inputs(self, node: FlowNode) -> Fields:
        """Return the dialog of a node of the file, with the changes of Operad's nodes for it."""
        inputs = node.inputs
        for node_id in self.before.groups.get(node.id, ()):
            before, after = self.before.specs[node_id], self._by_id.get(node_id)
            if after is not None and (before.type, before.params) != (after.type, after.params):
                inputs = _merged(inputs, self._dialog(before, node.kind), self._dialog(after, node.kind))
        if node.kind == START and (changed := self._by_id.get(CONVERSATION)):
            before = self.before.specs.get(CONVERSATION)
            if before != changed and not self._by_id.get(f"{node.id}_state"):
                inputs = {**inputs, "startState": _state_of(changed), "startPersistState": True}
        added = self._by_id.get(f"{node.id}_state")
        if added and added.id not in self._owners and node.kind in _STATES:
            inputs = {**inputs, **self._dialog(added, node.kind)}
        removed = [
            each for each in self.before.groups.get(node.id, ()) if each.endswith("_state") and each not in self._by_id
        ]
        return {**inputs, _STATES[node.kind]: ""} if removed and node.kind in _STATES else inputs

    def _dialog(self, spec: NodeSpec, kind: str) -> Fields:
        """Return the fields of the dialog that a node of Operad stands for; none for code that only supports others."""
        params = fields_of(_filled(spec.params, file_secrets(self._graph)))
        if spec.type == "assigner" and kind in _STATES:
            return {_STATES[kind]: [self._update(each) for each in list_of(params.get("assignments"))]}
        if spec.type == "loop":
            return {"maxLoopCount": params.get("loop_count")}
        if spec.type == "answer" and kind == LOOP:
            return {"fallbackMessage": self._names.text(str(params.get("answer", "")))}
        own_kind, write = WRITERS.get(spec.type, ("", None))
        return write(params, self._names) if write and own_kind == kind else {}

    def _update(self, assignment: Any) -> Fields:
        target, _, value = [*list_of(assignment), None, None, None][:3]
        text = of_variable(value, self._names) if is_selector(value) else value
        return {
            "key": list_of(target)[0] if list_of(target) else "",
            "value": self._names.text(text) if isinstance(text, str) else text,
        }

    def _new_node(self, spec: NodeSpec) -> Fields:
        kind, write = WRITERS[spec.type]
        inputs = write(fields_of(spec.params), self._names)
        conversation = self._by_id.get(CONVERSATION)
        if kind == START and conversation:
            inputs |= {"startState": _state_of(conversation), "startPersistState": True}
        state = self._by_id.get(f"{spec.id}_state")
        if state and kind in _STATES:
            inputs |= self._dialog(state, kind)
        about = KINDS[kind]
        base = about.label.replace(" ", "")
        anchors = (
            [] if kind in WITHOUT_OUTPUT else [{"id": f"{spec.id}-output-{kind}", "label": about.label, "name": kind}]
        )
        if kind in DECISIONS:
            count = {CONDITION: len(list_of(inputs.get("conditions"))) + 1, HUMAN: 2}.get(kind)
            count = len(list_of(inputs.get("conditionAgentScenarios"))) if kind == CLASSIFIER else count
            anchors = [{"id": f"{spec.id}-output-{n}", "label": n, "name": n} for n in range(count or 0)]
        params = [
            {**field, "id": f"{spec.id}-input-{field['name']}-{field['type']}", "display": True}
            for field in fields_of_kind(kind)
        ]
        data: Fields = {
            "id": spec.id,
            "label": spec.title or default_label(kind, spec.id),
            "version": about.version,
            "name": kind,
            "type": base,
            "color": about.color,
            **({"hideOutput": True} if kind in WITHOUT_OUTPUT else {}),
            **({"hideInput": True} if kind == START else {}),
            "baseClasses": [base],
            "category": "Agent Flows",
            "description": about.label,
            "inputParams": params,
            "inputAnchors": [],
            "inputs": inputs,
            "outputAnchors": anchors,
            "outputs": {},
            "selected": False,
        }
        node: Fields = {"id": spec.id, "position": {"x": 0, "y": 0}, "data": data}
        node |= {
            "type": "iteration" if kind == ITERATION else "agentFlow",
            "width": 175,
            "height": 65,
            "selected": False,
        }
        parent = self._by_id.get(spec.parent)
        return node | ({"parentNode": parent.id, "extent": "parent"} if parent and parent.type == "iteration" else {})

    def _placed(self, new: list[Fields], old: list[Fields]) -> list[Fields]:
        """Return new nodes with positions: in columns by the longest path to them, below the nodes of the file."""
        columns = depths([each["id"] for each in new], self._graph.edges)
        top = max((float(fields_of(each.get("position")).get("y") or 0) + _ROW for each in old), default=0.0)
        rows: dict[tuple[str, int], int] = {}
        for node in new:
            place = str(node.get("parentNode", "")), columns[node["id"]]
            rows[place] = rows.get(place, -1) + 1
            position = {"x": place[1] * _COLUMN, "y": rows[place] * _ROW + (0 if place[0] else top)}
            node |= {"position": position, "positionAbsolute": dict(position)}
            if node["type"] == "iteration":
                inside = sum(each.get("parentNode") == node["id"] for each in new)
                node |= {"width": max(1, inside) * _COLUMN + 60, "height": 2 * _ROW}
        return new

    # Edges

    def _edges(self, ids: set[str]) -> list[Fields]:
        """Return the edges of the file between written nodes without those that were removed, and those that were added."""
        before, after = self.before.edges, self._graph.edges
        removed = {self._link(each, self._owners) for each in before if each not in after} - {None}
        removed -= {self._link(each, self._owners) for each in after}
        links = {id(fields): link for fields, link in self._links_of_file()}
        written = [
            fields
            for fields in self._file.root["edges"]
            if id(fields) not in links
            or (links[id(fields)] not in removed and {fields["source"], fields["target"]} <= ids)
        ]
        there = {links.get(id(fields)) for fields in written}
        for edge in after:
            link = self._link(edge, self._owners) if edge not in before else None
            if link and link not in there and {link[0], link[1]} <= ids:
                there.add(link)
                written.append(self._edge(*link))
        return written

    def _links_of_file(self) -> list[tuple[Fields, tuple[str, str, int]]]:
        known = [
            each for each in self._file.root["edges"] if {each["source"], each["target"]} <= self._file.nodes.keys()
        ]
        return [
            (fields, (link.source, link.target, link.port))
            for fields, link in zip(known, self._file.links, strict=True)
        ]

    def _link(self, edge: Edge, owners: Mapping[str, str]) -> tuple[str, str, int] | None:
        """Return the edge of the file that an edge stands for; None for one between the nodes for one node."""
        source, target = (self._owner(end, owners) for end in (edge.source, edge.target))
        starts = (self._by_id.get(edge.source) or self.before.specs.get(edge.source, NodeSpec("", ""))).type
        if source == target or starts in ("iteration-start", "loop-start"):
            return None
        kind = self._kind(source)
        return source, target, edge.port if kind in DECISIONS else 0

    def _owner(self, node_id: str, owners: Mapping[str, str]) -> str:
        if node_id in owners:
            return owners[node_id]
        spec = self._by_id.get(node_id)
        return (spec and spec.type == "assigner" and self._updated(spec)) or node_id

    def _kind(self, node_id: str) -> str:
        if node_id in self._file.nodes:
            return self._file.nodes[node_id].kind
        spec = self._by_id.get(node_id)
        return WRITERS[spec.type][0] if spec and spec.type in WRITERS else ""

    def _edge(self, source: str, target: str, port: int) -> Fields:
        kind = self._kind(source)
        handle = f"{source}-output-{port if kind in DECISIONS else kind}"
        colors = [KINDS[each].color if (each := self._kind(end)) in KINDS else "#888888" for end in (source, target)]
        data: Fields = {"sourceColor": colors[0], "targetColor": colors[1], "isHumanInput": kind == HUMAN}
        data |= (
            {"edgeLabel": ("proceed", "reject")[port] if kind == HUMAN and port < 2 else str(port)}
            if kind in DECISIONS
            else {}
        )
        ends = {"source": source, "sourceHandle": handle, "target": target, "targetHandle": target}
        return {**ends, "data": data, "type": "agentflowEdge", "id": f"{source}-{handle}-{target}-{target}"}


def _state_of(conversation: NodeSpec) -> list[Fields]:
    listed = [
        [*list_of(each), None, None, None][:3] for each in list_of(fields_of(conversation.params).get("variables"))
    ]
    return [{"key": name, "value": "" if value is None else value} for name, _, value in listed]


def _merged(inputs: Fields, before: Fields, after: Fields) -> Fields:
    """Return a dialog with the changes between the dialogs that Operad writes for a node before and after."""
    difference = change(before, after)
    changed = fields_of(fields_of(difference).get("at"))
    if not changed:
        return inputs
    given = {**inputs, **{key: before[key] for key in changed if key in before and key not in inputs}}
    merged = fields_of(apply_difference(given, difference, sure=True))
    # A list with other items than Operad's, such as messages without a text, takes no change of single items.
    same = {key for key in changed if merged.get(key) == given.get(key)}
    return {**merged, **{key: after[key] for key in same if key in after}}


def _filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return parameters with the keys that stand in the file itself."""
    if isinstance(value, str) and secrets:
        return fill_secrets(value, lambda secret: secrets.get(secret.name, secret.in_text))
    if isinstance(value, dict):
        return {key: _filled(each, secrets) for key, each in fields_of(value).items()}
    return [_filled(each, secrets) for each in list_of(value)] if isinstance(value, list) else value
