"""Differences between an imported workflow's behaviour here and on its platform."""

from __future__ import annotations

from collections.abc import Sequence

from operad.flows.formats.fields import LossyError, Remark
from operad.flows.formats.format import Greeting
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph


def remarks_of(graph: NodeGraph) -> Sequence[Remark]:
    """Return the remarks on a workflow; one that was not imported has none.

    The data of the imported file stays in `extra`, so that the remarks remain after changes and in other formats.

    Example:
        >>> remarks_of(NodeGraph())
        []
    """
    return [remark for each in FORMATS.values() for remark in each.remarks(graph)]


def greeting_of(graph: NodeGraph | None) -> Greeting:
    """Return what users of a conversation with an imported workflow see before they write; nothing for any other.

    Example:
        >>> greeting_of(NodeGraph())
        Greeting(text='', questions=())
    """
    if graph is None or not graph.is_imported:
        return Greeting()
    return next((found for each in FORMATS.values() if any(found := each.greeting(graph))), Greeting())


def refuse_lossy(graph: NodeGraph, name: str) -> None:
    """Raise `LossyError` if the results of an imported workflow may differ here.

    Args:
        graph: The workflow.
        name: The name of the workflow, for the error.
    """
    if losses := [each for each in remarks_of(graph) if each.lossy]:
        raise LossyError(name, losses)
