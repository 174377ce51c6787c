"""Detection of dead processes by this process's own observations, independent of other clocks."""

from __future__ import annotations

import time
from collections.abc import Callable

from operad.runtime.durable.process_ids import is_dead
from operad.runtime.durable.rows import Executor


class Watch:
    """Observer of heartbeats over time.

    A process is dead if it ran on this machine and has ended, or if this process has observed no new heartbeat of it
    for as many seconds as it may be silent. If this process itself pauses for longer between two observations, the
    period starts again, because both processes may have been stopped.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, float, float]] = {}

    def is_dead(self, executor: Executor) -> bool:
        """Return True if a process is dead; call it with a row that has just been read."""
        if is_dead(executor.process):
            return True
        now = self._clock()
        beat, since, looked = self._seen.get(executor.id, (None, now, now))
        if beat != executor.beat or now - looked > executor.limit:
            since = now
        self._seen[executor.id] = (executor.beat, since, now)
        return now - since > executor.limit
