"""Text → pieces of bounded size that can be found and cited, cut where the text itself has joints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHUNK_CHARS = 1_500
"""The longest piece, in characters."""

_TITLE_CHARS = 200
"""The longest line that may be a heading; a longer one is text."""

_LINE_END = re.compile(r"\r\n?|\n")
_HASHES = re.compile(r"(#{1,6})[ \t]+(.*)")
_CLOSING = re.compile(r"(^|[ \t]+)#+$")
_UNDERLINE = re.compile(r"(=|-|~|\^)\1{2,}[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE_OF_TABLE = re.compile(r"\|?[ \t]*:?-{3,}:?[ \t]*(\|[ \t]*:?-{3,}:?[ \t]*)*\|?[ \t]*")
_JOINT = re.compile(r"(?<=[。！？；])|(?<=[.!?;])\s|\s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text.

    Attributes:
        text: Text of the piece, without its headings. Not empty.
        line: First line, counted from 1.
        heading: Its headings, the outermost first, with ``>`` between them.
    """

    text: str
    line: int
    heading: str = ""


def chunks(text: str, *, headings: bool = True, most: int = CHUNK_CHARS) -> Iterator[Chunk]:
    """Cut a text into pieces.

    Paragraphs stay whole where they fit, and stand together as long as they do; a piece never goes
    across a heading. What is longer is cut at lines, then at sentences and spaces. A piece of a
    table begins with the table's head. A heading with nothing under it is a piece itself.

    Args:
        text: Plain text or Markdown.
        headings: True to look for them: ``# Title``, or a title above a line of ``===``, ``---``,
            ``~~~`` or ``^^^``. In code, these are something else.
        most: The longest piece, in characters, at least 200.
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
    """Section of a text: its headings with their levels, its first line, the line after its last."""

    trail: tuple[tuple[int, str], ...]
    first: int
    end: int


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    trail = tuple[tuple[int, str], ...]()
    first, number, fence = 0, 0, ""
    while number < len(lines):
        line = lines[number]
        if found := _FENCE.match(line):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        title = None if fence or found else _title(lines, number)
        if title is None:
            number += 1
            continue
        yield _Section(trail, first, number)
        level, name, height = title
        trail = (*(outer for outer in trail if outer[0] < level), (level, name))
        number = first = number + height
    yield _Section(trail, first, len(lines))


def _title(lines: Sequence[str], number: int) -> tuple[int, str, int] | None:
    """The heading that begins at this line: its level, what it says, how many lines it takes."""
    line = lines[number].rstrip()
    if not line or len(line) > _TITLE_CHARS:
        return None
    if found := _HASHES.fullmatch(line):
        name = _CLOSING.sub("", found[2])
        return (len(found[1]), name, 1) if name else None
    under = lines[number + 1] if number + 1 < len(lines) else ""
    before = lines[number - 1].strip() if number else ""
    is_title = any(letter.isalnum() for letter in line) and line[0] not in " \t|-*>"
    if is_title and _UNDERLINE.fullmatch(under) and (not before or _UNDERLINE.fullmatch(before)):
        return "=-~^".index(under[0]) + 1, line, 2
    return None


def _heading(trail: Sequence[tuple[int, str]]) -> str:
    return " > ".join(name for _, name in trail)


# Pieces


def _pieces(lines: Sequence[str], first: int, end: int, heading: str, most: int) -> Iterator[Chunk]:
    """The lines from `first` to before `end`, as few pieces as paragraphs allow."""
    piece: list[str] = []
    begins, size = first, 0
    for at, paragraph in _paragraphs(lines, first, end):
        length = sum(map(len, paragraph)) + len(paragraph)
        if piece and size + 1 + length > most:
            yield Chunk("\n".join(piece), begins + 1, heading)
            piece, size = [], 0
        if length > most:
            yield from _cut(paragraph, at, heading, most)
            continue
        if piece:
            piece.append("")
        else:
            begins = at
        piece += paragraph
        size += length + 1
    if piece:
        yield Chunk("\n".join(piece), begins + 1, heading)


def _paragraphs(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines that are not empty, and where they begin."""
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
    """A paragraph that is too long for one piece."""
    is_short = len(paragraph) > 2 and len(paragraph[0]) + len(paragraph[1]) < most // 3
    head = list(paragraph[:2]) if is_short and _RULE_OF_TABLE.fullmatch(paragraph[1]) else []
    room = most - sum(map(len, head)) - len(head)
    piece: list[str] = []
    begins, size = first, 0
    for number, line in enumerate(paragraph[len(head) :], first + len(head)):
        for part in _parts(line, room):
            if piece and size + len(part) + 1 > room:
                yield Chunk("\n".join([*head, *piece]), begins + 1, heading)
                piece, size = [], 0
            if not piece:
                begins = number
            piece.append(part)
            size += len(part) + 1
    yield Chunk("\n".join([*head, *piece]), begins + 1, heading)


def _parts(line: str, room: int) -> Iterator[str]:
    """A line, in parts that fit: cut after a sentence or at a space in the second half, else anywhere."""
    start = 0
    while len(line) - start > room - 1:
        window = line[start : start + room - 1]
        joints = [joint.end() for joint in _JOINT.finditer(window, len(window) // 2)]
        stops = [joint for joint in joints if window[:joint].rstrip()[-1:] in tuple("。！？；.!?;")]
        size = (stops or joints or [len(window)])[-1]
        if part := line[start : start + size].strip():
            yield part
        start += size
    if part := line[start:].strip():
        yield part
