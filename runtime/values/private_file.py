"""Files that belong to the user alone, such as keys and decisions of trust."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from operad.runtime.values.base_errors import InputError


def write_private(path: Path, text: str) -> None:
    """Write a file, whole or not at all, which only its owner can read; its folder is made.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".private.", dir=path.parent)  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
