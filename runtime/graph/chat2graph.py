"""Chat2Graph's signatures: `execute` of operators, with the parts of a call as arguments, and `execute` of workflows.

Everything else uses `run`, with an `OperatorCall` or a job.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from operad.runtime.graph.call import JobLike, OperatorCall, ReasonerLike
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.sync import run_sync

Answer = WorkflowMessage | str
"""Return value of an operator; plain text counts as a message with that text."""


class Executable(Protocol):
    """Protocol of objects that a workflow runs as operators although they are not a `BaseOperator`.

        class Shout:  # an Executable: no base class is needed
            def get_id(self):
                return "shout"

            async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
                return job.goal.upper()

        print(Workflow(Shout()).run("hello").text)  # HELLO
        shout: Executable = Shout()

    The object may also have any of the attributes and methods for which `BaseOperator` has defaults.
    """

    def get_id(self) -> str:
        """Return the id of the object, unique in a workflow."""
        ...

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage | str:
        """Do the work; plain text counts as a message with that text."""
        ...


def call_of(
    reasoner: Reasoner,
    job: Job,
    workflow_messages: Sequence[WorkflowMessage] | None = None,
    previous_expert_outputs: Sequence[WorkflowMessage] | None = None,
    lesson: str | None = None,
) -> OperatorCall:
    """Return a call with the arguments of `Executable.execute`."""
    return OperatorCall(reasoner, job, tuple(workflow_messages or ()), tuple(previous_expert_outputs or ()), lesson)


def executed(execute: Callable[..., Any], call: OperatorCall, *owner: object) -> Any:
    """Call a method `execute` with its owner, if it is not bound, and the parts of a call."""
    return execute(
        *owner,
        call.reasoner,
        call.job,
        workflow_messages=[*call.messages],
        previous_expert_outputs=[*call.previous],
        lesson=call.lesson,
    )


def awaitable(answer: Any, owner: object, method: str) -> Awaitable[Answer]:
    """Return what a method `run` or `execute` has returned, if it can be awaited.

    Raises:
        InputError: It cannot.
    """
    if inspect.isawaitable(answer):
        return answer
    raise InputError(f"{type(owner).__name__}.{method} must be async: write `async def {method}(self, …)`")


class ExecutesCalls:
    """Base class of operators, which have a method `run`: adds `execute`."""

    async def run(self, call: OperatorCall) -> Answer:
        """Do the work."""
        raise NotImplementedError(f"{type(self).__name__} has no method run(call) or execute(…); define one of them")

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> Answer:
        """Do the work, with the parts of an `OperatorCall` as arguments.

        Args:
            workflow_messages: The messages of the operator's predecessors.
            previous_expert_outputs: The messages of earlier experts.
            lesson: Lessons for the operator from the verdicts of earlier rounds.
        """
        return await self.run(call_of(reasoner, job, workflow_messages, previous_expert_outputs, lesson))


def make_both(kind: type[ExecutesCalls]) -> None:
    """Give a class that defines one of the methods `run` and `execute` the other one, which calls it.

    The other method calls the one of this class, not that of a subclass, so that ``super()`` works in both.
    """
    defined = vars(kind)
    for name in ("run", "execute"):
        method = defined.get(name)
        if inspect.isfunction(method) and not inspect.iscoroutinefunction(inspect.unwrap(method)):
            setattr(kind, name, _refusing_plain_answers(method))
    made: Any = kind
    if "run" in defined and "execute" not in defined:
        made.execute = _execute_from_run(defined["run"])
    elif "execute" in defined and "run" not in defined:
        made.run = _run_from_execute(defined["execute"])


def _refusing_plain_answers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `run` or `execute` that is not ``async``, with a check that its answer can be awaited."""

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        return awaitable(method(self, *args, **kwargs), self, method.__name__)

    return checked


def _execute_from_run(run: Callable[..., Awaitable[Answer]]) -> Any:
    """Return a method `execute` that calls the method `run`."""

    async def execute(
        self: Any,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> Answer:
        return await run(self, call_of(reasoner, job, workflow_messages, previous_expert_outputs, lesson))

    execute.__doc__ = ExecutesCalls.execute.__doc__
    return execute


def _run_from_execute(execute: Callable[..., Awaitable[Answer]]) -> Any:
    """Return a method `run` that calls the method `execute`."""

    def run(self: Any, call: OperatorCall) -> Awaitable[Answer]:
        return executed(execute, call, self)

    run.__doc__ = ExecutesCalls.run.__doc__
    return run


class ExecutesJobs:
    """Base class of workflows: adds `execute` and `aexecute`."""

    def execute(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Run the workflow and wait for it; for callers without an event loop.

        Arguments, result and errors are those of `aexecute`.

        Raises:
            RunningLoopError: An event loop is running here: await `aexecute` instead.
        """
        return run_sync(
            partial(self.aexecute, job, reasoner, workflow_messages, lesson, run_id=run_id), instead="flow.aexecute(…)"
        )

    async def aexecute(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Run the workflow and return its message; see `Workflow.arun`.

        Args:
            reasoner: Reasoner of this run: a reasoner, a model or its name; by default the workflow's `model`.
            workflow_messages: Messages of earlier experts.
            lesson: Lesson from an earlier attempt.
            run_id: Id of the run; a new one by default.

        Returns:
            The verdict of the best round, with the text and outputs that it judges. Without an evaluator: the message
            of the last operator, or of several ones joined, in the order in which they were added.

        Raises:
            Exception: The errors of `Workflow.arun`.
        """
        return await self._executed(job, reasoner, workflow_messages, lesson, run_id)

    async def _executed(
        self,
        job: JobLike,
        reasoner: ReasonerLike,
        messages: Sequence[WorkflowMessage] | None,
        lesson: str | None,
        run_id: str | None,
    ) -> WorkflowMessage:
        """Run the workflow and return its message."""
        raise NotImplementedError
