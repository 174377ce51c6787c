"""Files that a browser sends for runs, kept until the studio ends."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from operad.flows.formats.shapes import fields_of
from operad.runtime.values.errors import InputError
from operad.server.studio.files.folder import Folder
from operad.server.studio.files.new_files import decoded


class Uploads:
    """Files of runs: those that a browser sends, and those of the folder that it names.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: TemporaryDirectory[str] | None = None

    def path(self, value: Any, name: str) -> str:
        """Return the path of a file.

        Args:
            value: ``{"name", "base64"}``, or the name of a file in the folder.
            name: Name of the input.

        Raises:
            InputError: It is none, or too large.
        """
        if isinstance(value, str):
            return str(self._folder.path(value))
        said = fields_of(value)
        if not isinstance(said.get("name"), str):
            raise InputError(f'input {name!r}: a file is {{"name": …, "base64": …}}')
        called = re.sub(r"[^\w.\- ]", "_", said["name"].replace("\\", "/").rpartition("/")[2])[-120:].lstrip(".")
        data = decoded(str(said.get("base64", "")), called)
        self._kept = self._kept or TemporaryDirectory(prefix="operad-studio-", ignore_cleanup_errors=True)
        path = Path(mkdtemp(dir=self._kept.name)) / (called or "file")
        path.write_bytes(data)
        return str(path)

    def close(self) -> None:
        """Delete the files that were sent."""
        if self._kept is not None:
            self._kept.cleanup()
