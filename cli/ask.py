"""Questions of a run, asked at the terminal."""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import sys
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Protocol

from pydantic import JsonValue
from rich.console import Console

from operad.runtime.events import Event, Interrupted, OperatorCancelled, OperatorFailed, Resumed
from operad.runtime.policies.deadline import ended
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.questions import Question
from operad.runtime.values.text import printable
from operad.runtime.values.typed_answers import WrongAnswerError, describe_answer, read_answer
from operad.runtime.workflow.workflow import Workflow

_CHUNK = 4096


class Paused(Protocol):
    """A display that can pause while a person is asked."""

    def paused(self) -> AbstractContextManager[None]:
        """Pause the display inside this context manager."""
        ...


class Lines:
    """Lines of a file descriptor, read in a background thread.

    A thread that reads `sys.stdin` would hold its lock when the process ends, so the descriptor is read directly. A
    line that arrives after its reader was cancelled goes to the next reader.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._reading: Future[str | None] | None = None

    @staticmethod
    def of_stdin() -> Lines:
        """Return the lines of the process's stdin; empty if it has none."""
        try:
            return Lines(sys.stdin.fileno())
        except (AttributeError, OSError, ValueError):
            return Lines(None)

    @property
    def typed(self) -> bool:
        """True if a person types the lines at a terminal."""
        return self._descriptor is not None and os.isatty(self._descriptor)

    async def next(self) -> str | None:
        """Return the next line without its line break; None at the end."""
        if self._descriptor is None:
            return None
        if self._reading is None:
            self._reading = Future()
            threading.Thread(target=self._read, args=(self._reading, self._descriptor), daemon=True).start()
        line = await asyncio.shield(asyncio.wrap_future(self._reading))
        self._reading = None
        return line

    def _read(self, reading: Future[str | None], descriptor: int) -> None:
        try:
            reading.set_result(self._line(descriptor))
        except OSError:
            reading.set_result(None)

    def _line(self, descriptor: int) -> str | None:
        while "\n" not in self._text:
            chunk = os.read(descriptor, _CHUNK)
            self._text += self._decoder.decode(chunk, final=not chunk)
            if not chunk:
                rest, self._text = self._text, ""
                return rest or None
        line, _, self._text = self._text.partition("\n")
        return line.removesuffix("\r")


class Asker:
    """Questioner that asks the questions of a run, one after another, and passes on the answers.

    Args:
        answers: Answers known beforehand, by the ids of their questions.
        lines: Source of further answers.
        display: Display to pause meanwhile.
        later: Text before an answer in the hint how to give it later; empty if the next line is the answer.
        page: Address of a page that also takes answers; empty for none.
    """

    def __init__(
        self,
        workflow: Workflow,
        answers: Mapping[str, str],
        lines: Lines,
        console: Console,
        display: Paused,
        later: str = "--answer",
        page: str = "",
    ) -> None:
        self._workflow = workflow
        self._answers = answers
        self._lines = lines
        self._console = console
        self._display = display
        self._later = later
        self._page = page
        self._asked: set[str] = set()
        self._queue: asyncio.Queue[Interrupted] = asyncio.Queue()
        self._current: tuple[Interrupted, asyncio.Task[None]] | None = None
        self._failure: BaseException | None = None
        self._background: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        """Ask questions one after another inside this context manager, while the run is in progress.

        Raises:
            Exception: The error that made asking impossible.
        """
        task = asyncio.ensure_future(self._ask_all())
        try:
            yield
        except asyncio.CancelledError:
            if self._failure:
                raise self._failure from None
            raise
        finally:
            task.cancel()
            await asyncio.gather(task, *self._background, return_exceptions=True)

    def on_event(self, event: Event) -> None:
        """Handle an event: queue a question, answer it at once if the answer is known, or stop asking a closed one."""
        if isinstance(event, Interrupted):
            self._add_question(event)
        elif isinstance(event, Resumed | OperatorFailed | OperatorCancelled):
            self._stop_if_closed(event)

    def _add_question(self, question: Interrupted) -> None:
        self._asked.add(question.interrupt_id)
        if question.interrupt_id not in self._answers:
            self._queue.put_nowait(question)
        elif self._is_open(question):
            self._give_known_answer(question)

    def _stop_if_closed(self, event: Event) -> None:
        """Stop asking the current question if it is no longer open."""
        if not self._current or self._is_open(self._current[0]):
            return
        question, asking = self._current
        if isinstance(event, Resumed) and event.interrupt_id == question.interrupt_id and not asking.done():
            self._say(f"{question.interrupt_id} was answered elsewhere")
        asking.cancel()

    def never_asked(self) -> list[str]:
        """Return the ids of given answers that no question used."""
        return [question_id for question_id in self._answers if question_id not in self._asked]

    async def _ask_all(self) -> None:
        while True:
            question = await self._queue.get()
            task = asyncio.ensure_future(self._ask(question))
            self._current = question, task
            await ended(task)
            self._current = None
            if not task.cancelled() and (error := task.exception()):
                self._fail(question, error)

    def _fail(self, question: Interrupted, error: BaseException) -> None:
        """Store an error and cancel the run; its last events still reach the stream."""
        if not self._failure:
            self._failure = error
            self._background.append(asyncio.ensure_future(self._cancel_run(question.run_id)))

    async def _cancel_run(self, run_id: str) -> None:
        with suppress(InputError):  # the run has ended already
            await self._workflow.cancel(run_id)

    def _give_known_answer(self, question: Interrupted) -> None:
        schema = None if question.schema is None else dict(question.schema)
        asked = Question(id=question.interrupt_id, text=question.question, schema_=schema)
        try:
            [value] = read_answers({asked.id: self._answers[asked.id]}, [asked])[0].values()
        except InputError as error:
            self._fail(question, error)
        else:
            self._background.append(asyncio.ensure_future(self._give(question, value)))

    async def _give(self, question: Interrupted, value: JsonValue) -> None:
        try:
            await self._answer(question, value)
        except Exception as error:  # noqa: BLE001 - raised by `serving`
            self._fail(question, error)

    async def _answer(self, question: Interrupted, value: JsonValue) -> None:
        await self._workflow.answer(question.run_id, {question.interrupt_id: value})

    async def _ask(self, question: Interrupted) -> None:
        if not self._is_open(question):
            return
        with self._display.paused():
            for line in shown(question):
                self._say(line)
            while True:
                if self._lines.typed:
                    self._console.print("> ", end="", markup=False, highlight=False)
                line = await self._lines.next()
                if not self._is_open(question):
                    return
                if line is None:
                    if not self._page:
                        raise self._no_answer_error(question)
                    self._say(f"answer it on the page: {self._page}")
                    await asyncio.Event().wait()  # `heed` cancels this wait
                    return
                try:
                    value = read_answer(line, question.schema)
                except WrongAnswerError as error:
                    self._say(f"{error}; try again")
                else:
                    await self._answer(question, value)
                    return

    def _is_open(self, question: Interrupted) -> bool:
        try:
            return any(
                open_question.id == question.interrupt_id for open_question in self._workflow.questions(question.run_id)
            )
        except InputError:  # the run has ended
            return False

    def _say(self, line: str) -> None:
        self._console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def _no_answer_error(self, question: Interrupted) -> InputError:
        if self._lines.typed:
            self._console.print()
        hint = did_you_mean(question.interrupt_id, self.never_asked()).replace("did you mean", "--answer names")
        give = (
            f"give it: {self._later} {shlex.quote(question.interrupt_id)}=…{hint}"
            if self._later
            else "write it on the next line"
        )
        return InputError(f"{question.interrupt_id!r} asks {question.question!r}, and stdin holds no answer; {give}")


def read_answers(
    answers: Mapping[str, str], questions: Iterable[Question]
) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Return the answers to questions as values, and the texts of answers to other questions.

    Raises:
        InputError: An answer does not fit its question.
    """
    values, others = dict[str, JsonValue](), dict(answers)
    for question in {each.id: each for each in questions}.values():  # the last that was asked with an id
        if (text := others.pop(question.id, None)) is not None:
            try:
                values[question.id] = read_answer(text, question.schema_)
            except WrongAnswerError as error:
                raise InputError(f"--answer {question.id}={text}: {error}; it was asked: {question.text}") from error
    return values, others


def shown(question: Interrupted) -> Iterator[str]:
    """Yield the lines that show a question: the operator, the text, and the possible answers."""
    first, *more = question.question.splitlines() or [""]
    form = f" ({wanted})" if (wanted := describe_answer(question.schema)) and not more else ""
    yield f"{question.interrupt_id} asks: {first}{form}"
    yield from (f"  {line}" for line in more)
    if more and wanted:
        yield f"  ({wanted})"
