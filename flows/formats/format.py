"""What a format is: how workflows are written by a platform, and how to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from operad.flows.check import check
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import Issue


def check_nodes(graph: NodeGraph) -> list[Issue]:
    """The full static check of a workflow of the node types that come with operad."""
    return check(graph, NODE_TYPES)


def no_lines(data: bytes) -> Mapping[str, int]:
    """The lines of nodes in a file that has none, or does not tell."""
    return {}


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write workflows down.

    Attributes:
        name: What it is called.
        suffix: How the names of its files end, with the dot.
        is_it: Whether a file is of this format, by its content.
        load: Reads a file, given the name to call the workflow; raises `InvalidError` with every issue where it cannot.
        dump: Writes a workflow. What it cannot hold is left out; `losses` says what that is.
        losses: What of a workflow it cannot hold, each with the id of its node.
        check: What is wrong with a workflow, each with the id of its node.
        lines: In a file that can be loaded, the line of each node by its id, counted from 1, as far as that is known.
        runs: Whether its nodes are of our types, so that a workflow can run here.
    """

    name: str
    suffix: str
    is_it: Callable[[bytes], bool]
    load: Callable[[bytes, str], NodeGraph]
    dump: Callable[[NodeGraph], bytes]
    losses: Callable[[NodeGraph], list[Issue]]
    check: Callable[[NodeGraph], list[Issue]] = check_nodes
    lines: Callable[[bytes], Mapping[str, int]] = no_lines
    runs: bool = True


def without_instructions(graph: NodeGraph) -> Iterator[Issue]:
    """What a workflow was made from, as a loss of a format that has no place for it."""
    if graph.instructions:
        yield Issue("loss", "the instructions that it was made from")


def foreign(graph: NodeGraph, name: str) -> Iterator[Issue]:
    """What other formats say of a workflow and of its parts, as losses of the one of that name."""
    owners = [("the workflow", "", graph.extra)]
    owners += [("it", node.id, node.extra) for node in graph.nodes]
    owners += [("the edge", f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    for what, where, extra in owners:
        for other in extra.keys() - {name}:
            yield Issue("loss", f"what {other} says of {what}", where)
