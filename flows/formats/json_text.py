"""Reading of untrusted JSON within limits, conversion of values to JSON values, and writing of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as a value of JSON; other types become texts or lists.

    Raises:
        InvalidError: The value is nested too deep.
    """
    if depth > MAX_DEPTH - 20:
        raise InvalidError(
            "the workflow", [Issue("depth", f"values in it are nested deeper than {MAX_DEPTH - 20} levels")]
        )
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def is_plain(value: Any) -> bool:
    """Return True if a value consists of JSON types only."""
    return all(type(each) in (dict, list, str, int, float, bool, type(None)) for each in _with_descendants(value))


def _with_descendants(value: Any) -> Iterator[Any]:
    """Yield a value and all values and keys inside it."""
    stack = [value]
    while stack:
        yield (value := stack.pop())
        if isinstance(value, Mapping):
            stack += [each for pair in cast("Mapping[Any, Any]", value).items() for each in pair]
        elif isinstance(value, list | tuple):
            stack += cast("Sequence[Any]", value)
