"""Operator: it gathers what a reasoner needs into a task, and hands the task over."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field, JsonValue, field_validator

from operad.runtime.cache import cache_key
from operad.runtime.connections import Connections, connections
from operad.runtime.errors import InputError, InvalidError, Issue
from operad.runtime.events import InsightsRecalled, KnowledgeRetrieved, current_scope, emit
from operad.runtime.fingerprint import fingerprint, name_of
from operad.runtime.graph import Executable
from operad.runtime.insights import about, current_insights, relevant
from operad.runtime.knowledge import Insight, Knowledge, KnowledgeBase
from operad.runtime.message import Job, Value, WorkflowMessage, new_id
from operad.runtime.reasoner import Reasoner, ask
from operad.runtime.schema import Schema, parse_output_schema, validate
from operad.runtime.task import Example, Task
from operad.runtime.toolkit import Action, Recommendation, Toolkit

_logger = logging.getLogger(__name__)

PORT = "port"
"""The key under which an answer names the port that is taken."""

ANSWER = "answer"
"""The key of the rest of such an answer, where that is no object."""


class OperatorConfig(Value):
    """What an operator is (Chat2Graph, Workflow module, section 2.1).

    Attributes:
        instruction: Its role, aim and style, for the reasoner. Not empty.
        actions: What it may do.
        examples: Inputs with right answers, for the reasoner to go by.
        output_schema: The form of its answer: a JSON Schema, a YAML or JSON example, or words.
        ports: The ways on from it, of which the reasoner takes one; see `Port`. None by default.
        threshold: Actions and tools that fit less than this, from 0 to 1, are not recommended.
        hops: How many steps from its own actions recommended ones may be away in the toolkit.
        id: Its identity in a workflow.
    """

    instruction: str
    actions: Annotated[Sequence[Action], AfterValidator(tuple)] = ()
    examples: Annotated[Sequence[Example], AfterValidator(tuple)] = ()
    output_schema: str = ""
    ports: Annotated[Sequence[str], AfterValidator(tuple)] = ()
    threshold: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=0, ge=0)
    id: str = Field(default_factory=new_id, min_length=1)

    @field_validator("ports")
    @classmethod
    def _different(cls, ports: Sequence[str]) -> Sequence[str]:
        if len(set(ports)) < len(ports) or not all(port.strip() for port in ports):
            raise ValueError("ports need names, each its own")
        return ports

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
        if knowledge_base is not None and not callable(getattr(knowledge_base, "retrieve", None)):
            issue = Issue(
                "knowledge-base", f"has no method retrieve(query): {knowledge_base!r}; see Documents", config.id
            )
            raise InvalidError("an operator's knowledge base cannot be used", [issue])
        self.config = config
        self._toolkit = toolkit
        self._knowledge_base = knowledge_base

    takes_one_port = True
    asks_model: bool | None = True
    """Whether it asks the reasoner. A subclass with an `execute` of its own says so itself, or it is not known."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "execute" in vars(cls) and "asks_model" not in vars(cls):
            cls.asks_model = None

    def get_id(self) -> str:
        """Its identity, from its configuration."""
        return self.config.id

    @property
    def instruction(self) -> str:
        """What it is there for."""
        return self.config.instruction

    @property
    def ports(self) -> Sequence[str]:
        """The ways on from it, if it has any; each of its messages takes one."""
        return self.config.ports

    @cached_property
    def schema(self) -> Schema | None:
        """The JSON Schema of its answers; None where the `output_schema` is words, or nothing.

        Raises:
            InvalidError: The `output_schema` is a broken one.
        """
        return parse_output_schema(self.config.output_schema)

    def check(self, before: Mapping[str, Executable]) -> list[Issue]:
        """What is wrong with its `output_schema`."""
        try:
            schema = self.schema
        except InvalidError as error:
            return [Issue(issue.code, f"output_schema: {issue.message}", self.get_id()) for issue in error.issues]
        if self.ports and schema and PORT in schema.get("properties", {}):
            return [
                Issue("port-twice", f"its output_schema has a field {PORT!r}, which names the way on", self.get_id())
            ]
        return []

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two operators ask alike: class, configuration, what the toolkit recommends, knowledge base.

        In a run, the insights that it would be shown belong to it, too. A subclass that has more
        to it adds that.

        Raises:
            InputError: The knowledge base, or something that a tool binds, has no fingerprint.
        """
        scope = current_scope()
        insights = self._shown(scope.run.job) if scope else ()
        made: dict[str, JsonValue] = {
            "type": name_of(type(self)),
            "config": self.config.fingerprint(),
            "recommended": self._recommend().fingerprint(),
            "knowledge_base": fingerprint(self._knowledge_base),
        }
        if insights:
            made["insights"] = [insight.text for insight in insights]
        return made

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
            the message's outputs, and any other JSON is the output named ``output``. An operator
            with ports takes the one that the reasoner chooses.

        Raises:
            AnswerError: It has ports, and the reasoner chooses none of them.
        """
        async with connections() as opened:
            task = await self._build_task(opened, job, workflow_messages, previous_expert_outputs, lesson)
            if self.ports:
                routed = routing_schema(self.schema, self.config.output_schema, self.ports)
                task = task.model_copy(update={"output_schema": json.dumps(routed, ensure_ascii=False)})
                return self._routed(await ask(reasoner, task), routed, job)
            text = await ask(reasoner, task)
        outputs = _read_outputs(text) if self.config.output_schema else {}
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=self.get_id())

    def _routed(self, text: str, schema: Schema, job: Job) -> WorkflowMessage:
        """The message of an answer that names a port, as JSON or as that one word."""
        one_word = self.schema is None and text.strip() in self.ports
        answer: dict[str, Any] = {PORT: text.strip()} if one_word else validate(schema, text)
        port = answer.pop(PORT)
        said: Any = answer
        if self.schema is None:
            said, answer = answer.get(ANSWER, port), {}
        elif self.schema.get("type") != "object":
            said = answer[ANSWER]
            answer = {"output": said}
        return WorkflowMessage(
            scratchpad=said if isinstance(said, str) else json.dumps(said, ensure_ascii=False),
            outputs=answer,
            ports=(port,),
            job_id=job.id,
            operator_id=self.get_id(),
        )

    def get_knowledge(self, job: Job) -> Knowledge:
        """What the knowledge base holds on the job's goal and context."""
        if self._knowledge_base is None:
            return Knowledge()
        return self._knowledge_base.retrieve(f"{job.goal}\n{job.context}".strip())

    async def _look_up(self, job: Job) -> Knowledge:
        """What it knows for a job, without holding up the loop; and it says so."""
        if self._knowledge_base is None:
            return self.get_knowledge(job)
        found = await asyncio.to_thread(self.get_knowledge, job)  # which may read files
        if not isinstance(found, Knowledge):  # pyright: ignore[reportUnnecessaryIsInstance] - it is somebody else's
            raise InputError(
                f"operator {self.get_id()!r}: its knowledge base gave {type(found).__name__}, not Knowledge"
            )
        passages = found.passages
        emit(KnowledgeRetrieved(sources=tuple(p.source for p in passages), scores=tuple(p.score for p in passages)))
        return found

    def get_env_insights(self) -> list[Insight] | None:
        """What earlier runs learned about the environment, the best first; None where nothing remembers.

        Here, what `Insights` keep for this operator, if the workflow was given them; on whatever
        job. In such a run it is called in a thread, for it may read a file.
        """
        insights = current_insights()
        if insights is None or self._identity is None:
            return None
        return insights.recall(self._identity)

    @cached_property
    def _identity(self) -> str | None:
        """What its insights are kept under; None where nothing tells it from others."""
        try:
            return cache_key(name_of(type(self)), self.config)
        except InputError as error:
            _logger.warning("operator %r learns nothing from earlier runs: %s", self.get_id(), error)
            return None

    def _shown(self, job: Job) -> tuple[Insight, ...]:
        """The insights that it is shown for a job."""
        return relevant(self.get_env_insights() or (), job)

    async def _recall(self, job: Job) -> tuple[Insight, ...]:
        """The same, without holding up the loop; and it says so."""
        insights = current_insights()
        if insights is None:
            return self._shown(job)
        shown = await asyncio.to_thread(self._shown, job)
        if self._identity is not None:
            learned = [insight for insight in shown if insight.key]
            emit(
                InsightsRecalled(
                    operator=self._identity,
                    about=about(job),
                    insights=tuple(insight.key for insight in learned),
                    texts=tuple(insight.text for insight in learned),
                    store=insights.store.id,
                )
            )
        return shown

    @cached_property
    def _recommending(self) -> Toolkit:
        return self._toolkit or Toolkit.of(self.config.actions)

    def _recommend(self) -> Recommendation:
        config = self.config
        if not config.actions:
            return Recommendation()
        return self._recommending.recommend(config.actions, threshold=config.threshold, hops=config.hops)

    async def _build_task(
        self,
        opened: Connections,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None,
        previous_expert_outputs: list[WorkflowMessage] | None,
        lesson: str | None,
    ) -> Task:
        config = self.config
        recommended = self._recommend()
        knowledge = await self._look_up(job)
        return Task(
            job=job,
            instruction=config.instruction,
            examples=tuple(config.examples),
            output_schema=config.output_schema,
            actions=recommended.actions,
            tools=await opened.tools(recommended.tools),
            workflow_messages=tuple(workflow_messages or ()),
            previous_expert_outputs=tuple(previous_expert_outputs or ()),
            knowledge=knowledge,
            insights=await self._recall(job),
            lesson=lesson or "",
            files=job.files,
        )


def routing_schema(schema: Schema | None, words: str, ports: Sequence[str]) -> Schema:
    """The JSON Schema of an answer that chooses a port, too.

    Args:
        schema: That of the answer; None for words.
        words: The words that describe it then; empty where nothing but the choice is wanted.
        ports: What there is to choose from.
    """
    port = {"type": "string", "enum": list(ports), "description": "The way on: the one that fits best."}
    if schema is not None and schema.get("type") == "object":
        properties: dict[str, Any] = {**schema.get("properties", {}), PORT: port}
        return {**schema, "properties": properties, "required": [*schema.get("required", []), PORT]}
    properties = {PORT: port}
    if schema is not None:
        properties = {ANSWER: schema, **properties}
    elif words.strip():
        properties = {ANSWER: {"type": "string", "description": words}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _read_outputs(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a schema in words promises no JSON
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"output": value}
