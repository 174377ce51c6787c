"""Ctrl-C as an exception, for work that ends in order."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def ctrl_c_raises() -> Generator[None, None, None]:
    """Have Ctrl-C raise KeyboardInterrupt in here; elsewhere it ends the command at once (`entry`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
