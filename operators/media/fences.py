"""Code fences that models put around a whole text."""

from __future__ import annotations

import re
from collections.abc import Collection

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*")


def unfenced(text: str, languages: Collection[str]) -> str:
    """Return the content of the fence around a whole text; without such a fence, the text.

    Fences inside may be as long as the outer fence, as models write them.

    Args:
        text: Markdown.
        languages: Accepted languages after the opening fence, in lower case; ``""`` for none.
    """
    first, *inner = text.strip().splitlines() or [""]
    opening = _FENCE.fullmatch(first)
    if not opening or opening[2].lower() not in languages or not inner or inner.pop().strip() != opening[1]:
        return text
    is_open = False
    for line in inner:
        if (fence := _FENCE.fullmatch(line)) and fence[1][0] == opening[1][0]:
            if is_open and fence[2]:
                return text  # the first fence is closed already: there are several blocks
            is_open = not is_open
    return text if is_open else "\n".join(inner)


def first_fenced(text: str, language: str) -> str:
    """Return the content of the first fence with this language, else of the fence around the text, else the text."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (opening := _FENCE.fullmatch(line)) and opening[2].lower() == language:
            body = lines[number + 1 :]
            closings = (at for at, after in enumerate(body) if after.strip().startswith(opening[1]))
            return "\n".join(body[: next(closings, len(body))])
    return unfenced(text, {""})
