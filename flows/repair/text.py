"""Rules on the text before its JSON can be read: code fences, comments, brackets, and broken JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from operad.flows.formats.json_text import MAX_DEPTH

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n?(.*?)\s*(?:```[\s\S]*)?\Z", re.DOTALL)
_BRACKETS = {"{": "}", "[": "]"}
_MOST_REPAIRED = 2**20
"""Maximum number of characters of broken JSON to repair, as the time grows with the length."""


def without_fence(text: str) -> str:
    """Return the text inside a code fence, even if words precede the fence; the text unchanged if it has none."""
    found = _FENCE.match(text)
    if found:
        return found[1]
    begin = re.search(r"```(?:json)?[ \t]*\n", text)
    if begin and not _is_json(text):
        return text[begin.end() :].partition("```")[0]
    return text


def without_comments(text: str) -> str:
    """Return the text without ``//`` and ``/* */`` comments, and without commas before a closing bracket."""
    if _is_json(text):
        return text
    kept: list[str] = []
    index, end = 0, len(text)
    while index < end:
        char = text[index]
        if char == '"':
            close = _end_of_string(text, index)
            kept.append(text[index:close])
            index = close
        elif text.startswith("//", index):
            index = _found_or_end(text.find("\n", index), end)
        elif text.startswith("/*", index):
            index = _found_or_end(text.find("*/", index) + 2, end, 1)
        elif char == "," and re.match(r",\s*[\]}]", text[index : index + 200]):
            index += 1
        else:
            kept.append(char)
            index += 1
    return "".join(kept)


def with_brackets(text: str) -> str:
    """Return the text with all brackets closed in order, without surplus ones; unchanged if the result is not JSON."""
    if _is_json(text):
        return text
    kept: list[str] = []
    closers: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char == '"':
            close = _end_of_string(text, index)
            kept.append(text[index:close])
            index = close
            continue
        if char in _BRACKETS:
            closers.append(_BRACKETS[char])
            kept.append(char)
        elif char in "}]":
            if char in closers:
                while closers[-1] != char:
                    kept.append(closers.pop())
                kept.append(closers.pop())
        else:
            kept.append(char)
        index += 1
    mended = "".join([*kept, *reversed(closers)])
    return mended if _is_json(mended) else text


def with_json(text: str) -> str:
    """Return valid JSON that the broken JSON most likely means; the text unchanged if it is valid or beyond repair."""
    if _is_json(text) or len(text) > _MOST_REPAIRED or _depth(text) > MAX_DEPTH or not re.search(r"[{\[]", text):
        return text
    from json_repair import repair_json

    try:
        value = cast("Any", repair_json(text[re.search(r"[{\[]", text).start() :], return_objects=True))  # pyright: ignore[reportOptionalMemberAccess] - searched above
    except (ValueError, RecursionError, TypeError, IndexError):
        return text
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) and value else text


def _is_json(text: str) -> bool:
    """Return whether a text is valid JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _end_of_string(text: str, start: int) -> int:
    """Return the index after the closing quote of the string that starts at an index."""
    index = start + 1
    while index < len(text) and text[index] != '"':
        index += 2 if text[index] == "\\" else 1
    return min(index + 1, len(text))


def _found_or_end(index: int, end: int, not_found: int = -1) -> int:
    """Return the result of a search, or the end of the text if the search failed."""
    return end if index == not_found else index


def _depth(text: str) -> int:
    """Return the depth to which brackets are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


TEXT_RULES: dict[str, tuple[Callable[[str], str], str]] = {
    "fences": (without_fence, "the code fence around the JSON is left out"),
    "comments": (without_comments, "comments and commas before a closing bracket are left out"),
    "brackets": (with_brackets, "brackets are closed as they were opened"),
    "json": (with_json, "what is not JSON is read as the JSON that it most likely means"),
}
"""Rules by name: the function, and the description of its repair."""
