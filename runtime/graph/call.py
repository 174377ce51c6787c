"""Input of an operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Self

from operad.runtime.policies.cache import cache_key
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.step_record import StepRecord


class OperatorCall(Struct, frozen=True):
    """Input of one call of an operator, or of a workflow inside an operator.

        call = OperatorCall(reasoner, Job("Check the claim."), lesson="Name your sources.")
        message = await check.run(call)

    Attributes:
        reasoner: The reasoner of the run.
        job: The job that the workflow works on.
        messages: The messages of the operator's predecessors.
        previous: The messages of earlier experts.
        lesson: Lessons for the operator from the verdicts of earlier rounds.
        transcript: For an evaluator: the records of the operators, in the order of the graph, also of those inside of
            others.
        judged: For an evaluator: the message that it judges.
        deps: Object that the caller gave to the run, as `RunContext.deps`; never stored.
        rejection: Rejected answer of the operator in the last round; None if it was not rejected. For an evaluator: its
            last verdict.
    """

    reasoner: Reasoner
    job: Job
    messages: tuple[WorkflowMessage, ...] = ()
    previous: tuple[WorkflowMessage, ...] = ()
    lesson: str | None = None
    transcript: tuple[StepRecord, ...] = ()
    judged: WorkflowMessage | None = None
    deps: Any = None
    rejection: Rejection | None = None

    @property
    def holds_values(self) -> bool:
        """True if the call may hold values that an operator could change; most calls are texts, which cannot change."""
        has_more = self.job.inputs or self.previous or self.transcript or self.judged
        return bool(has_more) or any(message.holds_values for message in self.messages)

    def own(self) -> Self:
        """Return a call whose messages and job the operator may change without a change for others."""
        if not self.holds_values:
            return self
        return replace(
            self,
            job=self.job.own(),
            messages=tuple([message.own() for message in self.messages]),
            previous=tuple([message.own() for message in self.previous]),
            transcript=tuple([step.own() for step in self.transcript]),
            judged=self.judged and self.judged.own(),
        )

    def key(self, operator: object) -> str | None:
        """Return the cache key of an operator's answer to this call, which is the same in every run.

        The content of the job's files is part of the key, so they are read.

        Returns:
            The key, or None if a part of the call has no JSON form, or if the run has deps.

        Raises:
            InputError: The operator, or the reasoner, has no fingerprint.
        """
        if self.deps is not None:
            return None  # the answer may depend on them
        caller = cache_key(operator, self.reasoner)
        try:
            return cache_key(
                caller, self.job, self.messages, self.previous, self.lesson, self.rejection, *self.transcript
            )
        except InputError:
            return None


R = TypeVar("R", bound=Callable[..., Any])


def refusing_jobs(run: R) -> R:
    """Decorate the method `run` of an operator: it raises InputError for a job, which belongs to a workflow's `run`."""

    @functools.wraps(run)
    def checked(self: Any, call: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(call, OperatorCall):
            class_name = type(self).__name__
            raise InputError(
                f"{class_name}.run(…) got {short_repr(call)}: an operator runs in a workflow: "
                f"Workflow({class_name}(…)).run(…)"
            )
        return run(self, call, *args, **kwargs)

    return cast("R", checked)
