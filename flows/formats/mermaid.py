"""Format of Mermaid flowcharts, which is only written."""

from __future__ import annotations

from operad.flows.formats.format import Format
from operad.flows.node_graph import NodeGraph, flowchart
from operad.runtime.values.errors import InvalidError, Issue

__all__ = ["MERMAID"]


def _is_it(data: bytes) -> bool:
    return data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"flowchart ", b"graph "))


def _load(data: bytes, name: str) -> NodeGraph:
    message = "Mermaid is written to be looked at, and not read; give the file that the chart was made of"
    raise InvalidError(name, [Issue("format", message, name)])


def _dump(graph: NodeGraph) -> bytes:
    return flowchart(graph).encode("utf-8", errors="replace")


def _losses(graph: NodeGraph) -> tuple[Issue, ...]:
    return ()  # a drawing is not meant to be read back


MERMAID = Format("mermaid", ".mmd", _is_it, _load, _dump, _losses, runs=False)
"""Mermaid, which is only written."""
