"""The seam between Operad and models: what a vendor's client must do, and the values that cross it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from operad.runtime.models.messages import Message, Part, ToolCall
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.tools.tool import Tool
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.schema import AnswerSchema

FinishReason = Literal["stop", "length", "tools", "filter", "refusal", "error"]
"""Reason for the end of a turn: `length` if it was cut off at the maximum number of tokens, `filter` if a content filter
stopped it, `refusal` if the model refuses to answer."""

ToolChoice = Literal["auto", "none"]
"""Whether the model may call the tools that are described to it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Piece of a turn that is being written.

    Attributes:
        kind: What it is a piece of; `call` for the arguments of a tool call.
        text: The piece.
    """

    kind: Literal["text", "thinking", "call"]
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """Completed turn of a model.

    Attributes:
        message: The turn.
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


class ChatModel(Protocol):
    """A client of a model, for one event loop.

    Limits, budgets, prices, retries, timeouts and events are not its business: `Model` sees to them for every client.
    """

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        output: AnswerSchema | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[Delta | Completion, None]:
        """Yield pieces of the next turn as they arrive, and its completion at the end. Closing it ends the request.

        Args:
            messages: The conversation so far. Results stand in the message after their calls.
            tools: Tools that the model may call.
            tool_choice: ``none`` forbids calls in this turn; the tools are still described.
            output: Form of the answer, an object, which the vendor is to enforce; None for text.
            settings: Settings of the call.

        Raises:
            ModelError: The model cannot be reached, fails, or breaks off; `transient` if the same call may succeed later.
            RequestError: The vendor rejects this request.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


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
