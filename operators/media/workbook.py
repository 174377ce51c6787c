"""Program for workbooks: Markdown on stdin, an Excel workbook on stdout. `markdown` runs it as a child process.

Each table of the text becomes a sheet, named after the heading above it. The program imports nothing of this package,
so that it starts fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markdown_it.token import Token

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
"""Pattern of cells that are numbers; ``007`` and ``1,000`` remain texts."""

LONGEST_CELL = 32_767
"""Excel's limit for the length of a cell, in characters."""
LONGEST_TITLE = 31
"""Excel's limit for the length of a sheet's name, in characters."""


class Table(NamedTuple):
    """Table of a Markdown text.

    Attributes:
        title: Heading above the table; empty if there is none.
        rows: Texts of the cells, by row; the header is the first row.
    """

    title: str
    rows: Sequence[Sequence[str]]


def main() -> None:
    """Read ``{"text"}`` as JSON, and write the workbook; on an error, exit with a message."""
    import json

    request = json.load(sys.stdin.buffer)
    tables = list(tables_of(request["text"]))
    if not tables:
        sys.exit("the text has no table; write one as | a | b | with a line |---|---| below its header")
    book(tables).save(sys.stdout.buffer)


def tables_of(text: str) -> Iterator[Table]:
    """Yield the tables of a Markdown text.

    Args:
        text: GitHub-flavoured Markdown.
    """
    from markdown_it import MarkdownIt

    title, rows, before = "", list[list[str]](), ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        match token.type:
            case "inline" if before == "heading_open":
                title = plain(token)
            case "inline" if before in ("th_open", "td_open"):
                rows[-1].append(plain(token))
            case "tr_open":
                rows.append([])
            case "table_close":
                yield Table(title, rows)
                rows = []
            case _:
                pass
        before = token.type


def plain(token: Token) -> str:
    """Return the text of a heading or a cell, without markup."""
    parts: list[str] = []
    for each in token.children or ():
        line_break = each.type in ("softbreak", "hardbreak") or each.content.lower().startswith("<br")
        parts.append("\n" if line_break else each.content)
    return "".join(parts).strip()


def book(tables: Sequence[Table]) -> Any:
    """Return a workbook with a sheet for each table."""
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Font

    workbook = Workbook()
    workbook.remove(workbook.worksheets[0])
    for number, table in enumerate(tables, 1):
        sheet = workbook.create_sheet(sheet_title(table.title, number))
        for row, cells in enumerate(table.rows, 1):
            for column, text in enumerate(cells, 1):
                cell = sheet.cell(row, column)
                cell.value = value_of(ILLEGAL_CHARACTERS_RE.sub("", text)[:LONGEST_CELL])
                if cell.data_type == "f":  # a text that begins with = must not become a formula
                    cell.data_type = "s"
                if row == 1:
                    cell.font = Font(bold=True)
        sheet.freeze_panes = "A2"
    return workbook


def sheet_title(heading: str, number: int) -> str:
    """Return a name for a sheet; openpyxl adds a number if the name is taken.

    Args:
        heading: The heading above the table.
        number: Number of the table, counted from 1.
    """
    name = re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", heading).strip(" '")
    return name[: LONGEST_TITLE - 3] or f"Table {number}"


def value_of(text: str) -> str | int | float:
    """Return the value of a cell: a number, or its text."""
    if not NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


if __name__ == "__main__":
    main()
