"""Files of objects: lists in JSON lines or YAML, and finished results, which a later run reads to go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.values.file import FileDescriptor


def read_lines(path: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of a file of results, its head first; an incomplete last line is removed from the file.

    Args:
        path: The file; a missing or empty file has no lines.
        head: Required first line: the kind of the file, and the settings that its results depend on.

    Raises:
        InputError: It is not a file of results, was written with other settings, or has an unreadable line before
            the last; the file is left unchanged.
        OSError: The file cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    lines: list[dict[str, Any]] = []
    complete_bytes = 0
    with path.open("rb") as file:
        for line in file:
            value = _object_of(line)
            if value is None:
                break
            lines.append(value)
            complete_bytes += len(line)
        nothing_follows = not file.read(1)
    [kind] = head
    if not lines or not isinstance(lines[0].get(kind), dict):
        raise InputError(f"{path}: is not a file of results, and was not changed: name another file")
    if lines[0] != head:
        stored, current = lines[0][kind], head[kind]
        differences = [f"{name} {stored.get(name)!r}, now {current.get(name)!r}" for name in {**stored, **current}
                 if stored.get(name) != current.get(name)]  # fmt: skip
        raise InputError(f"{path}: holds results of another {kind} ({', '.join(differences)}); name another one")
    if complete_bytes < path.stat().st_size:
        if not nothing_follows:
            raise InputError(f"{path}:{len(lines) + 1}: this line cannot be read; correct it, or remove it")
        os.truncate(path, complete_bytes)
    return lines


def add_line(file: TextIO, line: Mapping[str, Any]) -> None:
    """Append a line of JSON and flush the file."""
    file.write(json.dumps(line, ensure_ascii=True) + "\n")
    file.flush()


def _object_of(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a complete line; None if the line is cut off or holds something else."""
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


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
