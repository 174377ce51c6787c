"""Graphs that every engine runs, as predecessors by node, and the work of a node."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from operad.runtime.values.message import Job, WorkflowMessage

Graph = Mapping[str, Sequence[str]]

JOB = Job(goal="nothing")


def chain(size: int) -> Graph:
    return {str(n): [str(n - 1)] if n else [] for n in range(size)}


def fan(size: int) -> Graph:
    branches = [str(n) for n in range(size)]
    return {"source": [], **{branch: ["source"] for branch in branches}, "join": branches}


def layered(layers: int, width: int, parents: int = 3, seed: int = 0) -> Graph:
    """Return an input, layers of nodes with random parents in the layer above, and a tail after all nodes without successors."""
    chance = random.Random(seed)  # noqa: S311
    before: dict[str, Sequence[str]] = {"input": []}
    last = ["input"]
    for layer in range(layers):
        above = last
        last = [f"{layer}_{n}" for n in range(width)]
        before.update({node: sorted(chance.sample(above, min(parents, len(above)))) for node in last})
    followed = {parent for parents_of_node in before.values() for parent in parents_of_node}
    return {**before, "tail": [node for node in before if node not in followed]}


class Nap:
    """Operator that does nothing, or sleeps some seconds; 0 suspends it for one turn of the event loop."""

    def __init__(self, op_id: str) -> None:
        self._id = op_id
        self.seconds: float | None = None
        self.runs = 0
        self.received: Sequence[WorkflowMessage] = ()

    def get_id(self) -> str:
        return self._id

    async def execute(
        self,
        reasoner: Any,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        self.runs += 1
        self.received = workflow_messages or ()
        if self.seconds is not None:
            await asyncio.sleep(self.seconds)
        return WorkflowMessage(scratchpad=self._id)


Naps = Mapping[str, Nap]


class WrongRunError(Exception):
    """An engine ran a graph wrongly, and is not measured."""


def check_runs(runs: int, graph: Graph, naps: Naps) -> None:
    """Check that every node ran a number of times, the last time with the messages of its predecessors.

    Raises:
        WrongRunError: A node did not.
    """
    for node, before in graph.items():
        nap = naps[node]
        if nap.runs != runs:
            raise WrongRunError("runs nodes twice" if nap.runs > runs else "leaves nodes out")
        if Counter(message.scratchpad for message in nap.received) != Counter(before):
            raise WrongRunError("wrong inputs")


def critical_path(graph: Graph, seconds: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    for node, before in graph.items():
        ends[node] = seconds[node] + max((ends[parent] for parent in before), default=0.0)
    return max(ends.values())
