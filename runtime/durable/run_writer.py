"""Records of the runs that this process drives, and of the operators that it executes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.rows import DONE, StepRow, StoredRun
from operad.runtime.durable.run_changes import Change, NewEvents, NewState, TakeOver
from operad.runtime.durable.step_table import taken_over
from operad.runtime.durable.store import Store

_SHORT = 0.02
"""Seconds after which a running operator is recorded; one that ends earlier is recorded once, with its outcome."""


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

    def add_events(self, new: NewEvents) -> Future[bool]:
        """Start to append events to the stored events of a run; see `committed`."""
        return self._commits.put_soon(new)

    async def update(self, run_id: str, **values: object) -> bool:
        """Update columns of a run; return False if this process no longer drives the run."""
        return await committed(self._commits.put_soon(NewState(run_id, values)))

    def _now(self) -> float:
        """Return the time of the database's clock, by its difference from the local clock at the start."""
        return time.time() + self._clock_offset

    @contextmanager
    def recorded(self, run_id: str, key: str) -> Generator[Callable[[str], Awaitable[None]], None, None]:
        """Record within a context that an operator is running, until its outcome is stored.

        Args:
            run_id: The run.
            key: Key of the operator's work in the run.

        Returns:
            Function that stores the outcome, to be called in the context. It raises `InputError` if another process
            drives the run.
        """
        row = StepRow(run_id, key, began=self._now())
        noting = asyncio.get_running_loop().call_later(_SHORT, self._commits.put_soon, row)
        is_kept = False

        async def keep(outcome: str) -> None:
            nonlocal is_kept
            is_kept = True
            noting.cancel()
            ended = max(row.began, self._now())
            if not await committed(self._commits.put_soon(replace(row, outcome=outcome, ended=ended, status=DONE))):
                raise taken_over(run_id)

        try:
            yield keep
        finally:
            noting.cancel()
            if not is_kept:  # the operator was stopped, perhaps before it was recorded as running
                self._commits.put_soon(row)


async def committed(written: Future[bool]) -> bool:
    """Wait until a record is committed; return False if another process drives the run.

    A cancellation ends the wait, not the writing.

    Raises:
        InputError: The record cannot be written.
    """
    return await asyncio.shield(asyncio.wrap_future(written))
