"""The log of a command: on stderr, as text or JSON lines."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TextIO

from operad.runtime.observe.logs import JsonFormatter, RunFilter
from operad.runtime.values.text import printable

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _LineFormatter(logging.Formatter):
    """Formatter of records as lines without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).splitlines()))


def set_up(level: str, *, as_json: bool) -> None:
    """Write the log of this package, and the warnings of other packages, to stderr.

    Details of other packages are never logged, as they contain headers and keys.

    Args:
        level: The least level of records of this package, such as ``INFO``.
        as_json: True if records are written as JSON lines.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter() if as_json else _LineFormatter(TEXT))
    logging.basicConfig(level="ERROR" if level == "ERROR" else "WARNING", handlers=[handler], force=True)
    logging.getLogger("operad").setLevel(level)


_MOST_LINES = 10_000
"""Maximum number of lines that wait to be written; further ones are dropped and counted."""

_LAST_SECONDS = 1.0
"""Maximum time for the last lines to be written at the end, in seconds."""


class ServerLog(logging.Handler):
    """Log of a server on stderr: its own lines and log records, written by a thread of its own; a context manager.

    A paused terminal or an unread pipe would otherwise hold up the server in the middle of a request.
    Without ``--log-level`` and ``--log-json``, the log has the requests, and warnings.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write_lines, name="operad-log", daemon=True)
        self._undo = ExitStack()

    def __enter__(self) -> ServerLog:
        root, access = logging.getLogger(), logging.getLogger("operad.access")
        given: list[logging.Handler] = [each for each in root.handlers if type(each) is logging.StreamHandler]  # pyright: ignore[reportUnknownVariableType]
        self.addFilter(RunFilter())
        self.setFormatter(given[0].formatter if given else _LineFormatter(TEXT))
        for handler in given:
            root.removeHandler(handler)
            self._undo.callback(root.addHandler, handler)
        root.addHandler(self)
        self._undo.callback(root.removeHandler, self)
        if not given:
            self._undo.callback(access.setLevel, access.level)
            access.setLevel(logging.INFO)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(_LAST_SECONDS)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.put(self.format(record))

    def put(self, line: str) -> None:
        """Write a line, unless too many wait."""
        lost = self._lost
        notice = f"{lost} lines of the log were dropped, because stderr was not read in time\n" if lost else ""
        try:
            self._lines.put_nowait(f"{notice}{line}")
            self._lost -= lost
        except queue.Full:
            self._lost += 1

    def _write_lines(self) -> None:
        if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - None if the process was started without one
            return
        write = _writer(sys.stderr)
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):  # stderr is closed
                write(f"{line}\n")


def _writer(stream: TextIO) -> Callable[[str], object]:
    """Return a function that writes to a stream past its buffer, whose lock would hold up others that print."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # not a file
        return stream.write

    def write(text: str) -> None:
        rest = text.encode(errors="backslashreplace")
        while rest:
            rest = rest[os.write(number, rest) :]

    return write
