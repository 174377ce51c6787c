"""The log of a run: it numbers and dates events, and hands them to who listens."""

from __future__ import annotations

import asyncio
import logging
import time
from threading import RLock
from typing import Protocol

from msgspec.structs import replace

from operad.runtime.events.types import Event, Listener

_logger = logging.getLogger(__name__)


class Buffer(Protocol):
    """A listener that lags behind."""

    @property
    def crowded(self) -> bool:
        """Whether operators that are to start had better wait."""
        ...

    async def room(self) -> None:
        """Wait until it is no longer crowded."""
        ...

    def put(self, event: Event) -> None:
        """Take in an event."""
        ...


class RunLog:
    """Numbers and dates one run's events and hands them to its listeners.

    Args:
        run_id: The run's identity.
        listeners: Who wants to know.
        buffer: One of them, who wants operators not to start while it is crowded.
        outer: The log of the run that this one is part of, if it is; it gets every event, too.
        depth: How many operators it is inside of there.

    Attributes:
        run_id: The run's identity.
        heard: Whether anybody listens.
        buffered: Whether one of those who listen may lag behind.
        now: The run's clock, the event loop's: seconds since some moment.
    """

    __slots__ = (
        "_buffer",
        "_depth",
        "_epoch",
        "_listeners",
        "_lock",
        "_outer",
        "_seq",
        "buffered",
        "heard",
        "now",
        "run_id",
    )

    def __init__(
        self,
        run_id: str,
        listeners: tuple[Listener, ...] = (),
        buffer: Buffer | None = None,
        outer: RunLog | None = None,
        depth: int = 0,
    ) -> None:
        self.run_id = run_id
        self._listeners = (*listeners, buffer.put) if buffer else listeners
        self._buffer = buffer
        self._outer = outer
        self._depth = depth
        self._seq = 0
        self._lock = RLock()  # a listener may emit
        self.heard = bool(self._listeners) or (outer is not None and outer.heard)
        self.buffered = buffer is not None or (outer is not None and outer.buffered)
        self.now = asyncio.get_running_loop().time
        self._epoch = time.time() - self.now()

    def listen(self, listener: Listener) -> None:
        """Have another listener hear all events from now on."""
        self._listeners = (*self._listeners, listener)
        self.heard = True

    def write(
        self,
        event: Event,
        path: tuple[str, ...] = (),
        operator_id: str = "",
        round: int = 0,
        attempt: int = 0,
        *,
        only_here: bool = False,
    ) -> None:
        """Complete `event` and hand it to every listener. One that raises is reported to the log and goes on.

        Args:
            event: What happened.
            path: Where, seen from the outermost run.
            operator_id: In which operator.
            round: In which round.
            attempt: In which attempt.
            only_here: Whether the run around this one shall not hear of it.
        """
        if self._listeners:
            with self._lock:  # tools that run in threads write, too
                self._seq = seq = self._seq + 1
                stamped = replace(
                    event,
                    run_id=self.run_id,
                    path=path[self._depth :] if self._depth else path,
                    operator_id=operator_id,
                    round=round,
                    attempt=attempt,
                    seq=seq,
                    time=self._epoch + self.now(),
                )
                for listener in self._listeners:
                    try:
                        listener(stamped)
                    except (Exception, asyncio.CancelledError) as error:  # who watches a run must not stop it
                        _logger.warning("a listener failed on %s", type(event).__name__, exc_info=error)
        if self._outer is not None and not only_here:
            self._outer.write(event, path, operator_id, round, attempt)

    @property
    def crowded(self) -> bool:
        """Whether a consumer cannot keep up."""
        return (self._buffer is not None and self._buffer.crowded) or (self._outer is not None and self._outer.crowded)

    async def room(self) -> None:
        """Wait until every consumer has caught up."""
        if self._buffer:
            await self._buffer.room()
        if self._outer:
            await self._outer.room()
