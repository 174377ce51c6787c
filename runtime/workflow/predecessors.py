"""Answers of an operator's predecessors, in the messages that it gets; for a map's body, the item."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from operad.runtime.events import Scope
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus


def answers_by_id(
    messages: Sequence[WorkflowMessage], scope: Scope | None, before: Sequence[str] = ()
) -> dict[str, WorkflowMessage]:
    """Return the messages of predecessors by id; see `before_own`."""
    answers: dict[str, WorkflowMessage] = {}
    for message in before_own(messages, scope, before):
        answers.setdefault(message.operator_id, message)
    return answers


def item_in(messages: Sequence[WorkflowMessage], scope: Scope | None) -> WorkflowMessage | None:
    """Return the message with which the map around this workflow passes its item; None if there is no such map."""
    return next((message for message in messages if _is_item_around(message, scope)), None)


def before_own(
    messages: Sequence[WorkflowMessage], scope: Scope | None, before: Sequence[str] = ()
) -> Sequence[WorkflowMessage]:
    """Return the messages of predecessors, without the operator's own earlier messages and the verdicts on them.

    A blamed operator, or the first operators of a blamed workflow or map, get their earlier messages, each followed by
    the verdict on it, after the messages of their predecessors.

    Args:
        messages: The messages that the operator gets.
        scope: The operator's context in the run.
        before: Ids of the predecessors; by default those in the run.
    """
    for index, (message, verdict) in enumerate(pairwise(messages)):
        if scope is not None and verdict.status is not WorkflowStatus.SUCCESS and not is_item(message):
            run: Any = scope.run  # a `Run`
            before = before or run.build.before.get(scope.operator_id, ())
            if message.operator_id not in before and scope.is_inside(message.operator_id):
                return messages[:index]
    return messages


def is_item(message: WorkflowMessage) -> bool:
    """Return True for a message with which a map passes an item to its body."""
    return message.over is not None


def _is_item_around(message: WorkflowMessage, scope: Scope | None) -> bool:
    """Return True if a message passes an item of a map that contains the current scope."""
    return is_item(message) and scope is not None and scope.is_inside(message.operator_id)
