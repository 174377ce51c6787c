"""Critical path of a run: the chain of spans that determines its duration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operad.runtime.observe.trace import Graph, Span, Trace, structural


def critical_path(trace: Trace) -> frozenset[int]:
    """Return the ids of the operators' spans on the critical path of the run, including nested workflows.

    The path is followed from the end of each round back: from the operator that ended last to the last to end of those
    that it waited for, and so on.
    """
    critical: list[int] = []
    inside: dict[int | None, list[Span]] = {}
    for span in trace.spans:
        inside.setdefault(span.parent, []).append(span)
    todo = [*inside.get(None, ())]
    while todo:
        span = todo.pop()
        children = inside.get(span.id, [])
        if span.kind == "round":
            operators = _chain([each for each in children if each.kind == "operator"], _waits_in(trace, span))
            critical += [each.id for each in operators if each.state != "skipped"]
            todo += operators
        else:
            todo += [each for each in children if each.kind == "round"]
            todo += _chain([each for each in children if each.kind == "item"], _began_after)
    return frozenset(critical)


def _chain(spans: Sequence[Span], waited: Callable[[Span, Span], bool]) -> list[Span]:
    """Return the spans from the last to end back: each time, the last to end of those that the span `waited` for."""
    ended, chain = [span for span in spans if span.end is not None], list[Span]()
    candidates = [
        span for span in ended if span.state != "stopped"
    ] or ended  # an operator that was stopped by another's error
    for span in sorted(candidates, key=_end_of, reverse=True):
        if not chain or waited(chain[-1], span):
            chain.append(span)
    return chain


def _waits_in(trace: Trace, round_: Span) -> Callable[[Span, Span], bool]:
    """Return True if an operator of a round waits for another one: that is before it, or that it judges."""
    graph = trace.graphs.get(structural(round_.path)) or Graph("", {})

    def waited(span: Span, earlier: Span) -> bool:
        if span.name in graph.judges:
            return earlier.name not in graph.judges
        return earlier.name in graph.before.get(span.name, ())

    return waited


def _began_after(span: Span, earlier: Span) -> bool:
    return _end_of(earlier) <= span.start


def _end_of(span: Span) -> float:
    return span.start if span.end is None else span.end
