"""Runs at a terminal: a live table or plain lines of events on stderr, questions, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext, suppress
from functools import partial
from time import monotonic
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TextIO, TypeVar

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live
from rich.table import Table

from operad.cli.ask import Asker, Lines
from operad.cli.durable import Kept
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.progress import (
    CUT_OFF,
    KEPT,
    LONGEST_ERROR,
    RunView,
    apply,
    display_name,
    parts_of,
    remarks_on,
    row_of,
    used,
)
from operad.cli.rounds import LONGEST_EVALUATION, RoundLines, is_evaluated, repetition_lines
from operad.configs.inputs import ask_inputs
from operad.configs.models import model_line
from operad.operators.nodes.flow import StartVariable
from operad.runtime import events
from operad.runtime.agents.agent import Agent
from operad.runtime.events import Event
from operad.runtime.events.events_file import line_of
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import shorten
from operad.runtime.values.fault import verdict_text
from operad.runtime.values.message import Job, Usage, WorkflowMessage
from operad.runtime.values.text import printable, short_line, shortened

if TYPE_CHECKING:
    from operad.server.view.server import PageServer


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


def display_on(console: Console, names: Mapping[str, str] = MappingProxyType({})) -> Display:
    """Return a live table if the console is a terminal, plain lines otherwise.

    Args:
        names: Names of operators, by their ids.
    """
    return LiveTable(console, names) if console.is_terminal else PlainLines(console, names)


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

    def __init__(self, console: Console, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self._view = RunView(names)
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


_UNUSUAL: Mapping[type[Event], Callable[[Any], str | None]] = {
    events.OperatorRetried: lambda event: (
        f"attempt {event.attempt} failed, again in {event.delay:.1f} s: {event.error}"
    ),
    events.FellBack: lambda event: f"falls back to {event.to}: {event.error}",
    events.ModelRetried: lambda event: (
        f"the model is asked again in {event.delay:.1f} s: {short_line(event.error, LONGEST_ERROR)}"
    ),
    events.ConversationShortened: lambda event: f"{event.results} older results of tools are shortened, to make room",
    events.ModelAnswered: lambda event: CUT_OFF if event.cut_off else None,
    events.Interrupted: lambda _: "waits for an answer",
    events.Resumed: lambda event: f"was answered{event.by and f' by {event.by}'}, after {event.seconds:.1f} s",
    events.OperatorFailed: lambda event: f"failed, {event.seconds:.1f} s: {short_line(event.error, LONGEST_ERROR)}",
}
"""Lines on what is unusual, also for the items of a map, by the event; None for no line."""


def _told(event: events.InsightsRecalled) -> str | None:
    insights = "1 insight" if len(event.texts) == 1 else f"{len(event.texts)} insights"
    texts = "; ".join(short_line(text, LONGEST_TOLD) for text in event.texts)
    return f"recalled {insights} of earlier runs: {texts}" if texts else None


_USUAL: Mapping[type[Event], Callable[[Any], str | None]] = {
    events.OperatorStarted: lambda _: "running",
    events.Progress: lambda event: f"{event.done}/{event.total}" if event.total else None,
    events.CacheHit: lambda _: "from the cache",
    events.MessageKept: lambda _: "kept from before",
    events.OperatorFinished: lambda event: (
        f"done, {event.seconds:.1f} s, {event.message.usage.tokens:,} tokens{_cost(event.message.usage)}"
    ),
    events.OperatorCancelled: lambda _: "stopped",
    events.OperatorSkipped: lambda event: f"skipped: {event.reason}",
    events.OperatorKept: lambda _: f"kept: {KEPT}",
    events.JobSplit: lambda event: f"split into {parts_of(event)}",
    events.InsightsRecalled: _told,
    events.PassagesEmbedded: lambda event: (
        f"passages embedded with {event.model}: {event.total:,}" if event.done == event.total else None
    ),
    events.EvidenceCut: lambda event: (
        f"was shown only a part of {shorten(event.operators)}: {event.characters:,} characters are left out"
    ),
}
"""Lines on what operators do outside of maps, by the event; None for no line."""


def _cost(usage: Usage) -> str:
    return f", cost {usage.money()}" if usage.cost else ""


class PlainLines:
    """Display that prints a line when an operator starts, ends or progresses: a tenth of its items, or some seconds."""

    def __init__(self, console: Console, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.trace = Trace(names)
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
        tell = _UNUSUAL.get(type(event)) or (None if row_of(event.path)[1] else _USUAL.get(type(event)))
        if tell and (line := tell(event)) and (not isinstance(event, events.Progress) or self._is_due(event)):
            self._write(event, line)

    def paused(self) -> AbstractContextManager[None]:
        """Return at once: plain lines need no pause for a question."""
        return nullcontext()

    def _write(self, event: Event, text: str) -> None:
        self._print(printable(f"round {event.round}  {display_name(event.path, self.trace.names)}: {text}"))

    def _is_due(self, event: events.Progress) -> bool:
        """Return True if another tenth of the items is done, or nothing was printed for long."""
        is_a_tenth = event.done * 10 // event.total > (event.done - 1) * 10 // event.total
        return is_a_tenth or monotonic() > self._last_written + LONGEST_SILENCE

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._last_written = monotonic()


Result = TypeVar("Result")

MOST_REASONS = 20
"""Maximum number of lines of an evaluation."""

LONGEST_REASON = 200
"""Maximum number of characters of an evaluation in the last line."""

GRACE = 0.5
"""Seconds for an interrupted run to clean up; a thread may hang, or a model be processing a prompt."""


def run_to_end(work: Coroutine[Any, Any, Result], kept: Kept | None = None) -> Result:
    """Run a coroutine; Ctrl-C and SIGTERM cancel it, and end the process after `GRACE` seconds at the latest.

    Args:
        kept: The durable run, if it is one.
    """
    received: int = signal.SIGINT
    cancels: list[Callable[[], object]] = []

    def exit_process() -> NoReturn:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        how = "interrupted" if received == signal.SIGINT else "terminated"
        resume_hint = kept.goes_on() if kept else ""
        print(f"{show_cursor}operad: {how}{resume_hint}", file=sys.stderr, flush=True)
        end_children()
        os._exit(128 + received)

    def on_signal(number: int) -> NoReturn:
        nonlocal received
        received = number
        for cancel in cancels:
            with suppress(RuntimeError):  # the event loop is closed: the process is about to end
                cancel()
        time.sleep(GRACE)
        exit_process()

    async def main() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101
        cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))  # its tasks are cancelled with it, in order
        return await work

    with signals_heard(on_signal):
        try:
            return asyncio.run(main())
        except (KeyboardInterrupt, asyncio.CancelledError):
            exit_process()


async def follow(
    agent: Agent,
    job: Job,
    missing: Sequence[StartVariable],
    answers: Mapping[str, str],
    written: TextIO | None,
    lines: Lines,
    kept: Kept | None = None,
    page: PageServer | None = None,
    *,
    brief: bool = False,
    option: str = "--input",
    names: Mapping[str, str] = MappingProxyType({}),
) -> WorkflowMessage:
    """Run an agent with its events shown on stderr, ask for missing inputs and its questions, and return its message.

    `brief` leaves out the final verdict, for callers that print the findings themselves, and operators that call
    neither a model nor a tool. `option` is the command's option for inputs. `names` are those of operators by their ids.
    """
    console = Console(stderr=True)
    job = await ask_inputs(job, missing, lines.next, partial(say, console), partial(prompt, console), option)
    runs_in_workers = kept is not None and kept.ledger.workers is not None  # workers configure models themselves
    if not runs_in_workers and (line := model_line(agent.reasoner)):
        say(console, line)
    if kept:
        kept.keep(agent.workflow, partial(say, console, kept.greeting(job)))
    if written:
        agent.workflow.add_listener(partial(_write_event, written, console))
    finished: events.RunFinished | None = None
    asking = Asking()
    try:
        with display_on(console, names) as display:
            later = kept.later if kept else "--answer"
            asker = Asker(agent.workflow, answers, lines, console, display, later, page.url if page else "")
            stream = agent.stream(job, run_id=kept.run_id if kept else None)
            async with asker.serving(), aclosing(stream):
                async for event in stream:
                    for shown_event in asking.of(event) if brief else (event,):
                        display.show(shown_event)
                    asker.on_event(event)
                    if isinstance(event, events.RunFinished):
                        finished = event
    except asyncio.CancelledError:
        if page:
            page.close()  # shows in the browser how the run ended
        raise
    assert finished is not None  # noqa: S101 - a run that does not finish raises
    _print_summary(finished, display.trace, console, brief=brief)
    if unasked := asker.never_asked():
        say(console, f"no question used --answer {', '.join(unasked)}")
    return finished.message


def _write_event(file: TextIO, console: Console, event: events.Event) -> None:
    """Write an event to a file; after the first error, which is printed, the file is closed."""
    if file.closed:
        return
    try:
        file.write(line_of(event))
    except OSError as error:
        with suppress(OSError):
            file.close()
        say(console, f"--events {file.name}: cannot be written: {error.strerror or error}; further events are left out")


def _print_summary(finished: events.RunFinished, trace: Trace, console: Console, *, brief: bool) -> None:
    message = finished.message
    if not brief:
        for line in repetition_lines(trace):
            say(console, line)
    if line := remarks_on(trace):
        say(console, line)
    if not brief:
        for line in _reason_lines(message):
            say(console, line)
    rounds = f"{finished.rounds} round" + ("s" if finished.rounds > 1 else "")
    say(console, f"{_verdict(message, trace)}  {rounds}, {finished.seconds:.1f} s, {used(message.usage)}")


def _verdict(message: WorkflowMessage, trace: Trace) -> str:
    if message.rejected:
        return verdict_text(message.status, short_line(_first_line(message), LONGEST_REASON))
    return "accepted" if is_evaluated(trace) else message.status.value


def _first_line(message: WorkflowMessage) -> str:
    return message.evaluation.partition("\n")[0]


def _reason_lines(message: WorkflowMessage) -> Iterator[str]:
    """Yield the reason for a rejection, as far as the last line has no room for it, and the lesson."""
    if message.rejected:
        lines = message.evaluation.splitlines()[len(_first_line(message)) <= LONGEST_REASON :]
        yield from (shortened(line, LONGEST_EVALUATION) for line in lines[:MOST_REASONS] if line)
    if message.lesson:
        yield f"lesson: {short_line(message.lesson, LONGEST_EVALUATION)}"


def say(console: Console, line: str) -> None:
    """Print a line literally, without markup of the console."""
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def prompt(console: Console, text: str) -> None:
    """Print a prompt, without a line break."""
    console.print(text, end="", markup=False, highlight=False)
