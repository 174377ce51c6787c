"""The log of a command: on stderr, as text or JSON lines."""

from __future__ import annotations

import logging
import sys

from operad.configs.printable import printable
from operad.runtime.observe.logs import JsonFormatter, RunFilter

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
