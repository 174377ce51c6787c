"""Scheduling: the plan of a graph, and one run's progress through it.

The module is pure and synchronous: it is told which nodes ended, and returns which nodes start and which are
skipped. Nodes are numbers, so that the hot path is a few list look-ups; their ids are used in errors and events.

An edge is *taken* when its parent ran and took one of the edge's ports, and *skipped* when its parent was skipped
or took only other ports. An edge without ports is taken whenever its parent ran. A node without parents always
runs. Other nodes follow their join:

==========  ==============================================================  ====================================
join        the node runs                                                   the node is skipped
==========  ==============================================================  ====================================
all_done    when every edge to it is taken or skipped, at least one taken   when every edge to it is skipped
all         when every edge to it is taken                                  as soon as one edge to it is skipped
any         as soon as one edge to it is taken                              when every edge to it is skipped
==========  ==============================================================  ====================================
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeVar

T = TypeVar("T")

Join = Literal["all_done", "all", "any"]
"""Condition under which a node with several predecessors runs."""

Ports = frozenset[str]
"""Ports of an edge. It is taken if its parent took one of them; an edge without ports, whenever its parent ran."""


class Plan:
    """A directed acyclic graph, ready to be scheduled.

    Attributes:
        ids: The id of each node.
        parents: The parents of each node, in order.
        children: The children of each node.
        parent_counts: The number of parents of each node.
        roots: The nodes without parents.
        joins: The joins of nodes whose join is not ``all_done``.
        ports: The ports of edges that have any, by parent and child.
        used_ports: All ports that edges from a node use, for nodes with such edges.
        branches: True if a node may be skipped, or run before all its parents have ended.

    Args:
        before: The ids of each node's parents, in order; the keys are all nodes.
        joins: The joins of nodes, by id; ``all_done`` by default.
        ports: The ports of edges, by the ids of parent and child.

    Raises:
        CycleError: There is a cycle. The second argument of the error lists the ids along the cycle; the first id
            is repeated at the end.
    """

    __slots__ = ("branches", "children", "ids", "joins", "parent_counts", "parents", "ports", "roots", "used_ports")

    def __init__(
        self,
        before: Mapping[str, Iterable[str]],
        joins: Mapping[str, Join] | None = None,
        ports: Mapping[tuple[str, str], Ports] | None = None,
    ) -> None:
        self.ids = tuple(before)
        number = {node_id: node for node, node_id in enumerate(self.ids)}
        self.parents = tuple(tuple(map(number.__getitem__, parents)) for parents in before.values())
        children: list[list[int]] = [[] for _ in self.ids]
        for node, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(node)
        self.children = tuple(map(tuple, children))
        self.parent_counts = tuple(map(len, self.parents))
        self.roots = tuple(node for node, waits in enumerate(self.parent_counts) if not waits)
        self.joins: dict[int, Join] = {number[node_id]: join for node_id, join in (joins or {}).items()}
        self.ports = {(number[parent], number[child]): ports for (parent, child), ports in (ports or {}).items()}
        self.used_ports: dict[int, Ports] = {}
        for (parent, _), edge_ports in self.ports.items():
            self.used_ports[parent] = self.used_ports.get(parent, frozenset()) | edge_ports
        self.branches = bool(self.ports) or "any" in self.joins.values()
        self._refuse_cycles()

    def _refuse_cycles(self) -> None:
        """Raise CycleError if there is a cycle: count the nodes that can run; `TopologicalSorter` names the cycle."""
        waits, left = list(self.parent_counts), len(self.ids)
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
        """Return `nodes` and all nodes that depend on them."""
        return reachable(nodes, self.children.__getitem__)

    def ancestors(self, nodes: Iterable[int], among: Container[int]) -> set[int]:
        """Return `nodes` and their ancestors that are reached through nodes in `among` only."""
        return reachable(nodes, lambda node: [parent for parent in self.parents[node] if parent in among])


def reachable(nodes: Iterable[T], neighbours: Callable[[T], Iterable[T]]) -> set[T]:
    """Return `nodes` and all nodes that are reached from them.

        children = children_of({"a": [], "b": ["a"], "c": ["b"]})
        print(sorted(reachable(["b"], children.__getitem__)))  # ['b', 'c']

    Args:
        neighbours: Function that returns the nodes to which the edges of a node lead.
    """
    found = set(nodes)
    to_visit = list(found)
    while to_visit:
        for node in neighbours(to_visit.pop()):
            if node not in found:
                found.add(node)
                to_visit.append(node)
    return found


def children_of(before: Mapping[T, Iterable[T]]) -> dict[T, list[T]]:
    """Return the children of each node, given the parents of each node."""
    children: dict[T, list[T]] = {node: [] for node in before}
    for node, parents in before.items():
        for parent in parents:
            children.setdefault(parent, []).append(node)
    return children


@dataclass(frozen=True, slots=True)
class Skip:
    """Skipped node, and the edge that was not taken and so caused the skip.

    Attributes:
        child: The child of the edge: the skipped node, or the first skipped node on the path to it.
    """

    node: int
    parent: int
    child: int


Taken = Sequence[str] | None
"""The ports that a node took; None for all."""


class Progress:
    """Progress of one run through a plan.

    A later round starts from the nodes that ended in an earlier round and do not run again.

    Args:
        ran: The nodes that ran in an earlier round, with the ports that they took.
        skipped: The nodes that were skipped in an earlier round. `ran` and `skipped` together hold every node that
            has no ancestor which runs in this round.

    Attributes:
        ready: The nodes that may start at once.
    """

    __slots__ = (
        "_children",
        "_decided",
        "_edges_taken",
        "_first_parent",
        "_plan",
        "_ports_taken",
        "_skips",
        "_waits",
        "ready",
    )

    def __init__(self, plan: Plan, ran: Mapping[int, Taken] | None = None, skipped: Sequence[Skip] = ()) -> None:
        self._plan = plan
        self._children = plan.children
        self._waits = list(plan.parent_counts)  # per node: the number of edges to it that are neither taken nor skipped
        self._ports_taken: dict[int, Taken] = {}  # per node that ran: the ports that it took
        self._edges_taken: dict[int, int] = {}  # per node: the number of taken edges to it
        self._first_parent: dict[int, int] = {}  # per node with the join ``any``: the parent that ran first
        self._skips: list[Skip] = []
        # Per node: 1 once it may start, has ended or was skipped.
        self._decided = bytearray(len(plan.ids)) if plan.branches or ran or skipped else bytearray()
        self.ready: list[int] = [*plan.roots]
        if ran or skipped:
            self._resume(ran or {}, skipped)

    def _resume(self, ran: Mapping[int, Taken], skipped: Sequence[Skip]) -> None:
        """Apply the nodes that ran or were skipped in an earlier round."""
        for node in ran:
            self._decided[node] = 1
        for skip in skipped:
            self._decided[skip.node] = 1
        self.ready = [node for node in self.ready if not self._decided[node]]
        for node, ports in ran.items():
            self.ready += self._finish(node, ports)
        for skip in skipped:
            for child in self._children[skip.node]:
                self._skip_edge(child, skip.parent, skip.child, self.ready)

    def finish(self, node: int, ports: Taken = None) -> list[int]:
        """Record that `node` ran and took these ports; return the nodes that may start now."""
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
        """Return the nodes that were skipped since the last call."""
        skips, self._skips = self._skips, []
        return skips

    def inputs(self, node: int) -> list[int]:
        """Return the parents whose edges to `node` are taken, in order; for the join ``any``, the first that ran."""
        if not self._plan.branches:
            return list(self._plan.parents[node])
        if node in self._first_parent:
            return [self._first_parent[node]]
        ran = self._ports_taken
        return [parent for parent in self._plan.parents[node] if parent in ran and self._is_taken(parent, node)]

    def _is_taken(self, parent: int, child: int) -> bool:
        """Return True if the edge from a parent that ran to a child is taken."""
        edge_ports, taken = self._plan.ports.get((parent, child)), self._ports_taken[parent]
        return not edge_ports or taken is None or not edge_ports.isdisjoint(taken)

    def _finish(self, node: int, ports: Taken) -> list[int]:
        """Take or skip the edges from a node that ran; return the nodes that may start now."""
        ready: list[int] = []
        self._ports_taken[node] = ports
        for child in self._children[node]:
            if self._is_taken(node, child):
                self._take_edge(child, node, ready)
            else:
                self._skip_edge(child, node, child, ready)
        return ready

    def _take_edge(self, child: int, parent: int, ready: list[int]) -> None:
        """Take the edge from `parent` to `child`; add the child to `ready` if it may start now."""
        self._waits[child] -= 1
        self._edges_taken[child] = self._edges_taken.get(child, 0) + 1
        if self._decided[child]:
            return
        is_any = self._plan.joins.get(child) == "any"
        if is_any:
            self._first_parent[child] = parent
        if is_any or not self._waits[child]:
            self._decided[child] = 1
            ready.append(child)

    def _skip_edge(self, child: int, cause_parent: int, cause_child: int, ready: list[int]) -> None:
        """Skip an edge to `child`, and the edges from nodes that are skipped as a result.

        Args:
            cause_parent: The parent of the edge that was not taken and caused this skip.
            ready: List to which nodes that may start now are added.
        """
        to_visit = [child]
        while to_visit:
            child = to_visit.pop()
            self._waits[child] -= 1
            if self._decided[child]:
                continue
            if self._plan.joins.get(child) == "all" or not (self._waits[child] or self._edges_taken.get(child)):
                self._decided[child] = 1
                self._skips.append(Skip(child, cause_parent, cause_child))
                to_visit.extend(reversed(self._children[child]))
            elif not self._waits[child]:
                self._decided[child] = 1
                ready.append(child)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repetition of some nodes of a plan and of all nodes that depend on them.

    Attributes:
        lost: The unfinished nodes that are not ancestors of a node that runs again, such as the losers of an ``any``
            join. They are skipped.
        progress: Progress with which the repetition starts.
    """

    again: AbstractSet[int]
    lost: AbstractSet[int]
    progress: Progress

    @classmethod
    def of(cls, plan: Plan, nodes: Iterable[int], ran: Mapping[int, Taken], skipped: Iterable[Skip]) -> Repeat:
        """Return the repetition of `nodes`.

        Args:
            nodes: The nodes to repeat.
            ran: The nodes that have run, with the ports that they took.
            skipped: The nodes that were skipped.
        """
        again = plan.descendants(nodes)
        ran = {node: ports for node, ports in ran.items() if node not in again}
        skipped = [skip for skip in skipped if skip.node not in again]
        unfinished = set(range(len(plan.ids))).difference(ran, (skip.node for skip in skipped))
        lost = unfinished - plan.ancestors(again, among=unfinished)
        return cls(again, lost, Progress(plan, ran, [*skipped, *(Skip(node, node, node) for node in lost)]))
