"""Landlock: the kernel refuses a process, and its children, all files except those of a list.

Source: Linux, include/uapi/linux/landlock.h and Documentation/userspace-api/landlock.rst. Landlock is part of Linux since
5.13 (version 1 of its interface); the rights of later versions are used where the kernel knows them. Landlock does not
refuse metadata: `stat` of any path works, and `chmod`, `chown` and `utime` are left to `operad.runtime.barrier.seccomp`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on all architectures
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_ALL_OF_VERSION_1 = (1 << 13) - 1
_SINCE = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))
"""Rights on files that later versions added: the version, and the right."""

_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
_OF_FILES = _READ_FILE | _WRITE_FILE | _TRUNCATE
"""Rights that a rule for a single file may have."""

_TCP = 0b11
"""Rights to bind and to connect TCP sockets, since version 4."""

_SCOPES = 0b11
"""Abstract Unix sockets and signals end at the barrier, since version 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock in this kernel; 0 if there is none, or if it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def restrict_files(read: Iterable[str | os.PathLike[str]], write: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse this thread, and all threads that it starts, every file except those below the given paths.

    Args:
        read: Files and folders that may be read; paths that do not exist are left out.
        write: Files and folders that may be read and written.

    Raises:
        OSError: The kernel refused; the process is not restricted.
    """
    known = version()
    handled = _ALL_OF_VERSION_1
    for since, right in _SINCE:
        handled |= right if known >= since else 0
    rules = _Ruleset(handled, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    # Older kernels accept the longer structure, as its end is zero.
    ruleset = _checked(_syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0))
    try:
        for paths, rights in ((read, _READ), (write, _WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _checked(_syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str | os.PathLike[str], rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # does not exist, or is closed to this user anyway
        return
    try:
        is_folder = os.path.isdir(path)
        rule = _Rule(rights if is_folder else rights & _OF_FILES, descriptor)
        _checked(_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(descriptor)


def _syscall(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number), *words))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock refused the barrier: {os.strerror(number)}")
    return result
