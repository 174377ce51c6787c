"""Event log of a run: it numbers and dates events, and passes them to listeners.

Events of work done earlier, or in another process, are repeated: listeners may have received them, so those that count
or export events as they happen skip them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import RLock

from msgspec.structs import replace

from operad.runtime.events.stream import Buffer
from operad.runtime.events.types import Event, Listener
from operad.runtime.values.errors import InvalidError, Issue

_logger = logging.getLogger(__name__)


class RunLog:
    """Event log of a run: numbers and dates its events, and passes them to its listeners.

    Args:
        listeners: Functions to call with every event.
        buffer: A further listener, which delays the start of operators while it has no room.
        outer: Log of the enclosing run, if any, which gets every event, too.
        depth: Number of path steps that lead to this run in the outermost run.

    Attributes:
        heard: True if there are listeners.
        buffered: True if one of the listeners may lag behind.
        now: Clock of the run, that of the event loop, in seconds.
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
        """Add a listener for all events from now on."""
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
        """Number and date an event and pass it to every listener. A listener's error is logged, and the run goes on.

        Args:
            path: Path of the operator, from the outermost run.
            only_here: True to hide the event from the enclosing run.
        """
        if self._listeners:
            with self._lock:  # tools in threads write events, too
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
                    except (Exception, asyncio.CancelledError) as error:  # a listener must not stop the run it observes
                        _logger.warning("a listener failed on %s", type(event).__name__, exc_info=error)
        if self._outer is not None and not only_here:
            self._outer.write(event, path, operator_id, round, attempt)

    async def room(self) -> None:
        """Wait until every consumer has caught up."""
        if self._buffer:
            await self._buffer.room()
        if self._outer:
            await self._outer.room()


def check_listener(listener: Listener, name: str) -> None:
    """Check that a listener of a workflow can be called with an event.

    Raises:
        InvalidError: The listener is not callable with an event, or is a coroutine function.
    """
    problem = ""
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        problem = "is not a plain function of an event; listeners are called, and not awaited"
    else:
        with suppress(ValueError):  # of a function without a known signature, such as one in C
            try:
                inspect.signature(listener).bind(None)
            except TypeError as error:
                problem = f"cannot be called with an event: {error}"
    if problem:
        raise InvalidError(f"workflow {name!r}", [Issue("listener", problem, repr(listener))])


@dataclass(frozen=True, slots=True)
class Repeat:
    """Properties of repeated events.

    Attributes:
        traced: True if spans were written for the events when they happened.
    """

    traced: bool


traced: ContextVar[bool] = ContextVar("operad_traced", default=False)
"""True if spans are written for the events of this context."""

_repeat: ContextVar[Repeat | None] = ContextVar("operad_repeat", default=None)


@contextmanager
def repeating(repeat: Repeat) -> Generator[None, None, None]:
    """Mark the events written inside this context manager as repeated."""
    token = _repeat.set(repeat)
    try:
        yield
    finally:
        _repeat.reset(token)


def repeated() -> Repeat | None:
    """Return the properties of the current event if it is repeated; None if it is new."""
    return _repeat.get()
