"""Bounded log of a run's events, for followers from the beginning or from an event number."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from operad.runtime.events import Event
from operad.runtime.values.valid_json import to_json


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of the log.

    Attributes:
        number: Number of the event in its run, from 1.
        name: Type of the event.
        event: The event for clients; None for an entry of the log itself.
        data: That event as JSON.
        original: The event as it happened, for the run page.
    """

    number: int
    name: str
    event: Event | None
    data: bytes
    original: Event | None = None


class EventLog:
    """The last events of a run.

    Args:
        most: Maximum number of events.
        most_bytes: Maximum size as JSON, in bytes; the last event is kept whatever its size.

    Attributes:
        last: Number of the last event; 0 before the first.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._dropped = 0
        self._closed = False
        self._changed = asyncio.Event()
        self.last = 0

    @property
    def size(self) -> int:
        """Size of the stored events as JSON, in bytes."""
        return self._bytes

    @property
    def entries(self) -> Sequence[Entry]:
        """The events that are kept."""
        return tuple(self._entries)

    def add(self, event: Event, original: Event | None = None) -> None:
        """Add an event, and drop the oldest if the log is full.

        Args:
            original: The event as it happened, if it is redacted for clients.
        """
        data = to_json(event.as_dict()).encode()
        entry = Entry(event.seq, type(event).__name__, event, data, original or event)
        self._entries.append(entry)
        self._bytes += len(entry.data)
        while len(self._entries) > self._most or (self._bytes > self._most_bytes and len(self._entries) > 1):
            dropped = self._entries.popleft()
            self._bytes -= len(dropped.data)
            self._dropped = dropped.number
        self.last = entry.number
        self.notify()

    def events(self) -> Sequence[Event]:
        """Return the stored events."""
        return [entry.event for entry in self._entries if entry.event is not None]

    def close(self) -> None:
        """Close the log: no event will follow."""
        self._closed = True
        self.notify()

    def after(self, number: int) -> Sequence[Entry]:
        """Return the events after a number, after an entry ``EventsMissed`` if some of them were dropped."""
        missed = [_missed(number + 1, self._dropped)] if number < self._dropped else []
        new = list(takewhile(lambda entry: entry.number > number, reversed(self._entries)))
        return [*missed, *reversed(new)]

    async def follow(self, after: int = 0) -> AsyncGenerator[Entry, None]:
        """Yield the events after a number, as they are added, until the log is closed.

        A follower that asks for dropped events, or is too slow, gets an entry
        ``EventsMissed`` with the numbers of the first and the last dropped event.
        """
        while True:
            news, closed = self._changed, self._closed
            for entry in self.after(after):
                yield entry
                after = entry.number
            if closed:
                return
            await news.wait()

    def notify(self) -> None:
        """Wake the followers up; they get new events, if there are any."""
        news, self._changed = self._changed, asyncio.Event()
        news.set()


def _missed(first: int, last: int) -> Entry:
    data: Mapping[str, Any] = {"event": "EventsMissed", "first": first, "last": last}
    return Entry(last, "EventsMissed", None, to_json(data).encode())
