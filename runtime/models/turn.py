"""Turns of a model: their pieces, what they end with, and what they cost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from operad.runtime.models.messages import Message, Part, ToolCall
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.value import Value

FinishReason = Literal["stop", "length", "tools", "filter", "refusal", "error"]
"""Reason for the end of a turn: `length` if it was cut off at the maximum number of tokens, `filter` if a content filter
stopped it, `refusal` if the model refuses to answer."""

ToolChoice = Literal["auto", "none"]
"""Permission to call the tools that are described to the model: ``none`` forbids it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Piece of a turn that is being written.

    Attributes:
        kind: What it is a piece of; `call` for the arguments of a tool call.
    """

    kind: Literal["text", "thinking", "call"]
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """Completed turn of a model.

    Attributes:
        finish_reason: Reason for its end.
        usage: Tokens; a client need not fill in calls, seconds and cost.
        detail: The vendor's words for the reason, such as those of a refusal; may be empty.
        dropped: Settings that this model does not take, and that were left out, each with the reason.
    """

    message: Message
    finish_reason: FinishReason = "stop"
    usage: Usage = NO_USAGE
    detail: str = ""
    dropped: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """Text of the turn, without thinking; may be empty if tools are called."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        return self.message.tool_calls


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


def with_new_ids(message: Message, used: Collection[str]) -> Message:
    """Return a turn with another id for each tool call whose id is used, in the turn or before it.

    Some endpoints repeat ids, or send none; each result must refer to one call.
    """
    seen = set(used)
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            number, call_id = 1, part.id
            while call_id in seen:
                number += 1
                call_id = f"{part.id}_{number}"
            seen.add(call_id)
            part = part if call_id == part.id else part.model_copy(update={"id": call_id})
        parts.append(part)
    return message.with_parts(parts)
