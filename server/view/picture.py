"""What the page is told of a run, as JSON: an outline that it draws, and the details that it shows when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operad.runtime.observe.trace import Graph, Span, Trace, critical_path

MOST_OF_AN_ERROR = 300
"""Characters of an error that are in the outline; all of it is in the details."""

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
        of: Only this span and what it did itself, its attempts, pauses, calls and questions; None for all spans.
    """
    if of is None:
        spans = iter(trace.spans)
    else:
        spans = _with_its_own(trace, trace.spans[of]) if 0 <= of < len(trace.spans) else iter(())
    return {span.id: span.details for span in spans if span.details}


def _with_its_own(trace: Trace, span: Span) -> Iterator[Span]:
    own = {span.id}
    yield span
    for each in trace.spans[span.id + 1 :]:  # what is inside of a span comes after it
        if each.parent in own and each.kind not in _APART:
            own.add(each.id)
            yield each


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "workflow": graph.workflow,
        "before": {name: list(before) for name, before in graph.before.items()},
        "judges": list(graph.judges),
        "instructions": dict(graph.instructions),
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
    if "error" in told:
        outline["error"] = told["error"][:MOST_OF_AN_ERROR]
    if span.kind == "round":
        outline |= {name: told[name] for name in ("status", "score", "blame", "by_error") if name in told}
        if span.round > 1:  # in the first all run
            outline["operators"] = told["operators"]
    return outline
