"""Ctrl-C and SIGTERM: as an exception, or as a call in a thread of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST_CALL = 1.0
"""Seconds to wait at the end for a signal handler that is still running."""


@contextmanager
def ctrl_c_raises() -> Generator[None, None, None]:
    """Make Ctrl-C raise KeyboardInterrupt inside this context manager; elsewhere it ends the command (see `entry`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def signals_heard(hear: Callable[[int], object]) -> Generator[None, None, None]:
    """Call `hear` in a thread of its own with the number of each SIGINT and SIGTERM.

    The main thread is not suitable: it handles a signal that arrives at the start of a system call only after that
    call, and code in C may never return. The interpreter writes the number of each signal into a pipe at once.
    """
    heard = signal.SIGINT, signal.SIGTERM
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)  # a signal handler must not block

    def listen() -> None:
        with open(read_end, "rb", buffering=0) as pipe:
            while number := pipe.read(1):
                if number[0] in heard:
                    hear(number[0])

    listener = threading.Thread(target=listen, name="operad-signals", daemon=True)
    with _held_back(heard):  # a signal between these steps would be handled twice, or never
        fd_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        handlers_before = {number: signal.signal(number, _do_nothing) for number in heard}
    listener.start()
    try:
        yield
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(fd_before)
        os.close(write_end)
        listener.join(LONGEST_CALL)  # so that `hear` has returned before the interpreter shuts down


@contextmanager
def _held_back(numbers: Collection[int]) -> Generator[None, None, None]:
    """Hold signals back from this thread; Windows cannot."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_children(threads: Path = Path("/proc/self/task")) -> None:
    """Terminate the child processes of this process, such as a sandbox.

    On systems that do not list children under /proc, a sandbox ends at its own time limit.

    Args:
        threads: Folder with a subfolder for each thread, which lists the thread's children.
    """
    terminated: set[int] = set()
    while new := _children(threads) - terminated:  # repeats until no thread has started another child meanwhile
        for child in new:
            with suppress(OSError):  # the child has ended
                os.kill(child, signal.SIGTERM)
        terminated |= new


def _children(threads: Path) -> set[int]:
    found: set[int] = set()
    for children in threads.glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found.update(map(int, children.read_text().split()))
    return found


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing; a Python handler makes the interpreter write the signal's number into the pipe."""
