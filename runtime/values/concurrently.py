"""Several awaitables at once, none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def concurrently(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Await all at once.

    Returns:
        Their results, in order.

    Raises:
        Exception: What the first that failed raised. By then the others have been cancelled and
            have ended; so too when the caller is cancelled.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
