"""Syntax faults of YAML texts: the fault, its line and its usual cause, instead of the words of the parser."""

from __future__ import annotations

import re
from typing import Any

from operad.runtime.values.base_errors import Issue

_ANCHOR = re.compile(r"[&*](\w[^\s,\[\]{}]*)")
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_KEY = 1024
_IN_BRACKETS = ("while parsing a flow sequence", "while parsing a flow mapping")
_BACKSLASH = r"a \ in double quotes begins an escape; write \\ for a backslash, or use single quotes"
_FAULTS = {
    "escape": _BACKSLASH,
    "hexdecimal": _BACKSLASH,  # the parser's spelling
    "block scalar": "> and | end their line; write the text below, indented, or put a text that begins with them in quotes",
    "block sequence entries": "a list begins in a line of its own; write the - below its key",
    "directive": "a text that begins with % must be in quotes",
    " tag": "a text that begins with ! must be in quotes",
    "flow": "a [ or { is not closed before the end",
    "document start": "a second value after the end of the first; write `key: value`",
}
"""Faults by the parser's words."""
_CLOSING = {"[": "]", "{": "}"}
_COLON = re.compile(r":(\s|$)")
_DASH_WITHOUT_SPACE = re.compile(r"\s*-[^\s-]")
_NO_SPACE = "no space after the - of a list item"


def syntax_issue(error: Exception, text: str, name: str) -> Issue:
    """Return the issue for an error of the YAML parser, with its position and line.

    Args:
        text: The text that was parsed.
        name: Name of the text in messages.
    """
    fault, place = syntax_fault(error, text)
    if place is None:
        return _character_issue(error, text, name)
    return Issue("yaml", with_excerpt(fault, text, place.line), f"{name}:{place.line + 1}:{place.column + 1}")


def syntax_fault(error: Exception, text: str) -> tuple[str, Any]:
    """Return the fault of an error of the YAML parser, and its mark; None as mark for a character that is not allowed."""
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return _character_issue(error, text, "").message, None
    context, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or ""
    start: Any = getattr(error, "context_mark", None) or mark
    after_quote = _line(text, mark.line)[: mark.column].rstrip()[-1:] in ("'", '"')
    began = (
        (context in _IN_BRACKETS and not after_quote)
        or "while scanning a quoted" in context
        or "could not find expected ':'" in problem
    )
    place = start if began else mark
    row, column = int(place.line), int(place.column)
    line = _line(text, row)
    if "a tab" in problem or line[column : column + 1] == "\t":
        fault = "a tab; YAML indents with spaces only"
    elif began:
        fault = _unfinished(context, line, start, mark)
    else:
        above = next((each for each in reversed(text.splitlines()[:row]) if each.strip()), "")
        fault = _misplaced(f"{context} {problem}".strip(), line[:column], line[column:], above)
    return fault, place


def with_excerpt(fault: str, text: str, row: int) -> str:
    """Return a fault with the start of the line that it is in, counted from 0."""
    line = _line(text, row).strip()[:80]
    return f"{fault}: {line!r}" if line else fault


def _line(text: str, row: int) -> str:
    return "".join(text.splitlines()[row : row + 1])


def _character_issue(error: Exception, text: str, name: str) -> Issue:
    """Return the issue for a character that YAML does not allow."""
    if (found := _NOT_PRINTABLE.search(text)) is None:
        return Issue("yaml", " ".join(str(error).split()), name)
    fault = f"the character U+{ord(found[0]):04X} is not allowed in YAML; remove it"
    row = len(text[: found.start()].splitlines() or [""]) - (not text[: found.start()].endswith("\n"))
    return Issue("yaml", with_excerpt(fault, text, row), f"{name}:{row + 1}")


def _unfinished(context: str, line: str, start: Any, mark: Any) -> str:
    """Return the fault of a part that begins in a line at `start` and is not complete at `mark`."""
    if "quoted" in context:
        return "the quote that opens here is not closed"
    opening = line[start.column : start.column + 1]
    if closing := _CLOSING.get(opening):
        if mark.line == start.line and line[mark.column : mark.column + 1] == ":":
            return "a second `: ` in one entry; write a , between entries, or put a text that contains `: ` in quotes"
        return (
            f"the {opening} that opens here has no , or {closing} before line {mark.line + 1}, column {mark.column + 1}; "
            f"put a text that contains {opening} or {closing} in quotes"
        )
    if _DASH_WITHOUT_SPACE.match(line):
        return _NO_SPACE
    return "no `: ` in this line; write `key: value` with a space, and indent a text of several lines below its key"


def _misplaced(reported: str, before: str, rest: str, above: str) -> str:
    """Return the fault of a place in a line, between the texts `before` and `rest`, below the line `above`."""
    if "mapping values are not allowed" in reported:
        return _second_colon(before, above)
    if reported.startswith(("while parsing a block", *_IN_BRACKETS)) and before.rstrip()[-1:] not in (":", "-"):
        if before.strip():
            return _after_value(before, rest, in_brackets=reported.startswith(_IN_BRACKETS))
        return _misplaced_line(rest, in_list="block collection" in reported)
    if "anchor" in reported or "alias" in reported:
        mark = max(before.rfind("&"), before.rfind("*"), 0)
        found = _ANCHOR.match(before + rest, mark)
        name = f"write `name: {found[1][:80]}`, or " if found else ""
        return f"anchors take A–Z, a–z, 0–9, _ and -; {name}put a text that begins with {before[mark:][:1]} in quotes"
    if rest.startswith(",") and "flow node" in reported:
        return "there is no entry before this ,"
    if rest.strip() and ("cannot start any token" in reported or "node content" in reported):
        return f"a text that begins with {rest[0]} must be in quotes"
    for words, fault in _FAULTS.items():
        if words in reported:
            return fault
    return f"the YAML parser reports: {reported}"


def _second_colon(before: str, above: str) -> str:
    """Return the fault of a `: ` that is not allowed after a text."""
    if _DASH_WITHOUT_SPACE.match(before):
        return _NO_SPACE
    if _COLON.search(before):
        return "a second `: ` in one line; put a text that contains `: ` in quotes"
    if len(before) > _MAX_KEY:
        return f"a key has at most {_MAX_KEY:,} characters"
    if not above:
        return "a key begins in a line of its own"
    if not _COLON.search(above):
        return "the text above continues in this line; indent a key as the keys above it, and write `: ` after each key"
    return "wrong indentation: indent this line as the key above, or put a text of several lines in quotes"


def _misplaced_line(rest: str, *, in_list: bool) -> str:
    """Return the fault of a line that does not fit the list or the keys above."""
    if rest[:1] in ("]", "}"):
        return f"no bracket is open before this {rest[0]}"
    if in_list:
        return "a list item is expected: begin it with -, or indent this line as the keys of the item above"
    if re.match(r"-(\s|$)", rest):
        return "a key is expected: indent a list item as the items above, or put it below the key of its list"
    if not _COLON.search(rest.lstrip(":")):
        return "a key is expected: write `key: value`, or indent a text below its key"
    return "wrong indentation: indent this line as the keys above"


def _after_value(before: str, rest: str, *, in_brackets: bool) -> str:
    """Return the fault of a text that follows a complete value."""
    last, excerpt = before.rstrip()[-1], repr(rest.strip()[:40])
    if in_brackets and rest.startswith(":"):
        return (
            f"the entry ends before {excerpt}; write a , between entries, and put a text that contains `: ` in quotes"
        )
    if last in "'\"":
        or_comma = ", or write a , or : after it" if in_brackets else ""
        or_above = ", or close a quote in a line above" if before.count(last) % 2 else ""
        return f"the quoted text ends before {excerpt}; put the whole text in quotes, and double ' in '…'{or_comma}{or_above}"
    if last in "]}":
        return f"the brackets end before {excerpt}; put a text that begins with [ or {{ in quotes"
    return f"the value ends before {excerpt}; put the whole text in quotes"
