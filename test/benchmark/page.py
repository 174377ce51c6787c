"""Figures as Markdown, put where a page has marks for them: ``<!-- bench NAME -->`` to ``<!-- /bench NAME -->``."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from rich.table import Table
from rich.text import Text


def machine() -> str:
    """What was measured on."""
    return f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores."


def markdown(tables: Iterable[Table], command: str) -> str:
    """Tables of the terminal as Markdown, with the command that printed them, the day, how busy the machine was, and which it is."""
    parts: list[str] = []
    for table in tables:
        heads = [Text.from_markup(str(column.header)).plain for column in table.columns]
        rows = list(zip(*(map(_plain, column.cells) for column in table.columns), strict=True))
        aligned = ["---" if number == 0 else "---:" for number in range(len(heads))]
        lines = [f"| {' | '.join(cells)} |" for cells in (heads, aligned, *rows)]
        parts += [*([f"**{table.title}**", ""] if table.title else []), *lines, ""]
    measured = f"{date.today():%d %B %Y}, load average {os.getloadavg()[0]:.1f}"
    return "\n".join([*parts, f"`{command}`, {measured}. {machine()}", ""])


def write_into(page: Path, text: str, name: str = "") -> None:
    """Put a text between the marks of that name.

    Raises:
        SystemExit: The page has no such marks.
    """
    mark = f"bench {name}".strip()
    marked = re.compile(rf"(?<=<!-- {mark} -->\n).*(?=<!-- /{mark} -->)", re.DOTALL)
    written, found = marked.subn(lambda _: text, page.read_text(encoding="utf-8"))
    if not found:
        raise SystemExit(f"{page} has no <!-- {mark} --> and <!-- /{mark} -->")
    page.write_text(written, encoding="utf-8")


def _plain(cell: object) -> str:
    return Text.from_markup(str(cell)).plain.replace("|", "\\|").replace("\n", " ")
