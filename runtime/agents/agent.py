"""Agents: a profile, a workflow and a reasoner."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

from operad.runtime.events import Event
from operad.runtime.graph.call import JobLike, ReasonerLike
from operad.runtime.reasoning.reasoner import Reasoner, own_or, reasoner_of
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.sync import run_sync
from operad.runtime.values.value import Value
from operad.runtime.workflow.chat import Chat
from operad.runtime.workflow.chat_store import ChatStore
from operad.runtime.workflow.memory import DEFAULT_TOKENS
from operad.runtime.workflow.run_checks import check_reasoner
from operad.runtime.workflow.workflow import Workflow


class Profile(Value):
    """Profile of an agent.

        Profile(name="Checker", description="Checks claims against a handbook.")

    Attributes:
        name: Name of the agent.
        description: Abilities of the agent, its inputs and its results.
    """

    name: str
    description: str = ""


def check_kinds(owner: str, *values: tuple[type, object]) -> None:
    """Check the types of arguments of an agent, which are given as pairs of a type and a value.

    Raises:
        InputError: An argument has another type.
    """
    for kind, value in values:
        if not isinstance(value, kind):
            name = kind.__name__
            raise InputError(f"{owner}(…): {name.lower()}: expected {name}(…), got {short_repr(value)}")


class Agent:
    """Workflow with a profile and a reasoner (Chat2Graph, Agent module).

        advisor = Agent(Profile(name="Adviser"), flow, "gpt-5.6")
        print(advisor.execute(Job("Is the moon made of cheese?")).scratchpad)

    Args:
        profile: Name and description.
        workflow: The workflow. Use its methods to answer questions of runs, and to resume or cancel runs.
        reasoner: A reasoner, a model, or its name; by default the workflow's model, and without one the model that
            environment variables name.
        memory: Maximum number of tokens of a conversation in a prompt.

    Raises:
        InputError: A value has another type.
    """

    def __init__(
        self, profile: Profile, workflow: Workflow, reasoner: ReasonerLike = None, memory: int = DEFAULT_TOKENS
    ) -> None:
        check_kinds(type(self).__name__, (Profile, profile), (Workflow, workflow))
        self.profile = profile
        self.workflow = workflow
        self.reasoner = reasoner_of(workflow.model if reasoner is None else reasoner)
        self.memory = memory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.profile.name!r}>"

    def check_model(self) -> None:
        """Raise InputError if operators ask a model and none is configured; also in nested workflows."""
        graph = self.workflow.graph()
        check_reasoner(self.reasoner, [*graph.operators.values(), *graph.evaluators])

    def execute(
        self,
        job: JobLike,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Do the job and return the message of the run; for callers without an event loop. See `aexecute`.

        Raises:
            RunningLoopError: An event loop is running here: await `aexecute` instead.
        """
        start = partial(self.aexecute, job, workflow_messages, lesson, run_id=run_id)
        return run_sync(start, instead=f"{type(self).__name__.lower()}.aexecute(…)")

    async def aexecute(
        self,
        job: JobLike,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Do the job and return the message of the run; see `Workflow.aexecute`."""
        return await self.workflow.aexecute(job, self.reasoner, workflow_messages, lesson, run_id=run_id)

    def stream(
        self,
        job: JobLike,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Do the job and yield its events; see `Workflow.stream`."""
        return self.workflow.stream(job, self.reasoner, workflow_messages, lesson, run_id=run_id)

    def chat(self, id: str | None = None, *, store: ChatStore | str | Path | None = None, deps: object = None) -> Chat:
        """Start or continue a conversation; see `Workflow.chat`."""
        return self.workflow.chat(id, store=store, memory=self.memory, model=self.reasoner, deps=deps)


class Expert(Agent):
    """Agent for jobs of one kind.

        profile = Profile(name="Fact checker", description="Checks the claims of a text.")
        expert = Expert(profile, Workflow(facts >> answer))
        message = expert.execute(Job("Is this so? The moon has air."))

    The verdict of the workflow's evaluator decides how a job continues. After EXECUTION_ERROR, the operators at fault
    run again with the lesson while the workflow has rounds left. The caller handles the other verdicts:
    INPUT_DATA_ERROR, with a lesson for the producer of the input, and JOB_TOO_COMPLICATED_ERROR, which asks to split
    the job. A `Leader` does so.
    """

    uses_model_of_run = False
    """True for an expert of a file that names no model for it: a leader's run with another model uses that model."""

    def reasoner_in(self, reasoner: Reasoner) -> Reasoner:
        """Return the reasoner of the expert in a leader's run with a reasoner: the expert's own."""
        return own_or(self.reasoner, reasoner)
