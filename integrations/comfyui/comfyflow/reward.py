"""ComfyFlow's reward of an answer, for training (appendix D of the paper)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from operad.integrations.comfyui.comfyflow.judging import graph_of_gold, judge
from operad.integrations.comfyui.formats import Definitions


@dataclass(frozen=True, slots=True)
class Reward:
    """Reward with its parts; each part except `correct` is 0 if its condition holds, and -1 otherwise.

    Attributes:
        format: The selected classes and the workflow are between their tags and can be read.
        dag: The workflow is a directed acyclic graph.
        node: The selected classes are all candidates, and equal the classes of the workflow.
        param: No parameter is illegal or missing.
        correct: Share of the gold workflow's classes that were selected, less 1: from -1 to 0.
    """

    format: int
    dag: int
    node: int
    param: int
    correct: float

    @property
    def final(self) -> float:
        """-1 if any of the other parts is -1; otherwise (3 + correct) / 3, from 2/3 to 1."""
        if -1 in (self.format, self.dag, self.node, self.param):
            return -1.0
        return (3 + self.correct) / 3


def reward(answer: str | bytes, gold: str | bytes, candidates: Collection[str], definitions: Definitions) -> Reward:
    """Return the reward of an answer.

    Duplicate classes count once, as in the paper. A workflow is not a DAG if it cannot be read, has a cycle, or uses a
    missing node (in code, an undefined variable); several components, or an early end, do not matter. An unreadable
    workflow counts as having illegal parameters.

    Args:
        answer: The whole answer of the model.
        gold: The gold workflow, in any form.
        candidates: Classes that were offered to the model.
        definitions: The classes of the server.

    Raises:
        InputError: There are no definitions.
        InvalidError: The gold workflow cannot be read, or has no nodes.
    """
    wanted = {spec.type for spec in graph_of_gold(gold, definitions).nodes}
    found = judge(answer, definitions)
    selected = None if found.selected is None else set(found.selected)
    used = {spec.type for spec in found.graph.nodes}
    return Reward(
        format=_zero_if(selected is not None and found.is_tagged),
        dag=_zero_if(found.is_dag),
        node=_zero_if(selected is not None and selected == used and selected <= set(candidates)),
        param=_zero_if(not found.fails("illegal") and not found.fails("missing")),
        correct=-len(wanted - (selected or set())) / len(wanted),
    )


def _zero_if(holds: bool) -> int:
    return 0 if holds else -1
