"""Kept runs, for processes that do not drive them: list, read, answer, cancel, retry, copy and delete."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.copies import copied
from operad.runtime.durable.database import BREATH
from operad.runtime.durable.database_names import database_option, database_url, file_store
from operad.runtime.durable.description import (
    describe_workflow,
    failed_beside,
    refuse_changed,
    unreadable,
)
from operad.runtime.durable.history import read_events, settled
from operad.runtime.durable.process_ids import is_dead
from operad.runtime.durable.restart import Restart
from operad.runtime.durable.run_writer import Progress
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import (
    CANCELLED,
    DONE,
    FAILED,
    FINISHED,
    RUNNING,
    UNDER_WAY,
    Executor,
    Retention,
    StepRow,
    StoredQuestion,
    StoredRun,
    question_of,
)
from operad.runtime.durable.work_table import StepTable, StoredStep, batched, kept_step
from operad.runtime.events import CANCELLED as IT_WAS_CANCELLED
from operad.runtime.events import Event, RunFailed
from operad.runtime.graph.call import new_answers
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.questions import Question, check_answers
from operad.runtime.workflow.workflow import Workflow

# Detection of dead processes by this process's own observations, independent of other clocks.


class Watch:
    """Observer of heartbeats over time.

    A process is dead if it ran on this machine and has ended, or if this process has observed no new heartbeat of it
    for as many seconds as it may be silent. If this process itself pauses for longer between two observations, the
    period starts again, because both processes may have been stopped.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, float, float]] = {}

    def is_dead(self, executor: Executor) -> bool:
        """Return True if a process is dead; call it with a row that has just been read."""
        if is_dead(executor.process):
            return True
        now = self._clock()
        beat, since, looked = self._seen.get(executor.id, (None, now, now))
        if beat != executor.beat or now - looked > executor.limit:
            since = now
        self._seen[executor.id] = (executor.beat, since, now)
        return now - since > executor.limit


GIVEN = ("job", "messages", "previous", "lesson")
"""Parts of a run's input, except for the reasoner."""

_DIGEST = r"sha256:[0-9a-f]{64}"
_RUNS_AT_ONCE = 50

_MOST_NAMES = 1_000
"""Number of the newest runs considered for a suggestion when an id is unknown."""

LOOK = 0.5
"""Seconds between two checks whether a process is dead."""


class Records:
    """Stored runs in a database: SQLite on one machine, PostgreSQL on several.

    Args:
        url: The database: a URL, or the path of an SQLite file; None for one in the user's state folder.
        files: Store for files that operators create: a folder, or an address that machines share; None for a
            folder beside the SQLite file, or in the user's state folder.

    Attributes:
        files: Store of files.
        codec: Codec of stored values.
        watch: Observer that determines which processes are dead.

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

    @property
    def steps(self) -> StepTable:
        """Records of the runs' operators."""
        return self.store.steps

    def close(self) -> None:
        """Close the database."""
        if (store := vars(self).pop("store", None)) is not None:
            store.close()

    def runs(self, limit: int | None = None, after: str = "") -> Sequence[StoredRun]:
        """Return runs, the newest first, without the long fields (sources, inputs and results) that `run` returns.

        Args:
            limit: Maximum number; None for all.
            after: Id of the last run of an earlier page; the runs after it are returned.

        Raises:
            InputError: No run has the id `after`.
        """
        return self.store.runs(limit, self._existing_run(after).run_id if after else "")

    def _existing_run(self, run_id: str) -> StoredRun:
        """Return a run, or raise InputError with similar ids."""
        kept = self.store.run(run_id)
        if kept is None:
            hint = did_you_mean(run_id, [run.run_id for run in self.store.runs(_MOST_NAMES)])
            option = "" if self.url == database_url(None) else database_option(self.url)
            raise InputError(f"no run has the id {run_id!r}{hint}; to list the runs: operad runs list{option}")
        return kept

    def run(self, run_id: str) -> StoredRun:
        """Return a run.

        Raises:
            InputError: No run has this id.
        """
        return self._existing_run(run_id)

    def job(self, run_id: str) -> Job:
        """Return the job of a run.

        Raises:
            InputError: No run has this id, or its job cannot be read.
        """
        return self._input_of(self._existing_run(run_id))["job"]

    def result(self, run_id: str) -> WorkflowMessage | None:
        """Return the message of a run; None if it has not finished.

        Raises:
            InputError: No run has this id, or its message cannot be read.
        """
        kept = self._existing_run(run_id)
        return self._result(kept)[0] if kept.result else None

    def timeline(self, run_id: str) -> Sequence[StoredStep]:
        """Return the records of a run's operators: finished ones in the order of their ends, then the others.

        An outcome that cannot be read is returned as an error. Files have their original paths, and are not fetched.

        Raises:
            InputError: No run has this id.
        """
        rows = self.steps.of_run(self._existing_run(run_id).run_id, outcomes=True)
        steps = [kept_step(row) for row in rows if row.status in (DONE, *UNDER_WAY)]
        return sorted(steps, key=lambda step: (step.outcome is None, step.ended))

    def events(self, run_id: str) -> Sequence[Event]:
        """Return the events of a run.

        These are the events that listeners received, except for `TokenStreamed`, `ThinkingStreamed` and `ModelAsked`,
        which are not stored; those of a run in progress are up to about a second old. When a run is resumed, it
        continues its history: the events of operators that start again, and the end of a run that failed, are dropped.

        Raises:
            InputError: No run has this id.
        """
        return read_events(run_id, self.store.event_parts(self._existing_run(run_id).run_id))

    def events_after(self, run_id: str, part: int) -> tuple[Sequence[Event], int]:
        """Return the events of a run that were stored after a part, and the number of the last part.

        If earlier events were dropped meanwhile, all events are returned; the first is `RunStarted`.

        Args:
            part: Number of the last part of an earlier call; 0 for all events.
        """
        parts = self.store.event_parts(run_id, part)
        return read_events(run_id, parts), parts[-1].number if parts else part

    def _kept_steps(self, run_id: str) -> dict[str, StepRow]:
        """Return the records of a run's operators that have an outcome, by key."""
        return {row.key: row for row in self.steps.of_run(run_id, outcomes=True) if row.outcome is not None}

    def _settle(
        self, kept: StoredRun, driver: str, steps: Mapping[str, StepRow], **values: object
    ) -> tuple[Sequence[Event], int]:
        """Drop the events of a run that do not hold when it continues; see `settled`.

        Args:
            driver: The process that drives the run; empty if none does.
            steps: Records of the operators that have an outcome, by key.
            values: New values of columns of the run, written together.

        Returns:
            The events that hold, and the number of their last part.
        """
        parts = self.store.event_parts(kept.run_id)
        happened, number = read_events(kept.run_id, parts), parts[-1].number if parts else 0
        held = settled(happened, steps, self.store.questions(kept.run_id))
        is_changed = held != happened
        number += is_changed
        if is_changed or values:
            rewritten = held if is_changed else ()
            progress = Progress(kept.run_id, rewritten, number, values=values, is_whole=is_changed)
            self.store.changes.write(driver, [progress])
        return held, number

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run.

        Raises:
            InputError: No run has this id, or the JSON Schema of an answer is not valid.
        """
        return [question_of(question) for question in self.questions(run_id)]

    def questions(self, run_id: str) -> Sequence[StoredQuestion]:
        """Return the stored records of a run's open questions; those of operators that have finished are left out."""
        unanswered = [each for each in self.store.questions(self._existing_run(run_id).run_id) if each.answer is None]
        done = [row.key for row in self.steps.of_run(run_id) if row.status == DONE] if unanswered else []
        return [
            question
            for question in unanswered
            if not any(question.step == key or question.step.startswith(f"{key}/") for key in done)
        ]

    def stored_answers(self, run_id: str) -> Mapping[str, JsonValue]:
        """Return the answers to questions of a run, by question id, without those to questions that are open again."""
        open_ids = {question.id for question in self.questions(run_id)}
        asked = [question for question in self.store.questions(run_id) if question.id not in open_ids]
        return {question.id: json.loads(question.answer) for question in asked if question.answer is not None}

    def answer(self, run_id: str, answers: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions of a run; its driver, or the run when it is resumed, receives the answers.

        An answer that was given before changes nothing, so that a call which was interrupted can be repeated.

        Args:
            by: Name of the person who answers, for the record; empty if it is not known.

        Raises:
            InputError: The run is unknown.
            InvalidError: A question is unknown or has another answer already, or an answer does not fit its schema. No
                answer was accepted then.
        """
        questions = {question.id: question for question in self.questions(run_id)}
        new = new_answers(run_id, answers, self.stored_answers(run_id))
        check_answers(new, [question_of(question) for question in questions.values()])
        for question_id, value in new.items():
            if not self.store.answer(run_id, questions[question_id].step, question_id, json.dumps(value), by):
                new_answers(run_id, {question_id: value}, self.stored_answers(run_id))  # another process was first
        kept = self._existing_run(run_id)
        if new and not kept.driver:
            self._settle(kept, "", self._kept_steps(run_id))

    def retry(self, run_id: str, workflow: Workflow | None = None) -> None:
        """Prepare a failed run to be resumed: its next execution runs only the failed operators again.

        Answers that people gave to these operators are used again; a copy of `restart_from` asks them anew.

        Args:
            workflow: The current workflow, to check beforehand that it equals the workflow with which the run started.

        Raises:
            InputError: No run has this id, the run did not fail, or the workflow was changed.
        """
        kept = self._existing_run(run_id)
        if kept.state != FAILED:
            raise InputError(f"run {run_id!r} did not fail: it is {kept.state}")
        if workflow is not None:
            refuse_changed(kept, describe_workflow(workflow))
        if kept.failed:
            failed = [step.key for step in self.timeline(run_id) if step.outcome and step.outcome.error is not None]
            again = [key for key in failed if failed_beside(key, kept.failed)]
            self.steps.forget(run_id, again)
            self.store.forget_parts(run_id, *again)  # a worker may have died before it deleted them
        self._settle(kept, "", self._kept_steps(run_id), state=RUNNING, error="", failed="")

    def restart_from(
        self,
        run_id: str,
        operator: str,
        workflow: Workflow,
        *,
        round: int = 1,
        outputs: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        by: str = "",
    ) -> str:
        """Copy a run without the outcomes of an operator and of all operators that depend on it.

        The next execution of the copy runs these operators again. The run itself does not change, and may be in
        progress. An operator whose output is changed does not run again; those that depend on it do.

        Args:
            operator: The operator's path: the ids of the operators that contain it and its own id, separated by
                slashes, such as ``outer/inner`` or, for one item of a map, ``each[2]/check``; as in the run's keys.
            workflow: The current workflow; the operator and those that depend on it may have been changed.
            round: First round of the outermost workflow to repeat; later rounds are left out.
            outputs: Outputs that replace those of operators, by path. The output of a typed operator is validated; of
                named outputs, an object may name some.
            inputs: Inputs that replace those of the job, for the operators that run again.
            by: Name of the person who restarts the run, for the record.

        Returns:
            The id of the copy: that of the run with the next free number, such as ``monday-2``.

        Raises:
            InputError: The run or the operator is unknown, the operator did not run in that round but in others,
                other parts of the workflow were changed, too, or an output or an input does not fit.
        """
        kept = self._existing_run(run_id)
        copy = copied(
            kept,
            self._input_of(kept),
            self.steps.of_run(run_id, outcomes=True),
            self.store.questions(run_id),
            workflow,
            describe_workflow(workflow),
            Restart(operator, round, outputs or {}, inputs or {}, by),
            self.codec,
        )
        for number in count(2):
            run = copy.numbered(number)
            if self.store.create(run, copy.steps, copy.questions):
                return run.run_id
        raise AssertionError("unreachable")

    def alive(self) -> Collection[str]:
        """Return the ids of the processes whose last heartbeat is recent."""
        return {executor.id for executor in self.store.executors() if executor.alive}

    def is_driven(self, kept: StoredRun) -> bool:
        """Return True if a living process drives a run.

        A process without a recent heartbeat is observed until it has a new one or counts as dead.
        """
        driver = first = self._driver_of(kept)
        while driver is not None and first is not None and not self.watch.is_dead(driver):
            if driver.alive or driver.beat != first.beat:
                return True
            time.sleep(LOOK)
            driver = self._driver_of(kept)
        return False

    def _driver_of(self, kept: StoredRun) -> Executor | None:
        if not kept.driver:
            return None
        return next((each for each in self.store.executors() if each.id == kept.driver), None)

    def _refuse_driven(self, kept: StoredRun) -> None:
        if self.is_driven(kept):
            raise InputError(f"run {kept.run_id!r} is being driven by {kept.driver}; cancel it first")

    def cancel(self, run_id: str) -> None:
        """Cancel a run: no further operator begins, and those in progress are stopped if possible.

        Raises:
            InputError: No run has this id, or the run has ended.
        """
        kept = self._existing_run(run_id)
        if kept.state in (FINISHED, FAILED, CANCELLED):
            raise InputError(f"run {run_id!r} has ended already: it is {kept.state}")
        if self.is_driven(kept):
            self.store.request_cancel(run_id)
            return
        happened = self.events(run_id)
        at = self.store.database.now()
        seconds, seq = max(0.0, at - kept.created), happened[-1].seq + 1 if happened else 1
        end = RunFailed(run_id=run_id, seq=seq, time=at, error=IT_WAS_CANCELLED, seconds=seconds, usage=kept.used)
        part = self.store.event_parts(run_id)[-1].number + 1 if happened else 1
        values = {"state": CANCELLED, "driver": "", "cancelling": False}
        self.store.changes.write(kept.driver, [Progress(run_id, [end], part, values=values)])
        self.store.work.cancel(run_id)

    def delete(self, *run_ids: str) -> None:
        """Delete runs with all their records, a few at a time, so that other processes can write meanwhile.

        Raises:
            InputError: A run is unknown or is being driven. No run is deleted then.
        """
        for _ in self.deleting(run_ids):
            pass

    def deleting(self, run_ids: Sequence[str]) -> Iterator[str]:
        """Delete runs, and yield the id of each deleted run; if the iteration ends early, the other runs stay.

        Raises:
            InputError: As for `delete`.
        """
        unique_ids = list(dict.fromkeys(run_ids))
        for batch in batched(unique_ids, _RUNS_AT_ONCE):
            existing = self.store.runs_by_id(batch)
            if missing := set(batch) - {kept.run_id for kept in existing}:
                self._existing_run(min(missing))
            for kept in existing:
                self._refuse_driven(kept)
        for batch in batched(unique_ids, _RUNS_AT_ONCE):
            self.store.forget(batch)
            yield from batch
            time.sleep(BREATH)

    def retire(self, workflow: str, retention: Retention) -> Sequence[str]:
        """Delete finished runs of a workflow according to a rule, the oldest first, a limited number per call.

        Returns:
            The ids of the deleted runs.
        """
        ended = partial(self.store.ended, FINISHED, workflow=workflow)
        too_old: Sequence[str] = [] if retention.max_age is None else ended(seconds=retention.max_age)
        too_many: Sequence[str] = [] if retention.max_runs is None else ended(but=retention.max_runs)
        deleted = list(dict.fromkeys([*reversed(too_old), *reversed(too_many)]))[:_RUNS_AT_ONCE]
        if deleted:
            self.delete(*deleted)
            self.store.database.give_back_space()
        return deleted

    def give_back_space(self) -> None:
        """Shrink the file of the database to its content; see `Database.give_back_space`."""
        self.store.database.give_back_space()

    def collect_files(self) -> int:
        """Remove files to which no run of this database refers; files of the last hour stay.

        Returns:
            The number of bytes freed.

        Raises:
            InputError: A file could not be removed.
        """
        return self.files.collect(self.store.digests(_DIGEST))

    # Stored values of a run

    def _input_of(self, kept: StoredRun, codec: Codec | None = None) -> dict[str, Any]:
        """Return the parts of a run's input by their names in `GIVEN`, or raise InputError."""
        parts = (codec or self.codec).load(kept.call, dict)
        if parts.keys() != set(GIVEN) or not isinstance(parts["job"], Job):
            raise unreadable(kept)
        return parts

    def _result(self, kept: StoredRun, codec: Codec | None = None) -> tuple[WorkflowMessage, int]:
        """Return the message of a finished run, and its number of rounds."""
        result = (codec or self.codec).load(kept.result, tuple)
        if [type(part) for part in result] != [WorkflowMessage, int]:
            raise unreadable(kept)
        return result
