"""Threads for calls that block, such as database calls.

A call in the shared threads (`in_thread`) never waits for other calls in them: if all of them waited, none would be left
for the work that they wait for. Calls that wait have a thread of their own (`in_new_thread`), and coroutines that wait
for a commit await its future.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from operad.runtime.values.forks import after_fork

T = TypeVar("T")

_threads: ThreadPoolExecutor
"""Threads for database calls, separate from those of `asyncio.to_thread`, which operators may exhaust."""


@after_fork
def _renew() -> None:
    global _threads
    _threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="operad-database")


_renew()


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a function that blocks, but waits for no other call in these threads, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *args)


def in_new_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Call a function in a daemon thread of its own, and return a future that callers cannot cancel."""
    result: Future[T] = shared_future()

    def call() -> None:
        try:
            value = function()
        except BaseException as error:  # noqa: BLE001 - raised to those who wait
            result.set_exception(error)
        else:
            result.set_result(value)

    threading.Thread(target=call, name=name, daemon=True).start()
    return result


def shared_future() -> Future[Any]:
    """Return a future for several waiters, none of which can cancel it."""
    future = Future[Any]()
    future.set_running_or_notify_cancel()
    return future
