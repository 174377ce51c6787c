"""Models, reasoners and their limits in a configuration file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from operad.configs.schema.base import Count, Seconds, Spec, named
from operad.runtime.models.turn import Price


class ReasonerSpec(Spec):
    """Reasoner of the experts."""

    type: Literal["MONO", "DUAL"] = Field(
        default="MONO",
        description="MONO: one model thinks, calls tools and answers. DUAL: a thinker instructs, an actor acts.",
    )
    max_rounds: int = Field(default=8, ge=1, description="How many turns a task may take at most.")


class LimitsSpec(Spec):
    """Limits of concurrent calls and of calls per minute."""

    concurrency: Count | None = Field(default=None, description="How many at once.")
    requests_per_minute: Count | None = Field(default=None, description="Calls of models begun in any 60 seconds.")
    tokens_per_minute: Count | None = Field(default=None, description="Tokens read and written in any 60 seconds.")


class ModelSpec(Spec):
    """Model: its name, or a mapping. By default, the model that the environment names."""

    name: str | None = Field(
        default=None, description="The model's name at its endpoint; `embedded` for the model inside this process."
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="The environment variable that holds the key.")
    temperature: float | None = Field(default=None, ge=0, description="How much chance is in what it says.")
    max_tokens: int | None = Field(default=None, ge=1, description="How many tokens an answer may have at most.")
    tools: Literal["native", "constrained"] | None = Field(
        default=None, description="constrained: for endpoints without tool calls; tools are chosen by JSON Schema."
    )
    structured: bool | None = Field(
        default=None,
        description="false: for endpoints without JSON Schemas; the form of an answer is asked for in words.",
    )
    vision: bool | None = Field(default=None, description="Whether it can be shown images.")
    timeout: Seconds | None = Field(default=None, description="Seconds that the endpoint may be silent.")
    total_timeout: Seconds | None = Field(
        default=None, description="Seconds that a call may take in all, its retries included; by default 600."
    )
    max_retries: int | None = Field(default=None, ge=0, description="How often a refused call is tried again.")
    limits: LimitsSpec | None = Field(default=None, description="What the endpoint lets one do.")
    price: Price | None = Field(
        default=None,
        description="What a million tokens cost, read and written, in US dollars; by default as in the files of prices.",
    )


ModelRef = Annotated[ModelSpec, BeforeValidator(named, json_schema_input_type=str | ModelSpec)]
"""A model, by its name or as a mapping."""


class MakerSpec(Spec):
    """A model that makes something other than text."""

    name: str = Field(min_length=1, description="The model's name at its endpoint.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="The environment variable that holds the key.")


class EmbeddingsSpec(MakerSpec):
    """A model that embeds passages and queries: its name, `embedded` for MiniLM inside this process, or a mapping."""
