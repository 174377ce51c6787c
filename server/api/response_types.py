"""Types of the responses API: requests, inputs and answers as OpenAI's protocol names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from operad.server.api.conversation import WITH_TEXT
from operad.server.api.plain import RUN_ID
from operad.server.api.spoken import RunNote

PREFIX = "resp_"
"""Prefix of the id of a response; the id of its run follows."""

WITHOUT_EFFECT = frozenset(
    "max_output_tokens parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning "
    "safety_identifier service_tier stream_options temperature tool_choice top_p truncation user".split()
)
"""Parameters that are accepted and ignored: models are configured in the files."""

UNABLE = {
    "background": "responses are synchronous; POST /runs starts a run in the background",
    "context_management": "the expert's own `memory` keeps a conversation within its budget",
    "conversation": "to continue a conversation, send previous_response_id",
    "image": "experts give text",
    "include": "nothing more is given out",
    "max_tool_calls": "experts call tools of their own",
    "metadata": "it is not kept here",
    "moderation": "nothing is moderated here",
    "prompt": "prompts are the experts' own",
    "tools": "experts have tools of their own and call none of yours",
    "top_logprobs": "probabilities are not known here",
}
"""Parameters that are refused, each with the reason."""


class InputText(BaseModel):
    """A piece of a message: text."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: Literal["input_text", "output_text"]
    text: str


class OtherInput(BaseModel):
    """A piece of a message, or of the input, that is neither text nor message, and is refused."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: str


class InputMessage(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputText | SkipJsonSchema[OtherInput]] = Field(
        description="Text of the message, or a list of its parts."
    )


def _add_ignored(schema: dict[str, Any]) -> None:
    """Add the ignored parameters to the JSON Schema."""
    text_parameter: dict[str, Any] = {"type": "object", "properties": {"format": {"enum": [None, {"type": "text"}]}}}
    ignored: dict[str, Any] = {name: {} for name in sorted(WITHOUT_EFFECT)}
    schema["properties"] |= ignored | {"text": text_parameter}
    schema["additionalProperties"] = False


class ResponseRequest(BaseModel):
    """A request for a response."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, json_schema_extra=_add_ignored)

    model: str = Field(description="Name of the expert; GET /v1/models lists them.")
    input: (
        Annotated[str, Field(json_schema_extra={"pattern": r"\S"})]
        | Annotated[
            list[InputMessage | SkipJsonSchema[OtherInput]],
            Field(json_schema_extra={"contains": WITH_TEXT}),
        ]
    ) = Field(description="A text; or messages, of which the last user message is the task.")
    instructions: str | None = Field(default=None, description="Background information, for this response only.")
    previous_response_id: str | None = Field(
        default=None, max_length=200, description="Id of the response that this one continues."
    )
    store: StrictBool | None = Field(
        default=None, description="True to keep the response, so that it can be fetched and continued later."
    )
    stream: StrictBool | None = Field(default=None, description="True to send the response as events.")


class OutputText(BaseModel):
    """The text of a response."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class OutputMessage(BaseModel):
    """The message of a response."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed", "in_progress"]
    content: list[OutputText]


class Failure(BaseModel):
    """The reason why there is no message."""

    code: str
    message: str


class InputDetails(BaseModel):
    """Details of the input tokens."""

    cached_tokens: int


class OutputDetails(BaseModel):
    """Details of the output tokens."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """The tokens of all model calls of the run."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseView(BaseModel):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "failed", "in_progress", "cancelled"]
    error: Failure | None
    incomplete_details: None
    instructions: str | None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    previous_response_id: str | None
    temperature: None
    tool_choice: Literal["auto"]
    tools: list[Any]
    top_p: None
    usage: ResponseUsage | None
    operad: RunNote


class Deleted(BaseModel):
    """A deleted response."""

    id: str
    object: Literal["response"]
    deleted: bool


ResponseId = Annotated[
    str, Path(description="The response's id.", max_length=200, pattern=f"^{PREFIX}{RUN_ID.removeprefix('^')}")
]
