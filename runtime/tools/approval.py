"""Approval: a person is asked before a tool runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from operad.runtime.events import current_scope
from operad.runtime.events.interrupts import interrupt
from operad.runtime.values.errors import InputError, ToolError

ANSWERS = ("yes", "no", "always")
"""The permitted answers; ``always`` allows all calls of the tool in the rest of the run."""


async def approve(tool: str, arguments: Mapping[str, Any]) -> None:
    """Ask a person to allow a call of a tool, and return when the person does.

    Args:
        tool: Name of the tool.
        arguments: Arguments of the call, which are shown to the person.

    Raises:
        InputError: No run is in progress.
        ToolError: The person refuses.
    """
    scope = current_scope()
    if scope is None:
        raise InputError(
            f"tool {tool!r} asks a person before it runs, and no run is in progress here; call it in an operator"
        )
    allowed = scope.run.questions.allowed
    if tool in allowed:
        return
    arguments_text = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    question = f"Allow the tool {tool} with {arguments_text}? Answer yes, no or always (for the rest of this run)."
    answer = await interrupt(question, {"enum": list(ANSWERS)})
    if answer == "always":
        allowed.add(tool)
    elif answer != "yes":
        raise ToolError(f"a person did not allow {tool} with {arguments_text}")
