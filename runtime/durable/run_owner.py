"""This process as the owner of runs: its heartbeat, and the operators that it executes."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.durable.database import passes
from operad.runtime.durable.places import new_executor_id, process_identity, version_here
from operad.runtime.durable.replay import in_thread
from operad.runtime.durable.requests import Request, Requests
from operad.runtime.durable.rows import Executor
from operad.runtime.durable.store import Store
from operad.runtime.durable.waiting import Waiting
from operad.runtime.durable.wakeups import wakeups
from operad.runtime.events import Scope
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.sync import running_loop

if TYPE_CHECKING:
    from dbos import DBOSClient
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
    """This process as the owner of runs; see `owner_of`.

    Attributes:
        url: The database.
        executor: This process's row in the database.
        client: Reads the tables of dbos.
        waiting: Waits for steps that other processes execute.
        requests: Writes requests for these steps.
    """

    def __init__(self, url: URL, limit: float) -> None:
        dbos_process = import_module("operad.runtime.durable.dbos_process")
        self.url = url
        self.executor = Executor(new_executor_id(), process=process_identity(), version=version_here(), limit=limit)
        self._begun: dict[str, Future[str]] = {}
        self._begun_here: Callable[[Any], bool] = dbos_process.begun_here
        self._lost_error: type[Exception] = dbos_process.LostError
        store = Store(url)
        launch = partial(dbos_process.launch, url, self.executor.id, self._perform, version=self.executor.version)
        self._process = store.set_up(launch)
        self.client: DBOSClient = store.insist(partial(dbos_process.client, url), 0.0)
        self.waiting = Waiting(self.client)
        self.requests = Requests(partial(self._request, dbos_process.enqueue))
        super().__init__(store, self.executor)

    def stop(self) -> None:
        """Stop. Runs that this process drives end here, and can be resumed at once, here or elsewhere."""
        self.end_all()
        self.drop()  # a thread of dbos that waits for work would keep the process from exiting
        super().stop()
        self.waiting.stop()
        self._process.stop()
        self.client.destroy()
        self._store.close()

    def _request(self, enqueue: Callable[..., None], requests: Sequence[Request]) -> None:
        """Write requests, and wake the workers that can do them."""
        if self.waiting.wakeups is None:  # a driver without workers needs none
            self.waiting.wakeups = wakeups(self._store, [self.executor.id], self.waiting.hear)
        with self.waiting.wakeups.sending({request.queue for request in requests}) as before_commit:
            self._store.insist(partial(enqueue, self.client, requests, before_commit))

    def takes(self, node: Node, scope: Scope) -> bool:
        """See `StepExecutor.takes`."""
        return False

    async def outcome_elsewhere(self, step_id: str, node: Node, call: OperatorCall, scope: Scope) -> str:
        """See `StepExecutor.outcome_elsewhere`."""
        raise NotImplementedError

    async def look_after(self, run_id: str) -> None:
        """See `StepExecutor.look_after`."""

    async def forget(self, step_id: str) -> None:
        """See `StepExecutor.forget`."""
        await self.speak(self.client.delete_workflows, [step_id])

    def drop(self) -> None:
        """Discard work in progress without recording it."""
        for begun in list(self._begun.values()):
            if not begun.done():
                begun.set_exception(_DroppedError())

    def _perform(self, step_id: str, _: str) -> str:
        begun = self._begun.get(step_id)
        if begun is None:
            raise _DroppedError
        return begun.result()

    async def outcome_of(self, step_id: str, work: Callable[[], Awaitable[str]]) -> str:
        """See `StepExecutor.outcome_of`."""
        made: str | None = None
        while True:
            result = self._begun[step_id] = Future[str]()
            try:
                handle = await self.speak(self._process.start, step_id)
                if self._begun_here(handle):
                    made = await work() if made is None else made
                    result.set_result(made)
                    if await self._is_recorded(handle):
                        return made
            except BaseException:
                if not result.done():
                    result.set_exception(_DroppedError())
                raise
            finally:
                self._begun.pop(step_id, None)
            if (text := await self.speak(self._of_another, step_id)) is not None:
                return text

    async def _is_recorded(self, handle: Any) -> bool:
        """Wait until the outcome is recorded; False if the database is gone or another process was given the work."""
        try:
            await in_thread(handle.get_result)
        except self._lost_error:
            return False
        except self._store.errors as error:
            if not passes(error):
                raise self._store.wrong(error) from error
            return False
        return True

    async def speak(self, function: Callable[..., Any], *args: object) -> Any:
        """Call the database in a thread, with retries; see `Store.insist`."""
        return await in_thread(self._store.insist, partial(function, *args))

    def _of_another(self, step_id: str) -> str | None:
        """Return an outcome kept by another process; forget a step that the other process only started."""
        found = self.client.list_workflows(workflow_ids=[step_id], load_input=False)
        if found and found[0].status == "SUCCESS":
            return text_of(found[0].output, step_id)
        kept = self._store.run(run_id := step_id.partition(":")[0])
        if (
            kept is None or kept.driver != self.executor.id
        ):  # this process stood still for long, and does not know yet that it lost the run
            raise taken_over(run_id)
        self.client.delete_workflows([step_id])
        return None


class _DroppedError(BaseException):
    """The work was stopped; nothing is recorded."""


def taken_over(run_id: str) -> InputError:
    """Return the error for a run that another process has taken over."""
    return InputError(f"run {run_id!r} is driven by another process now; it goes on there")


def text_of(output: object, step_id: str) -> str:
    """Return the kept outcome of an operator as text.

    Raises:
        InputError: The outcome is not a text.
    """
    if not isinstance(output, str):
        raise InputError(f"the stored outcome of {step_id!r} is not a text; was it written by another program?")
    return output


_owner: RunOwner | None = None
_changing = threading.Lock()


def owner_of(url: URL, limit: float = LIMIT) -> RunOwner:
    """Return the driver of this process for a database; one per process, because dbos allows one database.

    Raises:
        InputError: This process drives runs of another database already, or the program runs dbos for itself.
    """
    global _owner
    with _changing:
        if _owner is None or _owner.url != url:
            _owner = RunOwner(url, limit)  # raises if the process has another database
        return _owner


def leave(url: URL) -> None:
    """Stop driving runs of a database."""
    global _owner
    with _changing:
        if _owner is not None and _owner.url == url:
            _owner.stop()
            _owner = None


def _drop_what_is_begun() -> None:
    """Release the threads of dbos, which Python would wait for before it calls `atexit` functions."""
    if _owner is not None:
        _owner.drop()


_at_exit: Callable[[Callable[[], None]], None] = cast("Any", threading)._register_atexit
_at_exit(_drop_what_is_begun)


@atexit.register
def _leave() -> None:
    if _owner is not None:  # dbos itself takes a second to stop, and has no work left
        with suppress(Exception):
            Heartbeat.stop(_owner)
