"""State of a job that a leader splits: its parts, their results and repetitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from operad.runtime.agents.job_graph import JobGraph
from operad.runtime.values.errors import (
    InputError,
    shorten,
)
from operad.runtime.values.message import NO_USAGE, Job, WorkflowMessage, WorkflowStatus

Given = tuple[tuple[str, str, dict[str, Any]], ...]
"""Input of a sub-job: id, text and outputs of each message."""

Done = dict[str, tuple[Given, WorkflowMessage]]
"""Input and message of finished sub-jobs, by id."""


@dataclass(slots=True, eq=False)
class JobState:
    """State of a job of a leader.

    Attributes:
        job: The job.
        given: Messages of earlier experts.
        lesson: Lesson from an earlier attempt.
        graph: Split of the job.
        graphs: Splits of sub-jobs, by sub-job id.
        done: Input and message of each finished sub-job.
        kept: Sub-jobs that finished in an earlier execution; their messages are reused if their input is the same.
        blamed: Number of times that each sub-job was found at fault and repeated.
        again: Blamed sub-jobs that have not started again yet.
        lessons: Lessons for each sub-job.
        task: Task that executes the job, while it is in progress.
        ended: Reason for which the job was stopped; empty if it was not.
        forgotten: True if the state is removed when the job ends.
    """

    job: Job
    given: list[WorkflowMessage]
    lesson: str | None
    graph: JobGraph | None = None
    graphs: dict[str, JobGraph] = field(default_factory=dict[str, JobGraph])
    done: Done = field(default_factory=Done)
    kept: Done = field(default_factory=Done)
    blamed: Counter[str] = field(default_factory=Counter[str])
    again: set[str] = field(default_factory=set[str])
    lessons: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    task: asyncio.Task[WorkflowMessage] | None = None
    ended: str = ""
    forgotten: bool = False

    @property
    def running(self) -> bool:
        """True while a task executes the job."""
        task = self.task
        return task is not None and not task.get_loop().is_closed()

    def end(self, why: str) -> None:
        """Stop the job for a reason; can be called in any thread.

        Raises:
            InputError: The job has already ended.
        """
        task = self.task
        if task is None or not self.running:
            raise InputError(f"job {self.job.id!r} is not in progress; it has ended")
        self.ended = why
        task.get_loop().call_soon_threadsafe(task.cancel)

    def results(self) -> tuple[WorkflowMessage, ...]:
        """Return the messages of the finished sub-jobs."""
        return tuple(message for _, message in self.done.values())

    def done_by_then(self) -> str:
        """Return a sentence that lists the finished sub-jobs, for an error."""
        return f"Done by then: {shorten(list(self.done)) or 'nothing'}."

    def repeat_with_lesson(self, sub_job_id: str, lesson: str) -> None:
        """Have a sub-job run again with a lesson; if it is split, the tails among its parts."""
        if sub_job_id not in self.again:  # counted once, even if several sub-jobs blame it at the same time
            self.blamed[sub_job_id] += 1
            self.again.add(sub_job_id)
        for finished in (self.done, self.kept):
            finished.pop(sub_job_id, None)
        other_lessons = [other for other in self.lessons.get(sub_job_id, []) if other != lesson]
        self.lessons[sub_job_id] = [*other_lessons, lesson]
        if graph := self.graphs.get(sub_job_id):
            for tail in graph.tails:
                self.repeat_with_lesson(tail, lesson)
            parts = {part.id for part in graph.sub_jobs} - set(graph.tails)
            self.kept |= {part: self.done[part] for part in parts if part in self.done}


def failed_outcome(work: JobState, why: str, verdict: WorkflowMessage | None = None) -> WorkflowMessage:
    """Return the message of a job that failed: the verdict that ended it, with the messages of finished sub-jobs."""
    verdict = verdict or WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR)
    return verdict.model_copy(
        update={
            "evaluation": f"{why.rstrip('.')}. {work.done_by_then()}",
            "parts": work.results(),
            "usage": NO_USAGE,
        }
    )


def is_same(first: object, second: object) -> bool:
    """Return True if two values are equal; False if comparing them raises, as a user's outputs may."""
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001
        return False
