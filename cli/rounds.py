"""Rounds of a run: their verdicts, what changed in each, and a summary of the last repeated one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from operad.cli.progress import display_name, row_of, used
from operad.configs.printable import printable
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.errors import shorten
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.values.text import short_line
from operad.runtime.values.verdict_text import changed_lines, finding_lines, reason_in, verdict_text

MOST_ANSWERS = 10_000
"""Maximum number of operators whose answers are remembered, to be compared with those of the next round."""

LONGEST_EVALUATION = 2_000
"""Maximum number of characters of an evaluation in a line; the events hold all of it."""


class RoundLines:
    """Collector that tells, line by line, the verdict on each round, and how the answers of blamed operators changed.

    Rounds of workflows in maps are left out, because there may be thousands of them.
    """

    def __init__(self) -> None:
        self._answers: dict[str, WorkflowMessage] = {}
        self._rejected: dict[str, dict[str, WorkflowMessage]] = {}
        self._usage = NO_USAGE

    def of(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        match event:
            case events.RoundStarted() if not event.path:
                self._usage = NO_USAGE
            case events.ModelAnswered():
                self._usage = self._usage + event.usage
            case events.OperatorFinished():
                yield from self._answer_lines(event)
            case events.RoundFinished() if not row_of(event.path)[1]:
                yield from self._verdict_lines(event)
            case events.BlameUnknown():
                yield unknown_blame_line(event)
            case _:
                pass

    def _answer_lines(self, event: events.OperatorFinished) -> Iterator[str]:
        """Yield what changed in the answer of a blamed operator, and remember the answer."""
        key = "/".join(event.path)
        for place, before in self._rejected.pop(key, {}).items():
            head = f"round {event.round}  {display_name(place)}"
            changes = changed_lines(_text_of(before, place), _text_of(event.message, place))
            yield printable(f"{head}: {'changed' if changes else 'gives the same answer again'}")
            yield from (printable(f"  {change}") for change in changes)
        if key in self._answers or len(self._answers) < MOST_ANSWERS:
            self._answers[key] = event.message

    def _verdict_lines(self, event: events.RoundFinished) -> Iterator[str]:
        if event.accepted and not (event.evaluation or event.unsure):
            return
        yield verdict_line(event)
        findings = finding_lines(event.faults, event.blame, event.unsure, event.repairs)
        yield from (printable(f"  {line}") for line in findings)
        if self._usage.calls and not event.path and (event.round > 1 or not event.accepted):
            yield f"  used: {used(self._usage)}"
        for place in dict.fromkeys((*event.blame, *event.repairs)) if not event.accepted else ():
            path = "/".join((*event.path, place))
            key = path if path in self._answers else _without_last_index(path)
            if key in self._answers:
                self._rejected.setdefault(key, {})[path] = self._answers[key]


def verdict_line(event: events.RoundFinished) -> str:
    """Return the verdict on a round in one line: accepted or rejected, the reason, and the status."""
    where = f" of {'/'.join(event.path)}" if event.path else ""
    evaluation = short_line(reason_in(event.evaluation, event.unsure), LONGEST_EVALUATION)
    return printable(f"round {event.round}{where}  {verdict_text(event.status, evaluation)}")


def unknown_blame_line(event: events.BlameUnknown) -> str:
    """Return a line on a verdict that blames an unknown operator."""
    return printable(f"round {event.round}  blamed an unknown operator: {event.blame}")


def _without_last_index(path: str) -> str:
    outer, slash, last = path.rpartition("/")
    item = MapItem.parse(last)
    return f"{outer}{slash}{item.map_id}" if item else path


def _text_of(message: WorkflowMessage, place: str) -> str:
    """Return the answer of an operator or, if the place is that of an item of a map, of the item."""
    item = MapItem.parse(place.rpartition("/")[2])
    if item and item.index < len(message.parts):
        message = message.parts[item.index]
    return message.scratchpad or json.dumps(message.outputs, ensure_ascii=False, default=str, indent=1)


class Repetition:
    """Collector of the rounds of a run, without those of nested workflows."""

    def __init__(self) -> None:
        self._operators: Mapping[str, tuple[str, ...]] = {}
        self._evaluators: tuple[str, ...] = ()
        self._rerun: tuple[str, ...] = ()
        self._rejected: events.RoundFinished | None = None
        self._finished: events.RoundFinished | None = None
        self._evaluated_rounds: set[int] = set()
        self._items: dict[tuple[int, str], int] = {}
        self._kept: dict[int, list[str]] = {}
        self._kept_items = Counter[tuple[int, str]]()

    def apply(self, event: Event) -> None:
        """Update the rounds with an event."""
        match event:
            case events.Progress() if len(event.path) == 1:
                self._items[event.round, event.operator_id] = event.total
            case events.OperatorKept() if event.path == (event.operator_id,):
                self._kept.setdefault(event.round, []).append(event.operator_id)
            case events.OperatorKept() if len(event.path) == 1:  # an item of a map
                self._kept_items[event.round, event.operator_id] += 1
            case events.OperatorFinished() if event.path in [(judge,) for judge in self._evaluators]:
                self._evaluated_rounds.add(event.round)
            case _ if event.path:
                pass
            case events.RunStarted():
                self._operators, self._evaluators = event.operators, event.judges
            case events.RoundFinished():
                self._finished = event
            case events.RoundStarted() if self._finished:
                self._rejected, self._rerun = self._finished, event.operators
            case _:
                pass

    @property
    def is_evaluated(self) -> bool:
        """True if an evaluator has judged the run, or a part of it on which the verdict on the run rests."""
        return bool(self._evaluators) or (self._finished is not None and bool(self._finished.evaluation))

    def lines(self) -> Sequence[str]:
        """Return two lines on the last repeated round; empty if no round was repeated."""
        if self._rejected is None or not self._operators:
            return []
        number = self._rejected.round
        rejected = self._rejected
        reason = short_line(reason_in(rejected.evaluation, rejected.unsure), LONGEST_EVALUATION).removesuffix(".")
        return [
            printable(f"In round {number} {self._rejection_text()}: {reason}."),
            printable(f"In round {number + 1} {self._repetition_text(number + 1)}."),
        ]

    def _rejection_text(self) -> str:
        if self._rejected is None or self._rejected.round not in self._evaluated_rounds:
            return "an operator reported a fault"
        if len(self._evaluators) == 1:
            return f"the evaluator ({self._evaluators[0]}) found a fault"
        return "the evaluators found a fault"

    def _repetition_text(self, number: int) -> str:
        kept = [name for name in self._kept.get(number, ()) if name in self._operators]
        rerun = [name for name in self._rerun if name not in kept]
        reused = [name for name in self._operators if name not in self._rerun]
        ran = _joined([self._with_item_count(name, number) for name in rerun])
        if not reused and not kept:
            return f"all operators ran again: {ran}"
        same = f"; {_joined(kept)} kept {'its answer' if len(kept) == 1 else 'their answers'}: the input did not change"
        again = f"; {_joined(reused)} {'was' if len(reused) == 1 else 'were'} reused"
        return f"only {ran} ran again{same * bool(kept)}{again * bool(reused)}"

    def _with_item_count(self, name: str, number: int) -> str:
        """Return the operator's name, with the number of items if it processed fewer than in round 1."""
        total, before = self._items.get((number, name)), self._items.get((1, name))
        now = (total or 0) - self._kept_items[number, name]
        if total is None or before is None or now >= before:
            return name
        return f"{name} (for {now} of {before} items)"


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else shorten(list(names))
