"""Settings of a call to a model, in terms that no vendor defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue

from operad.runtime.values.value import Value

ThinkingLevel = Literal["off", "low", "medium", "high"]
"""Effort of reasoning before an answer."""


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


StopTexts = Annotated[tuple[str, ...], BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...])]
"""Texts that end an answer; a single text is one of them."""


class ModelSettings(Value):
    """Settings of a call to a model; None leaves a setting to the model or its vendor.

        brief = ModelSettings(thinking="low", max_tokens=500)
        Workflow(Operator("Summarise.", settings=brief) >> Operator("Check.", thinking="high"))

    Attributes:
        thinking: Effort of reasoning before the answer.
        temperature: Sampling temperature; 0 selects the most likely token.
        top_p: Share of the probability from which tokens are sampled.
        seed: Seed of sampling, where the vendor has one.
        stop: Texts that end the answer; a single text is one of them.
        max_tokens: Maximum number of tokens of an answer, including reasoning.
        parameters: Further fields of each request, sent unchanged.
    """

    thinking: ThinkingLevel | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    stop: StopTexts = ()
    max_tokens: int | None = Field(default=None, ge=1)
    parameters: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])

    def over(self, other: ModelSettings) -> ModelSettings:
        """Return these settings, completed by others where these have none."""
        if self == NO_SETTINGS:
            return other
        given = {name: value for name in _SINGLE if (value := getattr(self, name)) not in (None, ())}
        return other.model_copy(update={**given, "parameters": {**other.parameters, **self.parameters}})


_SINGLE = ("thinking", "temperature", "top_p", "seed", "stop", "max_tokens")

NO_SETTINGS = ModelSettings()
"""Settings that leave everything to the model."""
