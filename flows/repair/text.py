"""Rules on the text before its JSON can be read: code fences and broken JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from operad.flows.formats.json_text import MAX_DEPTH

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n?(.*?)\s*(?:```[\s\S]*)?\Z", re.DOTALL)
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


def _depth(text: str) -> int:
    """Return the depth to which brackets are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


TEXT_RULES: dict[str, tuple[Callable[[str], str], str]] = {
    "fences": (without_fence, "the code fence around the JSON is left out"),
    "json": (with_json, "what is not JSON is read as the JSON that it most likely means"),
}
"""Rules by name: the function, and the description of its repair."""
