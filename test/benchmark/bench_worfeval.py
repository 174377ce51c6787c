"""Measure the exact algorithms of WorFEval on one core: matching, node chain and common subgraph.

    python test/benchmark/bench_worfeval.py [--seconds 3]

The gold graphs are random acyclic graphs in topological order, with a number of labels. The prediction is the gold graph
with some edges replaced by random ones, and its nodes renumbered. Nodes with equal labels match. The table shows for each
case the milliseconds, the size found, and whether it is proven to be the largest, by a search or a bound. SciPy and
OR-tools are imported before. Seeds are fixed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from random import Random
from time import perf_counter

from operad.integrations.worfbench.common_subgraph import common_subgraph
from operad.integrations.worfbench.matching import Alignment, Pair, optimal_pairs
from operad.integrations.worfbench.node_chain import longest_chain

Edges = set[tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """Gold workflow and prediction, in the form of the algorithms."""

    name: str
    size: int
    pairs: list[Pair]
    gold: Edges
    predicted: Edges

    @staticmethod
    def drawn(name: str, size: int, *, labels: int | None, degree: float, changed: float) -> Case:
        """Return a random case: `labels` None gives each node its own; `degree` is the number of edges per node, of which the share `changed` is replaced."""
        draw = Random(f"{name} {size} {labels} {degree} {changed}")  # noqa: S311
        gold = edges(draw, size, round(degree * size))
        kept = {edge for edge in sorted(gold) if draw.random() >= changed}
        predicted = kept | edges(draw, size, len(gold) - len(kept))
        label = [draw.randrange(labels) for _ in range(size)] if labels else list(range(size))
        numbers = draw.sample(range(size), size)
        by_label: dict[int, list[int]] = {}
        for node in range(size):
            by_label.setdefault(label[node], []).append(node)
        return Case(
            name,
            size,
            [(gold, numbers[node]) for gold in range(size) for node in by_label[label[gold]]],
            gold,
            {(numbers[start], numbers[end]) for start, end in predicted},
        )


def edges(draw: Random, size: int, count: int) -> Edges:
    """Return random edges, each from a node to a later one."""
    found: Edges = set()
    while len(found) < min(count, size * (size - 1) // 2):
        start, end = sorted(draw.sample(range(size), 2))
        found.add((start, end))
    return found


def row(name: str, run: Callable[[], Alignment]) -> None:
    """Run a case and print the result."""
    start = perf_counter()
    found = run()
    took = (perf_counter() - start) * 1000
    print(f"{name:72} {took:10,.1f} {len(found.pairs):7,} {'yes' if found.optimal else 'no':>7}", flush=True)


def subgraphs(seconds: float) -> None:
    """Measure the graph score."""
    cases = [
        Case.drawn("its own label each, 10% of edges changed", 100, labels=None, degree=1.5, changed=0.1),
        Case.drawn("its own label each, 30% of edges changed", 100, labels=None, degree=1.5, changed=0.3),
        Case.drawn("its own label each, 30% of edges changed", 100, labels=None, degree=5, changed=0.3),
        Case.drawn("its own label each, all edges changed", 100, labels=None, degree=1.5, changed=1),
        Case.drawn("50 labels, none changed", 100, labels=50, degree=1.5, changed=0),
        Case.drawn("50 labels, 10% of edges changed", 100, labels=50, degree=1.5, changed=0.1),
        Case.drawn("50 labels, 30% of edges changed", 100, labels=50, degree=1.5, changed=0.3),
        Case.drawn("50 labels, 30% of edges changed", 100, labels=50, degree=3, changed=0.3),
        Case.drawn("50 labels, all edges changed", 100, labels=50, degree=1.5, changed=1),
        Case.drawn("50 labels, all edges changed", 100, labels=50, degree=5, changed=1),
        Case.drawn("25 labels, 20% of edges changed", 100, labels=25, degree=1.5, changed=0.2),
        Case.drawn("one label, none changed", 30, labels=1, degree=1.5, changed=0),
        Case.drawn("one label, 20% of edges changed", 20, labels=1, degree=1.5, changed=0.2),
        Case.drawn("one label, 10% of edges changed", 30, labels=1, degree=1.5, changed=0.1),
        Case.drawn("one label, none changed", 100, labels=1, degree=1.5, changed=0),
        Case.drawn("one label, 10% of edges changed", 100, labels=1, degree=1.5, changed=0.1),
        Case.drawn("one label, 10% of edges changed", 200, labels=1, degree=1.5, changed=0.1),
        Case.drawn("its own label each, 10% of edges changed", 5000, labels=None, degree=1.5, changed=0.1),
        Case.drawn("its own label each, all edges changed", 5000, labels=None, degree=1.5, changed=1),
        Case.drawn("4000 labels, 10% of edges changed", 5000, labels=4000, degree=1.5, changed=0.1),
        Case.drawn("50 labels, 10% of edges changed", 5000, labels=50, degree=1.5, changed=0.1),
    ]
    for case in cases:
        name = f"{case.size} nodes, {len(case.gold):,} edges, {case.name}"
        row(name, lambda case=case: common_subgraph(case.pairs, case.gold, case.predicted, seconds=seconds))


def chains(seconds: float) -> None:
    """Measure the node chain."""
    cases = [
        Case.drawn("its own label each", 100, labels=None, degree=1.5, changed=0),
        Case.drawn("50 labels", 100, labels=50, degree=1.5, changed=0),
        Case.drawn("10 labels", 100, labels=10, degree=1.5, changed=0),
        Case.drawn("its own label each", 5000, labels=None, degree=1.5, changed=0),
        Case.drawn("4000 labels", 5000, labels=4000, degree=1.5, changed=0),
    ]
    for case in cases:
        name = f"{case.size} nodes, {len(case.gold):,} edges, {case.name}, listed at random"
        row(name, lambda case=case: longest_chain(case.pairs, case.gold, seconds=seconds))
    line = {(node, node + 1) for node in range(4999)}
    backwards = [(node, 4999 - node) for node in range(5000)]
    row("5000 nodes in a line, listed backwards", lambda: longest_chain(backwards, line, seconds=seconds))


def matchings() -> None:
    """Measure the matchings of the highest weight; "proven" means that all are listed."""
    np = import_module("numpy")
    draw = np.random.default_rng(0)
    for size in (100, 1000, 5000):
        labels = draw.integers(0, size // 2, size)
        tables = {
            "one pair each": np.eye(size),
            f"{size // 2} labels": (labels[:, None] == labels[None, :]) * 1.0,
            "all similarities from 0.6 to 1": 0.6 + 0.4 * draw.random((size, size)),
            "all equal": np.ones((size, size)),
        }
        for name, table in tables.items():
            row(f"{size} x {size}, {name}", lambda table=table: Alignment(*optimal_pairs(table)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="time limit of a search (default 3)")
    seconds = parser.parse_args().seconds
    for module in ("scipy.optimize", "scipy.sparse.csgraph", "ortools.sat.python.cp_model"):
        import_module(module)
    for title, run in (
        ("common subgraph", lambda: subgraphs(seconds)),
        ("node chain", lambda: chains(seconds)),
        ("pairs of the best matchings", matchings),
    ):
        print(f"\n{title:72} {'ms':>10} {'size':>7} {'proven':>7}")
        run()


if __name__ == "__main__":
    main()
