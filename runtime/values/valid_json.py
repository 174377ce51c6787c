"""JSON and texts that every reader accepts, whatever their content."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]', re.DOTALL)


class RepeatedKey(NamedTuple):
    """A key that occurs in its object for the second time or more; its place is counted from 1."""

    key: str
    line: int
    column: int


def repeated_keys(text: str) -> Iterator[RepeatedKey]:
    """Yield the repeated keys of a valid JSON text, in the order of the text."""
    begins = [0, *(found.end() for found in re.finditer("\n", text))]
    around: list[set[str]] = []  # keys of the enclosing objects; always empty for a list
    last: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                around.append(set())
            case "}" | "]":
                around.pop()
            case ":" if last:
                key = str(json.loads(last[0]))
                if key in around[-1]:
                    line = bisect_right(begins, last.start())
                    yield RepeatedKey(key, line, last.start() - begins[line - 1] + 1)
                around[-1].add(key)
            case _:
                last = token


def to_json(value: object) -> str:
    """Return a value as JSON on one line, in ASCII, because models write characters that no encoding has.

    Numbers that JSON lacks become null; other values without a JSON form become their `repr`.
    """
    try:
        return _dumped(value)
    except (TypeError, ValueError):  # a number that JSON lacks, or a key that is not a string
        return _dumped(_valid(value))


def to_text(said: str) -> str:
    """Return a text that can be encoded: lone surrogates, which models may write, become escapes."""
    return said.encode(errors="backslashreplace").decode()


def _dumped(value: object) -> str:
    return json.dumps(value, allow_nan=False, default=_plain, separators=(",", ":"))


def _plain(value: object) -> Any:
    return _valid(value.model_dump(mode="json", fallback=str)) if isinstance(value, BaseModel) else str(value)


def _valid(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, str | int) else str(key): _valid(each)
            for key, each in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_valid(each) for each in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
