"""Answers of an operator's predecessors, in the messages that it gets; for a map's body, the item."""

from __future__ import annotations

from collections.abc import Sequence

from operad.runtime.events import Scope
from operad.runtime.values.message import WorkflowMessage


def answers_by_id(messages: Sequence[WorkflowMessage]) -> dict[str, WorkflowMessage]:
    """Return the messages of predecessors by id; of several with one id, the first."""
    answers: dict[str, WorkflowMessage] = {}
    for message in messages:
        answers.setdefault(message.operator_id, message)
    return answers


def item_in(messages: Sequence[WorkflowMessage], scope: Scope | None) -> WorkflowMessage | None:
    """Return the message with which the map around this workflow passes its item; None if there is no such map."""
    return next((message for message in messages if _is_item_around(message, scope)), None)


def is_item(message: WorkflowMessage) -> bool:
    """Return True for a message with which a map passes an item to its body."""
    return message.over is not None


def _is_item_around(message: WorkflowMessage, scope: Scope | None) -> bool:
    """Return True if a message passes an item of a map that contains the current scope."""
    return is_item(message) and scope is not None and scope.is_inside(message.operator_id)
