"""Ctrl-C and SIGTERM: as an exception, for work that ends in order, and as a call, for a run that may hang."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST_CALL = 1.0
"""Seconds that a call on a signal may take beyond the work that it was heard in."""


@contextmanager
def ctrl_c_raises() -> Generator[None, None, None]:
    """Have Ctrl-C raise KeyboardInterrupt in here; elsewhere it ends the command at once (`entry`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def signals_heard(hear: Callable[[int], object]) -> Generator[None, None, None]:
    """Have a thread of its own call `hear` with the number of each SIGINT and SIGTERM.

    The main thread would not do: a signal that comes as it begins to wait in a system call is handled once that wait is
    over, and code in C may never end. The interpreter writes the number of each signal into a pipe at once.
    """
    heard = signal.SIGINT, signal.SIGTERM
    numbers, told = os.pipe()
    os.set_blocking(told, False)  # a signal must not wait

    def listen() -> None:
        with open(numbers, "rb", buffering=0) as pipe:
            while number := pipe.read(1):
                if number[0] in heard:
                    hear(number[0])

    listener = threading.Thread(target=listen, name="operad-signals", daemon=True)
    listener.start()
    fd_before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _do_nothing) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(fd_before)
        os.close(told)
        listener.join(LONGEST_CALL)  # what `hear` holds is freed before the interpreter ends, not while it does


def end_children(threads: Path = Path("/proc/self/task")) -> None:
    """End what this process has started and is at work still, such as a sandbox.

    Where Linux does not list children, a sandbox ends at its own limit.

    Args:
        threads: The folder with a folder of each thread, which lists its children.
    """
    told: set[int] = set()
    while new := _children(threads) - told:  # until no thread has started another one meanwhile
        for child in new:
            with suppress(OSError):  # it has ended
                os.kill(child, signal.SIGTERM)
        told |= new


def _children(threads: Path) -> set[int]:
    found: set[int] = set()
    for children in threads.glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found.update(map(int, children.read_text().split()))
    return found


def _do_nothing(number: int, frame: object) -> None:
    """Have the interpreter take the signal, and write its number."""
