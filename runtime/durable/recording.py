"""Recorded events of a run, kept beside its operators' outcomes."""

from __future__ import annotations

import logging
import zlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from msgspec.structs import replace

from operad.runtime.durable.codec import MAX_TEXT, Codec
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, EventPart, StoredRun
from operad.runtime.durable.run_changes import NewEvents
from operad.runtime.durable.run_writer import RunWriter
from operad.runtime.events import Event, ModelAsked, RunFailed, RunFinished, RunLog, ThinkingStreamed, TokenStreamed
from operad.runtime.values.errors import InputError

_logger = logging.getLogger(__name__)

_DERIVED_FIELDS = frozenset((*Event.__struct_fields__, "seconds"))
"""Fields that a derived event does not take from the recorded event."""


class Recording:
    """Recorder of a run's events while this process drives the run, without streamed text and model conversations.

    Args:
        log: Event log of the run.
        run_id: The run.
        drive: Number of times that the run was started or resumed.
        part: Number of the last part of the stored events; 0 if there is none.
    """

    def __init__(self, log: RunLog, run_id: str, drive: int, part: int) -> None:
        self._run_id = run_id
        self._drive = drive
        self._part = part
        self._pending = deque[Event]()
        log.listen(self._take)

    def _take(self, event: Event) -> None:
        if not isinstance(event, TokenStreamed | ThinkingStreamed | ModelAsked):
            self._pending.append(event)

    def write(self, writer: RunWriter) -> None:
        """Start to store the events recorded since the last call; those that cannot be stored are tried again next time."""
        events = tuple(self._pending.popleft() for _ in range(len(self._pending)))
        if events:
            self._part += 1
            writer.add_events(NewEvents(self._run_id, self._part, self._drive, events)).add_done_callback(
                partial(self._stored, events)
            )

    def _stored(self, events: Sequence[Event], written: Future[bool]) -> None:
        if written.exception() is not None:
            self._pending.extendleft(reversed(events))


def events_by_drive(run_id: str, parts: Sequence[EventPart]) -> dict[int, list[Event]]:
    """Return the recorded events of a run by the number of the drive; empty if a part cannot be read.

    Events of unknown types are skipped: events of another version, or defined by a user.

    Args:
        run_id: The run.
        parts: The events, as stored by `Recording.write`.
    """
    recorded: dict[int, list[Event]] = defaultdict(list)
    unknown = 0
    try:
        for part in parts:
            for event in Codec().load_events(_decompressed(part.events)):
                if event is None:
                    unknown += 1
                else:
                    recorded[part.drive].append(event)
    except (InputError, zlib.error, UnicodeDecodeError) as error:
        _logger.warning("%s: the recorded events are not used, because a part cannot be read: %s", run_id, error)
        return {}
    if unknown:
        _logger.warning("%s: recorded events of unknown types are skipped: %d", run_id, unknown)
    return recorded


def _decompressed(part: bytes) -> str:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(part, MAX_TEXT).decode()
    if not unpacking.eof:
        raise InputError("the recorded events are too long")
    return text


def is_whole(kept: StoredRun, recorded: Mapping[int, Sequence[Event]]) -> bool:
    """Return True if all events of a run were recorded: it has ended, and was never interrupted."""
    return (
        kept.drives == 1
        and kept.state in (FINISHED, FAILED, CANCELLED)
        and [*recorded] == [1]
        and isinstance(recorded[1][-1], RunFinished | RunFailed)
    )


def with_recorded_details(derived: Sequence[Event], recorded: Mapping[int, Sequence[Event]]) -> list[Event]:
    """Return derived events with the details of the recorded events, but with their own times.

    Args:
        derived: The derived events.
        recorded: The recorded events, by drive; those of a later drive replace those of an earlier one.
    """
    by_key: dict[Any, list[Event]] = {}
    for drive in sorted(recorded):
        of_drive: dict[Any, list[Event]] = defaultdict(list)
        for event in recorded[drive]:
            of_drive[_span_key(event)].append(event)
        by_key |= of_drive
    remaining = {key: iter(events) for key, events in by_key.items()}
    return [_with_details(event, next(remaining.get(_span_key(event), iter(())), None)) for event in derived]


def _span_key(event: Event) -> Any:
    """Return a key by which a derived event and a recorded event match."""
    return type(event), event.path, event.round, event.attempt


def _with_details(event: Event, recorded: Event | None) -> Event:
    if recorded is None or isinstance(event, RunFailed):
        return event
    return replace(
        event, **{name: getattr(recorded, name) for name in event.__struct_fields__ if name not in _DERIVED_FIELDS}
    )
