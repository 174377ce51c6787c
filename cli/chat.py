"""`operad chat`: a conversation with an expert at the terminal, or with the lines of stdin; `operad chats`: those kept."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, aclosing, nullcontext
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from operad.cli.ask import Asker, Lines
from operad.cli.columns import local_time, print_table
from operad.cli.follow import GRACE, prompt, say
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.options import BaseUrl, ExpertName, ModelName, PricesFile, ServicesFile, WorkflowFile
from operad.cli.remarks import Lossy, remark_lines
from operad.cli.run import EXIT_NOT_SUCCESS
from operad.cli.trust_store import Trusted, trusting
from operad.configs.inputs import start_params, text_input
from operad.configs.models import model_line
from operad.configs.runnable import Runnable, Source, make
from operad.flows import NodeGraph
from operad.runtime.durable.database_names import state_folder
from operad.runtime.events import RunFinished
from operad.runtime.values.errors import AnswerError, InputError, OperadError
from operad.runtime.values.fault import verdict_text
from operad.runtime.values.file import unwritable
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.text import harmless
from operad.runtime.workflow.answer_stream import AnswerStream
from operad.runtime.workflow.chat import Chat, answer_text
from operad.runtime.workflow.chat_store import ChatStore

SHOWN = 3
"""Number of earlier messages, with their answers, that are shown when a conversation continues at a terminal."""

ChatDatabase = Annotated[
    Path | None,
    typer.Option(
        "--db",
        metavar="FILE",
        help="The SQLite file that keeps conversations; by default one in your folder for state.",
    ),
]


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
    if not talk.turns:
        _show_greeting(runnable.graph, console)
    raise typer.Exit(_Conversation(talk, runnable, lines, console).run())


def _show_greeting(graph: NodeGraph | None, console: Console) -> None:
    """Print the first message of an imported app, and the questions that it suggests."""
    if graph is None or not graph.is_imported:
        return
    from operad.flows.formats.remarks import greeting_of  # not at import: workflows in operad's format need no formats

    greeting = greeting_of(graph)
    for line in [*filter(None, [greeting.text]), *(f"  › {question}" for question in greeting.questions)]:
        console.print(harmless(line), markup=False, highlight=False, soft_wrap=True)


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
    """Return the input of a workflow of typed nodes that takes the message; None if the message is the goal alone."""
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


def chats(
    db: ChatDatabase = None,
    forget: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Remove the conversation with this id. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List kept conversations, or remove some of them.

    Exit status: 0, or 2 if there is no such file or conversation.
    """
    store = open_store(db, new=False)
    try:
        if forget:
            store.forget(*forget)
        kept = store.chats()
    finally:
        store.close()
    if as_json:
        print(
            json.dumps([{"id": chat.id, "messages": chat.messages, "written": chat.written} for chat in kept], indent=2)
        )
    elif kept:
        print_table(
            ("id", "messages", "last message"),
            [(chat.id, str(chat.messages), local_time(chat.written, "%Y-%m-%d %H:%M")) for chat in kept],
        )
    else:
        print("no conversations")


def own_store() -> Path:
    """Return the file that keeps conversations by default."""
    return state_folder() / "chats.sqlite"


def open_store(db: Path | None, *, new: bool) -> ChatStore:
    """Return the store of conversations for a command.

    Args:
        db: File given to the command; None for the default file.
        new: True if the file may be created.

    Raises:
        InputError: The file or its folder does not exist, the file is a folder, or the default folder cannot be created.
    """
    path = own_store() if db is None else db.expanduser()
    if db is None and new:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(str(path.parent), error) from error
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")
    if not new and not path.is_file():
        raise InputError(
            f"{path}: there is no such file, so there are no conversations; operad chat FILE --chat ID starts one"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {str(path.parent)!r}; make it, or name another file: --db FILE")
    return ChatStore(path)
