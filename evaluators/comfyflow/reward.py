"""ComfyFlow's reward of an answer, for training (appendix D of the paper)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from operad.evaluators.comfyflow.judging import graph_of_gold, judge
from operad.flows.formats.comfyui import Definitions


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward and its parts; each but `correct` is 0, or -1 where something is wrong.

    Attributes:
        format: The selected classes and the workflow stand between their tags, and can be taken from there.
        dag: The workflow is a directed acyclic graph.
        node: The selected classes are all candidates, and are the classes of the workflow.
        param: No parameter is illegal or missing.
        correct: The share of the gold's classes that were selected, less 1: from -1 to 0.
    """

    format: int
    dag: int
    node: int
    param: int
    correct: float

    @property
    def final(self) -> float:
        """-1 where one of the four is, or else (3 + correct) / 3: from 2/3 to 1."""
        if -1 in (self.format, self.dag, self.node, self.param):
            return -1.0
        return (3 + self.correct) / 3


def reward(answer: str | bytes, gold: str | bytes, candidates: Collection[str], definitions: Definitions) -> Reward:
    """Return the reward of an answer.

    Classes count as sets, as in the paper: duplicates count once. A workflow is not a DAG if it cannot be read, has a
    cycle, or uses a missing node (an undefined variable, in code); a graph of several parts, or one that ends too
    early, is one. An unreadable workflow has illegal parameters.

    Args:
        answer: The whole answer of the model.
        gold: The gold workflow, in any form.
        candidates: The classes that the model was offered.
        definitions: The classes of the server.

    Raises:
        InputError: There are no definitions.
        InvalidError: The gold cannot be read, or has no nodes.
    """
    wanted = {spec.type for spec in graph_of_gold(gold, definitions).nodes}
    found = judge(answer, definitions)
    selected = None if found.selected is None else set(found.selected)
    used = {spec.type for spec in found.graph.nodes}
    return Reward(
        format=_unless(selected is not None and found.is_tagged),
        dag=_unless(found.is_dag),
        node=_unless(selected is not None and selected == used and selected <= set(candidates)),
        param=_unless(not found.fails("illegal") and not found.fails("missing")),
        correct=-len(wanted - (selected or set())) / len(wanted),
    )


def _unless(right: bool) -> int:
    return 0 if right else -1
