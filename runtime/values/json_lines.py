"""Files with a list of objects: JSON lines, or YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.values.file import FileDescriptor

JSON_LINES = (".jsonl", ".ndjson")


def read_list(path: str | Path, key: str, unread: dict[Path_, str], max_bytes: int = MAX_BYTES) -> Document:
    """Return a document whose only key holds the list in a file: the lines of JSON, or the list in YAML.

    A line that is not JSON becomes None.

    Args:
        key: Key of the list, which a file in YAML may also have itself.
        unread: Dict to which the faults of lines that are not JSON are added, by their paths in the document.
        max_bytes: Maximum size of the file.

    Raises:
        InputError: The file does not exist, is too large, empty or not text.
        InvalidError: The file is not valid YAML.
    """
    file = FileDescriptor.of(path)
    text, name = file.read_text(max_bytes), str(path)
    if file.path.suffix.lower() not in JSON_LINES:
        return parse_document(text, name, list_as=key)
    items: list[Any] = []
    lines: dict[Path_, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        lines[key, len(items)] = number
        try:
            items.append(json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys))
        except (ValueError, RecursionError) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else str(error)
            unread[key, len(items)] = f"is not JSON: {why}"
            items.append(None)
    if not items:
        raise InputError(f"{name}: is empty")
    return Document(name, {key: items}, {}, lines)


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    """Return a JSON object; raise ValueError if a key occurs twice."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result
