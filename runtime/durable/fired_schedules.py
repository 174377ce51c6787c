"""Last firings of schedules, by which several servers of a database fire each time of a schedule once."""

from __future__ import annotations

from typing import NamedTuple

from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.rows import StoredRun
from operad.runtime.durable.run_writer import RunChanges
from operad.runtime.durable.tables import Tables


class LastFiring(NamedTuple):
    """The last firing of a schedule.

    Attributes:
        at: Time of the schedule that was fired or skipped; before the first one, the time at which it was first served.
        run_id: Id of the run that the last firing started; empty for none.
    """

    at: float
    run_id: str = ""


class FiredSchedules:
    """Table of the last firings of schedules in one database."""

    def __init__(self, database: Database, tables: Tables, changes: RunChanges) -> None:
        self.database = database
        self._table = tables.schedules
        self._changes = changes

    @retried
    def last(self, name: str, now: float) -> LastFiring:
        """Return the last firing of a schedule; one that was not served before counts as fired `now`."""
        sa, table = self.database.sa, self._table
        query = sa.select(table.c.fired, table.c.run_id).where(table.c.name == name)
        try:
            with self.database.engine.begin() as connection:
                row = connection.execute(query).first()
                if row is None:
                    connection.execute(sa.insert(table).values(name=name, fired=now, run_id=""))
        except sa.exc.IntegrityError:  # another server has just inserted it
            return self.last(name, now)
        return LastFiring(now) if row is None else LastFiring(*row)

    @retried
    def fire(self, name: str, since: float, at: float, run: StoredRun | None) -> bool:
        """Record a firing together with its run, which no process drives yet; return False if another server was first.

        Args:
            since: The last firing that the caller knows.
            at: The time of the schedule.
            run: The run, with a new id; None to skip the firing.
        """
        sa, table = self.database.sa, self._table
        values = {"fired": at} | ({"run_id": run.run_id} if run else {})
        with self.database.engine.begin() as connection:
            change = sa.update(table).where(table.c.name == name, table.c.fired == since).values(**values)
            if not connection.execute(change).rowcount:
                # The commit of an earlier try may have been taken for failed.
                last = connection.execute(sa.select(table.c.run_id).where(table.c.name == name)).scalar()
                return run is not None and last == run.run_id
            self._changes.create(connection, [run] if run else [])
        return True
