"""What a run is given, as users write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from operad.runtime.graph.call import OperatorCall
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import shown

JobLike = Job | str | Mapping[str, JsonValue]
"""What a run is given: a job, a text, which is the job's goal, or a dict, which is its inputs."""

ReasonerLike = Reasoner | Model | str | None
"""Who thinks: a reasoner, a model or its name; None for the workflow's own."""


def call_of(
    job: JobLike,
    reasoner: ReasonerLike,
    messages: Sequence[WorkflowMessage] | None,
    lesson: str | None,
    own_reasoner: Reasoner,
) -> OperatorCall:
    """Return the call of a workflow.

    Args:
        job: The job.
        reasoner: Who thinks; by default `own_reasoner`.
        messages: The messages of earlier experts.
        lesson: What to do better than last time.
        own_reasoner: The workflow's reasoner.

    Raises:
        InputError: The job is none, or the model cannot be used.
    """
    thinks = own_reasoner if reasoner is None else reasoner_of(reasoner)
    return OperatorCall(thinks, job_of(job), previous=tuple(messages or ()), lesson=lesson)


def job_of(job: JobLike) -> Job:
    """Return the job that a user gives, as a `Job`, a text or a dict.

    Raises:
        InputError: It is none of these.
    """
    if isinstance(job, Job):
        return job
    if isinstance(job, str):
        return Job(goal=job)
    if not isinstance(job, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"expected a text, a dict of inputs or a Job; got {shown(job)}")
    try:
        return Job(goal="", inputs=dict(job))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InputError(f"{where}: the inputs of a job are JSON values by name: {fault['msg']}") from error
