"""Writer of a workflow into an archive of Coze."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.formats.variable_types import VariableTypes
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, depths
from operad.integrations.coze.ends import ICONS, write_ends
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.containers import ENDS_EARLY
from operad.integrations.coze.nodes.models import DEFAULT_CLASS
from operad.integrations.coze.notes import (
    NAME,
    archived_data,
    changed_params,
    data_to_keep,
    kept_node,
    with_note,
    write_note,
)
from operad.integrations.coze.ports import port_name
from operad.integrations.coze.structure import END_ID, Structure
from operad.integrations.coze.translation import output_names, write_node

# Positions of nodes: columns by the longest path to a node, rows in the order of the nodes.


def places(ids: Sequence[str], edges: Iterable[Fields]) -> dict[str, tuple[int, int]]:
    """Return the position of each node, in pixels from the left and from the top.

    Args:
        ids: The ids of the nodes.
        edges: The edges in Coze's form.
    """
    columns = depths(ids, (Edge(edge["source_node"], edge["target_node"]) for edge in edges))
    next_row: dict[int, int] = {}
    positions: dict[str, tuple[int, int]] = {}
    for node_id in ids:
        row = next_row.setdefault(columns[node_id], 0)
        next_row[columns[node_id]] += 1
        positions[node_id] = (460 * columns[node_id], 260 * row)
    return positions


class Writer:
    """Writer of one workflow.

    Args:
        graph: The workflow.
        kept_ids: As of `Structure`.

    Attributes:
        structure: The nesting and the ids of the nodes at Coze.
        names: The names of nodes and outputs, at Coze and in Operad.
        name: The name of the workflow at Coze.
    """

    def __init__(self, graph: NodeGraph, kept_ids: Collection[str] = ()) -> None:
        self.structure = Structure(graph, kept_ids)
        self._graph = graph = self.structure.graph
        outputs = {
            spec.id: output_names(spec.type, spec.params, archived_data(spec).get("parameters")) for spec in graph.nodes
        }
        self.names = Names(self.structure.ids, outputs, VariableTypes(graph).of, self.structure.constants)
        self.name = _file_name(graph.name)

    @property
    def flow(self) -> Fields:
        """File of the workflow."""
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
        if kept := fields_of(self._archived.get("flow")):
            flow = {**kept, "name": self.name, "description": with_note(kept.get("description", ""), note)}
        nodes, edges = self._written_level("", self.structure.top)
        for item in list_of(self._archived.get("comments")):
            match item:
                case [int() as place, {"id": _, "type": "comment"} as comment]:
                    nodes.insert(place, comment)
                case _:
                    pass
        return {**flow, "nodes": nodes, "edges": edges}

    @property
    def about(self) -> Fields:
        """Manifest of the archive."""
        if kept := fields_of(self._archived.get("manifest")):
            return {**kept, "main": {**fields_of(kept.get("main")), "name": self.name}}
        main = {"id": 1, "name": self.name, "desc": "", "icon": "plugin_icon/workflow.png"}
        main |= {"version": "", "flowMode": 0, "commitId": ""}
        return {"type": "Workflow", "version": "1.0.0", "main": main, "sub": []}

    @property
    def others(self) -> Mapping[str, str]:
        """Files of other workflows in the archive, by path."""
        return {str(path): str(text) for path, text in fields_of(self._archived.get("files")).items()}

    @property
    def _archived(self) -> Fields:
        return fields_of(self._graph.extra.get(NAME))

    # Nodes

    def _written_level(self, parent: str, specs: Sequence[NodeSpec]) -> tuple[list[Fields], list[Fields]]:
        """Return the nodes and the edges of a container in Coze's form; for an empty id, of the workflow."""
        ids = self.structure.ids
        placed = [spec for spec in specs if spec.id not in self.structure.without_coze_node]
        edges = list(self._written_edges(parent, specs))
        positions = places([ids[spec.id] for spec in placed], edges)
        nodes = [self._written_node(spec, positions[ids[spec.id]]) for spec in placed]
        if self.structure.ends and not parent:
            nodes += write_ends(self.structure, self.names, max((place[0] for place in positions.values()), default=0))
        return nodes, edges

    def _written_node(self, spec: NodeSpec, place: tuple[int, int]) -> Fields:
        """Return a node in Coze's form; `place` is its position."""
        structure = self.structure
        written = write_node(spec, self.names)
        coze_type, parameters = written.type, written.parameters
        note: Fields = {"id": spec.id} if structure.ids[spec.id] != spec.id else {}
        archived = archived_data(spec)
        if kept := kept_node(archived, spec, self.names):
            coze_type, parameters = str(kept["type"]), kept.get("parameters")
        else:
            note |= data_to_keep(spec, written, self.names)
            parameters = changed_params(archived, spec, written, self.names)
        is_container = spec.id in structure.plain_starts
        start = structure.plain_starts.get(spec.id)
        if is_container and (start.id if start else "") != f"{spec.id}-1":
            note["start"] = start.id if start else ""
        node: Fields = {"id": structure.ids[spec.id], "type": coze_type}
        if archived:
            node |= {key: value for key, value in archived.items() if key not in ("parameters", "type", ENDS_EARLY)}
            node |= {"title": spec.title or default_title(spec)} if spec.title != title_in(archived, spec) else {}
        else:
            node["title"] = spec.title or default_title(spec)
            node |= {"icon": ICONS + written.icon, "description": "", "position": {"x": place[0], "y": place[1]}}
            node |= {"version": "v2"} if coze_type == "code" else {}
            canvas = {"canvas_position": {"x": place[0] - 100, "y": place[1] - 400}}
            node |= canvas if is_container else {}
        if note:
            node["description"] = with_note(node.get("description", ""), note)
        if parameters is not None:
            node["parameters"] = parameters
        if is_container:
            node["nodes"], node["edges"] = self._written_level(spec.id, structure.children.get(spec.id, []))
        return node

    # Edges

    def _written_edges(self, parent: str, specs: Sequence[NodeSpec]) -> Iterator[Fields]:
        """Yield the edges of a level in Coze's form; the last nodes of a container lead back to it."""
        structure = self.structure
        node_ids = {spec.id for spec in specs}
        inline = f"{self._coze_type(self._graph.by_id[parent])}-function-inline" if parent else ""
        with_edges: set[str] = set()
        written: list[Fields] = []
        for edge in self._graph.edges:
            if edge.source in node_ids and structure.leads_somewhere(edge):
                with_edges.add(edge.source)
                made = self._written_edge(edge, parent, inline)
                if made["target_node"] != structure.merge or made not in written:
                    written.append(made)
                    yield made
                    if made.get("source_port", "").startswith("branch_") and self._is_last_class(edge):
                        yield {**made, "source_port": DEFAULT_CLASS}
        if structure.ends and not parent:
            yield {"source_node": structure.merge, "target_node": END_ID}
        for spec in specs if parent else ():
            if spec.id not in with_edges and spec.id not in structure.without_coze_node:
                target = {"target_node": structure.ids[parent], "target_port": f"{inline}-input"}
                yield {"source_node": structure.ids[spec.id], **target}

    def _written_edge(self, edge: Edge, parent: str, inline: str) -> Fields:
        structure = self.structure
        source, target, port = structure.ids[edge.source], structure.ids[edge.target], self._port(edge)
        start = structure.plain_starts.get(parent) if parent else None
        if start and edge.source == start.id:
            source, port = structure.ids[parent], f"{inline}-output"
        if structure.is_end(edge.target):
            target = structure.merge
        made: Fields = {"source_node": source, "target_node": target}
        return {**made, "source_port": port} if port else made

    def _port(self, edge: Edge) -> str:
        """Return Coze's name of the port that an edge leaves; empty for the only port of a node."""
        if isinstance(archived_port := edge.extra.get(NAME), str):
            return archived_port
        spec = self._graph.by_id[edge.source]
        if edge.source in self.structure.plain_starts:
            return f"{self._coze_type(spec)}-output"
        return port_name(self._coze_type(spec), spec.params, edge.port)

    def _coze_type(self, spec: NodeSpec) -> str:
        """Return Coze's type of a node: that of its archive as long as at most its texts have changed."""
        return str((kept_node(archived_data(spec), spec, self.names) or write_node(spec, self.names)._asdict())["type"])

    def _is_last_class(self, edge: Edge) -> bool:
        params = fields_of(self._graph.by_id[edge.source].params)
        return edge.port == len(params.get("classes", ())) - 1


def default_title(spec: NodeSpec) -> str:
    """Return the title of a node that has none of its own."""
    return {"start": "Start", "end": "End"}.get(spec.type, f"{spec.type} {spec.id}")


def title_in(node: Mapping[str, Any], spec: NodeSpec) -> str:
    """Return the title that a node has in Coze's form; empty for the default."""
    title = node.get("title")
    return title if isinstance(title, str) and title != default_title(spec) else ""


def _file_name(name: str) -> str:
    """Return a name in the form that Coze accepts: a letter, then letters, digits and underscores."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)[:60]
    return made if re.match("[A-Za-z]", made) else f"w_{made}"
