"""Largest independent set of a graph of conflicts, to which the node chain and the common subgraph are reduced.

A graph is a list of bitsets (Python's integers): bit ``w`` of ``conflicts[v]`` means that v and w exclude each other.
The search has three steps, each for the part that the step before left open:

1. reductions: a vertex without conflicts is taken, a vertex that another dominates is left out;
2. branch and bound, on each connected component separately, for a fixed amount of work. The bound is a greedy cover of
   the component by cliques of conflicts, from each of which a set takes one vertex: the colouring bound of Tomita and
   Seki, "An efficient branch-and-bound algorithm for finding a maximum clique" (2003), on bitsets as San Segundo et
   al., "An exact bit-parallel algorithm for the maximum clique problem" (2011), seen from the complement;
3. local search for a better set, and CP-SAT, with that set as a hint, to find the best set and prove it. Without
   OR-tools, branch and bound continues instead.

CP-SAT alone takes longer (measured on 2026-11-23, random conflicts, one thread): for 12 vertices 1.1 ms instead of
0.06 ms, for 60 vertices 160 ms instead of 7 ms, for 90 vertices 2 s instead of 5 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

_DOMINATES = 32
"""Maximum number of conflicts of a vertex that is checked for domination; vertices with more seldom dominate others."""

_WORK = 300_000
"""Number of vertices that branch and bound covers in a component before CP-SAT takes over: some 100 ms. A count instead
of a time makes every machine search the same way."""

_PUSHES = 2_000
"""Number of times that local search forces a vertex into the set before CP-SAT takes over: some 100 ms."""

_MOST_CONFLICTS = 1_000_000
"""Maximum number of conflicts for CP-SAT, as models of more take gigabytes."""


class IndependentSet(NamedTuple):
    """Vertices that do not exclude each other.

    Attributes:
        vertices: The vertices in ascending order.
        optimal: True if it is proven that no set is larger.
    """

    vertices: tuple[int, ...]
    optimal: bool


def largest_independent_set(
    conflicts: Sequence[int],
    *,
    seconds: float,
    bound: Callable[[Sequence[int]], int] = len,
    orders: Iterable[Sequence[int]] = (),
    clock: Callable[[], float] = time.monotonic,
) -> IndependentSet:
    """Return as many vertices as possible without two that exclude each other.

    Args:
        conflicts: For each vertex, the bitset of the vertices that it excludes: symmetric, and never itself.
        seconds: Time limit of the search. With 0, the result of a greedy heuristic.
        bound: Function that returns an upper bound for an independent set among some vertices; a set of that size needs
            no proof.
        orders: Promising orders of the vertices for greedy choices.
        clock: Function that returns the time in seconds.

    Returns:
        The set, which is the same for the same arguments unless time runs out.
    """
    deadline = clock() + seconds
    by_degree = sorted(range(len(conflicts)), key=lambda vertex: conflicts[vertex].bit_count())
    best = max((_greedy(conflicts, order) for order in (*orders, by_degree)), key=int.bit_count)
    if best.bit_count() >= bound(by_degree):
        return IndependentSet(tuple(members(best)), True)
    taken, rest = _reduced(conflicts)
    optimal = True
    for component in _components(conflicts, rest):
        known = max(best & component, _greedy(conflicts, members(component)), key=int.bit_count)
        search = _Search(conflicts, component, known, bound(list(members(component))), deadline, clock)
        search.run()
        taken |= search.best
        optimal &= search.optimal
    return IndependentSet(tuple(members(max(taken, best, key=int.bit_count))), optimal)


def members(bitset: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, in ascending order."""
    while bitset:
        lowest = bitset & -bitset
        yield lowest.bit_length() - 1
        bitset ^= lowest


def _bitset(vertices: Iterable[int]) -> int:
    """Return the bitset of some vertices."""
    return sum(1 << vertex for vertex in vertices)


def _greedy(conflicts: Sequence[int], order: Iterable[int]) -> int:
    """Return the bitset of the vertices that a greedy choice in some order takes."""
    taken = 0
    for vertex in order:
        if not conflicts[vertex] & taken:
            taken |= 1 << vertex
    return taken


def _reduced(conflicts: Sequence[int]) -> tuple[int, int]:
    """Return the vertices that belong to some largest set, and the undecided vertices, as bitsets.

    A vertex u dominates its neighbour v if all neighbours of u are neighbours of v: a set with v can have u instead.
    """
    taken, alive = 0, (1 << len(conflicts)) - 1
    to_check = alive
    while to_check:
        vertex = (to_check & -to_check).bit_length() - 1
        to_check ^= 1 << vertex
        neighbours = conflicts[vertex] & alive
        if not neighbours:
            taken |= 1 << vertex
            alive ^= 1 << vertex
        elif neighbours.bit_count() <= _DOMINATES:
            dominated = neighbours
            for other in members(neighbours):
                dominated &= conflicts[other] | 1 << other
                if not dominated:
                    break
            alive &= ~dominated
            for removed in members(dominated):
                to_check |= conflicts[removed]
            to_check &= alive
    return taken, alive


def _components(conflicts: Sequence[int], alive: int) -> Iterator[int]:
    """Yield the connected components of the vertices in a bitset, as bitsets."""
    while alive:
        component = front = alive & -alive
        while front:
            neighbours = 0
            for vertex in members(front):
                neighbours |= conflicts[vertex]
            front = neighbours & alive & ~component
            component |= front
        alive &= ~component
        yield component


class _Search:
    """Search of one connected component.

    Attributes:
        best: The largest set found so far.
        optimal: True if it is proven that no set is larger.
    """

    def __init__(
        self,
        conflicts: Sequence[int],
        component: int,
        best: int,
        bound: int,
        deadline: float,
        clock: Callable[[], float],
    ):
        self.best = best
        self.optimal = best.bit_count() >= bound
        self._conflicts = conflicts
        self._component = component
        self._bound = bound
        self._deadline = deadline
        self._clock = clock

    def run(self) -> None:
        """Search until the best set is proven or time is up."""
        neighbours = {vertex: self._conflicts[vertex] & self._component for vertex in members(self._component)}
        order = sorted(neighbours, key=lambda vertex: neighbours[vertex].bit_count())
        place = {vertex: index for index, vertex in enumerate(order)}
        conflicts: list[int] = []  # by place: vertices with few conflicts come first
        for vertex in order:
            if self.optimal or self._seconds_left() <= 0:
                return
            conflicts.append(_bitset(place[other] for other in members(neighbours[vertex])))
        best = self._branch_and_bound(conflicts, [place[vertex] for vertex in members(self.best)], _WORK)
        if not self.optimal:
            best = self._local_search(conflicts, best)
        if not self.optimal and self._seconds_left() > 0:
            is_small = sum(map(int.bit_count, conflicts)) <= 2 * _MOST_CONFLICTS
            if is_small and find_spec("ortools") is not None:
                best, self.optimal = _constraint_search(conflicts, best, self._bound, self._seconds_left)
            else:
                best = self._branch_and_bound(conflicts, best, None)
        self.best = _bitset(order[index] for index in best)

    def _seconds_left(self) -> float:
        return self._deadline - self._clock()

    def _branch_and_bound(self, conflicts: Sequence[int], best: list[int], work: int | None) -> list[int]:
        """Return the largest set found within an amount of work; set `optimal` if the search is complete."""
        everything = (1 << len(conflicts)) - 1
        chosen: list[int] = []
        levels = [(everything, _branches(conflicts, everything, len(best)))]
        work_done = 0
        while levels:
            alive, branches = levels.pop()
            if not branches or len(chosen) + branches[-1][1] <= len(best):
                if chosen:
                    chosen.pop()
                continue
            vertex, _ = branches.pop()
            levels.append((alive ^ 1 << vertex, branches))
            chosen.append(vertex)
            alive &= ~(conflicts[vertex] | 1 << vertex)
            if not alive and len(chosen) > len(best):
                best = chosen.copy()
                if len(best) >= self._bound:
                    break
            levels.append((alive, _branches(conflicts, alive, len(best) - len(chosen))))
            work_done += alive.bit_count()
            if (work is not None and work_done > work) or self._seconds_left() <= 0:
                return best
        self.optimal = True
        return best

    def _local_search(self, conflicts: Sequence[int], best: list[int]) -> list[int]:
        """Return the largest set found by forcing one vertex after another into the set, followed by swaps."""
        largest = taken = _bitset(best)
        for push in range(_PUSHES):
            vertex = push % len(conflicts)
            if taken >> vertex & 1:
                continue
            pushed = self._with_swaps(conflicts, taken & ~conflicts[vertex] | 1 << vertex)
            if pushed.bit_count() >= taken.bit_count():
                taken = pushed
            largest = max(largest, taken, key=int.bit_count)
            self.optimal = largest.bit_count() >= self._bound
            if self.optimal or self._seconds_left() <= 0:
                break
        return list(members(largest))

    def _with_swaps(self, conflicts: Sequence[int], taken: int) -> int:
        """Return the set after adding free vertices, and swapping one vertex for two, as long as possible."""
        while self._seconds_left() > 0:
            excluded_once = excluded_often = 0
            for vertex in members(taken):
                excluded_often |= excluded_once & conflicts[vertex]
                excluded_once |= conflicts[vertex]
            free = ((1 << len(conflicts)) - 1) & ~(excluded_once | taken)
            if free:
                taken |= free & -free
                continue
            excluded_once &= ~excluded_often
            swaps = (
                (1 << vertex, 1 << first | others & -others)
                for vertex in members(taken)
                for first in members(conflicts[vertex] & excluded_once)
                if (others := conflicts[vertex] & excluded_once & ~conflicts[first] & ~(1 << first))
            )
            removed, added = next(swaps, (0, 0))
            if not added:
                break
            taken = taken ^ removed | added
        return taken


def _branches(conflicts: Sequence[int], alive: int, enough: int) -> list[tuple[int, int]]:
    """Return the vertices to branch on, the last first, each with an upper bound for sets of it and those before it.

    Sets of the vertices left out have at most `enough` vertices.
    """
    found: list[tuple[int, int]] = []
    cliques = 0
    while alive:
        cliques += 1
        clique = alive
        while clique:
            lowest = clique & -clique
            vertex = lowest.bit_length() - 1
            alive ^= lowest
            clique &= conflicts[vertex]
            if cliques > enough:
                found.append((vertex, cliques))
    return found


def _constraint_search(
    conflicts: Sequence[int], best: list[int], bound: int, seconds_left: Callable[[], float]
) -> tuple[list[int], bool]:
    """Return the larger of `best` and the set that CP-SAT finds, and whether no set is larger."""
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in conflicts]
    for clique in _cliques(conflicts):
        model.add_at_most_one(chosen[vertex] for vertex in clique)
    model.add(sum(chosen) <= bound)
    model.maximize(sum(chosen))
    known = set(best)
    for vertex, variable in enumerate(chosen):
        model.add_hint(variable, vertex in known)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = max(0, seconds_left())
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = [vertex for vertex, variable in enumerate(chosen) if solver.boolean_value(variable)]
        best = max(best, found, key=len)
    return best, status == cp_model.OPTIMAL


def _cliques(conflicts: Sequence[int]) -> Iterator[list[int]]:
    """Yield cliques that cover every conflict: constraints on many vertices help the solver more than on two."""
    open_conflicts = list(conflicts)
    for first in range(len(conflicts)):
        while open_conflicts[first]:
            clique = [first]
            candidates, wanted = conflicts[first], open_conflicts[first]
            while candidates:
                vertex = next(members(wanted or candidates))
                clique.append(vertex)
                candidates &= conflicts[vertex]
                wanted &= conflicts[vertex]
            covered = _bitset(clique)
            for vertex in clique:
                open_conflicts[vertex] &= ~covered
            yield clique
