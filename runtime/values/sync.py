"""Synchronous calls of coroutines: callers without an event loop share one that runs in the background."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar, cast

from operad.runtime.values.errors import OperadError, RunningLoopError
from operad.runtime.values.forks import after_fork, leave_to_parent
from operad.runtime.values.function_threads import current_call

T = TypeVar("T")

LONGEST_WIND_UP = 1.0
"""Seconds that runs have to clean up when the process ends."""

_loop_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_sync(start: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
    """Run the coroutine that `start` returns, and wait for it.

    The coroutine runs in a background event loop that lives as long as the process, so that model clients can reuse
    connections in later calls. Ctrl-C cancels the coroutine and waits until it has ended.

    Args:
        instead: Expression to await inside a running loop, for the error message.

    Raises:
        RunningLoopError: The caller is inside a running event loop.
        CancelledError: The coroutine was cancelled by another thread, or the function that waits was given up; that of
            `concurrent.futures`.
    """
    if running_loop() is not None:
        raise RunningLoopError(f"an event loop is running here, and waiting would block it: use `await {instead}`")
    loop = background_loop()
    tasks: list[asyncio.Task[Any]] = []
    is_cancelled = False

    async def run() -> T:
        tasks.append(cast("asyncio.Task[Any]", asyncio.current_task()))
        if is_cancelled:
            raise asyncio.CancelledError
        return await start()

    def cancel() -> None:
        nonlocal is_cancelled
        is_cancelled = True
        for task in tasks:
            task.cancel()

    # Cancelling the future would not wait for the coroutine's end.
    cancel_soon = partial(loop.call_soon_threadsafe, cancel)
    call = current_call()
    with call.waiting(cancel_soon) if call is not None else nullcontext():  # before the coroutine begins
        future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            cancel_soon()
            with suppress(CancelledError, Exception):  # its error is not raised, but KeyboardInterrupt
                future.result()
            raise
        except CancelledError as error:
            if isinstance(error, OperadError):  # an operator raised one
                raise
            raise CancelledError("the run was cancelled by another call, or its ledger was closed") from None
        finally:
            tasks.clear()
            del future  # break the cycle future -> error -> traceback -> this frame -> future


def end_sync(end: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run the coroutine that `end` returns, which ends something, and wait for it where no event loop runs.

    The garbage collector may call this in any thread, also in that of an event loop, and a function that was given up
    ends its streams.
    """
    future = asyncio.run_coroutine_threadsafe(end(), background_loop())
    if running_loop() is None:
        future.result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of `run_sync`, which runs in a thread of its own; it is started on first use."""
    global _loop
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_keep_running, args=(_loop,), name=f"operad-{os.getpid()}", daemon=True).start()
            atexit.register(_cancel_runs_at_exit, _loop, os.getpid())
        return _loop


@after_fork
def _renew() -> None:
    global _loop, _loop_lock
    leave_to_parent(_loop)
    _loop, _loop_lock = None, threading.Lock()


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
