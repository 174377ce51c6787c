"""Rule on the response around the workflow: the node types that its selection names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from operad.flows.formats.chat2workflow import NAME
from operad.flows.formats.shapes import fields_of
from operad.flows.repair.state import Proposal, State

_SELECTION = re.compile(r"(<node_selection>)(.*?)(</node_selection>)", re.DOTALL)
_DISPLAY_NAMES = {
    "llm": "LLM", "if-else": "If-Else", "http-request": "HTTP Request", "template-transform": "Template", "tts": "Text to Speech",
    "text2image": "Text to Image", "echarts": "Echarts",
}  # fmt: skip


def selection(state: State) -> Iterator[Proposal]:
    """Write the selection anew, with the node types of the workflow."""
    graph = state.graph
    around = fields_of(graph.extra.get(NAME))
    before = str(around.get("before", ""))
    if _SELECTION.search(before) and any(issue.code == "not-selected" for issue in state.issues):
        listed = ", ".join(_spoken(node_type) for node_type in dict.fromkeys(node.type for node in graph.nodes))
        mended = _SELECTION.sub(lambda found: f"{found[1]}{listed}{found[3]}", before, count=1)
        with_mended = replace(graph, extra={**graph.extra, NAME: {**around, "before": mended}})
        yield Proposal("<node_selection>", f"is {listed}", "these are the types of the workflow", with_mended)


def _spoken(name: str) -> str:
    """Return the display name of a node type, as selections have it."""
    return _DISPLAY_NAMES.get(name) or " ".join(word.capitalize() for word in name.split("-"))
