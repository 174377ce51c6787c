"""Text of files, by format: rows, slides, sheets, pages.

Packages for formats belong to the extra ``documents``, and are imported where they are used. For a broken document,
readers may raise any error, and for a hostile one, take any time and memory: `reader_process` limits them.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from importlib import import_module
from itertools import islice
from typing import Any

from operad.runtime.values.errors import InputError

MAX_UNPACKED_BYTES = 128 * 2**20
"""Maximum size of an unpacked document, in bytes."""

MAX_PARTS = 10_000
"""Maximum number of files in a packed document."""

MAX_TABLE_SIZE = 20_000_000
"""Maximum total size of the sheets of a workbook: its characters, plus one per cell and ten per row, even if empty."""

MAX_PAGES = 20_000
"""Maximum number of pages of a PDF that are read."""

OLD_FORMATS = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
"""Suffixes of old formats, with those of their successors."""

_DELIMITERS = ",;\t|"

_SLIDE = re.compile(r"^<!-- Slide number: (\d+) -->$", re.MULTILINE)

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of files in old formats, and of encrypted files in new formats."""


# Text


def decoded(data: bytes, suffix: str, known: Iterable[str] = ()) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark.

    Args:
        known: Suffixes of other files that can be read, for the error.

    Raises:
        InputError: The content is not such a text; the message gives a remedy.
    """
    if problem := not_text(data, suffix, known):
        raise InputError(problem)
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if suffix in OLD_FORMATS:
            raise InputError(_old_format_message(suffix)) from error
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"is not UTF-8 text (byte {data[error.start]:#04x} in line {line}); "
            "convert it, for example with: iconv -f ITS-ENCODING -t UTF-8"
        ) from error


def not_text(data: bytes, suffix: str, known: Iterable[str] = ()) -> str:
    """Return the reason for which a content is not text, with a remedy; empty if it may be text."""
    if b"\0" not in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    if suffix in OLD_FORMATS:
        return _old_format_message(suffix)
    return f"is not text; supported are: {', '.join(['text in UTF-8', *known])}"


def _old_format_message(suffix: str) -> str:
    return f"is of an old format that is not read; save it as {OLD_FORMATS[suffix]}"


# Tables


def csv_rows(text: str, suffix: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the rows of a .csv or .tsv file, each with the number of its first line.

    Raises:
        csv.Error: The file is broken.
    """
    first = text.lstrip().partition("\n")[0]
    delimiter = "\t" if suffix == ".tsv" else max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first_line = 1
    for row in reader:
        yield first_line, row
        first_line = reader.line_num + 1


def sheets(data: bytes) -> Iterator[tuple[str, Iterator[tuple[int, Sequence[object]]]]]:
    """Yield title and numbered rows of each sheet of an .xlsx file; the rows must be read before the next sheet.

    Raises:
        InputError: The sheets are larger than `MAX_TABLE_SIZE`; a few bytes of a file may stand for millions of cells.
    """
    check_packed(data)
    size = 0

    def bounded(rows: Iterable[Sequence[object]]) -> Iterator[tuple[int, Sequence[object]]]:
        nonlocal size
        for number, row in enumerate(rows, 1):
            size += 10 + len(row) + sum(len(value) for value in row if isinstance(value, str))
            if size > MAX_TABLE_SIZE:
                raise InputError(
                    f"is larger than the maximum of {MAX_TABLE_SIZE:,} rows, cells and characters; "
                    "cut out the relevant part"
                )
            yield number, row

    openpyxl: Any = import_module("openpyxl")  # not markitdown, whose tables have 2.0 for 2, and NaN
    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    try:
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # the stated size cannot be trusted
            rows: Iterator[Sequence[object]] = sheet.iter_rows(values_only=True)
            yield sheet.title, bounded(rows)
    finally:
        workbook.close()


def table_lines(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Markdown table of numbered rows, each with its row number; the first row is the head."""
    is_head = True
    for number, row in rows:
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, f"| {' | '.join(cells)} |"
            if is_head:
                is_head = False
                yield number, "|" + "---|" * len(cells)


def _cell(value: object) -> str:
    """Return the text of a cell for a Markdown table."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return " ".join(str(value).split()).replace("|", "\\|")


# Documents


def markdown(converter: str, data: bytes) -> str:
    """Return a document as Markdown, by one of markitdown's converters, such as ``HtmlConverter``."""
    if converter == "HtmlConverter":
        data = _escape_unclosed(data)
    # Only the converter of this format: the class MarkItDown would read a broken document as text.
    converters: Any = import_module("markitdown.converters")
    info = import_module("markitdown").StreamInfo()
    return str(getattr(converters, converter)().convert(io.BytesIO(data), info).markdown)


def _escape_unclosed(html: bytes) -> bytes:
    """Return HTML with each unclosed ``<`` escaped: for each, Python's parser would search all of the rest."""
    for mark, end in ((b"<!--", b"-->"), (b"<", b">")):
        at = html.rfind(end) + 1
        html = html[:at] + html[at:].replace(mark, b"&lt;" + mark[1:])
    return html


def slides(data: bytes) -> Iterator[tuple[str, str]]:
    """Return number and Markdown of each slide of a .pptx file."""
    check_packed(data)
    _, *parts = _SLIDE.split(markdown("PptxConverter", data))
    return zip(parts[::2], parts[1::2], strict=True)


def pages(data: bytes) -> list[str]:
    """Return the text of each page of a PDF.

    Raises:
        InputError: The file needs a password, or none of its pages has text.
    """
    pdfium: Any = import_module("pypdfium2")
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise InputError("is encrypted with a password; save it without one") from error
        raise
    try:
        texts = list(islice(_page_texts(document), MAX_PAGES))
    finally:
        document.close()
    if not any(text.strip() for text in texts):
        raise InputError(
            f"holds no text, for its {len(texts):,} page{'s' if texts[1:] else ''} "
            f"{'are pictures' if texts[1:] else 'is a picture'} or empty, as in a scan; "
            "run text recognition (OCR) on it first, for example: ocrmypdf IN.pdf OUT.pdf"
        )
    return texts


def _page_texts(document: Any) -> Iterator[str]:
    for number in range(len(document)):
        page = document[number]
        text = page.get_textpage()
        yield str(text.get_text_bounded())
        text.close()
        page.close()


def check_packed(data: bytes) -> None:
    """Check the size, number and packing of the parts of a packed document, by its directory.

    Raises:
        InputError: The document is too large, has too many parts, is encrypted, or is packed by another method than
            deflate.
    """
    import zipfile  # imported late, because the import is slow

    if data.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") in data:
        raise InputError("is encrypted with a password; save it without one")
    if data.count(b"PK\1\2") > MAX_PARTS:  # checked first: a long list is costly by itself
        raise InputError(f"holds more than the maximum of {MAX_PARTS:,} files")
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        unpacked = sum(entry.file_size for entry in packed.infolist())
        if unpacked > MAX_UNPACKED_BYTES:
            raise InputError(f"unpacks to {unpacked:,} bytes, more than the maximum of {MAX_UNPACKED_BYTES:,}")
        for entry in packed.infolist():
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(
                    f"packs its {entry.filename} by a method that office programs do not use; save it again"
                )
