"""JSON of a run for the page: an outline, and details on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Graph, Span, Trace
from operad.runtime.values.text import shortened
from operad.runtime.values.valid_json import to_json

MOST_OF_A_TEXT = 300
"""Maximum number of characters of an error or a question in the outline; the details contain all of it."""

MOST_ITEMS = 100
"""Maximum number of items of a map whose inputs are included in the details of the map."""

_SEPARATE_KINDS = ("round", "item", "operator")
"""Kinds of spans whose details are not included in those of the span around them."""


def picture(trace: Trace, since: int = 0) -> dict[str, Any]:
    """Return a run as the page draws it.

    Args:
        since: Version of the picture that the page has; spans that have not changed since are left out.

    Returns:
        ``run_id``, ``workflow``; ``goal``, and ``inputs`` in one line; ``version``, for `since` of the next call; ``now``, the time of the last
        event, in seconds since the epoch; ``ended``; ``reset``: True if another run has started, so that earlier
        pictures are outdated; ``graphs``, by the path of the operator that runs the workflow, joined by slashes and
        without the numbers of items, that of the run under the empty text, or None if they have not changed;
        ``spans``, without their details; and ``critical``, the ids of the spans on the critical path, once the run has
        ended.
    """
    reset = not trace.began <= since <= trace.version
    known = 0 if reset else since
    return {
        "run_id": trace.run_id,
        "workflow": trace.workflow,
        "goal": goal_of(trace),
        "inputs": inputs_line(trace),
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


def goal_of(trace: Trace) -> str:
    """Return the goal of a run; empty if a workflow of nodes has only its name in place of one."""
    return "" if trace.inputs and trace.goal == trace.workflow else trace.goal


def inputs_line(trace: Trace) -> str:
    """Return the inputs of a run in one line, shortened."""
    shown = (f"{name}: {value if isinstance(value, str) else to_json(value)}" for name, value in trace.inputs.items())
    return shortened(" · ".join(shown), MOST_OF_A_TEXT)


def details(trace: Trace, of: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the details of spans that have any, by their ids.

    Args:
        of: Only this span with its own attempts, pauses, calls, questions, and the items of a map; None
            for all spans.
    """
    if of is None:
        spans = iter(trace.spans)
    else:
        spans = _with_inner_spans(trace, trace.spans[of]) if 0 <= of < len(trace.spans) else iter(())
    return {span.id: span.details for span in spans if span.details}


def _with_inner_spans(trace: Trace, span: Span) -> Iterator[Span]:
    own, items = {span.id}, 0
    yield span
    for other in trace.spans[span.id + 1 :]:  # descendants follow their span
        if other.parent in own and other.kind not in _SEPARATE_KINDS:
            own.add(other.id)
            yield other
        elif other.parent == span.id and other.kind == "item" and (items := items + 1) <= MOST_ITEMS:
            yield other


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
    span_details = span.details
    if "progress" in span_details:
        outline["progress"] = span_details["progress"]
    for name in ("error", "question", "fell_back"):
        if name in span_details:
            outline[name] = span_details[name][:MOST_OF_A_TEXT]
    if span.kind == "round":
        outline |= {
            name: span_details[name]
            for name in ("status", "score", "blame", "by_error", "kept")
            if name in span_details
        }
        if span.round > 1:  # in the first round, all operators run
            outline["operators"] = span_details["operators"]
    return outline
