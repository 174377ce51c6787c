"""Worker: executes operators of runs that other processes drive."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.database_names import database_url, file_store, with_workers
from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.process_ids import new_executor_id, process_identity, version_here
from operad.runtime.durable.replay import asked_before, kept_part, kept_question, outcome_of_work
from operad.runtime.durable.run_owner import BEAT, LIMIT
from operad.runtime.durable.shared_agents import Found, Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import Executor
from operad.runtime.durable.threads import in_new_thread, in_thread
from operad.runtime.durable.work_table import Claim, delivery_queue
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
from operad.runtime.events.journal import key_of
from operad.runtime.events.log import traced
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.observe.tracing import continued
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.values.errors import BudgetError, InputError, OperadError, describe, internal_text
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.attempts import perform
from operad.runtime.workflow.run import Run

if TYPE_CHECKING:
    from operad.runtime.durable.delivery import Delivered


POLL = 0.5
"""Seconds between two reads of an answer from the database."""


class QuestionForwarder:
    """Journal of an operator in a worker, which forwards its questions to the driver of the run; see `StepJournal`.

    Args:
        run: The run of the operator in this process.

    Attributes:
        has_parts: True if parts of the operator's work are stored.
    """

    def __init__(self, store: Store, run: Run, run_id: str, key: str) -> None:
        self._store = store
        self._run = run
        self._run_id = run_id
        self._key = key
        self._parts: dict[str, Mapping[str, str]] = {}
        self.has_parts = False
        self._polls: set[asyncio.Task[None]] = set()

    async def perform(self, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        """Do the operator's work, whose outcome the worker stores."""
        return await perform(node, call, scope)

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """Do a part of the operator's work, which is not stored."""
        return await work()

    async def parts(self, scope: Scope) -> Mapping[str, str]:
        """See `StepJournal.parts`."""
        key = key_of(scope)
        if key not in self._parts:
            self._parts[key] = await in_thread(self._store.parts, self._run_id, key)
            self.has_parts |= bool(self._parts[key])
        return self._parts[key]

    async def keep_part(self, scope: Scope, name: str, value: str) -> None:
        """See `StepJournal.keep_part`."""
        if (part := kept_part(self._run_id, key_of(scope), name, value)) is not None:
            self.has_parts = True
            await in_thread(self._store.keep_part, part)

    async def asked_before(self, scope: Scope) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """See `StepJournal.asked_before`."""
        return await asked_before(self._store, self._run_id, self._key)

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """Store a question, and return its answer if there is one; otherwise, wait for it in the background."""
        answer = await in_thread(self._store.ask, kept_question(self._run_id, self._key, question))
        if answer is not None:
            return (json.loads(answer),)
        poll = asyncio.ensure_future(self._wait_for(question.id))
        self._polls.add(poll)
        poll.add_done_callback(self._polls.discard)
        return None

    async def _answer(self, question_id: str) -> tuple[str | None, str]:
        """Return the stored answer to a question, None if there is none yet, and the name of the person who gave it."""
        kept = await in_thread(self._store.questions, self._run_id)
        found = ((each.answer, each.by) for each in kept if each.step == self._key and each.id == question_id)
        return next(found, (None, ""))

    async def _wait_for(self, question_id: str) -> None:
        """Poll the database for the answer to a question, and give it to the operator."""
        while question_id in self._run.questions.asked:
            await asyncio.sleep(POLL)
            answer, by = await self._answer(question_id)
            if answer is not None and question_id in self._run.questions.asked:
                self._run.questions.answer({question_id: json.loads(answer)}, by)
                return

    async def keep_answer(self, question: Question, value: JsonValue, scope: Scope, by: str) -> JsonValue:
        """Return the answer, which came from the database."""
        return value


_logger = logging.getLogger(__name__)

MAX_DEATHS = 3
"""Number of workers that may die while executing an operator before it is given up."""

MOST_COUNTED = 1000
"""Maximum number of waiting operators that are counted per queue."""


class Worker:
    """Worker that takes requests for the operators of some agents from a database, and executes them.

    Args:
        url: The database, as for a `Ledger`.
        concurrency: Maximum number of operators at once for each item of `served`.
        files: Store for files that operators create, as for a `Ledger`.
        limit: Seconds without a heartbeat after which this process counts as dead.
        version: Version of the code; requests of other versions are left to other workers.
        listeners: Functions that are called with every event of the operators that this worker executes.

    Raises:
        InputError: The database is not PostgreSQL.
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
        self.url = with_workers(database_url(url))
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
        self._doing: dict[str, str] = {}
        self._with_parts = set[str]()
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
        count = self._store.work.waiting
        return {queue: count(queue, self.executor.version, MOST_COUNTED) for queue in self.executor.queues}

    async def serve(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Execute requests until `stop` is set; then take no more requests, and finish those in progress.

        Args:
            stop: Event that ends the work.
            grace: Seconds for operators in progress to finish; the others are stopped, and left to other workers.

        Raises:
            InputError: The database cannot be reached or used.
        """
        self._loop = asyncio.get_running_loop()
        self._leaving = threading.Event()
        self._stopping = False
        cleanup = ExitStack()
        try:
            store = self._store = await in_thread(Store, self.url)
            cleanup.callback(store.close)
            await in_thread(delivery().set_up, store.database)
            # The first heartbeat is recorded before any request is taken: a process without a heartbeat counts as dead.
            await in_thread(store.database.with_retries, partial(store.beat, self.executor))
            cleanup.callback(store.leave, self.executor.id)
            presence = threading.Thread(target=self._beat, name="operad-presence", daemon=True)
            presence.start()
            cleanup.callback(self._stop_beating, presence)
            self._claims = GroupCommit(partial(store.work.claim, self.executor.id), "operad-claims")
            self._ends = GroupCommit(partial(store.work.end, self.executor.id), "operad-outcomes")
            await self._take_requests(stop, grace)
        finally:
            await asyncio.wrap_future(in_new_thread(cleanup.close, "operad-stop"))

    async def _take_requests(self, stop: asyncio.Event, grace: float) -> None:
        """Execute requests until `stop` is set, and for up to `grace` seconds those in progress; then give them back."""
        queues = [delivery_queue(queue, self.executor.version) for queue in self.executor.queues]
        deliveries = delivery().Deliveries(
            self._store.database, queues, self.executor.concurrency, self.executor.limit, self._handle
        )
        # In an event loop of its own, the queue gives signs of life also while an operator blocks that of the worker.
        running = asyncio.wrap_future(in_new_thread(lambda: asyncio.run(deliveries.run()), "operad-queue"))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([stopped, running], return_when=asyncio.FIRST_COMPLETED)
            deliveries.stop()
            await asyncio.wait([running], timeout=grace)
        finally:
            stopped.cancel()
            deliveries.stop()
            self._stopping = True
            for task in list(self._tasks.values()):
                task.cancel()
            await asyncio.shield(running)

    def _stop_beating(self, presence: threading.Thread) -> None:
        self._leaving.set()
        presence.join(5.0)

    # Work

    async def _handle(self, work_id: str) -> Delivered:
        """Handle delivered work; called in the event loop of the queue."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._execute(work_id), self._loop))

    async def _execute(self, work_id: str) -> Delivered:
        """Claim delivered work, execute it, and record its outcome."""
        delivered = delivery().Delivered
        try:
            if self._stopping:
                return delivered.AGAIN
            claim = await self._claims.put(work_id)
            if claim is None:
                return delivered.DONE
            text = await self._outcome_text(claim)
            if text is not None and await self._ends.put((claim, text)):
                if (step_id := f"{claim.run_id}:{claim.key}") in self._with_parts:
                    self._with_parts.discard(step_id)
                    await in_thread(self._store.forget_parts, claim.run_id, claim.key)
                return delivered.DONE
            is_mine = await in_thread(self._store.work.give_back, self.executor.id, claim)
            return delivered.AGAIN if is_mine else delivered.TAKEN if is_mine is None else delivered.DONE
        except Exception as error:
            _logger.exception("%s: a fault of operad; the request is delivered again: %s", work_id, describe(error))
            return delivered.TAKEN

    async def _outcome_text(self, claim: Claim) -> str | None:
        """Execute claimed work, and return its outcome as text; None if it was stopped."""
        step_id = f"{claim.run_id}:{claim.key}"
        if len(claim.deaths) >= MAX_DEATHS:
            _logger.warning("%s: given up, because %d workers died while executing it", step_id, len(claim.deaths))
            return self._codec.dump(Outcome(error=poisoned(claim)))
        if claim.deaths:
            _logger.warning("%s: starts anew, because its worker died", step_id)
        if self._stopping:
            return None
        task = self._tasks[claim.id] = asyncio.ensure_future(self._text_of(step_id, claim.request))
        self._doing[claim.id] = step_id
        try:
            await asyncio.wait([task])
        finally:
            del self._tasks[claim.id], self._doing[claim.id]
        return None if task.cancelled() else task.result()

    async def _text_of(self, step_id: str, request: str) -> str:
        """Execute a request, and return its outcome as text."""
        try:
            given = await in_thread(self._codec.load, request, dict)
            found = self._served[given["queue"]].find(given["address"])
            return await in_thread(self._codec.dump, await self._outcome(step_id, given, found))
        except OperadError as error:
            return self._codec.dump(Outcome(error=error))
        except Exception as error:  # noqa: BLE001 - the outcome reports the error to the driver
            unreadable = InputError(
                f"the worker cannot read its request: {describe(error)}; was it written by another program?"
            )
            return self._codec.dump(Outcome(error=unreadable))

    async def _outcome(self, step_id: str, given: dict[str, Any], found: Found) -> Outcome:
        """Execute an operator, and return its outcome.

        Args:
            step_id: Id of the work among all runs.
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
        run.journal = journal = QuestionForwarder(self._store, run, run_id, key)
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
        if journal.has_parts:
            self._with_parts.add(step_id)
        seconds = log.now() - began
        if outcome.message is not None:
            ended(OperatorFinished(seconds=seconds, message=outcome.message), attempt=scope.attempt)
        elif outcome.error is not None:
            error, internal = describe(outcome.error), internal_text(outcome.error)
            failed = OperatorFailed(seconds=seconds, usage=outcome.usage, error=error, internal=internal)
            ended(failed, attempt=scope.attempt)
        return outcome

    # Heartbeat

    def _beat(self) -> None:
        """Record heartbeats, and stop work that was cancelled or taken over; runs in its own thread."""
        while not self._leaving.wait(BEAT if self._tasks else self._idle_beat):
            doing = dict(self._doing)
            try:
                self._store.beat(replace(self.executor, doing=tuple(doing.values())))
                for work_id in doing.keys() - (self._store.work.held(self.executor.id, [*doing]) if doing else set()):
                    if task := self._tasks.get(work_id):
                        self._loop.call_soon_threadsafe(task.cancel)
            except self._store.database.errors:
                continue  # the database cannot be reached at the moment, by any process
            except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed
                _logger.warning("the heartbeat failed, will try again: %s", describe(error))


class _RunOfOneOperator(Run):
    """Run of which this process executes a single operator."""

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the transcript sent with the request."""
        return self._call.transcript


def poisoned(claim: Claim) -> InputError:
    """Return the error for an operator that is given up because several workers died while executing it."""
    return InputError(
        f"operator {claim.key!r} of run {claim.run_id!r} was given up: {len(claim.deaths)} workers died while executing it "
        f"({', '.join(claim.deaths)}); find out why, then: operad runs resume {claim.run_id}"
    )


def delivery() -> Any:
    """Return the module `delivery`, which is imported when it is used, because it takes half a second."""
    return import_module("operad.runtime.durable.delivery")
