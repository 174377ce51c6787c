"""Process of the command: its standard streams and its garbage collection.

An error of stdout is told apart from other errors; errors of stderr are ignored.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Any, TextIO

from operad.runtime.values.text import harmless

# Number of new objects after which Python collects garbage, during and after imports. Objects that imports create are
# not garbage: collections after each 700 objects took a seventh of the start, and after each 50,000 still a fifteenth.
_IMPORT_THRESHOLD, _THRESHOLD = 150_000, 50_000


class StdoutError(OSError):
    """Stdout cannot be written: the disk is full, or it is closed."""


class _Stream(io.RawIOBase):
    """Stream that discards everything after the first failed write.

    Args:
        ignore: True to ignore the first error as well; otherwise it is raised.
    """

    mode = "wb"

    def __init__(self, raw: Any, *, ignore: bool) -> None:
        self._raw, self._ignore, self._failed = raw, ignore, False

    @property
    def name(self) -> Any:
        return getattr(self._raw, "name", None)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno()

    def write(self, data: Any, /) -> int | None:
        if not self._failed:
            try:
                return self._raw.write(data)
            except OSError as error:
                self._failed = True
                if isinstance(error, BrokenPipeError) and not self._ignore:
                    raise  # the reader has seen enough
                if not self._ignore:
                    raise StdoutError(error.errno, error.strerror) from error
        return memoryview(data).nbytes


def guard() -> None:
    """Replace the streams of this process, also those that were closed before it started."""
    sys.stdout = _guarded(sys.stdout, 1, os.O_RDONLY, ignore=False)
    sys.stderr = _guarded(sys.stderr, 2, os.O_WRONLY, ignore=True)


def _guarded(stream: Any, number: int, mode: int, *, ignore: bool) -> Any:
    if stream is None:  # no other file may get this number; one that is open for reading cannot be written
        null = os.open(os.devnull, mode)
        if null != number:
            os.dup2(null, number)
        raw = _Stream(io.FileIO(number, "w", closefd=False), ignore=ignore)
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    raw = _Stream(getattr(stream.buffer, "raw", stream.buffer), ignore=ignore)
    has_buffer = hasattr(stream.buffer, "raw")  # not with python -u
    buffer: Any = io.BufferedWriter(raw) if has_buffer else raw
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=not has_buffer,
    )


def imports_begin() -> None:
    """Collect garbage less often, until `imports_done`."""
    gc.set_threshold(_IMPORT_THRESHOLD)


def imports_done() -> None:
    """Exclude the objects that the command's imports created from garbage collection."""
    if gc.get_threshold()[0] == _IMPORT_THRESHOLD:  # unchanged in other programs that import a command
        gc.freeze()
        gc.set_threshold(_THRESHOLD)


def put(text: str, to: TextIO | None = None) -> None:
    """Print text of models or files to stdout or another stream; for a terminal, control characters are escaped."""
    stream = to or sys.stdout
    print(harmless(text) if stream.isatty() else text, file=stream)
