"""Text → JSON: what is mended before there is a value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from operad.flows.formats.json_text import MAX_DEPTH

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n?(.*?)\s*(?:```[\s\S]*)?\Z", re.DOTALL)
_BRACKETS = {"{": "}", "[": "]"}
_MOST_REPAIRED = 2**20
"""Characters beyond which broken JSON is not guessed at, which takes longer the longer it is."""


def without_fence(text: str) -> str:
    """The text inside a code fence, or after words before it; the same where there is none."""
    found = _FENCE.match(text)
    if found:
        return found[1]
    begin = re.search(r"```(?:json)?[ \t]*\n", text)
    if begin and not _says_json(text):
        return text[begin.end() :].partition("```")[0]
    return text


def without_comments(text: str) -> str:
    """The text without ``//`` and ``/* */`` outside of strings, and without commas before a closing bracket."""
    if _says_json(text):
        return text
    out: list[str] = []
    place, end = 0, len(text)
    while place < end:
        sign = text[place]
        if sign == '"':
            close = _end_of_string(text, place)
            out.append(text[place:close])
            place = close
        elif text.startswith("//", place):
            place = _or_end(text.find("\n", place), end)
        elif text.startswith("/*", place):
            place = _or_end(text.find("*/", place) + 2, end, 1)
        elif sign == "," and re.match(r",\s*[\]}]", text[place : place + 200]):
            place += 1
        else:
            out.append(sign)
            place += 1
    return "".join(out)


def with_brackets(text: str) -> str:
    """The text with its brackets closed as they were opened; those that close nothing are left out."""
    if _says_json(text):
        return text
    out: list[str] = []
    open_: list[str] = []
    place = 0
    while place < len(text):
        sign = text[place]
        if sign == '"':
            close = _end_of_string(text, place)
            out.append(text[place:close])
            place = close
            continue
        if sign in _BRACKETS:
            open_.append(_BRACKETS[sign])
            out.append(sign)
        elif sign in "}]":
            if sign in open_:
                while open_[-1] != sign:
                    out.append(open_.pop())
                out.append(open_.pop())
        else:
            out.append(sign)
        place += 1
    mended = "".join([*out, *reversed(open_)])
    return mended if _says_json(mended) else text


def with_json(text: str) -> str:
    """The JSON that broken JSON most likely means; the same where it can be read, or where nothing comes of it."""
    if _says_json(text) or len(text) > _MOST_REPAIRED or _depth(text) > MAX_DEPTH or not re.search(r"[{\[]", text):
        return text
    from json_repair import repair_json

    try:
        value = cast("Any", repair_json(text[re.search(r"[{\[]", text).start() :], return_objects=True))  # pyright: ignore[reportOptionalMemberAccess] - asked above
    except (ValueError, RecursionError, TypeError, IndexError):
        return text
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) and value else text


def _says_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _end_of_string(text: str, start: int) -> int:
    place = start + 1
    while place < len(text) and text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return min(place + 1, len(text))


def _or_end(place: int, end: int, lost: int = -1) -> int:
    return end if place == lost else place


def _depth(text: str) -> int:
    depth = most = 0
    for sign in re.findall(r"[\[\]{}]", text):
        depth += 1 if sign in "[{" else -1
        most = max(most, depth)
    return most


TEXT_RULES: dict[str, tuple[Callable[[str], str], str]] = {
    "fences": (without_fence, "the code fence around the JSON is left out"),
    "comments": (without_comments, "comments and commas before a closing bracket are left out"),
    "brackets": (with_brackets, "brackets are closed as they were opened"),
    "json": (with_json, "what is not JSON is read as the JSON that it most likely means"),
}
"""By name: what it does, and what it says of that."""
