"""Rate limits per minute shared by all processes of a database."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from operad.runtime.durable.counted_calls import CountedCalls
from operad.runtime.durable.threads import in_thread
from operad.runtime.policies.limits import WINDOW, Limiter, Limits
from operad.runtime.values.forks import ProcessLock

_SHORTEST_WAIT = 0.01


@dataclass(frozen=True, slots=True)
class LimitsInDatabase:
    """Limits of requests and tokens per minute, shared by all processes of a database; see `SharedLimits`.

    An endpoint is identified by its address, model and key; a workflow by its name within the group of processes with
    the same agents. Each process limits the number of concurrent calls by itself; limits of only this number do not use
    the database.

    One call of each process at a time waits in the database; processes take turns. After the death of a process, the
    calls that it recorded count until they are a minute old. A call that is cancelled while it is admitted counts, too.

    Attributes:
        calls: Table of counted model calls.
        group: Name of the group of processes with the same agents.
        window: Length of the counting window, in seconds.
    """

    calls: CountedCalls
    group: str
    caller: str
    window: float = WINDOW

    async def admit(self, limiter: Limiter) -> None:
        """See `SharedLimits.admit`.

        Raises:
            InputError: The database cannot be used, or is unreachable for longer than calls are retried.
        """
        if not limiter.limits.a_minute:
            return
        key = self._key(limiter)
        async with _turns_of(limiter).admitted():
            while True:
                seconds = await in_thread(self.calls.admit, key, limiter.limits, self.caller, self.window)
                if not seconds:
                    return
                await asyncio.sleep(max(seconds, _SHORTEST_WAIT))

    async def spent(self, limiter: Limiter, tokens: int) -> None:
        """See `SharedLimits.spent`.

        Raises:
            InputError: As for `admit`.
        """
        if tokens > 0 and limiter.limits.tokens_per_minute is not None:
            await in_thread(self.calls.spend, self._key(limiter), tokens, self.window)

    async def hold_off(self, limiter: Limiter, seconds: float) -> None:
        """See `SharedLimits.hold_off`.

        Raises:
            InputError: As for `admit`.
        """
        if seconds > 0 and limiter.limits.a_minute:
            await in_thread(self.calls.hold_off, self._key(limiter), seconds)

    def _key(self, limiter: Limiter) -> str:
        """Return the name of the limits in the database, without passwords and keys."""
        limits = limiter.limits
        whose = limiter.name if limiter.everywhere else name_in(self.group, limiter)
        counted = f"{whose} {limits.requests_per_minute} {limits.tokens_per_minute}"
        return hashlib.sha256(counted.encode()).hexdigest()


def name_in(group: str, limiter: Limiter) -> str:
    """Return the name of a workflow's limits, distinct for each group of processes with the same agents."""
    return f"{group} {limiter.name}"


_turns: WeakKeyDictionary[Limiter, Limiter] = WeakKeyDictionary()
_making = ProcessLock()


def _turns_of(limiter: Limiter) -> Limiter:
    """Return the lock with which calls of a limiter ask the database one at a time."""
    with _making:
        return _turns.setdefault(limiter, Limiter(Limits(concurrency=1)))
