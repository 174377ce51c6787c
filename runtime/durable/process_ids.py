"""Identities of processes, which are never used again for another process."""

from __future__ import annotations

import os
import socket
from functools import cache
from importlib import metadata
from pathlib import Path

from operad.runtime.values.message import new_id

_WRITERS_BYTE = 120
"""Offset of the byte in an SQLite database's ``-shm`` file that a writer locks, as defined by SQLite."""


@cache
def version_here() -> str:
    """Return the version of this package; processes that exchange requests must have the same version."""
    return metadata.version("operad")


def new_executor_id() -> str:
    """Return a new unique id for this process, which includes its host."""
    return f"{socket.gethostname()}:{os.getpid()}:{new_id()[:8]}"


def process_identity(pid: int | None = None) -> str:
    """Return a text that identifies a process of this machine uniquely; empty if unknown.

    Unlike a process number, the text is never used for another process.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        state, *fields = Path(f"/proc/{pid or 'self'}/stat").read_text().rpartition(")")[2].split()
        if state == "Z":  # a zombie: it has ended, and its parent has not reaped it
            return ""
        start_time = fields[18]
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {pid or os.getpid()} {start_time}"
    except (OSError, IndexError):
        return ""


def is_dead(identity: str) -> bool:
    """Return True if a process with this identity ran on this machine and has ended; False if this is unknown."""
    here = process_identity()
    if not (identity and here) or identity.split()[:2] != here.split()[:2]:
        return False
    number = "".join(identity.split()[2:3])
    return number.isdecimal() and process_identity(int(number)) != identity


def who_writes(file: Path) -> int | None:
    """Return the number of the process that is writing into an SQLite file; None if this cannot be determined."""
    try:
        shared = Path(f"{file}-shm").stat()
        locks = Path("/proc/locks").read_text("ascii")
    except (OSError, ValueError):
        return None
    where = f"{os.major(shared.st_dev):02x}:{os.minor(shared.st_dev):02x}:{shared.st_ino}"
    held = (line.split()[-5:] for line in locks.splitlines())
    writers = [
        int(number)
        for kind, number, place, first, last in held
        if (kind, place) == ("WRITE", where) and int(first) <= _WRITERS_BYTE <= int(last)
    ]
    return next((process for process in writers if process != os.getpid()), None)
