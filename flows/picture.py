"""A picture of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from operad.flows.flowchart import write
from operad.flows.node_graph import NodeGraph
from operad.operators.media.mermaid import render_mermaid
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.mermaid import markdown_page

PictureTarget = Literal["svg", "png", "md"]


def draw(graph: NodeGraph, target: PictureTarget = "svg", status: Mapping[str, str] | None = None) -> bytes:
    """Draw a workflow.

    Args:
        graph: The workflow; it need not be valid.
        target: The kind of file: a picture, or Markdown with the flowchart and a table of the nodes.
        status: The status of nodes, by id: running, done, failed or skipped.

    Returns:
        The content of the file.

    Raises:
        InvalidError: The target is unknown.
        MediaError: The workflow is too large to be drawn.
        MissingExtraError: The extra ``media`` is not installed; ``md`` needs none.
    """
    if target not in get_args(PictureTarget):
        known = ", ".join(get_args(PictureTarget))
        hint = did_you_mean(str(target), get_args(PictureTarget))
        raise InvalidError("the picture", [Issue("target", f"there is no {target!r:.60}{hint}; there are {known}")])
    if target == "md":
        return _markdown(graph, status or {}).encode("utf-8", errors="replace")
    return render_mermaid(write(graph, status), target)


def _markdown(graph: NodeGraph, status: Mapping[str, str]) -> str:
    """Return Markdown with the flowchart and a table of the nodes."""
    predecessors: dict[str, list[str]] = {}
    for edge in graph.edges:
        predecessors.setdefault(edge.target, []).append(edge.source)
    heads = ["id", "type", "inside", "after", *(["status"] if status else [])]
    rows = [
        [
            node.id,
            node.type,
            node.parent,
            ", ".join(predecessors.get(node.id, ())),
            *([status.get(node.id, "")] if status else []),
        ]
        for node in graph.nodes
    ]
    return markdown_page(graph.name, write(graph, status), heads, rows)
