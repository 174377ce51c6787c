"""Trace of an operator: what it did for its message, for evaluators and for later rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from operad.runtime.events.types import CacheHit, Event, EvidenceCut, KnowledgeRetrieved, ToolCalled, ToolReturned
from operad.runtime.values.step_record import ToolUse

MOST_CALLS = 100
"""Maximum number of tool calls of an operator that are kept."""

MORE_CALLS = f"only the first {MOST_CALLS} are kept"

CACHED = "the result is from the cache"


class Trace:
    """Trace of an attempt of an operator.

        trace = Trace()
        trace.note(ToolCalled(call_id="1", tool="search", arguments={"claim": "The moon has air."}))
        trace.note(ToolReturned(call_id="1", tool="search", result="It has none.", failed=False, seconds=0.1))
        print(*trace.calls)  # search({"claim": "The moon has air."}): It has none.

    Attributes:
        calls: Tool calls of the operator, in the order in which they ended; the first `MOST_CALLS`.
        calls_missing: Why calls are missing; empty if all are there.
        passages: Source and text of the passages that the operator retrieved.
        cut: For an evaluator: ids of the operators of which it was shown a part only.
        exchange: Conversation with the model that gave the answer, an `Exchange`; None if it is not kept.
        inner: Outcomes of the workflows that ran inside the operator, by the last step of their paths.
    """

    __slots__ = ("_arguments", "calls", "calls_missing", "cut", "exchange", "inner", "passages")

    def __init__(self) -> None:
        self.calls: list[ToolUse] = []
        self.calls_missing = ""
        self.passages: tuple[tuple[str, str], ...] = ()
        self.cut: tuple[str, ...] = ()
        self.exchange: Any = None
        self.inner: dict[str, Any] = {}
        self._arguments: dict[str, str] = {}

    def note(self, event: Event) -> None:
        """Note what an event of the operator tells."""
        if isinstance(event, ToolCalled):
            self._arguments[event.call_id] = json.dumps(event.arguments, ensure_ascii=False, default=str)
        elif isinstance(event, ToolReturned):
            arguments = self._arguments.pop(event.call_id, "")
            if len(self.calls) == MOST_CALLS:
                self.calls_missing = MORE_CALLS
                return
            use = ToolUse(tool=event.tool, arguments=arguments, result=event.result, failed=event.failed)
            self.calls.append(use)
        elif isinstance(event, KnowledgeRetrieved):
            self.passages += tuple(zip(event.sources, event.texts, strict=False))
        elif isinstance(event, EvidenceCut):
            self.cut = tuple(event.operators)
        elif isinstance(event, CacheHit):
            self.calls_missing = CACHED


NOTED = (ToolCalled, ToolReturned, KnowledgeRetrieved, EvidenceCut, CacheHit)
"""Events that a trace notes."""

NO_INNER: Mapping[str, Any] = {}
"""No outcomes of workflows inside an operator."""
