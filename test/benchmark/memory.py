"""Measure the growth of a process over thousands of runs.

A third of the runs succeed, a third fail, a third are cancelled half-way.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import Engine, Go
from graphs import Nap, layered

from operad.runtime.values.errors import OperatorError
from operad.runtime.values.message import WorkflowMessage

WARM_UP, RUNS = 1000, 5000


@dataclass(frozen=True)
class Growth:
    """Growth over `RUNS` runs: objects of the garbage collector, bytes allocated, KiB resident."""

    objects: int
    allocated: int
    resident: int


class Moody(Nap):
    """Operator that works, fails or waits forever."""

    mood = 0

    async def execute(self, *args: Any, **kwargs: Any) -> WorkflowMessage:
        await asyncio.sleep(0)
        if self.mood == 1:
            raise LookupError
        if self.mood == 2:
            await asyncio.Event().wait()
        return await super().execute(*args, **kwargs)


async def growth(engine: Engine) -> Growth:
    graph = layered(6, 3)
    moody = Moody("3_1")
    go = engine(graph, {node: moody if node == "3_1" else Nap(node) for node in graph})
    tracemalloc.start()
    await many(WARM_UP, go, moody)
    before = held()
    await many(RUNS, go, moody)
    after = held()
    tracemalloc.stop()
    return Growth(*(there - here for here, there in zip(before, after, strict=True)))


async def many(runs: int, go: Go, moody: Moody) -> None:
    for number in range(runs):
        moody.mood = number % 3
        run = asyncio.ensure_future(go())
        if moody.mood == 2:
            for _ in range(10):
                await asyncio.sleep(0)
            run.cancel()
        with suppress(OperatorError, asyncio.CancelledError):
            await run
    moody.mood = 0
    await go()


def held() -> tuple[int, int, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(gc.get_objects()), tracemalloc.get_traced_memory()[0], pages * os.sysconf("SC_PAGE_SIZE") // 1024
