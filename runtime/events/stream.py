"""Buffer between a run and the consumer of its events, which a slow consumer cannot grow without limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from msgspec.structs import replace

from operad.runtime.events.types import Event, Progress, ThinkingStreamed, TokenStreamed

CROWDED = 1_000
"""Number of buffered events above which a run starts no further operator."""


_Streamed = TokenStreamed | ThinkingStreamed


@dataclass(slots=True)
class _Entry:
    """An event, with later events merged into it."""

    event: Event
    more: list[str] = field(default_factory=list[str])

    def join(self, event: Event) -> bool:
        """Merge a later event of the same path into this one; return False if that is impossible."""
        first = self.event
        if (first.round, first.attempt) != (event.round, event.attempt):
            return False
        if isinstance(event, _Streamed) and type(event) is type(first):
            self.more.append(event.text)
            return True
        if isinstance(first, Progress) and isinstance(event, Progress):
            self.event = replace(first, done=event.done, total=event.total)
            return True
        return False

    def joined(self) -> Event:
        """Return the event with the text of all events merged into it."""
        if self.more and isinstance(self.event, _Streamed):
            return replace(self.event, text="".join([self.event.text, *self.more]))
        return self.event


class Buffer:
    """Buffer of events between a run and a consumer.

    While the buffer is crowded, operators that are about to start wait for room. Operators in progress continue: their
    tokens are merged with the tokens before them, and a `Progress` replaces the one before it, so that the buffer does
    not outgrow the messages that the run keeps anyway.

    Args:
        wanted: Predicate that selects the events for the consumer.
        slows: True if operators wait for room; if False, the oldest events are dropped.

    Attributes:
        slows: True if operators wait for room; call `look` after a change.
    """

    def __init__(self, wanted: Callable[[Event], bool] = lambda _: True, *, slows: bool = True) -> None:
        self._wanted = wanted
        self.slows = slows
        self._loop = asyncio.get_running_loop()
        self._lock = RLock()
        self._entries: dict[int, _Entry] = {}
        self._last: dict[tuple[str, ...], int] = {}
        self._number = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event; callable from any thread."""
        if not self._wanted(event):
            return
        with self._lock:
            last = self._entries.get(self._last.get(event.path, -1))
            if self.crowded and last is not None and last.join(event):
                return
            self._entries[self._number] = _Entry(event)
            self._last[event.path] = self._number
            self._number += 1
            if self.crowded and not self.slows:
                self._take()
        if not self._arrived.is_set():
            self._loop.call_soon_threadsafe(self._arrived.set)

    def close(self) -> None:
        """Close the buffer: no event will follow."""
        self._closed = True
        self._arrived.set()

    def reopen(self) -> None:
        """Undo `close`: further events will follow."""
        self._closed = False

    @property
    def crowded(self) -> bool:
        """True if operators that are about to start should wait."""
        return len(self._entries) >= CROWDED

    async def room(self) -> None:
        """Wait until the buffer is no longer crowded, or does not slow the run any more."""
        while self.crowded and self.slows:
            self._room.clear()
            await self._room.wait()

    def look(self) -> None:
        """Wake the callers of `room` if they need not wait any more."""
        if not (self.crowded and self.slows):
            self._room.set()

    async def get(self) -> Event | None:
        """Return the next event; None if the buffer is closed and empty."""
        while not self._entries:
            if self._closed:
                return None
            self._arrived.clear()
            if not self._entries:  # a thread may have added an event meanwhile
                await self._arrived.wait()
        with self._lock:
            entry = self._take()
        self.look()
        return entry.joined()

    def _take(self) -> _Entry:
        """Take out the oldest event."""
        number = next(iter(self._entries))
        entry = self._entries.pop(number)
        if self._last.get(entry.event.path) == number:
            del self._last[entry.event.path]
        return entry
