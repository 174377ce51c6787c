"""Recorded events of a run, kept beside its operators' outcomes."""

from __future__ import annotations

import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from operad.runtime.durable.codec import MAX_TEXT, Codec
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, KeptRun
from operad.runtime.durable.store import Store
from operad.runtime.events import Event, ModelAsked, RunFailed, RunFinished, RunLog, TokenStreamed
from operad.runtime.values.errors import InputError

_OWN = frozenset((*Event.__struct_fields__, "seconds"))
"""Fields that a derived event keeps when its other fields are taken from the recorded event."""


class Recording:
    """Recorder of a run's events while this process drives it; streamed text and model conversations are left out.

    Args:
        log: Event log of the run.
        run_id: The run.
        drive: Number of times the run was begun or resumed.
    """

    def __init__(self, log: RunLog, run_id: str, drive: int) -> None:
        self._run_id = run_id
        self._drive = drive
        self._heard = deque[Event]()
        self._writing = threading.Lock()
        log.listen(self._hear)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, TokenStreamed | ModelAsked):
            self._heard.append(event)

    def write(self, store: Store) -> None:
        """Store the events recorded since the last call; may block.

        Raises:
            InputError: They cannot be stored; the next call tries again.
        """
        with self._writing:
            count = len(self._heard)
            if not count:
                return
            events = [self._heard[place] for place in range(count)]
            store.keep_events(self._run_id, self._drive, zlib.compress(Codec().dump_events(events).encode()))
            for _ in range(count):
                self._heard.popleft()


def recorded(parts: Sequence[tuple[int, bytes]]) -> dict[int, list[Event]]:
    """Return the events recorded in each drive of a run; unreadable parts are left out."""
    heard: dict[int, list[Event]] = defaultdict(list)
    try:
        for drive, part in parts:
            heard[drive] += Codec().load_events(_unpacked(part))
    except (InputError, zlib.error, UnicodeDecodeError):
        return {}
    return heard


def _unpacked(part: bytes) -> str:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(part, MAX_TEXT).decode()
    if not unpacking.eof:
        raise InputError("the recorded events are too long")
    return text


def is_whole(kept: KeptRun, heard: Mapping[int, Sequence[Event]]) -> bool:
    """Return True if all events of a run were recorded: it has ended, and was never interrupted."""
    return (
        kept.drives == 1
        and kept.state in (FINISHED, FAILED, CANCELLED)
        and [*heard] == [1]
        and isinstance(heard[1][-1], RunFinished | RunFailed)
    )


def filled(told: Sequence[Event], heard: Mapping[int, Sequence[Event]]) -> list[Event]:
    """Return derived events, completed with the fields of the recorded events except for their times."""
    known: dict[Any, list[Event]] = {}
    for drive in sorted(heard):
        said: dict[Any, list[Event]] = defaultdict(list)
        for event in heard[drive]:
            said[_place(event)].append(event)
        known |= said
    left = {place: iter(events) for place, events in known.items()}
    return [_with(event, next(left.get(_place(event), iter(())), None)) for event in told]


def _place(event: Event) -> Any:
    return type(event), event.path, event.round, event.attempt


def _with(event: Event, heard: Event | None) -> Event:
    if heard is None or isinstance(event, RunFailed):
        return event
    return replace(event, **{name: getattr(heard, name) for name in event.__struct_fields__ if name not in _OWN})
