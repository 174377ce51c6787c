"""Form of an answer that a client of the OpenAI protocols asks for: it is compared with the answer of the expert."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from operad.runtime.values.errors import InvalidError, OperadError
from operad.runtime.values.json_schema import check_schema
from operad.runtime.values.schema import AnswerSchema
from operad.server.api.served_run import ServedRun
from operad.server.http.problems import RefusedError


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(schema)
    except InvalidError as error:
        raise ValueError("; ".join(issue.message for issue in error.issues)) from error
    return schema


JsonSchema = Annotated[dict[str, Any], AfterValidator(_checked)]


class NamedSchema(BaseModel):
    """A JSON Schema; its name has no effect."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    schema_: JsonSchema = Field(alias="schema")


def _required(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": "object"}}}


_WITH_SCHEMA: dict[str, Any] = {
    "if": {"properties": {"type": {"const": "json_schema"}}},
    "then": {"anyOf": [_required("json_schema"), _required("schema")]},
}


class AnswerFormat(BaseModel):
    """Any text, a JSON object, or JSON that fits a JSON Schema."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, json_schema_extra=_WITH_SCHEMA)

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = Field(default=None, description="The schema, in a chat completion.")
    schema_: JsonSchema | None = Field(default=None, alias="schema", description="The schema, in a response.")

    def faults(self, param: str) -> Iterator[tuple[str, str]]:
        """Yield a fault if the schema is missing."""
        if self.type == "json_schema" and self.wanted is None:
            yield f"{param}.{'schema' if '.' in param else 'json_schema'}", "is missing; give the JSON Schema"

    @property
    def wanted(self) -> dict[str, Any] | None:
        """The JSON Schema; None for any text."""
        if self.type == "json_schema":
            return self.json_schema.schema_ if self.json_schema else self.schema_
        return {"type": "object"} if self.type == "json_object" else None


def form_of(asked: AnswerFormat | None) -> AnswerSchema | None:
    """Return the form that an answer has to fit; None for any text."""
    schema = asked.wanted if asked else None
    return None if schema is None else AnswerSchema.unchecked(schema)


def check_answer(run: ServedRun, form: AnswerSchema | None) -> None:
    """Check the text of an ended run against the form that its client asked for.

    Raises:
        RefusedError: It does not fit.
    """
    if form is None:
        return
    try:
        faults = form.faults(json.loads(run.text))
    except ValueError:
        faults = ["it is not JSON"]
    except OperadError as error:
        faults = [str(error)]
    if faults:
        message = f"run {run.id!r} has ended, but its answer does not fit the form that the request asks for"
        raise RefusedError(502, f"{message}: {'; '.join(faults)}")
