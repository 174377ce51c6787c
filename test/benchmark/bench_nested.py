"""Measure sync functions side by side, each of which runs another workflow with `run`.

    python test/benchmark/bench_nested.py [--page docs/performance.md]

Each function waits 20 ms, as for a reply, and then runs a workflow of one sync function; the workflow of the functions
runs in a process of its own. With three levels, the inner function runs a third workflow. The program fails if a run
does not end within a minute. The growth is that of the memory of the process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from pathlib import Path

from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table

from operad import Job, Map, Workflow, operator

WIDTHS = (1, 64, 640)
WAIT = 0.02
LONGEST = 60.0


def nested(levels: int) -> Workflow:
    """Return a workflow of a sync function, inside which as many workflows are nested."""

    def step(job: Job) -> str:
        time.sleep(WAIT)
        return inner.run(job.goal).text if inner else job.goal

    inner = nested(levels - 1) if levels > 1 else None
    return Workflow(operator(step, id=f"level-{levels}"), name=f"level-{levels}")


def measure(width: int, levels: int) -> tuple[float, int]:
    """Return the seconds of one run, and the growth of the process in KiB."""
    inner = nested(levels - 1)

    def step(number: int) -> str:
        time.sleep(WAIT)
        return inner.run(str(number)).text

    outer = Workflow(Map("each", operator(step), over="numbers", concurrency=width), name="outer")
    outer.run({"numbers": [0]})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    answers = outer.run({"numbers": list(range(width))}).output
    seconds = time.perf_counter() - began
    assert answers == [str(number) for number in range(width)]
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def table_of(turns: int) -> Table:
    """Measure in turns; the minimum counts, because other programs only add time."""
    title = "sync functions that run a workflow (and ratio of the time to that of 64, per function)"
    table = Table("functions at once", "2 levels, s", "3 levels, s", "growth, MiB", title=title)
    of_64: dict[int, float] = {}
    for width in WIDTHS:
        cells: list[str] = []
        grown = 0
        for levels in (2, 3):
            measured: list[tuple[float, int]] = []
            for _ in range(turns):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    measured.append(pool.apply_async(measure, (width, levels)).get(LONGEST))
            seconds, grown = min(measured)
            each = seconds / width
            of_64.setdefault(levels, each)
            if width == 64:
                of_64[levels] = each
            cells.append(f"{seconds:.2f} ({each / of_64[levels]:.2f}x)" if width >= 64 else f"{seconds:.2f}")
        table.add_row(f"{width:,}", *cells, f"{grown / 1024:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = table_of(args.turns)
    Console().print(table)
    if args.page:
        text = markdown([table], "python test/benchmark/bench_nested.py")
        worse = worsened(args.page, text, "nested", [f"{width:,}" for width in WIDTHS])
        write_into(args.page, text, "nested")
        end(worse)


if __name__ == "__main__":
    main()
