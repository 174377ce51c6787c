"""Kept runs, for processes that do not drive them: list, read, answer, cancel, retry and delete."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.database import BREATH
from operad.runtime.durable.description import Description, changes, describe_workflow, leaves
from operad.runtime.durable.history import history
from operad.runtime.durable.places import database_url, file_store
from operad.runtime.durable.recording import filled, is_whole, recorded
from operad.runtime.durable.replay import question_of
from operad.runtime.durable.restart import (
    NO_GRAPH,
    descendants,
    failed_beside,
    is_again,
    is_under,
    merged,
    place_of,
    refuse_changed,
    stray_changes,
    unreadable,
)
from operad.runtime.durable.rows import (
    CANCELLED,
    DONE,
    FAILED,
    FINISHED,
    RUNNING,
    UNDER_WAY,
    Executor,
    KeptQuestion,
    KeptRun,
    Retention,
)
from operad.runtime.durable.step_records import StepRecords
from operad.runtime.durable.step_table import batched
from operad.runtime.durable.steps import KeptStep, kept_step
from operad.runtime.durable.store import Store
from operad.runtime.durable.watch import Watch
from operad.runtime.events import Event
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.schema import faults
from operad.runtime.workflow.workflow import Workflow

GIVEN = ("job", "messages", "previous", "lesson")
"""Parts of a run's input, except for the reasoner."""

_DIGEST = r"sha256:[0-9a-f]{64}"
_RUNS_AT_ONCE = 50

_MOST_NAMES = 1_000
"""Number of the newest runs considered for a suggestion when an id is unknown."""

LOOK = 0.5
"""Seconds between two checks of a process that may be dead."""


class Records:
    """Runs in a database: SQLite on one machine, PostgreSQL on many.

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        files: Store for files that operators create: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.

    Attributes:
        url: The database.
        files: Store of files.
        codec: Reads and writes kept values.
        watch: Determines which processes are dead.

    Raises:
        InputError: The database's name is not valid.
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
    def steps(self) -> StepRecords:
        """Records of the runs' operators."""
        return StepRecords(self.store)

    def close(self) -> None:
        """Close the database."""
        for name in ("steps", "store"):
            if (opened := vars(self).pop(name, None)) is not None:
                opened.close()

    def runs(self, limit: int | None = None, after: str = "") -> Sequence[KeptRun]:
        """Return runs, the newest first, without their sources, inputs and results; see `run` for these.

        Args:
            limit: Maximum number; None for all.
            after: Id of the last run of an earlier page; the runs after it are returned.

        Raises:
            InputError: There is no run with that id.
        """
        return self.store.runs(limit, self._known(after).run_id if after else "")

    def _known(self, run_id: str) -> KeptRun:
        kept = self.store.run(run_id)
        if kept is None:
            hint = did_you_mean(run_id, [run.run_id for run in self.store.runs(_MOST_NAMES)])
            raise InputError(f"no run has the id {run_id!r}{hint}; to list the runs: operad runs list")
        return kept

    def run(self, run_id: str) -> KeptRun:
        """Return a run.

        Raises:
            InputError: There is none with that id.
        """
        return self._known(run_id)

    def job(self, run_id: str) -> Job:
        """Return the job of a run.

        Raises:
            InputError: There is no such run, or its job cannot be read.
        """
        return self._given(self._known(run_id))["job"]

    def result(self, run_id: str) -> WorkflowMessage | None:
        """Return the message of a run; None if it has not finished.

        Raises:
            InputError: There is no such run, or its message cannot be read.
        """
        kept = self._known(run_id)
        return self._result(kept)[0] if kept.result else None

    def timeline(self, run_id: str) -> Sequence[KeptStep]:
        """Return the records of a run's operators: finished ones in the order of their ends, then the others.

        An outcome that cannot be read is shown as a failure. Files are named by their original paths, and not fetched.

        Raises:
            InputError: There is no such run.
        """
        rows = self.steps.of_run(self._known(run_id).run_id, outcomes=True)
        steps = [kept_step(row) for row in rows if row.status in (DONE, *UNDER_WAY)]
        return sorted(steps, key=lambda step: (step.outcome is None, step.ended))

    def events(self, run_id: str) -> Sequence[Event]:
        """Return the events of a run.

        For a run that ended without interruption, these are the events that listeners received, except for
        `TokenStreamed` and `ModelAsked`, which are not kept. For any other run, they are derived from the kept outcomes
        of its operators, in the order of time, counted by ``seq``; their details, such as the message of a map, are
        those recorded last, up to about a second ago. The times of an operator's own events, such as `ModelAnswered`,
        are then unknown: they carry the time of its end. An operator that contains others ends when a later event
        implies its end.

        For a run in progress, a later call returns a longer list with the same beginning, with three exceptions:
        operators in progress when their process died begin anew; repeated operators (`retry`, `restart_from`) lose their
        earlier events; and processes whose clocks differ may insert events in between.

        Raises:
            InputError: There is no such run, or its workflow cannot be read.
        """
        kept, here = self._known(run_id), Codec()  # a codec without files, so that none are fetched
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
        except NO_GRAPH as error:
            raise unreadable(kept) from error
        heard = recorded(self.store.events(run_id))
        return heard[1] if is_whole(kept, heard) else filled(told, heard)

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """Return the unanswered questions of a run, ready to be shown to a person.

        Raises:
            InputError: There is no such run, or the JSON Schema of an answer is not valid.
        """
        return [question_of(each) for each in self.questions(run_id)]

    def questions(self, run_id: str) -> Sequence[KeptQuestion]:
        """Return the kept records of a run's unanswered questions."""
        open_ = [each for each in self.store.questions(self._known(run_id).run_id) if each.answer is None]
        done = [row.key for row in self.steps.of_run(run_id) if row.status == DONE] if open_ else []
        return [each for each in open_ if not any(each.step == key or each.step.startswith(f"{key}/") for key in done)]

    def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer questions of a run. Its driver receives the answers; if there is none, they count when the run resumes.

        Raises:
            InputError: There is no such run or question, or an answer does not fit its JSON Schema.
        """
        open_ = {question.id: question for question in self.questions(run_id)}
        wrong: list[str] = []
        for question_id, value in answers.items():
            if question_id not in open_:
                hint = did_you_mean(question_id, open_)
                wrong.append(
                    f"{question_id!r}: there is no open question with this id{hint}; open: {', '.join(open_) or 'none'}"
                )
            elif schema := question_of(open_[question_id]).schema_:
                wrong += [f"{question_id!r}: {fault}" for fault in faults(schema, value)]
        if wrong:
            raise InputError("\n  ".join(["the answers are not accepted:", *wrong]))
        for question_id, value in answers.items():
            self.store.answer(run_id, open_[question_id].step, question_id, json.dumps(value))

    def retry(self, run_id: str, workflow: Workflow | None = None) -> None:
        """Make a failed run resumable: its next execution runs the failed operators again, and reuses finished ones.

        Args:
            run_id: The run.
            workflow: The present workflow, to check beforehand that it equals the one that the run began with.

        Raises:
            InputError: There is no such run, it did not fail, or the workflow was changed.
        """
        kept = self._known(run_id)
        if kept.state != FAILED:
            raise InputError(f"run {run_id!r} did not fail: it is {kept.state}")
        if workflow is not None:
            refuse_changed(kept, describe_workflow(workflow))
        if kept.failed:
            failed = [step.key for step in self.timeline(run_id) if step.outcome and step.outcome.error is not None]
            gone = [key for key in failed if failed_beside(key, kept.failed)]
            self.steps.forget(run_id, gone)
            self.store.forget_questions(run_id, gone)
        self.store.forget_deaths(run_id)
        self.store.forget_events(run_id)
        self.store.note(run_id, "", state=RUNNING, error="", failed="")

    def restart_from(self, run_id: str, operator: str, workflow: Workflow, *, round: int = 1) -> Sequence[str]:
        """Make an operator, and all operators that depend on it, run again when the run is next executed.

        Args:
            run_id: The run, which no process drives.
            operator: The operator's path: its id after those of the operators around it, separated by slashes, such as
                ``outer/inner`` or, for one item of a map, ``each[2]/check``; as in the run's keys.
            workflow: The present workflow; it may differ from the operator on.
            round: First round to repeat, of the outermost workflow; later rounds are forgotten.

        Returns:
            The keys of the forgotten outcomes.

        Raises:
            InputError: There is no such run or operator, a process drives the run, the operator did not run in that
                round but in others, or the workflow differs elsewhere, too.
        """
        kept = self._known(run_id)
        self._refuse_driven(kept)
        now = describe_workflow(workflow)
        try:
            before: Description = json.loads(kept.graph)
            again = descendants(merged(before, now), operator, now)
            stray = stray_changes(changes(before, now), again)
        except InputError as error:
            raise InputError(f"run {run_id!r}: {error}") from error
        except NO_GRAPH as error:
            raise unreadable(kept) from error
        if stray:
            raise InputError(
                f"run {run_id!r}: {shorten(stray)} changed, too, but does not depend on {operator!r}; "
                "restart from there, or begin a run with another id"
            )
        keys = [row.key for row in self.steps.of_run(run_id)]
        ran = sorted({at for path, at in map(place_of, keys) if is_under(path, again[:1])})
        if round < 1 or ((ran or round > 1) and round not in ran):
            rounds = ", ".join(map(str, ran)) or "none yet"
            raise InputError(f"run {run_id!r}: {operator!r} did not run in round {round}; it ran in: {rounds}")
        gone = [key for key in keys if is_again(key, again, round)]
        asked = {question.step for question in self.store.questions(run_id)}
        self.steps.forget(run_id, gone)
        self.store.forget_questions(run_id, [step for step in asked if is_again(step, again, round)])
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
            raise InputError(f"run {run_id!r} was resumed by another process meanwhile; wait for it")
        return gone

    def alive(self) -> Collection[str]:
        """Return the processes that seem to live, by the clocks."""
        return {each.id for each in self.store.executors() if each.alive}

    def is_driven(self, kept: KeptRun) -> bool:
        """Return True if a living process drives a run; a process that seems silent by the clocks is watched for a while."""
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
        """Cancel a run: no further operator begins, and those in progress are stopped if possible.

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
        self.steps.cancel(run_id)

    def delete(self, *run_ids: str) -> None:
        """Delete runs with all their records, a few at a time, so that other processes can write meanwhile.

        Raises:
            InputError: There is no such run, or one is being driven; then none is deleted.
        """
        for _ in self.deleting(run_ids):
            pass

    def deleting(self, run_ids: Sequence[str]) -> Iterator[str]:
        """Delete runs and yield the ids deleted so far; the rest stay if the iteration ends early.

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
            self.steps.forget_runs(few)
            yield from few
            time.sleep(BREATH)

    def retire(self, workflow: str, retention: Retention) -> Sequence[str]:
        """Delete finished runs of a workflow according to a rule, the oldest first, a limited number per call.

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
        """Shrink the file of the database to its content; see `Database.give_back_space`.

        A file created by an earlier version is rewritten for this, if no other process uses it.
        """
        return self.store.give_back_space(whole=not self.alive())

    def collect_files(self) -> int:
        """Remove files that no run of this database refers to; files of the last hour stay.

        Returns:
            The number of bytes freed.

        Raises:
            InputError: A file could not be removed.
        """
        return self.files.collect(self.store.digests(_DIGEST))

    # Kept values of a run

    def _given(self, kept: KeptRun, codec: Codec | None = None) -> dict[str, Any]:
        given = (codec or self.codec).load(kept.call, dict)
        if given.keys() != set(GIVEN) or not isinstance(given["job"], Job):
            raise unreadable(kept)
        return given

    def _result(self, kept: KeptRun, codec: Codec | None = None) -> tuple[WorkflowMessage, int]:
        """Return the message of a finished run, and its number of rounds."""
        result = (codec or self.codec).load(kept.result, tuple)
        if [type(part) for part in result] != [WorkflowMessage, int]:
            raise unreadable(kept)
        return result
