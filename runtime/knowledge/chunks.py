"""Splitting of texts into passages of bounded size, at headings, paragraphs and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
