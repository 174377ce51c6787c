"""Rate limits per minute shared by all processes of a database, which counts the model calls."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.tables import Tables
from operad.runtime.durable.threads import in_thread
from operad.runtime.policies.limits import LONGEST_HOLD_OFF, WINDOW, Limiter, Limits
from operad.runtime.values.forks import ProcessLock

_GRACE = 2.0
"""Seconds by which a waiting caller may be late before it loses its place."""

_SOON = 0.1
"""Seconds after which a caller behind more waiting callers than the limit asks again."""


_CALL, _TOKENS, _HOLD, _PLACE = "call", "tokens", "hold", "place"
"""Kinds of rows: a call, tokens, a pause that an endpoint requested, a place in the queue of waiting callers."""


class CountedCalls:
    """Table of counted model calls in one database."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self._tables = tables

    @retried
    def admit(self, key: str, limits: Limits, caller: str, window: float = WINDOW) -> float:
        """Admit and count a model call, or return when to ask again. A caller that asks in time keeps its place.

        Args:
            limits: The limits. Only limits per minute are used here, not the number of concurrent calls.
            window: Length of the counting window, in seconds.

        Returns:
            0 if the call is admitted; otherwise, the seconds after which to ask again.
        """
        sa, table = self.database.sa, self._tables.calls
        until, mine = table.c.until, (table.c.key == key) & (table.c.kind == _PLACE) & (table.c.caller == caller)
        with self.database.engine.begin() as connection:
            if not self.database.is_sqlite:  # in SQLite, every writing transaction locks the whole database
                number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            now = self.database.time_in(connection)
            from_future = until > now + 2 * LONGEST_HOLD_OFF  # the database's clock was set back
            expired = (until <= now) | from_future
            connection.execute(sa.delete(table).where(table.c.key == key, expired))
            arrived = connection.execute(sa.select(table.c.at).where(mine)).scalar() or now
            admission = self._admission_time(connection, key, limits, arrived, now)
            connection.execute(sa.delete(table).where(mine))
            if admission > now:
                self._insert(connection, key, _PLACE, arrived, admission + _GRACE, caller=caller)
            elif limits.requests_per_minute is not None:
                self._insert(connection, key, _CALL, now, now + window, caller=caller)
            return max(0.0, admission - now)

    def _admission_time(self, connection: Any, key: str, limits: Limits, arrived: float, now: float) -> float:
        """Return the time from which a caller that arrived at `arrived` may be admitted; a past time means now."""
        sa, table = self.database.sa, self._tables.calls
        until = table.c.until

        def of_kind(kind: str) -> Any:
            return (table.c.key == key) & (table.c.kind == kind)

        admission = connection.execute(sa.select(sa.func.max(until)).where(of_kind(_HOLD))).scalar() or now
        if (most := limits.requests_per_minute) is not None:
            earlier = of_kind(_PLACE) & (table.c.at < arrived)
            before = connection.execute(sa.select(sa.func.count()).select_from(table).where(earlier)).scalar()
            # Callers that wait longer count as admitted. The call selected here is the one whose end of the window
            # makes room for this caller.
            offset = max(0, most - 1 - before)
            call = sa.select(until).where(of_kind(_CALL)).order_by(until.desc()).offset(offset).limit(1)
            expiry = connection.execute(call).scalar() or (now + _SOON if before >= most else now)
            admission = max(admission, expiry)
        if (most := limits.tokens_per_minute) is not None:
            sums = sa.select(sa.func.sum(table.c.tokens), sa.func.min(until)).where(of_kind(_TOKENS))
            tokens, expiry = connection.execute(sums).one()
            if tokens is not None and tokens >= most:
                admission = max(admission, expiry)
        return float(admission)

    @retried
    def spend(self, key: str, tokens: int, window: float = WINDOW) -> None:
        """Count the tokens of a model call."""
        with self.database.engine.begin() as connection:
            now = self.database.time_in(connection)
            self._insert(connection, key, _TOKENS, now, now + window, tokens=tokens)

    @retried
    def hold_off(self, key: str, seconds: float) -> None:
        """Admit no call for this many seconds, at most `LONGEST_HOLD_OFF`."""
        with self.database.engine.begin() as connection:
            now = self.database.time_in(connection)
            self._insert(connection, key, _HOLD, now, now + min(seconds, LONGEST_HOLD_OFF))

    def _insert(
        self, connection: Any, key: str, kind: str, at: float, until: float, *, tokens: int = 0, caller: str = ""
    ) -> None:
        values = {"key": key, "kind": kind, "at": at, "until": until, "tokens": tokens, "caller": caller}
        connection.execute(self.database.sa.insert(self._tables.calls).values(**values))


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
