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
"""Approximate number of tokens of the prompt in the paper, per attempt (Chat2Workflow)."""


class _Stage(NamedTuple):
    """Prompt of a stage, and its cost.

    Attributes:
        name: Name of the stage, with its round.
        parts: Approximate number of tokens of each part of the prompt; empty if the stage does not report it.
        used: Tokens that the endpoint counted, over all calls of the stage.
    """

    name: str
    parts: Mapping[str, int]
    used: int


class DesignListener:
    """Listener of a design's run that collects the sizes of prompts, the usage and the findings.

    Attributes:
        drafted: The latest message with a workflow.
    """

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._found: dict[str, None] = {}
        self.drafted: WorkflowMessage | None = None

    def hear(self, event: events.Event) -> None:
        """Collect the data of a finished operator."""
        if not isinstance(event, events.OperatorFinished):
            return
        outputs, used = event.message.outputs, event.message.usage.tokens
        prompt_parts = (
            {} if "stage" in outputs else fields_of(outputs.get("prompt"))
        )  # a verdict repeats the outputs that it judges
        if prompt_parts or used:
            self._stages.append(_Stage(f"{event.operator_id}, round {event.round}", prompt_parts, used))
        if "stage" in outputs:
            self._found |= dict.fromkeys(map(str, outputs.get("findings") or ()))
        if workflow_of(outputs) is not None:
            self.drafted = event.message

    def corrected(self, design: Design) -> list[str]:
        """Return the findings since the last call that are neither open nor contested."""
        found, self._found = list(self._found), {}
        remaining = [*design.findings, *design.warnings]
        return [
            finding for finding in found if not any(finding in remaining_finding for remaining_finding in remaining)
        ]

    def lines(self) -> Iterator[str]:
        """Yield a line on each stage, and one on all stages."""
        for name, parts, used in self._stages:
            listed = ", ".join(f"{part} {size:,}" for part, size in parts.items())
            prompt = f"prompt of about {sum(parts.values()):,} tokens ({listed}), " if parts else ""
            yield f"{name}: {prompt}used {used:,}"
        prompt = sum(sum(stage.parts.values()) for stage in self._stages)
        used = sum(stage.used for stage in self._stages)
        yield f"total: prompts of about {prompt:,} tokens, used {used:,}; the paper's prompt alone has about {PAPER_TOKENS:,} an attempt"
