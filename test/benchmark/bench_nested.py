"""Measure sync functions that each run another workflow and wait for it.

    python test/benchmark/bench_nested.py

Each function occupies a thread while it waits, and the run that it waits for needs threads, too. The table shows the
elapsed time per nested run, the minimum of several turns, and the ratio to a single one. Growth that is linear in the
number of runs means a constant time per run.
"""

from __future__ import annotations

import argparse
import math
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table

from operad import Job, Workflow, operator

NUMBERS = (1, 64, 640)
LONGEST = 120.0
"""Seconds after which a run counts as hung."""

inner = Workflow(operator(lambda job: job.goal, id="inner"), name="inner")


def outer(number: int) -> Workflow:
    """Return a workflow of sync functions side by side, each of which runs the inner workflow."""

    def step(index: int) -> Callable[[Job], str]:
        def run(job: Job) -> str:
            return inner.run(str(index)).text

        return run

    return Workflow([operator(step(index), id=f"n{index}") for index in range(number)], name="outer")


def measure(number: int, turns: int) -> float:
    """Return the least seconds of a run; raise SystemExit if it does not end."""
    flow, least = outer(number), [math.inf]

    def run_all() -> None:
        for _ in range(turns):
            began = perf_counter()
            flow.run("go")
            least[0] = min(least[0], perf_counter() - began)

    thread = threading.Thread(target=run_all, daemon=True)
    thread.start()
    thread.join(LONGEST)
    if thread.is_alive():
        raise SystemExit(f"{number} nested runs have not ended after {LONGEST:g} s")
    return least[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = Table("nested runs", "ms in all", "ms per run", title="Sync functions side by side that run a workflow")
    first = 0.0
    for number in NUMBERS:
        took = measure(number, args.turns) * 1e3
        first = first or took
        table.add_row(f"{number:,}", f"{took:.1f}", f"{took / number:.3f} ({took / number / first:.2f}x)")
    Console().print(table)
    if args.page:
        text = markdown([table], "python test/benchmark/bench_nested.py")
        worse = worsened(args.page, text, "nested", [f"{number:,}" for number in NUMBERS[1:]])
        write_into(args.page, text, "nested")
        end(worse)


if __name__ == "__main__":
    main()
