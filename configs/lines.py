"""Files to which a line of JSON is added as soon as something is done, so that it is not done again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from operad.runtime.values.errors import InputError


def read_lines(path: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of such a file, its head the first; a last one that was cut off is cut from the file.

    Args:
        path: The file; none, or an empty one, has no lines.
        head: Required first line: the kind of the file, and the settings that its results depend on.

    Raises:
        InputError: It is another file, has other settings, or a line that is not the last cannot be read; it is left
            as it is.
        OSError: It cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    lines: list[dict[str, Any]] = []
    whole = 0
    with path.open("rb") as file:
        for line in file:
            value = _object_of(line)
            if value is None:
                break
            lines.append(value)
            whole += len(line)
        torn = not file.read(1)
    [what] = head
    if not lines or not isinstance(lines[0].get(what), dict):
        raise InputError(f"{path}: is not a file of results, and was not changed: name another file")
    if lines[0] != head:
        before, now = lines[0][what], head[what]
        other = [f"{name} {before.get(name)!r}, now {now.get(name)!r}" for name in {**before, **now}
                 if before.get(name) != now.get(name)]  # fmt: skip
        raise InputError(f"{path}: holds results of another {what} ({', '.join(other)}); name another one")
    if whole < path.stat().st_size:
        if not torn:
            raise InputError(f"{path}:{len(lines) + 1}: this line cannot be read; mend it, or remove it")
        os.truncate(path, whole)
    return lines


def add_line(file: TextIO, line: Mapping[str, Any]) -> None:
    """Add a line, at once."""
    file.write(json.dumps(line, ensure_ascii=True) + "\n")
    file.flush()


def _object_of(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
