"""History of a run: its events, recorded while it is driven, and read from the database.

An event is stored once, in the transaction of what it belongs to: the events of an operator's work with the operator's
outcome; those of a running operator with the record that it runs; the last ones with the end of the run. A history is
read from these events alone.

When another process continues a run, it executes the same rounds again: kept outcomes are replayed, with the same events.
The events that are recorded already are not recorded again. Those of work without an outcome are dropped first (see
`settled`), because that work starts anew.
"""

from __future__ import annotations

import asyncio
import logging
import re
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec.structs import replace as changed

from operad.runtime import events
from operad.runtime.durable.codec import MAX_TEXT, Codec, Outcome
from operad.runtime.durable.run_writer import Progress, RunWriter, committed
from operad.runtime.durable.tables import DONE, EventPart, PartRow, StepRow, StoredQuestion
from operad.runtime.durable.work_table import taken_over
from operad.runtime.events import Event, RunLog
from operad.runtime.events.journal import bare, key_at
from operad.runtime.events.log import repeated
from operad.runtime.values.errors import InputError
from operad.runtime.values.map_item import without_index

_logger = logging.getLogger(__name__)

_SHORT = 0.02
"""Seconds after which a running operator is recorded; one that ends earlier is recorded once, with its outcome."""

_UNRECORDED = events.TokenStreamed | events.ThinkingStreamed | events.ModelAsked
"""Streamed text and conversations with models, which are long."""

_STOPS = events.OperatorCancelled | events.OperatorFailed | events.RunFailed
"""Events of an interruption; when the run continues, its operators start anew."""

_ENDS = events.OperatorFinished | events.OperatorFailed | events.OperatorCancelled
_QUESTIONS = events.Interrupted | events.Resumed
_LEVELS = (
    events.OperatorStarted
    | events.OperatorRetried
    | events.OperatorKept
    | events.OperatorSkipped
    | events.WorkflowEntered
    | events.RoundStarted
    | events.RoundFinished
    | events.Progress
    | _QUESTIONS
)
"""Events of an operator that contains others, except for those of its own work, such as a leader's."""

_Path = tuple[str, ...]


class Recorder:
    """Recorder of what happens in a run while this process drives it.

    Args:
        writer: Writer of the records.
        part: Number of the last part of the stored events; 0 if there is none.
        earlier: The stored events, if the run is resumed; None for a new run.
    """

    def __init__(self, log: RunLog, writer: RunWriter, part: int = 0, earlier: Sequence[Event] | None = None) -> None:
        self.run_id = log.run_id
        self._writer = writer
        self._part = part
        self._pending = deque[Event]()
        self._is_resumed = earlier is not None
        self._known = Counter[Any]()
        self._starts: dict[_Path, float] = {}
        self._seq, self._time = 0, 0.0
        for event in earlier or ():
            self._seq, self._time = event.seq, max(self._time, event.time)
            self._known[_identity(event)] += 1
            if isinstance(event, events.OperatorStarted | events.RunStarted):
                self._starts[event.path] = event.time
            elif isinstance(event, _ENDS):
                self._starts.pop(event.path, None)
            elif isinstance(event, events.Resumed):  # an answered question is not asked again
                self._known[_identity(event)] -= 1
                self._known[_identity(event, events.Interrupted)] -= 1
        self._replayed: dict[_Path, StepRow] = {}
        self._with_parts = set[str]()
        log.listen(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, _UNRECORDED) or (isinstance(event, events.MessageKept) and event.path in self._replayed):
            return
        if self._is_resumed:
            if self._known[_identity(event)] > 0:  # it is recorded already
                self._known[_identity(event)] -= 1
                if isinstance(event, _ENDS):
                    self._replayed.pop(event.path, None)
                return
            event = self._continued(event)
        self._pending.append(event)

    def _continued(self, event: Event) -> Event:
        """Return an event of a later drive as part of the whole history, with the times of what is replayed."""
        row, stamps = self._replayed.get(event.path), dict[str, Any]()
        at = event.time
        if row is not None and (repeated() or isinstance(event, _ENDS)):
            at = row.ended
            if isinstance(event, _ENDS):
                del self._replayed[event.path]
                stamps["seconds"] = max(0.0, row.ended - row.began)
        elif isinstance(event, _ENDS | events.RunFinished | events.RunFailed) and event.path in self._starts:
            stamps["seconds"] = at - self._starts.pop(event.path)
        self._seq, self._time = self._seq + 1, max(self._time, at)
        return changed(event, seq=self._seq, time=self._time, **stamps)

    @contextmanager
    def replaying(self, row: StepRow, path: _Path, *, is_part: bool) -> Generator[None, None, None]:
        """Record the events written within a context, and the end of the operator, with the times of its stored outcome.

        Args:
            row: Record of the work.
            is_part: True for a part of the operator's work, after which the operator goes on.
        """
        self._replayed[path] = row
        try:
            yield
        finally:
            if is_part:
                self._replayed.pop(path, None)

    def write(
        self,
        step: StepRow | None = None,
        values: Mapping[str, object] = {},
        *,
        has_ended: bool = True,
        without_parts: str = "",
    ) -> Future[bool]:
        """Start to store the events recorded since the last call, in one transaction with a step, or values of the run.

        Events that cannot be stored are tried again next time.

        Args:
            step: Record of an operator.
            values: New values of columns of the run.
            has_ended: False if the run is only interrupted, so that what it stops is not the end of it.
            without_parts: See `Progress`.
        """
        happened = tuple(self._pending.popleft() for _ in range(len(self._pending)))
        if not has_ended:
            happened = tuple(event for event in happened if not isinstance(event, _STOPS))
        self._part += bool(happened)
        written = self._writer.put_soon(
            Progress(self.run_id, happened, self._part, step, values, without_parts=without_parts)
        )
        written.add_done_callback(partial(self._stored, happened))
        return written

    def _stored(self, happened: Sequence[Event], written: Future[bool]) -> None:
        if written.cancelled() or written.exception() is not None:
            self._pending.extendleft(reversed(happened))

    @contextmanager
    def recorded(self, key: str) -> Generator[Callable[[str], Awaitable[None]], None, None]:
        """Record within a context that an operator is running, until its outcome is stored.

        Args:
            key: Key of the operator's work in the run.

        Returns:
            Function that stores the outcome, to be called in the context. It raises `InputError` if another process
            drives the run.
        """
        row = StepRow(self.run_id, key, began=self._writer.now())
        noting = asyncio.get_running_loop().call_later(_SHORT, self.write, row)
        is_kept = False

        async def keep(outcome: str) -> None:
            nonlocal is_kept
            is_kept = True
            noting.cancel()
            ended = max(row.began, self._writer.now())
            done = replace(row, outcome=outcome, ended=ended, status=DONE)
            if not await committed(self.write(done, without_parts=key if key in self._with_parts else "")):
                raise taken_over(self.run_id)
            self._with_parts.discard(key)

        try:
            yield keep
        finally:
            noting.cancel()
            if not is_kept:  # the operator was stopped, perhaps before it was recorded as running
                self._writer.put_soon(Progress(self.run_id, step=row))

    async def keep_part(self, part: PartRow) -> None:
        """Store a part of an operator's work until its outcome is stored.

        Raises:
            InputError: It cannot be stored, or another process drives the run.
        """
        self._with_parts.add(part.key)
        if not await committed(self._writer.put_soon(Progress(self.run_id, part=part))):
            raise taken_over(self.run_id)

    def has_parts(self, key: str) -> None:
        """Note that parts of an operator's work are stored."""
        self._with_parts.add(key)


def _identity(event: Event, kind: type[Event] | None = None) -> Any:
    """Return what an event, or one of another kind in its place, and its repetition have in common."""
    question = event.interrupt_id if isinstance(event, _QUESTIONS) else None
    return kind or type(event), event.path, event.round, event.attempt, question


def read_events(run_id: str, parts: Sequence[EventPart]) -> list[Event]:
    """Return the events that were stored in parts, in order.

    Events of unknown types, of another version or defined by a user, and parts that cannot be read are left out.
    """
    found, unknown = list[Event](), 0
    for part in parts:
        try:
            read = Codec().load_events(_decompressed(part.events))
        except (InputError, zlib.error, UnicodeDecodeError) as error:
            _logger.warning(
                "%s: a part of the recorded events is left out, because it cannot be read: %s", run_id, error
            )
            continue
        known = [event for event in read if event is not None]
        unknown += len(read) - len(known)
        found += known
    if unknown:
        _logger.warning("%s: recorded events of unknown types are skipped: %d", run_id, unknown)
    return sorted(found, key=lambda event: event.seq)


def _decompressed(part: bytes) -> str:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(part, MAX_TEXT).decode()
    if not unpacking.eof:
        raise InputError("the recorded events are too long")
    return text


@dataclass
class _Span:
    """Execution of an operator in a round, from its start to its end, as its events tell it.

    Attributes:
        key: Key of its work.
        events: Indices of its events and of those of operators inside it.
        end: Index of the event of its end; None if it is running.
        is_final: True if the operator finished, or a verdict on its round followed, so that it does not start anew.
        asks: True if it, or an operator inside it, has asked a question.
    """

    path: _Path
    key: str
    events: list[int] = field(default_factory=list[int])
    end: int | None = None
    is_final: bool = False
    asks: bool = False


def settled(
    happened: Sequence[Event], kept: Mapping[str, StepRow], questions: Sequence[StoredQuestion] = ()
) -> list[Event]:
    """Return the events of an interrupted run that hold when it continues.

    Events of work whose outcome is not kept are dropped: the operators start anew. Operators that contain kept work, or
    that have asked, continue where they were. The end of a run that failed is dropped, and what it stopped.

    Args:
        happened: The recorded events.
        kept: Records of the operators that have an outcome, by key.
        questions: Questions of the run; answers that no driver has seen are added.
    """
    dropped = {index for index, event in enumerate(happened) if isinstance(event, events.RunFailed)}
    for span in _spans(happened):
        if span.key not in kept and not span.is_final:
            dropped.update(_undone(span, happened, kept))
        elif span.end is not None and isinstance(happened[span.end], events.OperatorCancelled) and span.key in kept:
            dropped.add(span.end)  # its outcome had just been stored
    held = [event for index, event in enumerate(happened) if index not in dropped]
    return [changed(event, seq=seq) for seq, event in enumerate([*held, *_answers(held, questions)], 1)]


def _spans(happened: Sequence[Event]) -> list[_Span]:
    """Return the executions of operators, in the order of their starts."""
    spans, running = list[_Span](), dict[_Path, _Span]()
    ended = defaultdict[_Path, list[_Span]](list)
    places: dict[_Path, tuple[int, int]] = {}
    for index, event in enumerate(happened):
        path = event.path
        if isinstance(event, events.OperatorStarted):
            places[path] = event.round, 1
            span = running[path] = _Span(
                path, key_at(path, [_lookup(places, path[:n]) for n in range(1, len(path) + 1)])
            )
            spans.append(span)
        elif isinstance(event, events.OperatorRetried):
            places[path] = event.round, event.attempt + 1
        elif isinstance(event, events.RoundFinished):
            for span in ended.pop(path, ()):
                span.is_final = True
        for depth in range(1, len(path) + 1):
            if (around := _lookup(running, path[:depth])) is not None:
                around.events.append(index)
                around.asks |= isinstance(event, _QUESTIONS)
        if isinstance(event, _ENDS) and (span := running.pop(path, None)) is not None:
            span.end, span.is_final = index, isinstance(event, events.OperatorFinished)
            ended[path[:-1]].append(span)
    return spans


def _lookup(by_path: Mapping[_Path, Any], path: _Path) -> Any:
    """Return the value of an operator; for the item of a map, that of the map."""
    return by_path.get(path) or by_path.get((*path[:-1], without_index(path[-1])))


def _undone(span: _Span, happened: Sequence[Event], kept: Mapping[str, StepRow]) -> Iterator[int]:
    """Yield the indices of the events of an operator that starts anew, or continues inside."""
    around, _, step = span.key.rpartition("/")
    name, at, number = step.partition("@")
    start, end = re.escape(f"{around}/{name}".removeprefix("/")), re.escape(at + number)
    is_inside = re.compile(rf"{start}(\[\d+\])?{end}(~\d+)?/")  # also in an item of a map, and in another attempt
    inside = [key for key in kept if is_inside.match(key)]
    if not (inside or span.asks):
        yield from span.events
        return
    if span.end is not None:
        yield span.end
    own = [index for index in span.events if happened[index].path == span.path and index != span.end]
    work = [index for index in own if not isinstance(happened[index], _LEVELS)]
    parts = [key for key in inside if "//" in key and bare(key.partition("//")[0])[0] == list(span.path)]
    yield from work[sum(len(_outcome(kept[key]).events) for key in parts) :]


def _outcome(row: StepRow) -> Outcome:
    """Return a stored outcome; one that cannot be read is returned as an error."""
    try:
        return Codec().load(row.outcome or "", Outcome)
    except InputError as error:
        return Outcome(error=error)


def _answers(happened: Sequence[Event], questions: Sequence[StoredQuestion]) -> Iterator[Event]:
    """Yield an event for each answer to an open question."""
    unanswered: dict[tuple[_Path, str], events.Interrupted] = {}
    for event in happened:
        if isinstance(event, events.Interrupted):
            unanswered[event.path, event.interrupt_id] = event
        elif isinstance(event, events.Resumed):
            unanswered.pop((event.path, event.interrupt_id), None)
    for question in questions:
        path = tuple(bare(question.step.partition("//")[0])[0])
        asked = unanswered.get((path, question.id)) if question.answer is not None else None
        if asked is not None:
            stamps = {name: getattr(asked, name) for name in ("run_id", "path", "operator_id", "round", "attempt")}
            time = max(question.answered, happened[-1].time)
            seconds = time - asked.time
            yield events.Resumed(interrupt_id=question.id, seconds=seconds, by=question.by, time=time, **stamps)
