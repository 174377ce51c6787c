"""Recently opened files of all folders, stored in the user's folder for program state."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.durable.database_names import state_folder
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import write_whole
from operad.server.studio.files.folder import Folder

MOST = 20
"""Maximum number of stored files."""

SHOWN = 6
"""Maximum number of files that are shown."""

MAX_BYTES = 2**17
"""Maximum size of the list that is read, in bytes."""


class RecentFiles:
    """List of recently opened files, the latest first.

    Args:
        root: Folder of the histories of all files; by default in the user's folder for program state.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._file = (root or state_folder() / "studio") / "recent.json"
        self._lock = Lock()

    def note(self, path: Path) -> None:
        """Put a file at the start of the list; errors in writing the list are ignored."""
        with self._lock, suppress(OSError, InputError):
            others = [entry for entry in self._read() if entry[0] != str(path)]
            kept = [(str(path), time.time()), *others][:MOST]
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(str(self._file), json.dumps([{"path": entry, "at": at} for entry, at in kept]).encode())

    def rows(self, folder: Folder) -> list[dict[str, Any]]:
        """Return the files as JSON values: those of the folder by name, others with the command that opens them."""
        return [_row(Path(path), at, folder) for path, at in self._read()[:SHOWN]]

    def _read(self) -> list[tuple[str, float]]:
        """Return the stored list; invalid entries are skipped."""
        with suppress(OSError, ValueError, RecursionError):
            if self._file.stat().st_size <= MAX_BYTES:
                found = [fields_of(entry) for entry in list_of(json.loads(self._file.read_text(encoding="utf-8")))]
                return [
                    (entry["path"], float(entry["at"]))
                    for entry in found
                    if isinstance(entry.get("path"), str) and isinstance(entry.get("at"), int | float)
                ]
        return []


def _row(path: Path, at: float, folder: Folder) -> dict[str, Any]:
    name: str | None = None
    with suppress(InputError, ValueError):
        name = folder.name(folder.path(path.relative_to(folder.root).as_posix()))
    try:
        missing = not path.is_file()
    except (OSError, ValueError):
        missing = True
    command = None if name else f"operad studio {shlex.quote(str(path))}"
    return {"name": name, "place": str(path), "at": at, "missing": missing, "command": command}
