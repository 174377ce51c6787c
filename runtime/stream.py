"""Between a run and whoever consumes its events: a buffer that a slow consumer cannot make grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock

from msgspec.structs import replace

from operad.runtime.events import Event, Progress, TokenStreamed

CROWDED = 1_000
"""Events in a buffer from which on a run waits before it starts another operator."""


class Buffer:
    """Events on their way to a consumer.

    While it is crowded, operators that are to start wait for room. Those that run already go on;
    of what they emit, tokens are joined with the tokens before them and progress replaces progress,
    so that what is kept is bounded by what the run itself keeps.

    Args:
        wanted: Whether the consumer wants an event.
    """

    def __init__(self, wanted: Callable[[Event], bool] = lambda _: True) -> None:
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._events: dict[int, Event] = {}
        self._last: dict[tuple[type[Event], tuple[str, ...]], int] = {}
        self._number = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def put(self, event: Event) -> None:
        """Take in an event. Any thread may do so."""
        if not self._wanted(event):
            return
        with self._lock:
            if len(self._events) >= CROWDED and isinstance(event, TokenStreamed | Progress):
                key = (type(event), event.path)
                before = self._events.get(self._last.get(key, -1))
                if before is not None and before.attempt == event.attempt and before.round == event.round:
                    if isinstance(event, TokenStreamed) and isinstance(before, TokenStreamed):
                        event = replace(event, text=before.text + event.text)
                    self._events[self._last[key]] = event
                    return
                self._last[key] = self._number
            self._events[self._number] = event
            self._number += 1
        self._wake()

    def close(self) -> None:
        """No event will follow."""
        self._closed = True
        self._wake()

    @property
    def crowded(self) -> bool:
        """Whether operators that are to start had better wait."""
        return len(self._events) >= CROWDED

    async def room(self) -> None:
        """Wait until it is no longer crowded."""
        while self.crowded:
            self._room.clear()
            await self._room.wait()

    async def get(self) -> Event | None:
        """The next event; None when there is none any more."""
        while not self._events:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        with self._lock:
            number = next(iter(self._events))
            event = self._events.pop(number)
        if len(self._events) < CROWDED // 2:
            self._last.clear()
            self._room.set()
        return event

    def _wake(self) -> None:
        if not self._arrived.is_set():
            self._loop.call_soon_threadsafe(self._arrived.set)
