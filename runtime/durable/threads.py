"""Threads for database calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from operad.runtime.values.forks import after_fork

T = TypeVar("T")

_threads: ThreadPoolExecutor
"""Threads for database calls, separate from those of `asyncio.to_thread`, which operators may exhaust."""


@after_fork
def _renew() -> None:
    global _threads
    _threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="operad-database")


_renew()


def start_in_thread(function: Callable[[], object]) -> None:
    """Call a blocking function in a thread, without waiting for it."""
    _threads.submit(function)


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a blocking function in a thread, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *args)
