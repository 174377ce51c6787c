"""Tables of records at a terminal, or columns in a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operad.runtime.values.text import printable


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[int, Sequence[str]] | None = None
) -> None:
    """Print a table, or, if stdout is not a terminal, columns separated by spaces, without wrapping.

    Args:
        rows: The cells, row by row.
        styles: Styles of cells by row, for some columns, by the number of the column.
    """
    console = Console()
    cells = [[printable(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
            print("  ".join(padded).rstrip())
        return
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0, overflow="fold")
    for number, row in enumerate(cells):
        style = {place: named[number] for place, named in (styles or {}).items()}
        table.add_row(*(Text(cell, style=style.get(place, "")) for place, cell in enumerate(row)))
    console.print(table)


def local_time(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time for people, in this machine's time zone; a question mark if it is not valid."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"
