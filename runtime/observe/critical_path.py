"""Critical path of a run: the chain of spans that determines its duration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operad.runtime.observe.trace import Graph, Span, Trace, structural


def critical_path(trace: Trace) -> frozenset[int]:
    """Return the ids of the operators' spans on the critical path of the run, including nested workflows.

    In each round, the path is followed backwards: it begins at the operator that ended last. The next operator on the
    path is, of the operators for which that one waited, the one that ended last, and so on.
    """
    critical: list[int] = []
    children_of: dict[int | None, list[Span]] = {}
    for span in trace.spans:
        children_of.setdefault(span.parent, []).append(span)
    to_visit = [*children_of.get(None, ())]
    while to_visit:
        span = to_visit.pop()
        children = children_of.get(span.id, [])
        if span.kind == "round":
            operators = _chain([child for child in children if child.kind == "operator"], _waits_for(trace, span))
            critical += [operator.id for operator in operators if operator.state != "skipped"]
            to_visit += operators
        else:
            to_visit += [child for child in children if child.kind == "round"]
            to_visit += _chain([child for child in children if child.kind == "item"], _started_after)
    return frozenset(critical)


def _chain(spans: Sequence[Span], waited: Callable[[Span, Span], bool]) -> list[Span]:
    """Return the chain of spans backwards from the one that ended last.

    Args:
        waited: Function that returns True if its first span waited for its second; each span of the chain is, of the
            spans for which the previous one waited, the one that ended last.
    """
    ended, chain = [span for span in spans if span.end is not None], list[Span]()
    # Operators that were stopped because of another operator's error are left out.
    candidates = [span for span in ended if span.state != "stopped"] or ended
    for span in sorted(candidates, key=_end_of, reverse=True):
        if not chain or waited(chain[-1], span):
            chain.append(span)
    return chain


def _waits_for(trace: Trace, round_: Span) -> Callable[[Span, Span], bool]:
    """Return a function that returns True if an operator of a round waits for another: a predecessor or judged one."""
    graph = trace.graphs.get(structural(round_.path)) or Graph("", {})

    def waited(span: Span, earlier: Span) -> bool:
        if span.name in graph.judges:
            return earlier.name not in graph.judges
        return earlier.name in graph.before.get(span.name, ())

    return waited


def _started_after(span: Span, earlier: Span) -> bool:
    return _end_of(earlier) <= span.start


def _end_of(span: Span) -> float:
    return span.start if span.end is None else span.end
