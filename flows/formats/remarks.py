"""Differences between an imported workflow's behaviour here and on its platform."""

from __future__ import annotations

from collections.abc import Sequence

from operad.flows.formats.coze import remarks as coze
from operad.flows.formats.dify import BENCHMARK
from operad.flows.formats.dify import remarks as dify
from operad.flows.formats.fields import LossyError, Remark
from operad.flows.node_graph import NodeGraph


def remarks_of(graph: NodeGraph) -> Sequence[Remark]:
    """Return the remarks on a workflow; a workflow of ours has none.

    A workflow keeps what its file said in `extra`, so that the remarks hold for it in any format, and after changes.

    Example:
        >>> remarks_of(NodeGraph())
        []
    """
    return [*dify.remarks_of(graph, BENCHMARK), *coze.remarks_of(graph)]


def refuse_lossy(graph: NodeGraph, name: str) -> None:
    """Raise LossyError if results of a workflow may be others here than where it comes from.

    Args:
        graph: The workflow.
        name: What to call it.
    """
    if losses := [each for each in remarks_of(graph) if each.lossy]:
        raise LossyError(name, losses)
