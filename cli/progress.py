"""Table of a run's operators at a terminal, drawn from its trace, and what was unusual in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import time
from types import MappingProxyType
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from operad.flows.check import OUTCOME
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.observe.trace import Span, Trace
from operad.runtime.values.errors import shorten
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import printable

LONGEST_ERROR = 500
"""Maximum number of characters of an error in a line; the events hold all of it."""

KEPT = "its input did not change"
"""Note on an operator that keeps its message in a later round."""

CUT_OFF = "the answer was cut off; raise max_tokens"
"""Note on an answer whose finish reason is ``length``."""

RESULT = "result"
"""Displayed name of the operator that collects the outputs of a workflow of typed nodes; its id is internal."""

State = Literal["waiting", "running", "asking", "retrying", "done", "cached", "kept", "skipped", "failed", "stopped"]
_STYLES: dict[State, str] = {  # in the order in which rows are chosen if not all fit
    "asking": "bold magenta",
    "running": "bold cyan",
    "retrying": "yellow",
    "failed": "bold red",
    "stopped": "yellow",
    "done": "green",
    "cached": "green",
    "kept": "green",
    "waiting": "dim",
    "skipped": "dim",
}
_FINISHED_STATES = ("done", "cached", "kept", "skipped")

_NOT_SHOWN = (
    events.TaskBuilt
    | events.ModelAsked
    | events.TokenStreamed
    | events.ThinkingStreamed
    | events.ToolCalled
    | events.ToolReturned
)
_OF_WORKFLOWS = events.WorkflowEntered | events.RoundStarted | events.RoundFinished


_NOTES: Mapping[type[Event], Callable[[Any], str | None]] = {
    events.OperatorStarted: lambda _: "",
    events.Resumed: lambda _: "",
    events.Interrupted: lambda event: event.question,
    events.ModelAnswered: lambda event: CUT_OFF if event.cut_off else None,
    events.ModelRetried: lambda event: f"model asked again, {event.delay:.1f} s after: {event.error}",
    events.AnswerRejected: lambda event: f"asks again ({event.repair})",
    events.ToolCalled: lambda event: f"calls {event.tool}",
    events.Progress: lambda event: f"{event.done}/{event.total}",
    events.JobSplit: lambda event: f"split: {parts_of(event)}",
    events.KnowledgeRetrieved: lambda event: f"passages: {len(event.sources)}",
    events.PassagesEmbedded: lambda event: f"embeds passages: {event.done:,}/{event.total:,}",
    events.InsightsRecalled: lambda event: f"insights: {len(event.insights)}" if event.insights else None,
    events.OperatorRetried: lambda event: f"attempt {event.attempt + 1} after: {event.error}",
    events.FellBack: lambda event: f"falls back to {event.to}",
    events.OperatorKept: lambda _: KEPT,
    events.OperatorSkipped: lambda event: event.reason,
    events.OperatorFailed: lambda event: event.error,
}
"""Notes on what an operator does, by the event that says so; after other events, and for None, the last note stays."""


def apply(event: Event, trace: Trace) -> Sequence[Span]:
    """Apply an event to the trace of a terminal.

    It leaves out what a terminal never shows, because maps may have very many items: prompts, results of tools, texts of
    models besides those of messages, and the workflow and the rounds of each item.
    """
    if isinstance(event, _NOT_SHOWN) or (isinstance(event, _OF_WORKFLOWS) and row_of(event.path)[1]):
        return ()
    changed = trace.apply(event)
    if isinstance(event, events.ModelAnswered) and changed:
        for key in ("text", "tool_calls"):
            changed[-1].details.pop(key, None)
    return changed


def row_of(path: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the row of a path, and True if the path is inside a map: items share the row of their map."""
    for depth, part in enumerate(path):
        if item := MapItem.parse(part):
            return (*path[:depth], item.map_id), True
    return tuple(path), False


def display_name(path: Sequence[str], names: Mapping[str, str]) -> str:
    """Return the path of an operator as it is displayed: names with ids, which options of commands take."""

    def shown(part: str) -> str:
        name = names.get(without_index(part))
        return RESULT if part == OUTCOME else f"{name} ({part})" if name else part

    return "/".join(map(shown, path))


@dataclass(slots=True, frozen=True)
class Row:
    """Row of an operator."""

    state: State = "waiting"
    rounds: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    started: float = 0.0
    note: str = ""


class RunView:
    """Rows of a run: the spans of its trace by operator, and the last activity of each.

    Args:
        names: Names of operators, by their ids.

    Attributes:
        trace: The trace.
    """

    def __init__(self, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.trace = Trace(names)
        self._clear()

    def _clear(self) -> None:
        self._runs: dict[tuple[str, ...], dict[int, Span]] = {}
        self._rounds: dict[tuple[str, ...], Span] = {}
        self._questions: dict[tuple[str, ...], set[int]] = {}
        self._maps: set[tuple[str, ...]] = set()
        self._usage: dict[tuple[str, ...], Usage] = {}
        self._notes: dict[tuple[str, ...], str] = {}

    def apply(self, event: Event) -> Sequence[Span]:
        """Update the rows with an event; return the spans that it changed."""
        if isinstance(event, events.RunStarted):
            self._clear()
        changed = apply(event, self.trace)
        for span in changed:
            self._add(span)
        path, is_item = row_of(event.path)
        if is_item:
            self._maps.add(path)
        match event:
            case events.ModelAnswered():
                self._usage[path] = self._usage.get(path, NO_USAGE) + event.usage
            case events.RoundStarted() if not is_item:
                for operator_id in event.operators:
                    self._notes.pop((*path, operator_id), None)
            case _:
                pass
        if type(event) in _NOTES and (not is_item or isinstance(event, events.Interrupted | events.Resumed)):
            note = _NOTES[type(event)](event)
            self._notes |= {} if note is None else {path: note}
        return changed

    def _add(self, span: Span) -> None:
        path, is_item = row_of(span.path)
        if span.kind == "question":
            open_ones = self._questions.setdefault(path, set())
            self._questions[path] = open_ones | {span.id} if span.end is None else open_ones - {span.id}
        elif span.kind == "operator" and not is_item:
            self._runs.setdefault(path, {})[span.id] = span
        elif span.kind == "round" and not is_item:
            self._rounds[path] = span

    def rows(self) -> dict[tuple[str, ...], Row]:
        """Return the rows by path; the operators of a nested workflow follow the operator that runs it."""
        rounds = {place: (span.id, {*span.details["operators"]}) for place, span in self._rounds.items()}
        paths = dict.fromkeys((*self._paths(()), *self._runs))
        return {path: self._row(path, *rounds.get(path[:-1], (None, ()))) for path in paths}

    def _paths(self, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        graph = self.trace.graphs.get(place)
        for operator_id in graph.before if graph and place not in self._maps else ():
            yield (path := (*place, operator_id))
            yield from self._paths(path)

    def _row(self, path: tuple[str, ...], round_id: int | None, due: Collection[str]) -> Row:
        """Return a row; the arguments are the current round of the operator's workflow, and the operators that it runs."""
        runs, now = [*self._runs.get(path, {}).values()], time()
        last = runs[-1] if runs else None
        if self._questions.get(path):
            state: State = "asking"
        elif self._notes.get(path) == KEPT:  # until it runs again, also in later rounds
            state = "kept"
        elif last is None or (last.parent != round_id and path[-1] in due):
            state = "waiting"
        else:
            retries = last.end is None and last.details.get("next_attempt_at", 0.0) > now
            state = "retrying" if retries else last.state
        return Row(
            state,
            sum(run.state != "skipped" for run in runs),
            sum(max(0.0, now - run.start) if run.end is None else run.seconds for run in runs),
            self._usage.get(path, NO_USAGE),
            last.start if last else 0.0,
            self._notes.get(path, ""),
        )

    def table(self, most: int | None = None) -> Table:
        """Return the current rows and their totals; there is a column for the cost as soon as a cost is known.

        Args:
            most: Maximum number of rows; operators at work are shown first. None for all.
        """
        table, rows = Table(box=None, pad_edge=False), self.rows()
        total = sum(self._usage.values(), NO_USAGE)
        table.add_column("operator")
        table.add_column("state", no_wrap=True)
        for column in ("round", "seconds", "tokens", *(["cost"] if total.cost else [])):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("")
        shown = _fitting(rows, most)
        for path in shown:
            row = rows[path]
            table.add_row(
                _one_line(display_name(path, self.trace.names)),
                Text(row.state, style=_STYLES[row.state]),
                str(row.rounds or ""),
                f"{row.seconds:.1f}" if row.rounds else "",
                *_amounts(row.usage, priced=bool(total.cost)),
                _one_line(row.note, "dim"),
            )
        if hidden := len(rows) - len(shown):
            states = Counter(row.state for path, row in rows.items() if path not in shown)
            states_text = ", ".join(f"{count} {state}" for state, count in states.items())
            table.add_row(
                Text(f"{hidden} more", style="dim"), *[""] * (len(table.columns) - 2), _one_line(states_text, "dim")
            )
        if len(rows) > 1:
            finished = sum(row.state in _FINISHED_STATES for row in rows.values())
            table.add_row(
                "total",
                f"{finished}/{len(rows)} done",
                "",
                f"{self._seconds():.1f}",
                *_amounts(total, priced=bool(total.cost)),
                "",
                style="bold",
            )
        return table

    def _seconds(self) -> float:
        root = self.trace.root
        return 0.0 if root is None else max(0.0, (time() if root.end is None else root.end) - root.start)


def _fitting(rows: dict[tuple[str, ...], Row], most: int | None) -> Collection[tuple[str, ...]]:
    """Return the paths of the rows that fit, in order: operators at work are chosen first, skipped ones last."""
    if most is None or len(rows) <= most:
        return rows
    order = list(_STYLES)
    ranked = sorted(rows, key=lambda path: (order.index(rows[path].state), -rows[path].started))
    chosen = set(ranked[: max(1, most - 1)])
    return dict.fromkeys(path for path in rows if path in chosen)


def _one_line(text: str, style: str = "") -> Text:
    """Return a text that is cut off at the end of its column."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _amounts(usage: Usage, *, priced: bool) -> list[str]:
    tokens = f"{usage.tokens:,}" if usage.tokens else ""
    return [tokens, *([usage.money() if usage.calls else ""] if priced else [])]


def remarks_on(trace: Trace) -> str:
    """Return what was unusual in a run in one line; empty if nothing was."""
    kept, skipped = 0, dict[str, None]()
    others = {
        kind: Counter[str]()
        for kind in ("retried", "model asked again", "answers cut off at max_tokens", "fell back", "from the cache")
    }
    for span in trace.spans:
        path, is_item = row_of(span.path)
        name = display_name(path, trace.names)
        notes = [note["event"] for note in span.details.get("notes", ())]
        others["retried"][name] += span.kind == "pause"
        others["model asked again"][name] += notes.count("ModelRetried")
        others["answers cut off at max_tokens"][name] += span.details.get("finish_reason") == "length"
        others["fell back"][name] += notes.count("FellBack")
        others["from the cache"][name] += span.state == "cached"
        kept += span.state == "kept"
        if span.kind == "operator" and not is_item:
            skipped.pop(name, None)
            skipped |= {name: None} if span.state == "skipped" else {}
    parts = [f"kept from before: {kept} operator{'s' if kept > 1 else ''}"] if kept else []
    parts += [f"skipped: {shorten(list(skipped))}"] if skipped else []
    for kind, counts in others.items():
        if names := [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items() if count]:
            parts.append(f"{kind}: {shorten(names)}")
    return printable("; ".join(parts))


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
