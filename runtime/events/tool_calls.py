"""Place of a tool call, to which the questions that its tool asks belong."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_current_call: ContextVar[str] = ContextVar("operad_tool_call", default="")
_model: ContextVar[object] = ContextVar("operad_tool_call_model", default=None)


def current_tool_call() -> str:
    """Return the tool call for which the current code runs, as `tool_call_of` names it; empty outside of one."""
    return _current_call.get()


def tool_call_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of a call: the tool, and a digest of the arguments and of the call around it.

    A model that is asked again after a restart may order its calls otherwise, and endpoints give them other ids; so a
    call is known by its content.
    """
    text = json.dumps([_current_call.get(), tool, dict(arguments)], sort_keys=True, default=str)
    return f"{tool}:{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"


def model_of_tool_call() -> object:
    """Return the model that makes the tool call for which the current code runs; None if no model makes it."""
    return _model.get()


def is_cancelled() -> bool:
    """Return True if the current task is being cancelled; False if only a task that a tool awaits was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def in_tool_call(call: str, model: object = None) -> Generator[None, None, None]:
    """Run the block for a tool call of a model, to which the questions that it asks belong."""
    tokens = _current_call.set(call), _model.set(model)
    try:
        yield
    finally:
        _current_call.reset(tokens[0])
        _model.reset(tokens[1])
