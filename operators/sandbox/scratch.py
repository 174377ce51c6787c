"""Scratch folder of a limited process, whose content is hostile: its size, and its removal."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MOST_BYTES = 256 * 2**20
"""Maximum size of a scratch folder, in bytes."""

MOST_ENTRIES = 4_096
"""Maximum number of files and folders in a scratch folder."""


def excess(folder: Path, process: int) -> str:
    """Return a description of what exceeds the limits of a scratch folder; empty if nothing does.

    Files that the process deleted, but keeps open, count as well.

    Args:
        folder: The folder.
        process: Id of the process that writes in it.
    """
    used, entries = 0, 0
    pending = [str(folder)]
    try:
        while pending:
            with suppress(FileNotFoundError), os.scandir(pending.pop()) as content:
                for entry in content:
                    entries += 1
                    used += _bytes_of(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    if entries > MOST_ENTRIES:
                        return f"more than {MOST_ENTRIES:,} files"
        with suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"/proc/{process}/fd") if sys.platform == "linux" else ():
                with suppress(FileNotFoundError):
                    status = os.stat(f"/proc/{process}/fd/{name}")
                    used += _bytes_of(status) if stat.S_ISREG(status.st_mode) and not status.st_nlink else 0
    except OSError as error:  # a path of more than 4,096 characters, or a folder that hides its content
        return f"files that cannot be counted ({error.strerror})"
    return f"more than {MOST_BYTES:,} bytes" if used > MOST_BYTES else ""


def _bytes_of(status: os.stat_result) -> int:
    return 512 * getattr(status, "st_blocks", 0)


def remove(folder: Path) -> None:
    """Remove a scratch folder, after its process ended.

    The folders in it can be nested deeper than Python's stack and than the longest path. Therefore each step moves the
    content of a folder up, so that no path has more than three parts.
    """
    with suppress(OSError):  # a result is kept although a leftover of its temporary folder remains
        while inner := _remove_files(folder):
            for each in inner:
                for nested in _remove_files(each):
                    nested.rename(folder / uuid4().hex)
                each.rmdir()
        folder.rmdir()


def _remove_files(folder: Path) -> list[Path]:
    """Remove the files of a folder, and return the folders in it."""
    folder.chmod(0o700)
    folders: list[Path] = []
    with os.scandir(folder) as content:
        for entry in content:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                os.unlink(entry.path)
    return folders
