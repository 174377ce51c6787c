"""Table of the recorded events of runs."""

from __future__ import annotations

from collections.abc import Sequence

from operad.runtime.durable.database import Database
from operad.runtime.durable.rows import EventPart
from operad.runtime.durable.tables import Tables


class EventTable:
    """Table of the recorded events of runs, in parts that were stored together.

    Args:
        database: The database.
        tables: Its tables.
    """

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self._tables = tables

    def of_run(self, run_id: str, after: int = 0) -> Sequence[EventPart]:
        """Return the recorded events of a run in order.

        Args:
            run_id: The run.
            after: Number of a part; the parts after it are returned.
        """
        table = self._tables.events
        query = self.database.sa.select(table.c.part, table.c.drive, table.c.events)
        query = query.where(table.c.run_id == run_id, table.c.part > after).order_by(table.c.part)
        parts = [EventPart(*row) for row in self.database.rows(query)]
        return [part for part in parts if isinstance(part.events, bytes)]  # pyright: ignore[reportUnnecessaryIsInstance]

    def parts(self, run_id: str) -> int:
        """Return the number of the last part of the recorded events of a run; 0 if there is none."""
        sa, table = self.database.sa, self._tables.events
        return int(self.database.rows(sa.select(sa.func.max(table.c.part)).where(table.c.run_id == run_id))[0][0] or 0)

    def exist(self, run_id: str) -> bool:
        """Return True if events of a run are recorded."""
        table = self._tables.events
        return bool(self.database.rows(self.database.sa.select(table.c.part).where(table.c.run_id == run_id).limit(1)))

    def forget(self, run_id: str) -> None:
        """Delete the recorded events of a run."""
        table = self._tables.events
        self.database.change(self.database.sa.delete(table).where(table.c.run_id == run_id))
