"""Nodes that call a model: llm, question-classifier; the base class of all such nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from pydantic import Field, JsonValue

from operad.operators.node import ADVANCED, Fault, NodeCall, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.nodes.flow import duplicate_faults
from operad.operators.nodes.values import Argument, issue_text
from operad.operators.operator import PORT, routing_schema
from operad.operators.sandbox.template import check_template, names_of, render_template
from operad.operators.services import Services
from operad.operators.variables import (
    WITHOUT_FILES,
    Accepts,
    Selector,
    Text,
    VariableType,
    as_text,
    files_in,
    plain,
)
from operad.runtime.events import current_scope
from operad.runtime.models.model import Model
from operad.runtime.models.settings import ModelSettings
from operad.runtime.reasoning.prompt import DATA_RULE
from operad.runtime.reasoning.reasoner import Reasoner, ask, own_or, reasoner_of
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import NO_USAGE, Job, Turn, Usage
from operad.runtime.values.schema import TEXT_FORM, AnswerSchema
from operad.runtime.values.text import fence, whole

T = VariableType

CLASSIFY = "Decide which of these classes the text belongs to, by what it is about. Choose the one that fits best."


def task_of(
    call: NodeCall,
    instruction: str,
    text: str,
    files: Sequence[FileDescriptor] = (),
    schema: AnswerSchema = TEXT_FORM,
    turns: Sequence[Turn] = (),
) -> Task:
    """Return the task of a node for the reasoner: its own text, not the goal of the workflow."""
    job = call.job
    return Task(
        job=Job(goal=text, id=job.id, session_id=job.session_id, turns=tuple(turns)),
        instruction=instruction,
        output_schema=schema,
        lesson=call.lesson or "",
        files=tuple(files),
    )


def reading_task(call: NodeCall, instruction: str, text: str, schema: AnswerSchema) -> Task:
    """Return the task of a node that reads a text: the text is fenced, so that instructions in it are not followed."""
    return task_of(call, f"{instruction}\n\n{DATA_RULE}", fence(text), schema=schema)


SAMPLING = (
    "temperature",
    "max_tokens",
    "top_p",
    "top_k",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "reasoning_effort",
)
"""Parameters of models that are sent; others are ignored."""

_EFFORTS = {"none": "off", "minimal": "low", "low": "low", "medium": "medium", "high": "high"}
"""Effort of reasoning by its name in `sampling`."""


def settings_in(sampling: Mapping[str, JsonValue]) -> ModelSettings:
    """Return the settings in the parameters of a node; those that only some models have become `parameters`.

    Raises:
        ArgumentError: A value has another type.
    """
    known = {name: value for name, value in sampling.items() if name in SAMPLING and value is not None}
    if isinstance(stop := known.get("stop"), str):
        known["stop"] = [stop]
    if (effort := _EFFORTS.get(str(known.get("reasoning_effort")))) is not None:
        known["thinking"] = effort
        del known["reasoning_effort"]
    fields = {name: value for name, value in known.items() if name in ModelSettings.model_fields}
    return ModelSettings.model_validate(
        {**fields, "parameters": {name: value for name, value in known.items() if name not in fields}}
    )


class AskingParams(NodeParams):
    """Parameters of a node that asks a model."""

    model_name: Annotated[str, ADVANCED] = Field(
        default="", description="Name of a configured model; by default the model of the run."
    )
    sampling: Annotated[dict[str, JsonValue], ADVANCED] = Field(
        default_factory=dict[str, JsonValue],
        description="Parameters of the model, such as temperature, max_tokens and top_p.",
    )

    def reasoner(self, call: NodeCall, services: Services) -> Reasoner:
        """Return the reasoner with the named model and the sampling parameters, if it supports them."""
        named = services.models.get(self.model_name)
        reasoner = own_or(None if named is None else reasoner_of(named), call.reasoner)
        model: Any = getattr(reasoner, "model", None) if self.sampling else None
        if not isinstance(model, Model) or not hasattr(reasoner, "with_model"):
            return reasoner
        settings = settings_in(self.sampling).over(model.settings)
        return cast("Any", reasoner).with_model(model.model_copy(update=dict(settings)))


AskingT = TypeVar("AskingT", bound=AskingParams)


class Answer(NamedTuple):
    """Answer of a model.

    Attributes:
        text: The text.
        usage: Tokens, price in US dollars and seconds of all calls that it took, by the names that Dify gives them.
        finish_reason: Reason for its end, in the endpoint's words, such as ``stop`` or ``length``.
    """

    text: str
    usage: Mapping[str, JsonValue]
    finish_reason: str


async def answer_of(reasoner: Reasoner, task: Task) -> Answer:
    """Return the answer to the task of a node, with its usage in the run.

    Raises:
        AnswerError: The answer is empty, or does not fit the schema of the task.
    """
    scope = current_scope()
    before = scope.usage if scope else NO_USAGE
    text = whole(await ask(reasoner, task))
    usage = _usage_since(before, scope.usage if scope else NO_USAGE)
    return Answer(text, usage, scope.finish_reason if scope else "")


def _usage_since(before: Usage, after: Usage) -> dict[str, JsonValue]:
    prompt_tokens = after.prompt_tokens - before.prompt_tokens
    completion_tokens = after.completion_tokens - before.completion_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "total_price": None if after.unpriced > before.unpriced else after.cost - before.cost,
        "currency": "USD",
        "latency": after.seconds - before.seconds,
    }


class AskingNode(NodeOperator[AskingT]):
    """Base class of nodes that ask a model: the model of the run, or the named model of `Services.models`."""

    asks_model = True

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        if self.params.model_name in self.services.models:
            self.asks_model = False


class PromptMessage(NamedTuple):
    """A message of a prompt."""

    role: Annotated[Literal["system", "user", "assistant"], Field(description="Its author.")]
    text: Annotated[Text, Field(description="Its text; variables as {{#id.variable#}}, in Jinja by their names.")]
    jinja: Annotated[bool, Field(description="Whether it is a Jinja template.")] = False


class Memory(NamedTuple):
    """The part of the conversation that a model sees."""

    turns: Annotated[int | None, Field(ge=0, description="The number of exchanges, the latest ones; null for all.")]
    query: Annotated[Text, Field(description="The message after them.")] = Text()
    messages: Annotated[
        list[PromptMessage], Field(description="Messages of this run, between the earlier exchanges and the query.")
    ] = []


CONTEXT = "{{context}}"
"""Placeholder in a prompt for the texts of the variable `context`."""


class LLMParams(AskingParams):
    """Prompt of a model."""

    system: Text = Field(description='Role and rules of the model; "" for none. Variables as {{#id.variable#}}.')
    user: Annotated[Text, Accepts(tuple(T))] = Field(
        description="Question or task; variables as {{#id.variable#}}. Files and images can be named here, and only here."
    )
    messages: Annotated[list[PromptMessage], ADVANCED, Accepts(tuple(T))] = Field(
        default_factory=list[PromptMessage],
        description="Instead of system and user, messages in order; the files that they name are shown to the model.",
    )
    variables: Annotated[list[Argument], ADVANCED] = Field(
        default_factory=list[Argument], description="The names in Jinja messages."
    )
    memory: Annotated[Memory | None, ADVANCED, Accepts(tuple(T))] = Field(
        default=None,
        description='Earlier exchanges of the conversation, and the message after them, which may name files: {turns: 5, query: "{{#1.question#}}"}.',
    )
    context: Annotated[Selector | None, ADVANCED] = Field(
        default=None, description=f"Texts or passages that {CONTEXT} stands for in the messages."
    )
    files: Annotated[list[Selector], ADVANCED] = Field(
        default_factory=list[Selector], description="Variables with files that the model is shown."
    )
    output_schema: Annotated[dict[str, JsonValue] | None, ADVANCED] = Field(
        default=None, description="JSON Schema of the answer, which is the output structured_output, too."
    )
    separate_thoughts: Annotated[bool, ADVANCED] = Field(
        default=False, description="Whether <think>…</think> is left out of the text, and is reasoning_content."
    )

    @property
    def prompt(self) -> Sequence[PromptMessage]:
        """Messages of the prompt, in order."""
        return self.messages or [PromptMessage("system", self.system), PromptMessage("user", self.user)]


class LLM(AskingNode[LLMParams]):
    """Asks a language model."""

    type = "llm"
    params_type = LLMParams
    hint = "Files and images can be named in user, and only there."
    gives = "text (string)"
    reports = {"files": T.ARRAY_FILE, "reasoning_content": T.STRING, "usage": T.OBJECT, "finish_reason": T.STRING}
    example = {"system": "You translate into plain English.", "user": "Translate:\n{{#2.text#}}"}

    @property
    def instruction(self) -> str:
        """Prompt of the node, for evaluators."""
        return "\n".join(filter(None, (message.text for message in self.params.prompt)))

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of its outputs."""
        return {"text": T.STRING} | ({} if self.params.output_schema is None else {"structured_output": T.OBJECT})

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: an empty prompt, and invalid Jinja templates."""
        if not any(message.text.strip() for message in self.params.prompt) and self.params.memory is None:
            yield Fault("user", "is empty, and so is system: say what the model is to do")
        names = [variable.name for variable in self.params.variables]
        for number, message in enumerate(self.params.messages):
            where = f"messages[{number}]"
            if not message.jinja:
                continue
            wrong = check_template(message.text)
            yield from (Fault(where, issue_text(issue), issue.code) for issue in wrong)
            for name in () if wrong else names_of(message.text):
                if name not in names:
                    problem = f"{name!r} is not among its variables{did_you_mean(name, names)}"
                    yield Fault(where, problem, "undefined-variable")

    @cached_property
    def _form(self) -> AnswerSchema:
        return AnswerSchema.of(self.params.output_schema) if self.params.output_schema else TEXT_FORM

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask the model with the messages, files and earlier turns."""
        params = self.params
        shown = [*params.prompt, *(params.memory.messages if params.memory else ())]
        named = [*params.files, *(each for message in shown for each in _file_variables(message))]
        named += params.memory.query.selectors if params.memory else []
        files = [file for selector in dict.fromkeys(named) for file in files_in(call.get(selector))]
        turns: list[Turn] = []
        rules: list[str] = []
        for message in params.prompt:
            text = await self._text(message, call)
            if message.role == "system":
                rules += [text] if text.strip() else []
            elif text.strip():
                turns.append(Turn(role=message.role, text=text))
        if params.memory is not None:
            turns += remembered(call, params.memory)
            query = call.text(params.memory.query)
            turns += [Turn(role="user", text=query)] if query.strip() else []
        system = "\n\n".join(rules)
        question = turns.pop().text if turns and turns[-1].role == "user" else ""
        if not turns and not question:
            system, question = "", system
        task = task_of(call, system, question, files, self._form, turns)
        text, usage, finish_reason = await answer_of(params.reasoner(call, self.services), task)
        outputs: dict[str, Any] = {
            "text": text,
            "files": [],  # models answer in text here
            "reasoning_content": "",
            "usage": usage,
            "finish_reason": finish_reason,
        }
        if params.output_schema is not None:
            outputs["structured_output"] = whole((self._form or _ANY).validate(text))
        if params.separate_thoughts:
            thoughts = "\n".join(thought.strip() for thought in _THOUGHT.findall(text))
            outputs |= {"text": _THOUGHT.sub("", text).strip(), "reasoning_content": thoughts}
        return NodeResult(outputs, text=outputs["text"])

    async def _text(self, message: PromptMessage, call: NodeCall) -> str:
        """Return the text of a message with the values of its variables."""
        if message.jinja:
            values = {each.name: plain(call.get(each.value)) for each in self.params.variables}
            return await asyncio.to_thread(render_template, message.text, values, self.services.templates)
        if self.params.context is None:
            return call.text(message.text)
        return call.text(message.text).replace(CONTEXT, _context_text(call.get(self.params.context)))


_ANY = AnswerSchema.unchecked({})
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def _file_variables(message: PromptMessage) -> Sequence[Selector]:
    """Return the variables whose files are attached to a message."""
    return () if message.jinja else message.text.selectors


def remembered(call: NodeCall, memory: Memory) -> list[Turn]:
    """Return the earlier exchanges of a conversation that a model sees, and the messages of this run after them."""
    turns = latest_turns(call.job.turns, memory.turns)
    for message in memory.messages:
        if message.role != "system" and (text := call.text(message.text)).strip():
            turns.append(Turn(role=message.role, text=text))
    return turns


def latest_turns(turns: Sequence[Turn], exchanges: int | None) -> list[Turn]:
    """Return the last exchanges of a conversation; each begins with a message of the user. None stands for all."""
    if exchanges is None:
        return list(turns)
    starts = [number for number, turn in enumerate(turns) if turn.role == "user"]
    if len(starts) <= exchanges:
        return list(turns)
    return list(turns[starts[-exchanges] :]) if exchanges else []


def _context_text(value: Any) -> str:
    """Return texts and passages for a prompt, one below the other."""
    items = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    texts = (
        cast("Mapping[str, Any]", each).get("content", each) if isinstance(each, Mapping) else each for each in items
    )
    return "\n".join(as_text(each) for each in texts).strip()


class ClassifierParams(AskingParams):
    """A text and the classes that it may belong to."""

    query_variable_selector: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(description="The text to classify.")
    classes: list[str] = Field(min_length=2, description="The classes, in words, two or more.")
    instruction: Text = Field(default=Text(), description="What to consider in choosing; may be left out.")
    class_ids: Annotated[list[str], ADVANCED] = Field(
        default_factory=list[str], description="The values of class_id, one for each class; without them 1, 2, …"
    )


class QuestionClassifier(AskingNode[ClassifierParams]):
    """Classifies a text with a model, and follows the branch of its class."""

    type = "question-classifier"
    params_type = ClassifierParams
    hint = "A model chooses the class."
    gives = "class_name (string)"
    reports = {"class_id": T.STRING, "usage": T.OBJECT}
    ports_text = "port i is class i, counted from 0"
    example = {"query_variable_selector": ["question", "1"], "classes": ["About an order", "Anything else"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the class name."""
        return {"class_name": T.STRING}

    @property
    def ports(self) -> Sequence[str]:
        """Names of the classes."""
        return self.params.classes

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: empty and duplicate classes, duplicate ids, and fewer or more ids than classes."""
        yield from duplicate_faults("classes", self.params.classes)
        yield from duplicate_faults("class_ids", self.params.class_ids)
        if self.params.class_ids and len(self.params.class_ids) != len(self.params.classes):
            yield Fault("class_ids", f"needs an id for each of the {len(self.params.classes)} classes")
        yield from (
            Fault(f"classes[{n}]", "is empty") for n, name in enumerate(self.params.classes) if not name.strip()
        )

    @cached_property
    def _form(self) -> AnswerSchema:
        return routing_schema(TEXT_FORM, self.params.classes)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask the model for the class, and take its port."""
        instruction = "\n".join(filter(None, (CLASSIFY, call.text(self.params.instruction))))
        listed = "\n".join(f"- {name}" for name in self.params.classes)
        text = as_text(call.get(self.params.query_variable_selector))
        answer = await answer_of(
            self.params.reasoner(call, self.services),
            reading_task(call, f"{instruction}\n\nThe classes:\n{listed}", text, self._form),
        )
        stripped = answer.text.strip()
        chosen = stripped if stripped in self.params.classes else self._form.validate(answer.text)[PORT]
        number = self.params.classes.index(chosen)
        class_id = self.params.class_ids[number] if self.params.class_ids else str(number + 1)
        outputs = {"class_name": chosen, "class_id": class_id, "usage": answer.usage}
        return NodeResult(outputs, port=chosen, text=chosen)
