"""Text extraction from documents, as by a document-extractor node."""

from __future__ import annotations

import codecs
import csv
import email
import email.policy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage
from pathlib import PurePath
from typing import Any, cast

from operad.runtime.knowledge.extract import need_extra
from operad.runtime.knowledge.folders import MAX_FILE_BYTES, too_large
from operad.runtime.knowledge.reader_process import LIMITS, ReadingLimits, read
from operad.runtime.knowledge.readers import (
    OLD_FORMATS,
    check_packed,
    csv_rows,
    decoded,
    markdown,
    pages,
    sheets,
    slides,
    table_lines,
)
from operad.runtime.values.charset import detected, text_codec
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor

MAX_DOCUMENT_CHARS = 10_000_000
"""Default for the maximum length of a document, in characters."""

MAX_HEADER = 16_000
"""Maximum length of a header on the content of an email, in characters; of several, of the root of the sum of squares."""

MAX_SHOWN_HEADER = 100_000
"""Maximum number of characters that are read of a header with names or text, such as that of the recipients."""

_UNSUPPORTED_TEXT = {b"%PDF-": "a PDF document", b"{\\rtf": "an RTF document"}
"""First bytes of text-like types that are not supported."""

_BINARY = {
    b"PK\x03\x04": "a ZIP archive or an Office document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Office document of an old format or an encrypted one",
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!\x1a": "a RAR archive",
    b"ID3": "an MP3 recording",
    b"\xff\xfb": "an MP3 recording",
    b"OggS": "an Ogg recording",
    b"fLaC": "a FLAC recording",
    b"\x1aE\xdf\xa3": "a Matroska or WebM video",
    b"SQLite format 3\0": "an SQLite database",
    b"\x7fELF": "a program",
}
"""First bytes of binary types."""

_RIFF = {b"WEBP": "a WebP picture", b"WAVE": "a WAV recording", b"AVI ": "an AVI video"}

_CONTROL = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def read_document(file: FileDescriptor, max_chars: int = MAX_DOCUMENT_CHARS, limits: ReadingLimits = LIMITS) -> str:
    """Return the text of a document: tables, documents and slides as Markdown, other files unchanged.

    Text may be in any encoding; an encoding other than UTF-8 is detected. Other documents are read in a limited process.

    Args:
        file: A text file (.txt, .md, .json, code, any file without zero bytes), or a file with the suffix .csv, .docx,
            .eml, .epub, .htm, .html, .pdf, .pptx, .tsv or .xlsx.
        max_chars: Maximum length of the text, in characters.

    Returns:
        The text. A table has one line per row, which begins with ``|``. If a workbook has several sheets with content,
        each has a heading with its title.

    Raises:
        InputError: The file cannot be read, or not within the limits: it is too large, binary, broken, encrypted, or a
            scan. The message begins with the path of the file.
        MissingExtraError: The file needs the extra ``documents``, which is not installed.
    """
    suffix = PurePath(file.name).suffix.lower()
    try:
        data = _read_content(file)
        if suffix not in _READERS:
            return text_of(data, suffix, max_chars)
        modules = need_extra(".html" if suffix == ".epub" else suffix)  # EPUB consists of HTML
        what = f"{suffix} file"
        return read(text_of, data, suffix, max_chars, answer=str, what=what, modules=modules, limits=limits)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


def text_of(data: bytes, suffix: str, max_chars: int) -> str:
    """Return the text of a document, read in this process; the arguments are those of `read_document`.

    Raises:
        InputError: The document cannot be read; other errors are possible, too.
        MissingExtraError: The extra ``documents`` is not installed.
    """
    return _joined(_READERS.get(suffix, _text)(data, suffix), max_chars)


def _read_content(file: FileDescriptor) -> bytes:
    """Return the content of a file."""
    if file.size > MAX_FILE_BYTES:
        raise InputError(too_large(file.size))
    try:
        with file.path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise InputError(too_large(len(data)))
    return data


def _joined(parts: Iterable[str], most: int) -> str:
    """Return the parts as one text with normalised line ends."""
    texts: list[str] = []
    chars = 0
    for part in parts:
        texts.append(part)
        chars += len(part)
        if chars > most:
            raise InputError(f"has more than the maximum of {most:,} characters; split it")
    return "".join(texts).replace("\r\n", "\n").replace("\r", "\n").strip("\n")


# Text


def _text(data: bytes, suffix: str) -> Iterator[str]:
    yield _decoded(data, suffix)


def _decoded(data: bytes, suffix: str) -> str:
    """Return a text in any encoding."""
    if kind := next((kind for start, kind in _UNSUPPORTED_TEXT.items() if data.startswith(start)), ""):
        raise InputError(f"is {kind}, not text; is its name right?")
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return data.decode("utf-32")
    try:
        return decoded(data, suffix, sorted(_READERS))
    except InputError as error:
        if suffix in OLD_FORMATS:
            raise
        if kind := _binary_kind(data):
            raise InputError(f"is {kind}, not text; is its name right?") from error
        codec = "" if b"\0" in data else detected(data)
        text = data.decode(codec, "replace") if codec else ""
        if not text or _CONTROL.search(text):
            raise InputError(f"is binary; supported are: text, {', '.join(sorted(_READERS))}") from error
        return text


def _binary_kind(data: bytes) -> str:
    """Return the description of a binary type by the first bytes of a file; empty if unknown."""
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return "an MP4 video or recording, or a HEIC picture"
    return next((kind for start, kind in _BINARY.items() if data.startswith(start)), "")


# Tables


def _csv(data: bytes, suffix: str) -> Iterator[str]:
    text = _decoded(data, suffix)
    try:
        lines = list(_table(csv_rows(text, suffix)))
    except csv.Error:  # a broken table is read as text
        yield text
    else:
        yield from lines


def _xlsx(data: bytes, suffix: str) -> Iterator[str]:
    tables = [(title, table) for title, rows in sheets(data) if (table := "".join(_table(rows)))]
    for title, table in tables:
        yield f"## {title}\n\n{table}\n" if tables[1:] else table


def _table(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[str]:
    for _, line in table_lines(rows):
        yield f"{line}\n"


# Documents


def _docx(data: bytes, suffix: str) -> Iterator[str]:
    check_packed(data)
    yield markdown("DocxConverter", data)


def _epub(data: bytes, suffix: str) -> Iterator[str]:
    check_packed(data)
    yield markdown("EpubConverter", data)


def _pptx(data: bytes, suffix: str) -> Iterator[str]:
    for _, slide in slides(data):
        yield f"{slide.strip()}\n\n"


def _pdf(data: bytes, suffix: str) -> Iterator[str]:
    for page in pages(data):
        yield f"{page.rstrip()}\n\n"


def _html(data: bytes, suffix: str) -> Iterator[str]:
    yield markdown("HtmlConverter", _decoded(data, suffix).encode())


def html_as_markdown(text: str) -> str:
    """Return a page of HTML as Markdown; it is read in a limited process.

    Raises:
        InputError: The page cannot be read, or not within the limits.
        MissingExtraError: The extra ``documents`` is not installed.
    """
    page = text.encode("utf-8", errors="replace")
    return read(html_text, page, answer=str, what="page of HTML", modules=need_extra(".html"))


def html_text(page: bytes) -> str:
    """Return a page of HTML as Markdown, read in this process."""
    return markdown("HtmlConverter", page)


_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")


class _BoundedHeaders(email.policy.EmailPolicy):
    """Policy that refuses headers of content for which Python's parser, which takes quadratic time, would take minutes.

    Attributes:
        squares: The sum of the squares of the lengths of these headers so far.
    """

    squares: list[int] = []  # noqa: RUF012 - each policy is given its own

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return name and value of a header."""
        if sourcelines[0].lower().startswith("content-"):
            self.squares[0] += sum(map(len, sourcelines)) ** 2
        if self.squares[0] > MAX_HEADER**2:
            raise InputError(f"has headers of more than the maximum of about {MAX_HEADER:,} characters")
        return super().header_source_parse(sourcelines)


def _header_text(value: str) -> str:
    """Return the decoded text of a header, such as a list of recipients; of a long one, its beginning."""
    shown = "".join(value[:MAX_SHOWN_HEADER].splitlines())
    text = shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    encoded, end, rest = text.rpartition("?=")  # for text without an end, `decode_header` takes quadratic time
    try:
        words = [
            word if isinstance(word, str) else word.decode(_codec_of_word(charset), "replace")
            for word, charset in decode_header(encoded + end)
        ]
    except HeaderParseError:  # text in no valid base64
        words = [encoded + end]
    left_out = (
        f" … (the first {MAX_SHOWN_HEADER:,} of {len(value):,} characters)" if len(value) > MAX_SHOWN_HEADER else ""
    )
    return "".join([*words, rest]).strip() + left_out


def _codec_of_word(charset: str | None) -> str:
    """Return the encoding of a word that `decode_header` returned as bytes; words that were not encoded have none."""
    return "raw-unicode-escape" if charset is None else text_codec(charset) or "utf-8"


def _eml(data: bytes, suffix: str) -> Iterator[str]:
    """Yield the headers, names of attachments, and text of an email."""
    policy = cast("Any", _BoundedHeaders)(squares=[0])
    message = cast("EmailMessage", email.message_from_bytes(data, policy=policy))
    values = {name.lower(): value for name, value in reversed(list(message.raw_items()))}  # the first of each name
    for name in _SHOWN_HEADERS:
        if text := _header_text(values.get(name.lower(), "")):
            yield f"{name}: {text}\n"
    attached = [part.get_filename() or "without a name" for part in message.iter_attachments()]
    if attached:
        yield f"Attached: {', '.join(attached)}\n"
    body = message.get_body(("plain", "html"))
    if body:
        if not text_codec(body.get_content_charset("utf-8")):  # unknown, or slow, such as punycode
            body.set_param("charset", "utf-8")
        text = str(body.get_content())
        yield "\n"
        if body.get_content_subtype() == "html":
            need_extra(".html")
            text = markdown("HtmlConverter", text.encode("utf-8", errors="replace"))
        yield text


_READERS: Mapping[str, Callable[[bytes, str], Iterable[str]]] = {
    ".csv": _csv,
    ".docx": _docx,
    ".eml": _eml,
    ".epub": _epub,
    ".htm": _html,
    ".html": _html,
    ".pdf": _pdf,
    ".pptx": _pptx,
    ".tsv": _csv,
    ".xlsx": _xlsx,
}
"""Reader of each file suffix."""
