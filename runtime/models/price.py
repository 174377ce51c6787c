"""Price of a model's tokens."""

from __future__ import annotations

from pydantic import Field

from operad.runtime.values.message import Usage
from operad.runtime.values.value import Value


class Price(Value):
    """Prices of a model, in US dollars.

        Model(name="llama-4", base_url="http://gpu-1:8000/v1", price=Price(prompt=0.5, completion=1.5))

    Attributes:
        prompt: US dollars per million prompt tokens.
        completion: US dollars per million completion tokens, including those of reasoning.
        cached: US dollars per million prompt tokens that the vendor had cached; None if they cost as much as others.
        cache_written: US dollars per million prompt tokens that the vendor wrote into its cache; None as for `cached`.
    """

    prompt: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_written: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def of(self, usage: Usage) -> float:
        """Return the cost of a call, in US dollars."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = min(usage.cache_written_tokens, usage.prompt_tokens - cached)
        parts = [
            (usage.prompt_tokens - cached - written, self.prompt),
            (cached, self.prompt if self.cached is None else self.cached),
            (written, self.prompt if self.cache_written is None else self.cache_written),
            (usage.completion_tokens, self.completion),
        ]
        return sum(tokens * price for tokens, price in parts) / 1e6
