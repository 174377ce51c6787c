"""Runs at a terminal: events on stderr, questions, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

from rich.console import Console

from operad.cli.ask import Asker, Lines
from operad.cli.display import Asking, display_on
from operad.cli.durable import Kept
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.progress import remarks_on, used
from operad.cli.rounds import LONGEST_EVALUATION, is_evaluated, repetition_lines
from operad.configs.inputs import ask_inputs
from operad.configs.models import model_line
from operad.operators.nodes.flow import StartVariable
from operad.runtime import events
from operad.runtime.agents.agent import Agent
from operad.runtime.events.events_file import line_of
from operad.runtime.observe.trace import Trace
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.text import printable, short_line, shortened
from operad.runtime.values.verdict_text import verdict_text

if TYPE_CHECKING:
    from operad.server.view.server import PageServer

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
) -> WorkflowMessage:
    """Run an agent with its events shown on stderr, ask for missing inputs and its questions, and return its message.

    `brief` leaves out the final verdict, for callers that print the findings themselves, and operators that call
    neither a model nor a tool. `option` is the command's option for inputs.
    """
    console = Console(stderr=True)
    job = await ask_inputs(job, missing, lines.next, partial(say, console), partial(prompt, console), option)
    runs_in_workers = kept is not None and kept.ledger.workers is not None  # workers configure models themselves
    if not runs_in_workers and (line := model_line(agent.reasoner)):
        say(console, line)
    if kept:
        say(console, kept.greeting(job))
        kept.keep(agent.workflow)
    if written:
        agent.workflow.add_listener(partial(_write_event, written, console))
    finished: events.RunFinished | None = None
    asking = Asking()
    try:
        with display_on(console) as display:
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
