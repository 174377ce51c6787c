"""Records of the operators that this process executes: when they began, and their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.rows import DONE, StepRow
from operad.runtime.durable.store import Store

_SHORT = 0.02
"""Seconds after which a running operator is recorded; one that ends earlier is recorded once, with its outcome."""


class StepWriter:
    """Writer of the records of operators. The constructor may block.

    Args:
        store: The tables of runs.
        driver_id: Id of this process. Nothing is written for a run that another process drives.
    """

    def __init__(self, store: Store, driver_id: str) -> None:
        self._commits = GroupCommit[StepRow](partial(store.steps.write, driver_id))
        self._clock_offset = store.database.now() - time.time()

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
            await self._commits.put(replace(row, outcome=outcome, ended=ended, status=DONE))

        try:
            yield keep
        finally:
            noting.cancel()
            if not is_kept:  # the operator was stopped, perhaps before it was recorded as running
                self._commits.put_soon(row)

    def wait(self) -> None:
        """Wait until all records are committed, or have failed."""
        self._commits.wait()
