"""Synchronous calls of coroutines: callers without an event loop share one that runs in the background."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from operad.runtime.values.errors import RunningLoopError

T = TypeVar("T")

LONGEST_WIND_UP = 1.0
"""Seconds that runs have to clean up when the process ends."""

_loop_lock = threading.Lock()  # `cache` alone may start several loops for concurrent first callers


MOST_THREADS = 64
"""Maximum number of sync functions of users that run at once in an event loop; idle threads are reused."""


async def in_function_thread(function: Callable[..., T], *args: object) -> T:
    """Call a sync function of a user in a thread, with the current context variables.

    The pool of `asyncio.to_thread` is not used, because it has only four threads more than there are processors.
    """
    loop = asyncio.get_running_loop()
    if loop not in _function_threads:
        _function_threads[loop] = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="operad-function")
    return await loop.run_in_executor(_function_threads[loop], partial(copy_context().run, function, *args))


# one pool per event loop: functions that call `run` must not occupy the threads that functions inside that run need
_function_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()


def run_sync(start: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
    """Run the coroutine that `start` returns, and wait for it.

    The coroutine runs in a background event loop that lives as long as the process, so that model clients can reuse
    connections in later calls. Ctrl-C cancels the coroutine and waits until it has ended.

    Args:
        start: Function that returns the coroutine.
        instead: Expression to await inside a running loop, for the error message.

    Raises:
        RunningLoopError: The caller is inside a running event loop.
        CancelledError: The coroutine was cancelled by another thread; that of `concurrent.futures`.
    """
    if running_loop() is not None:
        raise RunningLoopError(f"an event loop is running here, and waiting would block it: use `await {instead}`")
    with _loop_lock:
        loop = _background_loop(os.getpid())
    tasks: list[asyncio.Task[Any]] = []

    async def run() -> T:
        tasks.append(cast("asyncio.Task[Any]", asyncio.current_task()))
        return await start()

    future = asyncio.run_coroutine_threadsafe(run(), loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        # Cancelling the future would not wait for the coroutine's end.
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        with suppress(CancelledError, Exception):  # wait for its end; KeyboardInterrupt is raised instead of its error
            future.result()
        raise
    except CancelledError:
        raise CancelledError("the run was cancelled by another call, or its ledger was closed") from None
    finally:
        tasks.clear()
        del future  # break the cycle future -> error -> traceback -> this frame -> future


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@cache
def _background_loop(pid: int) -> asyncio.AbstractEventLoop:  # a forked process needs its own
    loop = asyncio.new_event_loop()
    threading.Thread(target=_keep_running, args=(loop,), name=f"operad-{pid}", daemon=True).start()
    atexit.register(_cancel_runs_at_exit, loop, pid)
    return loop


def _cancel_runs_at_exit(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Cancel runs that are still in progress when the process ends, and give them time to clean up."""
    if os.getpid() == pid:
        with suppress(TimeoutError, FutureTimeoutError, CancelledError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(LONGEST_WIND_UP)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with suppress(SystemExit, KeyboardInterrupt):  # asyncio raises these from `run_forever` and stops the loop
            loop.run_forever()
