"""Confinement of a process by the kernel, before it handles code or documents of others."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from operad.runtime.barrier import landlock, seccomp

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/etc/localtime", "/usr/share/fonts", "/usr/local/share/fonts", "/etc/fonts"),
    *("/etc/mime.types", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/sys/devices/system/cpu", "/proc/cpuinfo"),
    *("/proc/meminfo", "/proc/self/maps", "/proc/self/stat", "/proc/self/statm", "/proc/self/status"),
)
"""Files that Python, shared libraries and usual packages read."""

_MOST_FILES = 256
"""Maximum number of open files."""

_MORE_THREADS = 1_024
"""Maximum number of threads of this process, beyond those that the system already has."""


def missing() -> list[str]:
    """Return descriptions of the parts of the barrier that this system lacks; none if the barrier is complete.

    Example:
        >>> from operad.runtime.barrier import missing
        >>> print("; ".join(missing()) or "complete")  # doctest: +SKIP
        complete
    """
    if sys.platform != "linux":
        return [f"Landlock and seccomp, which only Linux has (this is {sys.platform})"]
    found: list[str] = []
    if not landlock.version():
        found.append("Landlock (Linux 5.13 or later, and not switched off): files of the user can be read and written")
    if not seccomp.is_supported():
        found.append(
            "seccomp filters (Linux on x86_64 or aarch64): programs can be started and other processes reached"
        )
    return found


def python_folders() -> list[str]:
    """Return the folders of Python's library and of the installed packages."""
    paths = sysconfig.get_paths()
    names = [paths[each] for each in ("stdlib", "platstdlib", "purelib", "platlib")]
    names += [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))]  # those of the user, too
    return list(dict.fromkeys([*names, os.path.join(sys.base_prefix, "lib")]))


def confine(*, read: Iterable[str | os.PathLike[str]] = (), write: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Put a barrier round this process, which nothing lifts: neither its code nor its threads.

    Afterwards it reads Python, the installed packages and the given paths alone, and writes in `write` alone. It starts
    no processes, opens no sockets, sends no signals to others, sees nothing of them in `/proc`, and changes no attributes
    of files. It ends with the thread that started it. Open descriptors and threads remain usable, so close what the
    process may not have. Metadata of files (do they exist, their size and time) stay visible. Parts that `missing` names are left out.

    Args:
        read: Files and folders that may be read, too.
        write: Files and folders that may be read and written.

    Raises:
        OSError: The kernel refused; do not handle anything of others in this process.
        RuntimeError: The process has several threads, of which only one would be confined.
    """
    if sys.platform != "linux":
        return
    with suppress(FileNotFoundError):  # /proc is not mounted
        if (threads := len(os.listdir("/proc/self/task"))) > 1:
            raise RuntimeError(f"a barrier must be put round a process before it starts threads; it has {threads}")
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges = 38  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(no_new_privileges, ctypes.c_ulong(1), *(ctypes.c_ulong(0),) * 3) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused PR_SET_NO_NEW_PRIVS")
    _drop_capabilities(libc)
    parent_death_signal = 1  # PR_SET_PDEATHSIG
    libc.prctl(parent_death_signal, ctypes.c_ulong(signal.SIGKILL), *(ctypes.c_ulong(0),) * 3)
    if landlock.version():
        landlock.restrict_files((*_SYSTEM, *python_folders(), *read), ("/dev/null", *write))
    if seccomp.is_supported():
        seccomp.restrict_calls()


def limit(*, file_bytes: int, files: int = _MOST_FILES) -> None:
    """Limit this process: the size of a file that it writes, its open files, threads, and no core dumps.

    The number of threads is not limited for the user root, whom the kernel exempts.
    """
    import resource

    limits = [(resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_NOFILE, files), (resource.RLIMIT_CORE, 0)]
    with suppress(OSError):
        # The limit counts all threads of the user, of which the threads of the whole system are an upper bound.
        text = Path("/proc/loadavg").read_text(encoding="ascii")
        limits.append((resource.RLIMIT_NPROC, int(text.split()[3].partition("/")[2]) + _MORE_THREADS))
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up the capabilities of root, with which limits could be raised (linux/capability.h, version 3)."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to drop capabilities")
