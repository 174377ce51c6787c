"""Schema of limits and replacements: retries, time limits, caches, budgets, and messages in place of results."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    WithJsonSchema,
    model_validator,
)

from operad.configs.schema.base import Amount, Count, Seconds, Spec
from operad.runtime.values import errors
from operad.runtime.values.errors import did_you_mean

_ALWAYS_FINAL = {"BudgetError", "MissingExtraError", "PausedError", "RunningLoopError"}

ERRORS: Mapping[str, type[Exception]] = {
    **{
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.OperadError) and name not in _ALWAYS_FINAL
    },
    **{
        name: getattr(builtins, name)
        for name in ("ConnectionError", "Exception", "OSError", "RuntimeError", "TimeoutError", "ValueError")
    },
}
"""The errors that `retry.on` may name."""


def _known_error(name: str) -> str:
    if name not in ERRORS:
        raise ValueError(f"there is no error {name!r}{did_you_mean(name, ERRORS)}; known: {', '.join(sorted(ERRORS))}")
    return name


ErrorName = Annotated[str, AfterValidator(_known_error), WithJsonSchema({"enum": sorted(ERRORS)})]


def _cache_kind(value: Any) -> str:
    return "definition" if isinstance(value, dict | CacheSpec) else "switch"


class RetrySpec(Spec):
    """Retries after an error, with growing delays."""

    attempts: Count = Field(default=3, description="Maximum number of attempts, including the first.")
    first_delay: Seconds = Field(default=1.0, description="Maximum delay before the second attempt, in seconds.")
    max_delay: Seconds = Field(default=60.0, description="Maximum delay before any attempt, in seconds.")
    on: list[ErrorName] | None = Field(
        default=None,
        min_length=1,
        description="Errors to retry; by default transient ones: no connection, 429, 5xx, timeouts.",
    )


def _attempts(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of attempts, or a mapping, not {value!r}"[:120])
    return {"attempts": value} if isinstance(value, int) else value


RetryRef = Annotated[RetrySpec, BeforeValidator(_attempts, json_schema_input_type=Count | RetrySpec)]
"""Retries: a number of attempts, or a mapping."""


class TimeoutSpec(Spec):
    """Time limits of an attempt."""

    run: Seconds | None = Field(default=None, description="Maximum seconds of an attempt.")
    idle: Seconds | None = Field(default=None, description="Maximum seconds without a token, tool call or other event.")


def _seconds(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of seconds, or a mapping with run and idle, not {value!r}"[:120])
    return {"run": value} if isinstance(value, int | float) else value


TimeoutRef = Annotated[TimeoutSpec, BeforeValidator(_seconds, json_schema_input_type=Seconds | TimeoutSpec)]
"""Time limits: seconds of an attempt, or a mapping."""


class CacheSpec(Spec):
    """Cache of messages: equal input is answered without a model call."""

    path: str | None = Field(
        default=None, min_length=1, description="SQLite file, relative to this file; by default in memory."
    )
    max_age: Seconds | None = Field(default=None, description="Lifetime of a message in seconds.")


CacheRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[CacheSpec, Tag("definition")], Discriminator(_cache_kind)
]


class ReplacementSpec(Spec):
    """Message in place of a rejected result: a text, or outputs."""

    text: str | None = Field(default=None, description="The text.")
    outputs: dict[str, JsonValue] | None = Field(default=None, description="Named outputs.")

    @model_validator(mode="after")
    def _something(self) -> ReplacementSpec:
        if self.text is None and self.outputs is None:
            raise ValueError("a message has a text, outputs, or both")
        return self


def _reject_kind(value: Any) -> str:
    return "effect" if isinstance(value, str) else "message"


RejectRef = Annotated[
    Annotated[Literal["stop", "continue"], Tag("effect")] | Annotated[ReplacementSpec, Tag("message")],
    Discriminator(_reject_kind),
]
"""Effect of a rejected result."""


class BudgetSpec(Spec):
    """Budget of one run, with all runs nested in it."""

    tokens: Count | None = Field(default=None, description="Prompt and completion tokens.")
    calls: Count | None = Field(default=None, description="Model calls.")
    cost: Amount | None = Field(default=None, description="US dollars; the models need a known price.")
    seconds: Seconds | None = Field(
        default=None, description="Seconds from the start, without those of questions to a person."
    )
