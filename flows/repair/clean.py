"""Cleaning of imported workflows: without the data of their platform, with ids that people can read."""

from __future__ import annotations

import re
from dataclasses import replace

from operad.flows.node_graph import NodeGraph
from operad.flows.repair.containers import rename

MAX_ID = 40
"""Maximum number of characters of an id that is made of a title."""


def cleaned(graph: NodeGraph) -> NodeGraph:
    """Return a workflow without what only other formats read, whose ids are made of titles, or else of types.

    What runs is the same. Edges and parameters follow the ids.

    Example:
        >>> from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
        >>> nodes = [NodeSpec("17", "start", {"variables": []}, extra={"dify": {}}), NodeSpec("18", "answer", title="Say it")]
        >>> [node.id for node in cleaned(NodeGraph(nodes, [Edge("17", "18")])).nodes]
        ['start', 'say_it']
    """
    names: dict[str, str] = {}
    for spec in graph.nodes:
        word = _word(spec.title) or _word(spec.type) or "node"
        taken = names.values()
        names[spec.id] = next(
            each
            for number in range(1, len(graph.nodes) + 2)
            if (each := word if number == 1 else f"{word}_{number}") not in taken
        )
    bare = replace(
        graph,
        nodes=[replace(spec, extra={}) for spec in graph.nodes],
        edges=[replace(edge, extra={}) for edge in graph.edges],
        samples={names.get(node, node): sample for node, sample in graph.samples.items()},
        extra={},
    )
    return rename(bare, names)


def _word(title: str) -> str:
    """Return a title as a word of letters and digits of any script; empty if it has none, or only digits."""
    word = re.sub(r"\W+", "_", title.lower()).strip("_")[:MAX_ID].rstrip("_")
    return "" if word.isdigit() else word
