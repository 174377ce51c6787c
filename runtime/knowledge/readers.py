"""A file's content → its text, as its format has it: rows, slides, sheets, pages. Shared by all that read files.

What a format needs beyond Python is the extra ``documents``; it is imported where it is used. A broken document makes
its reader raise anything.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from datetime import date, datetime, time
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

MAX_UNPACKED_BYTES = 128 * 2**20
"""The largest that a packed document may become, in bytes."""

_PIECE = 2**16
"""Bytes that are unpacked at a time."""

MAX_PARTS = 10_000
"""Maximum number of files a packed document may hold."""

MAX_TAGS = 1_000_000
"""Maximum number of tags a document may have: their readers take a minute for so many, and memory for each."""

MAX_NESTED = 500
"""Maximum nesting of the elements of a packed document."""

MAX_TABLE_SIZE = 20_000_000
"""Maximum total size of a workbook's sheets: characters, one per cell and ten per row, empty or not."""

MAX_PAGES = 20_000
"""Maximum number of pages of a PDF that are read."""

OLD_FORMATS = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
"""Formats of old, and those that took their place."""

_DELIMITERS = ",;\t|"

_SLIDE = re.compile(r"^<!-- Slide number: (\d+) -->$", re.MULTILINE)

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of old formats, and of new ones that are encrypted."""

_pdfium = threading.Lock()
"""Lock of PDFium, which is not thread-safe."""


# Text


def decoded(data: bytes, suffix: str, known: Iterable[str] = ()) -> str:
    """Text in UTF-8, or in UTF-16 with its mark.

    Args:
        data: The content.
        suffix: The end of the file's name.
        known: What else is read, for the message.

    Raises:
        InputError: It is something else; the message says what to do.
    """
    if what_to_do := not_text(data, suffix, known):
        raise InputError(what_to_do)
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if suffix in OLD_FORMATS:
            raise InputError(_old(suffix)) from error
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"is not UTF-8 text (byte {data[error.start]:#04x} in line {line}); "
            "convert it, for example with: iconv -f ITS-ENCODING -t UTF-8"
        ) from error


def not_text(data: bytes, suffix: str, known: Iterable[str] = ()) -> str:
    """Return the reason for which data is not text, with a remedy; empty if it may be text."""
    if b"\0" not in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    if suffix in OLD_FORMATS:
        return _old(suffix)
    return f"is not text; what is read: {', '.join(['text in UTF-8', *known])}"


def _old(suffix: str) -> str:
    return f"is of an old format that is not read; save it as {OLD_FORMATS[suffix]}"


# Tables


def csv_rows(text: str, suffix: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows of a .csv or .tsv file, each with the line that it begins at.

    Raises:
        csv.Error: It is broken.
    """
    first = text.lstrip().partition("\n")[0]
    delimiter = "\t" if suffix == ".tsv" else max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begins = 1
    for row in reader:
        yield begins, row
        begins = reader.line_num + 1


def sheets(data: bytes) -> Iterator[tuple[str, Iterator[tuple[int, Sequence[object]]]]]:
    """The sheets of an .xlsx file: title, and numbered rows, which are to be read before the next sheet.

    Raises:
        InputError: They are larger than `MAX_TABLE_SIZE`: a few bytes may stand for rows and cells without end.
    """
    check_packed(data, streamed=("xl/worksheets/", "xl/sharedStrings.xml"))
    size = 0

    def bounded(rows: Iterable[Sequence[object]]) -> Iterator[tuple[int, Sequence[object]]]:
        nonlocal size
        for number, row in enumerate(rows, 1):
            size += 10 + len(row) + sum(len(value) for value in row if isinstance(value, str))
            if size > MAX_TABLE_SIZE:
                raise InputError(
                    f"is larger than the {MAX_TABLE_SIZE:,} rows, cells and characters that are read; "
                    "cut out the part that matters"
                )
            yield number, row

    openpyxl: Any = import_module("openpyxl")  # markitdown's own tables have 2.0 for 2, and NaN
    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    try:
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # the stated size cannot be trusted
            rows: Iterator[Sequence[object]] = sheet.iter_rows(values_only=True)
            yield sheet.title, bounded(rows)
    finally:
        workbook.close()


def table_lines(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[tuple[int, str]]:
    """Numbered rows as a Markdown table, whose first row is the head: its lines, each with the row that it is from."""
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
    """A document as Markdown, by one of markitdown's converters, such as ``HtmlConverter``.

    Raises:
        InputError: It has more than `MAX_TAGS`.
    """
    _check_tags(data.count(b"<"))
    if converter == "HtmlConverter":
        data = _closed(data)
    # The converter of this format, and no other: asked as a whole, markitdown takes a broken document for text.
    converters: Any = import_module("markitdown.converters")
    info = import_module("markitdown").StreamInfo()
    return str(getattr(converters, converter)().convert(io.BytesIO(data), info).markdown)


def _closed(html: bytes) -> bytes:
    """HTML in which what is never closed is text: of each such ``<``, Python's parser looks at all that follows."""
    for mark, end in ((b"<!--", b"-->"), (b"<", b">")):
        at = html.rfind(end) + 1
        html = html[:at] + html[at:].replace(mark, b"&lt;" + mark[1:])
    return html


def slides(data: bytes) -> Iterator[tuple[str, str]]:
    """The slides of a .pptx file: number, and Markdown."""
    check_packed(data)
    _, *parts = _SLIDE.split(markdown("PptxConverter", data))
    return zip(parts[::2], parts[1::2], strict=True)


def pages(data: bytes) -> list[str]:
    """The text of a PDF's pages.

    Raises:
        InputError: It needs a password, or none of its pages has text.
    """
    pdfium: Any = import_module("pypdfium2")
    with _pdfium:
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
            "let a program for text recognition (OCR) at it first, for example: ocrmypdf IN.pdf OUT.pdf"
        )
    return texts


def _page_texts(document: Any) -> Iterator[str]:
    for number in range(len(document)):
        page = document[number]
        text = page.get_textpage()
        yield str(text.get_text_bounded())
        text.close()
        page.close()


def check_packed(data: bytes, streamed: tuple[str, ...] = ()) -> None:
    """Unpack a packed document once, piece by piece, and check the size, tags and nesting of its parts.

    The readers that follow trust the directory of the zip file, so each part must have the size that it states there.

    Args:
        data: The document.
        streamed: How names begin of parts that are read piece by piece, whose tags and nesting cost nothing.

    Raises:
        InputError: Too large, of too many parts or tags, nested too deep, encrypted, packed by another method than
            deflate, or of parts that are larger than the directory states.
    """
    import zipfile  # imported late: it takes as long to import as the rest of this

    if data.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") in data:
        raise InputError("is encrypted with a password; save it without one")
    if data.count(b"PK\1\2") > MAX_PARTS:  # the list of them is large enough to be a burden by itself
        raise InputError(f"holds more than the {MAX_PARTS:,} files that are unpacked")
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        unpacked = sum(entry.file_size for entry in packed.infolist())
        if unpacked > MAX_UNPACKED_BYTES:
            raise InputError(f"unpacks to {unpacked:,} bytes, more than the {MAX_UNPACKED_BYTES:,} that are read")
        tags = 0
        for entry in packed.infolist():
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a bound
                raise InputError(f"packs its {entry.filename} by a method that no office program uses; save it anew")
            if entry.filename.startswith(streamed):
                for _ in _pieces(packed, entry):
                    pass
                continue
            nesting = _Nesting(entry.filename)
            for piece in _pieces(packed, entry):
                tags += piece.count(b"<")
                _check_tags(tags)
                nesting.feed(piece)
            nesting.close()


def _pieces(packed: ZipFile, entry: ZipInfo) -> Iterator[bytes]:
    """The content of a part, a piece at a time; at most as much as the directory states.

    Raises:
        InputError: There is more.
    """
    stated, size = entry.file_size, 0
    whole = copy(entry)
    whole.file_size = MAX_UNPACKED_BYTES + 1  # zipfile would unpack everything and return what the directory states
    with packed.open(whole) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > stated:
                raise InputError(
                    f"is not a sound document: its {entry.filename} is larger than the {stated:,} bytes that its "
                    "directory states; save it anew with the program that made it"
                )
            yield piece


def _check_tags(tags: int) -> None:
    if tags > MAX_TAGS:
        raise InputError(f"has more than the {MAX_TAGS:,} tags that are read; split it")


class _Nesting:
    """Check of how deep the elements of a part are nested, if it is XML."""

    def __init__(self, name: str) -> None:
        from xml.parsers import expat

        self._name = name
        self._depth = 0
        self._broken = expat.ExpatError
        self._parser: Any = expat.ParserCreate()
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._begin, self._end

    def feed(self, piece: bytes, *, last: bool = False) -> None:
        """Check the next piece.

        Raises:
            InputError: It nests too deep, or it is the XML of the document and broken.
        """
        if self._parser is None:
            return
        try:
            self._parser.Parse(piece, last)
        except self._broken as error:
            if self._name.endswith((".xml", ".rels")):
                raise InputError(f"is broken: its {self._name} is not XML ({error})") from error
            self._parser = None  # a picture, for example

    def close(self) -> None:
        """Check that nothing is missing at the end; raises as `feed` does."""
        self.feed(b"", last=True)

    def _begin(self, *_: object) -> None:
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise InputError(f"nests elements deeper than the {MAX_NESTED} levels that are read")

    def _end(self, _: str) -> None:
        self._depth -= 1
