"""Attacks of a process on its surroundings, each of which succeeds without the barrier and is refused by it.

    python attacks.py FOLDER free|confined|foreign

FOLDER has the file `secret` and the folder `scratch`. The program tries all attacks on FOLDER, and on a process that it
started before, and prints a JSON object: "done" or the name of the error number, by the name of the attack. With
`foreign`, it makes a system call of 32-bit programs behind the barrier.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from operad.runtime.barrier import confine

Attack = Callable[["Target"], object]


class Target:
    """Surroundings of a process: a folder, another process, and a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = folder / "secret"
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.pipe = os.pipe()


LIBC = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> int:
    """Call a function of libc past all checks of Python; raise OSError if it fails."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(getattr(LIBC, function)(*words))
    if result < 0:
        raise OSError(ctypes.get_errno(), function)
    return result


def vectors(address: object, size: int) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * 2)(ctypes.cast(address, ctypes.c_void_p), size)  # pyright: ignore


def read_memory(target: Target) -> None:
    text = Path(f"/proc/{target.process.pid}/maps").read_text() if not CONFINED else "1000-2000"
    address = int(text.partition("-")[0], 16)
    buffer = ctypes.create_string_buffer(8)
    call("process_vm_readv", target.process.pid, vectors(buffer, 8), 1, vectors(address, 8), 1, 0)


def limit_other(target: Target) -> None:
    resource.prlimit(target.process.pid, resource.RLIMIT_CORE)


def own_signals(target: Target) -> None:
    import fcntl

    fcntl.fcntl(target.pipe[0], 8, target.process.pid)  # F_SETOWN


def connect(target: Target) -> None:
    address = bytes([2, 0]) + target.port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    call("connect", call("socket", 2, 1, 0), address, 16)


def datagrams(target: Target) -> None:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def write_outside(target: Target) -> None:
    (target.folder / "new").write_text("x")


def overwrite(target: Target) -> None:
    with target.secret.open("r+") as file:
        file.write("x")


def link_to_outside(target: Target) -> None:
    link = target.folder / "scratch" / "link"
    link.symlink_to(target.secret)
    link.read_text()


def hard_link(target: Target) -> None:
    os.link(target.secret, target.folder / "scratch" / "hard")


def move_out(target: Target) -> None:
    (target.folder / "scratch" / "moved").write_text("x")
    (target.folder / "scratch" / "moved").rename(target.folder / "moved")


def through_proc(target: Target) -> None:
    folder = os.open("/proc/self/root", os.O_PATH)
    os.read(os.open(str(target.secret).lstrip("/"), os.O_RDONLY, dir_fd=folder), 1)


def through_descriptor(target: Target) -> None:
    descriptor = os.open(target.secret, os.O_PATH)
    Path(f"/proc/self/fd/{descriptor}").read_text()


def watch(target: Target) -> None:
    call("inotify_add_watch", call("inotify_init1", 0), str(target.folder).encode(), 0x100)


def kill(target: Target) -> None:
    os.kill(target.process.pid, signal.SIGTERM)


ATTACKS: dict[str, Attack] = {
    "reads a file outside": lambda target: target.secret.read_text(),
    "lists a folder outside": lambda target: os.listdir(target.folder),
    "reads the users of the system": lambda _: Path("/etc/passwd").read_text(),
    "reads a file over /proc/self/root": through_proc,
    "reads a file over /proc/self/fd": through_descriptor,
    "reads a file over a symbolic link": link_to_outside,
    "reads a file over a hard link": hard_link,
    "reads the variables of another process": lambda target: Path(f"/proc/{target.process.pid}/environ").read_bytes(),
    "reads the command of its parent": lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_bytes(),
    "lists processes": lambda _: os.listdir("/proc"),
    "writes a file outside": write_outside,
    "overwrites a file outside": overwrite,
    "truncates a file outside": lambda target: os.truncate(target.secret, 1),
    "moves a file outside": move_out,
    "changes the mode of a file": lambda target: os.chmod(target.secret, 0o644),
    "changes the times of a file": lambda target: os.utime(target.secret),
    "sets an attribute of a file": lambda target: call("setxattr", str(target.secret).encode(), b"user.a", b"x", 1, 0),
    "watches a folder": watch,
    "deletes a file outside": lambda target: target.secret.unlink(),
    "starts a program": lambda _: subprocess.run(["/bin/true"], check=True),
    "starts a program by libc": lambda _: os.posix_spawn("/bin/true", ["true"], {}),
    "forks": lambda _: os.fork() or os._exit(0),
    "opens a socket": lambda _: socket.socket(),
    "connects": connect,
    "opens datagram sockets": datagrams,
    "accepts connections": lambda target: socket.create_server(("127.0.0.1", 0)),
    "traces another process": lambda target: call("ptrace", 16, target.process.pid, 0, 0),
    "reads the memory of another process": read_memory,
    "reads the limits of another process": limit_other,
    "sends its signals to another process": own_signals,
    "changes the priority of another process": lambda target: os.setpriority(os.PRIO_PROCESS, target.process.pid, 1),
    "opens another process": lambda target: call("syscall", 434, target.process.pid, 0),
    "makes memory that no limit counts": lambda _: call("memfd_create", b"x", 0),
    "makes memory that others share": lambda _: call("shmget", 0, 4096, 0o1600),
    "changes its personality": lambda _: call("personality", 0x0040000),
    "makes a namespace": lambda _: call("unshare", 0x10000000),
    "kills another process": kill,
}
"""The attacks, in their order, by what a process does that succeeds."""

HARMLESS: dict[str, Attack] = {
    "writes and reads in its folder": lambda target: (target.folder / "scratch" / "a").write_text("x"),
    "starts a thread": lambda _: __import__("threading").Thread(target=int).start(),
    "sends a signal to itself": lambda _: os.kill(os.getpid(), 0),
    "runs an event loop": lambda _: __import__("asyncio").run(__import__("asyncio").sleep(0)),
    "reads Python": lambda _: Path(os.__file__).read_text(),
    "reads a time zone": lambda _: __import__("zoneinfo").ZoneInfo("Europe/Berlin"),
    "reads random bytes": lambda _: os.read(os.open("/dev/urandom", os.O_RDONLY), 1),
}


def outcomes(target: Target) -> Iterator[tuple[str, str]]:
    for name, attack in {**HARMLESS, **ATTACKS}.items():
        try:
            attack(target)
            yield name, "done"
        except OSError as error:
            yield name, errno.errorcode[error.errno or 0]


def foreign_call() -> None:
    """Call `getpid` by the interface of 32-bit programs, by machine code of x86."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()


CONFINED = sys.argv[2:] != ["free"]

if __name__ == "__main__":
    aim = Target(Path(sys.argv[1]))
    if CONFINED:
        confine(write=[aim.folder / "scratch"])
    if sys.argv[2] == "foreign":
        foreign_call()
    print(json.dumps(dict(outcomes(aim))))
