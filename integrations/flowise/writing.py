"""Values in texts and conditions as Flowise writes and compares them, and rich texts of its editor as Markdown."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from operad.operators.variables import Writing, as_text, plain


def as_javascript(value: Any) -> str:
    """Return a value as JavaScript writes it in a text: lists and objects are JSON without blanks."""
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
    return as_text(value)


_NUMBER = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")


def as_number(value: Any) -> float:
    """Return the number at the beginning of a value; 0 if there is none, as in conditions of Flowise.

    Example:
        >>> as_number("12 apples"), as_number(None)
        (12.0, 0.0)
    """
    found = None if isinstance(value, bool) else _NUMBER.match(as_text(value))
    return float(found[1]) if found else 0.0


_MARKS = (
    (r"^ {0,3}(?:-[\t ]*){3,}$|^ {0,3}(?:_[\t ]*){3,}$|^ {0,3}(?:\*[\t ]*){3,}$", ""),  # rules
    (r"^([ \t]*)(?:[*+-]|[0-9]+\.)[ \t]+", r"\1"),  # leaders of lists
    (r"^(?:```|~~~).*$\n?", ""),
    (r"\n={2,}", "\n"),
    (r"<[^<>]*>", ""),
    (r"!?\[([^\[\]\n]*)\][\[(][^\[\]()\n]*[\])]", r"\1"),  # images and links
    (r"^ {0,3}> ?", ""),
    (r"^[ \t]*#{1,6}[ \t]+([^\n]*?)[ \t]*#*$", r"\1"),
    (r"(\*{1,3})(\S(?:[^*\n]*[^*\s])?)\1", r"\2"),
    (r"(^|\W)(_{1,3})([^_\s](?:[^_\n]*[^_\s])?)\2(?=$|\W)", r"\1\3"),
    (r"`([^`\n]+)`", r"\1"),
    (r"~~", ""),
)  # no mark contains itself, so that the search takes linear time


def without_markdown(text: str) -> str:
    """Return a text without the marks of Markdown, as Flowise compares it.

    Example:
        >>> without_markdown("# **Yes**, `really`")
        'Yes, really'
    """
    for pattern, kept in _MARKS:
        text = re.sub(pattern, kept, text, flags=re.MULTILINE)
    return text


def _compared(value: Any, operator: str) -> Any:
    if operator in ("=", "≠", ">", "<", "≥", "≤"):
        return as_number(value)
    return without_markdown(value) if isinstance(value, str) else value


WRITING = Writing(as_javascript, as_javascript, _compared)
"""Representation of values in the texts and conditions of workflows imported from Flowise."""


_RICH = re.compile(r"\s*<(?:p|div|h[1-6]|ul|ol|blockquote|pre|table)\b", re.IGNORECASE)
_INLINE = {"strong": "**", "b": "**", "em": "_", "i": "_", "code": "`"}
_BLOCKS = ("p", "div", "ul", "ol", "blockquote", "pre", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6")


def plain_text(text: str) -> str:
    r"""Return a text of Flowise's editor as Markdown; other texts unchanged.

    Example:
        >>> plain_text('<p>Say <strong>hi</strong> to <span class="variable">{{ question }}</span></p><p>Bye</p>')
        'Say **hi** to {{ question }}\n\nBye'
    """
    if not _RICH.match(text):
        return text
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.parts)).lstrip("\t\r\n").rstrip()


class _Reader(HTMLParser):
    """Writer of Markdown for HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._lists: list[int | None] = []
        self._link = ""
        self._in_pre = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.parts.append("  \n")
        elif tag == "li":
            number = self._lists[-1] if self._lists else None
            self.parts.append(f"\n{number}.  " if number else "\n*   ")
            if number:
                self._lists[-1] = number + 1
        elif tag == "a":
            self._link = dict(attrs).get("href") or ""
            self.parts.append("[")
        elif tag in _BLOCKS:
            in_item = bool(self._lists) and tag == "p"
            self.parts.append("" if in_item else "\n\n")
            self._in_pre = self._in_pre or tag == "pre"
            if tag in ("ul", "ol"):
                self._lists.append(1 if tag == "ol" else None)
            self.parts.append("#" * int(tag[1]) + " " if tag[0] == "h" else "> " if tag == "blockquote" else "")
        elif not self._in_pre:
            self.parts.append(_INLINE.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        if tag == "a":
            self.parts.append(f"]({self._link})")
        elif tag in _BLOCKS:
            self._in_pre = self._in_pre and tag != "pre"
            self.parts.append("" if self._lists else "\n\n")
        elif not self._in_pre:
            self.parts.append(_INLINE.get(tag, ""))

    def handle_data(self, data: str) -> None:
        if self._in_pre:
            self.parts += "    " + data.replace("\n", "\n    ")
        else:
            self.parts.append(re.sub(r"[ \t\r\n]+", " ", data))
