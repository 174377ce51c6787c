"""Remarks on imported workflows that behave differently here than on their platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from operad.configs.issues import Placed, in_file, issue_line
from operad.flows import NodeGraph
from operad.flows.formats.fields import Remark, summary
from operad.runtime.values.text import printable

LOSSY = "lossy"

Lossy = Annotated[
    bool,
    typer.Option(
        "--lossy",
        help="Run an imported workflow although its results may differ; operad check lists the differences.",
    ),
]


def remarks_of(graph: NodeGraph | None) -> Sequence[Remark]:
    """Return the remarks on a workflow."""
    if graph is None or not graph.is_imported:
        return []
    from operad.flows.formats import remarks  # not at import: workflows in operad's format need no formats

    return remarks.remarks_of(graph)


def placed_remarks(graph: NodeGraph, lines: Mapping[str, int]) -> Sequence[Placed]:
    """Return the remarks on a workflow as issues of its file, the losses first."""
    found = sorted(remarks_of(graph), key=lambda remark: not remark.lossy)
    return list(in_file([remark.issue for remark in found], lines))


def remark_lines(graph: NodeGraph | None, file: str) -> Iterator[str]:
    """Yield the remarks that a run prints: a line for each loss, and one for all notes."""
    remarks = remarks_of(graph)
    for remark in remarks:
        if remark.lossy:
            issue = remark.issue
            yield issue_line(Placed(issue.code, issue.message, issue.where), file)
    if notes := [remark for remark in remarks if not remark.lossy]:
        yield printable(f"{file}: handled differently here, without effect on results: {summary(notes)} [note]")


def plain_remarks(graph: NodeGraph | None) -> Sequence[Mapping[str, object]]:
    """Return the remarks on a workflow as values of JSON."""
    return [
        {"node": remark.node, "title": remark.title, "field": remark.field, "says": remark.says, "lossy": remark.lossy}
        for remark in remarks_of(graph)
    ]
