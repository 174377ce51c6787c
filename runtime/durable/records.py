"""Runs that are kept in a database, for those who do not drive them: to look, answer, end and forget."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.database import BREATH
from operad.runtime.durable.description import Description, changes, describe_workflow, leaves
from operad.runtime.durable.drive import question_of
from operad.runtime.durable.driver import text_of
from operad.runtime.durable.history import KeptStep, history
from operad.runtime.durable.places import database_url, file_store
from operad.runtime.durable.recording import filled, is_whole, recorded
from operad.runtime.durable.restart import descendants, failed_beside, is_again, is_under, merged, place_of
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, RUNNING, Executor, KeptQuestion, KeptRun
from operad.runtime.durable.store import Store
from operad.runtime.durable.watch import Watch
from operad.runtime.events import Event
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.schema import faults
from operad.runtime.workflow.workflow import Workflow

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

UNDER_WAY = ["ENQUEUED", "PENDING"]
"""What dbos says of work that is not finished."""

GIVEN = ("job", "messages", "previous", "lesson")
"""What a run is given, besides who thinks."""

_DIGEST = r"sha256:[0-9a-f]{64}"
_NO_GRAPH = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What a text raises that describes no workflow."""

_AT_ONCE = 500
"""Operators of runs that are asked for, or forgotten, at once."""

_RUNS_AT_ONCE = 50

_MOST_NAMES = 1_000
"""How many of the newest runs may be meant by an id that is none."""

LOOK = 0.5
"""Seconds between two looks at a process that may be dead."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Which finished runs are deleted when another run of their workflow finishes.

    Attributes:
        max_age: Those of which nothing was noted for so many seconds; None for none.
        max_runs: All but so many of the newest; None for none.
    """

    max_age: float | None = None
    max_runs: int | None = None


class Records:
    """Runs in a database: SQLite on one machine, PostgreSQL on many.

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        files: Where files that operators make are kept: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.

    Attributes:
        url: The database.
        files: Where files are kept.
        codec: What writes and reads what is kept.
        watch: What tells which processes are dead.

    Raises:
        InputError: The database cannot be named so.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(self, url: str | Path | None = None, *, files: str | Path | None = None) -> None:
        self.url = database_url(url)
        self.files = file_store(files, self.url)
        self.codec = Codec(self.files)
        self.watch = Watch()

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
        client = import_module("operad.runtime.durable.dbos_process").client
        return self.store.insist(partial(client, self.url), 0.0)

    def close(self) -> None:
        """Leave the database."""
        for name in ("client", "store"):
            opened = vars(self).pop(name, None)
            if opened is not None:
                (opened.destroy if name == "client" else opened.close)()

    def runs(self, limit: int | None = None, after: str = "") -> Sequence[KeptRun]:
        """Runs, the newest first; of what they are made from and were given, and what came of them, nothing: see `run`.

        Args:
            limit: How many at most; None for all.
            after: The id of the last run of an earlier list: those that come after it.

        Raises:
            InputError: There is no run with that id.
        """
        return self.store.runs(limit, self._known(after).run_id if after else "")

    def _known(self, run_id: str) -> KeptRun:
        kept = self.store.run(run_id)
        if kept is None:
            hint = did_you_mean(run_id, [run.run_id for run in self.store.runs(_MOST_NAMES)])
            raise InputError(f"no run has the id {run_id!r}{hint}; operad runs list shows them")
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
        rows = self._rows(self._known(run_id).run_id, load_input=True, load_output=True)
        steps = [_step(key, row) for key, row in rows if row.status in ("SUCCESS", *UNDER_WAY)]
        return sorted(steps, key=lambda step: (step.outcome is None, step.ended))

    def events(self, run_id: str) -> Sequence[Event]:
        """The events of a run.

        Of a run that ended without having been interrupted, they are the very events that listeners heard, but for
        `TokenStreamed` and `ModelAsked`, which are not kept. Of any other, they follow from what is kept of its
        operators, in the order of time, counted by ``seq``; what they say, such as the message of a map, is what was
        heard last, up to about a second ago. Of an operator's own events, such as `ModelAnswered`, it is then known
        that there were, and not when: they have the time of its end; an operator around others ends when something
        follows from it.

        Of a run that goes on, the list is longer when it is asked for again, and what happened before stays at its
        beginning, but for three things: what was under way when its process died begins anew; what is done anew
        (`retry`, `restart_from`) is forgotten; and processes whose clocks differ may put something in between.

        Raises:
            InputError: There is no such run, or its workflow cannot be read.
        """
        kept, here = self._known(run_id), Codec()  # which brings no files here
        questions, steps = self.store.questions(run_id), self.timeline(run_id)
        try:
            job: Job = self._given(kept, here)["job"]
        except InputError as error:
            job = Job(goal=f"cannot be read: {error}")
        result = None
        with suppress(InputError):
            result = self._result(kept, here) if kept.result else None
        try:
            told = history(kept, job, result, steps, questions)
        except _NO_GRAPH as error:
            raise self._unreadable(kept) from error
        heard = recorded(self.store.events(run_id))
        return heard[1] if is_whole(kept, heard) else filled(told, heard)

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
        self.store.forget_events(run_id)
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
        self.store.forget_events(run_id)
        values = {
            "graph": json.dumps(now),
            "verdict": "",
            "result": "",
            "error": "",
            "failed": "",
            "driver": "",
            "cancelling": False,
        }
        if not self.store.note(run_id, kept.driver, state=RUNNING, total=leaves(now), **values):
            raise InputError(f"run {run_id!r} has been taken up by another process meanwhile; wait for it")
        return gone

    def _forget_steps(self, run_id: str, keys: Collection[str], asking: Collection[str] | None = None) -> None:
        self._delete_steps([f"{run_id}:{key}" for key in keys])
        self.store.forget_steps(run_id, keys if asking is None else asking)

    def alive(self) -> Collection[str]:
        """The processes that seem to live, by the clocks."""
        return {each.id for each in self.store.executors() if each.alive}

    def is_driven(self, kept: KeptRun) -> bool:
        """Whether a process that lives drives a run; where clocks say that it is silent, that is watched for a while."""
        driver = first = self._driver_of(kept)
        while driver is not None and first is not None and not self.watch.is_dead(driver):
            if driver.alive or driver.beat != first.beat:
                return True
            time.sleep(LOOK)
            driver = self._driver_of(kept)
        return False

    def _driver_of(self, kept: KeptRun) -> Executor | None:
        if not kept.driver:
            return None
        return next((each for each in self.store.executors() if each.id == kept.driver), None)

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
        open_ = [step.workflow_id for _, step in self._rows(run_id, status=UNDER_WAY)]
        if open_:
            self.client.cancel_workflows(open_)

    def delete(self, *run_ids: str) -> None:
        """Forget runs with all that is kept of them, a few at a time, so that others can write meanwhile.

        Raises:
            InputError: There is no such run, or one is being driven; then none is forgotten.
        """
        for _ in self.deleting(run_ids):
            pass

    def deleting(self, run_ids: Sequence[str]) -> Iterator[str]:
        """The same, with the ids of those that are forgotten so far; the rest stay when nobody asks for more.

        Raises:
            InputError: As `delete`.
        """
        these = list(dict.fromkeys(run_ids))
        for few in batched(these, _RUNS_AT_ONCE):
            there = self.store.these(few)
            if missing := set(few) - {kept.run_id for kept in there}:
                self._known(min(missing))
            for kept in there:
                self._refuse_driven(kept)
        for few in batched(these, _RUNS_AT_ONCE):
            self._delete_steps(self._step_ids(few))
            self.store.forget(few)
            yield from few
            time.sleep(BREATH)

    def retire(self, workflow: str, retention: Retention) -> Sequence[str]:
        """Delete finished runs of a workflow that need not be kept any more, the oldest first, and at most some at once.

        Returns:
            Their ids.
        """
        ended = partial(self.store.ended, FINISHED, workflow=workflow)
        old: Sequence[str] = [] if retention.max_age is None else ended(seconds=retention.max_age)
        more: Sequence[str] = [] if retention.max_runs is None else ended(but=retention.max_runs)
        gone = list(dict.fromkeys([*reversed(old), *reversed(more)]))[:_RUNS_AT_ONCE]
        if gone:
            self.delete(*gone)
            self.store.give_back_space()
        return gone

    def give_back_space(self) -> bool:
        """Have the file of the database become as small as what is in it; see `Database.give_back_space`.

        A file that an earlier version made is written anew for that, where no process uses it.
        """
        return self.store.give_back_space(whole=not self.alive())

    def collect_files(self) -> int:
        """Remove the files that no run of this database refers to any more; those of the last hour stay.

        Returns:
            How many bytes there are less.

        Raises:
            InputError: Something could not be removed.
        """
        return self.files.collect(self.store.digests(_DIGEST))

    # What is kept, as it is kept

    def _given(self, kept: KeptRun, codec: Codec | None = None) -> dict[str, Any]:
        given = (codec or self.codec).load(kept.call, dict)
        if given.keys() != set(GIVEN) or not isinstance(given["job"], Job):
            raise self._unreadable(kept)
        return given

    def _result(self, kept: KeptRun, codec: Codec | None = None) -> tuple[WorkflowMessage, int]:
        """The message of a run that has finished, and how many rounds it had."""
        result = (codec or self.codec).load(kept.result, tuple)
        if [type(part) for part in result] != [WorkflowMessage, int]:
            raise self._unreadable(kept)
        return result

    def _unreadable(self, kept: KeptRun) -> InputError:
        return InputError(f"run {kept.run_id!r}: what was kept cannot be read; was it written by something else?")

    def _delete_steps(self, step_ids: Sequence[str]) -> None:
        for these in batched(step_ids, _AT_ONCE):
            self.store.insist(partial(self.client.delete_workflows, these))

    def _rows(self, run_id: str, *, load_output: bool = False, **only: Any) -> Iterator[tuple[str, WorkflowStatus]]:
        """What dbos knows of a run's operators, by their keys, in order of their beginning."""
        what = {"load_input": False, "load_output": load_output, **only}
        found = [
            step
            for these in batched(self._step_ids([run_id]), _AT_ONCE)
            for step in self.store.insist(partial(self.client.list_workflows, workflow_ids=these, **what))
        ]
        for step in sorted(found, key=lambda step: step.created_at or 0):
            yield step.workflow_id[len(run_id) + 1 :], step

    def _step_ids(self, run_ids: Sequence[str]) -> Sequence[str]:
        _ = self.client  # which makes the tables where there are none
        return self.store.step_ids(run_ids)

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


def batched(items: Sequence[str], most: int = _AT_ONCE) -> Iterator[list[str]]:
    """Parts of a list, so that no statement gets too long."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


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
        return Codec().load(text_of(step.output, step.workflow_id), Outcome)
    except InputError as error:
        return Outcome(error=error)


def _step(key: str, row: WorkflowStatus) -> KeptStep:
    outcome = _outcome(row) if row.status == "SUCCESS" else None
    ended = (row.completed_at or row.updated_at or 0) / 1000 if outcome else 0.0
    return KeptStep(key, outcome, _began(row), ended, waits=row.status == "ENQUEUED")


def _began(row: WorkflowStatus) -> float:
    """When an operator began, to the millisecond: where no worker took it from a queue, in SQLite, it is what it was given."""
    noted = row.dequeued_at or row.created_at or 0
    if row.queue_name is None and noted % 1000 == 0 and row.input:
        with suppress(ValueError, TypeError, LookupError):  # none of ours
            began = float(row.input["args"][0])
            if abs(began - noted / 1000) <= 1:
                return began
    return noted / 1000
