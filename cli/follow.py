"""A run at a terminal: its events on stderr, its questions asked, Ctrl-C heeded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

from rich.console import Console

from operad.cli.ask import Asker, Lines
from operad.cli.display import Asking, display_on
from operad.cli.durable import Kept
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.progress import Remarks, used
from operad.cli.rounds import Repetition
from operad.configs.inputs import ask_inputs
from operad.configs.models import model_line
from operad.configs.printable import printable
from operad.operators.nodes.flow import StartVariable
from operad.runtime import events
from operad.runtime.agents.agent import Agent
from operad.runtime.events.events_file import line_of
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

if TYPE_CHECKING:
    from operad.server.view.server import PageServer

Result = TypeVar("Result")

GRACE = 0.5
"""Seconds that an interrupted run has to clean up: a thread may hang, a model be in mid-prompt."""


def run_to_end(work: Coroutine[Any, Any, Result], kept: Kept | None = None) -> Result:
    """Run to the end; Ctrl-C and SIGTERM cancel the work, and end the process after `GRACE` seconds in any case.

    Args:
        work: The work.
        kept: The durable run, if it is one.
    """
    received: int = signal.SIGINT
    cancels: list[Callable[[], object]] = []

    def leave() -> NoReturn:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        what = "interrupted" if received == signal.SIGINT else "terminated"
        goes_on = kept.goes_on() if kept else ""
        print(f"{show_cursor}operad: {what}{goes_on}", file=sys.stderr, flush=True)
        end_children()
        os._exit(128 + received)

    def hear(number: int) -> NoReturn:
        nonlocal received
        received = number
        for cancel in cancels:
            with suppress(RuntimeError):  # its loop is closed, and the process about to end
                cancel()
        time.sleep(GRACE)
        leave()

    async def main() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101
        cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))  # all else ends with it, and in order
        return await work

    with signals_heard(hear):
        try:
            return asyncio.run(main())
        except (KeyboardInterrupt, asyncio.CancelledError):
            leave()


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
) -> WorkflowMessage:
    """Run the agent, show its events on stderr, ask for what is missing and what it asks, and return its message.

    `brief` leaves out the verdict at the end, for a caller that prints what was found itself, and operators that make
    no call.
    """
    console = Console(stderr=True)
    job = await ask_inputs(job, missing, lines.next, partial(say, console), partial(prompt, console))
    elsewhere = kept is not None and kept.ledger.workers is not None  # models are configured in the workers then
    if not elsewhere and (line := model_line(agent.reasoner)):
        say(console, line)
    if kept:
        say(console, kept.greeting)
        kept.keep(agent.workflow)
    if written:
        agent.workflow.add_listener(partial(_write, written))
    finished: events.RunFinished | None = None
    remarks, repetition, asking = Remarks(), Repetition(), Asking()
    try:
        with display_on(console) as display:
            later = kept.later if kept else "--answer"
            asker = Asker(agent.workflow, answers, lines, console, display, later, page.url if page else "")
            stream = agent.stream(job, run_id=kept.run_id if kept else None)
            async with asker.serving(), aclosing(stream):
                async for event in stream:
                    for each in asking.of(event) if brief else (event,):
                        display.show(each)
                    remarks.apply(event)
                    repetition.apply(event)
                    asker.heed(event)
                    if isinstance(event, events.RunFinished):
                        finished = event
    except asyncio.CancelledError:
        if page:
            page.close()  # which tells its browsers how the run ended
        raise
    assert finished is not None  # noqa: S101 - a run that does not finish raises
    _sum_up(finished, remarks, None if brief else repetition, console)
    if unasked := asker.never_asked():
        say(console, f"no question used --answer {', '.join(unasked)}")
    return finished.message


def _write(file: TextIO, event: events.Event) -> None:
    file.write(line_of(event))


def _sum_up(finished: events.RunFinished, remarks: Remarks, repetition: Repetition | None, console: Console) -> None:
    message = finished.message
    rounds = f"{finished.rounds} round" + ("s" if finished.rounds > 1 else "")
    say(console, f"{message.status.value}  {rounds}, {finished.seconds:.1f} s, {used(message.usage)}")
    for line in repetition.lines() if repetition else ():
        say(console, line)
    if line := remarks.line():
        say(console, line)
    if repetition is None:
        return
    if finished.rounds > 1 and message.status is not WorkflowStatus.SUCCESS:
        for line in message.evaluation.splitlines():
            say(console, line)
    if message.lesson:
        say(console, f"lesson: {message.lesson}")


def say(console: Console, line: str) -> None:
    """Print a line as it is, whatever its signs mean to the console."""
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def prompt(console: Console, text: str) -> None:
    """Print what stands before what is typed, on the same line."""
    console.print(text, end="", markup=False, highlight=False)
