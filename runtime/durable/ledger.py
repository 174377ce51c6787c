"""A ledger: a database that runs are kept in, so that they outlive the process that drives them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from operad.runtime.durable.description import Description, changes, describe_workflow, leaves
from operad.runtime.durable.drive import Drive, Place, in_thread, question_of
from operad.runtime.durable.driver import BEAT, LIMIT, Driver, Held, driver_of, leave, taken_over, text_of
from operad.runtime.durable.elsewhere import Elsewhere
from operad.runtime.durable.places import check_id, database_url, file_store
from operad.runtime.durable.restart import descendants, failed_beside, is_again, is_under, merged, place_of
from operad.runtime.durable.served import Served
from operad.runtime.durable.shared_limits import LimitsInDatabase
from operad.runtime.durable.store import (
    CANCELLED,
    FAILED,
    FINISHED,
    PAUSED,
    RUNNING,
    Executor,
    KeptQuestion,
    KeptRun,
    Store,
)
from operad.runtime.durable.wire import Outcome, Wire
from operad.runtime.errors import InputError, OperadError, describe, did_you_mean, shorten
from operad.runtime.guard import Call
from operad.runtime.message import Job, WorkflowMessage
from operad.runtime.policy import causes
from operad.runtime.questions import Question
from operad.runtime.run import Run
from operad.runtime.schema import faults
from operad.runtime.workflow import Workflow

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_UNDER_WAY = ["ENQUEUED", "PENDING"]
_GIVEN = ("job", "messages", "previous", "lesson")
_NO_GRAPH = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What a text raises that describes no workflow."""

_LOOK = 0.5
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class KeptStep:
    """What is kept of an operator's work in a run.

    Attributes:
        key: What it is known by in the run.
        outcome: What came of it; None while it is not finished.
        seconds: How long it took; 0 while it is not finished.
        waits: Whether nobody has begun it.
    """

    key: str
    outcome: Outcome | None
    seconds: float = 0.0
    waits: bool = False


class Ledger:
    """Runs in a database: SQLite on one machine, PostgreSQL on many.

    A run that is interrupted, by a crash or by whoever ends its process, goes on where it was when it is executed
    with its id again, here or elsewhere: operators that had finished do not run again.

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        source: What runs are made from, so that a command can go on with them: any JSON value.
        workers: What workers have, if they are to do the operators' work; None to have it done here.
        files: Where files that operators make are kept: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.
        limit: Seconds without a sign of life after which this process counts as dead.

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
    ) -> None:
        self.url = database_url(url)
        self.source = source
        self.files = file_store(files, self.url)
        self.wire = Wire(self.files)
        self.workers = workers
        self._limit = limit

    @cached_property
    def store(self) -> Store:
        """The tables.

        Raises:
            InputError: The database cannot be reached or used.
        """
        return Store(self.url)

    @cached_property
    def client(self) -> DBOSClient:
        """What looks into the tables of dbos."""
        with self.store.in_words():
            return import_module("operad.runtime.durable.dbos_process").client(self.url)

    def close(self) -> None:
        """Leave the database. Runs that are under way here can be gone on with elsewhere at once."""
        leave(self.url)
        for name in ("client", "store"):
            opened = vars(self).pop(name, None)
            if opened is not None:
                (opened.destroy if name == "client" else opened.close)()

    # Driving

    async def drive(self, workflow: Workflow, run: Run, call: Call) -> WorkflowMessage:
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
        held = driver.hold(run_id, task)
        try:
            graph = await in_thread(describe_workflow, workflow)
            kept = await in_thread(self._begin, driver.executor.id, run_id, workflow, graph, call)
            if kept.result:
                message, rounds = await in_thread(self._result, kept)
                run.recall(message, rounds)
                return message
            return await self._go_on(run, kept, call, driver, held)
        finally:
            driver.let_go(run_id)

    async def _go_on(self, run: Run, kept: KeptRun, call: Call, driver: Driver, held: Held) -> WorkflowMessage:
        run_id = kept.run_id
        run.take_up(await in_thread(self._call_of, kept, call))
        steps = await in_thread(self._steps, run_id)
        place: Place = driver
        if self.workers is not None:
            place = Elsewhere(driver, self.workers, self.wire, self.store, driver.executor.version)
        drive = Drive(run_id, self.store, self.wire, steps, place)
        questions = await in_thread(self.store.questions, run_id)
        drive.know_answers({(q.step, q.id): q.answer for q in questions if q.answer is not None})
        run.keeper = drive
        group = self.workers.queue if self.workers else hashlib.sha256(kept.graph.encode()).hexdigest()
        run.shared_limits = LimitsInDatabase(self.store, group, driver.executor.id)
        noting = asyncio.ensure_future(self._keep_noting(run, drive, place, driver.executor.id))
        note_end = partial(self._note_end, run, drive, driver.executor.id)
        held.watched = True
        try:
            try:
                message = await run.execute()
            finally:
                held.watched = False
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
        return message

    def _begin(self, driver_id: str, run_id: str, workflow: Workflow, graph: Any, call: Call) -> KeptRun:
        given = {name: getattr(call, name) for name in _GIVEN}
        run = KeptRun(
            run_id,
            workflow=workflow.name,
            source=json.dumps(self.source),
            graph=json.dumps(graph),
            call=self.wire.dump(given),
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
            raise InputError(
                f"run {run_id!r} failed: {kept.error}\n  what had finished is kept; to try again what failed: "
                f"operad runs resume {run_id}, or Ledger(…).retry({run_id!r})"
            )
        self._take(kept, driver_id)
        return replace(kept, driver=driver_id)

    def _take(self, kept: KeptRun, driver_id: str) -> None:
        """Become who drives a run, once whoever did is known to be dead."""
        while kept.driver != driver_id:
            driver = next((each for each in self.store.executors() if each.id == kept.driver), None)
            if driver and driver.alive:
                self._wait_for_sign_of(driver, kept.run_id)
                kept = self._known(kept.run_id)
                continue
            if self.store.take(kept.run_id, kept.driver, driver_id):
                return
            kept = self._known(kept.run_id)

    def _wait_for_sign_of(self, driver: Executor, run_id: str) -> None:
        """Wait until a process that drives a run counts as dead.

        Raises:
            InputError: It gives a sign of life.
        """
        while True:
            time.sleep(_LOOK)
            now = next((each for each in self.store.executors() if each.id == driver.id), None)
            if now is None or not now.alive:
                return
            if now.beat > driver.beat:
                raise InputError(
                    f"run {run_id!r} is being driven by {driver.id}, which gave a sign of life {now.silent:.0f} s ago; "
                    "wait for it, or end it there"
                )

    def _check_same(self, kept: KeptRun, graph: Any, call: Call) -> None:
        job = self._call_of(kept, call).job
        if other := [name for name in ("goal", "context", "inputs", "files") if _differs(job, call.job, name)]:
            raise InputError(
                f"run {kept.run_id!r} is about another job: its {', '.join(other)} differ; give this one an id of its own"
            )
        self._refuse_changed(kept, graph)

    def _refuse_changed(self, kept: KeptRun, graph: Description) -> None:
        try:
            began_with: Description = json.loads(kept.graph)
            changed = changes(began_with, graph)
            first = next((path for path in changed if _covers(path, changed, began_with, graph)), "")
        except _NO_GRAPH as error:
            raise self._unreadable(kept) from error
        if not changed:
            return
        said = "\n  ".join(f"{path} {'; '.join(what)}" for path, what in changed.items())
        anew = f", or say from where to do it anew: --restart-from {first}" if first else ""
        raise InputError(
            f"run {kept.run_id!r} began with another workflow:\n  {said}\n"
            f"take the change back, or begin a run with another id{anew}"
        )

    def _call_of(self, kept: KeptRun, call: Call) -> Call:
        """What a run was given, as it is kept; with whoever thinks now."""
        return Call(call.reasoner, **self._given(kept))

    def _given(self, kept: KeptRun) -> dict[str, Any]:
        given = self.wire.load(kept.call, dict)
        if given.keys() != set(_GIVEN) or not isinstance(given["job"], Job):
            raise self._unreadable(kept)
        return given

    def _result(self, kept: KeptRun) -> tuple[WorkflowMessage, int]:
        """The message of a run that has finished, and how many rounds it had."""
        result = self.wire.load(kept.result, tuple)
        if [type(part) for part in result] != [WorkflowMessage, int]:
            raise self._unreadable(kept)
        return result

    def _unreadable(self, kept: KeptRun) -> InputError:
        return InputError(f"run {kept.run_id!r}: what was kept cannot be read; was it written by something else?")

    def _steps(self, run_id: str) -> dict[str, str]:
        """What is kept of a run's operators; what was begun and not finished by processes that are gone is forgotten."""
        steps, unfinished = dict[str, str](), list[str]()
        for key, step in self._rows(run_id, load_output=True):
            if step.status == "SUCCESS":
                steps[key] = text_of(step.output, step.workflow_id)
            elif not (self.workers and step.queue_name == self.workers.queue and step.status in _UNDER_WAY):
                unfinished.append(step.workflow_id)
        self._delete_steps(unfinished)
        return steps

    def _delete_steps(self, step_ids: Sequence[str]) -> None:
        for first in range(0, len(step_ids), _AT_ONCE):
            these = list(step_ids[first : first + _AT_ONCE])
            self.store.insist(partial(self.client.delete_workflows, these))

    def _rows(self, run_id: str, *, load_output: bool = False, **only: Any) -> Iterator[tuple[str, WorkflowStatus]]:
        """What dbos knows of a run's operators, by their keys, in order of their beginning."""
        prefix = f"{run_id}:"
        what = {"load_input": False, "load_output": load_output, **only}
        for step in self.store.insist(partial(self.client.list_workflows, workflow_id_prefix=prefix, **what)):
            if step.workflow_id.startswith(prefix):  # SQLite takes capitals for small letters
                yield step.workflow_id[len(prefix) :], step

    async def _keep_noting(self, run: Run, drive: Drive, place: Place, driver_id: str) -> None:
        """Note now and then how far the run is, and hand on answers that were given elsewhere."""
        while True:
            await asyncio.sleep(BEAT)
            with suppress(OperadError):
                state = PAUSED if run.waits else RUNNING
                now = {"state": state, "done": drive.done, "usage": run.usage.model_dump_json()}
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
            "result": self.wire.dump((message, run.rounds)) if message else "",
        }
        if error is not None:
            failed = [key for link in causes(error) for failure, key in drive.failed if failure is link]
            values |= {"error": describe(error)[:10_000], "failed": failed[-1] if failed else ""}

        def note() -> None:
            mine = self.store.note(drive.run_id, driver_id, **values)
            if mine and self.workers and state not in (RUNNING, PAUSED):
                with suppress(self.store.errors):
                    self._cancel_steps(drive.run_id)

        await asyncio.shield(asyncio.ensure_future(in_thread(note)))

    # Looking, answering, ending

    def runs(self) -> Sequence[KeptRun]:
        """All runs, the newest first."""
        return self.store.runs()

    def _known(self, run_id: str) -> KeptRun:
        kept = self.store.run(run_id)
        if kept is None:
            hint = did_you_mean(run_id, [run.run_id for run in self.store.runs()])
            raise InputError(f"no run has the id {run_id!r}{hint}; operad runs lists them")
        return kept

    def run(self, run_id: str) -> KeptRun:
        """A run.

        Raises:
            InputError: There is none with that id.
        """
        return self._known(run_id)

    def job(self, run_id: str) -> Job:
        """What a run was told to do.

        Raises:
            InputError: There is no such run, or what is kept of it cannot be read.
        """
        return self._given(self._known(run_id))["job"]

    def result(self, run_id: str) -> WorkflowMessage | None:
        """What came of a run; None where it has not finished.

        Raises:
            InputError: There is no such run, or what is kept of it cannot be read.
        """
        kept = self._known(run_id)
        return self._result(kept)[0] if kept.result else None

    def timeline(self, run_id: str) -> Sequence[KeptStep]:
        """What is kept of the work of a run's operators: what is finished, in that order, then what is not.

        What cannot be read stands as a failure. Files are named by where they lay, and not brought here.

        Raises:
            InputError: There is no such run.
        """
        rows = list(self._rows(self._known(run_id).run_id, load_output=True))
        done = sorted((row for row in rows if row[1].status == "SUCCESS"), key=lambda row: row[1].updated_at or 0)
        finished = [KeptStep(key, _outcome(step), _seconds(step)) for key, step in done]
        begun = [
            KeptStep(key, None, waits=step.status == "ENQUEUED") for key, step in rows if step.status in _UNDER_WAY
        ]
        return [*finished, *begun]

    def steps(self, run_id: str) -> Mapping[str, Outcome]:
        """What has come of a run's operators, by their keys, in the order in which they finished.

        Raises:
            InputError: There is no such run.
        """
        return {step.key: step.outcome for step in self.timeline(run_id) if step.outcome is not None}

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """The same, as questions.

        Raises:
            InputError: There is no such run, or the schema of an answer cannot be used.
        """
        return [question_of(each) for each in self.questions(run_id)]

    def questions(self, run_id: str) -> Sequence[KeptQuestion]:
        """What a run asks and nobody has answered yet."""
        open_ = [each for each in self.store.questions(self._known(run_id).run_id) if each.answer is None]
        done = [key for key, _ in self._rows(run_id, status="SUCCESS")] if open_ else []
        return [each for each in open_ if not any(each.step == key or each.step.startswith(f"{key}/") for key in done)]

    def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer what a run asks. Whoever drives it hears of it; else it is known when the run is gone on with.

        Raises:
            InputError: There is no such run, nobody asks this, or the answer does not fit.
        """
        open_ = {question.id: question for question in self.questions(run_id)}
        wrong: list[str] = []
        for question_id, value in answers.items():
            if question_id not in open_:
                hint = did_you_mean(question_id, open_)
                wrong.append(f"{question_id!r}: nobody asks this{hint}; open: {', '.join(open_) or 'none'}")
            elif schema := question_of(open_[question_id]).schema_:
                wrong += [f"{question_id!r}: {fault}" for fault in faults(schema, value)]
        if wrong:
            raise InputError("\n  ".join(["the answers cannot be taken:", *wrong]))
        for question_id, value in answers.items():
            self.store.answer(run_id, open_[question_id].step, question_id, json.dumps(value))

    def retry(self, run_id: str, workflow: Workflow | None = None) -> None:
        """Have a failed run tried again when it is next executed: what failed runs again, what had finished does not.

        Args:
            run_id: The run.
            workflow: The workflow as it is now, to see beforehand that it is the one that the run began with.

        Raises:
            InputError: There is no such run, it did not fail, or the workflow was changed.
        """
        kept = self._known(run_id)
        if kept.state != FAILED:
            raise InputError(f"run {run_id!r} did not fail: it is {kept.state}")
        if workflow is not None:
            self._refuse_changed(kept, describe_workflow(workflow))
        if kept.failed:
            failed = [step.key for step in self.timeline(run_id) if step.outcome and step.outcome.error is not None]
            self._forget_steps(run_id, [key for key in failed if failed_beside(key, kept.failed)])
        self.store.forget_deaths(run_id)
        self.store.note(run_id, "", state=RUNNING, error="", failed="")

    def restart_from(self, run_id: str, operator: str, workflow: Workflow, *, round: int = 1) -> Sequence[str]:
        """Have an operator, and all that depends on it, run again when the run is next executed.

        Args:
            run_id: The run, which nobody drives.
            operator: The operator's path: its id, with those of the operators around it and slashes, such as
                ``outer/inner`` or, for one item of a map, ``each[2]/check``; written as in the run's keys.
            workflow: The workflow as it is now; it may differ from that operator on.
            round: From which round on, of the outermost workflow; later ones are forgotten.

        Returns:
            The keys of what is forgotten.

        Raises:
            InputError: There is no such run or operator, somebody drives the run, the operator did not run in that
                round but in others, or the workflow differs elsewhere, too.
        """
        kept = self._known(run_id)
        self._refuse_driven(kept)
        now = describe_workflow(workflow)
        try:
            before: Description = json.loads(kept.graph)
            again = descendants(merged(before, now), operator, now)
            stray = _stray(changes(before, now), again)
        except InputError as error:
            raise InputError(f"run {run_id!r}: {error}") from error
        except _NO_GRAPH as error:
            raise self._unreadable(kept) from error
        if stray:
            raise InputError(
                f"run {run_id!r}: {shorten(stray)} changed, too, and does not come after {operator!r}; "
                "restart from there, or begin a run with another id"
            )
        keys = [key for key, _ in self._rows(run_id)]
        ran = sorted({at for path, at in map(place_of, keys) if is_under(path, again[:1])})
        if round < 1 or ((ran or round > 1) and round not in ran):
            rounds = ", ".join(map(str, ran)) or "none yet"
            raise InputError(f"run {run_id!r}: {operator!r} did not run in round {round}; it ran in: {rounds}")
        gone = [key for key in keys if is_again(key, again, round)]
        asked = {question.step for question in self.store.questions(run_id)}
        self._forget_steps(run_id, gone, [step for step in asked if is_again(step, again, round)])
        values = {"graph": json.dumps(now), "result": "", "error": "", "failed": "", "driver": "", "cancelling": False}
        if not self.store.note(run_id, kept.driver, state=RUNNING, total=leaves(now), **values):
            raise InputError(f"run {run_id!r} has been taken up by another process meanwhile; wait for it")
        return gone

    def _forget_steps(self, run_id: str, keys: Collection[str], asking: Collection[str] | None = None) -> None:
        self._delete_steps([f"{run_id}:{key}" for key in keys])
        self.store.forget_steps(run_id, keys if asking is None else asking)

    def alive(self) -> Collection[str]:
        """The processes that live."""
        return {each.id for each in self.store.executors() if each.alive}

    def is_driven(self, kept: KeptRun) -> bool:
        """Whether a process that lives drives a run."""
        return bool(kept.driver) and kept.driver in self.alive()

    def _refuse_driven(self, kept: KeptRun) -> None:
        if self.is_driven(kept):
            raise InputError(f"run {kept.run_id!r} is being driven by {kept.driver}; cancel it first")

    def cancel(self, run_id: str) -> None:
        """End a run: nothing more begins in it, and what is under way is stopped where it can be.

        Raises:
            InputError: There is no such run, or it has ended.
        """
        kept = self._known(run_id)
        if kept.state in (FINISHED, FAILED, CANCELLED):
            raise InputError(f"run {run_id!r} has ended already: it is {kept.state}")
        if self.is_driven(kept):
            self.store.ask_to_end(run_id)
            return
        self.store.note(run_id, kept.driver, state=CANCELLED, driver="", cancelling=False)
        self._cancel_steps(run_id)

    def _cancel_steps(self, run_id: str) -> None:
        """Have workers leave or stop what nobody waits for any more."""
        open_ = [step.workflow_id for _, step in self._rows(run_id, status=_UNDER_WAY)]
        if open_:
            self.client.cancel_workflows(open_)

    def delete(self, run_id: str) -> None:
        """Forget a run with all that is kept of it.

        Raises:
            InputError: There is no such run, or it is being driven.
        """
        kept = self._known(run_id)
        self._refuse_driven(kept)
        self._delete_steps([step.workflow_id for _, step in self._rows(run_id)])
        self.store.forget(run_id)

    def collect_files(self) -> int:
        """Remove the files that no run of this database refers to any more; those of the last hour stay.

        Returns:
            How many bytes there are less.

        Raises:
            InputError: Something could not be removed.
        """
        kept = set[str]()
        for run in self.store.runs():
            texts = (str(step.output) for _, step in self._rows(run.run_id, load_output=True, status="SUCCESS"))
            for text in (run.call, run.result, *texts):
                kept.update(_DIGEST.findall(text))
        return self.files.collect(kept)


def _differs(kept: Job, given: Job, name: str) -> bool:
    one, other = getattr(kept, name), getattr(given, name)
    if name == "files":
        return [(file.name, file.size) for file in one] != [(file.name, file.size) for file in other]
    return bool(one != other)


def _stray(changed: Collection[str], again: Sequence[str]) -> list[str]:
    """The paths that differ and are not done anew."""
    return [path for path in changed if not is_under(path, again)]


def _covers(operator: str, changed: Collection[str], before: Description, now: Description) -> bool:
    """Whether all that differs is done anew from this operator on."""
    with suppress(InputError):  # it is gone
        return not _stray(changed, descendants(merged(before, now), operator, now))
    return False


def _outcome(step: WorkflowStatus) -> Outcome:
    """What came of an operator, for people; an error, where that cannot be read."""
    try:
        return Wire().load(text_of(step.output, step.workflow_id), Outcome)
    except InputError as error:
        return Outcome(error=error)


def _seconds(step: WorkflowStatus) -> float:
    return max(0, (step.updated_at or 0) - (step.created_at or 0)) / 1000
