"""Texts shortened or fenced for errors, tables and prompts, texts that are safe to print, and texts in UTF-8."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

BACKTICKS = re.compile(r"`{3,}")
"""Fences in a text."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that control a terminal: all control characters (C0, DEL, C1) except line breaks and tabs."""


def shortened(text: str, most: int) -> str:
    """Return a text; if it has more than `most` characters, its beginning and an ellipsis, `most` characters in all."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short_line(text: str, most: int) -> str:
    """Return a text on one line, shortened to `most` characters."""
    return shortened(" ".join(text.split()), most)


def whole(value: Any) -> Any:
    """Return a value whose texts, at any depth, can be encoded in UTF-8.

    JSON may contain halves of surrogate pairs. Two halves in sequence become their character, others U+FFFD. Tuples
    become lists.
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, Mapping):
        return {whole(name): whole(item) for name, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [whole(item) for item in cast("Sequence[Any]", value)]
    return value


def fence(text: str) -> str:
    """Return the text in a fence with more backticks than the text has in a row."""
    longest = max((len(run) for run in BACKTICKS.findall(text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}\n{text.strip()}\n{ticks}"


def cut(text: str, most: int) -> str:
    """Return the text, cut to `most` characters with a note on the missing length."""
    return text if len(text) <= most else f"{text[:most]}\n[… cut: {len(text) - most:,} more characters]"


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    text = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def harmless(text: str) -> str:
    """Return the text with control characters, except line breaks and tabs, escaped as in JSON."""
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text.replace("\r\n", "\n"))
