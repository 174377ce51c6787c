"""What may run when: a plan of a graph, and one run's progress through it.

Pure and synchronous: it is told what happened and answers what to start. Nodes are numbers, so
that the hot path is a few list look-ups; names are kept beside them for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


class Plan:
    """A directed acyclic graph, ready to be scheduled.

    Attributes:
        ids: The name of each node.
        parents: The nodes before each node, in order.
        children: The nodes after each node.
        roots: The nodes without parents.
        tails: The nodes without children.

    Args:
        before: The ids of the nodes before each node, in order; its keys are all nodes.

    Raises:
        CycleError: There is a cycle; its second argument lists the ids along it, the first repeated.
    """

    __slots__ = ("children", "ids", "parents", "roots", "tails", "waits")

    def __init__(self, before: Mapping[str, Sequence[str]]) -> None:
        self.ids = tuple(before)
        number = {node_id: node for node, node_id in enumerate(self.ids)}
        self.parents = tuple(tuple(number[parent] for parent in parents) for parents in before.values())
        children: list[list[int]] = [[] for _ in self.ids]
        for node, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(node)
        self.children = tuple(map(tuple, children))
        self.waits = tuple(map(len, self.parents))
        self.roots = tuple(node for node, waits in enumerate(self.waits) if not waits)
        self.tails = tuple(node for node, after in enumerate(self.children) if not after)
        self._refuse_cycles()

    def _refuse_cycles(self) -> None:
        progress = Progress(self)
        ready = list(self.roots)
        while ready:
            ready += progress.finish(ready.pop())
        if progress.left:
            ids = self.ids
            TopologicalSorter({ids[n]: [ids[p] for p in parents] for n, parents in enumerate(self.parents)}).prepare()
            raise CycleError("nodes are in a cycle", [])

    def descendants(self, nodes: Iterable[int]) -> set[int]:
        """`nodes` and all that depends on them."""
        found = set(nodes)
        open_ = list(found)
        while open_:
            for child in self.children[open_.pop()]:
                if child not in found:
                    found.add(child)
                    open_.append(child)
        return found


class Progress:
    """How far one run has come.

    Attributes:
        left: How many nodes have not finished.
    """

    __slots__ = ("_children", "_waits", "left")

    def __init__(self, plan: Plan) -> None:
        self._children = plan.children
        self._waits = list(plan.waits)
        self.left = len(self._waits)

    def finish(self, node: int) -> list[int]:
        """Note that `node` has finished; return the nodes that may start now, in order of adding."""
        self.left -= 1
        waits = self._waits
        ready: list[int] = []
        for child in self._children[node]:
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
        return ready
