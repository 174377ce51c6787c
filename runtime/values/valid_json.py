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
    """A second or later occurrence of a key in an object of a JSON text; line and column are counted from 1."""

    key: str
    line: int
    column: int


def repeated_keys(text: str) -> Iterator[RepeatedKey]:
    """Yield the repeated keys of a valid JSON text, in the order of the text."""
    line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
    enclosing_keys: list[set[str]] = []  # per enclosing object or list, the keys so far; empty for lists
    last_string: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                enclosing_keys.append(set())
            case "}" | "]":
                enclosing_keys.pop()
            case ":" if last_string:
                key = str(json.loads(last_string[0]))
                if key in enclosing_keys[-1]:
                    line = bisect_right(line_starts, last_string.start())
                    yield RepeatedKey(key, line, last_string.start() - line_starts[line - 1] + 1)
                enclosing_keys[-1].add(key)
            case _:
                last_string = token


def to_json(value: object) -> str:
    """Return a value as JSON on one line, in ASCII, because texts of models may hold characters that cannot be encoded.

    NaN and infinities become null; other values without a JSON form become text by `str`.
    """
    try:
        return _dump(value)
    except (TypeError, ValueError):  # NaN, an infinity, or a key that is not a string
        return _dump(_cleaned(value))


def to_text(said: str) -> str:
    """Return a text that can be encoded: lone surrogates, which models may write, become escapes."""
    return said.encode(errors="backslashreplace").decode()


def _dump(value: object) -> str:
    return json.dumps(value, allow_nan=False, default=_without_json_form, separators=(",", ":"))


def _without_json_form(value: object) -> Any:
    return _cleaned(value.model_dump(mode="json", fallback=str)) if isinstance(value, BaseModel) else str(value)


def _cleaned(value: Any) -> Any:
    """Return a value with NaN and infinities replaced by None, and keys converted to JSON keys, at any depth."""
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, str | int) else str(key): _cleaned(each)
            for key, each in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
