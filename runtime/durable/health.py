"""Parts of a process that durable runs depend on, and that may be stuck."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future

from operad.runtime.durable.database import first_line
from operad.runtime.durable.records import Records
from operad.runtime.durable.run_owner import known_owner
from operad.runtime.durable.threads import in_new_thread, in_thread

_logger = logging.getLogger(__name__)

DATABASE, WRITER, SCHEDULER = "database", "writer", "scheduler"
"""Parts: the database; the thread that commits records; the threads that start and continue runs, and the heartbeat."""

PATIENCE = 5.0
"""Seconds that a check waits for the database and for a free thread."""

LONGEST_WAIT = 10.0
"""Seconds for which a record may wait for its commit, or a heartbeat may be late."""

_KNOWN_SECONDS = 1.0
"""Seconds for which the result of a check is used again, so that many requests cost no more than one."""


class DurableHealth:
    """Check of the parts of this process that durable runs depend on.

    Args:
        records: The database of the runs.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._turn = asyncio.Lock()
        self._ping: Future[str] | None = None
        self._checked = float("-inf")
        self._stuck: Mapping[str, str] = {}

    async def stuck(self) -> Mapping[str, str]:
        """Return the parts that are stuck, each with the reason; the call takes hardly longer than `PATIENCE`."""
        async with self._turn:
            if time.monotonic() - self._checked >= _KNOWN_SECONDS:
                before, self._stuck = self._stuck, await self._look()
                self._checked = time.monotonic()
                if self._stuck.keys() - before.keys():
                    _logger.warning("stuck: %s", "; ".join(f"{part}: {reason}" for part, reason in self._stuck.items()))
            return self._stuck

    async def _look(self) -> Mapping[str, str]:
        """Check all parts at the same time."""
        if self._ping is None or self._ping.done():  # a ping without an answer is not followed by another one
            self._ping = in_new_thread(self._use_database, "operad-health")
        ping, thread = asyncio.wrap_future(self._ping), asyncio.ensure_future(in_thread(time.monotonic))
        await asyncio.wait([ping, thread], timeout=PATIENCE)
        found = dict[str, str]()
        if not ping.done():
            found[DATABASE] = f"no answer within {PATIENCE:g} s"
        elif error := ping.result():
            found[DATABASE] = error
        if not thread.done():
            thread.cancel()
            found[SCHEDULER] = f"no thread was free within {PATIENCE:g} s"
        owner = known_owner(self._records.url)
        for part, seconds in (owner.waiting_seconds if owner else {}).items():
            if seconds > LONGEST_WAIT:
                found.setdefault(
                    SCHEDULER if part == "heartbeat" else WRITER, f"the {part} has waited for {seconds:.0f} s"
                )
        return found

    def _use_database(self) -> str:
        """Start and end a transaction that may write; return the error, or an empty text."""
        try:
            database = self._records.store.database
            with database.engine.begin() as connection:
                connection.execute(database.sa.select(database.clock)).all()
        except Exception as error:  # noqa: BLE001 - is reported
            return first_line(error)
        return ""
