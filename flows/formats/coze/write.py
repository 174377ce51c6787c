"""A workflow → what an archive says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from operad.flows.formats.coze.ends import ICONS, write_ends
from operad.flows.formats.coze.layout import places
from operad.flows.formats.coze.names import Names
from operad.flows.formats.coze.nodes import KINDS
from operad.flows.formats.coze.nodes.models import DEFAULT_CLASS
from operad.flows.formats.coze.notes import NAME, beneath, said_of, still_holds, to_keep, with_note, write_note
from operad.flows.formats.coze.ports import port_name
from operad.flows.formats.coze.structure import END_ID, Structure
from operad.flows.formats.coze.translation import UNREAD, output_names, translated, write_node
from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec


class Writer:
    """Writes one workflow.

    Args:
        graph: The workflow.

    Attributes:
        structure: How its nodes stand to each other at Coze.
        names: References.
        name: What Coze calls it.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self.structure = Structure(graph)
        self._graph = graph = self.structure.graph
        outputs = {
            spec.id: output_names(spec.type, spec.params, said_of(spec).get("parameters")) for spec in graph.nodes
        }
        self.names = Names(self.structure.ids, outputs)
        self.name = _file_name(graph.name)

    @property
    def flow(self) -> Fields:
        """The workflow's file."""
        note: Fields = {"name": self._graph.name} if self.name != self._graph.name else {}
        note |= {"instructions": list(self._graph.instructions)} if self._graph.instructions else {}
        note |= {"notes": list(self._graph.notes)} if self._graph.notes else {}
        flow: Fields = {
            "schema_version": "1.0.0",
            "name": self.name,
            "id": 1,
            "description": write_note(note),
            "mode": "workflow",
            "icon": "plugin_icon/workflow.png",
        }
        if kept := fields_of(self._said.get("flow")):
            flow = {**kept, "name": self.name, "description": with_note(kept.get("description", ""), note)}
        nodes, edges = self._level("", self.structure.top)
        for each in list_of(self._said.get("comments")):
            match each:
                case [int() as place, {"id": _, "type": "comment"} as comment]:
                    nodes.insert(place, comment)
                case _:
                    pass
        return {**flow, "nodes": nodes, "edges": edges}

    @property
    def about(self) -> Fields:
        """The manifest."""
        if kept := fields_of(self._said.get("manifest")):
            return {**kept, "main": {**fields_of(kept.get("main")), "name": self.name}}
        main = {"id": 1, "name": self.name, "desc": "", "icon": "plugin_icon/workflow.png"}
        main |= {"version": "", "flowMode": 0, "commitId": ""}
        return {"type": "Workflow", "version": "1.0.0", "main": main, "sub": []}

    @property
    def others(self) -> Mapping[str, str]:
        """The files of other workflows in the archive."""
        return {str(path): str(text) for path, text in fields_of(self._said.get("files")).items()}

    @property
    def _said(self) -> Fields:
        return fields_of(self._graph.extra.get(NAME))

    # Nodes

    def _level(self, parent: str, specs: Sequence[NodeSpec]) -> tuple[list[Fields], list[Fields]]:
        ids = self.structure.ids
        here = [spec for spec in specs if spec.id not in self.structure.placeless]
        edges = list(self._edges(parent, specs))
        at = places([ids[spec.id] for spec in here], edges)
        made = [self._node(spec, at[ids[spec.id]]) for spec in here]
        if self.structure.ends and not parent:
            made += write_ends(self.structure, self.names, max((place[0] for place in at.values()), default=0))
        return made, edges

    def _node(self, spec: NodeSpec, place: tuple[int, int]) -> Fields:
        structure = self.structure
        written = write_node(spec, self.names)
        kind, parameters = written.type, written.parameters
        note: Fields = {"id": spec.id} if structure.ids[spec.id] != spec.id else {}
        said = said_of(spec)
        if said and still_holds(said, spec, self.names):
            kind, parameters = str(said["type"]), said.get("parameters")
        elif said and spec.type.removeprefix(UNREAD) == said.get("type") and not translated(spec, self.names):
            kind, parameters = str(said["type"]), spec.params
        else:
            note |= to_keep(spec, written, self.names)
            parameters = beneath(fields_of(said.get("parameters")), parameters)
        holds = spec.id in structure.begins
        begins = structure.begins.get(spec.id)
        if holds and (begins.id if begins else "") != f"{spec.id}-1":
            note["start"] = begins.id if begins else ""
        made: Fields = {"id": structure.ids[spec.id], "type": kind}
        if said:
            made |= {key: value for key, value in said.items() if key not in ("parameters", "type")}
        else:
            made["title"] = {"start": "Start", "end": "End"}.get(spec.type, f"{spec.type} {spec.id}")
            made |= {"icon": ICONS + written.icon, "description": "", "position": {"x": place[0], "y": place[1]}}
            made |= {"version": "v2"} if kind == "code" else {}
            around = {"canvas_position": {"x": place[0] - 100, "y": place[1] - 400}}
            made |= around if holds else {}
        if note:
            made["description"] = with_note(made.get("description", ""), note)
        if parameters is not None:
            made["parameters"] = parameters
        if holds:
            made["nodes"], made["edges"] = self._level(spec.id, structure.children.get(spec.id, []))
        return made

    # Edges

    def _edges(self, parent: str, specs: Sequence[NodeSpec]) -> Iterator[Fields]:
        structure = self.structure
        here = {spec.id for spec in specs}
        inline = f"{KINDS[self._graph.by_id[parent].type].type}-function-inline" if parent else ""
        leaving: set[str] = set()
        merged: list[Fields] = []
        for edge in self._graph.edges:
            if edge.source in here and structure.leads_somewhere(edge):
                leaving.add(edge.source)
                made = self._edge(edge, parent, inline)
                if made["target_node"] != structure.merge or made not in merged:
                    merged.append(made)
                    yield made
                    if made.get("source_port", "").startswith("branch_") and self._is_last_class(edge):
                        yield {**made, "source_port": DEFAULT_CLASS}
        if structure.ends and not parent:
            yield {"source_node": structure.merge, "target_node": END_ID}
        for spec in specs if parent else ():
            if spec.id not in leaving and spec.id not in structure.placeless:
                target = {"target_node": structure.ids[parent], "target_port": f"{inline}-input"}
                yield {"source_node": structure.ids[spec.id], **target}

    def _edge(self, edge: Edge, parent: str, inline: str) -> Fields:
        structure = self.structure
        source, target, port = structure.ids[edge.source], structure.ids[edge.target], self._port(edge)
        begins = structure.begins.get(parent) if parent else None
        if begins and edge.source == begins.id:
            source, port = structure.ids[parent], f"{inline}-output"
        if structure.is_end(edge.target):
            target = structure.merge
        made: Fields = {"source_node": source, "target_node": target}
        return {**made, "source_port": port} if port else made

    def _port(self, edge: Edge) -> str:
        if isinstance(said := edge.extra.get(NAME), str):
            return said
        node = translated(self._graph.by_id[edge.source], self.names)
        if edge.source in self.structure.begins:
            return f"{node.type if node else 'batch'}-output"
        return port_name(node, edge.port)

    def _is_last_class(self, edge: Edge) -> bool:
        params = fields_of(self._graph.by_id[edge.source].params)
        return edge.port == len(params.get("classes", ())) - 1


def _file_name(name: str) -> str:
    """Return a name as Coze takes it: a letter, then letters, digits and underscores."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)[:60]
    return made if re.match("[A-Za-z]", made) else f"w_{made}"
