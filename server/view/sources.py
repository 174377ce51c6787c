"""Sources of a run for the page: this process, a file of events, a database."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from errno import ENOENT
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from operad.runtime.durable.restart import Restart, origin_text
from operad.runtime.durable.threads import in_thread
from operad.runtime.events import Event
from operad.runtime.events.events_file import EventsFile
from operad.runtime.values.errors import InputError, OperadError, did_you_mean
from operad.runtime.workflow.workflow import Workflow

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger

AT_ONCE = 500
"""Maximum number of events read from a file before other tasks get a turn."""

POLL = 1.0
"""Seconds between queries to a database."""

SILENCE = 30.0
"""Seconds without a new line after which the page remarks on the silence of an unfinished run."""

MOST_NEAR = 10_000
"""Maximum number of names in a folder that are compared with a missing name."""

_HEAD_BYTES = 256


class Control(Protocol):
    """Object that answers a run's questions, and cancels the run."""

    @property
    def restart(self) -> Callable[[Restart], Awaitable[str]] | None:
        """Function that continues a copy of the run, and returns its id; None if that is impossible."""
        ...

    async def answer(self, run_id: str, question_id: str, value: JsonValue, by: str) -> None:
        """Answer a question, as a user with a name; empty if it is not known.

        Raises:
            OperadError: The question does not exist, or the answer does not fit.
        """
        ...

    async def cancel(self, run_id: str) -> None:
        """Cancel the run.

        Raises:
            OperadError: The run has ended.
        """
        ...


class Source(Protocol):
    """Source of a run's events."""

    def note(self, *, ended: bool) -> str:
        """Return a remark on the run for the reader; empty for none.

        Args:
            ended: True if the run has ended, as far as its events say.
        """
        ...

    @property
    def control(self) -> Control | None:
        """Object that answers and cancels the run; None if that is impossible."""
        ...

    async def news(self) -> Sequence[Event]:
        """Return the next events since the last call; empty if there are none.

        If another run has started, or the events are sent again, the first event is `RunStarted`.
        """
        ...


class LiveSource:
    """The runs of a workflow in this process, which may run in another thread.

    Args:
        end: Function that cancels the run; by default, the workflow's.
    """

    restart = None

    def __init__(self, workflow: Workflow, end: Callable[[], object] | None = None) -> None:
        self._workflow = workflow
        self._end = end
        self._pending = deque[Event]()
        self._closed = False
        workflow.add_listener(self._receive)

    def _receive(self, event: Event) -> None:
        if not self._closed:
            self._pending.append(event)

    def close(self) -> None:
        """Ignore further events; a listener cannot be removed from its workflow."""
        self._closed = True

    def note(self, *, ended: bool) -> str:
        """Return no remark."""
        return ""

    @property
    def control(self) -> Control:
        """This source, which passes answers to the workflow."""
        return self

    async def news(self) -> Sequence[Event]:
        """Return the events since the last call."""
        return [self._pending.popleft() for _ in range(len(self._pending))]

    async def answer(self, run_id: str, question_id: str, value: JsonValue, by: str) -> None:
        """Answer a question; further events show the effect on the run.

        Raises:
            OperadError: The question does not exist, or the answer does not fit.
        """
        await self._workflow.answer(run_id, {question_id: value}, by=by)

    async def cancel(self, run_id: str) -> None:
        """Cancel the run.

        Raises:
            InputError: The run has ended.
        """
        if self._end:
            self._end()
        else:
            await self._workflow.cancel(run_id)


class FileSource:
    """A file of events that may still be written, or be replaced by that of another run.

    Raises:
        InputError: The file does not exist, or contains only events of unknown types.
    """

    control = None

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(_no_file_message(path))
        self._path = path
        self._file = EventsFile(path)
        self._head = b""
        self._fault_note = ""
        first = EventsFile(path)
        if next(first.events(), None) is None and first.unknown:
            raise InputError(rf"{path}: holds no known event; was it written by a later version of operad\?")

    def note(self, *, ended: bool) -> str:
        """Return a remark on an unreadable file, or on a long silence although the run has not ended."""
        if self._fault_note or ended:
            return self._fault_note
        with suppress(OSError, InputError):  # the file is gone; `news` reports that
            status = self._path.stat()
            last = status.st_mtime
            if status.st_size and time.time() - last > SILENCE:
                cut = " in the middle of a line" if self._file.rest > 0 else ""
                since = f"{datetime.fromtimestamp(last).astimezone():%Y-%m-%d %H:%M:%S}"
                return f"{self._path.name} ends{cut} before its run does; nothing was written since {since}"
        return ""

    async def news(self) -> Sequence[Event]:
        """Return the next events. After a line that is not an event, nothing is read until the file is replaced."""
        events: list[Event] = []
        try:
            if self._is_replaced():
                self._file, self._fault_note = EventsFile(self._path), ""
            if not self._fault_note:
                for event in islice(self._file.events(), AT_ONCE):
                    events.append(event)  # events before an invalid line are shown
        except OSError as error:
            self._fault_note = f"{self._path}: cannot be read: {error.strerror or error}"
        except InputError as error:
            self._fault_note = str(error)
        return events

    def _is_replaced(self) -> bool:
        """Return True if the file was replaced since the last read: it is shorter, or starts differently."""
        if not self._path.is_file():
            raise FileNotFoundError(ENOENT, "it is gone")
        with self._path.open("rb") as file:
            before, self._head = self._head, file.read(_HEAD_BYTES)
        return not self._head.startswith(before) or self._file.rest < 0


@dataclass(frozen=True)
class _Position:
    """Position up to which the events of a durable run were read.

    Attributes:
        state: State of the run in the database if all its events were read; None to read again.
        part: Number of the last part of the events.
        note: Remark on the run for the reader.
    """

    state: object = None
    part: int = 0
    note: str = ""


class LedgerSource:
    """A durable run in a database, driven by any process.

    Args:
        resume: What resumes the run if no process drives it; by default, a command.

    Raises:
        InputError: The run does not exist.
    """

    restart = None

    def __init__(self, ledger: Ledger, run_id: str, resume: str = "") -> None:
        self._origin = origin_text(ledger.run(run_id))
        self._ledger = ledger
        self._run_id = run_id
        self._resume = resume or f"to resume it: operad runs resume {run_id}"
        self._position = _Position()
        self._next_query = 0.0

    def note(self, *, ended: bool) -> str:
        """Return of which run it is a copy; and if no process drives the run, or the database does not answer, that."""
        return "; ".join(filter(None, (self._origin, "" if ended else self._position.note)))

    @property
    def control(self) -> Control:
        """The database, through which the driver of the run receives answers."""
        return self

    async def news(self) -> Sequence[Event]:
        """Return the events stored since the last call; all events, if earlier ones were dropped."""
        if time.monotonic() < self._next_query:
            return ()
        try:
            new, position = await in_thread(self._read, self._position)
        except OperadError as error:
            self._position = replace(self._position, note=str(error))
            return ()
        finally:
            self._next_query = time.monotonic() + POLL
        self._position = position  # a call that is cancelled delivers nothing: the next call reads its events
        return new

    def _read(self, position: _Position) -> tuple[Sequence[Event], _Position]:
        """Return the events after a position, and the next position."""
        kept = self._ledger.run(self._run_id)
        driven = kept.driver in self._ledger.alive()  # by the clocks alone, which suffices for display
        note = "" if driven else f"no process drives this run; {self._resume}"
        state = (kept.state, kept.drives, kept.updated, driven)
        if state == position.state:
            return (), replace(position, note=note)
        new, part = self._ledger.events_after(self._run_id, position.part)
        return new, _Position(None if driven else state, part, note)

    async def answer(self, run_id: str, question_id: str, value: JsonValue, by: str) -> None:
        """Answer a question: the driver of the run receives the answer, now or when the run is resumed.

        Raises:
            InputError: The question does not exist, or the answer does not fit.
        """
        await in_thread(self._ledger.answer, self._run_id, {question_id: value}, by)
        self._read_at_once()

    async def cancel(self, run_id: str) -> None:
        """Cancel the run.

        Raises:
            InputError: The run has ended.
        """
        await in_thread(self._ledger.cancel, self._run_id)
        self._read_at_once()

    def _read_at_once(self) -> None:
        self._position, self._next_query = replace(self._position, state=None), 0.0


def _no_file_message(path: Path) -> str:
    if path.is_dir():
        return f"{path}: is a folder; name a file in it that operad run --events FILE.jsonl has written"
    if path.exists():
        return f"{path}: is not a regular file; name one that operad run --events FILE.jsonl has written"
    hint = ""
    with suppress(OSError):
        hint = did_you_mean(path.name, sorted(entry.name for entry in path.parent.iterdir())[:MOST_NEAR])
    return f"{path}: there is no such file{hint}; operad run … --events FILE.jsonl writes one"
