"""Model calls counted in a database, so that several processes share one rate limit.

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
"""Seconds that a waiting caller may be late before it loses its place."""

_SOON = 0.1


_CALL, _TOKENS, _HOLD, _PLACE = "call", "tokens", "hold", "place"
"""Kinds of rows: a call, tokens, a pause requested by an endpoint, a place in the queue of callers."""


class CountedCalls(Database):
    """The table of counted calls in one database.

    Args:
        url: The database, as returned by `database_url`.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._tables = Tables(self._sa)

    @patiently
    def admit(self, key: str, limits: Limits, caller: str, window: float = WINDOW) -> float:
        """Admit and count a model call, or return when to ask again. A caller that asks in time keeps its place.

        Args:
            key: Name of the limits.
            limits: The limits. Only those per minute count here, not the number of concurrent calls.
            caller: Id of the caller.
            window: Length of the counting window, in seconds.

        Returns:
            0 if the call is admitted; otherwise, the seconds after which to ask again.
        """
        sa, table = self._sa, self._tables.calls
        until, mine = table.c.until, (table.c.key == key) & (table.c.kind == _PLACE) & (table.c.caller == caller)
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # in SQLite, every transaction has the whole database for itself
                number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            now = self._now_in(connection)
            over = (until <= now) | (
                until > now + 2 * LONGEST_HOLD_OFF
            )  # rows from the future: the database's clock was set back
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
        """Return the time from which a caller that arrived at `came` may be admitted; a past time means now."""
        sa, table = self._sa, self._tables.calls
        until = table.c.until

        def those(kind: str) -> Any:
            return (table.c.key == key) & (table.c.kind == kind)

        opens = connection.execute(sa.select(sa.func.max(until)).where(those(_HOLD))).scalar() or now
        if (most := limits.requests_per_minute) is not None:
            first = those(_PLACE) & (table.c.at < came)
            before = connection.execute(sa.select(sa.func.count()).select_from(table).where(first)).scalar()
            # Earlier callers count as admitted; once this call leaves the window, one more fits.
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
        """Count tokens that were read and written."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _TOKENS, now, now + window, tokens=tokens)

    @patiently
    def hold_off(self, key: str, seconds: float) -> None:
        """Admit no call for this many seconds, at most `LONGEST_HOLD_OFF`."""
        with self._engine.begin() as connection:
            now = self._now_in(connection)
            self._count(connection, key, _HOLD, now, now + min(seconds, LONGEST_HOLD_OFF))

    def _count(
        self, connection: Any, key: str, kind: str, at: float, until: float, *, tokens: int = 0, caller: str = ""
    ) -> None:
        values = {"key": key, "kind": kind, "at": at, "until": until, "tokens": tokens, "caller": caller}
        connection.execute(self._sa.insert(self._tables.calls).values(**values))
