"""This process as the owner of runs: its heartbeat, and where it records them."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from operad.runtime.durable.dispatch import Dispatch
from operad.runtime.durable.places import new_executor_id, process_identity, version_here
from operad.runtime.durable.rows import Executor
from operad.runtime.durable.step_writer import StepWriter
from operad.runtime.durable.store import Store
from operad.runtime.durable.threads import in_thread
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.sync import running_loop

if TYPE_CHECKING:
    from sqlalchemy import URL

BEAT = 1.0
"""Seconds between two heartbeats."""

LONGEST_END = 5.0
"""Seconds that runs have to end when this process leaves the database."""

LIMIT = 10.0
"""Seconds without a heartbeat after which a process counts as dead."""


class Held:
    """A run that this process drives.

    Attributes:
        watched: True from its start to its end, while another process may end it.
        ending: True if it has ended and only its end is not recorded yet.
        lost: True if another process drives it now.
        cancelled: True if its cancellation was requested.
        has_ended: Set as soon as this process no longer drives it.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.watched = self.ending = self.lost = self.cancelled = False
        self.has_ended = threading.Event()
        self._task = task
        self._loop = task.get_loop()

    @property
    def going_on(self) -> bool:
        """True while its task may still produce an outcome."""
        return not (self._task.done() or self._loop.is_closed())

    def end(self) -> None:
        """End it; callable from any thread."""
        self._in_its_loop(self._task.cancel)

    def heed(self, lost: bool, cancelled: bool) -> None:
        """End it if the database says that it is lost or cancelled, unless it is ending anyway; callable from any thread."""
        if lost or cancelled:
            self._in_its_loop(partial(self._heed, lost, cancelled))

    def _heed(self, lost: bool, cancelled: bool) -> None:
        if self.watched and not (self.lost or self.cancelled):
            self.lost, self.cancelled = lost, cancelled
            self._task.cancel()

    def _in_its_loop(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # its event loop is closed
            self._loop.call_soon_threadsafe(function)

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; do not call this in the thread of its event loop, which would deadlock."""
        if self.going_on and running_loop() is not self._loop:
            self.has_ended.wait(seconds)


class Heartbeat:
    """Heartbeat of a process, in a thread of its own, which also reads the state of the process's runs.

    Args:
        store: The tables of runs.
        executor: This process.
    """

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._held: dict[str, Held] = {}
        self._holding = threading.Lock()
        self._stopped = threading.Event()
        store.insist(partial(store.beat, executor))
        self._thread = threading.Thread(target=self._go, name="operad-presence", daemon=True)
        self._thread.start()

    async def hold(self, run_id: str, task: asyncio.Task[Any]) -> Held:
        """Register the task that drives a run, after an earlier task for it has finished ending.

        Raises:
            InputError: Another task of this process drives the run.
        """
        other = self._held.get(run_id)
        if other is not None and other.ending:
            await in_thread(other.wait, LONGEST_END)
        with self._holding:
            other = self._held.get(run_id)
            if other is not None and other.going_on:
                raise InputError(f"run {run_id!r} is being driven by this process already; wait for it, or cancel it")
            held = self._held[run_id] = Held(task)
            return held

    def let_go(self, run_id: str) -> None:
        """Unregister a run."""
        if (held := self._held.pop(run_id, None)) is not None:
            held.has_ended.set()

    def end_all(self) -> None:
        """End all runs that this process drives, including those that wait for an answer, and wait for their ends."""
        going_on = list(self._held.values())
        for held in going_on:
            held.end()
        until = time.monotonic() + LONGEST_END
        for held in going_on:
            held.wait(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Stop the heartbeat and remove this process from the database."""
        self._stopped.set()
        self._thread.join(timeout=5)
        with suppress(OperadError):
            self._store.leave(self._executor.id)

    def _go(self) -> None:
        while not self._stopped.wait(BEAT):
            mine = {run_id: held for run_id, held in list(self._held.items()) if held.watched}
            try:
                wanted = self._store.beat(self._executor)
            except self._store.errors:
                continue  # the database is gone for a while, and so it is for all processes
            for run_id, held in mine.items():
                held.heed(lost=run_id not in wanted, cancelled=wanted.get(run_id, False))


class RunOwner(Heartbeat):
    """This process as the owner of runs in one database; see `owner_of`.

    Attributes:
        url: The database.
        executor: This process's row in the database.
        steps: Records the operators that this process executes.
    """

    def __init__(self, url: URL, limit: float) -> None:
        self.url = url
        self.executor = Executor(new_executor_id(), process=process_identity(), version=version_here(), limit=limit)
        store = Store(url)
        self.steps = StepWriter(store, self.executor.id)
        super().__init__(store, self.executor)

    @cached_property
    def dispatch(self) -> Dispatch:
        """Requests of this process to workers. May block."""
        return Dispatch(self._store, self.executor.id)

    def stop(self) -> None:
        """Stop. Runs that this process drives end here, and can be resumed at once, here or elsewhere."""
        self.end_all()
        super().stop()
        if "dispatch" in vars(self):
            self.dispatch.stop()
        self._store.close()


_owners: dict[URL, RunOwner] = {}
_changing = threading.Lock()


def owner_of(url: URL, limit: float = LIMIT) -> RunOwner:
    """Return this process as the owner of runs in a database."""
    with _changing:
        if url not in _owners:
            _owners[url] = RunOwner(url, limit)
        return _owners[url]


def leave(url: URL) -> None:
    """Stop driving runs of a database."""
    with _changing:
        if (owner := _owners.pop(url, None)) is not None:
            owner.stop()


@atexit.register
def _leave() -> None:
    for owner in _owners.values():
        with suppress(Exception):
            Heartbeat.stop(owner)
