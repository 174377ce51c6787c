"""Extraction of passages with their places from files; documents require the extra ``documents``."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import PurePath

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
from operad.runtime.values.pip import pip_install

# Splitting of texts into passages of bounded size, at headings, paragraphs and sentences.

CHUNK_CHARS = 1_500
"""Default for the maximum length of a piece, in characters."""

_TITLE_CHARS = 200
"""Maximum length of a heading, in characters; a longer line is text."""

_LINE_END = re.compile(r"\r\n?|\n")
_HASHES = re.compile(r"(#{1,6})[ \t]+(.*)")
_CLOSING = re.compile(r"(^|[ \t]+)#+$")
_UNDERLINE = re.compile(r"(=|-|~|\^)\1{2,}[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r"\|?[ \t]*:?-{3,}:?[ \t]*(\|[ \t]*:?-{3,}:?[ \t]*)*\|?[ \t]*")
_BREAK = re.compile(r"(?<=[。！？；])|(?<=[.!?;])\s|\s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text.

    Attributes:
        text: Text of the piece, without its headings. Not empty.
        line: First line, counted from 1.
        heading: Headings above the piece, outermost first, separated by ``>``.
    """

    text: str
    line: int
    heading: str = ""


def chunks(text: str, *, headings: bool = True, most: int = CHUNK_CHARS) -> Iterator[Chunk]:
    """Yield the pieces of a text.

    A piece consists of as many whole paragraphs as fit, and does not extend across a heading. A longer paragraph is cut
    at lines, then at sentences and spaces. Each piece of a table begins with the head of the table. A heading without
    text below it is a piece of its own.

    Args:
        text: Plain text or Markdown.
        headings: True to recognise headings: ``# Title``, or a title above a line of ``===``, ``---``, ``~~~`` or
            ``^^^``. Use False for code, where these have other meanings.
        most: Maximum length of a piece, in characters, at least 200.
    """
    lines = _LINE_END.split(text)
    sections = list(_sections(lines)) if headings else [_Section((), 0, len(lines))]
    for section, after in zip(sections, [*sections[1:], None], strict=True):
        is_empty = True
        for piece in _pieces(lines, section.first, section.end, _heading(section.trail), most):
            is_empty = False
            yield piece
        if is_empty and section.trail and not (after and after.trail[: len(section.trail)] == section.trail):
            yield Chunk(section.trail[-1][1], section.first, _heading(section.trail[:-1]))


# Sections


@dataclass(frozen=True, slots=True)
class _Section:
    """Section of a text, from line `first` to before line `end`; `trail` is the levels and texts of its headings."""

    trail: tuple[tuple[int, str], ...]
    first: int
    end: int


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    """Yield the sections between headings; lines in code fences are not headings."""
    trail = tuple[tuple[int, str], ...]()
    first, number, fence = 0, 0, ""
    while number < len(lines):
        line = lines[number]
        if fence_line := _FENCE.match(line):
            if not fence:
                fence = fence_line[1]
            elif fence_line[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        title = None if fence or fence_line else _title(lines, number)
        if title is None:
            number += 1
            continue
        yield _Section(trail, first, number)
        level, name, height = title
        trail = (*(outer for outer in trail if outer[0] < level), (level, name))
        number = first = number + height
    yield _Section(trail, first, len(lines))


def _title(lines: Sequence[str], number: int) -> tuple[int, str, int] | None:
    """Return level, text and number of lines of the heading that begins at a line; None if none does."""
    line = lines[number].rstrip()
    if not line or len(line) > _TITLE_CHARS:
        return None
    if hashes := _HASHES.fullmatch(line):
        name = _CLOSING.sub("", hashes[2])
        return (len(hashes[1]), name, 1) if name else None
    next_line = lines[number + 1] if number + 1 < len(lines) else ""
    previous_line = lines[number - 1].strip() if number else ""
    is_title = any(letter.isalnum() for letter in line) and line[0] not in " \t|-*>"
    if is_title and _UNDERLINE.fullmatch(next_line) and (not previous_line or _UNDERLINE.fullmatch(previous_line)):
        return "=-~^".index(next_line[0]) + 1, line, 2
    return None


def _heading(trail: Sequence[tuple[int, str]]) -> str:
    return " > ".join(name for _, name in trail)


# Pieces


def _pieces(lines: Sequence[str], first: int, end: int, heading: str, most: int) -> Iterator[Chunk]:
    """Yield the lines from `first` to before `end` as pieces, of as many whole paragraphs as fit."""
    piece: list[str] = []
    start, size = first, 0
    for at, paragraph in _paragraphs(lines, first, end):
        length = sum(map(len, paragraph)) + len(paragraph)
        if piece and size + 1 + length > most:
            yield Chunk("\n".join(piece), start + 1, heading)
            piece, size = [], 0
        if length > most:
            yield from _cut(paragraph, at, heading, most)
            continue
        if piece:
            piece.append("")
        else:
            start = at
        piece += paragraph
        size += length + 1
    if piece:
        yield Chunk("\n".join(piece), start + 1, heading)


def _paragraphs(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the paragraphs between empty lines, each with the number of its first line."""
    paragraph: list[str] = []
    for number in range(first, end):
        line = lines[number].rstrip()
        if line:
            paragraph.append(line)
        elif paragraph:
            yield number - len(paragraph), paragraph
            paragraph = []
    if paragraph:
        yield end - len(paragraph), paragraph


def _cut(paragraph: Sequence[str], first: int, heading: str, most: int) -> Iterator[Chunk]:
    """Yield the pieces of a paragraph that is too long for one piece, each with the head of a table in front."""
    is_short = len(paragraph) > 2 and len(paragraph[0]) + len(paragraph[1]) < most // 3
    head = list(paragraph[:2]) if is_short and _TABLE_RULE.fullmatch(paragraph[1]) else []
    room = most - sum(map(len, head)) - len(head)
    piece: list[str] = []
    start, size = first, 0
    for number, line in enumerate(paragraph[len(head) :], first + len(head)):
        for part in _parts(line, room):
            if piece and size + len(part) + 1 > room:
                yield Chunk("\n".join([*head, *piece]), start + 1, heading)
                piece, size = [], 0
            if not piece:
                start = number
            piece.append(part)
            size += len(part) + 1
    yield Chunk("\n".join([*head, *piece]), start + 1, heading)


def _parts(line: str, room: int) -> Iterator[str]:
    """Yield the parts of a line that fit: cut after a sentence or at a space in the second half, or else anywhere."""
    start = 0
    while len(line) - start > room - 1:
        window = line[start : start + room - 1]
        breaks = [position.end() for position in _BREAK.finditer(window, len(window) // 2)]
        sentence_ends = [position for position in breaks if window[:position].rstrip()[-1:] in tuple("。！？；.!?;")]
        size = (sentence_ends or breaks or [len(window)])[-1]
        if part := line[start : start + size].strip():
            yield part
        start += size
    if part := line[start:].strip():
        yield part


MAX_FILE_PASSAGES = 20_000
"""Maximum number of passages of a file."""

_WITH_HEADINGS = {".md", ".markdown", ".mdx", ".rst", ".txt", ""}
"""Suffixes of text files with headings; in other files, such as code, lines like headings have other meanings."""

_PACKED = {".docx", ".pptx", ".xlsx"}
_TABLES = {".csv", ".tsv"}


def extract(data: bytes, name: str, limits: ReadingLimits = LIMITS) -> list[IndexedPassage]:
    """Return the passages of a file; documents are read in a limited process.

    Args:
        name: Name of the file, whose suffix determines the format.

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
            f"{pip_install('documents')} (or leave such files out)"
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
