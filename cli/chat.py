"""`operad chat`: a conversation with an expert at the terminal, or with the lines of stdin."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from operad.cli.ask import Asker, Lines
from operad.cli.chats import ChatDatabase, open_store, own_store
from operad.cli.follow import GRACE, prompt, say
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.options import BaseUrl, ExpertName, ModelName, PricesFile, ServicesFile, WorkflowFile
from operad.cli.remarks import Lossy, remark_lines
from operad.cli.run import EXIT_NOT_SUCCESS
from operad.cli.trust_store import Trusted, trusting
from operad.configs.inputs import start_params, text_input
from operad.configs.models import model_line
from operad.configs.runnable import Runnable, Source, make
from operad.runtime.events import RunFinished
from operad.runtime.values.errors import AnswerError, InputError, OperadError
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.text import harmless
from operad.runtime.values.verdict_text import verdict_text
from operad.runtime.workflow.answer_stream import AnswerStream
from operad.runtime.workflow.chat import Chat, answer_text

SHOWN = 3
"""Number of earlier messages, with their answers, that are shown when a conversation continues at a terminal."""


def chat(
    config: WorkflowFile,
    chat_id: Annotated[
        str | None,
        typer.Option("--chat", metavar="ID", help="Id of the conversation: begin it, or continue the stored one."),
    ] = None,
    db: ChatDatabase = None,
    expert: ExpertName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    services_file: ServicesFile = None,
    lossy: Lossy = False,
    trust: Trusted = False,
) -> None:
    """Chat with an expert at the terminal; it remembers the conversation.

    Each line is a message, from a terminal or from a pipe. Answers go to stdout as the model writes them; other output
    goes to stderr. Ctrl-D ends the conversation; Ctrl-C stops an answer, whose message is then not kept; at the prompt it
    ends the command. A question of the expert is answered by the next line.

    The conversation is kept with --chat or --db, and otherwise lost at the end. With --db alone, its id is the expert's
    name. `memory: {tokens: …}` in the file limits the part sent to a model; older messages are summarized.

    Exit status: 0; 1 if lines come from a pipe and an answer was not judged SUCCESS; 2 bad input or an error; 130
    interrupted, 143 terminated.
    """
    source = Source(
        file=config,
        expert=expert,
        model=model,
        base_url=base_url,
        services=None if services_file is None else str(services_file),
        lossy=lossy,
    )
    runnable = trusting(lambda trusted: make(source, trusted), trust)
    agent, lines, console = runnable.agent, Lines.of_stdin(), Console(stderr=True)
    kept_as = chat_id if chat_id is not None or db is None else agent.profile.name
    store = None if kept_as is None else open_store(db, new=True)
    talk = agent.chat(kept_as, store=store)
    for line in remark_lines(runnable.graph, config):
        say(console, line)
    if line := model_line(agent.reasoner):
        say(console, line)
    if lines.typed:
        where = "" if store is None else f", kept in {own_store() if db is None else db}"
        not_kept = "; --chat ID keeps it" if store is None else ""
        say(console, f"chat with {agent.profile.name}{where}{not_kept}. Ctrl-C stops an answer, Ctrl-D ends")
        _show_history(talk, console)
    raise typer.Exit(_Conversation(talk, runnable, lines, console).run())


def _show_history(talk: Chat, console: Console) -> None:
    turns = talk.turns
    if (earlier := len(turns) // 2 - SHOWN) > 0:
        say(console, f"… {earlier} earlier message{'s' if earlier > 1 else ''}")
    for turn in turns[-2 * SHOWN :]:
        text = harmless(turn.text)
        console.print(f"> {text}" if turn.role == "user" else text, markup=False, highlight=False, soft_wrap=True)


class _Conversation:
    """Conversation at the terminal, which answers one line after another."""

    def __init__(self, talk: Chat, runnable: Runnable, lines: Lines, console: Console) -> None:
        self._chat = talk
        self._agent = runnable.agent
        self._input = _text_input(runnable)
        self._lines = lines
        self._console = console
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer_task: asyncio.Task[WorkflowMessage] | None = None
        self._stopped = False
        self._received: int = signal.SIGINT

    def run(self) -> int:
        """Answer lines until the input ends, and return the exit status."""
        with signals_heard(self._on_signal):
            try:
                return asyncio.run(self._answer_lines())
            except asyncio.CancelledError:
                _exit_after_signal(self._received)

    async def _answer_lines(self) -> int:
        self._loop, status = asyncio.get_running_loop(), 0
        while (line := await self._next_line()) is not None:
            if not line.strip():
                continue
            try:
                message = await self._await_answer(self._answer(line))
            except OperadError as error:
                if not self._lines.typed:
                    raise
                for part in str(error).splitlines():
                    say(self._console, f"operad: {part}")
                continue
            if message is not None and message.rejected:
                status = EXIT_NOT_SUCCESS
                say(self._console, verdict_text(message.status, message.evaluation))
        if self._lines.typed:
            self._console.print()
            return 0
        return status

    async def _next_line(self) -> str | None:
        if self._lines.typed:
            prompt(self._console, "> ")
        return await self._lines.next()

    async def _await_answer(self, work: Coroutine[Any, Any, WorkflowMessage]) -> WorkflowMessage | None:
        """Return the answer; None if Ctrl-C stopped it."""
        self._stopped = False
        self._answer_task = asyncio.ensure_future(work)
        try:
            return await self._answer_task
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            print(flush=True)
            say(self._console, "stopped; this message is not kept")
            return None
        finally:
            self._answer_task = None

    async def _answer(self, line: str) -> WorkflowMessage:
        """Answer a line, printing the answer to stdout while the model writes it."""
        job = Job(line) if self._input is None else Job(line, inputs={self._input: line})
        live = AnswerStream.of(self._agent.workflow, self._agent.reasoner)
        asker = Asker(self._agent.workflow, {}, self._lines, self._console, _NoDisplay(), later="")
        message = None
        async with asker.serving(), aclosing(self._chat.events(job)) as events:
            async for event in events:
                asker.on_event(event)
                if piece := live.next(event):
                    _write(piece)
                if isinstance(event, RunFinished) and not event.path:
                    message = event.message
        assert message is not None  # noqa: S101 - a run that does not finish raises
        text = answer_text(message)
        try:
            _write("".join(live.rest(text)))
        except AnswerError:
            say(self._console, "")
            say(self._console, "the model started again; its answer is:")
            _write(text)
        _write("\n")
        return message

    def _on_signal(self, number: int) -> None:
        """Handle a signal, in a thread of its own: stop the answer, or end the process."""
        self._received = number
        answering, loop = self._answer_task, self._loop
        if answering is not None and loop is not None:
            stops_answer = number == signal.SIGINT and self._lines.typed and not self._stopped
            self._stopped = self._stopped or stops_answer
            loop.call_soon_threadsafe(answering.cancel)
            if stops_answer:
                return
            time.sleep(GRACE)
        _exit_after_signal(number)


class _NoDisplay:
    """Display that needs no pause while a person is asked."""

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()


def _text_input(runnable: Runnable) -> str | None:
    """Return the input of a workflow of typed nodes that takes the message; None if the message is the goal alone.

    Raises:
        InputError: The workflow has other inputs.
    """
    start = runnable.graph and start_params(runnable.graph)
    if not start or not start.variables:
        return None
    name = text_input(start)
    if name is None:
        named = ", ".join(f"{name} ({kind.value})" for name, kind in start.variables)
        raise InputError(
            f"{runnable.name}: has the inputs {named}, but a message is one text; use operad run for such workflows"
        )
    return name


def _write(text: str) -> None:
    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _exit_after_signal(number: int) -> NoReturn:
    how = "interrupted" if number == signal.SIGINT else "terminated"
    print(f"\noperad: {how}" if sys.stderr.isatty() else f"operad: {how}", file=sys.stderr, flush=True)
    end_children()
    os._exit(128 + number)
