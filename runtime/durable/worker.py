"""Worker: executes operators of runs that other processes drive."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.database_names import database_url, file_store
from operad.runtime.durable.liveness import Watch
from operad.runtime.durable.outcome import Outcome
from operad.runtime.durable.process_ids import new_executor_id, process_identity, version_here
from operad.runtime.durable.question_forwarder import QuestionForwarder
from operad.runtime.durable.remote import MAX_DEATHS
from operad.runtime.durable.replay import outcome_of_work
from operad.runtime.durable.rows import Executor
from operad.runtime.durable.run_owner import BEAT, LIMIT
from operad.runtime.durable.shared_agents import Found, Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.durable.store import Store
from operad.runtime.durable.threads import in_new_thread, in_thread
from operad.runtime.durable.wakeups import wakeups
from operad.runtime.events import (
    Listener,
    OperatorCancelled,
    OperatorFailed,
    OperatorFinished,
    OperatorStarted,
    RunLog,
    Scope,
    enter,
)
from operad.runtime.events.repeat import traced
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.observe.tracing import continued
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.values.errors import BudgetError, InputError, OperadError, describe
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.attempts import perform
from operad.runtime.workflow.run import Run

if TYPE_CHECKING:
    from dbos import DBOSClient

_logger = logging.getLogger(__name__)

MOST_COUNTED = 1000
"""Maximum number of waiting operators that are counted per queue."""


class Worker:
    """Worker that takes requests for the operators of some agents from a database, and executes them.

    Args:
        url: The database, as for a `Ledger`.
        served: The agents.
        concurrency: Maximum number of operators at once for each item of `served`.
        files: Store for files that operators create, as for a `Ledger`.
        limit: Seconds without a heartbeat after which this process counts as dead.
        version: Version of the code; requests of other versions are left to other workers.
        listeners: Functions that are called with every event of the operators that this worker executes.

    Raises:
        InputError: The database cannot be used, or this process already runs a worker.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(
        self,
        url: str | Path | None,
        served: Sequence[Served],
        *,
        concurrency: int = 1,
        files: str | Path | None = None,
        limit: float = LIMIT,
        version: str | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.url = database_url(url)
        self.executor = Executor(
            new_executor_id(),
            kind="worker",
            process=process_identity(),
            version=version or version_here(),
            queues=tuple(each.queue for each in served),
            concurrency=concurrency,
            limit=limit,
        )
        self._served = {each.queue: each for each in served}
        self._codec = Codec(file_store(files, self.url))
        self._listeners = tuple(listeners)
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}
        self._drivers: dict[str, str] = {}
        self._idle: set[str] = set()
        self._process: Any = None
        self._watch = Watch()
        self._idle_beat = max(BEAT, min(2 * BEAT, limit / 4))

    @property
    def busy(self) -> int:
        """Number of operators in execution."""
        return len(self._tasks)

    def waiting(self) -> dict[str, int]:
        """Return the number of waiting operators in each queue of this worker, up to `MOST_COUNTED`.

        Raises:
            Exception: The database cannot be reached, or the worker is not serving.
        """
        counted = partial(self._client.list_workflows, status="ENQUEUED", limit=MOST_COUNTED)
        return {
            queue: len(counted(queue_name=queue, load_input=False, load_output=False)) for queue in self.executor.queues
        }

    async def serve(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Execute requests until `stop` is set; then take no more requests, and finish those in progress.

        Args:
            stop: Event that ends the work.
            grace: Seconds for operators in progress to finish; the others are stopped, and left to other workers.
        """
        self._loop = asyncio.get_running_loop()
        self._leaving = threading.Event()
        self._stopping = False
        dbos_process = import_module("operad.runtime.durable.dbos_process")
        # dbos stops first: otherwise it could take requests again that are given back, and cancelled operators may not
        # have ended yet.
        cleanup = ExitStack()
        try:
            store = self._store = await in_thread(Store, self.url)
            cleanup.callback(store.close)
            self._client: DBOSClient = await in_thread(
                store.database.with_retries, partial(dbos_process.client, self.url), 0.0
            )
            cleanup.callback(self._client.destroy)
            # The first heartbeat is recorded before any request is taken: a process without a heartbeat counts as dead.
            await in_thread(store.database.with_retries, partial(store.beat, self.executor))
            cleanup.callback(store.leave, self.executor.id)
            cleanup.callback(self._give_back, [self.executor.id])
            self._wakeups = wakeups(store.database, self.executor.queues, self._wake)
            cleanup.callback(self._wakeups.stop)
            presence = threading.Thread(target=self._beat, name="operad-presence", daemon=True)
            presence.start()
            cleanup.callback(self._stop_beating, presence)
            self._process = await in_thread(store.database.set_up, partial(self._launch, dbos_process))
            cleanup.callback(self._process.stop)
            await stop.wait()
            stopping = in_new_thread(partial(self._process.stop, round(grace)), "operad-stop")
            await asyncio.wrap_future(stopping)
        finally:
            await self._stop_all()
            await asyncio.wrap_future(in_new_thread(cleanup.close, "operad-stop"))

    def _launch(self, dbos_process: Any) -> Any:
        queues = dbos_process.Queues(
            self.executor.queues, self.executor.concurrency, self._wake_driver, lambda: self._wakeups.listening
        )
        return dbos_process.launch(
            self.url, self.executor.id, self._perform, queues=queues, version=self.executor.version
        )

    def _wake(self, queue: str, _: str) -> None:
        """Look for requests in a queue; called for each wake-up."""
        if self._process is not None:
            self._process.wake(queue)

    def _wake_driver(self, step_id: str) -> None:
        """Wake the driver that waits for an outcome, which has just been recorded; called in a thread of dbos."""
        if driver := self._drivers.pop(step_id, ""):
            self._wakeups.send(driver, step_id)

    async def _stop_all(self) -> None:
        self._stopping = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_beating(self, presence: threading.Thread) -> None:
        self._leaving.set()
        presence.join(5.0)

    # Work

    def _perform(self, step_id: str, request: str) -> str:
        """Execute a request, and return its outcome as text; called in a thread of dbos, which records the outcome."""
        try:
            given = self._codec.load(request, dict)
            self._drivers[step_id] = str(given.get("driver", ""))
            found = self._served[given["queue"]].find(given["address"])
            future = asyncio.run_coroutine_threadsafe(self._tracked(step_id, given, found), self._loop)
            return self._codec.dump(future.result())
        except (asyncio.CancelledError, CancelledError) as error:
            raise _StoppedError from error
        except OperadError as error:
            return self._codec.dump(Outcome(error=error))
        except Exception as error:  # noqa: BLE001 - the outcome reports the error to the driver
            unreadable = InputError(
                f"the worker cannot read its request: {describe(error)}; was it written by another program?"
            )
            return self._codec.dump(Outcome(error=unreadable))

    async def _tracked(self, step_id: str, given: dict[str, Any], found: Found) -> Outcome:
        """Execute a request in a task that is registered in `_tasks` while it runs."""
        if self._stopping:  # the request was taken just before the worker stopped taking requests
            raise asyncio.CancelledError
        task = self._tasks[step_id] = asyncio.ensure_future(self._outcome(step_id, given, found))
        try:
            return await task
        finally:
            if self._tasks.get(step_id) is task:
                del self._tasks[step_id]

    async def _outcome(self, step_id: str, given: dict[str, Any], found: Found) -> Outcome:
        """Execute an operator, and return its outcome.

        Args:
            step_id: Id of the work among all runs.
            given: The request.
            found: The operator.
        """
        run_id = step_id.partition(":")[0]
        build = found.build
        insights = RunInsights(found.insights) if found.insights else None
        call = OperatorCall(
            found.reasoner,
            given["job"],
            tuple(given["messages"]),
            tuple(given["previous"]),
            given["lesson"],
            tuple(given["transcript"]),
            given["judged"],
            rejection=given.get("rejection"),
        )
        path = tuple(given["path"])
        log = RunLog(run_id, self._listeners)
        run = _RunOfOneOperator(build, call, log, prefix=path[:-1], insights=insights)
        run.repeats = bool(given.get("repeats"))
        run.spend(given["used"])
        outer = [Limiter.of(name, Limits(None, requests, tokens)) for name, requests, tokens in given["limits"]]
        run.calls = (*outer, *run.calls)
        run.shared_limits = LimitsInDatabase(self._store.calls, given["queue"], self.executor.id)
        key = step_id.partition(":")[2]
        scope = Scope(
            run=run,
            path=path,
            operator_id=path[-1],
            round=given["round"],
            kept=[],
            heard=True,
            key=key,
            around=tuple(given.get("around", ())),
        )
        run.journal = QuestionForwarder(self._store, run, run_id, key)
        enter(scope)
        continued(given.get("span", ""))
        node = replace(found.node, places=None)  # the driver of the run limits the number of concurrent operators
        log.write(OperatorStarted(), path, path[-1], given["round"], 1)
        began, ended = log.now(), partial(log.write, path=path, operator_id=path[-1], round=given["round"])
        try:
            async with run.connections:
                outcome = await outcome_of_work(lambda: perform(node, call, scope), scope)
        except BudgetError as error:  # the driver does not store this outcome, but needs the usage
            outcome = Outcome(None, error, scope.usage, tuple(scope.kept or ()), traced.get())
        except BaseException:
            ended(OperatorCancelled(seconds=log.now() - began, usage=scope.usage), attempt=scope.attempt)
            raise
        seconds = log.now() - began
        if outcome.message is not None:
            ended(OperatorFinished(seconds=seconds, message=outcome.message), attempt=scope.attempt)
        elif outcome.error is not None:
            failed = OperatorFailed(seconds=seconds, usage=outcome.usage, error=describe(outcome.error))
            ended(failed, attempt=scope.attempt)
        return outcome

    # Heartbeat, and dead workers

    def _beat(self) -> None:
        """Record heartbeats, and periodically look for dead workers and lost requests; runs in its own thread."""
        well_since = beaten = looked = searched = time.monotonic()
        while not self._leaving.wait(BEAT if self._tasks else self._idle_beat):
            doing = tuple(self._tasks)
            try:
                self._store.beat(replace(self.executor, doing=doing))
                now = time.monotonic()
                if now - beaten > self.executor.limit:
                    well_since = (
                        now  # this worker was silent, perhaps as others were: count no worker as dead for a while
                    )
                beaten = now
                self._stop_lost_work(doing)
                if now - looked > self.executor.limit / 5:
                    looked = now
                    self._take_over(now - well_since)
                if now - searched > self.executor.limit:
                    searched = now
                    self._give_back_lost()
            except self._store.database.errors:
                well_since = time.monotonic()
            except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed
                _logger.warning("cannot check other workers, will try again: %s", error)

    def _stop_lost_work(self, doing: Sequence[str]) -> None:
        """Stop work that was cancelled, or given to another worker while this process was silent."""
        if not doing:
            return
        still_mine = self._begun(workflow_ids=list(doing), executor_id=self.executor.id)
        for step_id in set(doing) - {step.workflow_id for step in still_mine}:
            if task := self._tasks.get(step_id):
                self._loop.call_soon_threadsafe(task.cancel)

    def _begun(self, **which: Any) -> Sequence[Any]:
        """Return the requests among some that were begun and have not ended."""
        return self._client.list_workflows(**which, status="PENDING", load_input=False, load_output=False)

    def _give_back_lost(self) -> None:
        """Give back requests of this worker that are not executed: dbos lost them when the database failed."""
        mine = self._begun(executor_id=self.executor.id, queue_name=list(self.executor.queues))
        idle = {step.workflow_id: step.queue_name or "" for step in mine if step.workflow_id not in self._tasks}
        for step_id in self._idle & idle.keys():
            if self._return_to(idle[step_id], step_id, self.executor.id):
                _logger.warning("%s: starts anew, because the database failed while it was taken or finished", step_id)
        self._idle = set(idle)

    def _return_to(self, queue: str, step_id: str, begun_by: str) -> bool:
        """Put a request back into its queue, and wake the workers; see `give_back` of `dbos_process`."""
        give_back = import_module("operad.runtime.durable.dbos_process").give_back
        returned = give_back(self._client, step_id, begun_by, queue)
        if returned:
            self._wakeups.send(queue)
        return returned

    def _take_over(self, well: float) -> None:
        """Give requests of dead workers back to the queue, if this worker has been well for long enough.

        Args:
            well: Seconds since which this worker has had regular heartbeats and a working database.
        """
        dead = [each for each in self._store.executors() if each.kind == "worker" and self._watch.is_dead(each)]
        if not dead or well <= self.executor.limit:
            return
        self._give_back([executor.id for executor in dead], died=True)
        for executor in dead:
            if executor.silent > 10 * executor.limit:
                self._store.leave(executor.id)

    def _give_back(self, executor_ids: Sequence[str], *, died: bool = False) -> None:
        """Give the unfinished requests of workers back; if they `died`, give up requests with too many deaths."""
        for step in self._begun(executor_id=list(executor_ids), queue_name=list(self.executor.queues)):
            step_id, queue = step.workflow_id, step.queue_name or ""
            if died:
                run_id = step_id.partition(":")[0]
                deaths = self._store.count_takeover(run_id, step_id, step.executor_id or "")
                if len(deaths) >= MAX_DEATHS:
                    _logger.warning("%s: given up, because %d workers died while executing it", step_id, len(deaths))
                    self._client.cancel_workflow(step_id)
                    continue
            # only if that worker still has it: another dead one may have started it since, whose death must be counted
            recovered = self._return_to(queue, step_id, step.executor_id or "")
            if recovered and died:
                _logger.warning("%s: starts anew, because its worker died", step_id)


class _RunOfOneOperator(Run):
    """Run of which this process executes a single operator."""

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the transcript sent with the request."""
        return self._call.transcript


class _StoppedError(BaseException):
    """Error that ends stopped work, so that dbos records no outcome."""
