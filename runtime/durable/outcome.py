"""Outcome of an operator's work, as it is stored."""

from __future__ import annotations

from msgspec import Struct

from operad.runtime import events
from operad.runtime.reasoning.exchange import Exchange
from operad.runtime.values.message import Usage, WorkflowMessage


class Outcome(Struct, frozen=True):
    """Outcome of an operator's work: a message or an error.

    Attributes:
        message: The operator's message; None if it failed.
        error: The error that the operator raised, if any.
        usage: Tokens, calls and cost of the work.
        events: Events written during the work.
        traced: True if OpenTelemetry spans were written for the work.
        exchange: Conversation with the model that led to the message; None if it is not kept.
    """

    message: WorkflowMessage | None = None
    error: BaseException | None = None
    usage: Usage = Usage()
    events: tuple[events.Event, ...] = ()
    traced: bool = False
    exchange: Exchange | None = None
