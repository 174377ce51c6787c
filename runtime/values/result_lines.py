"""Files of finished results in JSON lines, which a later run reads to go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from operad.runtime.values.base_errors import InputError


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
