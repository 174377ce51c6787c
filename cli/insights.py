"""`operad insights`: list and remove the insights that runs have learned."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operad.cli.columns import local_time
from operad.runtime.knowledge.insights import Insights, KeptInsight
from operad.runtime.values.errors import InputError
from operad.runtime.values.text import printable, short_line

LONGEST_TEXT = 300
"""Maximum number of characters of an insight in the table."""
LONGEST_ABOUT = 100
"""Maximum number of characters of the job that an insight was learned from."""


def insights(
    file: Annotated[Path, typer.Argument(help="The file of insights.")],
    forget: Annotated[list[str] | None, typer.Option(help="Remove the insight with this key. Repeatable.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them in full, as JSON.")] = False,
) -> None:
    """List the insights in a file, or remove some of them.

    Exit status: 0, or 2 if it is not a file of insights, or has no insight with the key.
    """
    if clear and forget:
        raise InputError("--clear removes all insights: leave --forget out")
    kept = _remaining(file, forget or (), clear=clear)
    if as_json:
        print(json.dumps([{**asdict(entry), "useless": entry.useless} for entry in kept], indent=2))
    elif kept:
        Console().print(table(kept))
    else:
        print(f"{printable(str(file))}: no insights")


def table(kept: Iterable[KeptInsight]) -> Table:
    """Return a table of insights, shortened, and with control characters escaped."""
    table = Table(box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    for column in ("operator", "insight", "learned from"):
        table.add_column(column, overflow="fold")
    table.add_column("helped")
    table.add_column("last seen", no_wrap=True)
    for entry in kept:
        cells = (
            entry.key,
            entry.label,
            short_line(entry.text, LONGEST_TEXT),
            short_line(entry.about, LONGEST_ABOUT),
            f"{entry.helped} of {entry.used}{', not shown' if entry.useless else ''}",
            local_time(entry.seen, "%Y-%m-%d"),
        )
        table.add_row(*(Text(printable(text)) for text in cells), style="dim" if entry.useless else None)
    return table


def _remaining(file: Path, forget: Iterable[str], *, clear: bool) -> list[KeptInsight]:
    if not file.expanduser().is_file():
        raise InputError(
            f"{file}: there is no such file; `env: {{insights: …}}` or Insights(…) says where insights are kept"
        )
    if not file.expanduser().stat().st_size:
        raise InputError(f"{file}: is empty, and no store of insights")
    store = Insights(file)
    try:
        if clear:
            store.clear()
        else:
            store.forget(*forget)
        return store.entries()
    finally:
        store.close()
