"""Task: input of a reasoner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field, JsonValue

from operad.runtime.knowledge.knowledge import Insight, Knowledge
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.tools.tool import Tool
from operad.runtime.tools.toolkit import Action
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job, SubJob, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import TEXT_FORM, AnswerSchema
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.value import Record, Value


class Example(Value):
    """Example input with its answer.

        example = Example(input="Tom wrote from Rome.", output="Tom, Rome")
        who = Operator("Extract the name and the city.", examples=[example])

    Attributes:
        input: Input, like the goal of a job.
        output: Answer, in the output format of the operator.
    """

    input: str
    output: str


class Filled(Value):
    """Record of the values that an instruction contains.

    Attributes:
        start: Start of the first paragraph with a value. The text before it is the same for every job.
        shown: Kind and name of each value that the instruction contains as a whole: ``input``, ``operator`` or ``item``,
            and the name of the input, or the id of the operator or map.
    """

    start: int = 0
    shown: tuple[tuple[str, str], ...] = ()


class Task(Record):
    """Request of an operator to a reasoner (Chat2Graph, Workflow module, section 2.2).

        task = Task(job=Job("The moon has air."), instruction="List what the text claims.")
        print(asyncio.run(MonoModelReasoner().infer(task)))

    Attributes:
        job: Job of the workflow.
        instruction: Role, aim and style of the operator, with the values that it names.
        filled: Values in the instruction; None without values.
        examples: Inputs with correct answers, shown before the job as earlier turns of the conversation.
        output_schema: Form of the answer, parsed and checked; it may be given as text or as plain values.
        actions: Recommended actions.
        tools: Recommended tools, including those of the actions.
        workflow_messages: Messages of the direct predecessors.
        previous_expert_outputs: Results of earlier experts.
        handed: Records of the operators that have handed over to this one; their messages are workflow messages.
        transcript: Purpose and message of each operator, for evaluators.
        guide: Text about the tools, which is the same for every job, such as the skills that they read.
        knowledge: Passages retrieved for the job.
        memories: Texts of a long-term memory for the job.
        insights: Insights of earlier runs.
        lesson: Lessons from earlier attempts.
        rejection: Rejected answer of the operator in the last round; None if it was not rejected.
        followup: Message to the model in the conversation of `rejection`; by default the faults of its answer.
        aside: True to ask `followup` aside, in a copy of that conversation: no tool is called, and the copy is not kept.
        goes_on: True to keep the conversation that leads to the answer, because it may go on after a check of the answer.
        files: Files of the job.
        settings: Settings of the model's calls, in place of the model's own.
        max_turns: Maximum number of the model's turns; None for the reasoner's maximum.
        check: Parser of the answer, which raises ValueError for an unusable one. A reasoner that calls it can ask the
            model again in the same conversation, so that tools are not called again. An object or a list that it
            returns is the answer, even if it does not fit the `output_schema`.
    """

    job: Job
    instruction: str
    filled: Filled | None = None
    examples: tuple[Example, ...] = ()
    output_schema: AnswerSchema = TEXT_FORM
    actions: tuple[Action, ...] = ()
    tools: tuple[Tool, ...] = ()
    guide: str = ""
    workflow_messages: tuple[WorkflowMessage, ...] = ()
    previous_expert_outputs: tuple[WorkflowMessage, ...] = ()
    handed: tuple[StepRecord, ...] = ()
    transcript: tuple[StepRecord, ...] = ()
    knowledge: Knowledge = Knowledge()
    memories: Knowledge = Knowledge()
    insights: tuple[Insight, ...] = ()
    lesson: str = ""
    rejection: Rejection | None = None
    followup: str = ""
    aside: bool = False
    goes_on: bool = False
    files: tuple[FileDescriptor, ...] = ()
    settings: ModelSettings = NO_SETTINGS
    max_turns: int | None = None
    check: Callable[[str], object] | None = Field(default=None, exclude=True, repr=False)

    if TYPE_CHECKING:  # the form may be given as text or as plain values

        def __init__(self, *, job: Job, instruction: str, **fields: Any) -> None: ...

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle: without `check`, which is a part of the process."""
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "check": None}}

    def shown(self) -> dict[str, JsonValue]:
        """Return the task as plain values for display, without empty fields."""
        job = self.job
        fields: dict[str, JsonValue] = {
            "instruction": self.instruction,
            "turns": [{"role": turn.role, "text": turn.text} for turn in job.turns],
            "goal": job.goal,
            "context": job.context,
            "completion_criteria": job.completion_criteria if isinstance(job, SubJob) else "",
            "inputs": job.inputs,
            "files": [str(file.path) for file in self.files],
            "lesson": self.lesson,
            "workflow_messages": _plain_messages(self.workflow_messages),
            "previous_expert_outputs": _plain_messages(self.previous_expert_outputs),
            "handed": [f"{each.operator_id}: {use}" for each in self.handed for use in each.tool_calls or ()],
            "transcript": _plain_messages(each.message for each in self.transcript),
            "knowledge": [{"source": each.source, "text": each.text} for each in self.knowledge.passages],
            "memories": [each.text for each in self.memories.passages],
            "insights": [each.text for each in self.insights],
            "actions": [{"name": each.name, "description": each.description} for each in self.actions],
            "tools": [{"name": each.name, "description": each.description} for each in self.tools],
            "guide": self.guide,
            "examples": [each.model_dump() for each in self.examples],
            "output_schema": self.output_schema.text,
        }
        return {name: value for name, value in fields.items() if value}


def _plain_messages(messages: Iterable[WorkflowMessage]) -> list[JsonValue]:
    """Return messages as plain values, with their authors and, if they failed, their status."""
    plain: list[JsonValue] = []
    for message in messages:
        fields = {"operator_id": message.operator_id, "text": message.scratchpad, "lesson": message.lesson}
        if message.status is not WorkflowStatus.SUCCESS:
            fields["status"] = message.status.value
        plain.append({name: value for name, value in fields.items() if value})
    return plain
