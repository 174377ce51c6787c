"""Calls that cannot hang a test: they run in a daemon thread, and fail after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

LONGEST = 60.0
"""Maximum seconds of a call, on a busy machine."""


def bounded(function: Callable[[], T]) -> T:
    """Call a function, and return its value or raise its error; a call that does not end raises `TimeoutError`."""
    done: Future[T] = Future()

    def call() -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised to the caller
            done.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return done.result(LONGEST)
