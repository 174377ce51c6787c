"""Task: everything a reasoner may see."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from operad.runtime.knowledge.knowledge import Insight, Knowledge
from operad.runtime.tools.tool import Tool
from operad.runtime.tools.toolkit import Action
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job, StepRecord, SubJob, Value, WorkflowMessage, WorkflowStatus


class Example(Value):
    """An example input with its right answer.

        example = Example(input="Tom wrote from Rome.", output="Tom, Rome")
        who = Operator("Extract the name and the city.", examples=[example])

    Attributes:
        input: Input, in the style of a job's goal.
        output: The answer, in the form that the task asks for.
    """

    input: str
    output: str


class Task(Value):
    """Request of an operator to a reasoner (Chat2Graph, Workflow module, section 2.2).

        task = Task(job=Job("The moon has air."), instruction="List what the text claims.")
        print(asyncio.run(MonoModelReasoner().infer(task)))

    Attributes:
        job: The job that the workflow works on.
        instruction: The operator's role, aim and style.
        examples: Inputs with right answers, shown before the job as if they had been asked and answered.
        output_schema: The form of the answer: a JSON Schema, a YAML or JSON example, or words.
        actions: Recommended actions.
        tools: Recommended tools, those of the actions included.
        workflow_messages: Messages of the operators before this one. When an operator that was
            found at fault runs again, its own earlier messages follow, each with its verdict.
        previous_expert_outputs: Results of earlier experts.
        transcript: For evaluators: purpose and message of each operator.
        knowledge: Passages that fit the job.
        insights: Insights of earlier runs.
        lesson: Advice after the last attempt.
        files: Files of the job.
    """

    job: Job
    instruction: str
    examples: tuple[Example, ...] = ()
    output_schema: str = ""
    actions: tuple[Action, ...] = ()
    tools: tuple[Tool, ...] = ()
    workflow_messages: tuple[WorkflowMessage, ...] = ()
    previous_expert_outputs: tuple[WorkflowMessage, ...] = ()
    transcript: tuple[StepRecord, ...] = ()
    knowledge: Knowledge = Knowledge()
    insights: tuple[Insight, ...] = ()
    lesson: str = ""
    files: tuple[FileDescriptor, ...] = ()

    def shown(self) -> dict[str, JsonValue]:
        """Return the task as plain values for display, without empty fields."""
        job = self.job
        said: dict[str, JsonValue] = {
            "instruction": self.instruction,
            "turns": [{"role": turn.role, "text": turn.text} for turn in job.turns],
            "goal": job.goal,
            "context": job.context,
            "completion_criteria": job.completion_criteria if isinstance(job, SubJob) else "",
            "inputs": job.inputs,
            "files": [str(file.path) for file in self.files],
            "lesson": self.lesson,
            "workflow_messages": _said(self.workflow_messages),
            "previous_expert_outputs": _said(self.previous_expert_outputs),
            "transcript": _said(each.message for each in self.transcript),
            "knowledge": [{"source": each.source, "text": each.text} for each in self.knowledge.passages],
            "insights": [each.text for each in self.insights],
            "actions": [{"name": each.name, "description": each.description} for each in self.actions],
            "tools": [{"name": each.name, "description": each.description} for each in self.tools],
            "examples": [each.model_dump() for each in self.examples],
            "output_schema": self.output_schema,
        }
        return {name: value for name, value in said.items() if value}


def _said(messages: Iterable[WorkflowMessage]) -> list[JsonValue]:
    """Return the messages with their authors, and their verdicts if any."""
    said: list[JsonValue] = []
    for message in messages:
        fields = {"operator_id": message.operator_id, "text": message.scratchpad, "lesson": message.lesson}
        if message.status is not WorkflowStatus.SUCCESS:
            fields["status"] = message.status.value
        said.append({name: value for name, value in fields.items() if value})
    return said
