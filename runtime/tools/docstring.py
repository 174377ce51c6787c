"""Parser of docstrings: the text, and the description of each argument.

Google ("Args:"), NumPy ("Parameters" underlined) and reST (":param x:") styles are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from inspect import cleandoc

_GOOGLE_TITLE = re.compile(r"(?:Args|Arguments|Parameters):\s*$")
_GOOGLE_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s*(?P<text>.*)")
_NUMPY_TITLE = re.compile(r"(?:Other )?Parameters\s*$")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_REST_PARAM = re.compile(r":param\s+(?:[^:]*\s)?(?P<names>\w+)\s*:\s*(?P<text>.*)")
_REST_TYPE = re.compile(r":type\s+\w+\s*:")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring.

    Attributes:
        text: The summary and the body, without the section on arguments.
        arguments: Description of each argument, on one line.
    """

    text: str = ""
    arguments: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(cls, docstring: str | None) -> Docstring:
        """Parse a docstring; without a section on arguments, the whole docstring is the text."""
        lines = cleandoc(docstring or "").splitlines()
        text_lines: list[str] = []
        arguments: dict[str, str] = {}
        at = 0
        while at < len(lines):
            line = lines[at]
            if _GOOGLE_TITLE.match(line):
                end = _end_of_indented(lines, at + 1)
                arguments |= _entries(lines[at + 1 : end], _GOOGLE_ENTRY)
            elif _NUMPY_TITLE.match(line) and _is_underline(lines, at + 1):
                end = _end_of_numpy_section(lines, at + 2)
                arguments |= _entries(lines[at + 2 : end], _NUMPY_ENTRY)
            elif _REST_PARAM.match(line):
                end = _end_of_indented(lines, at + 1)
                arguments |= _entries(lines[at:end], _REST_PARAM)
            elif _REST_TYPE.match(line):
                end = _end_of_indented(lines, at + 1)
            else:
                text_lines.append(line)
                end = at + 1
            at = end
        return cls(text=re.sub(r"\n{3,}", "\n\n", "\n".join(text_lines)).strip(), arguments=arguments)


def _entries(lines: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    """Return the descriptions of a block of entries, by name. Entries have the indent of the first line; deeper lines
    continue an entry.
    """
    descriptions: dict[str, list[str]] = {}
    current: list[str] = []
    entry_indent = next((_indent(line) for line in lines if line.strip()), 0)
    for line in lines:
        match = entry.match(line.strip()) if _indent(line) == entry_indent else None
        if match:
            current = [match.groupdict().get("text") or ""]
            for name in match["names"].split(","):
                descriptions[name.strip().lstrip("*")] = current
        elif line.strip():
            current.append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in descriptions.items()}


def _end_of_indented(lines: list[str], start: int) -> int:
    """Return the index of the first line from `start` on that is neither indented nor blank."""
    return next((at for at in range(start, len(lines)) if lines[at].strip() and not _indent(lines[at])), len(lines))


def _end_of_numpy_section(lines: list[str], start: int) -> int:
    """Return the index of the next section's title from `start` on."""
    return next((at for at in range(start, len(lines)) if _is_underline(lines, at + 1)), len(lines))


def _is_underline(lines: list[str], at: int) -> bool:
    return at < len(lines) and _UNDERLINE.match(lines[at]) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
