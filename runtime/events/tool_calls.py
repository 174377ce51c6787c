"""Tool calls of an operator: as lines of text for evaluators, and as the place of questions that tools ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from operad.runtime.events.types import ToolCalled, ToolReturned
from operad.runtime.values.text import shortened

MOST_CALLS = 100
"""Maximum number of calls of an operator that are listed."""

LONGEST_PART = 200
"""Maximum number of characters of the arguments, and of the result, of a call."""

MORE_CALLS = "(further calls are not shown)"

CACHED = "(unknown: the result is from the cache)"


class ToolCalls:
    """Tool calls of an operator, and of the operators inside it, in the order in which they ended.

        calls = ToolCalls()
        calls.begin(ToolCalled(call_id="1", tool="search", arguments={"claim": "The moon has air."}))
        print(calls.end(ToolReturned(call_id="1", tool="search", result="It has none.", failed=False, seconds=0.1)))
        # search({"claim": "The moon has air."}): It has none.

    Args:
        cached: True if the operator's message was found in its cache, so that its calls are unknown.
    """

    def __init__(self, *, cached: bool = False) -> None:
        self.cached = cached
        self._lines = [CACHED] if cached else []
        self._arguments: dict[str, str] = {}

    @property
    def lines(self) -> tuple[str, ...]:
        """The first `MOST_CALLS` calls, each on one line with its arguments and its result or error."""
        return (*self._lines[:MOST_CALLS], MORE_CALLS) if len(self._lines) > MOST_CALLS else tuple(self._lines)

    def begin(self, event: ToolCalled) -> None:
        """Note the arguments of a call."""
        self._arguments[event.call_id] = _on_a_line(json.dumps(event.arguments, ensure_ascii=False, default=str))

    def end(self, event: ToolReturned) -> str:
        """Return the line of a call that has ended."""
        failed = " failed" * event.failed
        return f"{event.tool}({self._arguments.pop(event.call_id, '')}){failed}: {_on_a_line(event.result)}"

    def add(self, line: str) -> None:
        """Add the line of a call."""
        if len(self._lines) <= MOST_CALLS:
            self._lines.append(line)


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
    return f"{tool} {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"


def model_of_tool_call() -> object:
    """Return the model that makes the tool call for which the current code runs; None if no model makes it."""
    return _model.get()


@contextmanager
def in_tool_call(call: str, model: object = None) -> Generator[None, None, None]:
    """Run the block for a tool call of a model, to which the questions that it asks belong."""
    tokens = _current_call.set(call), _model.set(model)
    try:
        yield
    finally:
        _current_call.reset(tokens[0])
        _model.reset(tokens[1])


def _on_a_line(text: str) -> str:
    return shortened(" ".join(text[: 10 * LONGEST_PART].split()), LONGEST_PART)
