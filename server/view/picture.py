"""JSON of a run for the page: an outline that it draws, and details on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Graph, Span, Trace

MOST_OF_A_TEXT = 300
"""Characters of an error or a question that are in the outline; all of it is in the details."""

MOST_ITEMS = 100
"""Items of a map whose inputs are told with the map."""

_APART = ("round", "item", "operator")
"""The kinds of spans that have details of their own, and are not told with what is around them."""


def picture(trace: Trace, since: int = 0) -> dict[str, Any]:
    """The run as the page draws it.

    Args:
        trace: The run.
        since: Leave out the spans that have not changed after that many events.

    Returns:
        ``run_id``, ``workflow``, ``goal``; ``version``, from which to ask on; ``now``, the time of the last event,
        in seconds since the epoch; ``ended``; ``reset``: whether another run has begun, so that what was told before
        no longer holds; ``graphs``, by the path of the operator that runs the workflow, joined by slashes and without
        the numbers of items, that of the run under the empty text, or None if they have not changed; ``spans``,
        without their details; and ``critical``, the ids of the spans on the critical path, once the run has ended.
    """
    reset = not trace.began <= since <= trace.version
    known = 0 if reset else since
    return {
        "run_id": trace.run_id,
        "workflow": trace.workflow,
        "goal": trace.goal,
        "version": trace.version,
        "now": trace.now,
        "ended": trace.ended,
        "reset": reset,
        "graphs": {"/".join(path): _graph(graph) for path, graph in trace.graphs.items()}
        if trace.graphs_version > known
        else None,
        "spans": [_outline(span) for span in trace.changed_since(known)],
        "critical": sorted(critical_path(trace)) if trace.ended else [],
    }


def details(trace: Trace, of: int | None = None) -> dict[int, dict[str, Any]]:
    """The details of spans that have any, by their ids.

    Args:
        trace: The run.
        of: Only this span and what it did itself, its attempts, pauses, calls, questions, and the items of a map; None
            for all spans.
    """
    if of is None:
        spans = iter(trace.spans)
    else:
        spans = _with_its_own(trace, trace.spans[of]) if 0 <= of < len(trace.spans) else iter(())
    return {span.id: span.details for span in spans if span.details}


def _with_its_own(trace: Trace, span: Span) -> Iterator[Span]:
    own, items = {span.id}, 0
    yield span
    for each in trace.spans[span.id + 1 :]:  # descendants follow their span
        if each.parent in own and each.kind not in _APART:
            own.add(each.id)
            yield each
        elif each.parent == span.id and each.kind == "item" and (items := items + 1) <= MOST_ITEMS:
            yield each


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "workflow": graph.workflow,
        "before": {name: list(before) for name, before in graph.before.items()},
        "judges": list(graph.judges),
        "instructions": dict(graph.instructions),
        "ports": {name: {before: list(ports) for before, ports in own.items()} for name, own in graph.ports.items()},
    }


def _outline(span: Span) -> dict[str, Any]:
    outline = {
        "id": span.id,
        "parent": span.parent,
        "kind": span.kind,
        "name": span.name,
        "path": list(span.path),
        "round": span.round,
        "attempt": span.attempt,
        "start": span.start,
        "end": span.end,
        "state": span.state,
        "usage": span.usage.model_dump(),
    }
    told = span.details
    if "progress" in told:
        outline["progress"] = told["progress"]
    for name in ("error", "question"):
        if name in told:
            outline[name] = told[name][:MOST_OF_A_TEXT]
    if span.kind == "round":
        outline |= {name: told[name] for name in ("status", "score", "blame", "by_error") if name in told}
        if span.round > 1:  # in the first all run
            outline["operators"] = told["operators"]
    return outline
