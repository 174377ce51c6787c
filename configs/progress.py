"""What a run looks like while it runs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Literal, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.message import NO_USAGE, Usage

LONGEST_SILENCE = 5.0
"""Seconds without a line, after which progress deserves one."""

State = Literal["waiting", "running", "done", "failed", "stopped"]
_STYLES: dict[State, str] = {
    "waiting": "dim",
    "running": "bold cyan",
    "done": "green",
    "failed": "bold red",
    "stopped": "yellow",
}


@dataclass(slots=True)
class Row:
    """One operator's line."""

    state: State = "waiting"
    rounds: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    started: float = 0.0
    note: str = ""


@dataclass(slots=True)
class RunView:
    """What is known of a run from the events so far."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])

    def apply(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, events.RunStarted):
            self.rows = {operator_id: Row() for operator_id in event.operators}
        elif isinstance(event, events.RoundStarted):
            for operator_id in event.operators:
                self.rows[operator_id].state, self.rows[operator_id].note = "waiting", ""
        elif event.operator_id:
            _apply(event, self.rows.setdefault(event.operator_id, Row()))

    def table(self) -> Table:
        """The rows as they stand now."""
        table = Table(box=None, pad_edge=False)
        for column in ("operator", "state"):
            table.add_column(column)
        for column in ("round", "seconds", "tokens"):
            table.add_column(column, justify="right")
        table.add_column("", overflow="ellipsis", no_wrap=True)
        for operator_id, row in self.rows.items():
            seconds = row.seconds + (monotonic() - row.started if row.state == "running" else 0)
            table.add_row(
                Text(printable(operator_id)),
                Text(row.state, style=_STYLES[row.state]),
                str(row.rounds or ""),
                f"{seconds:.1f}" if row.rounds else "",
                f"{row.usage.tokens:,}" if row.usage.tokens else "",
                Text(printable(row.note), style="dim"),
            )
        return table


def _apply(event: Event, row: Row) -> None:
    match event:
        case events.OperatorStarted():
            row.state, row.started, row.note = "running", monotonic(), ""
            row.rounds += 1
        case events.Progress():
            row.note = f"{event.done}/{event.total}"
        case events.ModelAnswered():
            row.usage = row.usage + event.usage
        case events.ToolCalled():
            row.note = f"calls {event.tool}"
        case events.AnswerRejected():
            row.note = f"asks again ({event.attempt})"
        case events.OperatorFinished():
            row.state, row.seconds = "done", row.seconds + event.seconds
        case events.OperatorFailed():
            row.state, row.seconds, row.note = "failed", row.seconds + event.seconds, event.error
        case events.OperatorCancelled():
            row.state, row.seconds = "stopped", row.seconds + event.seconds
        case _:
            pass


def _is_a_tenth(event: events.Progress) -> bool:
    """Whether another tenth of the items is done."""
    return event.done * 10 // event.total > (event.done - 1) * 10 // event.total


def verdict_line(event: events.RoundFinished) -> str:
    """What a round was found to be, in one line."""
    blamed = f" (at fault: {', '.join(event.blame)})" if event.blame else ""
    return printable(f"round {event.round}  {event.status.value}: {event.evaluation}{blamed}")


def printable(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    text = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


class Display(Protocol):
    """Shows a run's events; entered before the first and left after the last."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Show one event."""
        ...


def display_on(console: Console) -> Display:
    """A live table where `console` is a terminal, plain lines elsewhere."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


class LiveTable:
    """A table of operators that is drawn again as the run goes on."""

    def __init__(self, console: Console) -> None:
        self._view = RunView()
        self._live = Live(console=console, get_renderable=self._view.table, refresh_per_second=8)

    def __enter__(self) -> Display:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """Take in one event; the table is redrawn a few times a second, verdicts stay above it."""
        self._view.apply(event)
        if isinstance(event, events.RoundFinished) and event.evaluation:
            self._live.console.print(verdict_line(event), markup=False, highlight=False)


class PlainLines:
    """A line when an operator starts, ends, or has got on: by a tenth of its items, or for some seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._written = monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, event: Event) -> None:
        """Write a line if the event deserves one."""
        match event:
            case events.OperatorStarted():
                self._write(event, "running")
            case events.Progress() if event.total and (_is_a_tenth(event) or self._silent_for_long()):
                self._write(event, f"{event.done}/{event.total}")
            case events.OperatorFinished():
                self._write(event, f"done, {event.seconds:.1f} s, {event.message.usage.tokens:,} tokens")
            case events.OperatorFailed():
                self._write(event, f"failed, {event.seconds:.1f} s")
            case events.OperatorCancelled():
                self._write(event, "stopped")
            case events.RoundFinished() if event.evaluation:
                self._print(verdict_line(event))
            case _:
                pass

    def _write(self, event: Event, text: str) -> None:
        self._print(printable(f"round {event.round}  {event.operator_id}: {text}"))

    def _silent_for_long(self) -> bool:
        return monotonic() > self._written + LONGEST_SILENCE

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._written = monotonic()
