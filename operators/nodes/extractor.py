"""Node parameter-extractor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from operad.operators.node import ADVANCED, Fault, NodeCall, TypeOf
from operad.operators.nodes.flow import duplicate_faults
from operad.operators.nodes.models import AskingNode, AskingParams, answer_of, reading_task
from operad.operators.variables import WITHOUT_FILES, Accepts, Selector, Text, Values, VariableType, as_text
from operad.runtime.events import FellBack, emit
from operad.runtime.values.errors import AnswerError, describe, did_you_mean
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.schema import AnswerSchema, object_schema
from operad.runtime.values.text import whole

T = VariableType

EXTRACT = "Read these parameters out of the text. Take what the text says, and nothing else."


class Parameter(NamedTuple):
    """Something to read out of a text."""

    description: Annotated[str, Field(description="What it is, in words.")]
    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]


class ExtractorParams(AskingParams):
    """A text and what to read out of it."""

    query: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(description="The text.")
    parameters: list[Parameter] = Field(
        min_length=1,
        description="What to read out; types are string, number, boolean, array[string], array[number], array[object].",
    )
    instruction: Text = Field(description="What to consider; variables as {{#id.variable#}}.")
    optional: Annotated[list[str], ADVANCED] = Field(
        default_factory=list[str],
        description='Names of parameters that the text may lack, which are empty then: "", 0, false or [].',
    )
    options: Annotated[dict[str, list[str]], ADVANCED] = Field(
        default_factory=dict[str, list[str]], description="By name of a string parameter, the texts that it may be."
    )
    on_mismatch: Annotated[Literal["fail", "empty"], ADVANCED] = Field(
        default="fail",
        description="What an answer of the model that does not fit does: fails the node, or leaves all parameters empty. "
        "With empty, __is_success (1 or 0), __reason and __usage are variables, too.",
    )


class ParameterExtractor(AskingNode[ExtractorParams]):
    """Extracts named values from a text with a model."""

    type = "parameter-extractor"
    params_type = ExtractorParams
    hint = "A model reads the values in the text; types: string, number, boolean, array[string], array[number], array[object]."
    gives = "each parameter, by its name"
    example = {
        "query": ["text", "2"],
        "parameters": [["The sum in euros", "total", "number"]],
        "instruction": "Read the invoice.",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the parameters, and of the report on success if there is one."""
        kinds = {parameter.name: parameter.type for parameter in self.params.parameters}
        return kinds if self.params.on_mismatch == "fail" else {**kinds, **REPORT}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate and unknown names, options of other types than texts, and files, which models cannot write."""
        kinds = {parameter.name: parameter.type for parameter in self.params.parameters}
        yield from duplicate_faults("parameters", [parameter.name for parameter in self.params.parameters])
        for where, names in (("optional", self.params.optional), ("options", self.params.options)):
            for name in names:
                if name not in kinds:
                    yield Fault(where, f"there is no parameter {name!r}{did_you_mean(name, kinds)}")
        for name, texts in self.params.options.items():
            if kinds.get(name, T.STRING) is not T.STRING:
                yield Fault("options", f"{name!r} is {kinds[name].value}; only a string has options")
            elif not texts:
                yield Fault("options", f"{name!r} has no options; list some, or leave it out")
        for number, parameter in enumerate(self.params.parameters):
            if parameter.type.is_file:
                yield Fault(
                    f"parameters[{number}]", f"{parameter.name!r} is {parameter.type.value}, which no text holds"
                )

    @cached_property
    def _form(self) -> AnswerSchema:
        properties = {each.name: self._schema_of(each) for each in self.params.parameters}
        required = [name for name in properties if name not in self.params.optional]
        return AnswerSchema.unchecked({**object_schema(properties), "required": required})

    async def compute(self, call: NodeCall) -> Values:
        """Ask the model for the values."""
        params = self.params
        lacking = (
            f"Give null for what the text lacks of these: {', '.join(params.optional)}." if params.optional else ""
        )
        instruction = "\n".join(filter(None, (EXTRACT, lacking, call.text(params.instruction))))
        text = as_text(call.get(params.query))
        task = reading_task(call, instruction, text, self._form)
        try:
            answer = await answer_of(params.reasoner(call, self.services), task)
            values: dict[str, Any] = whole(self._form.validate(answer.text))
            report: Values = {IS_SUCCESS: 1, REASON: None, USAGE: answer.usage}
        except AnswerError as error:
            if params.on_mismatch == "fail":
                raise
            emit(FellBack(error=describe(error), to="empty values"))
            values, report = {}, {IS_SUCCESS: 0, REASON: str(error), USAGE: None}
        found: dict[str, Any] = {
            each.name: _empty(each.type) if values.get(each.name) is None else values[each.name]
            for each in params.parameters
        }
        return found if params.on_mismatch == "fail" else {**found, **report}

    def _schema_of(self, parameter: Parameter) -> Schema:
        """Return the JSON Schema of a parameter; one that is optional may be null."""
        description, name, kind = parameter
        options = self.params.options.get(name)
        schema = kind.json_schema() | ({"enum": options} if options else {})
        if name not in self.params.optional:
            return {**schema, "description": description}
        return {"anyOf": [schema, {"type": "null"}], "description": description}


IS_SUCCESS, REASON, USAGE = "__is_success", "__reason", "__usage"
REPORT: Mapping[str, VariableType] = {IS_SUCCESS: T.NUMBER, REASON: T.STRING, USAGE: T.OBJECT}
"""Variables of an extractor that goes on after an answer that does not fit, with the names that Dify gives them."""


def _empty(kind: VariableType) -> Any:
    """Return the value of a parameter that the text lacks."""
    match kind:
        case T.STRING:
            return ""
        case T.NUMBER:
            return 0
        case T.BOOLEAN:
            return False
        case T.OBJECT:
            return {}
        case _:
            return None if kind is T.ANY else []
