"""Progress of a run: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from rich.table import Table
from rich.text import Text

from operad.configs.printable import printable
from operad.flows.check import OUTCOME
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.errors import shorten
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import short_line

LONGEST_SILENCE = 5.0
"""Seconds without a line after which progress is printed."""

LONGEST_ERROR = 500
"""Maximum number of characters of an error in a line; the events hold all of it."""

LONGEST_TOLD = 100
"""Maximum number of characters of an insight in a line."""

KEPT = "its input did not change"
"""Note on an operator that keeps its message in a later round."""

CUT_OFF = "the answer was cut off; raise max_tokens"
"""Note on an answer whose finish reason is ``length``."""

State = Literal["waiting", "running", "asking", "retrying", "done", "cached", "kept", "skipped", "failed", "stopped"]
_STYLES: dict[State, str] = {
    "waiting": "dim",
    "running": "bold cyan",
    "asking": "bold magenta",
    "retrying": "yellow",
    "done": "green",
    "cached": "green",
    "kept": "green",
    "skipped": "dim",
    "failed": "bold red",
    "stopped": "yellow",
}

RESULT = "result"
"""Displayed name of the operator that collects the outputs of a workflow of typed nodes; its id is internal."""


def row_of(path: Sequence[str]) -> tuple[str, bool]:
    """Return the row of an event's path, and True if the path is inside a map: items share the row of their map."""
    for depth, part in enumerate(path):
        if item := MapItem.parse(part):
            return "/".join([*path[:depth], item.map_id]), True
    return "/".join(path), False


def display_name(name: str) -> str:
    """Return the path of an operator, with slashes, as it is displayed."""
    return "/".join(RESULT if part == OUTCOME else part for part in name.split("/"))


@dataclass(slots=True)
class Row:
    """Row of an operator."""

    state: State = "waiting"
    rounds: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    started: float = 0.0
    note: str = ""
    questions: int = 0


@dataclass(slots=True)
class RunView:
    """State of a run from the events so far.

    Attributes:
        rows: Rows by operator path with slashes; operators of a nested workflow follow their own operator.
    """

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    began: float = field(default_factory=monotonic)

    def apply(self, event: Event) -> None:
        """Update the rows with an event."""
        name, is_item = row_of(event.path)
        match event:
            case events.RunStarted():
                self.rows, self.began = {operator_id: Row() for operator_id in event.operators}, monotonic()
            case events.WorkflowEntered() if not is_item:
                self._add_nested(name, [f"{name}/{operator_id}" for operator_id in event.operators])
            case events.RoundStarted() if not is_item:
                for operator_id in event.operators:
                    row = self.rows.setdefault(f"{name}/{operator_id}" if name else operator_id, Row())
                    row.state, row.note, row.questions = "waiting", "", 0
            case _ if event.operator_id:
                (_apply_to_map if is_item else _apply_to_row)(event, self.rows.setdefault(name, Row()))
            case _:
                pass

    def _add_nested(self, outer: str, inner: Sequence[str]) -> None:
        """Insert rows for the operators of a nested workflow, after the row of its own operator."""
        new = {name: Row() for name in inner if name not in self.rows}
        rows: dict[str, Row] = {}
        for name, row in self.rows.items():
            rows[name] = row
            if name == outer:
                rows.update(new)
        self.rows = {**rows, **new}

    def table(self, most: int | None = None) -> Table:
        """Return the current rows and their totals; there is a column for the cost as soon as a cost is known.

        Args:
            most: Maximum number of rows; operators at work are shown first. None for all.
        """
        table = Table(box=None, pad_edge=False)
        total = sum((row.usage for row in self.rows.values()), NO_USAGE)
        table.add_column("operator")
        table.add_column("state", no_wrap=True)
        for column in ("round", "seconds", "tokens", *(["cost"] if total.cost else [])):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("")
        shown = self._shown(most)
        for operator_id in shown:
            row = self.rows[operator_id]
            seconds = row.seconds + (monotonic() - row.started if row.state == "running" else 0)
            table.add_row(
                _one_line(display_name(operator_id)),
                Text(row.state, style=_STYLES[row.state]),
                str(row.rounds or ""),
                f"{seconds:.1f}" if row.rounds else "",
                *_amounts(row.usage, priced=bool(total.cost)),
                _one_line(row.note, "dim"),
            )
        if hidden := len(self.rows) - len(shown):
            states = Counter(row.state for name, row in self.rows.items() if name not in shown)
            states_text = ", ".join(f"{count} {state}" for state, count in states.items())
            table.add_row(
                Text(f"{hidden} more", style="dim"), *[""] * (len(table.columns) - 2), _one_line(states_text, "dim")
            )
        if len(self.rows) > 1:
            finished = sum(row.state in _FINISHED_STATES for row in self.rows.values())
            table.add_row(
                "total",
                f"{finished}/{len(self.rows)} done",
                "",
                f"{monotonic() - self.began:.1f}",
                *_amounts(total, priced=bool(total.cost)),
                "",
                style="bold",
            )
        return table

    def _shown(self, most: int | None) -> Collection[str]:
        """Return the names of the rows that fit, in order: operators at work are chosen first, skipped ones last."""
        if most is None or len(self.rows) <= most:
            return dict.fromkeys(self.rows)
        ranked = sorted(
            self.rows, key=lambda name: (_DISPLAY_ORDER.index(self.rows[name].state), -self.rows[name].started)
        )
        chosen = set(ranked[: max(1, most - 1)])
        return dict.fromkeys(name for name in self.rows if name in chosen)


_FINISHED_STATES = ("done", "cached", "kept", "skipped")
_DISPLAY_ORDER = ("asking", "running", "retrying", "failed", "stopped", "done", "cached", "kept", "waiting", "skipped")
"""States in the order in which rows are chosen if not all fit."""


def _one_line(text: str, style: str = "") -> Text:
    """Return a text that is cut off at the end of its column."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _amounts(usage: Usage, *, priced: bool) -> list[str]:
    tokens = f"{usage.tokens:,}" if usage.tokens else ""
    return [tokens, *([usage.money() if usage.calls else ""] if priced else [])]


def _apply_to_row(event: Event, row: Row) -> None:
    if row.state == "retrying":
        row.state, row.note = "running", f"attempt {event.attempt}"
    match event:
        case events.OperatorStarted():
            row.state, row.started, row.note = "running", monotonic(), ""
            row.rounds += 1
        case events.ModelAnswered():
            row.usage = row.usage + event.usage
            row.note = CUT_OFF if event.cut_off else row.note
        case events.Interrupted() | events.Resumed():
            _update_questions(event, row)
        case events.OperatorRetried():
            row.state, row.note = "retrying", f"attempt {event.attempt + 1} after: {event.error}"
        case events.CacheHit():
            row.state = "cached"
        case events.MessageKept():
            row.state = "kept"
        case events.OperatorKept():
            row.state, row.note = "kept", KEPT
        case _:
            row.note = _note_on(event) or row.note
            _apply_end(event, row)


def _note_on(event: Event) -> str:
    """Return a note on an operator's activity."""
    match event:
        case events.Progress():
            return f"{event.done}/{event.total}"
        case events.ToolCalled():
            return f"calls {event.tool}"
        case events.AnswerRejected():
            return f"asks again ({event.repair})"
        case events.FellBack():
            return f"falls back to {event.to}"
        case events.ModelRetried():
            return f"model asked again, {event.delay:.1f} s after: {event.error}"
        case events.JobSplit():
            return f"split: {parts_of(event)}"
        case events.KnowledgeRetrieved():
            return f"passages: {len(event.sources)}"
        case events.PassagesEmbedded():
            return f"embeds passages: {event.done:,}/{event.total:,}"
        case events.InsightsRecalled() if event.insights:
            return f"insights: {len(event.insights)}"
        case _:
            return ""


def line_for(event: Event) -> str:
    """Return a line on the decision of an operator, or on what it was told; empty for other events."""
    match event:
        case events.JobSplit():
            return f"split into {parts_of(event)}"
        case events.InsightsRecalled() if event.texts:
            insights = "1 insight" if len(event.texts) == 1 else f"{len(event.texts)} insights"
            texts = "; ".join(short_line(text, LONGEST_TOLD) for text in event.texts)
            return f"recalled {insights} of earlier runs: {texts}"
        case events.PassagesEmbedded() if event.done == event.total:
            return f"passages embedded with {event.model}: {event.total:,}"
        case events.OperatorKept():
            return f"kept: {KEPT}"
        case events.EvidenceCut():
            return f"was shown only a part of {shorten(event.operators)}: {event.characters:,} characters are left out"
        case _:
            return ""


def _apply_end(event: Event, row: Row) -> None:
    match event:
        case events.OperatorSkipped():
            row.state, row.note = "skipped", event.reason
        case events.OperatorFinished():
            row.seconds += event.seconds
            row.state = row.state if row.state in ("cached", "kept") else "done"
        case events.OperatorFailed():
            row.state, row.seconds, row.note = "failed", row.seconds + event.seconds, event.error
        case events.OperatorCancelled():
            row.state, row.seconds = "stopped", row.seconds + event.seconds
        case _:
            pass


def _apply_to_map(event: Event, row: Row) -> None:
    """Apply an event of a map's item to the map's row."""
    match event:
        case events.ModelAnswered():
            row.usage = row.usage + event.usage
        case events.Interrupted() | events.Resumed() if row.state in ("running", "asking"):
            _update_questions(event, row)
        case _:
            pass


def _update_questions(event: events.Interrupted | events.Resumed, row: Row) -> None:
    if isinstance(event, events.Interrupted):
        row.questions += 1
        row.note = event.question
    else:
        row.questions = max(0, row.questions - 1)
        row.note = ""
    row.state = "asking" if row.questions else "running"


class Remarks:
    """Collector of unusual events of a run, printed at its end."""

    def __init__(self) -> None:
        self._kept = 0
        self._skipped: dict[str, None] = {}
        self._others: dict[str, Counter[str]] = {
            "retried": Counter(),
            "model asked again": Counter(),
            "answers cut off at max_tokens": Counter(),
            "fell back": Counter(),
            "from the cache": Counter(),
        }

    def apply(self, event: Event) -> None:
        """Count an event."""
        name, is_item = row_of(event.path)
        name = display_name(name)
        match event:
            case events.OperatorStarted():
                self._skipped.pop(name, None)
            case events.MessageKept():
                self._kept += 1
            case events.OperatorSkipped() if not is_item:
                self._skipped[name] = None
            case events.OperatorRetried():
                self._others["retried"][name] += 1
            case events.ModelRetried():
                self._others["model asked again"][name] += 1
            case events.ModelAnswered() if event.cut_off:
                self._others["answers cut off at max_tokens"][name] += 1
            case events.FellBack():
                self._others["fell back"][name] += 1
            case events.CacheHit():
                self._others["from the cache"][name] += 1
            case _:
                pass

    def line(self) -> str:
        """Return the unusual events in one line; empty if there were none."""
        parts = [f"kept from before: {self._kept} operator{'s' if self._kept > 1 else ''}"] if self._kept else []
        parts += [f"skipped: {shorten(list(self._skipped))}"] if self._skipped else []
        for kind, counts in self._others.items():
            if counts:
                names = [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items()]
                parts.append(f"{kind}: {shorten(names)}")
        return printable("; ".join(parts))


def is_a_tenth(event: events.Progress) -> bool:
    """Return True if another tenth of the items is done."""
    return event.done * 10 // event.total > (event.done - 1) * 10 // event.total


def parts_of(event: events.JobSplit) -> str:
    """Return the parts of a split, each with its expert and the parts that it depends on."""
    after = {part.id: f" after {' and '.join(part.dependencies)}" for part in event.sub_jobs if part.dependencies}
    return shorten([f"{part.id} ({part.assigned_expert_name}{after.get(part.id, '')})" for part in event.sub_jobs])


def used(usage: Usage) -> str:
    """Return the number of model calls, their tokens and their cost."""
    cost = f", cost {usage.money()}" if usage.calls or usage.cost else ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    calls = f"{usage.calls:,} model call{'' if usage.calls == 1 else 's'}"
    return f"{calls}, {usage.tokens:,} tokens{cached}{cost}"
