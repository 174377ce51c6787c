"""Measure time and memory of a map per item, compared with a hand-written loop.

    python test/benchmark/bench_map.py [--items 100000]

The table shows the processor time in microseconds per item, each in its own process, the minimum of three turns. The
loop starts a task for each item behind a semaphore and gathers the results. The maps run an operator that only returns a text: over a list, whose results are
kept, and over a generator, whose results are not.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import resource
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table

from operad import Job, Map, Workflow
from operad.runtime.graph.operator import BaseOperator

CONCURRENCY = 8


class Nop(BaseOperator[str]):
    """An operator that does nothing."""

    def get_id(self) -> str:
        return "nop"

    async def execute(self, *_: Any, **__: Any) -> str:
        return "done"


async def loop(items: int) -> None:
    places = asyncio.Semaphore(CONCURRENCY)
    nop = Nop()

    async def one(item: int) -> str:
        async with places:
            return await nop.execute(item)

    await asyncio.gather(*[one(item) for item in range(items)])


async def over_list(items: int) -> None:
    await Workflow(Map("each", Nop(), over="items", concurrency=CONCURRENCY)).arun({"items": list(range(items))})


async def over_generator(items: int) -> None:
    def numbers(job: Job) -> Iterator[int]:
        yield from range(items)

    await Workflow(Map("each", Nop(), over=numbers, concurrency=CONCURRENCY, collect=False)).arun("items")


LOOPS = {"semaphore loop": loop, "map over a list": over_list, "map over a generator, not collected": over_generator}


def measure(name: str, items: int) -> tuple[float, int]:
    """Return the seconds of processor time, and the maximum growth of the process in KiB."""
    asyncio.run(LOOPS[name](100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = process_time()
    asyncio.run(LOOPS[name](items))
    return process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def table_of(items: int, turns: int) -> Table:
    """Measure in turns; the minimum counts, because other programs only add time."""
    least: dict[str, tuple[float, int]] = dict.fromkeys(LOOPS, (math.inf, 0))
    for _ in range(turns):
        for name in LOOPS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                least[name] = min(least[name], pool.apply(measure, (name, items)))
    title = f"{items:,} items, {CONCURRENCY} at once: microseconds per item (and ratio to the first line)"
    table = Table("map", "µs", "growth, MiB", title=title)
    first = least[next(iter(LOOPS))][0]
    for name, (seconds, grown) in least.items():
        table.add_row(name, f"{seconds / items * 1e6:.1f} ({seconds / first:.2f}x)", f"{grown / 1024:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = table_of(args.items, args.turns)
    Console().print(table)
    if args.page:
        text = markdown([table], "python test/benchmark/bench_map.py")
        worse = worsened(args.page, text, "map", [*LOOPS])
        write_into(args.page, text, "map")
        end(worse)


if __name__ == "__main__":
    main()
