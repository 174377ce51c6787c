"""Answers of a model as messages of an operator, with or without a port."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import outputs_of
from operad.runtime.values.schema import Schema, validate

PORT = "port"
"""Key of an answer for the port that is taken."""

ANSWER = "answer"
"""Key for the rest of an answer with a port, if the rest is not an object."""


def message_without_port(has_schema: bool, operator_id: str, job_id: str, text: str) -> WorkflowMessage:
    """Return the message for an answer without a port; with a schema, its JSON becomes the outputs."""
    outputs, answer = _outputs_from(text) if has_schema else ({}, None)
    return WorkflowMessage.of_text(text, operator_id, job_id, outputs=outputs, answer=answer)


def message_with_port(
    schema: Schema | None, routed: Schema, operator_id: str, job_id: str, text: str
) -> WorkflowMessage:
    """Return the message for an answer with a port: as JSON, or the name of the port alone.

    Args:
        schema: JSON Schema of the answer without the port; None for text.
        routed: JSON Schema of the answer with the port; see `routing_schema`.
        operator_id: The operator.
        job_id: The job.
        text: The answer.
    """
    ports = routed["properties"][PORT]["enum"]
    one_word = schema is None and text.strip() in ports
    answer: dict[str, Any] = {PORT: text.strip()} if one_word else validate(routed, text)
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


def _outputs_from(text: str) -> tuple[dict[str, Any], str | None]:
    try:
        return outputs_of(json.loads(text))
    except (ValueError, RecursionError):  # with a description as schema, the answer need not be JSON
        return {}, None
