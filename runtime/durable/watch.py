"""Detection of dead processes by this process's own observations, independent of other clocks."""

from __future__ import annotations

import time
from collections.abc import Callable

from operad.runtime.durable.places import is_dead
from operad.runtime.durable.rows import Executor


class Watch:
    """Observes heartbeats over time.

    A process is dead if it ran on this machine and has ended, or if this process has observed it without a new heartbeat
    for as many seconds as it may be silent. A longer pause between two observations restarts this period: this
    process may have been stopped, and others with it.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, float, float]] = {}

    def is_dead(self, executor: Executor) -> bool:
        """Return True if a process is dead; `executor` must have been read just now."""
        if is_dead(executor.process):
            return True
        now = self._clock()
        beat, since, looked = self._seen.get(executor.id, (None, now, now))
        if beat != executor.beat or now - looked > executor.limit:
            since = now
        self._seen[executor.id] = (executor.beat, since, now)
        return now - since > executor.limit
