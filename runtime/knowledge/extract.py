"""Extraction of passages with their places from files; documents require the extra ``documents``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import PurePath

from operad.runtime.knowledge.chunks import chunks
from operad.runtime.knowledge.passage_index import IndexedPassage
from operad.runtime.knowledge.reader_process import LIMITS, ReadingLimits, read
from operad.runtime.knowledge.readers import (
    check_packed,
    csv_rows,
    decoded,
    markdown,
    not_text,
    pages,
    sheets,
    slides,
    table_lines,
)
from operad.runtime.values.errors import InputError, MissingExtraError

MAX_FILE_PASSAGES = 20_000
"""Maximum number of passages of a file."""

_WITH_HEADINGS = {".md", ".markdown", ".mdx", ".rst", ".txt", ""}
"""Suffixes of text files with headings; in other files, such as code, lines like headings have other meanings."""

_PACKED = {".docx", ".pptx", ".xlsx"}
_TABLES = {".csv", ".tsv"}


def extract(data: bytes, name: str, limits: ReadingLimits = LIMITS) -> list[IndexedPassage]:
    """Return the passages of a file; documents are read in a limited process.

    Args:
        data: Content of the file.
        name: Name of the file, whose suffix determines the format.
        limits: Limits of reading a document.

    Raises:
        InputError: The file cannot be read, or not within the limits; the message gives the reason, without the name.
        MissingExtraError: A package that the format needs is not installed.
    """
    suffix = PurePath(name).suffix.lower()
    modules = need_extra(suffix)
    if suffix not in _READERS:
        return passages_of(data, suffix)
    return read(
        passages_of,
        data,
        suffix,
        answer=list[IndexedPassage],
        what=f"{suffix} file",
        modules=modules,
        limits=limits,
    )


def passages_of(data: bytes, suffix: str) -> list[IndexedPassage]:
    """Return the passages of a file, read in this process.

    Raises:
        InputError: The file cannot be read; other errors are possible, too.
    """
    reader = _READERS[suffix][0] if suffix in _READERS else _text
    passages = list(islice(reader(data, suffix), MAX_FILE_PASSAGES + 1))
    if len(passages) > MAX_FILE_PASSAGES:
        raise InputError(f"has more than the maximum of {MAX_FILE_PASSAGES:,} passages; split it")
    return passages


def is_foreign(start: bytes, name: str) -> str:
    """Return the reason for which the first 1,024 bytes of a file contradict its suffix; empty if they do not."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _PACKED:
        return "" if start.startswith(b"PK") else f"cannot be read as a {suffix} file"
    if suffix == ".pdf":
        return "" if b"%PDF-" in start else "cannot be read as a .pdf file"
    is_text = suffix not in _READERS or suffix in _TABLES
    return not_text(start, suffix, sorted(_READERS)) if is_text else ""


def need_extra(suffix: str) -> tuple[str, ...]:
    """Return the packages for reading files with a suffix, after a check that they are installed; nothing is imported.

    Raises:
        MissingExtraError: A package is not installed.
    """
    needed = _READERS[suffix][1] if suffix in _READERS else ()
    if missing := [package for package in needed if find_spec(package) is None]:
        raise MissingExtraError(
            f"reading {suffix} files needs the package{'s' if missing[1:] else ''} {' and '.join(missing)}: "
            "pip install 'operad[documents]' (or leave such files out)"
        )
    return needed


# Readers


def _text(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for chunk in chunks(decoded(data, suffix, sorted(_READERS)), headings=suffix in _WITH_HEADINGS):
        yield IndexedPassage(chunk.text, f":{chunk.line}", chunk.heading)


def _csv(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    text = decoded(data, suffix, sorted(_READERS))
    try:
        table = _table(csv_rows(text, suffix))
    except csv.Error:  # a broken table is read as text
        yield from _text(data, suffix)
    else:
        for chunk, line in table:
            yield IndexedPassage(chunk, f":{line}")


def _docx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    check_packed(data)
    for chunk in chunks(markdown("DocxConverter", data)):
        yield IndexedPassage(chunk.text, "", chunk.heading)


def _html(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for chunk in chunks(markdown("HtmlConverter", data)):
        yield IndexedPassage(chunk.text, "", chunk.heading)


def _pptx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for number, slide in slides(data):
        for chunk in chunks(slide):
            yield IndexedPassage(chunk.text, f" slide {number}", chunk.heading)


def _xlsx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for title, rows in sheets(data):
        for chunk, row in _table(rows):
            yield IndexedPassage(chunk, f" row {row}", title)


def _table(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[tuple[str, int]]:
    """Return an iterator over the pieces of a table and the numbers of their first rows. All rows are read at once."""
    lines = list(table_lines(rows))
    text = "\n".join(line for _, line in lines)
    return ((chunk.text, lines[chunk.line - 1][0]) for chunk in chunks(text, headings=False))


def _pdf(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for number, page in enumerate(pages(data), 1):
        for chunk in chunks(page, headings=False):
            yield IndexedPassage(chunk.text, f" p.{number}")


_Reader = Callable[[bytes, str], Iterator[IndexedPassage]]
_READERS: Mapping[str, tuple[_Reader, tuple[str, ...]]] = {
    ".csv": (_csv, ()),
    ".docx": (_docx, ("markitdown", "mammoth")),
    ".htm": (_html, ("markitdown",)),
    ".html": (_html, ("markitdown",)),
    ".pdf": (_pdf, ("pypdfium2",)),
    ".pptx": (_pptx, ("markitdown", "pptx")),
    ".tsv": (_csv, ()),
    ".xlsx": (_xlsx, ("openpyxl",)),
}
"""Reader and required packages of each file suffix."""
