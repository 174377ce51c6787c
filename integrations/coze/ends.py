"""Several ends of a workflow, which become one end at Coze, after a variable_merge with a group for each output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from operad.flows.formats.shapes import Fields
from operad.flows.node_graph import Edge, NodeSpec
from operad.integrations.coze.inputs import input_of
from operad.integrations.coze.names import Names
from operad.integrations.coze.notes import write_note
from operad.integrations.coze.structure import END_ID, Structure
from operad.integrations.coze.translation import MISREAD
from operad.operators.nodes import NODE_TYPES

ICONS = "https://lf3-static.bytednsdoc.com/obj/eden-cn/dvsmryvd_avi_dvsm/ljhwZthlaukjlkulzlp/icon/"
"""URL of the folder of Coze's icons."""


class Ends(NamedTuple):
    """Several ends that are one at Coze.

    Attributes:
        merge: Coze's id of the variable_merge before the single end.
        specs: The ends.
        sources: For each end, the sources of the edges to it, as ``[node id, port]``.
    """

    merge: str
    specs: Sequence[NodeSpec]
    sources: Sequence[Any]


def write_ends(structure: Structure, names: Names, x: int) -> list[Fields]:
    """Return the variable_merge and the single end for several ends; `x` is the position of the last column."""
    merge_id = structure.merge
    groups: dict[str, list[Fields]] = {}
    notes: list[Fields] = []
    for spec in structure.ends:
        params: Any = NODE_TYPES["end"].params_type.model_validate(spec.params)
        for name, selector in params.outputs:
            groups.setdefault(name, []).append(names.merged(selector))
        sources = [[edge.source, edge.port] for edge in structure.graph.edges if edge.target == spec.id]
        notes.append({"id": spec.id, "outputs": [name for name, _ in params.outputs], "from": sources})
    merge: Fields = {
        "id": merge_id,
        "type": "variable_merge",
        "title": "variable-aggregator of the ends",
        "icon": ICONS + "VariableMerge-icon.jpg",
        "description": write_note({"ends": notes}),
        "position": {"x": x + 460, "y": 0},
        "parameters": {
            "mergeGroups": [{"name": name, "variables": variables} for name, variables in groups.items()],
            "node_outputs": {name: {"value": None} for name in groups},
        },
    }
    inputs = [input_of(name, {"path": name, "ref_node": merge_id}) for name in groups]
    end: Fields = {
        "id": END_ID,
        "type": "end",
        "title": "End",
        "icon": ICONS + "icon-End-v2.jpg",
        "description": "",
        "position": {"x": x + 920, "y": 0},
        "parameters": {"node_inputs": inputs, "terminatePlan": "returnVariables"},
    }
    return [merge, end]


def read_ends(merge: Mapping[str, Any], note: Mapping[str, Any], end: Mapping[str, Any], names: Names) -> Ends | None:
    """Return the several ends that a single end stands for; None if it was edited in Coze and stays a single end.

    Args:
        merge: The variable_merge before the single end.
        note: The data in the description of the variable_merge.
        end: The single end.
        names: The names of nodes and outputs.
    """
    try:
        groups = {group["name"]: list(group["variables"]) for group in merge["parameters"]["mergeGroups"]}
        given = {item["name"]: item["input"]["value"] for item in end["parameters"]["node_inputs"]}
        if given != {name: {"path": name, "ref_node": str(merge["id"])} for name in groups}:
            return None
        ends: list[NodeSpec] = []
        sources: list[Any] = []
        for item in note["ends"]:
            outputs = [[name, names.variable(groups[name].pop(0))] for name in item["outputs"]]
            ends.append(NodeSpec(str(item["id"]), "end", {"outputs": outputs}))
            sources.append([[str(source), int(port)] for source, port in item["from"]])
    except MISREAD:
        return None
    return None if any(groups.values()) or not ends else Ends(str(merge["id"]), ends, sources)


def to_ends(edges: Sequence[Edge], merge: str, ends: Ends) -> list[Edge]:
    """Return the edges, with edges to the variable_merge (`merge`, Operad's id) replaced by edges to the ends."""
    made: list[Edge] = []
    for edge in edges:
        end_ids = [
            end.id for end, each in zip(ends.specs, ends.sources, strict=True) if [edge.source, edge.port] in each
        ]
        if edge.target != merge:
            made.append(edge)
        else:
            made += (replace(edge, target=end) for end in end_ids or [ends.specs[0].id])
    return [edge for edge in made if edge.source != merge]
