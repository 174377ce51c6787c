"""Records of the runs that this process drives, and of the operators that it executes."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from functools import partial

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.rows import StoredRun
from operad.runtime.durable.run_changes import Change, Progress, TakeOver
from operad.runtime.durable.store import Store


class RunWriter:
    """Writer of the records of runs and operators, in the order of the calls. The constructor may block.

    A record is written even if the caller is cancelled while it waits, or its event loop is closed.

    Args:
        store: The tables of runs.
        driver_id: Id of this process. Nothing is written for a run that another process drives.
    """

    def __init__(self, store: Store, driver_id: str) -> None:
        self._commits = GroupCommit[Change, bool](partial(store.changes.write, driver_id), "operad-writer")
        self._clock_offset = store.database.now() - time.time()

    @property
    def waiting_seconds(self) -> float:
        """Seconds for which the oldest record has waited for its commit; 0 if no record waits."""
        return self._commits.waiting_seconds

    async def create(self, run: StoredRun) -> bool:
        """Insert a new run; return False if its id exists."""
        return await committed(self._commits.put_soon(run))

    async def take(self, run: StoredRun) -> bool:
        """Become the driver of a run in place of its driver; return False if the run has changed since it was read."""
        return await committed(self._commits.put_soon(TakeOver(run.run_id, run.driver, run.state)))

    def put_soon(self, progress: Progress) -> Future[bool]:
        """Start to store what happened in a run; see `committed`."""
        return self._commits.put_soon(progress)

    async def release(self, run_id: str) -> None:
        """Stop driving a run, which any process may continue."""
        await committed(self._commits.put_soon(Progress(run_id, values={"driver": ""})))

    def now(self) -> float:
        """Return the time of the database's clock, by its difference from the local clock at the start."""
        return time.time() + self._clock_offset


async def committed(written: Future[bool]) -> bool:
    """Wait until a record is committed; return False if another process drives the run.

    A cancellation ends the wait, not the writing.

    Raises:
        InputError: The record cannot be written.
    """
    return await asyncio.shield(asyncio.wrap_future(written))
