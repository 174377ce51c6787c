"""Nodes that ask a model: llm, question-classifier, parameter-extractor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field

from operad.operators.node import Fault, NodeCall, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.nodes.flow import doubles
from operad.operators.operator import PORT, routing_schema
from operad.operators.variables import WITHOUT_FILES, Accepts, Selector, Text, Values, VariableType, as_text, whole
from operad.runtime.reasoning.reasoner import ask
from operad.runtime.reasoning.task import Task
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.schema import Schema, validate

T = VariableType

CLASSIFY = "Decide which of these classes the text belongs to, by what it is about. Choose the one that fits best."
EXTRACT = "Read these parameters out of the text. Take what the text says, and nothing else."


def _task(
    call: NodeCall, instruction: str, text: str, files: Sequence[FileDescriptor] = (), schema: Schema | None = None
) -> Task:
    """What a node asks of the reasoner: its own text, not the goal of the workflow."""
    job = call.job
    return Task(
        job=Job(goal=text, id=job.id, session_id=job.session_id),
        instruction=instruction,
        output_schema=json.dumps(schema, ensure_ascii=False) if schema else "",
        lesson=call.lesson or "",
        files=tuple(files),
    )


class LLMParams(NodeParams):
    """What a model is told."""

    system: Text = Field(description='Its role and rules; "" for none. Variables as {{#id.variable#}}.')
    user: Annotated[Text, Accepts(tuple(T))] = Field(
        description="What it is asked; variables as {{#id.variable#}}. Files and images can be named here, and only here."
    )


class LLM(NodeOperator[LLMParams]):
    """Asks a language model."""

    type = "llm"
    asks_model = True
    params_type = LLMParams
    gives = "text (string)"
    example = {"system": "You translate into plain English.", "user": "Translate:\n{{#2.text#}}"}

    @property
    def instruction(self) -> str:
        """What it is told, for who judges the run."""
        return "\n".join(filter(None, (self.params.system, self.params.user)))

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """What it says."""
        return {"text": T.STRING}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Nothing to ask."""
        if not self.params.user.strip() and not self.params.system.strip():
            yield Fault("user", "is empty, and so is system: say what the model is to do")

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask."""
        files = [file for selector in self.params.user.selectors for file in _files(call.get(selector))]
        user, system = call.text(self.params.user), call.text(self.params.system)
        said = await ask(
            call.reasoner, _task(call, system if user.strip() else "", (user.strip() and user) or system, files)
        )
        text = whole(said)
        return NodeResult({"text": text}, text=text)


def _files(value: Any) -> list[FileDescriptor]:
    values = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    return [each for each in values if isinstance(each, FileDescriptor)]


class ClassifierParams(NodeParams):
    """A text and the classes that it may belong to."""

    query_variable_selector: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(
        description="The text to classify: [variable, node id]."
    )
    classes: list[str] = Field(min_length=2, description="The classes, in words, two or more.")
    instruction: Text = Field(default=Text(), description="What to heed in choosing; may be left out.")


class QuestionClassifier(NodeOperator[ClassifierParams]):
    """Has a model decide which class a text belongs to, and takes that way."""

    type = "question-classifier"
    asks_model = True
    params_type = ClassifierParams
    gives = "class_name (string)"
    ways = "port i is class i, counted from 0"
    example = {"query_variable_selector": ["question", "1"], "classes": ["About an order", "Anything else"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The class."""
        return {"class_name": T.STRING}

    @property
    def ports(self) -> Sequence[str]:
        """The classes."""
        return self.params.classes

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Classes without a name, and those that are there twice."""
        yield from doubles("classes", self.params.classes)
        yield from (
            Fault(f"classes[{n}]", "is empty") for n, name in enumerate(self.params.classes) if not name.strip()
        )

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask which class it is."""
        schema = routing_schema(None, "", self.params.classes)
        instruction = "\n".join(filter(None, (CLASSIFY, call.text(self.params.instruction))))
        listed = "\n".join(f"- {name}" for name in self.params.classes)
        text = as_text(call.get(self.params.query_variable_selector))
        said = await ask(call.reasoner, _task(call, f"{instruction}\n\nThe classes:\n{listed}", text, schema=schema))
        stripped = said.strip()
        chosen = stripped if stripped in self.params.classes else validate(schema, said)[PORT]
        return NodeResult({"class_name": chosen}, port=chosen, text=chosen)


class Parameter(NamedTuple):
    """Something to read out of a text."""

    description: Annotated[str, Field(description="What it is, in words.")]
    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]


class ExtractorParams(NodeParams):
    """A text and what to read out of it."""

    query: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(description="The text: [variable, node id].")
    parameters: list[Parameter] = Field(
        min_length=1,
        description="What to read out, [[description, name, type], …]; types are string, number, boolean, "
        "array[string], array[number], array[object].",
    )
    instruction: Text = Field(description="What to heed; variables as {{#id.variable#}}.")


class ParameterExtractor(NodeOperator[ExtractorParams]):
    """Has a model read named values out of a text."""

    type = "parameter-extractor"
    asks_model = True
    params_type = ExtractorParams
    gives = "each parameter, by its name"
    example = {
        "query": ["text", "2"],
        "parameters": [["The sum in euros", "total", "number"]],
        "instruction": "Read the invoice.",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The parameters."""
        return {parameter.name: parameter.type for parameter in self.params.parameters}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Names that are given twice, and files, which no model can write."""
        yield from doubles("parameters", [parameter.name for parameter in self.params.parameters])
        for number, parameter in enumerate(self.params.parameters):
            if parameter.type.is_file:
                yield Fault(
                    f"parameters[{number}]", f"{parameter.name!r} is {parameter.type.value}, which no text holds"
                )

    async def compute(self, call: NodeCall) -> Values:
        """Ask for the values."""
        properties = {
            name: {**kind.json_schema(), "description": description}
            for description, name, kind in self.params.parameters
        }
        schema: Schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        instruction = "\n".join(filter(None, (EXTRACT, call.text(self.params.instruction))))
        text = as_text(call.get(self.params.query))
        said = await ask(call.reasoner, _task(call, instruction, text, schema=schema))
        return whole(validate(schema, said))
