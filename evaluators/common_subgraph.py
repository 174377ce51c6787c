"""The largest common induced subgraph of two directed graphs, over the pairs of nodes that may stand for each other.

WorFEval's score of a predicted workflow graph ("Benchmarking Agentic Workflow Generation", section 3). Taking a pair
(gold, predicted) excludes every other pair that shares a node with it, and every pair to which the two nodes have
different edges; the answer is the largest set of pairs that do not exclude each other. (The textbooks' association
graph has an edge where no exclusion is, and its largest clique is that set. Exclusions are the fewer: one-to-one pairs
of similar graphs have hardly any, and fall apart into small pieces.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import networkx as nx

from operad.evaluators.independent_set import largest_independent_set
from operad.evaluators.matching import MAX_PAIRS, Alignment, Pair, one_to_one, places, shared_nodes, sides

Edges = Iterable[tuple[int, int]]


def common_subgraph(
    pairs: Iterable[Pair],
    gold_edges: Edges,
    predicted_edges: Edges,
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Alignment:
    """Return the most pairs, one to one, between which both graphs have the same edges, in both directions.

    Nodes that stand for each other must agree on an edge to themselves, too. Edges of nodes in no pair do not matter.

    Args:
        pairs: Gold nodes, and predicted nodes that may stand for them.
        gold_edges: From node to node.
        predicted_edges: From node to node.
        seconds: Time limit of the search. With 0, the result of a greedy heuristic.
        clock: Tells the time, in seconds.

    Raises:
        MissingExtraError: SciPy is not installed, and a node is in more than one pair.
    """
    gold_edges, predicted_edges = set(gold_edges), set(predicted_edges)
    deadline = clock() + seconds
    allowed = sorted({(a, b) for a, b in pairs if ((a, a) in gold_edges) == ((b, b) in predicted_edges)})
    most = len(one_to_one(allowed))
    orders: list[list[Pair]] = []
    if most < len(allowed):
        orders = list(_promising(allowed, gold_edges, predicted_edges, lambda: clock() < deadline))
    cut = len(allowed) > MAX_PAIRS
    if cut:
        allowed = sorted(_first_of_each(pair for order in (*reversed(orders), allowed) for pair in order))[:MAX_PAIRS]
    place = {pair: index for index, pair in enumerate(allowed)}
    found = largest_independent_set(
        _conflicts(allowed, gold_edges, predicted_edges),
        seconds=deadline - clock(),
        bound=lambda indices: len(one_to_one(allowed[index] for index in indices)),
        orders=[[place[pair] for pair in order if pair in place] for order in orders],
        clock=clock,
    )
    optimal = len(found.vertices) == most or (found.optimal and not cut)
    return Alignment(tuple(allowed[index] for index in found.vertices), optimal)


def _conflicts(pairs: Sequence[Pair], gold_edges: Edges, predicted_edges: Edges) -> list[int]:
    """By pair, the bitset of the pairs that it excludes."""
    golds, predicted = sides(pairs)
    gold_after, gold_before = _neighbours(golds, gold_edges)
    after, before = _neighbours(predicted, predicted_edges)
    return [
        shared | (gold_after[a] ^ after[b]) | (gold_before[a] ^ before[b])
        for shared, (a, b) in zip(shared_nodes(pairs), pairs, strict=True)
    ]


def _neighbours(nodes: Sequence[int], edges: Edges) -> tuple[dict[int, int], dict[int, int]]:
    """By node, the bitsets of the places of the nodes that follow it, and that it follows."""
    own = places(nodes)
    after, before = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    for start, end in edges:
        if start in own and end in own and start != end:
            after[start] |= own[end]
            before[end] |= own[start]
    return after, before


def _first_of_each(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs whose nodes are in none of those before."""
    golds: set[int] = set()
    predicted: set[int] = set()
    for gold, node in pairs:
        if gold not in golds and node not in predicted:
            golds.add(gold)
            predicted.add(node)
            yield gold, node


def _promising(
    pairs: Sequence[Pair], gold_edges: Edges, predicted_edges: Edges, in_time: Callable[[], bool]
) -> Iterator[list[Pair]]:
    """Orders in which to take pairs: by how alike the surroundings of their nodes are.

    Both graphs are coloured together, as Weisfeiler and Leman do: nodes that pairs connect begin with one colour, and a
    colour splits by the colours of the nodes before and after. Pairs come first whose colours agree for more rounds.
    Where the colours in the end count the same on both sides the graphs may be the same one, numbered anew; then a pair
    of one colour is set apart, and so on until no colour is left in doubt: for most graphs that finds the renumbering.
    """
    number = {end: index for index, end in enumerate(sorted({end for pair in pairs for end in enumerate(pair)}))}
    ends = [(number[0, gold], number[1, predicted]) for gold, predicted in pairs]
    near = _surroundings(number, gold_edges, predicted_edges)
    colours = [0] * len(number)
    for colour, connected in enumerate(nx.connected_components(nx.Graph(ends))):
        for node in connected:
            colours[node] = colour
    rounds = [0] * len(pairs)
    for finer in _refinements(colours, near, in_time):
        colours = finer
        rounds = [count + (colours[a] == colours[b]) for count, (a, b) in zip(rounds, ends, strict=True)]
    yield [pair for _, pair in sorted(zip(rounds, pairs, strict=True), key=lambda each: -each[0])]
    golds = sum(side == 0 for side, _ in number)
    while Counter(colours[:golds]) == (sizes := Counter(colours[golds:])) and in_time():
        doubtful = next(
            (pair for pair in ends if colours[pair[0]] == colours[pair[1]] and sizes[colours[pair[0]]] > 1), ()
        )
        if not doubtful:
            yield [pair for pair, (a, b) in zip(pairs, ends, strict=True) if colours[a] == colours[b]]
            return
        apart = max(colours) + 1
        for node in doubtful:
            colours[node] = apart
        *_, colours = _refinements(colours, near, in_time)


def _surroundings(
    number: Mapping[tuple[int, int], int], gold_edges: Edges, predicted_edges: Edges
) -> list[tuple[list[int], list[int]]]:
    """By number of a (side, node), the numbers of the nodes after it, and before it."""
    near: list[tuple[list[int], list[int]]] = [([], []) for _ in number]
    for side, edges in enumerate((gold_edges, predicted_edges)):
        for start, end in edges:
            if (side, start) in number and (side, end) in number:
                near[number[side, start]][0].append(number[side, end])
                near[number[side, end]][1].append(number[side, start])
    return near


def _refinements(
    colours: list[int], near: Sequence[tuple[list[int], list[int]]], in_time: Callable[[], bool]
) -> Iterator[list[int]]:
    """The colours, and finer ones until no colour splits any more."""
    yield colours
    while in_time():
        names: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        finer: list[int] = []
        for colour, (after, before) in zip(colours, near, strict=True):
            key = (
                colour,
                tuple(sorted(colours[node] for node in after)),
                tuple(sorted(colours[node] for node in before)),
            )
            finer.append(names.setdefault(key, len(names)))
        if len(names) == len(set(colours)):
            return
        colours = finer
        yield colours
