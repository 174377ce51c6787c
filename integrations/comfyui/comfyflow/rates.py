"""Rates over many workflows: means of ComfyFlow's scores (tables 2 and 5 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean

from operad.integrations.comfyui.comfyflow.score import DIFFICULTIES, ComfyScore, Difficulty


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of workflows, from 0 to 1; None if there are no workflows to count.

    Attributes:
        count: Number of workflows.
        format: Workflows of valid format.
        node_f1: Mean node F1 of workflows with a gold workflow.
        graph_f1: Mean graph F1 of workflows with a gold workflow.
        passes: Workflows without any of the paper's faults.
        passes_but_outputs: Workflows without faults, if terminal nodes that are output nodes may declare outputs.
        connected: Workflows with a single connected component and without a cycle.
        terminal: Workflows with an invalid terminal node.
        terminal_but_outputs: Workflows with an invalid terminal node that is not an output node.
        undefined: Workflows with an undefined variable.
        illegal: Workflows with an illegal parameter.
        missing: Workflows with a missing parameter.
        sound: Workflows without any finding of ComfyUI's own check.
    """

    count: int
    format: float | None
    node_f1: float | None
    graph_f1: float | None
    passes: float | None
    passes_but_outputs: float | None
    connected: float | None
    terminal: float | None
    terminal_but_outputs: float | None
    undefined: float | None
    illegal: float | None
    missing: float | None
    sound: float | None


def rates(scores: Sequence[ComfyScore]) -> Rates:
    """Return the rates of scored workflows; every workflow has the same weight (macro average)."""
    names = [each.name for each in fields(Rates) if each.name != "count"]
    return Rates(len(scores), **{name: _mean(getattr(score, name) for score in scores) for name in names})


def by_difficulty(scores: Sequence[ComfyScore]) -> Mapping[Difficulty, Rates]:
    """Return the rates of the easy, medium and hard workflows; workflows without a difficulty are left out."""
    return {level: rates([score for score in scores if score.difficulty == level]) for level in DIFFICULTIES}


def _mean(values: Iterable[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return fmean(counted) if counted else None
