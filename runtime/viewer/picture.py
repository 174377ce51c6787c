"""What the page is told of a run, as JSON: an outline that it draws, and the details that it shows when asked."""

from __future__ import annotations

from typing import Any

from operad.runtime.trace import Graph, Span, Trace, critical_path


def picture(trace: Trace, since: int = 0) -> dict[str, Any]:
    """The run as the page draws it.

    Args:
        trace: The run.
        since: Leave out the spans that have not changed after that many events.

    Returns:
        ``run_id``, ``workflow``, ``goal``; ``version``, from which to ask on; ``now``, the time of the last event,
        in seconds since the epoch; ``ended``; ``graphs``, by the path of the operator that runs the workflow, joined by
        slashes and without the numbers of items, that of the run under the empty text; ``spans``, without their
        details; and ``critical``, the ids of the spans on the critical path, once the run has ended.
    """
    return {
        "run_id": trace.run_id,
        "workflow": trace.workflow,
        "goal": trace.goal,
        "version": trace.version,
        "now": trace.now,
        "ended": trace.ended,
        "graphs": {"/".join(path): _graph(graph) for path, graph in trace.graphs.items()},
        "spans": [_outline(span) for span in trace.changed_since(since)],
        "critical": sorted(critical_path(trace)) if trace.ended else [],
    }


def details(trace: Trace) -> dict[int, dict[str, Any]]:
    """The details of every span that has any, by its id."""
    return {span.id: span.details for span in trace.spans if span.details}


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "workflow": graph.workflow,
        "before": {name: list(before) for name, before in graph.before.items()},
        "judges": list(graph.judges),
        "instructions": dict(graph.instructions),
    }


def _outline(span: Span) -> dict[str, Any]:
    return {
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
        "progress": span.details.get("progress"),
        "usage": span.usage.model_dump(),
    }
