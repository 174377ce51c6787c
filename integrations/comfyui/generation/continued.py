"""Conversion of an existing ComfyUI workflow to code for a model, and back; unchanged nodes keep their layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats import Definitions, dump_code, restored
from operad.integrations.comfyui.generation.drafts import read_lines

NOTES = ("Note", "MarkdownNote")
"""Classes of notes beside a workflow, which models are not shown and which are kept."""


def code_of(graph: NodeGraph, definitions: Definitions) -> str:
    """Return the code of an existing workflow, without notes.

    Args:
        graph: The workflow, in any of ComfyUI's forms.
        definitions: The classes of the server, which name the values that ComfyUI's page saves as lists.
    """
    return dump_code(replace(graph, nodes=[spec for spec in graph.nodes if spec.type not in NOTES]), definitions)


def continued(code: str, before: str, base: NodeGraph) -> NodeGraph:
    """Return the workflow of changed code; nodes that are equal in both codes stay the same objects.

    Args:
        code: The changed code.
        before: The code of the base, from `code_of`.
        base: The existing workflow; without nodes if there is none.
    """
    before_graph = read_lines(before, Definitions(), NodeGraph(name=base.name)).graph
    changed = read_lines(code, Definitions(), before_graph).graph
    hidden = [spec for spec in base.nodes if spec.id not in before_graph.by_id]
    changed = _with_free_ids(changed, {spec.id for spec in hidden})
    restored_graph = restored(replace(changed, nodes=[*changed.nodes, *hidden]), base)
    base_nodes = base.by_id
    unchanged = {
        spec.id for spec in changed.nodes if spec.id in before_graph.by_id and _is_same(spec.id, changed, before_graph)
    }
    unchanged |= {spec.id for spec in hidden}
    return replace(
        restored_graph,
        nodes=[base_nodes[spec.id] if spec.id in unchanged else spec for spec in restored_graph.nodes],
        name=base.name,
    )


def _is_same(node_id: str, changed: NodeGraph, before: NodeGraph) -> bool:
    """Return whether a node has the same class and parameters in two workflows."""
    changed_node, node_before = changed.by_id[node_id], before.by_id[node_id]
    return (changed_node.type, changed_node.params) == (node_before.type, node_before.params)


def _with_free_ids(graph: NodeGraph, taken: set[str]) -> NodeGraph:
    """Return the workflow with new ids for nodes whose ids are taken."""
    used = {*taken, *graph.by_id}
    free = (number for number in map(str, count(1)) if number not in used)
    ids = {node_id: next(free) for node_id in graph.by_id if node_id in taken}
    if not ids:
        return graph
    nodes = [replace(spec, id=ids.get(spec.id, spec.id)) for spec in graph.nodes]
    edges = [replace(e, source=ids.get(e.source, e.source), target=ids.get(e.target, e.target)) for e in graph.edges]
    return replace(graph, nodes=nodes, edges=edges)
