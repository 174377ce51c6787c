"""Limits a minute that the processes of a database keep together."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from operad.runtime.durable.drive import in_thread
from operad.runtime.durable.store import Store
from operad.runtime.policies.limits import WINDOW, Limiter, Limits

_SHORTEST_WAIT = 0.01


@dataclass(frozen=True, slots=True)
class LimitsInDatabase:
    """Keeps limits of requests and tokens a minute over all processes that speak to a database; see `SharedLimits`.

    An endpoint is the same to all of them by its address, model and key; a workflow by its name, among those who
    have the same agents. How many calls there may be at once each process keeps by itself, and for limits that are
    of that alone the database is not asked.

    One call of a process at a time waits in the database; processes take turns. A process that dies leaves nothing
    but what it had noted, which counts until it is a minute old. A call that is cancelled while it is let in counts
    as one.

    Attributes:
        store: The database.
        group: What those call themselves who have the same agents.
        caller: This process.
        window: Seconds over which is counted.
    """

    store: Store
    group: str
    caller: str
    window: float = WINDOW

    async def admit(self, limiter: Limiter) -> None:
        """See `SharedLimits.admit`.

        Raises:
            InputError: The database cannot be used, or is gone for longer than it is waited for.
        """
        if not limiter.limits.a_minute:
            return
        key = self._key(limiter)
        async with _turns_of(limiter).admitted():
            while True:
                seconds = await in_thread(self.store.admit, key, limiter.limits, self.caller, self.window)
                if not seconds:
                    return
                await asyncio.sleep(max(seconds, _SHORTEST_WAIT))

    async def spent(self, limiter: Limiter, tokens: int) -> None:
        """See `SharedLimits.spent`.

        Raises:
            InputError: As for `admit`.
        """
        if tokens > 0 and limiter.limits.tokens_per_minute is not None:
            await in_thread(self.store.spend, self._key(limiter), tokens, self.window)

    async def hold_off(self, limiter: Limiter, seconds: float) -> None:
        """See `SharedLimits.hold_off`.

        Raises:
            InputError: As for `admit`.
        """
        if seconds > 0 and limiter.limits.a_minute:
            await in_thread(self.store.hold_off, self._key(limiter), seconds)

    def _key(self, limiter: Limiter) -> str:
        """What the limits are called in the database: no address with a password in it, no key."""
        limits = limiter.limits
        whose = limiter.name if limiter.everywhere else name_in(self.group, limiter)
        counted = f"{whose} {limits.requests_per_minute} {limits.tokens_per_minute}"
        return hashlib.sha256(counted.encode()).hexdigest()


def name_in(group: str, limiter: Limiter) -> str:
    """What a workflow's limits are called by others than those who have the same agents."""
    return f"{group} {limiter.name}"


_turns: WeakKeyDictionary[Limiter, Limiter] = WeakKeyDictionary()
_making = threading.Lock()


def _turns_of(limiter: Limiter) -> Limiter:
    """What lets the calls that a limiter let in ask the database one after the other."""
    with _making:
        return _turns.setdefault(limiter, Limiter(Limits(concurrency=1)))
