"""Operator: builds a task from an instruction, messages, tools and knowledge, and passes it to a reasoner."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from copy import copy
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast, overload

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypeVar

from operad.runtime.events import InsightsRecalled, KnowledgeRetrieved, current_scope, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import Answer, BaseOperator, refusing_jobs
from operad.runtime.knowledge.insights import about, relevant
from operad.runtime.knowledge.knowledge import NO_KNOWLEDGE, Insight, Knowledge, KnowledgeBase, Passage
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import cache_key
from operad.runtime.policies.policy import Policy, Retry
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, ask_until_read, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.connections import Connections, connections
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource, as_tools
from operad.runtime.tools.toolkit import Action, Recommendation, Toolkit, Tools
from operad.runtime.values.arguments import known_arguments, short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.ids import id_fault, settled_id, slug
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import ANY_TEXT, Output
from operad.runtime.values.schema import Schema, parse_output_schema, validate
from operad.runtime.values.value import Value, wrong_arguments

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T", default=Any, covariant=True)

_logger = logging.getLogger(__name__)

_NO_CONNECTIONS = nullcontext()

IMPORTED = "imported"
"""Validation context for ids of typed nodes: files of other platforms may contain ``/`` in them."""

PORT = "port"
"""Key of an answer for the port that is taken."""

ANSWER = "answer"
"""Key for the rest of an answer with a port, if the rest is not an object."""


def _as_schema(declared: Any) -> Any:
    """Return a declared type as the text of its JSON Schema; an empty text if any text is permitted."""
    if isinstance(declared, str):
        return "" if declared.strip() in ANY_TEXT else declared
    return Output.of(declared).schema


class OperatorConfig(Value):
    """Configuration of an operator (Chat2Graph, Workflow module, section 2.1).

        config = OperatorConfig(instruction="List what the text claims.", id="facts", output_schema="{claims: [string]}")
        facts = Operator(config)

    Attributes:
        instruction: Role, aim and style of the operator, for the reasoner. Not empty.
        actions: Actions of the operator.
        examples: Inputs with correct answers, for the reasoner.
        output_schema: Form of the answer: a JSON Schema, an example in YAML or JSON, or a description; or a type, which
            is replaced by its JSON Schema.
        ports: Ports of the operator, of which the reasoner takes one; see `Port`. None by default.
        threshold: Minimum score, from 0 to 1, of the edges of the toolkit that lead to recommended actions and tools.
        hops: Maximum number of edges in the toolkit between the operator's actions and a recommended one.
        id: Id of the operator in a workflow; by default the first words of the instruction.
        tools: Tools and functions that the operator may call, besides those of its actions.
        memory: True if the operator receives the earlier turns of a conversation; see `Job.turns`.
    """

    instruction: str = Field(kw_only=False)
    actions: Annotated[Sequence[Action], AfterValidator(tuple)] = ()
    examples: Annotated[Sequence[Example], AfterValidator(tuple)] = ()
    output_schema: Annotated[str, BeforeValidator(_as_schema)] = ""
    ports: Annotated[Sequence[str], AfterValidator(tuple)] = ()
    threshold: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=0, ge=0)
    id: str = Field(default="", min_length=1)
    tools: Annotated[Tools, BeforeValidator(as_tools)] = ()
    memory: bool = True

    _positional: ClassVar[str] = "instruction"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are equal for equal configurations; see `Value.fingerprint`."""
        later = {
            "tools": (),
            "memory": True,
        }  # defaults of newer fields, left out so that older fingerprints remain valid
        return {
            name: value
            for name, value in super().fingerprint().items()
            if getattr(self, name, None) != later.get(name, ...)
        }

    @model_validator(mode="after")
    def _set_default_id(self) -> OperatorConfig:
        if "id" not in self.model_fields_set:
            vars(self)["id"] = slug(self.instruction)
        return self

    @field_validator("id")
    @classmethod
    def _check_id(cls, operator_id: str, info: ValidationInfo) -> str:
        if info.context != IMPORTED and (fault := id_fault(operator_id)):
            raise ValueError(fault)
        return operator_id

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, ports: Sequence[str]) -> Sequence[str]:
        if len(set(ports)) < len(ports) or not all(port.strip() for port in ports):
            raise ValueError("ports must have distinct, non-empty names")
        return ports

    @field_validator("instruction")
    @classmethod
    def _check_instruction(cls, instruction: str) -> str:
        if not instruction.strip():
            raise ValueError("the instruction is empty: say what the operator is to do")
        return instruction


class Operator(BaseOperator[T]):
    """Step of a workflow that a reasoner carries out (Chat2Graph, Workflow module, section 2).

        facts = Operator("List what the text claims.", id="facts", output=Claims)
        check = Operator("Check each claim.", tools=[search])
        workflow = Workflow(facts >> check)

    The class is generic in the type of its answers: `facts` is an `Operator[Claims]`. A subclass may override `run` or
    `execute` to do other work: it receives the same call, and returns a message or plain text.

    Args:
        instruction: What the operator is to do; or an `OperatorConfig`, which replaces the arguments from `id` to
            `ports` and `memory`.
        id: Id of the operator in a workflow; by default the first words of the instruction.
        output: Type of the answer: a pydantic model, a dataclass, a TypedDict, a type such as ``list[str]`` or
            ``Invoice | Refusal``, a JSON Schema as a dict, or text as for `OperatorConfig.output_schema`; text by default.
        tools: Functions and tools that the model may call.
        actions: Actions of the operator; see `Action`.
        examples: Inputs with correct answers.
        ports: Ports of the operator, of which the model takes one.
        model: Model in place of the workflow's: a model, its name, or a reasoner.
        policy: Policy of the operator; a policy that the workflow sets for the operator takes precedence.
        retry: Short for ``policy=Policy(retry=…)``: a `Retry`, or the number of attempts.
        memory: True if the operator receives the earlier turns of a conversation.
        toolkit: Graph that recommends actions and tools; by default the operator's own actions only.
        knowledge_base: Knowledge base to search for each job.

    Raises:
        InputError: A value has another type, or an argument is unknown.
    """

    paths: ClassVar[tuple[str, ...]] = ()
    """Names of parameters that are paths; in YAML, they are relative to the folder of the YAML file."""

    @overload
    def __init__(
        self,
        instruction: OperatorConfig,
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
        instruction: str,
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
        instruction: str,
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
        instruction: str,
        *,
        id: str = "",
        output: str | Mapping[str, Any],
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
        self,
        instruction: str,
        *,
        id: str = "",
        output: TypeForm[T],
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
        instruction: OperatorConfig | str,
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
        arguments: dict[str, Any] = {
            "id": id,
            "output": output,
            "tools": tools,
            "actions": actions,
            "examples": examples,
        }
        arguments |= {"ports": ports} if memory else {"ports": ports, "memory": False}
        config, self._output = _configuration(type(self).__name__, instruction, arguments)
        if knowledge_base is not None and not callable(getattr(knowledge_base, "retrieve", None)):
            issue = Issue(
                "knowledge-base", f"has no method retrieve(query): {knowledge_base!r}; see Documents", config.id
            )
            raise InvalidError("an operator's knowledge base cannot be used", [issue])
        if not isinstance(policy, Policy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"operator {config.id!r}: policy: expected a Policy, got {short_repr(policy)}")
        self.config = config
        self.policy = policy if retry is None else _with_retry(policy, retry, config.id)
        self._settled = "id" in config.model_fields_set
        self._own_reasoner = None if model is None else reasoner_of(model)
        if self._own_reasoner is not None:
            self.asks_model = False  # does not use the model of the run
        self._toolkit = toolkit
        self._knowledge_base = knowledge_base

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.config.id!r}>"

    takes_one_port = True
    gives_verdict = False
    asks_model: bool | None = True
    """True if the operator asks the run's reasoner; None (unknown) by default for subclasses with a `run` or `execute`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not vars(cls).keys().isdisjoint(("run", "execute")):
            cls.gives_verdict = vars(cls).get("gives_verdict", True)
            cls.asks_model = vars(cls).get("asks_model")

    @property
    def _config(self) -> OperatorConfig:
        """The configuration, under the name that subclasses written for Chat2Graph use."""
        return self.config

    @_config.setter
    def _config(self, config: OperatorConfig) -> None:
        self.config = config

    def get_id(self) -> str:
        """Return the id of the operator."""
        return self.config.id

    def settle_id(self, is_taken: Callable[[str], bool]) -> None:
        """Make the default id unique among the taken ids. A given id, and one that was settled before, is unchanged."""
        if not self._settled:
            self.config, self._settled = (
                self.config.model_copy(update={"id": settled_id(self.config.id, is_taken)}),
                True,
            )

    @property
    def answer_type(self) -> Any:
        """Type of the answers; None if it was declared by a JSON Schema."""
        return self._output.type

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the answer in a message of the operator, as an instance of `answer_type`.

        Raises:
            ValueError: The answer does not fit the type.
        """
        return cast("T", self._output.read(message))

    @property
    def instruction(self) -> str:
        """Purpose of the operator."""
        return self.config.instruction

    @property
    def memory(self) -> bool:
        """True if the operator receives the earlier turns of a conversation."""
        return self.config.memory

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True if the streamed text is the answer: the operator has one model, and no tools, schema or ports."""
        config = self.config
        plain = not (config.actions or config.tools or config.output_schema or config.ports)
        return type(self) is Operator and plain and isinstance(self.thinker(reasoner), MonoModelReasoner)

    @property
    def has_tools(self) -> bool:
        """True if the operator has tools, or actions with tools."""
        return bool(self.config.tools) or any(action.tools for action in self.config.actions)

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps without which one of the tools cannot be called."""
        tools = self._recommend().tools if self.has_tools else ()
        return next((tool.deps_type for tool in tools if isinstance(tool, Tool) and tool.deps_type), "")

    @property
    def ports(self) -> Sequence[str]:
        """Ports of the operator, if any; each message takes one."""
        return self.config.ports

    @cached_property
    def schema(self) -> Schema | None:
        """JSON Schema of the answers; None if the `output_schema` is a description, or empty.

        Raises:
            InvalidError: The `output_schema` is invalid.
        """
        return parse_output_schema(self.config.output_schema)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the `output_schema`."""
        try:
            schema = self.schema
        except InvalidError as error:
            return [Issue(issue.code, f"output_schema: {issue.message}", self.get_id()) for issue in error.issues]
        if self.ports and schema and PORT in schema.get("properties", {}):
            return [
                Issue(
                    "port-twice",
                    f"its output_schema has a field {PORT!r}, which is reserved for the chosen port",
                    self.get_id(),
                )
            ]
        return []

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the requests: class, configuration, recommended tools, knowledge base.

        In a run, the insights for the run's job are added. A subclass must add all other values that influence its
        messages.

        Raises:
            InputError: The knowledge base, or an object bound to a tool, has no fingerprint.
        """
        scope = current_scope()
        insights = self._relevant_insights(scope.run.job) if scope else ()
        values: dict[str, JsonValue] = {
            "type": name_of(type(self)),
            "config": self.config.fingerprint(),
            "recommended": self._recommend().fingerprint(),
            "knowledge_base": fingerprint(self._knowledge_base),
        }
        if self._own_reasoner is not None:
            values["model"] = fingerprint(self._own_reasoner)
        if insights:
            values["insights"] = [insight.text for insight in insights]
        return values

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        """Run the operator with the parts of a call as arguments, as in Chat2Graph; see `run`.

        Args:
            reasoner: Reasoner for the task.
            job: Job of the workflow.
            workflow_messages: Messages of the direct predecessors.
            previous_expert_outputs: Messages of earlier experts.
            lesson: Lesson from the last round.
        """
        call = OperatorCall.of(reasoner, job, workflow_messages, previous_expert_outputs, lesson)
        message = await Operator.run(self, call)  # not `self.run`: the `run` of a subclass may call `execute`
        return cast("WorkflowMessage", message)

    @refusing_jobs
    async def run(self, call: OperatorCall) -> Answer:
        """Build the task, ask the reasoner, and return the answer as a message.

        Args:
            call: Input of the operator.

        Returns:
            A message with the reasoner's text. With an `output_schema`, the fields of a JSON object become the outputs
            of the message, and other JSON the output ``output``. With ports, the message takes the port that the
            reasoner chooses.

        Raises:
            AnswerError: No answer fits the operator's type, or none chooses one of the operator's ports.
        """
        output, operator_id, ports = self._output, self.get_id(), self.ports
        read: Callable[[str], WorkflowMessage] = partial(self._message_without_port, call.job, operator_id)
        routed: Schema = {}
        if ports:
            routed = routing_schema(self.schema, self.config.output_schema, ports)
            read = partial(self._message_with_port, call.job, operator_id, routed)

        def fitting(text: str) -> WorkflowMessage:
            message = read(text)
            output.read(message)
            return message

        async with self._connections() as opened:
            task = await self._build_task(call, opened)
            if ports:
                task = task.model_copy(update={"output_schema": json.dumps(routed, ensure_ascii=False)})
            return await ask_until_read(
                self.thinker(call.reasoner),
                task,
                read if output.type is str else fitting,
                who=f"operator {operator_id!r}",
                wanted=output.called,
                operator_id=operator_id,
            )

    def _connections(self) -> AbstractAsyncContextManager[Connections | None]:
        """Return the connections of the run; a context with None for an operator without tools."""
        return connections() if self.config.actions or self.config.tools else _NO_CONNECTIONS

    def _message_without_port(self, job: Job, operator_id: str, text: str) -> WorkflowMessage:
        """Return the message for an answer without a port."""
        outputs = _outputs_from(text) if self.config.output_schema else {}
        return WorkflowMessage.of_text(text, operator_id, job.id, outputs=outputs)

    def thinker(self, reasoner: Reasoner) -> Reasoner:
        """Return the reasoner with the operator's own model, if it has one, otherwise the given reasoner of the run."""
        return self._own_reasoner or reasoner

    @property
    def has_model(self) -> bool:
        """True if the operator has a model of its own."""
        return self._own_reasoner is not None

    def check_model(self) -> None:
        """Check the operator's own model, if it has one.

        Raises:
            InputError: The model is not configured.
        """
        check: Callable[[], None] | None = getattr(self._own_reasoner, "check_model", None)
        if check is not None:
            check()

    def without_model(self) -> Operator[T]:
        """Return the operator without its own model, so that it uses the reasoner of the run."""
        if self._own_reasoner is None:
            return self
        freed = copy(self)
        freed._own_reasoner = None
        return freed

    def _message_with_port(self, job: Job, operator_id: str, schema: Schema, text: str) -> WorkflowMessage:
        """Return the message for an answer with a port: as JSON, or the name of the port alone."""
        one_word = self.schema is None and text.strip() in self.ports
        answer: dict[str, Any] = {PORT: text.strip()} if one_word else validate(schema, text)
        port = answer.pop(PORT)
        content: Any = answer
        if self.schema is None:
            content, answer = answer.get(ANSWER, port), {}
        elif self.schema.get("type") != "object":
            content = answer[ANSWER]
            answer = {"output": content}
        return WorkflowMessage(
            scratchpad=content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
            outputs=answer,
            ports=(port,),
            job_id=job.id,
            operator_id=operator_id,
        )

    def get_knowledge(self, job: Job) -> Knowledge:
        """Return the passages of the knowledge base for the job's goal and context.

        In a conversation, a message may refer to the one before it ("And for letters?"). So two queries are made,
        without and with the user's previous message, and their passages are taken alternately.
        """
        if self._knowledge_base is None:
            return NO_KNOWLEDGE
        query = f"{job.goal}\n{job.context}".strip()
        knowledge = self._knowledge_base.retrieve(query)
        previous = next((turn.text for turn in reversed(job.turns) if turn.role == "user"), "") if self.memory else ""
        if not previous.strip():
            return knowledge
        return _interleaved(knowledge, self._knowledge_base.retrieve(f"{previous}\n{query}"))

    async def _search_knowledge(self, job: Job) -> Knowledge:
        """Search the knowledge base in a thread, and emit an event with the passages found."""
        knowledge = await asyncio.to_thread(self.get_knowledge, job)  # may read files
        if not isinstance(knowledge, Knowledge):  # pyright: ignore[reportUnnecessaryIsInstance] - of a user's class
            raise InputError(
                f"operator {self.get_id()!r}: its knowledge base gave {type(knowledge).__name__}, not Knowledge"
            )
        passages = knowledge.passages
        emit(KnowledgeRetrieved(sources=tuple(p.source for p in passages), scores=tuple(p.score for p in passages)))
        return knowledge

    def get_env_insights(self) -> list[Insight] | None:
        """Return the insights of earlier runs about the environment, best first; None without insights.

        By default, these are the insights about any job that the workflow's `Insights` keep for this operator. In a run
        with insights, the method is called in a thread, because it may read a file.
        """
        scope = current_scope()
        insights: RunInsights | None = scope.run.insights if scope else None
        if insights is None or self._insights_key is None:
            return None
        return insights.recall(self._insights_key)

    @cached_property
    def _insights_key(self) -> str | None:
        """Key of the operator's insights; None if the operator has no fingerprint."""
        try:
            return cache_key(name_of(type(self)), self.config)
        except InputError as error:
            _logger.warning("operator %r learns nothing from earlier runs: %s", self.get_id(), error)
            return None

    def _relevant_insights(self, job: Job) -> tuple[Insight, ...]:
        """Return the insights for a job."""
        return relevant(self.get_env_insights() or (), job)

    async def _recall_insights(self, job: Job, insights: RunInsights | None) -> tuple[Insight, ...]:
        """Return the insights for a job, read in a thread, and emit an event with those of the workflow's store."""
        if insights is None:
            return self._relevant_insights(job)
        shown = await asyncio.to_thread(self._relevant_insights, job)
        if self._insights_key is not None:
            learned = [insight for insight in shown if insight.key]
            emit(
                InsightsRecalled(
                    operator=self._insights_key,
                    about=about(job),
                    insights=tuple(insight.key for insight in learned),
                    texts=tuple(insight.text for insight in learned),
                    store=insights.store.id,
                )
            )
        return shown

    @cached_property
    def _used_toolkit(self) -> Toolkit:
        return self._toolkit or Toolkit.of(self.config.actions)

    @cached_property
    def _own_tools(self) -> tuple[Tool | ToolSource, ...]:
        """Tools of the operator that belong to no action, with groups replaced by their tools."""
        if not self.config.tools:
            return ()
        holder = Action(name="tools", tools=cast("tuple[Tool | ToolGroup, ...]", self.config.tools))
        return Toolkit.of([holder]).recommend([holder]).tools

    def _recommend(self) -> Recommendation:
        """Return the actions and tools that the toolkit recommends, and the operator's own tools."""
        config = self.config
        if not config.actions:
            return Recommendation(tools=self._own_tools)
        recommendation = self._used_toolkit.recommend(config.actions, threshold=config.threshold, hops=config.hops)
        return (
            recommendation.model_copy(update={"tools": (*recommendation.tools, *self._own_tools)})
            if self._own_tools
            else recommendation
        )

    async def _build_task(self, call: OperatorCall, opened: Connections | None) -> Task:
        """Return the task for the reasoner: configuration, recommendation, knowledge and insights for a call."""
        config, job = self.config, call.job
        recommended = self._recommend()
        knowledge = self.get_knowledge(job) if self._knowledge_base is None else await self._search_knowledge(job)
        scope = current_scope()
        insights: RunInsights | None = scope.run.insights if scope else None
        recalls = insights is not None or type(self).get_env_insights is not Operator.get_env_insights
        return Task(
            job=job,
            instruction=config.instruction,
            examples=tuple(config.examples),
            output_schema=config.output_schema,
            actions=recommended.actions,
            tools=await opened.tools(recommended.tools) if opened and recommended.tools else (),
            workflow_messages=call.messages,
            previous_expert_outputs=call.previous,
            knowledge=knowledge,
            insights=await self._recall_insights(job, insights) if recalls else (),
            lesson=call.lesson or "",
            files=job.files,
        )


def _interleaved(alone: Knowledge, together: Knowledge) -> Knowledge:
    """Return the passages of two results alternately, without repetitions, as many as the longer result has.

    A passage in both results gets the higher score.
    """
    best: dict[tuple[str, str], Passage] = {}
    for pair in zip_longest(alone.passages, together.passages):
        for passage in filter(None, pair):
            key = (passage.source, passage.text)
            best[key] = max(best.get(key, passage), passage, key=lambda each: each.score)
    size = max(len(alone.passages), len(together.passages))
    return Knowledge(passages=tuple(best.values())[:size])


def _configuration(
    class_name: str, config: OperatorConfig | str, arguments: Mapping[str, Any]
) -> tuple[OperatorConfig, Output[Any]]:
    """Return the configuration from the arguments of an operator, and the type of its answers."""
    if isinstance(config, OperatorConfig):
        if given := [name for name, value in arguments.items() if value is not None and value not in ("", (), [])]:
            raise InputError(
                f"{class_name}(config): {', '.join(given)} belong in the OperatorConfig; or give the instruction as "
                f"text: {class_name}('…', {given[0]}=…)"
            )
        return config, Output(str) if not config.output_schema else Output(None, config.output_schema)
    if not isinstance(config, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"{class_name}(…) expects an instruction as text, or an OperatorConfig; got {short_repr(config)}"
        )
    output = Output.of(arguments["output"])
    fields = {name: value for name, value in arguments.items() if name != "output" and (name != "id" or value)}
    if isinstance(arguments["ports"], str):
        raise InputError(f"{class_name}(…): ports: expected a list of names, got {short_repr(arguments['ports'])}")
    try:
        return OperatorConfig.model_validate({"instruction": config, "output_schema": output.schema, **fields}), output
    except ValidationError as error:
        raise wrong_arguments(error, f"{class_name}(…)", list(arguments)) from error


def _with_retry(policy: Policy | None, retry: Retry | int | Literal[False], operator_id: str) -> Policy:
    """Return a policy with these retries.

    Raises:
        InputError: The policy has retries already, or they are invalid.
    """
    if policy is not None and policy.retry is not None:
        raise InputError(f"operator {operator_id!r}: retry: the policy has one, too; give it in one of the two")
    try:
        return Policy(retry=retry).or_else(policy)
    except InvalidError as error:
        wheres = [issue.where.replace("Policy.retry", "Retry.").partition(".")[2] for issue in error.issues]
        faults = [
            f"{where}: {issue.message}" if where else issue.message
            for where, issue in zip(wheres, error.issues, strict=True)
        ]
        raise InputError(f"operator {operator_id!r}: retry: {'; '.join(faults)}") from error


def routing_schema(schema: Schema | None, words: str, ports: Sequence[str]) -> Schema:
    """Return the JSON Schema of an answer that also chooses a port.

    Args:
        schema: JSON Schema of the answer; None for text.
        words: Description of an answer without schema; empty for an answer that only chooses.
        ports: Ports to choose from.
    """
    port = {"type": "string", "enum": list(ports), "description": "The one that fits best."}
    if schema is not None and schema.get("type") == "object":
        properties: dict[str, Any] = {**schema.get("properties", {}), PORT: port}
        return {**schema, "properties": properties, "required": [*schema.get("required", []), PORT]}
    properties = {PORT: port}
    if schema is not None:
        properties = {ANSWER: schema, **properties}
    elif words.strip():
        properties = {ANSWER: {"type": "string", "description": words}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _outputs_from(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # with a description as schema, the answer need not be JSON
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"output": value}
