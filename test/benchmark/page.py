"""Write figures as Markdown between the marks of a page.

Tables stand between ``<!-- bench NAME -->`` and ``<!-- /bench NAME -->``; single figures of sentences between
``<!-- figure NAME -->`` and ``<!-- /figure -->``, in the READMEs and in any page of docs.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from rich.table import Table
from rich.text import Text


def machine() -> str:
    """Return a description of the machine."""
    return f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores."


def markdown(tables: Iterable[Table], command: str) -> str:
    """Return tables as Markdown, with the command that printed them, the date, the load average and the machine."""
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
    """Write a text between the marks of a name.

    Raises:
        SystemExit: The page has no such marks.
    """
    mark = f"bench {name}".strip()
    marked = re.compile(rf"(?<=<!-- {mark} -->\n).*(?=<!-- /{mark} -->)", re.DOTALL)
    written, found = marked.subn(lambda _: text, page.read_text(encoding="utf-8"))
    if not found:
        raise SystemExit(f"{page} has no <!-- {mark} --> and <!-- /{mark} -->")
    page.write_text(written, encoding="utf-8")


WORSE = 1.2
"""A new ratio counts as worse if it is higher than that on the page by this factor."""


def worsened(page: Path, text: str, name: str, ours: Collection[str]) -> list[str]:
    """Return the ratios of Operad that are higher by a fifth than those on the page.

    Args:
        page: The page, before the text is written into it.
        text: The new tables.
        name: The name of the marks.
        ours: First cells of the rows to compare.
    """
    _, _, below = page.read_text(encoding="utf-8").partition(f"<!-- bench {name} -->")
    was, now = (_ratios(each, ours) for each in (below.partition(f"<!-- /bench {name} -->")[0], text))
    return [
        f"{': '.join(where)}: {was[where]:.2f}x on {page.name}, {ratio:.2f}x now"
        for where, ratio in now.items()
        if where in was and ratio > WORSE * was[where]
    ]


def end(worse: Sequence[str]) -> None:
    """End with status 1 if a ratio is worse.

    Raises:
        SystemExit: A ratio is worse.
    """
    if worse:
        raise SystemExit("\n".join([f"worse than on the page by more than {WORSE - 1:.0%}:", *worse]))


def _ratios(text: str, ours: Collection[str]) -> dict[tuple[str, str, str], float]:
    """Return the ratios in tables, as in ``(1.52x)``, by title, row and column."""
    found: dict[tuple[str, str, str], float] = {}
    title, heads = "", list[str]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if line.startswith("**"):
            title, heads = line.strip("*"), []
        elif line.startswith("|") and not heads:
            heads = cells
        elif line.startswith("|") and cells[0] in ours:
            for head, cell in zip(heads[1:], cells[1:], strict=False):
                if ratio := re.search(r"([\d.]+)x", cell):
                    found[title, cells[0], head] = float(ratio[1])
    return found


def write_figures(figures: Mapping[str, str], root: Path = Path(__file__).parents[2]) -> None:
    """Write each figure between its marks in the READMEs and the pages of docs.

    Raises:
        SystemExit: A figure has no marks.
    """
    missing = set(figures)
    marked = re.compile(r"(<!-- figure ([\w.]+) -->).*?(<!-- /figure -->)")

    def replaced(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        missing.discard(name)
        return f"{begin}{figures[name]}{end}" if name in figures else match[0]

    for page in (*root.glob("README*.md"), *root.glob("docs/*.md")):
        text = page.read_text(encoding="utf-8")
        if (written := marked.sub(replaced, text)) != text:
            page.write_text(written, encoding="utf-8")
    if missing:
        raise SystemExit(f"no page has marks for {', '.join(sorted(missing))}")


def _plain(cell: object) -> str:
    return Text.from_markup(str(cell)).plain.replace("|", "\\|").replace("\n", " ")
