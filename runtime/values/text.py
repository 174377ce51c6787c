"""Texts shortened for errors, tables and prompts."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """Return a text; if it has more than `most` characters, its beginning and an ellipsis, `most` characters in all."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short_line(text: str, most: int) -> str:
    """Return a text on one line, shortened to `most` characters."""
    return shortened(" ".join(text.split()), most)
