"""The seam between Operad and models: what a client of a vendor must do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from operad.runtime.models.messages import Message
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.models.turn import Completion, Delta, ToolChoice
from operad.runtime.tools.tool import Tool
from operad.runtime.values.schema import AnswerSchema


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
