"""Models, reasoners and their limits in a configuration file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from operad.configs.schema.base import Count, Seconds, Spec, named
from operad.runtime.models.settings import StopTexts, ThinkingLevel
from operad.runtime.models.turn import Price
from operad.runtime.reasoning.reasoner import MAX_TURNS


class ReasonerSpec(Spec):
    """Reasoner of the experts."""

    type: Literal["MONO", "DUAL"] = Field(
        default="MONO",
        description="MONO: one model thinks, calls tools and answers. DUAL: a thinker gives instructions, an actor carries them out.",
    )
    max_rounds: int = Field(
        default=MAX_TURNS,
        ge=1,
        description="Maximum number of turns of a task, in which the model calls tools or answers.",
    )


class LimitsSpec(Spec):
    """Limits of concurrent calls and of calls per minute."""

    concurrency: Count | None = Field(default=None, description="Maximum number at once.")
    requests_per_minute: Count | None = Field(default=None, description="Model calls started in any 60 seconds.")
    tokens_per_minute: Count | None = Field(default=None, description="Prompt and completion tokens in any 60 seconds.")


class ModelSpec(Spec):
    """Model: its name, or a mapping. By default, the model that the environment names."""

    name: str | None = Field(
        default=None,
        min_length=1,
        description="The model's name at its endpoint, or with its vendor: `mistral:…`; `embedded` for the model inside this process.",
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str | None = Field(
        default=None, description="The environment variable that holds the key; by default that of the vendor."
    )
    temperature: float | None = Field(
        default=None, ge=0, description="Sampling temperature; 0 for the most likely answer."
    )
    thinking: ThinkingLevel | None = Field(default=None, description="Effort of reasoning before an answer.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Share of the probability from which tokens are sampled."
    )
    seed: int | None = Field(default=None, description="Seed of sampling.")
    stop: StopTexts | None = Field(default=None, description="Texts that end an answer, or one text.")
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum number of tokens of an answer.")
    parameters: dict[str, JsonValue] | None = Field(
        default=None, description="Further fields of each request, sent unchanged."
    )
    tools: Literal["native", "constrained"] | None = Field(
        default=None,
        description="constrained: for endpoints without tool calls; the model chooses tools by JSON Schema. By default, what is known of the model, as for `structured` and `vision`.",
    )
    structured: bool | None = Field(
        default=None,
        description="false: for endpoints without JSON Schemas; the prompt describes the form of the answer.",
    )
    vision: bool | None = Field(default=None, description="true: the model accepts images; false: it is not shown any.")
    api: Literal["chat-completions", "responses"] | None = Field(
        default=None,
        description="The protocol; by default responses at OpenAI and Azure OpenAI, chat-completions elsewhere.",
    )
    timeout: Seconds | None = Field(default=None, description="Maximum seconds without data from the endpoint.")
    total_timeout: Seconds | None = Field(
        default=None, description="Maximum seconds of a call, including its retries; by default 600."
    )
    max_retries: int | None = Field(default=None, ge=0, description="Maximum number of retries of a refused call.")
    limits: LimitsSpec | None = Field(default=None, description="Limits of the endpoint.")
    price: Price | None = Field(
        default=None,
        description="US dollars per million tokens; by default from the price files.",
    )


ModelRef = Annotated[ModelSpec, BeforeValidator(named, json_schema_input_type=str | ModelSpec)]
"""A model, by its name or as a mapping."""


class MakerSpec(Spec):
    """A model that makes something other than text."""

    name: str = Field(min_length=1, description="The model's name at its endpoint, or with its vendor: `mistral:…`.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str | None = Field(
        default=None, description="The environment variable that holds the key; by default that of the vendor."
    )


class EmbeddingsSpec(MakerSpec):
    """A model that embeds passages and queries: its name, `embedded` for MiniLM inside this process, or a mapping."""
