"""Operator: it gathers what a reasoner needs into a task, and hands the task over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field, field_validator

from operad.runtime.connections import Connections, connections
from operad.runtime.knowledge import Insight, Knowledge, KnowledgeBase
from operad.runtime.message import Job, Value, WorkflowMessage, new_id
from operad.runtime.reasoner import Reasoner
from operad.runtime.task import Example, Task
from operad.runtime.toolkit import Action, Recommendation, Toolkit


class OperatorConfig(Value):
    """What an operator is (Chat2Graph, Workflow module, section 2.1).

    Attributes:
        instruction: Its role, aim and style, for the reasoner. Not empty.
        actions: What it may do.
        examples: Inputs with right answers, for the reasoner to go by.
        output_schema: The form of its answer: a JSON Schema, a YAML or JSON example, or words.
        threshold: Actions and tools that fit less than this, from 0 to 1, are not recommended.
        hops: How many steps from its own actions recommended ones may be away in the toolkit.
        id: Its identity in a workflow.
    """

    instruction: str
    actions: Annotated[Sequence[Action], AfterValidator(tuple)] = ()
    examples: Annotated[Sequence[Example], AfterValidator(tuple)] = ()
    output_schema: str = ""
    threshold: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=0, ge=0)
    id: str = Field(default_factory=new_id, min_length=1)

    @field_validator("instruction")
    @classmethod
    def _not_empty(cls, instruction: str) -> str:
        if not instruction.strip():
            raise ValueError("the instruction is empty: say what the operator is to do")
        return instruction


class Operator:
    """The basic unit of a workflow (Chat2Graph, Workflow module, section 2).

    A subclass that overrides `execute` can do anything else: it gets the same arguments, and
    returns a message or plain text.

    Args:
        config: What it is.
        toolkit: The graph that recommends actions and tools; by default just its own actions.
        knowledge_base: Where it looks up what a job needs.
    """

    def __init__(
        self,
        config: OperatorConfig,
        *,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        self.config = config
        self._toolkit = toolkit
        self._knowledge_base = knowledge_base

    def get_id(self) -> str:
        """Its identity, from its configuration."""
        return self.config.id

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        """Build the task, let the reasoner do it, and return what it said.

        Args:
            reasoner: Who thinks.
            job: What the workflow works on.
            workflow_messages: What the operators before this one said.
            previous_expert_outputs: What earlier experts produced.
            lesson: What to do better than last time.

        Returns:
            A message with the reasoner's text; where the text is a JSON object, its fields are
            the message's outputs, and any other JSON is the output named ``output``.
        """
        async with connections() as opened:
            task = await self._build_task(opened, job, workflow_messages, previous_expert_outputs, lesson)
            text = await reasoner.infer(task)
        outputs = _read_outputs(text) if self.config.output_schema else {}
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=self.get_id())

    def get_knowledge(self, job: Job) -> Knowledge:
        """What the knowledge base holds on the job's goal and context."""
        if self._knowledge_base is None:
            return Knowledge()
        return self._knowledge_base.retrieve(f"{job.goal}\n{job.context}".strip())

    def get_env_insights(self) -> list[Insight] | None:
        """What earlier runs learned about the environment; None where nothing remembers."""
        return None

    @cached_property
    def _recommending(self) -> Toolkit:
        return self._toolkit or Toolkit.of(self.config.actions)

    async def _build_task(
        self,
        opened: Connections,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None,
        previous_expert_outputs: list[WorkflowMessage] | None,
        lesson: str | None,
    ) -> Task:
        config = self.config
        recommended = Recommendation()
        if config.actions:
            recommended = self._recommending.recommend(config.actions, threshold=config.threshold, hops=config.hops)
        return Task(
            job=job,
            instruction=config.instruction,
            examples=tuple(config.examples),
            output_schema=config.output_schema,
            actions=recommended.actions,
            tools=await opened.tools(recommended.tools),
            workflow_messages=tuple(workflow_messages or ()),
            previous_expert_outputs=tuple(previous_expert_outputs or ()),
            knowledge=self.get_knowledge(job),
            insights=tuple(self.get_env_insights() or ()),
            lesson=lesson or "",
            files=job.files,
        )


def _read_outputs(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:  # a schema in words promises no JSON
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"output": value}
