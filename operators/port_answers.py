"""Answers of a model as messages of an operator, with or without a port."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import outputs_of
from operad.runtime.values.schema import AnswerSchema, object_schema

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
