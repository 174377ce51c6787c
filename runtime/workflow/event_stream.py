"""EventStream: the events of a run, for callers with an event loop and for those without."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial
from types import TracebackType
from typing import Any

from operad.runtime.events import Event
from operad.runtime.values.errors import RunningLoopError
from operad.runtime.values.sync import run_sync, running_loop


class EventStream(AsyncGenerator[Event, None]):
    """The events of a run that `Workflow.stream` starts, iterated by ``async for``, or by ``for`` without an event loop.

    Closing it, or leaving the loop over it, cancels the run.

    Args:
        events: The events.
    """

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        return await self._events.asend(value)

    async def athrow(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None, /) -> Event:
        """Raise an error where the stream waits; `aclose` does."""
        return await self._events.athrow(typ, val, tb)

    async def aclose(self) -> None:
        """Close the stream, which cancels the run; one that has ended is closed already."""
        await self._events.aclose()

    def __iter__(self) -> Iterator[Event]:
        """Iterate without an event loop.

        Raises:
            RunningLoopError: An event loop is running here: use ``async for``.
        """
        if running_loop() is not None:
            raise RunningLoopError("an event loop is running here: write `async for event in workflow.stream(…)`")
        next_event = partial(anext, self._events, None)
        try:
            while (event := run_sync(next_event, "anext(…)")) is not None:
                yield event
        finally:
            run_sync(self._events.aclose, "aclose()")
