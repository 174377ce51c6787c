"""State of a job that a leader splits: its parts, what they gave, and what is repeated."""

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
"""Input of a sub-job: authors, texts and outputs."""

Done = dict[str, tuple[Given, WorkflowMessage]]


@dataclass(slots=True, eq=False)
class JobState:
    """State of a job.

    Attributes:
        job: The job.
        given: Results of earlier experts.
        lesson: Advice after the last attempt.
        graph: Split of the job.
        graphs: Splits of its sub-jobs, by their ids.
        done: Input and message of each finished sub-job.
        kept: Finished sub-jobs whose messages are reused if their input is the same.
        blamed: Number of times that each sub-job was found at fault and repeated.
        again: Blamed sub-jobs that have not begun again yet.
        lessons: Lesson for each sub-job.
        task: Task that does the job, while it is in progress.
        ended: Reason for which it was ended from outside.
        forgotten: True if nothing is kept when it ends.
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
        """True while a task does the job."""
        task = self.task
        return task is not None and not task.get_loop().is_closed()

    def end(self, why: str) -> None:
        """End the job from outside.

        Raises:
            InputError: The job has ended already.
        """
        task = self.task
        if task is None or not self.running:
            raise InputError(f"job {self.job.id!r} is not being done; it ended before")
        self.ended = why
        task.get_loop().call_soon_threadsafe(task.cancel)

    def results(self) -> tuple[WorkflowMessage, ...]:
        """Return the messages of the finished sub-jobs."""
        return tuple(message for _, message in self.done.values())

    def done_by_then(self) -> str:
        """Return the names of the finished sub-jobs, for an error."""
        return f"Done by then: {shorten(list(self.done)) or 'nothing'}."

    def teach(self, sub_job_id: str, lesson: str) -> None:
        """Repeat a sub-job, or those of its parts that deliver its result, with a lesson."""
        if sub_job_id not in self.again:  # several sub-jobs may blame it at once
            self.blamed[sub_job_id] += 1
            self.again.add(sub_job_id)
        for known in (self.done, self.kept):
            known.pop(sub_job_id, None)
        earlier = [known for known in self.lessons.get(sub_job_id, []) if known != lesson]
        self.lessons[sub_job_id] = [*earlier, lesson]
        if graph := self.graphs.get(sub_job_id):
            for tail in graph.tails:
                self.teach(tail, lesson)
            parts = {part.id for part in graph.sub_jobs} - set(graph.tails)
            self.kept |= {part: self.done[part] for part in parts if part in self.done}


def failed_outcome(work: JobState, why: str, verdict: WorkflowMessage | None = None) -> WorkflowMessage:
    """Return the message of a job that failed: the verdict that ended it, and all results so far."""
    verdict = verdict or WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR)
    return verdict.model_copy(
        update={
            "evaluation": f"{why.rstrip('.')}. {work.done_by_then()}",
            "parts": work.results(),
            "usage": NO_USAGE,
        }
    )


def is_same(one: object, other: object) -> bool:
    """Return True if they are equal; not where an output of somebody's own cannot be compared."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001
        return False
