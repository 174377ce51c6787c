"""JSON in the answer of a model: whole, in a code fence, amid prose, or repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

MAX_STARTS = 100
"""Maximum number of brackets in an answer at which JSON is searched for amid prose."""

MAX_MENDED = 16_000
"""Maximum length, in characters, of an answer that is repaired; repair may take quadratic time."""

_FENCE_BEGINS = re.compile(r"```[ \t]*(?:[\w-]+[ \t]*)?\n")

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.ASCII | re.DOTALL)
"""Escape of a JSON text; the group matches half of a surrogate pair."""

_FENCE_ENDS = re.compile(r"\n[ \t]*```")


def unfenced(text: str) -> str:
    """Return the content of the code fence if the text is nothing else; otherwise the text."""
    begin, end = _FENCE_BEGINS.match(text), text.rfind("\n")
    fenced = begin and end >= begin.end() and _FENCE_ENDS.fullmatch(text, end)
    return text[begin.end() : end].strip() if begin and fenced else text


def _load_json(text: str) -> Any:
    return json.loads(text, parse_constant=refuse_constant)


def refuse_constant(constant: str) -> Any:
    """Raise ValueError for NaN and Infinity, which are not JSON."""
    raise ValueError(f"{constant} is not JSON")


def without_half_escapes(text: str) -> str:
    """Return a JSON text in which each escape of half a surrogate pair is replaced by the escape of U+FFFD."""
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape[1] else escape[0], text) if "\\u" in text else text


def candidates(text: str, repair: bool) -> Iterator[Any]:
    """Yield possible values of an answer: the whole text, code fences and JSON amid prose, and at last repaired JSON.

    Of several values, the last comes first: a model drafts before it answers.
    """
    text = text.strip()
    fenced = list(_fenced(text))
    found = list[tuple[int, Any]]()
    for end, candidate in ((len(text), text), *fenced):
        try:
            found.append((end, _load_json(candidate)))
        except (ValueError, RecursionError):
            continue
    found += _embedded(text)
    yield from (value for _, value in sorted(found, key=lambda each: each[0], reverse=True))
    for candidate in (*(inner for _, inner in fenced), text) if repair else ():
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start >= 0 and len(candidate) - start <= MAX_MENDED:
            yield from _repaired(candidate[start:])


def _fenced(text: str) -> Iterator[tuple[int, str]]:
    """Yield the end and the content of each code fence; a single pattern for begin and end would take quadratic time."""
    at = 0
    while (begin := _FENCE_BEGINS.search(text, at)) and (end := _FENCE_ENDS.search(text, begin.end())):
        yield end.end(), text[begin.end() : end.start()]
        at = end.end()


def _embedded(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the end and the value of JSON amid prose: those that begin at one of the first `MAX_STARTS` brackets."""
    decoder = json.JSONDecoder()
    at = 0
    for start in islice(re.finditer(r"[{\[]", text), MAX_STARTS):
        if start.start() < at:
            continue
        try:
            value, at = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        yield at, value


def _repaired(text: str) -> Iterator[Any]:
    """Yield the object or list of a text, after repairing its JSON; nothing if that is impossible."""
    import json_repair

    try:
        value: Any = json_repair.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value
