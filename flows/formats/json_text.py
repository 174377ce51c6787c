"""Reading of untrusted JSON within limits, and writing of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.file import conversion
from operad.runtime.values.valid_json import repeated_keys

MAX_BYTES = 16 * 2**20
"""Maximum size of a file, in bytes."""

MAX_DEPTH = 60
"""Maximum depth of nested values."""

MOST_REPEATED = 100
"""Maximum number of duplicate keys that an error names."""


def read_text(content: bytes, name: str, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file.

    Raises:
        InvalidError: The file is too large or not UTF-8.
    """
    if len(content) > max_bytes:
        raise InvalidError(name, [Issue("size", f"has {len(content):,} bytes; the maximum is {max_bytes:,}")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(
            name, [Issue("format", f"is not UTF-8: {error.reason}; {conversion(content)}", f"byte {error.start}")]
        ) from error


def read_json(text: str, name: str) -> Any:
    """Return the value of a JSON text.

    Numbers that are not finite (NaN, Infinity, 1e999) become None, as in ComfyUI's own page.

    Raises:
        InvalidError: The text is not JSON, has duplicate keys or is nested too deep.
    """
    has_duplicates = False

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        values = dict(pairs)
        has_duplicates = has_duplicates or len(values) < len(pairs)
        return values

    try:
        value = json.loads(text, object_pairs_hook=to_dict, parse_float=_finite, parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidError(name, [Issue("format", f"is not JSON: {error.msg}", where)]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidError(name, [Issue("format", f"is not JSON that can be read: {error}", name)]) from error
    if has_duplicates:
        raise InvalidError(
            name,
            [
                Issue("duplicate-key", f"the key {key[:80]!r} stands here twice", f"line {line}, column {column}")
                for key, line, column in islice(repeated_keys(text), MOST_REPEATED)
            ],
        )
    if _too_deep(value):
        raise InvalidError(name, [Issue("depth", f"is nested deeper than {MAX_DEPTH} levels", name)])
    return value


def json_lines(content: bytes, name: str, issues: list[Issue]) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line of JSON that is not empty.

    Args:
        content: The lines.
        name: Name of the file.
        issues: List to which the issues of unreadable lines are added.
    """
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            where = f"{name}:{number}"
            try:
                yield number, read_json(read_text(line, where), where)
            except InvalidError as error:
                issues += [Issue(issue.code, issue.message, where) for issue in error.issues]


def write_json(value: Any) -> bytes:
    """Return JSON, indented by two, in ASCII so that half a surrogate pair survives."""
    return (json.dumps(value, indent=2) + "\n").encode()


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
