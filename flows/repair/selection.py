"""Rule on the response around the workflow: the node types that its selection names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from operad.flows.formats.chat2workflow import NAME
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.shape import known_type
from operad.flows.repair.state import Proposal, State

_SELECTION = re.compile(r"(<node_selection>)(.*?)(</node_selection>)", re.DOTALL)
_DISPLAY_NAMES = {
    "llm": "LLM", "if-else": "If-Else", "http-request": "HTTP Request", "template-transform": "Template", "tts": "Text to Speech",
    "text2image": "Text to Image", "echarts": "Echarts",
}  # fmt: skip


def selection(state: State) -> Iterator[Proposal]:
    """Add the node types that the selection lacks, and remove those that no node has."""
    graph = state.graph
    before = str(fields_of(graph.extra.get(NAME)).get("before", ""))
    found = _SELECTION.search(before)
    if found is None or not any(issue.code == "not-selected" for issue in state.issues):
        return
    used = list(dict.fromkeys(node.type for node in graph.nodes))
    selected = [name.strip() for name in re.split(r"[,;\n](?![^()]*\))", found[2]) if name.strip()]
    kept = {name: type_ for name in selected if (type_ := _type_of(name)) in used}
    removed = [name for name in selected if name not in kept]
    added = [spoken(node_type) for node_type in used if node_type not in kept.values()]
    listed = ", ".join([*(re.sub(r"\s*\([^()]*\)", "", name).strip(" -*`.") for name in kept), *added])
    changed = _SELECTION.sub(lambda match: f"{match[1]}{listed}{match[3]}", before, count=1)
    what = "; ".join(f"{', '.join(each)}: {done}" for each, done in ((added, "added"), (removed, "left out")) if each)
    why = "it names the types of the workflow"
    yield Proposal("<node_selection>", what or "is written anew", why, with_before(graph, changed))
    all_types = ", ".join(spoken(node_type) for node_type in used)
    changed = _SELECTION.sub(lambda match: f"{match[1]}{all_types}{match[3]}", before, count=1)
    yield Proposal("<node_selection>", "is written anew", why, with_before(graph, changed))


def with_before(graph: NodeGraph, before: str) -> NodeGraph:
    """Return the workflow with another text before it in its response."""
    around = {**fields_of(graph.extra.get(NAME)), "before": before}
    return replace(graph, extra={**graph.extra, NAME: around})


def _type_of(said: str) -> str:
    return known_type(re.sub(r"\([^()]*\)", "", said).strip(" \t.*`'\"-"))


def spoken(name: str) -> str:
    """Return the display name of a node type, as selections have it."""
    return _DISPLAY_NAMES.get(name) or " ".join(word.capitalize() for word in name.split("-"))
