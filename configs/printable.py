"""Text that is safe to print to a terminal."""

from __future__ import annotations

import re
import sys
from typing import TextIO

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that control a terminal: all control characters (C0, DEL, C1) except line breaks and tabs."""


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    text = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def harmless(text: str) -> str:
    """Return the text with control characters, except line breaks and tabs, escaped as in JSON."""
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text.replace("\r\n", "\n"))


def put(text: str, to: TextIO | None = None) -> None:
    """Print text of models or files to stdout or another stream; for a terminal, control characters are escaped."""
    stream = to or sys.stdout
    print(harmless(text) if stream.isatty() else text, file=stream)
