"""Files uploaded for runs, kept until the studio ends."""

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
    """Files for runs: uploads of the browser, and files of the folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._temporary: TemporaryDirectory[str] | None = None

    def path(self, value: Any, name: str) -> str:
        """Return the path of a file for an input; an upload is written to a temporary folder.

        Args:
            value: ``{"name", "base64"}``, or the name of a file in the folder.

        Raises:
            InputError: The value is not a file, or the file is too large.
        """
        if isinstance(value, str):
            return str(self._folder.path(value))
        fields = fields_of(value)
        if not isinstance(fields.get("name"), str):
            raise InputError(f'input {name!r}: a file is {{"name": …, "base64": …}}')
        file_name = re.sub(r"[^\w.\- ]", "_", fields["name"].replace("\\", "/").rpartition("/")[2])[-120:].lstrip(".")
        data = decoded(str(fields.get("base64", "")), file_name)
        self._temporary = self._temporary or TemporaryDirectory(prefix="operad-studio-", ignore_cleanup_errors=True)
        path = Path(mkdtemp(dir=self._temporary.name)) / (file_name or "file")
        path.write_bytes(data)
        return str(path)

    def close(self) -> None:
        """Delete the uploads."""
        if self._temporary is not None:
            self._temporary.cleanup()
