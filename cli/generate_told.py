"""Events of a design as `operad generate` prints them: prompts of the stages, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from operad.configs.generation import Design
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.graph_json import workflow_of
from operad.runtime import events
from operad.runtime.values.message import WorkflowMessage

PAPER_TOKENS = 8_000
"""Tokens that the paper's prompt takes for an attempt, roughly (Chat2Workflow)."""


class _Stage(NamedTuple):
    """Prompt of a stage, and its cost.

    Attributes:
        name: The stage, with its round.
        parts: How many tokens each part of its prompt takes, roughly; empty where it does not tell.
        used: Tokens that the endpoint counted, all its questions together.
    """

    name: str
    parts: Mapping[str, int]
    used: int


class Told:
    """A listener of a design's run: what the stages were told, what it cost, what was found and what came of it.

    Attributes:
        drafted: The latest message with a workflow.
    """

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._found: dict[str, None] = {}
        self.drafted: WorkflowMessage | None = None

    def hear(self, event: events.Event) -> None:
        """Take in one event."""
        if not isinstance(event, events.OperatorFinished):
            return
        outputs, used = event.message.outputs, event.message.usage.tokens
        told = {} if "stage" in outputs else fields_of(outputs.get("prompt"))  # a verdict repeats what it judges
        if told or used:
            self._stages.append(_Stage(f"{event.operator_id}, round {event.round}", told, used))
        if "stage" in outputs:
            self._found |= dict.fromkeys(map(str, outputs.get("findings") or ()))
        if workflow_of(outputs) is not None:
            self.drafted = event.message

    def corrected(self, design: Design) -> list[str]:
        """Return the findings that are neither open nor contested; each once."""
        found, self._found = list(self._found), {}
        open_ = [*design.findings, *design.warnings]
        return [each for each in found if not any(each in other for other in open_)]

    def lines(self) -> Iterator[str]:
        """A line for each stage, and one for all of them."""
        for name, parts, used in self._stages:
            listed = ", ".join(f"{part} {size:,}" for part, size in parts.items())
            told = f"told about {sum(parts.values()):,} tokens ({listed}), " if parts else ""
            yield f"{name}: {told}used {used:,}"
        told = sum(sum(stage.parts.values()) for stage in self._stages)
        used = sum(stage.used for stage in self._stages)
        yield f"all: told about {told:,} tokens, used {used:,}; the paper's prompt alone has about {PAPER_TOKENS:,} an attempt"
