"""Titles of steps, from their operations."""

from __future__ import annotations

from collections.abc import Sequence

from operad.flows.edit import (
    AddBranch,
    AddInput,
    AddNode,
    AddOutput,
    Connect,
    Disconnect,
    InsertBetween,
    Operation,
    RemoveInput,
    RemoveNode,
    RemoveOutput,
    RenameVariable,
    ReplaceText,
    SetParam,
)
from operad.flows.node_graph import NodeGraph


def title_of(operations: Sequence[Operation], graph: NodeGraph) -> str:
    """Return the title of a step: its first operation, and the number of further ones.

    Args:
        operations: The operations, at least one.
        graph: The workflow before them.
    """
    first = _title(operations[0], graph)
    more = len(operations) - 1
    return f"{first}, and {more} more" if more else first


def _title(operation: Operation, graph: NodeGraph) -> str:  # noqa: C901 - a table
    match operation:
        case AddNode():
            return f"Add {operation.type} {operation.id}"
        case RemoveNode():
            spec = graph.by_id.get(operation.node)
            return f"Remove {spec.type if spec else 'node'} {operation.node}"
        case SetParam() | ReplaceText():
            return f"Set {operation.path} of {operation.node}"
        case Connect():
            port = f" port {operation.port}" if operation.port else ""
            return f"Connect {operation.source}{port} to {operation.target}"
        case Disconnect():
            return f"Disconnect {operation.source} from {operation.target}"
        case InsertBetween():
            return f"Insert {operation.type} {operation.id} between {operation.source} and {operation.target}"
        case AddBranch():
            return f"Add a branch to {operation.node}"
        case RenameVariable():
            return f"Rename {operation.old} of {operation.node} to {operation.new}"
        case AddInput():
            return f"Add input {operation.name}"
        case RemoveInput():
            return f"Remove input {operation.name}"
        case AddOutput():
            return f"Add output {operation.name}"
        case RemoveOutput():
            return f"Remove output {operation.name}"
        case _:
            return type(operation).__name__
