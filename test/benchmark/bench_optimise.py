"""Measure how soon a search finds the best member of a family: by UCB1, by the best so far, and at random.

    python test/benchmark/bench_optimise.py                # the table
    python test/benchmark/bench_optimise.py --json FILE    # all figures

The search tree and its choice are the real ones; members, scores and proposals are those of `optimise_families.py`,
whose best member is known. All methods see the same proposals: the nth change of a node depends on the seed, the node's
parts and n. In a round, up to three changes are drawn until one is new. No model is asked.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from optimise_families import BEST, FAMILIES, FIRST, Family, changed
from rich.console import Console
from rich.table import Table

from operad.configs.optimise.search import TRIES
from operad.configs.optimise.tree import EXPLORATION, Tree, back_up, select

ROUNDS = (20, 40, 80)
SEEDS = 300

Chooser = Callable[[Tree, int], int]


def by_ucb1(exploration: float) -> Chooser:
    return lambda tree, seed: select(tree, exploration=exploration, seed=seed)


def by_the_best(tree: Tree, seed: int) -> int:
    """Choose the node with the best score, at random among equal ones."""
    best = max(node.score for node in tree.nodes)
    return _lot(tree, seed).choice([number for number, node in enumerate(tree.nodes) if node.score == best])


def by_lot(tree: Tree, seed: int) -> int:
    return _lot(tree, seed).randrange(len(tree.nodes))


def _lot(tree: Tree, seed: int) -> random.Random:
    return random.Random(f"{seed} {tree.nodes[0].visits}")  # noqa: S311


CHOOSERS = {
    f"UCB1, {EXPLORATION:g}": by_ucb1(EXPLORATION),
    "UCB1, 0.05": by_ucb1(0.05),
    "UCB1, 0.3": by_ucb1(0.3),
    "UCB1, √2": by_ucb1(math.sqrt(2)),
    "the best so far": by_the_best,
    "by lot": by_lot,
}


def found_after(family: Family, choose: Chooser, seed: int, rounds: int) -> int | None:
    """Return the round in which the best member was found, or None."""
    members, tree = [FIRST], Tree.of(family.score(FIRST))
    expanded: dict[int, int] = {}
    for done in range(1, rounds + 1):
        parent = choose(tree, seed)
        made = members[parent]
        for _ in range(TRIES):
            expanded[parent] = expanded.get(parent, 0) + 1
            lot = random.Random(f"{seed} {sorted(members[parent])} {expanded[parent]}")  # noqa: S311
            made = changed(members[parent], family, lot)
            if made not in members:
                break
        if made == BEST:
            return done
        if made in members:
            tree = back_up(tree, parent, made=False)
            continue
        members.append(made)
        tree = tree.grown(parent, family.score(made))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {}
    for name, family in FAMILIES.items():
        table = Table(title=f"{name}: the best is found, of {arguments.seeds} seeds", title_justify="left")
        for column in ("chosen by", *(f"in {rounds} rounds" for rounds in ROUNDS), "mean round, if found"):
            table.add_column(column, justify="left" if column == "chosen by" else "right")
        for chooser, choose in CHOOSERS.items():
            rounds = [found_after(family, choose, seed, max(ROUNDS)) for seed in range(arguments.seeds)]
            found = [each for each in rounds if each is not None]
            shares = [sum(each <= most for each in found) / len(rounds) for most in ROUNDS]
            figures[f"{name}, {chooser}"] = rounds
            mean = f"{fmean(found):.1f}" if found else "-"
            table.add_row(chooser, *(f"{100 * share:.0f} %" for share in shares), mean)
        Console(width=110).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
