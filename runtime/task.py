"""The task: all that a reasoner may see."""

from __future__ import annotations

from operad.runtime.file import FileDescriptor
from operad.runtime.knowledge import Insight, Knowledge
from operad.runtime.message import Contribution, Job, Value, WorkflowMessage
from operad.runtime.tool import Tool
from operad.runtime.toolkit import Action


class Example(Value):
    """An input of the same kind with its right answer.

    Attributes:
        input: As a job's goal would say it.
        output: The answer, in the form that the task asks for.
    """

    input: str
    output: str


class Task(Value):
    """What an operator asks of a reasoner (Chat2Graph, Workflow module, section 2.2).

    Attributes:
        job: The job that the workflow works on.
        instruction: The operator's role, aim and style.
        examples: Inputs with right answers, shown before the job as if they had been asked and answered.
        output_schema: The form of the answer: a JSON Schema, a YAML or JSON example, or words.
        actions: Recommended actions.
        tools: Recommended tools, those of the actions included.
        workflow_messages: What the operators before this one said. When an operator that was
            found at fault runs again, its own earlier messages follow, each with its verdict.
        previous_expert_outputs: What earlier experts produced.
        trail: For who judges: what each operator was there for, and what it said.
        knowledge: Passages that fit the job.
        insights: What earlier runs learned.
        lesson: What to do better than last time.
        files: The files the job is about.
    """

    job: Job
    instruction: str
    examples: tuple[Example, ...] = ()
    output_schema: str = ""
    actions: tuple[Action, ...] = ()
    tools: tuple[Tool, ...] = ()
    workflow_messages: tuple[WorkflowMessage, ...] = ()
    previous_expert_outputs: tuple[WorkflowMessage, ...] = ()
    trail: tuple[Contribution, ...] = ()
    knowledge: Knowledge = Knowledge()
    insights: tuple[Insight, ...] = ()
    lesson: str = ""
    files: tuple[FileDescriptor, ...] = ()
