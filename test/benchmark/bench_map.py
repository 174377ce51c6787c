"""Time and memory of a map per item, compared with a loop by hand.

    python test/benchmark/bench_map.py [--items 100000]

Processor time in microseconds per item, each in a process of its own. The loop starts a task for each item behind a
semaphore and gathers the results. The maps run an operator that only returns a text: over a list, whose results are
kept, and over a generator, whose results are not.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
from collections.abc import Iterator
from time import process_time
from typing import Any

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
    """Seconds of processor time, and KiB by which the process has grown at most."""
    asyncio.run(LOOPS[name](100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = process_time()
    asyncio.run(LOOPS[name](items))
    return process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    items = parser.parse_args().items
    print(f"{items:,} items, {CONCURRENCY} at once: µs per item (and ratio to the first line); growth")
    first = 0.0
    for name in LOOPS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, grown = pool.apply(measure, (name, items))
        first = first or seconds
        print(f"  {name:36} {seconds / items * 1e6:6.1f} ({seconds / first:.2f}x); {grown / 1024:6.1f} MiB")


if __name__ == "__main__":
    main()
