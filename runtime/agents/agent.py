"""Agents: who can do what, with which workflow and which reasoner."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

from operad.runtime.events import Event
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.message import Job, Value, WorkflowMessage
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.chat import Chat
from operad.runtime.workflow.chat_store import ChatStore
from operad.runtime.workflow.memory import DEFAULT_TOKENS
from operad.runtime.workflow.workflow import Workflow


class Profile(Value):
    """How an agent presents itself.

    Attributes:
        name: What it is called.
        description: What it can do, what it needs and what it delivers.
    """

    name: str
    description: str = ""


class Agent:
    """A workflow with the reasoner that thinks in it (Chat2Graph, Agent module).

    Args:
        profile: How it presents itself.
        workflow: What it does; questions, resuming and cancelling are there, too.
        reasoner: Who thinks.
        memory: Tokens that a conversation may have in a prompt.
    """

    def __init__(self, profile: Profile, workflow: Workflow, reasoner: Reasoner, memory: int = DEFAULT_TOKENS) -> None:
        self.profile = profile
        self.workflow = workflow
        self.reasoner = reasoner
        self.memory = memory

    def check_model(self) -> None:
        """Raises InputError if its operators ask a model and none is configured; see `Workflow.check_model`."""
        self.workflow.check_model(self.reasoner)

    def execute(
        self,
        job: Job,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Do the job and wait for it; for callers without an event loop. See `aexecute`.

        Raises:
            RunningLoopError: An event loop is running here: await `aexecute` instead.
        """
        start = partial(self.aexecute, job, workflow_messages, lesson, run_id=run_id)
        return run_sync(start, instead=f"{type(self).__name__}.aexecute(…)")

    async def aexecute(
        self,
        job: Job,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Do the job; see `Workflow.aexecute`."""
        return await self.workflow.aexecute(job, self.reasoner, workflow_messages, lesson, run_id=run_id)

    def stream(
        self,
        job: Job,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Do the job and yield its events; see `Workflow.stream`."""
        return self.workflow.stream(job, self.reasoner, workflow_messages, lesson, run_id=run_id)

    def chat(self, id: str | None = None, *, store: ChatStore | str | Path | None = None) -> Chat:
        """Begin a conversation, or go on with one; see `Workflow.chat`."""
        return Chat(self.workflow, self.reasoner, id, store=store, memory=self.memory)


class Expert(Agent):
    """Does jobs of one kind.

        profile = Profile(name="Fact checker", description="Checks the claims of a text.")
        expert = Expert(profile, Workflow(facts >> answer), MonoModelReasoner())
        message = expert.execute(Job("Is this so? The moon has air."))

    Its evaluator's verdict says what becomes of a job. On EXECUTION_ERROR, while the workflow has
    rounds left, those at fault run again with the lesson. The other verdicts are for who gave it
    the job: INPUT_DATA_ERROR, with the lesson for whoever produced the input; and
    JOB_TOO_COMPLICATED_ERROR, for the job to be split. A `Leader` heeds them.
    """
