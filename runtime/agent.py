"""Experts: who can do what, with which workflow and which reasoner."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from operad.runtime.events import Event
from operad.runtime.message import Job, Value, WorkflowMessage
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.workflow import Workflow


class Profile(Value):
    """How an expert presents itself.

    Attributes:
        name: What it is called.
        description: What it can do, what it needs and what it delivers.
    """

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Expert:
    """A workflow with the reasoner that thinks in it."""

    profile: Profile
    workflow: Workflow
    reasoner: MonoModelReasoner | DualModelReasoner

    async def execute(
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
