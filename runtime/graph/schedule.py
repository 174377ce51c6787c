"""Scheduling: the plan of a graph, and one run's progress through it.

Pure and synchronous: it is told what happened and answers what to start and what is skipped. Nodes
are numbers, so that the hot path is a few list look-ups; names are kept beside them for people.

The rules. An edge is *taken* when the node before it ran and took one of the edge's ports, and
*skipped* when that node was skipped or took others; an edge without ports is taken whenever the node
before it ran. A node without parents runs. Any other follows its join:

==========  ==============================================================  ====================================
join        runs                                                            is skipped
==========  ==============================================================  ====================================
all_done    when every edge to it is taken or skipped, one at least taken   when every edge to it is skipped
all         when every edge to it is taken                                  as soon as one is skipped
any         as soon as one edge to it is taken                              when every edge to it is skipped
==========  ==============================================================  ====================================
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

Join = Literal["all_done", "all", "any"]
"""Condition under which a node with several predecessors runs."""

Ports = frozenset[str]
"""The ports of a node that an edge leaves from; empty where it is taken in any case."""


class Plan:
    """A directed acyclic graph, ready to be scheduled.

    Attributes:
        ids: The name of each node.
        parents: The nodes before each node, in order.
        children: The nodes after each node.
        roots: The nodes without parents.
        tails: The nodes without children.
        joins: How each node joins its parents.
        ports: The ports of the edges from a parent to a child that have any.
        ways: The ports that the edges from a node leave from, where they have any.
        branches: True if a node may be skipped, or run before all its parents have ended.

    Args:
        before: The ids of the nodes before each node, in order; its keys are all nodes.
        joins: How nodes join their parents, by id; ``all_done`` where nothing is said.
        ports: The ports of edges, by the ids of parent and child.

    Raises:
        CycleError: There is a cycle; its second argument lists the ids along it, the first repeated.
    """

    __slots__ = ("branches", "children", "ids", "joins", "parents", "ports", "roots", "tails", "waits", "ways")

    def __init__(
        self,
        before: Mapping[str, Iterable[str]],
        joins: Mapping[str, Join] | None = None,
        ports: Mapping[tuple[str, str], Ports] | None = None,
    ) -> None:
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
        self.joins: dict[int, Join] = {number[node_id]: join for node_id, join in (joins or {}).items()}
        self.ports = {(number[parent], number[child]): ports for (parent, child), ports in (ports or {}).items()}
        self.ways: dict[int, Ports] = {}
        for (parent, _), leaves in self.ports.items():
            self.ways[parent] = self.ways.get(parent, frozenset()) | leaves
        self.branches = bool(self.ports) or "any" in self.joins.values()
        self._refuse_cycles()

    def _refuse_cycles(self) -> None:
        waits, left = list(self.waits), len(self.ids)
        ready = list(self.roots)
        while ready:
            left -= 1
            for child in self.children[ready.pop()]:
                waits[child] -= 1
                if not waits[child]:
                    ready.append(child)
        if left:
            ids = self.ids
            TopologicalSorter({ids[n]: [ids[p] for p in parents] for n, parents in enumerate(self.parents)}).prepare()
            raise CycleError("nodes are in a cycle", [])

    def descendants(self, nodes: Iterable[int]) -> set[int]:
        """`nodes` and all that depends on them."""
        return _reachable(nodes, self.children)

    def ancestors(self, nodes: Iterable[int], among: Container[int]) -> set[int]:
        """`nodes` and what they depend on, as far as the ways there lead through `among` alone."""
        return _reachable(nodes, self.parents, among)


def _reachable(nodes: Iterable[int], edges: Sequence[Sequence[int]], among: Container[int] | None = None) -> set[int]:
    found = set(nodes)
    open_ = list(found)
    while open_:
        for node in edges[open_.pop()]:
            if node not in found and (among is None or node in among):
                found.add(node)
                open_.append(node)
    return found


@dataclass(frozen=True, slots=True)
class Skip:
    """Reason for which a node was skipped: an edge that was not taken, on the way to it.

    Attributes:
        node: The node that was skipped.
        parent: The node that the edge leaves.
        child: The node that it leads to.
    """

    node: int
    parent: int
    child: int


Taken = Sequence[str] | None
"""The ports that a node took; None for all."""


class Progress:
    """Progress of one run.

    Nodes that ended in an earlier round are given at the start, and count as having ended before it.

    Args:
        plan: The plan.
        ran: The nodes that need not run again, with the ports that they took.
        skipped: The nodes that were skipped, and stay so. With `ran` it holds all nodes that no
            node to be run comes before.

    Attributes:
        ready: The nodes that may start at once.
    """

    __slots__ = ("_children", "_first", "_plan", "_settled", "_skips", "_taken", "_took", "_waits", "ready")

    def __init__(self, plan: Plan, ran: Mapping[int, Taken] | None = None, skipped: Sequence[Skip] = ()) -> None:
        self._plan = plan
        self._children = plan.children
        self._waits = list(plan.waits)
        self._took: dict[int, Taken] = {}
        self._taken: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._skips: list[Skip] = []
        self._settled = bytearray(len(plan.ids)) if plan.branches or ran or skipped else bytearray()
        self.ready: list[int] = [*plan.roots]
        if ran or skipped:
            self._take_up(ran or {}, skipped)

    def _take_up(self, ran: Mapping[int, Taken], gone: Sequence[Skip]) -> None:
        for node in ran:
            self._settled[node] = 1
        for skip in gone:
            self._settled[skip.node] = 1
        self.ready = [node for node in self.ready if not self._settled[node]]
        for node, ports in ran.items():
            self.ready += self._finish(node, ports)
        for skip in gone:
            for child in self._children[skip.node]:
                self._skip_edge(child, skip.parent, skip.child, self.ready)

    def finish(self, node: int, ports: Taken = None) -> list[int]:
        """Note that `node` ran and took these ports; return the nodes that may start now."""
        if self._plan.branches:
            return self._finish(node, ports)
        waits = self._waits
        ready: list[int] = []
        for child in self._children[node]:
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
        return ready

    def skips(self) -> list[Skip]:
        """The nodes that were skipped since this was asked last."""
        skips, self._skips = self._skips, []
        return skips

    def inputs(self, node: int) -> list[int]:
        """The parents whose edges to `node` are taken, in order; of an ``any`` join the first that ran."""
        if not self._plan.branches:
            return list(self._plan.parents[node])
        if node in self._first:
            return [self._first[node]]
        return [parent for parent in self._plan.parents[node] if parent in self._took and self._is_taken(parent, node)]

    def _is_taken(self, parent: int, child: int) -> bool:
        wanted, took = self._plan.ports.get((parent, child)), self._took[parent]
        return not wanted or took is None or not wanted.isdisjoint(took)

    def _finish(self, node: int, ports: Taken) -> list[int]:
        ready: list[int] = []
        self._took[node] = ports
        for child in self._children[node]:
            if self._is_taken(node, child):
                self._take_edge(child, node, ready)
            else:
                self._skip_edge(child, node, child, ready)
        return ready

    def _take_edge(self, child: int, parent: int, ready: list[int]) -> None:
        self._waits[child] -= 1
        self._taken[child] = self._taken.get(child, 0) + 1
        if self._settled[child]:
            return
        is_any = self._plan.joins.get(child) == "any"
        if is_any:
            self._first[child] = parent
        if is_any or not self._waits[child]:
            self._settled[child] = 1
            ready.append(child)

    def _skip_edge(self, child: int, because: int, of: int, ready: list[int]) -> None:
        """Skip an edge to `child`; it was the edge from `because` to `of` that was not taken first."""
        open_ = [child]
        while open_:
            child = open_.pop()
            self._waits[child] -= 1
            if self._settled[child]:
                continue
            if self._plan.joins.get(child) == "all" or not (self._waits[child] or self._taken.get(child)):
                self._settled[child] = 1
                self._skips.append(Skip(child, because, of))
                open_.extend(reversed(self._children[child]))
            elif not self._waits[child]:
                self._settled[child] = 1
                ready.append(child)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Another run of some nodes of a plan, and of all that depends on them.

    Attributes:
        again: The nodes that run again.
        lost: The nodes that had not ended, and that no node which runs again waits for: a race is over without them.
        progress: The progress from there on.
    """

    again: AbstractSet[int]
    lost: AbstractSet[int]
    progress: Progress

    @classmethod
    def of(cls, plan: Plan, nodes: Iterable[int], ran: Mapping[int, Taken], skipped: Iterable[Skip]) -> Repeat:
        """Return the repeat of `nodes`.

        Args:
            plan: The plan.
            nodes: The nodes.
            ran: The nodes that have run, with the ports that they took.
            skipped: The nodes that were skipped.
        """
        again = plan.descendants(nodes)
        ran = {node: ports for node, ports in ran.items() if node not in again}
        skipped = [skip for skip in skipped if skip.node not in again]
        unfinished = set(range(len(plan.ids))).difference(ran, (skip.node for skip in skipped))
        lost = unfinished - plan.ancestors(again, among=unfinished)
        return cls(again, lost, Progress(plan, ran, [*skipped, *(Skip(node, node, node) for node in lost)]))
