"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from operad.runtime.values.errors import InputError


def write_whole(path: str, data: bytes) -> None:
    """Write a file atomically; a target that is not a regular file is written to directly.

    Control characters are removed if the target is a terminal.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        target = Path(path).expanduser().resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(temporary).chmod(mode)
            Path(temporary).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except (OSError, RuntimeError, ValueError) as error:  # the home of an unknown user; a zero byte
        raise unwritable(path, error) from error


def unwritable(path: str, error: Exception) -> InputError:
    """Return the error for a file that cannot be written, with the reason."""
    folder = Path(path).expanduser().parent
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return InputError(f"{path}: there is no folder {str(folder)!r}; make it, or name another file")
    return InputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _umask() -> int:
    """Return the umask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
