"""Calls of models that several processes count together, so that all of them keep to one limit.

All times are seconds since the epoch by the database's clock. Each method is one transaction and may block.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from operad.runtime.durable.database import Database, patiently
from operad.runtime.durable.tables import Tables
from operad.runtime.policies.limits import LONGEST_HOLD_OFF, WINDOW, Limits

if TYPE_CHECKING:
    from sqlalchemy import URL

_GRACE = 2.0
"""Seconds that one who waits for a limit may be late and keep its place."""

_SOON = 0.1


_CALL, _TOKENS, _HOLD, _PLACE = "call", "tokens", "hold", "place"
"""What counts against limits: a call, tokens, that an endpoint wants no calls, who was there first."""


class CountedCalls(Database):
    """The table of calls in one database.

    Args:
        url: The database, as `database_url` gives it.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._tables = Tables(self._sa)

    @patiently
    def admit(self, key: str, limits: Limits, caller: str, window: float = WINDOW) -> float:
        """Let in a call of a model and note it, or say when to ask again. Who does so in time keeps its place.

        Args:
            key: What the limits are called.
            limits: Those a minute count, not how many at once.
            caller: Who asks.
            window: Seconds over which is counted.

        Returns:
            0 when it is let in; else after how many seconds to ask again.
        """
        sa, table = self._sa, self._tables.calls
        until, mine = table.c.until, (table.c.key == key) & (table.c.kind == _PLACE) & (table.c.caller == caller)
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # there every transaction has the whole database for itself
                number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            now = self._now_in(connection)
            over = (until <= now) | (until > now + 2 * LONGEST_HOLD_OFF)  # the database's clock was put back
            connection.execute(sa.delete(table).where(table.c.key == key, over))
            came = connection.execute(sa.select(table.c.at).where(mine)).scalar() or now
            opens = self._opens(connection, key, limits, came, now)
            connection.execute(sa.delete(table).where(mine))
            if opens > now:
                self._count(connection, key, _PLACE, came, opens + _GRACE, caller=caller)
            elif limits.requests_per_minute is not None:
                self._count(connection, key, _CALL, now, now + window, caller=caller)
            return max(0.0, opens - now)

    def _opens(self, connection: Any, key: str, limits: Limits, came: float, now: float) -> float:
        """When one who came then may be let in, as far as is known; the past where it may be now."""
        sa, table = self._sa, self._tables.calls
        until = table.c.until

        def those(kind: str) -> Any:
            return (table.c.key == key) & (table.c.kind == kind)

        opens = connection.execute(sa.select(sa.func.max(until)).where(those(_HOLD))).scalar() or now
        if (most := limits.requests_per_minute) is not None:
            first = those(_PLACE) & (table.c.at < came)
            before = connection.execute(sa.select(sa.func.count()).select_from(table).where(first)).scalar()
            # Those before it count as let in; when this call of the last minute is over, one more may be.
            last = (
                sa.select(until).where(those(_CALL)).order_by(until.desc()).offset(max(0, most - 1 - before)).limit(1)
            )
            over = connection.execute(last).scalar() or (now + _SOON if before >= most else now)
            opens = max(opens, over)
        if (most := limits.tokens_per_minute) is not None:
            sums = sa.select(sa.func.sum(table.c.tokens), sa.func.min(until)).where(those(_TOKENS))
            tokens, over = connection.execute(sums).one()
            if tokens is not None and tokens >= most:
                opens = max(opens, over)
        return float(opens)

    @patiently
    def spend(self, key: str, tokens: int, window: float = WINDOW) -> None:
        """Note tokens that were read and written."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _TOKENS, now, now + window, tokens=tokens)

    @patiently
    def hold_off(self, key: str, seconds: float) -> None:
        """Let no call in for so many seconds, at most `LONGEST_HOLD_OFF`."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _HOLD, now, now + min(seconds, LONGEST_HOLD_OFF))

    def _count(
        self, connection: Any, key: str, kind: str, at: float, until: float, *, tokens: int = 0, caller: str = ""
    ) -> None:
        values = {"key": key, "kind": kind, "at": at, "until": until, "tokens": tokens, "caller": caller}
        connection.execute(self._sa.insert(self._tables.calls).values(**values))
