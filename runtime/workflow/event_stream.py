"""Streams of a run, for callers with an event loop and for those without."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from operad.runtime.events import Event
from operad.runtime.values.errors import RunningLoopError
from operad.runtime.values.sync import run_sync, running_loop

Item = TypeVar("Item")


class RunStream(AsyncGenerator[Item, None]):
    """Items that a run yields, iterated by ``async for``, or by ``for`` without an event loop.

    Closing it, or leaving the loop over it, stops the run; a durable run can be resumed.

    Args:
        items: The items.
    """

    def __init__(self, items: AsyncGenerator[Item, None]) -> None:
        self._items = items

    async def asend(self, value: None) -> Item:
        """Return the next item."""
        return await self._items.asend(value)

    async def athrow(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None, /) -> Item:
        """Raise an error where the stream waits; `aclose` does."""
        return await self._items.athrow(typ, val, tb)

    async def aclose(self) -> None:
        """Close the stream, which stops the run; one that has ended is closed already."""
        await self._items.aclose()

    def __iter__(self) -> Iterator[Item]:
        """Iterate without an event loop.

        Raises:
            RunningLoopError: An event loop is running here: use ``async for``.
        """
        if running_loop() is not None:
            raise RunningLoopError("an event loop is running here: write `async for` instead of `for`")
        next_item = partial(anext, self._items, None)
        try:
            while (item := run_sync(next_item, "anext(…)")) is not None:
                yield item
        finally:
            run_sync(self._items.aclose, "aclose()")


class EventStream(RunStream[Event]):
    """The events of a run that `Workflow.stream` starts."""


class TextStream(RunStream[str]):
    """The text of an answer, piece by piece, of a run that `Workflow.stream_text` starts."""
