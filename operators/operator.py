"""Operator: it gathers what a reasoner needs into a task, and hands the task over."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal, cast, overload

from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import TypeVar

from operad.runtime.events import InsightsRecalled, KnowledgeRetrieved, current_scope, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import Answer, BaseOperator, refusing_jobs
from operad.runtime.knowledge.insights import about, relevant
from operad.runtime.knowledge.knowledge import Insight, Knowledge, KnowledgeBase, Passage
from operad.runtime.knowledge.run_insights import RunInsights, current_insights
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import cache_key
from operad.runtime.policies.policy import NO_POLICY, Policy, Retry
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, ask_until_read, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.connections import connections
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource, as_tools
from operad.runtime.tools.toolkit import Action, Recommendation, Toolkit, Tools
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import InputError, InvalidError, Issue
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.ids import settled_id, slug
from operad.runtime.values.message import Job, Value, WorkflowMessage
from operad.runtime.values.output import ANY_TEXT, Output, shown
from operad.runtime.values.schema import Schema, parse_output_schema, validate

T = TypeVar("T", default=Any, covariant=True)

_logger = logging.getLogger(__name__)

PORT = "port"
"""The key under which an answer names the port that is taken."""

ANSWER = "answer"
"""The key of the rest of such an answer, if that is not an object."""


def _as_schema(declared: Any) -> Any:
    """A declared type as the text of its JSON Schema; nothing for any text."""
    if isinstance(declared, str):
        return "" if declared.strip() in ANY_TEXT else declared
    return Output.of(declared).schema


class OperatorConfig(Value):
    """Configuration of an operator (Chat2Graph, Workflow module, section 2.1).

        config = OperatorConfig(instruction="List what the text claims.", id="facts", output_schema="{claims: [string]}")
        facts = Operator(config)

    Attributes:
        instruction: Its role, aim and style, for the reasoner. Not empty.
        actions: Its actions.
        examples: Inputs with right answers, for the reasoner to go by.
        output_schema: The form of its answer: a JSON Schema, a YAML or JSON example, or words; or a type, whose JSON
            Schema it then is.
        ports: Its ports, of which the reasoner takes one; see `Port`. None by default.
        threshold: Actions and tools that fit less than this, from 0 to 1, are not recommended.
        hops: Number of steps from its own actions recommended ones may be away in the toolkit.
        id: Its identity in a workflow; by default the first words of the instruction.
        tools: Tools and functions that it may call, besides those of its actions.
        memory: True if it sees the earlier turns of a conversation; see `Job.turns`.
    """

    instruction: str
    actions: Annotated[Sequence[Action], AfterValidator(tuple)] = ()
    examples: Annotated[Sequence[Example], AfterValidator(tuple)] = ()
    output_schema: Annotated[str, BeforeValidator(_as_schema)] = ""
    ports: Annotated[Sequence[str], AfterValidator(tuple)] = ()
    threshold: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=0, ge=0)
    id: str = Field(default="", min_length=1)
    tools: Annotated[Tools, BeforeValidator(as_tools)] = ()
    memory: bool = True

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that make two configurations equal: see `Value.fingerprint`."""
        later = {"tools": (), "memory": True}  # fields that earlier versions did not have, with their defaults
        return {
            name: value
            for name, value in super().fingerprint().items()
            if getattr(self, name, None) != later.get(name, ...)
        }

    @model_validator(mode="after")
    def _named(self) -> OperatorConfig:
        if "id" not in self.model_fields_set:
            vars(self)["id"] = slug(self.instruction)
        return self

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


class Operator(BaseOperator[T]):
    """The basic unit of a workflow (Chat2Graph, Workflow module, section 2).

        facts = Operator("List what the text claims.", id="facts", output=Claims)
        check = Operator("Check each claim.", tools=[search])
        workflow = Workflow(facts >> check)

    It is generic in the type of its answer: `facts` is an `Operator[Claims]`. A subclass that overrides `run`, or
    `execute`, can do anything else: it gets the same call, and returns a message or plain text.

    Args:
        config: Its instruction, as text; or an `OperatorConfig`, which says all that stands below up to `ports`.
        id: Its id in a workflow; by default the first words of the instruction.
        output: The type of its answer: a pydantic model, a dataclass, a TypedDict, a type such as ``list[str]``, a JSON
            Schema as a dict, or text as for `OperatorConfig.output_schema`; text by default.
        tools: Functions and tools that the model may call.
        actions: Its actions; see `Action`.
        examples: Inputs with right answers.
        ports: Its ports, of which the model takes one.
        model: Model to use instead of the workflow's: a model, its name, or a reasoner.
        policy: Its policy, unless the workflow sets another one for it.
        retry: The same as ``policy=Policy(retry=…)``: a `Retry`, or the number of attempts.
        memory: True if it sees the earlier turns of a conversation.
        toolkit: The graph that recommends actions and tools; by default just its own actions.
        knowledge_base: Knowledge base to search for each job.

    Raises:
        InputError: A value has another type, or there is no argument of that name.
    """

    paths: ClassVar[tuple[str, ...]] = ()
    """Parameters that are files or folders: in YAML, they are relative to the file's folder."""

    @overload
    def __init__(
        self,
        config: OperatorConfig,
        *,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: str,
        *,
        id: str = "",
        output: type[T],
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        ports: Sequence[str] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Operator[str],
        config: str,
        *,
        id: str = "",
        output: None = None,
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        ports: Sequence[str] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Operator[Any],
        config: str,
        *,
        id: str = "",
        output: object,
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        ports: Sequence[str] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None: ...
    @known_arguments
    def __init__(
        self,
        config: OperatorConfig | str,
        *,
        id: str = "",
        output: Any = None,
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        ports: Sequence[str] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        said: dict[str, Any] = {"id": id, "output": output, "tools": tools, "actions": actions, "examples": examples}
        said |= {"ports": ports} if memory else {"ports": ports, "memory": False}
        config, self._output = _configured(type(self).__name__, config, said)
        if knowledge_base is not None and not callable(getattr(knowledge_base, "retrieve", None)):
            issue = Issue(
                "knowledge-base", f"has no method retrieve(query): {knowledge_base!r}; see Documents", config.id
            )
            raise InvalidError("an operator's knowledge base cannot be used", [issue])
        if not isinstance(policy, Policy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"operator {config.id!r}: policy: expected a Policy, got {shown(policy)}")
        self.config = config
        self.policy = policy if retry is None else _with_retry(policy, retry, config.id)
        self._settled = "id" in config.model_fields_set
        self._own_reasoner = None if model is None else reasoner_of(model)
        if self._own_reasoner is not None:
            self.asks_model = False  # not the run's
        self._toolkit = toolkit
        self._knowledge_base = knowledge_base

    takes_one_port = True
    gives_verdict = False
    asks_model: bool | None = True
    """True if it asks the reasoner. A subclass that overrides `run` or `execute` says so itself, or it is not known."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not vars(cls).keys().isdisjoint(("run", "execute")):
            cls.gives_verdict = vars(cls).get("gives_verdict", True)
            cls.asks_model = vars(cls).get("asks_model")

    @property
    def _config(self) -> OperatorConfig:
        """The configuration, by the name that subclasses written for Chat2Graph use."""
        return self.config

    @_config.setter
    def _config(self, config: OperatorConfig) -> None:
        self.config = config

    def get_id(self) -> str:
        """Its identity, from its configuration."""
        return self.config.id

    def settle_id(self, taken: Collection[str]) -> None:
        """Make its id unique among those that are taken, unless it was chosen or is settled; a workflow calls it."""
        if not self._settled:
            self.config, self._settled = self.config.model_copy(update={"id": settled_id(self.config.id, taken)}), True

    @property
    def answer_type(self) -> Any:
        """The type of its answers; None if it is a JSON Schema."""
        return self._output.type

    def read_output(self, message: WorkflowMessage) -> T:
        """The answer that one of its messages holds, as an instance of its type.

        Raises:
            ValueError: It does not fit.
        """
        return cast("T", self._output.read(message))

    @property
    def instruction(self) -> str:
        """Purpose of the operator."""
        return self.config.instruction

    @property
    def memory(self) -> bool:
        """True if it sees the earlier turns of a conversation."""
        return self.config.memory

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True if the streamed text of a model is its answer: a single model writes it, without tools."""
        config = self.config
        plain = not (config.actions or config.tools or config.output_schema or config.ports)
        return type(self) is Operator and plain and isinstance(self.thinker(reasoner), MonoModelReasoner)

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

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of its `output_schema`."""
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
        """Return the values that determine its requests: class, configuration, recommended tools, knowledge base.

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
        if self._own_reasoner is not None:
            made["model"] = fingerprint(self._own_reasoner)
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
        """Do what `run` does, given the parts of the call one by one.

        Args:
            reasoner: Who thinks.
            job: The job that the workflow works on.
            workflow_messages: The messages of the operators before this one.
            previous_expert_outputs: The messages of earlier experts.
            lesson: Advice from the last round.
        """
        call = OperatorCall.of(reasoner, job, workflow_messages, previous_expert_outputs, lesson)
        said = await Operator.run(self, call)  # not that of a subclass: its own `execute` calls that
        return cast("WorkflowMessage", said)

    @refusing_jobs
    async def run(self, call: OperatorCall) -> Answer:
        """Build the task, let the reasoner do it, and return what it said.

        Args:
            call: Input of the operator.

        Returns:
            A message with the reasoner's text; where the text is a JSON object, its fields are
            the message's outputs, and any other JSON is the output named ``output``. An operator
            with ports takes the one that the reasoner chooses.

        Raises:
            AnswerError: No answer fits the operator's type, or it has ports, and the reasoner chooses none of them.
        """
        if call.connections is None:  # outside of a run
            async with connections() as opened:
                return await Operator.run(self, replace(call, connections=opened))
        task, output, operator_id = await self._build_task(call), self._output, self.get_id()
        read: Callable[[str], WorkflowMessage] = partial(self._said, call.job, operator_id)
        if self.ports:
            routed = routing_schema(self.schema, self.config.output_schema, self.ports)
            task = task.model_copy(update={"output_schema": json.dumps(routed, ensure_ascii=False)})
            read = partial(self._routed, call.job, operator_id, routed)

        def fitting(text: str) -> WorkflowMessage:
            message = read(text)
            output.read(message)
            return message

        return await ask_until_read(
            self.thinker(call.reasoner),
            task,
            read if output.type is str else fitting,
            who=f"operator {operator_id!r}",
            wanted=output.called,
            operator_id=operator_id,
        )

    def _said(self, job: Job, operator_id: str, text: str) -> WorkflowMessage:
        outputs = _read_outputs(text) if self.config.output_schema else {}
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=operator_id)

    def thinker(self, reasoner: Reasoner) -> Reasoner:
        """Return its reasoner: with the model that it was given, or else the run's reasoner."""
        return self._own_reasoner or reasoner

    @property
    def has_model(self) -> bool:
        """True if it was given a model of its own."""
        return self._own_reasoner is not None

    def check_model(self) -> None:
        """Raises InputError if it was given a model of its own that is not configured."""
        check: Callable[[], None] | None = getattr(self._own_reasoner, "check_model", None)
        if check is not None:
            check()

    def without_model(self) -> Operator[T]:
        """The same operator, whose thinking the run's reasoner does."""
        if self._own_reasoner is None:
            return self
        freed = copy(self)
        freed._own_reasoner = None
        return freed

    def _routed(self, job: Job, operator_id: str, schema: Schema, text: str) -> WorkflowMessage:
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
            operator_id=operator_id,
        )

    def get_knowledge(self, job: Job) -> Knowledge:
        """Return the passages of the knowledge base for the job's goal and context.

        A message of a conversation may ask about what was said before it ("And for letters?"). It is looked up alone, and
        with the user's message before it; of what both find, a passage of the one follows a passage of the other.
        """
        if self._knowledge_base is None:
            return Knowledge()
        query = f"{job.goal}\n{job.context}".strip()
        found = self._knowledge_base.retrieve(query)
        before = next((turn.text for turn in reversed(job.turns) if turn.role == "user"), "") if self.memory else ""
        if not before.strip():
            return found
        return _alternating(found, self._knowledge_base.retrieve(f"{before}\n{query}"))

    async def _look_up(self, job: Job) -> Knowledge:
        """Search the knowledge base in a thread, and emit an event with the passages found."""
        found = await asyncio.to_thread(self.get_knowledge, job)  # which may read files
        if not isinstance(found, Knowledge):  # pyright: ignore[reportUnnecessaryIsInstance] - it is somebody else's
            raise InputError(
                f"operator {self.get_id()!r}: its knowledge base gave {type(found).__name__}, not Knowledge"
            )
        passages = found.passages
        emit(KnowledgeRetrieved(sources=tuple(p.source for p in passages), scores=tuple(p.score for p in passages)))
        return found

    def get_env_insights(self) -> list[Insight] | None:
        """Return the insights of earlier runs about the environment, the best first; None without insights.

        Here, what `Insights` keep for this operator, if the workflow was given them; on whatever
        job. In such a run it is called in a thread, for it may read a file.
        """
        insights = current_insights()
        if insights is None or self._identity is None:
            return None
        return insights.recall(self._identity)

    @cached_property
    def _identity(self) -> str | None:
        """Return the key of its insights; None if it cannot be told from other operators."""
        try:
            return cache_key(name_of(type(self)), self.config)
        except InputError as error:
            _logger.warning("operator %r learns nothing from earlier runs: %s", self.get_id(), error)
            return None

    def _shown(self, job: Job) -> tuple[Insight, ...]:
        """The insights that it is shown for a job."""
        return relevant(self.get_env_insights() or (), job)

    async def _recall(self, job: Job, insights: RunInsights | None) -> tuple[Insight, ...]:
        """The same, without holding up the loop; and it says so."""
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

    @cached_property
    def _own_tools(self) -> tuple[Tool | ToolSource, ...]:
        """Its tools that belong to no action, groups by their tools."""
        if not self.config.tools:
            return ()
        holder = Action(name="tools", tools=cast("tuple[Tool | ToolGroup, ...]", self.config.tools))
        return Toolkit.of([holder]).recommend([holder]).tools

    def _recommend(self) -> Recommendation:
        config = self.config
        if not config.actions:
            return Recommendation(tools=self._own_tools)
        found = self._recommending.recommend(config.actions, threshold=config.threshold, hops=config.hops)
        return found.model_copy(update={"tools": (*found.tools, *self._own_tools)}) if self._own_tools else found

    async def _build_task(self, call: OperatorCall) -> Task:
        config, job = self.config, call.job
        recommended = self._recommend()
        knowledge = self.get_knowledge(job) if self._knowledge_base is None else await self._look_up(job)
        recalls = call.insights is not None or type(self).get_env_insights is not Operator.get_env_insights
        return Task(
            job=job,
            instruction=config.instruction,
            examples=tuple(config.examples),
            output_schema=config.output_schema,
            actions=recommended.actions,
            tools=await call.connections.tools(recommended.tools) if call.connections and recommended.tools else (),
            workflow_messages=call.messages,
            previous_expert_outputs=call.previous,
            knowledge=knowledge,
            insights=await self._recall(job, call.insights) if recalls else (),
            lesson=call.lesson or "",
            files=job.files,
        )


def _alternating(alone: Knowledge, together: Knowledge) -> Knowledge:
    """As many passages as one of the two has, in turns from both, each once; of one, the better score counts."""
    best: dict[tuple[str, str], Passage] = {}
    for pair in zip_longest(alone.passages, together.passages):
        for passage in filter(None, pair):
            key = (passage.source, passage.text)
            best[key] = max(best.get(key, passage), passage, key=lambda each: each.score)
    most = max(len(alone.passages), len(together.passages))
    return Knowledge(passages=tuple(best.values())[:most])


def _configured(who: str, config: OperatorConfig | str, said: Mapping[str, Any]) -> tuple[OperatorConfig, Output[Any]]:
    """The configuration that a user gives, or describes, with the type of the answers."""
    if isinstance(config, OperatorConfig):
        if given := [name for name, value in said.items() if value is not None and value not in ("", (), [])]:
            raise InputError(
                f"{who}(config): {', '.join(given)} belong in the OperatorConfig; or give the instruction as text: "
                f"{who}('…', {given[0]}=…)"
            )
        return config, Output(str) if not config.output_schema else Output(None, config.output_schema)
    if not isinstance(config, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{who}(…) expects an instruction as text, or an OperatorConfig; got {shown(config)}")
    output = Output.of(said["output"])
    fields = {name: value for name, value in said.items() if name != "output" and (name != "id" or value)}
    if isinstance(said["ports"], str):
        raise InputError(f"{who}(…): ports: expected a list of names, got {shown(said['ports'])}")
    try:
        return OperatorConfig(instruction=config, output_schema=output.schema, **fields), output
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors()
        ]
        raise InputError(f"{who}(…): {'; '.join(faults)}") from error


def _with_retry(policy: Policy | None, retry: Retry | int | Literal[False], operator_id: str) -> Policy:
    if policy is not None and policy.retry is not None:
        raise InputError(f"operator {operator_id!r}: retry: the policy has one, too; give it in one of the two")
    try:
        return Policy(retry=retry).or_else(policy or NO_POLICY)
    except InvalidError as error:
        faults = "; ".join(f"{issue.where.partition('.')[2]}: {issue.message}" for issue in error.issues)
        raise InputError(
            f"operator {operator_id!r}: retry: expected a Retry or a number of attempts: {faults}"
        ) from error


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
