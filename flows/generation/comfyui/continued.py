"""A workflow that is there → the code that a model is shown, and back: what it left alone keeps its looks."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from operad.flows.formats.comfyui import Definitions, dump_code, restored
from operad.flows.generation.comfyui.drafts import read_lines
from operad.flows.node_graph import NodeGraph

NOTES = ("Note", "MarkdownNote")
"""The classes of what people write beside a workflow; models are not shown it, and it stays."""


def code_of(graph: NodeGraph, definitions: Definitions) -> str:
    """The code of a workflow that is there, without notes.

    Args:
        graph: The workflow, in any of ComfyUI's forms.
        definitions: The classes, which name the values that its page saved.
    """
    return dump_code(replace(graph, nodes=[spec for spec in graph.nodes if spec.type not in NOTES]), definitions)


def continued(code: str, before: str, base: NodeGraph) -> NodeGraph:
    """The workflow of code. Nodes of the base that are the same in both codes are the very same.

    Args:
        code: The code.
        before: That of the base, as `code_of` made it.
        base: The workflow that was there; without nodes where there was none.
    """
    was = read_lines(before, Definitions(), NodeGraph(name=base.name)).graph
    made = read_lines(code, Definitions(), was).graph
    hidden = [spec for spec in base.nodes if spec.id not in was.by_id]
    made = _beside(made, {spec.id for spec in hidden})
    whole = restored(replace(made, nodes=[*made.nodes, *hidden]), base)
    there = base.by_id
    same = {spec.id for spec in made.nodes if spec.id in was.by_id and _same(spec.id, made, was)}
    same |= {spec.id for spec in hidden}
    return replace(whole, nodes=[there[spec.id] if spec.id in same else spec for spec in whole.nodes], name=base.name)


def _same(node_id: str, made: NodeGraph, was: NodeGraph) -> bool:
    one, other = made.by_id[node_id], was.by_id[node_id]
    return (one.type, one.params) == (other.type, other.params)


def _beside(graph: NodeGraph, taken: set[str]) -> NodeGraph:
    """The workflow with other ids for nodes whose ids are taken."""
    used = {*taken, *graph.by_id}
    free = (number for number in map(str, count(1)) if number not in used)
    ids = {each: next(free) for each in graph.by_id if each in taken}
    if not ids:
        return graph
    nodes = [replace(spec, id=ids.get(spec.id, spec.id)) for spec in graph.nodes]
    edges = [replace(e, source=ids.get(e.source, e.source), target=ids.get(e.target, e.target)) for e in graph.edges]
    return replace(graph, nodes=nodes, edges=edges)
