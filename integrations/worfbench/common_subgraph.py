"""Largest common induced subgraph of two directed graphs, over the pairs of nodes that may be matched.

WorFEval's score of a predicted workflow graph ("Benchmarking Agentic Workflow Generation", section 3). A pair (gold,
predicted) excludes every other pair that shares a node with it, and every pair to which the two nodes have different
edges; the result is the largest set of pairs that do not exclude each other. (In textbooks, this set is the largest
clique of an association graph, which has an edge between pairs that do not exclude each other. A graph of exclusions
is smaller: one-to-one pairs of similar graphs have hardly any, in small components.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import networkx as nx

from operad.integrations.worfbench.independent_set import largest_independent_set
from operad.integrations.worfbench.matching import MAX_PAIRS, Alignment, Pair, one_to_one, places, shared_nodes, sides

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

    Matched nodes must also agree on an edge to themselves. Edges of nodes without a pair are ignored.

    Args:
        pairs: Pairs of a gold node and a predicted node that may match it.
        gold_edges: Edges of the gold graph, as pairs of nodes.
        predicted_edges: Edges of the predicted graph, as pairs of nodes.
        seconds: Time limit of the search. With 0, the result of a greedy heuristic.
        clock: Function that returns the time in seconds.

    Raises:
        MissingExtraError: SciPy is not installed, and a node is in more than one pair.
    """
    gold_edges, predicted_edges = set(gold_edges), set(predicted_edges)
    deadline = clock() + seconds
    allowed = sorted({(a, b) for a, b in pairs if ((a, a) in gold_edges) == ((b, b) in predicted_edges)})
    upper_bound = len(one_to_one(allowed))
    orders: list[list[Pair]] = []
    if upper_bound < len(allowed):
        orders = list(_promising_orders(allowed, gold_edges, predicted_edges, lambda: clock() < deadline))
    is_cut = len(allowed) > MAX_PAIRS
    if is_cut:
        allowed = sorted(_greedy_one_to_one(pair for order in (*reversed(orders), allowed) for pair in order))[
            :MAX_PAIRS
        ]
    place = {pair: index for index, pair in enumerate(allowed)}
    found = largest_independent_set(
        _conflicts(allowed, gold_edges, predicted_edges),
        seconds=deadline - clock(),
        bound=lambda indices: len(one_to_one(allowed[index] for index in indices)),
        orders=[[place[pair] for pair in order if pair in place] for order in orders],
        clock=clock,
    )
    optimal = len(found.vertices) == upper_bound or (found.optimal and not is_cut)
    return Alignment(tuple(allowed[index] for index in found.vertices), optimal)


def _conflicts(pairs: Sequence[Pair], gold_edges: Edges, predicted_edges: Edges) -> list[int]:
    """Return, for each pair, the bitset of the pairs that it excludes."""
    golds, predicted = sides(pairs)
    gold_after, gold_before = _neighbours(golds, gold_edges)
    after, before = _neighbours(predicted, predicted_edges)
    return [
        shared | (gold_after[a] ^ after[b]) | (gold_before[a] ^ before[b])
        for shared, (a, b) in zip(shared_nodes(pairs), pairs, strict=True)
    ]


def _neighbours(nodes: Sequence[int], edges: Edges) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by node, the bitsets of the indexes of its successors, and of its predecessors."""
    own = places(nodes)
    after, before = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    for start, end in edges:
        if start in own and end in own and start != end:
            after[start] |= own[end]
            before[end] |= own[start]
    return after, before


def _greedy_one_to_one(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the pairs whose nodes are in none of the pairs yielded before."""
    golds: set[int] = set()
    predicted: set[int] = set()
    for gold, node in pairs:
        if gold not in golds and node not in predicted:
            golds.add(gold)
            predicted.add(node)
            yield gold, node


def _promising_orders(
    pairs: Sequence[Pair], gold_edges: Edges, predicted_edges: Edges, in_time: Callable[[], bool]
) -> Iterator[list[Pair]]:
    """Yield promising orders of the pairs: by how similar the neighbourhoods of their nodes are.

    Both graphs are coloured together by the algorithm of Weisfeiler and Leman: nodes that pairs connect begin with the
    same colour, and a colour splits by the colours of predecessors and successors. Pairs whose colours agree for more
    rounds come first. If both graphs end with the same number of nodes of each colour, they may be isomorphic; then one
    pair after another with an ambiguous colour gets its own colour, which finds the isomorphism of most graphs.
    """
    number = {end: index for index, end in enumerate(sorted({end for pair in pairs for end in enumerate(pair)}))}
    ends = [(number[0, gold], number[1, predicted]) for gold, predicted in pairs]
    neighbours = _numbered_neighbours(number, gold_edges, predicted_edges)
    colours = [0] * len(number)
    for colour, connected in enumerate(nx.connected_components(nx.Graph(ends))):
        for node in connected:
            colours[node] = colour
    rounds = [0] * len(pairs)
    for finer in _refinements(colours, neighbours, in_time):
        colours = finer
        rounds = [count + (colours[a] == colours[b]) for count, (a, b) in zip(rounds, ends, strict=True)]
    yield [pair for _, pair in sorted(zip(rounds, pairs, strict=True), key=lambda each: -each[0])]
    golds = sum(side == 0 for side, _ in number)
    while Counter(colours[:golds]) == (sizes := Counter(colours[golds:])) and in_time():
        ambiguous = next(
            (pair for pair in ends if colours[pair[0]] == colours[pair[1]] and sizes[colours[pair[0]]] > 1), ()
        )
        if not ambiguous:
            yield [pair for pair, (a, b) in zip(pairs, ends, strict=True) if colours[a] == colours[b]]
            return
        new_colour = max(colours) + 1
        for node in ambiguous:
            colours[node] = new_colour
        *_, colours = _refinements(colours, neighbours, in_time)


def _numbered_neighbours(
    number: Mapping[tuple[int, int], int], gold_edges: Edges, predicted_edges: Edges
) -> list[tuple[list[int], list[int]]]:
    """Return the numbers of the successors and predecessors of each (side, node), by its number."""
    neighbours: list[tuple[list[int], list[int]]] = [([], []) for _ in number]
    for side, edges in enumerate((gold_edges, predicted_edges)):
        for start, end in edges:
            if (side, start) in number and (side, end) in number:
                neighbours[number[side, start]][0].append(number[side, end])
                neighbours[number[side, end]][1].append(number[side, start])
    return neighbours


def _refinements(
    colours: list[int], neighbours: Sequence[tuple[list[int], list[int]]], in_time: Callable[[], bool]
) -> Iterator[list[int]]:
    """Yield the colours, and then finer ones until no colour splits any more."""
    yield colours
    while in_time():
        names: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        finer: list[int] = []
        for colour, (after, before) in zip(colours, neighbours, strict=True):
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
