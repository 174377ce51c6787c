"""Template of an instruction: text with names in braces, which stand for values of a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from operad.runtime.values.text import fence

LONGEST_IN_LINE = 200
"""Maximum length in characters of a value that is put into a line; longer ones, and those with lines, are fenced."""

_TOKEN = re.compile(r"\{\{|\{[ \t]*(?P<path>[^\W\d]\w*(?:-\w+)*(?:\.\w+(?:-\w+)*)*)[ \t]*\}|[{}]")
_IDENTIFIERS = re.compile(r"\{[^\W\d]\w*(?:\.[^\W\d]\w*)*\}")


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a template, such as ``{facts.title}``.

    Attributes:
        name: Name before the first dot.
        path: Names after it.
        written: The field as it is written, with its braces.
    """

    name: str
    path: tuple[str, ...]
    written: str

    @property
    def may_be_text(self) -> bool:
        """True if the field is text unless its name is known, as for ``{check-facts}`` and ``{ facts }``."""
        return not _IDENTIFIERS.fullmatch(self.written)


class Template:
    """Template of an instruction.

    ``{name}`` and ``{name.path}`` are fields. ``{{`` stands for a brace, and the ``}}`` that closes it, too. All other
    braces are text, as in ``{"a": {"b": 1}}`` and ``{}``.

        template = Template('Answer in {language}, in the form {"text": "…"}.')
        print([field.name for field in template.fields])  # ['language']
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = _parts(text)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in their order, each once."""
        return tuple(dict.fromkeys(part for part in self._parts if isinstance(part, Field)))

    @property
    def escaped(self) -> tuple[str, ...]:
        """Names in doubled braces, which are text: ``name`` for ``{{ name }}``."""
        return tuple(dict.fromkeys(re.findall(r"(?<!\{)\{\{\s*([^\W\d]\w*)\s*\}\}(?!\})", self.text)))

    def filled(self, value_of: Callable[[Field], str | None]) -> tuple[str, int | None]:
        """Return the text with values in place of the fields, and the start of the first paragraph with a value.

        Values are not searched for fields. A value with several lines, or of more than `LONGEST_IN_LINE` characters,
        becomes a block between backticks.
        """
        text, first, after_block = "", None, False
        for part in self._parts:
            value = part if isinstance(part, str) else value_of(part)
            if isinstance(part, Field) and value is not None and first is None:
                first = len(text)
            if isinstance(part, Field) and value is not None and not _fits_in_line(value):
                text = text if not text or text.endswith("\n") else text.rstrip(" ") + "\n"
                text, after_block = text + fence(value), True
                continue
            added = part.written if value is None and isinstance(part, Field) else value or ""
            if after_block and (added := added.lstrip(" ")):
                added = added if added.startswith("\n") else f"\n{added}"
                after_block = False
            text += added
        return text, None if first is None else max(text.rfind("\n\n", 0, first), 0)


def _fits_in_line(value: str) -> bool:
    return len(value) <= LONGEST_IN_LINE and "\n" not in value.strip() and "```" not in value


@lru_cache(maxsize=256)
def _parts(text: str) -> tuple[str | Field, ...]:
    """Return the fields of a template and the texts between them, with doubled braces replaced."""
    return tuple(_joined(_tokens(text)))


def _tokens(text: str) -> Iterator[str | Field]:
    opened: list[str] = []  # the braces of the text that are open, as written
    position = 0
    while found := _TOKEN.search(text, position):
        yield text[position : found.start()]
        position = found.end()
        written, path = found[0], found["path"]
        if path:
            name, *rest = path.split(".")
            yield Field(name, tuple(rest), written)
            continue
        if written != "}":
            opened.append(written)
        elif opened and opened.pop() == "{{" and text.startswith("}", position):
            position += 1  # closes a doubled brace
        yield written[0]
    yield text[position:]


def _joined(parts: Iterator[str | Field]) -> Iterator[str | Field]:
    """Yield the parts with adjacent texts joined, without empty ones."""
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text
