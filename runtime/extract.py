"""A file's content → passages with their places. Text is read as it is, documents through the extra ``documents``."""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import PurePath
from typing import Any

from operad.runtime.chunks import chunks
from operad.runtime.errors import InputError, MissingExtraError, describe
from operad.runtime.passage_index import IndexedPassage

MAX_UNPACKED_BYTES = 512 * 2**20
"""The largest that a packed document may become, in bytes."""

MAX_FILE_PASSAGES = 20_000
"""How many passages a file may have."""

_WITH_HEADINGS = {".md", ".markdown", ".mdx", ".rst", ".txt", ""}

_OLD = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
"""Formats of old, and those that took their place."""

_PACKED = {".docx", ".pptx", ".xlsx"}
_TABLES = {".csv", ".tsv"}

_DELIMITERS = ",;\t|"

_SLIDE = re.compile(r"^<!-- Slide number: (\d+) -->$", re.MULTILINE)

_pdfium = threading.Lock()
"""PDFium serves one thread at a time, whoever asks."""


def extract(data: bytes, name: str) -> list[IndexedPassage]:
    """The passages of a file.

    Args:
        data: Its content.
        name: Its name, which says what it is.

    Raises:
        InputError: It cannot be read; the message says why, without the name.
        MissingExtraError: A package is missing that such files need.
    """
    suffix = PurePath(name).suffix.lower()
    need_extra(suffix)
    reader = _READERS[suffix][0] if suffix in _READERS else _text
    try:
        passages = list(islice(reader(data, suffix), MAX_FILE_PASSAGES + 1))
    except (InputError, MissingExtraError):
        raise
    except Exception as error:  # a broken document makes its reader raise anything
        raise InputError(f"is no {suffix} file that can be read: {describe(error)[:300]}") from error
    if len(passages) > MAX_FILE_PASSAGES:
        raise InputError(f"has more than the {MAX_FILE_PASSAGES:,} passages that a file may have; split it")
    return passages


def is_foreign(start: bytes, name: str) -> str:
    """Why a file cannot be what its name says, by its first 1,024 bytes alone; empty where it may be."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _PACKED:
        return "" if start.startswith(b"PK") else f"is no {suffix} file that can be read"
    if suffix == ".pdf":
        return "" if b"%PDF-" in start else "is no .pdf file that can be read"
    is_text = suffix not in _READERS or suffix in _TABLES
    return _no_text(start, suffix) if is_text else ""


def need_extra(suffix: str) -> None:
    """Make sure that what reads such files is installed; nothing is imported.

    Raises:
        MissingExtraError: It is not.
    """
    needed = _READERS[suffix][1] if suffix in _READERS else ()
    if missing := [package for package in needed if find_spec(package) is None]:
        raise MissingExtraError(
            f"reading {suffix} files needs the package{'s' if missing[1:] else ''} {' and '.join(missing)}: "
            "pip install 'operad[documents]' (or leave such files out)"
        )


# Readers


def _text(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for chunk in chunks(_decoded(data, suffix), headings=suffix in _WITH_HEADINGS):
        yield IndexedPassage(chunk.text, f":{chunk.line}", chunk.heading)


def _csv(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    text = _decoded(data, suffix)
    first = text.lstrip().partition("\n")[0]
    delimiter = "\t" if suffix == ".tsv" else max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        table = _table(_lines_of(reader))
    except csv.Error:  # broken, it is text still
        yield from _text(data, suffix)
    else:
        for chunk, line in table:
            yield IndexedPassage(chunk, f":{line}")


def _lines_of(reader: Any) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows, each with the line that it begins at."""
    begins = 1
    for row in reader:
        yield begins, row
        begins = reader.line_num + 1


def _decoded(data: bytes, suffix: str) -> str:
    if what_to_do := _no_text(data, suffix):
        raise InputError(what_to_do)
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if suffix in _OLD:
            raise InputError(_old(suffix)) from error
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"is not UTF-8 text (byte {data[error.start]:#04x} in line {line}); "
            "convert it, for example with: iconv -f ITS-ENCODING -t UTF-8"
        ) from error


def _no_text(data: bytes, suffix: str) -> str:
    """Why this is no text, and what to do; empty where it may be."""
    if b"\0" not in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    if suffix in _OLD:
        return _old(suffix)
    return f"is not text; what is read: text in UTF-8, {', '.join(sorted(_READERS))}"


def _old(suffix: str) -> str:
    return f"is of an old format that is not read; save it as {_OLD[suffix]}"


def _docx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    _check_packed(data)
    for chunk in chunks(_markdown("DocxConverter", data)):
        yield IndexedPassage(chunk.text, "", chunk.heading)


def _html(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    for chunk in chunks(_markdown("HtmlConverter", data)):
        yield IndexedPassage(chunk.text, "", chunk.heading)


def _pptx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    _check_packed(data)
    _, *parts = _SLIDE.split(_markdown("PptxConverter", data))
    for number, slide in zip(parts[::2], parts[1::2], strict=True):
        for chunk in chunks(slide):
            yield IndexedPassage(chunk.text, f" slide {number}", chunk.heading)


def _markdown(converter: str, data: bytes) -> str:
    # The converter of this format, and no other: asked as a whole, markitdown takes a broken document for text.
    converters: Any = import_module("markitdown.converters")
    info = import_module("markitdown").StreamInfo()
    return str(getattr(converters, converter)().convert(io.BytesIO(data), info).markdown)


def _check_packed(data: bytes) -> None:
    """Look how large it becomes; what is unpacked later is no larger than its directory says."""
    import zipfile  # where it is needed: it takes as long to import as the rest of this

    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        unpacked = sum(entry.file_size for entry in packed.infolist())
    if unpacked > MAX_UNPACKED_BYTES:
        raise InputError(f"unpacks to {unpacked:,} bytes, more than the {MAX_UNPACKED_BYTES:,} that are read")


def _xlsx(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    _check_packed(data)
    openpyxl: Any = import_module("openpyxl")  # markitdown's own tables have 2.0 for 2, and NaN
    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    try:
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # what it says of its size may be anything
            rows: Iterator[Sequence[object]] = sheet.iter_rows(values_only=True)
            for chunk, row in _table(enumerate(rows, 1)):
                yield IndexedPassage(chunk, f" row {row}", sheet.title)
    finally:
        workbook.close()


def _table(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[tuple[str, int]]:
    """Numbered rows as a Markdown table, whose first row is the head: its pieces, and the rows that they begin at.

    All rows are looked at before it returns.
    """
    numbers: list[int] = []
    lines: list[str] = []
    for number, row in rows:
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            numbers.append(number)
            lines.append(f"| {' | '.join(cells)} |")
            if len(lines) == 1:
                numbers.append(number)
                lines.append("|" + "---|" * len(cells))
    return ((chunk.text, numbers[chunk.line - 1]) for chunk in chunks("\n".join(lines), headings=False))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return " ".join(str(value).split()).replace("|", "\\|")


def _pdf(data: bytes, suffix: str) -> Iterator[IndexedPassage]:
    pdfium: Any = import_module("pypdfium2")
    is_empty = True
    with _pdfium:
        document = pdfium.PdfDocument(data)
        try:
            texts = _page_texts(document)
            pages = list(islice(texts, MAX_FILE_PASSAGES + 1))
        finally:
            document.close()
    for number, page in enumerate(pages, 1):
        for chunk in chunks(page, headings=False):
            is_empty = False
            yield IndexedPassage(chunk.text, f" p.{number}")
    if is_empty:
        raise InputError("holds no text; are its pages pictures? Let a program for text recognition (OCR) at it first")


def _page_texts(document: Any) -> Iterator[str]:
    for number in range(len(document)):
        page = document[number]
        text = page.get_textpage()
        yield str(text.get_text_bounded())
        text.close()
        page.close()


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
"""By the name's end: what reads such files, and the packages that this takes."""
