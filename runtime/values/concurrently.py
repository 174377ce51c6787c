"""Concurrent awaiting of several awaitables, without leaving any behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def concurrently(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Await all awaitables concurrently.

    Returns:
        Their results, in order.

    Raises:
        Exception: The first error raised. By then, the other awaitables have been cancelled and have ended; the same
            happens if the caller is cancelled.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    if not tasks:
        return []
    try:
        # `gather` alone would return when the first task is cancelled, while others still clean up, and cancelling
        # them again would interrupt that.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    try:
        for task in tasks:
            if task in done and (task.cancelled() or task.exception()):
                task.result()  # raises its error
        return [task.result() for task in tasks]
    finally:  # task -> error -> traceback -> this frame -> task would wait for the garbage collector
        del tasks, done, task  # pyright: ignore[reportPossiblyUnboundVariable]
