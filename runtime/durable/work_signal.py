"""Signal that wakes a thread which takes work from a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL = 0.05
"""Seconds between two polls of a queue while wake-ups cannot be received."""

SAFETY_POLL = 2.0
"""Seconds between two polls of a queue while wake-ups arrive, in case one was lost."""

_FREE_AFTER = 0.005
"""Seconds after which dbos has certainly freed the place of an operator that has ended."""


class WorkSignal(threading.Event):
    """Stop event of a thread that polls a queue between waits; `wake` ends a wait without stopping the thread.

    The thread takes at most as much work as there are free places. So it polls again when an operator frees a place and
    the queue may have more work.

    Args:
        listening: Function that returns True while wake-ups arrive.
        places: Maximum number of operators at once; 0 if unknown, to poll whenever an operator ends.
    """

    def __init__(self, listening: Callable[[], bool], places: int = 0) -> None:
        super().__init__()
        self._listening = listening
        self._places = places
        self._woken = threading.Event()
        self._poll_again = False
        self._counting = threading.Lock()
        self._executing = 0
        self._taken = 0
        """Number of operators that ran when the last poll started or began since; at `places`, the poll was limited."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is set, `wake` is called, or the next poll is due; return True if the signal is set.

        Args:
            timeout: Ignored; the interval depends on the wake-ups.
        """
        again, self._poll_again = self._poll_again, False
        self._woken.wait(_FREE_AFTER if again else SAFETY_POLL if self._listening() else POLL)
        self._woken.clear()  # before the poll, so that a wake-up during the poll causes another poll
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
        """Count an operator that starts."""
        with self._counting:
            self._executing += 1
            self._taken += 1
            if self._taken < self._places or self._executing >= self._places:
                return
        self.wake()  # the poll was limited, but operators that it took have already ended

    def leave(self) -> None:
        """Count an operator that has ended, and whose place dbos frees next."""
        with self._counting:
            self._executing -= 1
            if self._taken < self._places:
                return
        self._poll_again = True  # if the place is not free yet, the poll after the next one finds it free
        self.wake()
