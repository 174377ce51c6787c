"""The log of a command: on stderr, as text or JSON lines."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import Annotated

import typer

from operad.configs.progress import printable
from operad.runtime.logs import JsonFormatter, RunFilter

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Level(str, Enum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[
    Level | None,
    typer.Option("--log-level", help="Log on stderr what happens in runs, from this level on.", case_sensitive=False),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON lines; by itself from level info on.")]


class _Lines(logging.Formatter):
    """Records as lines that a terminal only shows."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).splitlines()))


def set_up(level: Level | None, *, as_json: bool) -> None:
    """Have what this package logs, from that level on, and the warnings of others go to stderr; else all is as Python has it.

    Other packages' details are never logged: they hold headers and keys.

    Args:
        level: From which level on.
        as_json: Whether it is written as JSON lines.
    """
    if level is None and not as_json:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter() if as_json else _Lines(TEXT))
    wanted = level or Level.INFO
    logging.basicConfig(level="ERROR" if wanted is Level.ERROR else "WARNING", handlers=[handler], force=True)
    logging.getLogger("operad").setLevel(wanted.name)
