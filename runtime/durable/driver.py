"""This process as one that drives runs: its signs of life, and the operators that are done in it."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.durable.database import passes
from operad.runtime.durable.drive import in_thread
from operad.runtime.durable.places import new_executor_id, process_identity, version_here
from operad.runtime.durable.rows import Executor
from operad.runtime.durable.store import Store
from operad.runtime.durable.waiting import Waiting
from operad.runtime.events import Scope
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.sync import running_loop

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import URL

BEAT = 1.0
"""Seconds between two signs of life."""

LONGEST_END = 5.0
"""Seconds that runs have to end when this process leaves the database."""

LIMIT = 10.0
"""Seconds without a sign of life after which a process counts as dead."""


class Held:
    """A run that this process drives.

    Attributes:
        watched: Whether it has begun, and has not ended: whether its end can come from elsewhere.
        ending: Whether it has ended, and only that has to be noted.
        lost: Whether another process drives it now.
        cancelled: Whether somebody wants it to end.
        has_ended: Set once this process drives it no more.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.watched = self.ending = self.lost = self.cancelled = False
        self.has_ended = threading.Event()
        self._task = task
        self._loop = task.get_loop()

    @property
    def going_on(self) -> bool:
        """Whether anything may still come of it."""
        return not (self._task.done() or self._loop.is_closed())

    def end(self) -> None:
        """Have it end; from any thread."""
        self._in_its_loop(self._task.cancel)

    def heed(self, lost: bool, cancelled: bool) -> None:
        """Have it end for what the database says of it, unless it is about to end by itself; from any thread."""
        if lost or cancelled:
            self._in_its_loop(partial(self._heed, lost, cancelled))

    def _heed(self, lost: bool, cancelled: bool) -> None:
        if self.watched and not (self.lost or self.cancelled):
            self.lost, self.cancelled = lost, cancelled
            self._task.cancel()

    def _in_its_loop(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(function)

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; not in the thread of its own event loop, where it could not."""
        if self.going_on and running_loop() is not self._loop:
            self.has_ended.wait(seconds)


class Heartbeat:
    """A process's signs of life, given in a thread of their own, and what it hears of its runs meanwhile.

    Args:
        store: Where they are given.
        executor: Who gives them.
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
        """Note that a task is to drive a run, once another one that is just ending it has done so.

        Raises:
            InputError: Another one of this process drives it.
        """
        other = self._held.get(run_id)
        if other is not None and other.ending:
            await in_thread(other.wait, LONGEST_END)
        with self._holding:
            other = self._held.get(run_id)
            if other is not None and other.going_on:
                raise InputError(f"run {run_id!r} is being driven by this very process; wait for it, or end it")
            held = self._held[run_id] = Held(task)
            return held

    def let_go(self, run_id: str) -> None:
        """Note that none does any more."""
        if (held := self._held.pop(run_id, None)) is not None:
            held.has_ended.set()

    def end_all(self) -> None:
        """Have all runs end that this process drives, and wait for them; those that wait for a person end too."""
        going_on = list(self._held.values())
        for held in going_on:
            held.end()
        until = time.monotonic() + LONGEST_END
        for held in going_on:
            held.wait(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Leave."""
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
                continue  # the database is gone for a while, and so it is for everybody else
            for run_id, held in mine.items():
                held.heed(lost=run_id not in wanted, cancelled=wanted.get(run_id, False))


class Driver(Heartbeat):
    """This process, driving runs; see `driver_of`.

    Attributes:
        url: The database.
        executor: What it is called there.
        client: What looks into the tables of dbos.
        waiting: What waits for work that others do.
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
        super().__init__(store, self.executor)

    def stop(self) -> None:
        """Leave; runs that it drives end here, and can be gone on with at once, here or elsewhere."""
        self.end_all()
        self.drop()  # a thread of dbos that waits for work would keep the process from ending
        super().stop()
        self.waiting.stop()
        self._process.stop()
        self.client.destroy()
        self._store.close()

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
        """Record nothing of what is under way."""
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
        """Wait until it is; False where the database went, or another process was given the work."""
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
        """Have the database asked something, in a thread; see `Store.insist`."""
        return await in_thread(self._store.insist, partial(function, *args))

    def _of_another(self, step_id: str) -> str | None:
        """What another process kept; what it has only begun is forgotten, for this one drives the run now."""
        found = self.client.list_workflows(workflow_ids=[step_id], load_input=False)
        if found and found[0].status == "SUCCESS":
            return text_of(found[0].output, step_id)
        kept = self._store.run(run_id := step_id.partition(":")[0])
        if kept is None or kept.driver != self.executor.id:  # it stood still for long, and does not know yet
            raise taken_over(run_id)
        self.client.delete_workflows([step_id])
        return None


class _DroppedError(BaseException):
    """The work was stopped, and nothing is to be recorded."""


def taken_over(run_id: str) -> InputError:
    """What is said of a run that another process has gone on with."""
    return InputError(f"run {run_id!r} is driven by another process now; it goes on there")


def text_of(output: object, step_id: str) -> str:
    """What is kept of an operator, as text.

    Raises:
        InputError: It is none.
    """
    if not isinstance(output, str):
        raise InputError(f"what was kept of {step_id!r} is no text; was it written by something else?")
    return output


_driver: Driver | None = None
_changing = threading.Lock()


def driver_of(url: URL, limit: float = LIMIT) -> Driver:
    """This process as a driver of runs in a database; it is one for all, since dbos allows one.

    Raises:
        InputError: It is one in another database already, or the program runs dbos for itself.
    """
    global _driver
    with _changing:
        if _driver is None or _driver.url != url:
            _driver = Driver(url, limit)  # which refuses a second database
        return _driver


def leave(url: URL) -> None:
    """End being a driver in a database."""
    global _driver
    with _changing:
        if _driver is not None and _driver.url == url:
            _driver.stop()
            _driver = None


def _drop_what_is_begun() -> None:
    """Let go of the threads of dbos, for which Python waits before it calls what `atexit` knows."""
    if _driver is not None:
        _driver.drop()


_at_exit: Callable[[Callable[[], None]], None] = cast("Any", threading)._register_atexit
_at_exit(_drop_what_is_begun)


@atexit.register
def _leave() -> None:
    if _driver is not None:  # dbos itself takes a second to stop, and has nothing left to do
        with suppress(Exception):
            Heartbeat.stop(_driver)
