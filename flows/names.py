"""Names of nodes for people: the title that a person gave to a node, or else that of its type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from operad.flows.node_graph import MAX_TITLE, NodeGraph, NodeSpec

_TYPES: Mapping[str, str] = {"llm": "LLM", "tts": "Text to speech", "text2image": "Text to image",
    "request": "HTTP request", "http-request": "HTTP GET", "if-else": "If / else", "echarts": "Chart", "comfyui": "ComfyUI"}  # fmt: skip


def name_of_type(node_type: str) -> str:
    """Return the name of a node type; a class of ComfyUI, such as KSampler, is its own name."""
    return _TYPES.get(node_type) or (node_type.replace("-", " ").capitalize() if node_type.islower() else node_type)


def titles_of(graph: NodeGraph) -> dict[str, str]:
    """Return the titles that people gave to nodes, by their ids, in one line each."""
    return {spec.id: title for spec in graph.nodes if (title := _line(spec.title))}


def name_of(spec: NodeSpec) -> str:
    """Return the name of a node, which other nodes may have, too.

    Example:
        >>> name_of(NodeSpec("1", "request")), name_of(NodeSpec("2", "llm", title="Draft"))
        ('HTTP request', 'Draft')
    """
    return _line(spec.title) or name_of_type(spec.type)


def names_of(graph: NodeGraph) -> dict[str, str]:
    """Return the names of all nodes by their ids; a name that several nodes have is followed by the id.

    Example:
        >>> names_of(NodeGraph([NodeSpec("1", "start"), NodeSpec("2", "llm"), NodeSpec("3", "llm")]))
        {'1': 'Start', '2': 'LLM #2', '3': 'LLM #3'}
    """
    names = {node_id: name_of(spec) for node_id, spec in graph.by_id.items()}
    counts = Counter(names.values())
    return {node_id: name if counts[name] == 1 else f"{name} #{node_id}" for node_id, name in names.items()}


def _line(title: str) -> str:
    return " ".join(title.split())[:MAX_TITLE]
