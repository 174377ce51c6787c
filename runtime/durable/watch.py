"""Which processes are dead, as this process has seen itself: clocks of other processes play no part in it."""

from __future__ import annotations

import time
from collections.abc import Callable

from operad.runtime.durable.places import is_dead
from operad.runtime.durable.rows import Executor


class Watch:
    """Looks at signs of life again and again.

    A process is dead where it ran on this machine and has ended, or where this process has looked for as many seconds
    as that one may be silent and saw no new sign of life. A pause between two looks that is longer begins anew: this
    process may have stood still, and others with it.

    Args:
        clock: Seconds since some moment, by a clock that nobody sets.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, float, float]] = {}

    def is_dead(self, executor: Executor) -> bool:
        """Look at a process as it was read just now."""
        if is_dead(executor.process):
            return True
        now = self._clock()
        beat, since, looked = self._seen.get(executor.id, (None, now, now))
        if beat != executor.beat or now - looked > executor.limit:
            since = now
        self._seen[executor.id] = (executor.beat, since, now)
        return now - since > executor.limit
