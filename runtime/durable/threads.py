"""Threads for database calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="operad-database")
"""Threads for database calls, separate from those of `asyncio.to_thread`, which operators may exhaust."""


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a blocking function in a thread, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, function, *args)
