"""What runs leave behind in this process: threads that work for them, tasks, and registered runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

from operad.runtime.values.function_threads import THREAD, abandoned_functions
from operad.runtime.values.sync import background_loop
from operad.runtime.workflow.live import Runs

PATIENCE = 20.0
"""Seconds until what ends by itself has ended."""


def left_behind() -> dict[str, int]:
    """Return the number of threads, abandoned functions, tasks of the background loop and runs; without zeros."""

    async def tasks() -> int:
        return len(asyncio.all_tasks() - {asyncio.current_task()})

    gc.collect()
    counted = {
        "threads": sum(thread.name.startswith(f"{THREAD} ") for thread in threading.enumerate()),
        "abandoned": len(abandoned_functions()),
        "tasks": asyncio.run_coroutine_threadsafe(tasks(), background_loop()).result(),
        "runs": sum(len(each) for each in gc.get_objects() if type(each) is Runs),
    }
    return {kind: number for kind, number in counted.items() if number}


def check_nothing_left() -> None:
    """Wait until runs that have ended left nothing behind.

    Raises:
        AssertionError: Something is still there.
    """
    until = time.monotonic() + PATIENCE
    pause = threading.Event()
    while left := left_behind():
        assert time.monotonic() < until, f"left behind: {left}"
        pause.wait(0.01)
