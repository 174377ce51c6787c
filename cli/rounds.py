"""Rounds of a run as text: their verdicts, what changed in each, and a summary of the last repeated one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operad.cli.progress import display_name, row_of, used
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.observe.trace import Graph, Span, Trace, answer_text
from operad.runtime.values.errors import shorten
from operad.runtime.values.fault import changed_lines, finding_lines, reason_in, verdict_text
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import NO_USAGE
from operad.runtime.values.text import printable, short_line

LONGEST_EVALUATION = 2_000
"""Maximum number of characters of an evaluation in a line; the events hold all of it."""

Path = tuple[str, ...]


class RoundLines:
    """Lines on the verdict on each round, and on how the answers of blamed operators changed.

    Rounds of workflows in maps are left out, because there may be thousands of them.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rejected: dict[Path, dict[Path, Mapping[str, Any]]] = {}

    def of(self, event: Event, changed: Sequence[Span]) -> Iterator[str]:
        """Yield the lines for an event that the trace was given, and that changed some of its spans."""
        match event:
            case events.OperatorFinished() if event.path in self._rejected:
                for place, before in self._rejected.pop(event.path).items():
                    after = event.as_dict()["message"]
                    changes = changed_lines(answer_text(before, place), answer_text(after, place))
                    head = f"round {event.round}  {display_name(place, self._trace.names)}"
                    yield printable(f"{head}: {'changed' if changes else 'gives the same answer again'}")
                    yield from (printable(f"  {change}") for change in changes)
            case events.RoundFinished() if not row_of(event.path)[1]:
                usage = next((span.usage for span in changed if span.kind == "round"), NO_USAGE)
                if not event.accepted or event.evaluation or event.unsure:
                    where = f" of {'/'.join(event.path)}" if event.path else ""
                    reason = short_line(reason_in(event.evaluation, event.unsure), LONGEST_EVALUATION)
                    yield printable(f"round {event.round}{where}  {verdict_text(event.status, reason)}")
                    findings = finding_lines(event.faults, event.blame, event.unsure, event.repairs)
                    yield from (printable(f"  {line}") for line in findings)
                    if usage.calls and not event.path and (event.round > 1 or not event.accepted):
                        yield f"  used: {used(usage)}"
                if not event.accepted:
                    self._remember_answers(event)
            case events.BlameUnknown():
                yield printable(f"round {event.round}  blamed an unknown operator: {event.blame}")
            case _:
                pass

    def _remember_answers(self, event: events.RoundFinished) -> None:
        """Remember the rejected answers of the operators that run again, to be compared with their next ones."""
        answers = {
            span.path: span.details["message"]
            for span in self._trace.spans
            if span.kind == "operator" and "message" in span.details
        }
        for place in dict.fromkeys((*event.blame, *event.repairs)):
            path = (*event.path, *place.split("/"))
            own = path if path in answers else (*path[:-1], without_index(path[-1]))
            if own in answers:
                self._rejected.setdefault(own, {})[path] = answers[own]


def is_evaluated(trace: Trace) -> bool:
    """Return True if an evaluator has judged the run, or a part of it on which the verdict on the run rests."""
    rounds = trace.within(trace.root, "round") if trace.root else []
    return bool(_graph(trace).judges) or bool(rounds and rounds[-1].details.get("evaluation"))


def repetition_lines(trace: Trace) -> Sequence[str]:
    """Return two lines on the last repeated round of a run; empty if no round was repeated."""
    rounds = trace.within(trace.root, "round") if trace.root else []
    if len(rounds) < 2 or "status" not in rounds[-2].details or not _graph(trace).before:
        return []
    rejected, last = rounds[-2:]
    reason = reason_in(rejected.details["evaluation"], rejected.details["unsure"])
    return [
        printable(
            f"In round {rejected.round} {_rejection_text(trace, rejected)}: "
            f"{short_line(reason, LONGEST_EVALUATION).removesuffix('.')}."
        ),
        printable(f"In round {last.round} {_repetition_text(trace, rounds[0], last)}."),
    ]


def _graph(trace: Trace) -> Graph:
    return trace.graphs.get((), Graph("", {}))


def _rejection_text(trace: Trace, rejected: Span) -> str:
    judges = _graph(trace).judges
    if not any(span.name in judges and span.state == "done" for span in trace.within(rejected, "operator")):
        return "an operator reported a fault"
    return f"the evaluator ({judges[0]}) found a fault" if len(judges) == 1 else "the evaluators found a fault"


def _repetition_text(trace: Trace, first: Span, last: Span) -> str:
    operators = _graph(trace).before
    before, now = ({span.name: span for span in trace.within(round_, "operator")} for round_ in (first, last))
    kept = [name for name in last.details.get("kept", ()) if name in operators]
    rerun = [name for name in last.details["operators"] if name not in kept]
    reused = [name for name in operators if name not in last.details["operators"]]
    ran = _joined([_with_item_count(name, before.get(name), now.get(name)) for name in rerun])
    if not reused and not kept:
        return f"all operators ran again: {ran}"
    same = f"; {_joined(kept)} kept {'its answer' if len(kept) == 1 else 'their answers'}: the input did not change"
    again = f"; {_joined(reused)} {'was' if len(reused) == 1 else 'were'} reused"
    return f"only {ran} ran again{same * bool(kept)}{again * bool(reused)}"


def _with_item_count(name: str, before: Span | None, now: Span | None) -> str:
    """Return the operator's name, with the number of items if it processed fewer than in the first round."""
    if before is None or now is None or not ("progress" in before.details and "progress" in now.details):
        return name
    total = before.details["progress"][1]
    again = now.details["progress"][1] - now.details.get("kept_items", 0)
    return name if again >= total else f"{name} (for {again} of {total} items)"


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else shorten(list(names))
