"""Ledger: a database of runs, which outlive the process that drives them; and workflows whose runs are stored."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.database_names import display_name, with_workers
from operad.runtime.durable.description import describe_workflow, leaves, refuse_changed, refuse_other_job
from operad.runtime.durable.history import Recorder
from operad.runtime.durable.records import LOOK, Records
from operad.runtime.durable.remote import RemoteExecutor
from operad.runtime.durable.replay import Replay, allowed_before
from operad.runtime.durable.run_owner import BEAT, LIMIT, DrivenRun, RunOwner, leave, owner_of, run_in_progress
from operad.runtime.durable.run_writer import committed
from operad.runtime.durable.shared_agents import Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.durable.tables import (
    ASKS,
    CANCELLED,
    DONE,
    FAILED,
    FINISHED,
    RUNNING,
    UNDER_WAY,
    Executor,
    Retention,
    StepRow,
    StoredRun,
    check_id,
)
from operad.runtime.durable.threads import in_thread
from operad.runtime.durable.work_table import taken_over
from operad.runtime.events import (
    Event,
    OperatorCancelled,
    OperatorFailed,
    OperatorFinished,
    OperatorSkipped,
    RunFinished,
)
from operad.runtime.events.journal import bare
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import causes
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, OperadError, describe
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.runs import LiveRun
from operad.runtime.workflow.workflow import BuiltinWorkflow, T, Workflow

_logger = logging.getLogger(__name__)


class _BegunRun(NamedTuple):
    """Stored run that this process drives, or that has finished.

    Attributes:
        run: Its record.
        steps: Records of its operators that have an outcome, by key.
        earlier: Its events; None for a new run.
        part: Number of the last part of its events.
    """

    run: StoredRun
    call: OperatorCall
    steps: Mapping[str, StepRow]
    earlier: Sequence[Event] | None = None
    part: int = 0


class Ledger(Records):
    """Store of durable runs in a database, and driver of these runs.

    A run that was interrupted, by a crash or the end of its process, resumes when it is executed with the same id
    again, in any process: operators that had finished do not run again.

        with Ledger("runs.db") as ledger:  # closes it
            print(Workflow(facts >> answer, durable=ledger).run("Is this so?", run_id="r1").text)

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        source: Source of the workflows, any JSON value, with which a command can resume the runs.
        workers: Agents whose operators workers execute; None to execute all operators in this process.
        files: Store for files that operators create: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.
        limit: Seconds without a heartbeat after which this process counts as dead.
        retention: Rule that deletes finished runs when another run of the workflow finishes; None to delete none.

    Raises:
        InputError: The database's name is not valid, or it is an SQLite file and there are workers.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        source: JsonValue = None,
        workers: Served | None = None,
        files: str | Path | None = None,
        limit: float = LIMIT,
        retention: Retention | None = None,
    ) -> None:
        super().__init__(url, files=files)
        if workers is not None:
            with_workers(self.url)
        self.source = source
        self.workers = workers
        self._limit = limit
        self._retention = retention

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. Runs of this ledger that are running or paused are cancelled, and can be resumed."""
        leave(self.url, self)
        super().close()

    async def execute(self, workflow: Workflow, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Execute a new run, or resume a stored one.

        Args:
            run: A run of the workflow that has not begun.

        Returns:
            The message of the run; the stored message if the run has already finished.

        Raises:
            InputError: Another process drives the run, the run failed or has another job, or the workflow was changed.
            Exception: The errors of `Workflow.aexecute`.
        """
        run_id = run.log.run_id
        check_id(run_id)
        driver = await owner_of(self.url, self._limit, self)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        driven_run = await driver.register(run_id, task, run, self)
        try:
            kept = await self._begun(driven_run, driver, run_id, workflow, call)
            if kept.run.result:
                message, rounds = await in_thread(self._result, kept.run)
                run.restore(message, rounds, await in_thread(self._messages, run_id))
                return message
            return await self._execute_kept(run, kept, driver, driven_run)
        except BaseException:
            if not driven_run.ending:  # the end is not recorded: any process may resume the run
                await driver.writer.release(run_id)
            raise
        finally:
            driver.unregister(run_id)

    async def _execute_kept(
        self, run: Run, kept: _BegunRun, driver: RunOwner, driven_run: DrivenRun
    ) -> WorkflowMessage:
        """Execute a stored run that this process drives, and record its progress and end."""
        run_id = kept.run.run_id
        run.set_input(kept.call)
        dispatch = await driver.dispatch() if self.workers is not None else None
        remote = None
        if self.workers is not None and dispatch is not None:
            remote = RemoteExecutor(dispatch, self.workers, self.codec, self.store, driver.executor)
        recorder = Recorder(run.log, driver.writer, kept.part, kept.earlier)
        replay = Replay(
            run_id, self.store, self.codec, kept.steps, recorder, remote, is_resumed=kept.earlier is not None
        )
        run.journal = replay
        if kept.earlier is not None:
            run.questions.allowed |= allowed_before(await in_thread(self.store.questions, run_id))
        group = self.workers.queue if self.workers else hashlib.sha256(kept.run.graph.encode()).hexdigest()
        run.shared_limits = LimitsInDatabase(self.store.calls, group, driver.executor.id)
        progress = asyncio.ensure_future(self._record_progress(run, replay, recorder, remote))
        record_end = partial(self._record_end, run, replay, recorder)
        driven_run.executing = True
        try:
            try:
                message = await run.execute()
            finally:
                driven_run.executing, driven_run.ending = False, True
                progress.cancel()
        except asyncio.CancelledError:
            if driven_run.lost:
                raise taken_over(run_id) from None
            if driven_run.cancelled:
                await record_end(CANCELLED)
                raise InputError(f"run {run_id!r} was cancelled; to resume it: operad runs resume {run_id}") from None
            await record_end(ASKS if await in_thread(self.questions, run_id) else RUNNING)
            raise
        except Exception as error:
            if lacks_deps(error) or replay.unstored in causes(
                error
            ):  # the run continues once it has them, or a database
                await record_end(ASKS if await in_thread(self.questions, run_id) else RUNNING)
            else:
                await record_end(FAILED, error=error)
            raise
        await record_end(FINISHED, message=message)
        if self._retention is not None:
            with suppress(OperadError):  # runs that are not deleted now are deleted when the next run finishes
                await in_thread(self.retire, kept.run.workflow, self._retention)
        return message

    async def _begun(self, driven_run: DrivenRun, *given: Any) -> _BegunRun:
        """See `_begin`. A cancellation waits until it is known whether this process drives the run."""
        beginning = asyncio.ensure_future(self._begin(driven_run, *given))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            driven_run.abandoned.set()
            with suppress(OperadError):
                await asyncio.shield(beginning)
            raise

    async def _begin(
        self, driven_run: DrivenRun, driver: RunOwner, run_id: str, workflow: Workflow, call: OperatorCall
    ) -> _BegunRun:
        """Create a run, or become the driver of an unfinished one; return its record.

        Raises:
            InputError: Another process drives the run, the run failed or has another job, or the workflow was changed.
        """
        graph, new = await in_thread(self._new_run, driver.executor.id, run_id, workflow, call)
        if await driver.writer.create(new.run):
            return new
        kept = await in_thread(self._resumable_run, run_id, graph, call)
        while kept.state != FINISHED and kept.driver != driver.executor.id:
            await self._take_over(kept, driver, driven_run)
            kept = await in_thread(self._resumable_run, run_id, graph, call)  # it may have ended meanwhile
        return await in_thread(self._kept_run, kept, driver.executor.id, call.reasoner)

    def _new_run(
        self, driver_id: str, run_id: str, workflow: Workflow, call: OperatorCall
    ) -> tuple[Mapping[str, Any], _BegunRun]:
        """Return the description of a workflow, and the record of a new run of it."""
        given = {"job": call.job, "messages": [*call.messages], "previous": [*call.previous], "lesson": call.lesson}
        graph = describe_workflow(workflow)
        run = StoredRun(
            run_id,
            workflow=workflow.name,
            source=json.dumps(self.source),
            graph=json.dumps(graph),
            call=self.codec.dump(given),
            driver=driver_id,
            total=leaves(graph),
            started_by=call.job.started_by,
        )
        return graph, _BegunRun(run, self._call_of(run, call.reasoner), {})

    def fire(self, schedule: str, since: float, at: float, run: tuple[str, Workflow, OperatorCall] | None) -> bool:
        """Store a run that a schedule starts, which `execute` then drives; return False if another server was first.

        Args:
            schedule: Name of the schedule.
            since: Its last firing, as `store.schedules.last` returned it.
            at: Its time that fires.
            run: Id, workflow and input of the run; None to skip the firing.
        """
        stored = None if run is None else replace(self._new_run("", *run)[1].run, drives=0)
        return self.store.schedules.fire(schedule, since, at, stored)

    def _resumable_run(self, run_id: str, graph: Any, call: OperatorCall) -> StoredRun:
        """Return a stored run that has finished or may be resumed."""
        kept = self._existing_run(run_id)
        refuse_other_job(kept.run_id, self._call_of(kept, call.reasoner).job, call.job)
        refuse_changed(kept, graph)
        if kept.state == FAILED:
            again = f"Ledger({display_name(self.url)!r}).retry({run_id!r}), then execute it with the same run_id"
            raise InputError(
                f"run {run_id!r} failed: {kept.error}\n  finished operators are kept; to run the failed operators again: "
                f"{again if self.source is None else f'operad runs resume {run_id}'}"
            )
        return kept

    def _kept_run(self, kept: StoredRun, driver_id: str, reasoner: Reasoner) -> _BegunRun:
        """Return a stored run with its input, and unless it has finished, with its outcomes and the events that hold."""
        call = self._call_of(kept, reasoner)
        if kept.result:
            return _BegunRun(kept, call, {})
        steps = self._kept_outcomes(kept.run_id)
        return _BegunRun(kept, call, steps, *self._settle(kept, driver_id, steps))

    async def _take_over(self, kept: StoredRun, driver: RunOwner, driven_run: DrivenRun) -> None:
        """Try to become the driver of a run whose driver is dead; if that is not certain, wait until it is.

        Raises:
            InputError: The driver is alive, or this process abandoned the run.
        """
        living = await in_thread(self._living_driver_of, kept)
        if living is not None:
            await self._wait_for_sign_of(living, kept, driven_run)
        else:
            await driver.writer.take(kept)

    def _living_driver_of(self, kept: StoredRun) -> Executor | None:
        """Return the driver of a run, unless it is known to be dead."""
        driver = self._driver_of(kept)
        return None if driver is None or self.watch.is_dead(driver) else driver

    async def _wait_for_sign_of(self, driver: Executor, kept: StoredRun, driven_run: DrivenRun) -> None:
        """Wait until the driver of a run is known to be dead."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(driven_run.abandoned.wait(), LOOK)
                raise InputError(f"run {kept.run_id!r} was cancelled before this process took it over")
            now = await in_thread(self._living_driver_of, kept)
            if now is None:
                return
            if now.beat != driver.beat:
                raise InputError(
                    f"run {kept.run_id!r} is being driven by {driver.id}, whose last heartbeat was just now; "
                    "wait for the run, or cancel it there"
                )

    def to_resume(self, run_id: str, workflow: Any, reasoner: Reasoner) -> OperatorCall | None:
        """Return the input of a run without a driver; None if a process drives the run. May block.

        Args:
            workflow: The workflow with which the run continues.
            reasoner: The reasoner with which the run continues.

        Raises:
            InputError: No run has this id, its input cannot be read, or it started with another workflow.
        """
        kept = self._existing_run(run_id)
        refuse_changed(kept, describe_workflow(workflow))
        return None if self.is_driven(kept) else self._call_of(kept, reasoner)

    def live_run(self, run_id: str) -> LiveRun | None:
        """Return a run in progress in this process, also if another `Workflow` object started it; None if there is none."""
        return run_in_progress(self.url, run_id)

    def unfinished(self, run_id: str, graph: WorkflowGraph) -> Collection[BaseOperator] | None:
        """Return the operators of a stored run that have not finished; None if all of them may run. May block.

        In a workflow with evaluators, all operators may run again until the run has finished.
        """
        kept = self.store.run(run_id)
        if kept is None or (graph.evaluators and not kept.result):
            return None
        if kept.result:
            return ()
        paths = [bare(row.key)[0] for row in self.steps.of_run(run_id) if row.status == DONE]
        done = {path[0] for path in paths if len(path) == 1}
        return [operator for name, operator in graph.operators.items() if name not in done]

    def _call_of(self, kept: StoredRun, reasoner: Reasoner) -> OperatorCall:
        """Return the stored input of a run, with the given reasoner."""
        given = self._input_of(kept)
        messages, previous = tuple(given["messages"]), tuple(given["previous"])
        return OperatorCall(reasoner, given["job"], messages, previous, given["lesson"])

    def _kept_outcomes(self, run_id: str) -> dict[str, StepRow]:
        """Return the operators of a run that have an outcome, by key; delete records that no worker of the ledger continues."""
        steps, unfinished = dict[str, StepRow](), list[str]()
        for row in self.steps.of_run(run_id, outcomes=True):
            if row.outcome is not None:
                steps[row.key] = row
            elif not (self.workers and row.queue == self.workers.queue and row.status in UNDER_WAY):
                unfinished.append(row.key)
        if unfinished:
            self.steps.forget(run_id, unfinished)
        return steps

    def _messages(self, run_id: str) -> dict[str, WorkflowMessage]:
        """Return the messages of a finished run's top-level operators in its best round, by id.

        Operators that contain others have no record of their own; their messages are in the events.
        """
        ended = self.events(run_id)
        best = next((event.round for event in reversed(ended) if isinstance(event, RunFinished)), 0)
        latest: dict[str, tuple[int, WorkflowMessage]] = {}
        for event in ended:
            if len(event.path) == 1 and (not best or event.round <= best):
                if isinstance(event, OperatorFinished):
                    latest[event.operator_id] = event.round, event.message
                elif isinstance(event, OperatorFailed | OperatorSkipped | OperatorCancelled):
                    latest.pop(event.operator_id, None)
        messages = {operator_id: message for operator_id, (_, message) in latest.items()}
        for row in self.steps.of_run(run_id, outcomes=True):  # with their files, which events only name
            path, rounds = bare(row.key)
            if len(path) == 1 and row.outcome is not None and latest.get(path[0], (0,))[0] == rounds[0]:
                outcome = self.codec.load(row.outcome, Outcome)
                if outcome.message is not None:
                    messages[path[0]] = outcome.message
        return messages

    async def _record_progress(
        self, run: Run, replay: Replay, recorder: Recorder, remote: RemoteExecutor | None
    ) -> None:
        """Periodically record the progress of a run, and pass on answers that other processes stored."""
        parts = [
            partial(self._record_state, run, replay, recorder),
            *([partial(remote.look_after, replay.run_id)] if remote is not None else []),
            partial(self._pass_on_answers, run, replay.run_id),
        ]
        warned = False
        while True:
            await asyncio.sleep(BEAT)
            for part in parts:
                try:
                    with suppress(OperadError):
                        await part()
                except Exception as error:  # the next attempt may succeed, and the other parts do not depend on it
                    if not warned:
                        problem = "%s: its progress or its stored answers are not up to date, will try again: %s"
                        _logger.warning(problem, replay.run_id, describe(error), exc_info=error)
                    warned = True

    async def _record_state(self, run: Run, replay: Replay, recorder: Recorder) -> None:
        """Record the events of a run, and its progress."""
        state = ASKS if run.waits else RUNNING
        values = {"state": state, "done": replay.done, "usage": run.usage.model_dump_json()}
        await committed(recorder.write(values=values))

    async def _pass_on_answers(self, run: Run, run_id: str) -> None:
        """Pass on answers that other processes stored."""
        if run.questions.open():
            for question in await in_thread(self.store.questions, run_id):
                if question.answer is not None and question.id in {q.id for q in run.questions.open()}:
                    run.questions.answer({question.id: json.loads(question.answer)}, question.by)

    async def _record_end(
        self,
        run: Run,
        replay: Replay,
        recorder: Recorder,
        state: str,
        *,
        message: WorkflowMessage | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Record that this process no longer drives a run, with the run's state, and its message or error."""
        values: dict[str, object] = {
            "state": state,
            "done": replay.done,
            "usage": run.usage.model_dump_json(),
            "driver": "",
            "cancelling": False,
            "verdict": message.status.value if message else "",
            "result": self.codec.dump((message, run.rounds)) if message else "",
        }
        if error is not None:
            failed = [key for link in causes(error) for failure, key in replay.failed if failure is link]
            values |= {"error": describe(error)[:10_000], "failed": failed[-1] if failed else ""}
        has_ended = state not in (RUNNING, ASKS)
        was_driver = await committed(recorder.write(values=values, has_ended=has_ended))
        if was_driver and self.workers and has_ended:
            with suppress(self.store.database.errors):
                await asyncio.shield(asyncio.ensure_future(in_thread(self.store.work.cancel, replay.run_id)))


class DurableWorkflow(BuiltinWorkflow[T]):
    """Workflow whose runs are stored in a database, and survive a crash.

        letters = DurableWorkflow("letters.db", name="letters")
        letters.add_operator(facts)
        print(letters)

    A run resumes when it is executed with the same `run_id` again: operators that had finished do not run again. If the
    run has finished, its message is returned.

    Args:
        url: The database: a URL of PostgreSQL or SQLite, or the path of an SQLite file; None for one in
            the user's state folder.
        max_rounds: Maximum number of rounds until the evaluator accepts the result; see `Workflow`.
        options: Options of any `Workflow`.

    Raises:
        InputError: The database's name is not valid.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(self, url: str | None = None, max_rounds: int | None = None, **options: Any) -> None:
        super().__init__(max_rounds=max_rounds, **options)
        self.keep_in(Ledger(url))
