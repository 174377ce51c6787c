"""Display of a run's progress on the terminal: a live table, or plain lines."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from types import TracebackType
from typing import Protocol

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live
from rich.table import Table

from operad.cli.progress import CUT_OFF, KEPT, LONGEST_ERROR, RunView, apply, display_name, parts_of, row_of
from operad.cli.rounds import RoundLines
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import shorten
from operad.runtime.values.text import printable, short_line

LONGEST_SILENCE = 5.0
"""Seconds without a line after which progress is printed."""

LONGEST_TOLD = 100
"""Maximum number of characters of an insight in a line."""


class Display(Protocol):
    """Display of a run's events; entered before the first event, left after the last."""

    @property
    def trace(self) -> Trace:
        """Trace of the events so far, without prompts and results of tools."""
        ...

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Show one event."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Pause inside this context manager, while a person is asked."""
        ...


def display_on(console: Console) -> Display:
    """Return a live table if the console is a terminal, plain lines otherwise."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


class Asking:
    """Filter for the events of a run that leaves out operators which call neither a model nor a tool."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], Event] = {}

    def of(self, event: Event) -> Iterator[Event]:
        """Yield the events to show: the start of an operator is held back until another event of it than its end."""
        match event:
            case events.RunStarted() | events.RoundStarted():
                yield replace(event, operators=())
            case events.OperatorStarted():
                self._held[event.path] = event
            case events.OperatorFinished() if self._held.pop(event.path, None):
                pass
            case _:
                if held := self._held.pop(event.path, None):
                    yield held
                yield event


class LiveTable:
    """Table of operators that is redrawn while the run progresses."""

    def __init__(self, console: Console) -> None:
        self._view = RunView()
        self._rounds = RoundLines(self._view.trace)
        self._console = console
        self._has_ended = False
        self._live = self._new_live()

    @property
    def trace(self) -> Trace:
        """Trace of the events so far."""
        return self._view.trace

    def __enter__(self) -> Display:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended = True
        self._live.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """Update the table with an event; it is redrawn a few times a second. Verdicts are printed above it."""
        if lines := [*self._rounds.of(event, self._view.apply(event))]:
            self._live.console.print("\n".join(lines), markup=False, highlight=False)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Stop redrawing inside this context manager; a new table continues below the answer."""
        self._live.stop()
        try:
            yield
        finally:
            if not self._has_ended:
                self._live = self._new_live()  # the old one would erase as many lines as it had
                self._live.start()

    def _new_live(self) -> Live:
        return Live(console=self._console, get_renderable=self._table, refresh_per_second=8)

    def _table(self) -> Table:
        """Return the part of the table that fits the terminal; at the end, the whole table."""
        return self._view.table(None if self._has_ended else max(1, self._console.height - _OTHER_LINES))


_OTHER_LINES = 4
"""Lines of the terminal that do not hold rows: the table's header and totals, and the last two lines."""


class PlainLines:
    """Display that prints a line when an operator starts, ends or progresses: a tenth of its items, or some seconds."""

    def __init__(self, console: Console) -> None:
        self.trace = Trace()
        self._console = console
        self._rounds = RoundLines(self.trace)
        self._last_written = monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, event: Event) -> None:
        """Print lines for an event; for the items of a map, only for unusual events."""
        changed = apply(event, self.trace)
        self._show_step(event)
        for line in self._rounds.of(event, changed):
            self._print(line)

    def _show_step(self, event: Event) -> None:
        match event:
            case events.OperatorRetried():
                self._write(event, f"attempt {event.attempt} failed, again in {event.delay:.1f} s: {event.error}")
            case events.FellBack():
                self._write(event, f"falls back to {event.to}: {event.error}")
            case events.ModelRetried():
                why = short_line(event.error, LONGEST_ERROR)
                self._write(event, f"the model is asked again in {event.delay:.1f} s: {why}")
            case events.ConversationShortened():
                self._write(event, f"{event.results} older results of tools are shortened, to make room")
            case events.ModelAnswered() if event.cut_off:
                self._write(event, CUT_OFF)
            case events.Interrupted():
                self._write(event, "waits for an answer")
            case events.Resumed():
                self._write(event, f"was answered, after {event.seconds:.1f} s")
            case events.OperatorFailed():
                self._write(event, f"failed, {event.seconds:.1f} s: {short_line(event.error, LONGEST_ERROR)}")
            case _ if not row_of(event.path)[1]:
                self._show_usual(event)
            case _:
                pass

    def paused(self) -> AbstractContextManager[None]:
        """Return at once: plain lines need no pause for a question."""
        return nullcontext()

    def _show_usual(self, event: Event) -> None:
        match event:
            case events.OperatorStarted():
                self._write(event, "running")
            case events.Progress() if event.total and (_is_a_tenth(event) or self._is_silent_for_long()):
                self._write(event, f"{event.done}/{event.total}")
            case events.CacheHit() | events.MessageKept():
                self._write(event, "from the cache" if isinstance(event, events.CacheHit) else "kept from before")
            case events.OperatorFinished():
                usage = event.message.usage
                cost = f", cost {usage.money()}" if usage.cost else ""
                self._write(event, f"done, {event.seconds:.1f} s, {usage.tokens:,} tokens{cost}")
            case events.OperatorCancelled():
                self._write(event, "stopped")
            case events.OperatorSkipped():
                self._write(event, f"skipped: {event.reason}")
            case _:
                self._show_decision(event)

    def _show_decision(self, event: Event) -> None:
        """Print a line on the decision of an operator, or on what it was told."""
        match event:
            case events.OperatorKept():
                self._write(event, f"kept: {KEPT}")
            case events.JobSplit():
                self._write(event, f"split into {parts_of(event)}")
            case events.InsightsRecalled() if event.texts:
                insights = "1 insight" if len(event.texts) == 1 else f"{len(event.texts)} insights"
                texts = "; ".join(short_line(text, LONGEST_TOLD) for text in event.texts)
                self._write(event, f"recalled {insights} of earlier runs: {texts}")
            case events.PassagesEmbedded() if event.done == event.total:
                self._write(event, f"passages embedded with {event.model}: {event.total:,}")
            case events.EvidenceCut():
                left_out = f"{event.characters:,} characters are left out"
                self._write(event, f"was shown only a part of {shorten(event.operators)}: {left_out}")
            case _:
                pass

    def _write(self, event: Event, text: str) -> None:
        self._print(printable(f"round {event.round}  {display_name(event.path)}: {text}"))

    def _is_silent_for_long(self) -> bool:
        return monotonic() > self._last_written + LONGEST_SILENCE

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._last_written = monotonic()


def _is_a_tenth(event: events.Progress) -> bool:
    """Return True if another tenth of the items is done."""
    return event.done * 10 // event.total > (event.done - 1) * 10 // event.total
