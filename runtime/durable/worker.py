"""A worker: it does the operators of runs that other processes drive."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.drive import in_thread, outcome_of_work
from operad.runtime.durable.driver import BEAT, LIMIT
from operad.runtime.durable.places import (
    database_url,
    file_store,
    new_executor_id,
    process_identity,
    version_here,
)
from operad.runtime.durable.remote import MAX_DEATHS
from operad.runtime.durable.rows import Executor, KeptQuestion
from operad.runtime.durable.served import Found, Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.durable.store import Store
from operad.runtime.durable.watch import Watch
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
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.insights import RunInsights
from operad.runtime.observe.tracing import continued
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.values.errors import BudgetError, InputError, OperadError, describe
from operad.runtime.values.message import StepRecord, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.workflow.perform import perform
from operad.runtime.workflow.run import Run

if TYPE_CHECKING:
    from dbos import DBOSClient

_logger = logging.getLogger(__name__)

_LOOK = 0.5

MOST_COUNTED = 1000
"""How many of the operators that wait in a queue are counted."""


class Worker:
    """Takes the work of some agents from a database, and does it.

    Args:
        url: The database, as for a `Ledger`.
        served: The agents.
        concurrency: How many operators of each of these at once.
        files: Where files that operators make are kept, as for a `Ledger`.
        limit: Seconds without a sign of life after which this process counts as dead.
        version: Of the code; work of another is left to others.
        listeners: Called with every event of the operators that it does.

    Raises:
        InputError: The database cannot be used, or this process serves one already.
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
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self._watch = Watch()

    @property
    def busy(self) -> int:
        """How many operators it is at."""
        return len(self._tasks)

    def waiting(self) -> dict[str, int]:
        """How many operators wait in each queue that it serves, for whomever; it counts to `MOST_COUNTED`.

        Raises:
            Exception: The database cannot be asked; or it does not serve yet, or any more.
        """
        counted = partial(self._client.list_workflows, status="ENQUEUED", limit=MOST_COUNTED)
        return {
            queue: len(counted(queue_name=queue, load_input=False, load_output=False)) for queue in self.executor.queues
        }

    async def serve(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Work until told to stop; then take no more, and finish what is under way.

        Args:
            stop: What tells it.
            grace: Seconds for that; what takes longer is stopped, and left to other workers.
        """
        self._loop = asyncio.get_running_loop()
        dbos_process = import_module("operad.runtime.durable.dbos_process")
        store = self._store = await in_thread(Store, self.url)
        self._client: DBOSClient = await in_thread(store.insist, partial(dbos_process.client, self.url), 0.0)
        await in_thread(
            store.insist, partial(store.beat, self.executor)
        )  # before anything is taken: who has no sign of life is dead
        presence = threading.Thread(target=self._go, name="operad-presence", daemon=True)
        self._leaving = threading.Event()
        self._stopping = False
        presence.start()
        self._process: Any = await in_thread(store.set_up, partial(self._launch, dbos_process))
        try:
            await stop.wait()
            await in_thread(self._process.stop, round(grace))
        finally:
            await self._stop_all()
            await in_thread(self._leave, presence)

    def _launch(self, dbos_process: Any) -> Any:
        return dbos_process.launch(
            self.url,
            self.executor.id,
            self._perform,
            queues=self.executor.queues,
            concurrency=self.executor.concurrency,
            version=self.executor.version,
        )

    async def _stop_all(self) -> None:
        self._stopping = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _leave(self, presence: threading.Thread) -> None:
        self._process.stop()  # until it has, it takes again what is given back; who is cancelled may not have said so
        self._leaving.set()
        presence.join(5.0)
        self._give_back([self.executor.id])
        self._store.leave(self.executor.id)
        self._client.destroy()
        self._store.close()

    # Work

    def _perform(self, step_id: str, request: str) -> str:
        """Do an operator's work; in a thread of dbos."""
        try:
            return asyncio.run_coroutine_threadsafe(self._tracked(step_id, request), self._loop).result()
        except (asyncio.CancelledError, CancelledError) as error:
            raise _StoppedError from error

    async def _tracked(self, step_id: str, request: str) -> str:
        if self._stopping:  # it was taken just before no more was to be
            raise asyncio.CancelledError
        task = self._tasks[step_id] = asyncio.ensure_future(self._do(step_id, request))
        try:
            return await task
        finally:
            if self._tasks.get(step_id) is task:
                del self._tasks[step_id]

    async def _do(self, step_id: str, request: str) -> str:
        try:
            given = await in_thread(self._codec.load, request, dict)
            found = self._served[given["queue"]].find(given["address"])
            outcome = await self._outcome(step_id, given, found)
            return await in_thread(self._codec.dump, outcome)
        except OperadError as error:
            return self._codec.dump(Outcome(error=error))
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            odd = InputError(
                f"a worker cannot read what it was given, {describe(error)}; was it written by something else?"
            )
            return self._codec.dump(Outcome(error=odd))

    async def _outcome(self, step_id: str, given: dict[str, Any], found: Found) -> Outcome:
        run_id = step_id.partition(":")[0]
        build = found.build
        call = OperatorCall(
            found.reasoner,
            given["job"],
            tuple(given["messages"]),
            tuple(given["previous"]),
            given["lesson"],
            tuple(given["transcript"]),
            given["judged"],
        )
        insights = RunInsights(found.insights) if found.insights else None
        path = tuple(given["path"])
        log = RunLog(run_id, self._listeners)
        run = _Alone(build, call, log, prefix=path[:-1], insights=insights)
        run.spend(given["used"])
        around = [Limiter.of(name, Limits(None, requests, tokens)) for name, requests, tokens in given["limits"]]
        run.calls = (*around, *run.calls)
        run.shared_limits = LimitsInDatabase(self._store, given["queue"], self.executor.id)
        key = step_id.partition(":")[2]
        scope = Scope(run=run, path=path, operator_id=path[-1], round=given["round"], kept=[], key=key)
        run.journal = _Asking(self._store, run, run_id, key)
        enter(scope)
        continued(given.get("span", ""))
        node = replace(found.node, places=None)  # who drives the run has taken one
        log.write(OperatorStarted(), path, path[-1], given["round"], 1)
        began, ended = log.now(), partial(log.write, path=path, operator_id=path[-1], round=given["round"])
        try:
            outcome = await outcome_of_work(lambda: perform(node, call, scope), scope)
        except BudgetError as error:  # it is not kept, but whoever drives the run has to know what it cost
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

    # Signs of life, and those of others

    def _go(self) -> None:
        well_since = beaten = time.monotonic()
        while not self._leaving.wait(BEAT):
            doing = tuple(self._tasks)
            try:
                self._store.beat(replace(self.executor, doing=doing))
                now = time.monotonic()
                if now - beaten > self.executor.limit:
                    well_since = now  # it was silent itself, as all may have been: nobody is judged yet
                beaten = now
                self._stop_what_is_not_mine(doing)
                self._take_over(self._dead(), now - well_since)
            except self._store.errors:
                well_since = time.monotonic()
            except Exception as error:  # noqa: BLE001 - the next beat may do better
                _logger.warning("looking after other workers: %s", error)

    def _stop_what_is_not_mine(self, doing: Sequence[str]) -> None:
        """Stop work that was cancelled, or that another was given while this process was silent."""
        if not doing:
            return
        mine = {
            step.workflow_id
            for step in self._client.list_workflows(
                workflow_ids=list(doing),
                status="PENDING",
                executor_id=self.executor.id,
                load_input=False,
                load_output=False,
            )
        }
        for step_id in set(doing) - mine:
            if task := self._tasks.get(step_id):
                self._loop.call_soon_threadsafe(task.cancel)

    def _dead(self) -> list[Executor]:
        return [each for each in self._store.executors() if each.kind == "worker" and self._watch.is_dead(each)]

    def _take_over(self, dead: Sequence[Executor], well: float) -> None:
        """Give what dead workers had begun to those that live, once this one is well for long enough."""
        if not dead or well <= self.executor.limit:
            return
        self._give_back([each.id for each in dead], died=True)
        for each in dead:
            if each.silent > 10 * each.limit:
                self._store.leave(each.id)

    def _give_back(self, executor_ids: Sequence[str], *, died: bool = False) -> None:
        begun = self._client.list_workflows(
            status="PENDING",
            executor_id=list(executor_ids),
            queue_name=list(self.executor.queues),
            load_input=False,
            load_output=False,
        )
        for step in begun:
            step_id, queue = step.workflow_id, step.queue_name or ""
            if died:
                run_id = step_id.partition(":")[0]
                deaths = self._store.count_takeover(run_id, step_id, step.executor_id or "")
                if len(deaths) >= MAX_DEATHS:
                    _logger.warning("%s: %d workers died over it; it is given up", step_id, len(deaths))
                    self._client.cancel_workflow(step_id)
                    continue
            recovered = import_module("operad.runtime.durable.dbos_process").give_back(
                self._client, step_id, executor_ids, queue
            )
            if recovered and died:
                _logger.warning("%s: its worker died; it is begun anew", step_id)


class _Alone(Run):
    """A run of which one operator is done here, and the rest elsewhere."""

    def transcript(self) -> tuple[StepRecord, ...]:
        """What was sent along."""
        return self._call.transcript


class _Asking:
    """Has questions of operators put by whoever drives their run."""

    def __init__(self, store: Store, run: Run, run_id: str, key: str) -> None:
        self._store = store
        self._run = run
        self._run_id = run_id
        self._key = key
        self._polls: set[asyncio.Task[None]] = set()

    async def perform(self, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        return await perform(node, call, scope)

    async def once(self, name: str, scope: Scope, work: Any) -> WorkflowMessage:
        return await work()

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        schema = json.dumps(question.schema_) if question.schema_ is not None else ""
        await in_thread(self._store.ask, KeptQuestion(self._run_id, self._key, question.id, question.text, schema))
        if (answer := await self._answer(question.id)) is not None:
            return (json.loads(answer),)
        poll = asyncio.ensure_future(self._wait_for(question.id))
        self._polls.add(poll)
        poll.add_done_callback(self._polls.discard)
        return None

    async def _answer(self, question_id: str) -> str | None:
        kept = await in_thread(self._store.questions, self._run_id)
        return next((each.answer for each in kept if each.step == self._key and each.id == question_id), None)

    async def _wait_for(self, question_id: str) -> None:
        while question_id in self._run.questions.asked:
            await asyncio.sleep(_LOOK)
            if (answer := await self._answer(question_id)) is not None and question_id in self._run.questions.asked:
                self._run.questions.answer({question_id: json.loads(answer)})
                return

    async def keep_answer(self, question_id: str, value: JsonValue, scope: Scope) -> None:
        """It is where it came from."""


class _StoppedError(BaseException):
    """The work was stopped, and nothing is to be recorded."""
