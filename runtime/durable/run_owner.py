"""This process as the owner of runs: its heartbeat, and where it records them."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from operad.runtime.durable.database_names import display_name
from operad.runtime.durable.dispatch import Dispatch
from operad.runtime.durable.process_ids import new_executor_id, process_identity, version_here
from operad.runtime.durable.run_writer import RunWriter
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import Executor
from operad.runtime.durable.threads import in_new_thread, shared_future
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.forks import ProcessLock, after_fork, leave_to_parent
from operad.runtime.values.sync import running_loop

if TYPE_CHECKING:
    from sqlalchemy import URL

    from operad.runtime.workflow.run import Run
    from operad.runtime.workflow.runs import LiveRun

BEAT = 1.0
"""Seconds between two heartbeats."""

LONGEST_END = 5.0
"""Seconds to wait for the end of runs when this process stops driving them."""

LIMIT = 10.0
"""Seconds without a heartbeat after which a process counts as dead."""


class DrivenRun:
    """Run that this process drives.

    Attributes:
        executing: True while the run executes, so that a cancellation or a loss of the run ends it.
        ending: True if the run has ended, and only its end is not recorded yet.
        lost: True if another process drives the run now.
        cancelled: True if the cancellation of the run was requested.
        abandoned: Event that is set if the run is cancelled before this process drives it.
        has_ended: Future that is done as soon as this process no longer drives the run.

    Args:
        user: The ledger that executes the run; see `RunOwner.users`.
    """

    def __init__(self, task: asyncio.Task[Any], run: Run, user: object) -> None:
        self.run = run
        self.user = user
        self.executing = self.ending = self.lost = self.cancelled = False
        self.abandoned = asyncio.Event()
        self.has_ended: Future[None] = shared_future()
        self._task = task
        self._loop = task.get_loop()

    @property
    def is_in_progress(self) -> bool:
        """True while the task of the run may still produce an outcome."""
        return not (self._task.done() or self._loop.is_closed())

    def end(self) -> None:
        """Cancel the run; can be called in any thread."""
        self._call_in_loop(self._task.cancel)

    def end_if(self, lost: bool, cancelled: bool) -> None:
        """Cancel the run if it is lost or its cancellation was requested; can be called in any thread."""
        if lost or cancelled:
            self._call_in_loop(partial(self._end_for, lost, cancelled))

    def _end_for(self, lost: bool, cancelled: bool) -> None:
        if self.executing and not (self.lost or self.cancelled):
            self.lost, self.cancelled = lost, cancelled
            self._task.cancel()

    def _call_in_loop(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(function)

    def wait(self, seconds: float) -> None:
        """Wait until this process no longer drives the run; returns at once in the event loop of the run."""
        if self.is_in_progress and running_loop() is not self._loop:
            wait([self.has_ended], seconds)


class RunOwner:
    """This process as the driver of runs in one database; see `owner_of`.

    A separate thread records the heartbeat of the process, and reads the state of the runs of the process.

    Args:
        limit: Seconds without a heartbeat after which this process counts as dead.
        before: Earlier owner of runs in the database, which is stopping; None if there is none.

    Attributes:
        executor: Row of this process in the database.
        started: Future that is done when the process is recorded in the database, or cannot be recorded.
        stopped: Future that is done when the process is no longer recorded in the database.
        users: The ledgers of this process that have executed runs, and are neither closed nor garbage-collected.
        writer: Writer of records of runs and operators; exists once the owner is started, as the following do.
    """

    writer: RunWriter
    _store: Store
    _thread: threading.Thread

    def __init__(self, url: URL, limit: float, before: RunOwner | None) -> None:
        self.executor = Executor(new_executor_id(), process=process_identity(), version=version_here(), limit=limit)
        self.users = WeakSet[Any]()
        self.stopped: Future[None] = shared_future()
        self._driven: dict[str, DrivenRun] = {}
        self._registering = threading.Lock()
        self._leaving = threading.Event()
        self._beaten = time.monotonic()
        self._dispatch: Future[Dispatch] | None = None
        self.started = in_new_thread(partial(self._start, url, before), "operad-start")

    def _start(self, url: URL, before: RunOwner | None) -> None:
        if before is not None:
            wait([before.stopped])
        self._store = Store(url)
        self.writer = RunWriter(self._store.changes, self.executor.id)
        self._store.database.with_retries(partial(self._store.beat, self.executor))
        self._beaten = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="operad-presence", daemon=True)
        self._thread.start()

    @property
    def is_started(self) -> bool:
        """True if the process is recorded in the database."""
        return self.started.done() and self.started.exception() is None

    async def dispatch(self) -> Dispatch:
        """Return the requests of this process to workers.

        Raises:
            InputError: The database cannot be reached or used.
        """
        with self._registering:
            known = self._dispatch
            if known is None or (known.done() and known.exception() is not None):
                known = self._dispatch = in_new_thread(partial(Dispatch, self._store, self.executor.id), "operad-start")
        return await asyncio.wrap_future(known)

    @property
    def waiting_seconds(self) -> dict[str, float]:
        """Seconds for which each part of this process that uses the database has waited for it, by the part's name."""
        if not self.is_started:
            return {}
        waiting = {
            "writer": self.writer.waiting_seconds,
            "heartbeat": max(0.0, time.monotonic() - self._beaten - BEAT),
        }
        if self._dispatch is not None and self._dispatch.done() and self._dispatch.exception() is None:
            waiting["writer of requests to workers"] = self._dispatch.result().waiting_seconds
        return waiting

    async def register(self, run_id: str, task: asyncio.Task[Any], run: Run, user: object) -> DrivenRun:
        """Register the task that drives a run, after an earlier task of the run has recorded its end.

        Raises:
            InputError: Another task of this process drives the run.
        """
        other = self._driven.get(run_id)
        if other is not None and other.ending:
            await asyncio.wait([asyncio.wrap_future(other.has_ended)], timeout=LONGEST_END)
        with self._registering:
            other = self._driven.get(run_id)
            if other is not None and other.is_in_progress:
                if other.run.waits:
                    raise InputError(
                        f"run {run_id!r} is paused in this process and waits for answers: continue it with "
                        f"resume({run_id!r}, answers), or give this run another id"
                    )
                raise InputError(f"run {run_id!r} is being driven by this process already; wait for it, or cancel it")
            driven_run = self._driven[run_id] = DrivenRun(task, run, user)
            return driven_run

    def in_progress(self, run_id: str) -> LiveRun | None:
        """Return a run that this process drives; None if there is none, or its event loop is closed."""
        driven_run = self._driven.get(run_id)
        if driven_run is None or not driven_run.is_in_progress:
            return None
        return cast("LiveRun | None", driven_run.run.live)

    def unregister(self, run_id: str) -> None:
        """Unregister a run."""
        if (driven_run := self._driven.pop(run_id, None)) is not None:
            driven_run.has_ended.set_result(None)

    def end_runs(self, user: object = None) -> None:
        """Cancel the runs that this process drives, including paused ones, and wait for their ends.

        Args:
            user: The ledger whose runs are cancelled; None for all runs.
        """
        driven = [driven_run for driven_run in list(self._driven.values()) if user is None or driven_run.user is user]
        for driven_run in driven:
            driven_run.end()
        until = time.monotonic() + LONGEST_END
        for driven_run in driven:
            driven_run.wait(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Cancel the runs that this process drives, and stop the heartbeat; any process can resume the runs at once."""
        try:
            wait([self.started])
            if self.is_started:
                self.end_runs()
                self.stop_heartbeat()
                if self._dispatch is not None:
                    wait([self._dispatch])
                    if self._dispatch.exception() is None:
                        self._dispatch.result().stop()
                self._store.close()
        finally:
            self.stopped.set_result(None)

    def stop_heartbeat(self) -> None:
        """Stop the heartbeat and remove this process from the database, if it was recorded there."""
        if self.is_started:
            self._leaving.set()
            self._thread.join(timeout=5)
            with suppress(OperadError):
                self._store.leave(self.executor.id)

    def _run(self) -> None:
        while not self._leaving.wait(BEAT):
            self._beat()

    def _beat(self) -> None:
        """Record a heartbeat, and end runs that were taken over or whose cancellation was requested."""
        watched = {run_id: driven_run for run_id, driven_run in list(self._driven.items()) if driven_run.executing}
        try:
            driven = self._store.beat(self.executor)
        except self._store.database.errors:
            return  # the database cannot be reached at the moment, by any process
        self._beaten = time.monotonic()
        for run_id, driven_run in watched.items():
            driven_run.end_if(lost=run_id not in driven, cancelled=driven.get(run_id, False))


_owners: dict[URL, RunOwner] = {}
_stopping: dict[URL, RunOwner] = {}
_changing = ProcessLock()
"""Lock of the two dicts. Nothing waits while it holds the lock."""


@after_fork
def _renew() -> None:
    """Leave the runs in progress to the parent, with its heartbeat: the child is another owner."""
    for owners in (_owners, _stopping):
        leave_to_parent({**owners})
        owners.clear()


async def owner_of(url: URL, limit: float, user: object) -> RunOwner:
    """Return the owner of runs in a database for this process; there is one per database.

    Args:
        limit: Seconds without a heartbeat after which this process counts as dead.
        user: The ledger that executes runs, until `leave` is called for it.

    Raises:
        InputError: The process drives runs in the database with another limit, or the database cannot be used.
    """
    with _changing:
        owner = _owners.get(url)
        if owner is None or (owner.started.done() and not owner.is_started):
            owner = _owners[url] = RunOwner(url, limit, _stopping.get(url))
        owner.users.add(user)
    if owner.executor.limit != limit:
        raise InputError(
            f"this process drives runs in {display_name(url)} with limit={owner.executor.limit:g}, so limit={limit:g} has no "
            "effect; give every Ledger of the database the same limit, or close the other Ledger first"
        )
    await asyncio.wrap_future(owner.started)
    return owner


def known_owner(url: URL) -> RunOwner | None:
    """Return the owner of runs in a database for this process; None if the process has driven none."""
    return _owners.get(url)


def run_in_progress(url: URL, run_id: str) -> LiveRun | None:
    """Return a run of a database that this process drives, or None."""
    owner = _owners.get(url)
    return None if owner is None else owner.in_progress(run_id)


def leave(url: URL, user: object = None) -> None:
    """Stop driving the runs of a ledger; once no other ledger of this process uses the database, leave the database.

    Args:
        user: The ledger; None for all ledgers of this process.
    """
    with _changing:
        owner = _owners.get(url)
        if owner is None:
            return
        if user is not None:
            owner.users.discard(user)
        has_others = user is not None and len(owner.users) > 0
        if not has_others:
            _stopping[url] = _owners.pop(url)
    if has_others:
        owner.end_runs(user)
        return
    try:
        owner.stop()
    finally:
        with _changing:
            if _stopping.get(url) is owner:
                del _stopping[url]


@atexit.register
def _leave() -> None:
    for owner in _owners.values():
        with suppress(Exception):
            owner.stop_heartbeat()
