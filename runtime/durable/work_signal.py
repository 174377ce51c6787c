"""Signal that wakes a thread which takes work from a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL = 0.05
"""Seconds between two polls of a queue while wake-ups cannot be received."""

SAFETY_POLL = 2.0
"""Seconds between two polls of a queue while wake-ups arrive, in case one was lost."""

_LEFT = 0.005
"""Seconds after which a place that an operator leaves is certainly free."""


class WorkSignal(threading.Event):
    """Stop event of a thread that polls a queue between waits. `wake` ends a wait without stopping the thread.

    The thread takes no more work than there are places, so it polls again when an operator leaves a place and there may
    be more work than it took.

    Args:
        listening: Function that returns True while wake-ups arrive.
        places: Maximum number of operators at once; 0 if unknown, to poll whenever an operator leaves its place.
    """

    def __init__(self, listening: Callable[[], bool], places: int = 0) -> None:
        super().__init__()
        self._listening = listening
        self._places = places
        self._woken = threading.Event()
        self._again = False
        self._counting = threading.Lock()
        self._executing = 0
        self._taken = 0
        """Operators in execution when the last poll began, and those begun since: it took all it could at `places`."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is set, somebody wakes it, or the next poll is due; return True if it is set.

        Args:
            timeout: Ignored; the interval depends on the wake-ups.
        """
        again, self._again = self._again, False
        self._woken.wait(_LEFT if again else SAFETY_POLL if self._listening() else POLL)
        self._woken.clear()  # before the poll, so that a wake-up during the poll leads to another one
        with self._counting:
            self._taken = self._executing
        return self.is_set()

    def set(self) -> None:
        """Stop the thread."""
        super().set()
        self._woken.set()

    def wake(self) -> None:
        """Poll now."""
        self._woken.set()

    def begin(self) -> None:
        """Count an operator that begins."""
        with self._counting:
            self._executing += 1
            self._taken += 1
            if self._taken < self._places or self._executing >= self._places:
                return
        self.wake()  # others that the poll took have left already

    def leave(self) -> None:
        """Count an operator whose thread leaves its place next."""
        with self._counting:
            self._executing -= 1
            if self._taken < self._places:
                return
        self._again = True  # in case that the place is not free yet
        self.wake()
