"""Operator: builds a task from an instruction, messages, tools and knowledge, and passes it to a reasoner."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, overload

from pydantic import JsonValue, ValidationError
from typing_extensions import TypedDict, TypeVar, Unpack

from operad.operators.answer_check import Check, ask_until_checked
from operad.operators.code_mode import code_guide, code_tool
from operad.operators.config import OperatorConfig
from operad.operators.instruction import Instruction, InstructionFunction, TextSource, instruction_of
from operad.operators.secrets import find_secret, missing_secrets, secret_uses_of
from operad.operators.skills import Skill, guide, skill_tools
from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall, refusing_jobs
from operad.runtime.graph.chat2graph import Answer, call_of
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.knowledge.insights import relevant
from operad.runtime.knowledge.knowledge import (
    NO_KNOWLEDGE,
    Insight,
    Knowledge,
    KnowledgeBase,
    passages_for,
    report_retrieved,
)
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.models.model import Model
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings, ThinkingLevel
from operad.runtime.policies.cache import cache_key
from operad.runtime.policies.policy import Policy, Retry, policy_of
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, ask_until_read, own_or, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.connections import Connections, connections
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.tools.toolkit import Action, Recommendation, Toolkit, Tools
from operad.runtime.values.arguments import ArgumentError, known_arguments, short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.function_threads import in_function_thread
from operad.runtime.values.ids import settled_id
from operad.runtime.values.json_schema import Schema, check_schema
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import Output, outputs_of
from operad.runtime.values.schema import AnswerSchema, object_schema
from operad.runtime.values.secret import SecretUse
from operad.runtime.values.value import wrong_arguments

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from operad.runtime.durable.memory import Memory


PORT = "port"
"""Key of an answer for the port that is taken."""

ANSWER = "answer"
"""Key for the rest of an answer with a port, if the rest is not an object."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Form of an operator's answers, and their reader.

    Attributes:
        form: Form of the answer without a port.
        asked: Form that the model is asked for: with a port, if there are any.
        ports: Ports to choose from.
    """

    form: AnswerSchema
    asked: AnswerSchema
    ports: Sequence[str]

    def read(self, operator_id: str, job_id: str, text: str) -> WorkflowMessage:
        """Return the message for an answer; with a schema, its JSON becomes the outputs.

        An answer that chooses a port is JSON, or the name of the port alone.
        """
        if not self.ports:
            outputs, whole = _outputs_from(text) if self.form else ({}, None)
            return WorkflowMessage.of_text(text, operator_id, job_id, outputs=outputs, answer=whole)
        schema = self.form.schema
        one_word = schema is None and text.strip() in self.ports
        answer: dict[str, Any] = {PORT: text.strip()} if one_word else self.asked.validate(text)
        port = answer.pop(PORT)
        content: Any = answer
        outputs, whole = outputs_of(answer)
        if schema is None:
            content, outputs, whole = answer.get(ANSWER, port), {}, None
        elif schema.get("type") != "object":
            content = answer[ANSWER]
            outputs, whole = outputs_of(content)
        return WorkflowMessage(
            scratchpad=content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
            outputs=outputs,
            answer=whole,
            ports=(port,),
            job_id=job_id,
            operator_id=operator_id,
        )


def answers_of(form: AnswerSchema, ports: Sequence[str]) -> Answers:
    """Return the reader of answers of a form, with one of the ports if there are any."""
    return Answers(form, routing_schema(form, ports) if ports else form, ports)


def routing_schema(form: AnswerSchema, ports: Sequence[str]) -> AnswerSchema:
    """Return the form of an answer that also chooses a port.

    Args:
        form: Form of the answer; empty for an answer that only chooses.
    """
    schema = form.schema
    port = {"type": "string", "enum": list(ports), "description": "The one that fits best."}
    if schema is not None and schema.get("type") == "object":
        properties: dict[str, Any] = {**schema.get("properties", {}), PORT: port}
        required = [*schema.get("required", []), PORT]
        return AnswerSchema.unchecked({**schema, "properties": properties, "required": required})
    properties = {PORT: port}
    if schema is not None:
        properties = {ANSWER: schema, **properties}
    elif form.text.strip():
        properties = {ANSWER: {"type": "string", "description": form.text}, **properties}
    return AnswerSchema.unchecked(object_schema(properties))


def _outputs_from(text: str) -> tuple[dict[str, Any], str | None]:
    try:
        return outputs_of(json.loads(text))
    except (ValueError, RecursionError):  # with a description as schema, the answer need not be JSON
        return {}, None


# Arguments of `Operator`, and their checks.


class ConfigOptions(TypedDict, total=False):
    """Options of an operator that is given an `OperatorConfig`."""

    toolkit: Toolkit | None
    knowledge_base: KnowledgeBase | None
    long_term_memory: Memory | None
    model: Model | Reasoner | str | None
    policy: Policy | None
    retry: Retry | int | Literal[False] | None


class TextOptions(ConfigOptions, total=False):
    """Options of an operator that is given its instruction as text, except its `output`."""

    id: str
    tools: Tools
    skills: Sequence[Skill | str | Path]
    actions: Sequence[Action]
    examples: Sequence[Example]
    ports: Sequence[str]
    code_mode: bool
    memory: bool
    temperature: float | None
    thinking: ThinkingLevel | None
    settings: ModelSettings
    max_turns: int | None
    check: Check | None


def config_of(
    class_name: str, config: OperatorConfig | str | InstructionFunction, arguments: Mapping[str, Any]
) -> tuple[OperatorConfig, Output[Any]]:
    """Return the configuration from the arguments of an operator, and the type of its answers."""
    if isinstance(config, OperatorConfig):
        if given := [name for name, value in arguments.items() if value is not None and value not in ("", (), [])]:
            raise InputError(
                f"{class_name}(config): {', '.join(given)} belong in the OperatorConfig; or give the instruction as "
                f"text: {class_name}('…', {given[0]}=…)"
            )
        return config, output_of(config)
    if not isinstance(config, str) and (not callable(config) or isinstance(config, type)):
        raise InputError(
            f"{class_name}(…) expects an instruction as text, a function that returns it, or an OperatorConfig; got "
            f"{short_repr(config)}"
        )
    output = Output.of(arguments["output"])
    fields = {name: value for name, value in arguments.items() if name != "output" and (name != "id" or value)}
    if isinstance(arguments["ports"], str):
        raise InputError(f"{class_name}(…): ports: expected a list of names, got {short_repr(arguments['ports'])}")
    try:
        return OperatorConfig.model_validate(
            {"instruction": config, "output_schema": output.schema.text, **fields}
        ), output
    except ValidationError as error:
        raise wrong_arguments(error, f"{class_name}(…)", list(arguments)) from error


def output_of(config: OperatorConfig) -> Output[Any]:
    """Return the type of the answers of a configuration: text, or what its `output_schema` describes."""
    return Output() if config.output_schema else Output(str)


def settings_of(class_name: str, settings: ModelSettings, **single: Any) -> dict[str, ModelSettings]:
    """Return the settings of an operator, with the single ones in place of those of the same name; empty without any."""
    if not isinstance(settings, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{class_name}(…): settings: expected ModelSettings(…), got {short_repr(settings)}")
    try:
        merged = ModelSettings(**single).over(settings)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("ModelSettings(", f"{class_name}(", 1)) from error
    return {} if merged == NO_SETTINGS else {"settings": merged}


def form_of(output: Output[Any], text: str) -> AnswerSchema:
    """Return the form of an operator's answers: that of its type, or else the one that its configuration declares.

    Args:
        text: The `output_schema` of the configuration.

    Raises:
        InvalidError: The `output_schema` is invalid.
    """
    if output.schema.text != text:
        return AnswerSchema.parse(text)
    if output.type is not None and output.schema.schema is not None:
        check_schema(output.schema.schema)
    return output.schema


def check_knowledge_base(given: Any, operator_id: str) -> None:
    """Check that an operator's knowledge base, if it has one, can be searched.

    Raises:
        InvalidError: The object has no method ``retrieve``.
    """
    if given is not None and not callable(getattr(given, "retrieve", None)):
        issue = Issue("knowledge-base", f"has no method retrieve(query): {given!r}; see Documents", operator_id)
        raise InvalidError("an operator's knowledge base cannot be used", [issue])


def check_memory(given: Any, operator_id: str) -> None:
    """Check that an operator's long-term memory, if it has one, is a `Memory`.

    Raises:
        InputError: It is something else.
    """
    if given is not None and not callable(getattr(given, "remember", None)):
        raise InputError(
            f"operator {operator_id!r}: long_term_memory: expected Memory(store, namespace=…), got {short_repr(given)}; "
            "`memory` is for the turns of a conversation"
        )


def check_check(operator: object, check: Check | None, base: type) -> None:
    """Check that an operator with a `check` leaves its work to the class that applies it.

    Raises:
        InputError: Its class has a `run` or `execute` of its own.
    """
    kind = type(operator)
    own = [name for name in ("run", "execute") if getattr(kind, name) is not getattr(base, name)]
    if check is not None and own:
        raise InputError(f"{kind.__name__}(…): check: its own `{own[0]}` gives the answers, so it checks them itself")


# Recommender of the actions and tools of an operator.


class Recommender:
    """Recommender of actions and tools for the tasks of an operator.

    Args:
        config: Configuration of the operator.
        toolkit: Graph that recommends actions and tools; None for the operator's own actions.
        added: Tools besides those of the configuration.
    """

    def __init__(self, config: OperatorConfig, toolkit: Toolkit | None, added: Sequence[Tool] = ()) -> None:
        self._config = config
        self._added = added
        self._given_toolkit = toolkit

    def recommend(self) -> Recommendation:
        """Return the actions and tools that the toolkit recommends, and the operator's own tools."""
        config = self._config
        if not config.actions:
            return Recommendation(tools=self._own_tools)
        recommendation = self._toolkit.recommend(config.actions, threshold=config.threshold, hops=config.hops)
        if not self._own_tools:
            return recommendation
        return recommendation.model_copy(update={"tools": (*recommendation.tools, *self._own_tools)})

    @cached_property
    def _toolkit(self) -> Toolkit:
        return self._given_toolkit or Toolkit.of(self._config.actions)

    @cached_property
    def _own_tools(self) -> tuple[Tool | ToolSource, ...]:
        """Tools of the operator that belong to no action, with groups replaced by their tools."""
        if not (self._config.tools or self._added):
            return ()
        tools = (*cast("tuple[Tool | ToolGroup, ...]", self._config.tools), *self._added)
        holder = Action(name="tools", tools=tools)
        return Toolkit.of([holder]).recommend([holder]).tools


T = TypeVar("T", default=Any, covariant=True)
R = TypeVar("R")

_logger = logging.getLogger(__name__)

_NO_CONNECTIONS = nullcontext()


class Operator(BaseOperator[T]):
    """Step of a workflow that a reasoner carries out (Chat2Graph, Workflow module, section 2).

        facts = Operator("List what the text claims.", id="facts", output=Claims)
        check = Operator("Check each claim.", tools=[search])
        workflow = Workflow(facts >> check)

    The class is generic in the type of its answers: `facts` is an `Operator[Claims]`. A subclass may override `run` or
    `execute` to do other work: it receives the same call, and returns a message or plain text.

    Args:
        instruction: What the operator is to do. ``{name}`` is replaced by an input of the job, or the answer of a
            predecessor; ``{{`` is a brace. Or a function that returns the text, with parameters as for `operator`; or an
            `OperatorConfig`, which replaces the arguments from `id` to `ports` and from `memory` to `max_turns`.
        id: Id of the operator in a workflow; by default the first words of the instruction, or the function's name.
        output: Type of the answer: a pydantic model, a dataclass, a TypedDict, a type such as ``list[str]`` or
            ``Invoice | Refusal``, a JSON Schema as a dict, or text as for `OperatorConfig.output_schema`; text by default.
        tools: Functions and tools that the model may call.
        code_mode: True if the model calls the tools by Python code that it writes, in a sandbox.
        skills: Folders of skills that the model may read, and skills of `load_skills`.
        actions: Actions of the operator; see `Action`.
        examples: Inputs with correct answers.
        ports: Ports of the operator, of which the model takes one.
        model: Model in place of the workflow's: a model, its name, or a reasoner.
        policy: Policy of the operator; a policy that the workflow sets for the operator takes precedence.
        retry: Short for ``policy=Policy(retry=…)``: a `Retry`, or the number of attempts.
        memory: True if the operator receives the earlier turns of a conversation.
        temperature: Short for ``settings=ModelSettings(temperature=…)``, as is `thinking` for its effort of reasoning.
        settings: Settings of the model's calls, in place of the model's own.
        max_turns: Maximum number of the model's turns, of which the last gives the answer; by default 50.
        check: Check of each answer: a criterion in words, or a function that is given the answer and returns or raises
            the fault. The model corrects a fault in the same conversation, at most twice; then an `AnswerError` follows.
        toolkit: Graph that recommends actions and tools; by default the operator's own actions only.
        knowledge_base: Knowledge base to search for each job.
        long_term_memory: Memory across runs, of which the prompt has what fits the job, and which the model may change.

    Raises:
        InputError: A value has another type, or an argument is unknown.
    """

    config: OperatorConfig
    # What `__init__` sets, for subclasses written for Chat2Graph, which set only `_config`.
    _settled = True
    _own_reasoner: Reasoner | None = None
    _toolkit: Toolkit | None = None
    _knowledge_base: KnowledgeBase | None = None
    _memory: Memory | None = None
    _fills: ClassVar[bool] = True  # False for subclasses with an own `run`, which may use the instruction otherwise
    paths: ClassVar[tuple[str, ...]] = ()
    """Names of parameters that are paths; in YAML, they are relative to the folder of the YAML file."""

    @overload
    def __init__(self, instruction: OperatorConfig, **options: Unpack[ConfigOptions]) -> None: ...
    @overload
    def __init__(self, instruction: TextSource, *, output: type[T], **options: Unpack[TextOptions]) -> None: ...
    @overload
    def __init__(
        self: Operator[str], instruction: TextSource, *, output: None = None, **options: Unpack[TextOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Operator[Any], instruction: TextSource, *, output: str | Mapping[str, Any], **options: Unpack[TextOptions]
    ) -> None: ...
    @overload
    def __init__(self, instruction: TextSource, *, output: TypeForm[T], **options: Unpack[TextOptions]) -> None: ...
    @known_arguments
    def __init__(
        self,
        instruction: OperatorConfig | TextSource,
        *,
        id: str = "",
        output: Any = None,
        tools: Tools = (),
        skills: Sequence[Skill | str | Path] = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        ports: Sequence[str] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        code_mode: bool = False,
        memory: bool = True,
        temperature: float | None = None,
        thinking: ThinkingLevel | None = None,
        settings: ModelSettings = NO_SETTINGS,
        max_turns: int | None = None,
        check: Check | None = None,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
        long_term_memory: Memory | None = None,
    ) -> None:
        arguments: dict[str, Any] = {"id": id, "output": output, "tools": tools, "actions": actions}
        arguments |= {"examples": examples, "ports": ports, "max_turns": max_turns, "check": check}
        arguments |= settings_of(type(self).__name__, settings, temperature=temperature, thinking=thinking)
        arguments |= {"skills": skills} | ({} if memory else {"memory": False})
        arguments |= {"code_mode": True} if code_mode else {}
        config, self._output = config_of(type(self).__name__, instruction, arguments)
        check_knowledge_base(knowledge_base, config.id)
        check_memory(long_term_memory, config.id)
        check_check(self, config.check, Operator)
        self.config = config
        self.policy = policy_of(policy, retry, config.id)
        self._settled = "id" in config.model_fields_set
        self._own_reasoner = None if model is None else reasoner_of(model)
        if self._own_reasoner is not None:
            self.asks_model = False  # does not use the model of the run
        self._toolkit = toolkit
        self._knowledge_base = knowledge_base
        self._memory = long_term_memory

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
            cls._fills = vars(cls).get("_fills", False)
            cls.gives_verdict = vars(cls).get("gives_verdict", True)
            cls.asks_model = vars(cls).get("asks_model")

    @property
    def _config(self) -> OperatorConfig:
        """The configuration, under the name that subclasses written for Chat2Graph use."""
        return self.config

    @_config.setter
    def _config(self, config: OperatorConfig) -> None:
        self.config = config
        if "_output" not in vars(self):  # a subclass that does not call `__init__`
            self._output: Output[Any] = output_of(config)

    def get_id(self) -> str:
        """Return the id of the operator."""
        return self.config.id

    def settle_id(self, is_taken: Callable[[str], bool]) -> None:
        """Make the default id unique among the taken ids. A given id, and one that was settled before, is unchanged."""
        if not self._settled:
            self.config = self.config.model_copy(update={"id": settled_id(self.config.id, is_taken)})
            self._settled = True

    def with_instruction(self, instruction: str) -> Self:
        """Return the operator with another instruction, and the same id.

        Raises:
            InputError: The instruction is empty.
        """
        changed = copy(self)
        values: dict[str, Any] = {
            **dict(self.config),
            "instruction": instruction,
            "written_by": None,
            "id": self.get_id(),
        }
        changed.config, changed._settled = OperatorConfig(**values), True
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):  # which may depend on the instruction
                    vars(changed).pop(name, None)
        return changed

    @property
    def instruction(self) -> str:
        """Purpose of the operator: the instruction without values, or the description of its function."""
        return self.config.instruction

    @property
    def names_operators(self) -> bool:
        """True if the instruction is a function, or has names in braces."""
        return self._fills and (self.config.written_by is not None or "{" in self.config.instruction)

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`, and those of names in the instruction."""
        issues = self.check(before)
        return [*issues, *self._instruction().check(before, others)] if self.names_operators else issues

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of names in the instruction of one of the first operators of a nested workflow or map."""
        return self._instruction().check_inside(before, of_map=of_map) if self.names_operators else []

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names in the instruction that neither an input nor an operator before it has."""
        return self._instruction().check_inputs(inputs, before) if self.names_operators else []

    def _instruction(self) -> Instruction:
        """Return the instruction, which can be checked, and written for a call."""
        return instruction_of(self.config.instruction, self.config.written_by, self.get_id())

    def _messages_to_name(self, call: OperatorCall) -> Sequence[WorkflowMessage]:
        """Return the messages that the instruction may name."""
        return call.messages

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
    def memory(self) -> bool:
        """True if the operator receives the earlier turns of a conversation."""
        return self.config.memory

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True if one model writes the answer as text, without ports; text may come before calls of tools."""
        config, thinker = self.config, self.thinker(reasoner)
        writes_text = type(self) is Operator and not (config.output_schema or config.ports or config.check)
        if not writes_text or not isinstance(thinker, MonoModelReasoner):
            return False
        return not (self.has_tools or config.actions) or thinker.model.profile.tools == "native"

    @property
    def has_tools(self) -> bool:
        """True if the operator has tools, skills, a long-term memory, or actions with tools."""
        return bool(self.config.tools or self.config.skills or self._memory) or any(
            action.tools for action in self.config.actions
        )

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps without which one of the tools cannot be called."""
        if self.config.written_by and (name := self._instruction().deps_type):
            return name
        tools = self._recommend().tools if self.has_tools else ()
        return next((tool.deps_type for tool in tools if isinstance(tool, Tool) and tool.deps_type), "")

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that the servers of the operator's tools get."""
        return secret_uses_of(self._recommend().tools) if self.has_tools else ()

    def missing_secrets(self) -> Sequence[str]:
        """Return the names of the secrets that the operator sends and that have no value."""
        return missing_secrets((use.secret for use in self.secret_uses), find_secret)

    @property
    def ports(self) -> Sequence[str]:
        """Ports of the operator, if any; each message takes one."""
        return self.config.ports

    @cached_property
    def _answers(self) -> Answers:
        return answers_of(form_of(self._output, self.config.output_schema), self.ports)

    @property
    def schema(self) -> Schema | None:
        """JSON Schema of the answers; None if the `output_schema` is a description, or empty.

        Raises:
            InvalidError: The `output_schema` is invalid.
        """
        return self._answers.form.schema

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the `output_schema`, or of a code mode without tools."""
        try:
            schema = self.schema
        except InvalidError as error:
            return [Issue(issue.code, f"output_schema: {issue.message}", self.get_id()) for issue in error.issues]
        if self.config.code_mode and not self.has_tools:
            return [Issue("code-mode", "code_mode: the operator has no tools to call; give it some", self.get_id())]
        if self.ports and schema and PORT in schema.get("properties", {}):
            reserved = f"its output_schema has a field {PORT!r}, which is reserved for the chosen port"
            return [Issue("port-twice", reserved, self.get_id())]
        return []

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the requests: class, configuration, recommended tools, knowledge base.

        In a run, the insights for the run's job are added. A subclass must add all that influences its messages besides.

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
        values |= {} if self._memory is None else {"long_term_memory": self._memory.fingerprint()}
        values |= {} if self._own_reasoner is None else {"model": fingerprint(self._own_reasoner)}
        return {**values, "insights": [insight.text for insight in insights]} if insights else values

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
        call = call_of(reasoner, job, workflow_messages, previous_expert_outputs, lesson)
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
            AnswerError: No answer fits the operator's type, chooses one of its ports, and passes its `check`.
        """
        output, operator_id, check = self._output, self.get_id(), self.config.check
        read = partial(self._answers.read, operator_id, call.job.id)

        def fitting(text: str) -> WorkflowMessage:
            message = read(text)
            output.read(message)
            return message

        reads = read if output.type is str else fitting
        checked = partial(ask_until_checked, check=check or "", answer_in=output.read, operator_id=operator_id)
        who, asking = f"operator {operator_id!r}", checked if check else None
        return await self._ask_until_read(call, reads, operator_id, output.called, who, asking=asking)

    async def _ask_until_read(
        self,
        call: OperatorCall,
        read: Callable[[str], R],
        operator_id: str,
        wanted: str,
        who: str,
        changed: Callable[[Task], Task] | None = None,
        asking: Callable[[Callable[[Task], Awaitable[R]], Task, Reasoner], Awaitable[R]] | None = None,
    ) -> R:
        """Build the task, and ask until an answer can be read; see `ask_until_read`."""
        async with connections() if self.config.actions or self.has_tools else _NO_CONNECTIONS as opened:
            task, thinker = await self._build_task(call, opened), self.thinker(call.reasoner)
            task = changed(task) if changed else task
            ask = partial(ask_until_read, thinker, read=read, who=who, wanted=wanted, operator_id=operator_id)
            return await (asking(ask, task, thinker) if asking else ask(task))

    def thinker(self, reasoner: Reasoner) -> Reasoner:
        """Return the reasoner with the operator's own model, if it has one, otherwise the given reasoner of the run."""
        return own_or(self._own_reasoner, reasoner)

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

    def get_knowledge(self, job: Job) -> Knowledge:
        """Return the passages of the knowledge base for the job; see `passages_for`."""
        return NO_KNOWLEDGE if self._knowledge_base is None else self._passages_in(self._knowledge_base, job)

    def _passages_in(self, base: KnowledgeBase, job: Job) -> Knowledge:
        return passages_for(job if self.memory else job.model_copy(update={"turns": ()}), base)

    async def _search(self, job: Job, search: Callable[[Job], Knowledge]) -> Knowledge:
        """Search for a job in a thread, because files may be read, and emit an event with the passages found."""
        knowledge = await in_function_thread(f"operator {self.get_id()!r}", search, job)
        return report_retrieved(knowledge, self.get_id())

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
        shown = await in_function_thread(f"operator {self.get_id()!r}", self._relevant_insights, job)
        if self._insights_key is not None:
            insights.report_recalled(self._insights_key, job, shown)
        return shown

    @cached_property
    def _recommender(self) -> Recommender:
        of_memory = self._memory.tools if self._memory else ()
        return Recommender(self.config, self._toolkit, (*skill_tools(self.config.skills), *of_memory))

    def _recommend(self) -> Recommendation:
        """Return the actions and tools that the toolkit recommends, and the operator's own tools."""
        return self._recommender.recommend()

    async def _build_task(self, call: OperatorCall, opened: Connections | None) -> Task:
        """Return the task for the reasoner: configuration, recommendation, knowledge and insights for a call."""
        config, job = self.config, call.job
        written = await self._instruction().write(call, self._messages_to_name(call))
        recommended = self._recommend()
        tools = await opened.tools(recommended.tools) if opened and recommended.tools else ()
        guides = [guide(config.skills), code_guide(tools) if config.code_mode and tools else ""]
        knowledge = (
            self.get_knowledge(job) if self._knowledge_base is None else await self._search(job, self.get_knowledge)
        )
        recall = partial(self._passages_in, self._memory) if self._memory else None
        given = {message.operator_id for message in call.messages}
        steps = call.transcript if config.memory and call.judged is None else ()  # an evaluator has all operators there
        told = [step.message for step in steps if step.operator_id not in given]
        bare = {"instruction": "", "message": WorkflowMessage()}
        handed = tuple(step.model_copy(update=bare) for step in steps if step.tool_calls or step.passages)
        scope = current_scope()
        insights: RunInsights | None = scope.run.insights if scope else None
        recalls = insights is not None or type(self).get_env_insights is not Operator.get_env_insights
        return Task(
            job=job,
            instruction=written.text,
            filled=written.filled,
            examples=tuple(config.examples),
            output_schema=self._answers.asked,
            actions=recommended.actions,
            tools=(code_tool(tools),) if config.code_mode and tools else tools,
            guide="\n\n".join(filter(None, guides)),
            workflow_messages=(*told, *call.messages),
            handed=handed,
            previous_expert_outputs=call.previous,
            knowledge=knowledge,
            memories=await self._search(job, recall) if recall else NO_KNOWLEDGE,
            insights=await self._recall_insights(job, insights) if recalls else (),
            lesson=call.lesson or "",
            rejection=call.rejection,
            files=job.files,
            settings=config.settings,
            max_turns=config.max_turns,
        )
