"""A ledger: a database that runs are kept in, so that they outlive the process that drives them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.description import describe_workflow, leaves
from operad.runtime.durable.drive import Drive, StepExecutor, in_thread
from operad.runtime.durable.driver import BEAT, LIMIT, Driver, Held, driver_of, leave, taken_over, text_of
from operad.runtime.durable.places import check_id, shown
from operad.runtime.durable.recording import Recording
from operad.runtime.durable.records import LOOK, UNDER_WAY, Records, Retention
from operad.runtime.durable.remote import RemoteExecutor
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, PAUSED, RUNNING, Executor, KeptRun
from operad.runtime.durable.served import Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.events.journal import bare
from operad.runtime.graph.call import OperatorCall
from operad.runtime.policies.policy import causes
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, OperadError, describe
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.workflow import Workflow


class Ledger(Records):
    """Runs in a database, and who drives them.

    A run that is interrupted, by a crash or by whoever ends its process, goes on where it was when it is executed
    with its id again, here or elsewhere: operators that had finished do not run again.

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        source: What runs are made from, so that a command can go on with them: any JSON value.
        workers: What workers have, if they are to do the operators' work; None to have it done here.
        files: Where files that operators make are kept: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.
        limit: Seconds without a sign of life after which this process counts as dead.
        retention: Which finished runs are deleted when another of their workflow finishes; None for none.

    Raises:
        InputError: The database cannot be named so.
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
        self.source = source
        self.workers = workers
        self._limit = limit
        self._retention = retention

    def close(self) -> None:
        """Leave the database. Runs that are under way or wait for a person are cancelled here, and stay resumable."""
        leave(self.url)
        super().close()

    async def drive(self, workflow: Workflow, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Begin a run, or go on with it.

        Args:
            workflow: What is run.
            run: A fresh run of it.
            call: What it is given.

        Returns:
            Its message; that which is kept, where it has finished.

        Raises:
            InputError: Another process drives it, it failed or was of another job, or the workflow was changed.
            Exception: As `Workflow.aexecute`.
        """
        run_id = run.log.run_id
        check_id(run_id)
        driver = await in_thread(driver_of, self.url, self._limit)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        held = await driver.hold(run_id, task)
        try:
            graph = await in_thread(describe_workflow, workflow)
            kept = await in_thread(self._begin, driver.executor.id, run_id, workflow, graph, call)
            if kept.result:
                message, rounds = await in_thread(self._result, kept)
                run.recall(message, rounds, await in_thread(self._messages, run_id))
                return message
            return await self._go_on(run, kept, call, driver, held)
        finally:
            driver.let_go(run_id)

    async def _go_on(self, run: Run, kept: KeptRun, call: OperatorCall, driver: Driver, held: Held) -> WorkflowMessage:
        run_id = kept.run_id
        run.take_up(await in_thread(self._call_of, kept, call.reasoner))
        steps = await in_thread(self._steps, run_id)
        place: StepExecutor = driver
        if self.workers is not None:
            place = RemoteExecutor(driver, self.workers, self.codec, self.store, driver.executor.version)
        drive = Drive(run_id, self.store, self.codec, steps, place)
        questions = await in_thread(self.store.questions, run_id)
        drive.know_answers({(q.step, q.id): q.answer for q in questions if q.answer is not None})
        run.journal = drive
        group = self.workers.queue if self.workers else hashlib.sha256(kept.graph.encode()).hexdigest()
        run.shared_limits = LimitsInDatabase(self.store, group, driver.executor.id)
        heard = Recording(run.log, run_id, kept.drives)
        noting = asyncio.ensure_future(self._keep_noting(run, drive, heard, place, driver.executor.id))
        note_end = partial(self._note_end, run, drive, heard, driver.executor.id)
        held.watched = True
        try:
            try:
                message = await run.execute()
            finally:
                held.watched, held.ending = False, True
                noting.cancel()
        except asyncio.CancelledError:
            if held.lost:
                raise taken_over(run_id) from None
            if held.cancelled:
                await note_end(CANCELLED)
                raise InputError(f"run {run_id!r} was cancelled; operad runs resume {run_id} goes on with it") from None
            await note_end(PAUSED if await in_thread(self.questions, run_id) else RUNNING)
            raise
        except Exception as error:
            await note_end(FAILED, error=error)
            raise
        await note_end(FINISHED, message=message)
        if self._retention is not None:
            with suppress(OperadError):  # what is too much goes when the next run finishes
                await in_thread(self.retire, kept.workflow, self._retention)
        return message

    def _begin(self, driver_id: str, run_id: str, workflow: Workflow, graph: Any, call: OperatorCall) -> KeptRun:
        given = {"job": call.job, "messages": [*call.messages], "previous": [*call.previous], "lesson": call.lesson}
        run = KeptRun(
            run_id,
            workflow=workflow.name,
            source=json.dumps(self.source),
            graph=json.dumps(graph),
            call=self.codec.dump(given),
            driver=driver_id,
            total=leaves(graph),
        )
        if self.store.create(run):
            return run
        kept = self._known(run_id)
        self._check_same(kept, graph, call)
        if kept.state == FINISHED:
            return kept
        if kept.state == FAILED:
            again = f"Ledger({shown(self.url)!r}).retry({run_id!r}), and run it again with its run_id"
            raise InputError(
                f"run {run_id!r} failed: {kept.error}\n  what had finished is kept; to try again what failed: "
                f"{again if self.source is None else f'operad runs resume {run_id}'}"
            )
        self._take(kept, driver_id)
        return self._known(run_id)

    def _take(self, kept: KeptRun, driver_id: str) -> None:
        """Become who drives a run, once whoever did is known to be dead."""
        while kept.driver != driver_id:
            driver = self._driver_of(kept)
            if driver is not None and not self.watch.is_dead(driver):
                self._wait_for_sign_of(driver, kept)
                kept = self._known(kept.run_id)
                continue
            if self.store.take(kept.run_id, kept.driver, driver_id):
                return
            kept = self._known(kept.run_id)

    def _wait_for_sign_of(self, driver: Executor, kept: KeptRun) -> None:
        """Wait until a process that drives a run is dead.

        Raises:
            InputError: It gives a sign of life.
        """
        while True:
            time.sleep(LOOK)
            now = self._driver_of(kept)
            if now is None or self.watch.is_dead(now):
                return
            if now.beat != driver.beat:
                raise InputError(
                    f"run {kept.run_id!r} is being driven by {driver.id}, which gave a sign of life just now; "
                    "wait for it, or end it there"
                )

    def _check_same(self, kept: KeptRun, graph: Any, call: OperatorCall) -> None:
        job = self._call_of(kept, call.reasoner).job
        if other := [name for name in ("goal", "context", "inputs", "files") if _differs(job, call.job, name)]:
            raise InputError(
                f"run {kept.run_id!r} is about another job: its {', '.join(other)} differ; give this one an id of its own"
            )
        self._refuse_changed(kept, graph)

    def to_resume(self, run_id: str, reasoner: Reasoner) -> OperatorCall | None:
        """Return what a run was given, for one that nobody drives; None where a process drives it. May block.

        Args:
            run_id: The run.
            reasoner: Who thinks now.

        Raises:
            InputError: There is no such run, or what was kept cannot be read.
        """
        kept = self._known(run_id)
        return None if self.is_driven(kept) else self._call_of(kept, reasoner)

    def _call_of(self, kept: KeptRun, reasoner: Reasoner) -> OperatorCall:
        """What a run was given, as it is kept; with whoever thinks now."""
        given = self._given(kept)
        messages, previous = tuple(given["messages"]), tuple(given["previous"])
        return OperatorCall(reasoner, given["job"], messages, previous, given["lesson"])

    def _steps(self, run_id: str) -> dict[str, str]:
        """What is kept of a run's operators; what was begun and not finished by processes that are gone is forgotten."""
        steps, unfinished = dict[str, str](), list[str]()
        for key, step in self._rows(run_id, load_output=True):
            if step.status == "SUCCESS":
                steps[key] = text_of(step.output, step.workflow_id)
            elif not (self.workers and step.queue_name == self.workers.queue and step.status in UNDER_WAY):
                unfinished.append(step.workflow_id)
        self._delete_steps(unfinished)
        return steps

    def _messages(self, run_id: str) -> dict[str, WorkflowMessage]:
        """The last messages of a run's own operators, by id; of those that others are inside of, nothing is kept."""
        found: dict[str, tuple[int, WorkflowMessage]] = {}
        for key, step in self._rows(run_id, load_output=True, status="SUCCESS"):
            path, rounds = bare(key)
            outcome = self.codec.load(text_of(step.output, step.workflow_id), Outcome) if len(path) == 1 else None
            if outcome is not None and outcome.message is not None and rounds[0] >= found.get(path[0], (0,))[0]:
                found[path[0]] = rounds[0], outcome.message
        return {operator_id: message for operator_id, (_, message) in found.items()}

    async def _keep_noting(self, run: Run, drive: Drive, heard: Recording, place: StepExecutor, driver_id: str) -> None:
        """Note now and then how far the run is, and hand on answers that were given elsewhere."""
        while True:
            await asyncio.sleep(BEAT)
            with suppress(OperadError):
                state = PAUSED if run.waits else RUNNING
                now = {"state": state, "done": drive.done, "usage": run.usage.model_dump_json()}
                await in_thread(heard.write, self.store)
                await in_thread(partial(self.store.note, drive.run_id, driver_id, **now))
                await place.look_after(drive.run_id)
                if run.questions.open():
                    for question in await in_thread(self.store.questions, drive.run_id):
                        if question.answer is not None and question.id in {q.id for q in run.questions.open()}:
                            run.questions.answer({question.id: json.loads(question.answer)})

    async def _note_end(
        self,
        run: Run,
        drive: Drive,
        heard: Recording,
        driver_id: str,
        state: str,
        *,
        message: WorkflowMessage | None = None,
        error: BaseException | None = None,
    ) -> None:
        values: dict[str, object] = {
            "state": state,
            "done": drive.done,
            "usage": run.usage.model_dump_json(),
            "driver": "",
            "cancelling": False,
            "verdict": message.status.value if message else "",
            "result": self.codec.dump((message, run.rounds)) if message else "",
        }
        if error is not None:
            failed = [key for link in causes(error) for failure, key in drive.failed if failure is link]
            values |= {"error": describe(error)[:10_000], "failed": failed[-1] if failed else ""}

        def note() -> None:
            with suppress(OperadError):
                heard.write(self.store)
            mine = self.store.note(drive.run_id, driver_id, **values)
            if mine and self.workers and state not in (RUNNING, PAUSED):
                with suppress(self.store.errors):
                    self._cancel_steps(drive.run_id)

        await asyncio.shield(asyncio.ensure_future(in_thread(note)))


def _differs(kept: Job, given: Job, name: str) -> bool:
    one, other = getattr(kept, name), getattr(given, name)
    if name == "files":
        return [(file.name, file.size) for file in one] != [(file.name, file.size) for file in other]
    return bool(one != other)
