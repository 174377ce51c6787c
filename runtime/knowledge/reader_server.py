"""Program of the process that reads documents: for each one it forks a limited process, which reads it and ends.

The modules of readers are imported before the fork, so a document costs milliseconds. This process never looks at a
document: it starts readers, ends them at their time limit or when the caller is gone, and says how they ended. It ends
itself, with all readers, when its stdin ends, which the caller holds open. The caller limits the number of readers.

The caller sends a datagram for each document: JSON of `Request`, and a socket. The reader takes the document from the
socket, and answers with eight bytes, the size, and JSON: ``{"value": …}`` or ``{"error": …}``. If the reader ends before
that, one byte follows, its status: the number of a signal, or one of the constants below.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

MOST_REQUEST = 2_000
"""Maximum size of a request in bytes; macOS sends no larger datagrams."""

ENDED, OUT_OF_MEMORY, OUT_OF_TIME = 101, 102, 103
"""Statuses of readers that no signal ended."""

if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])

import msgspec  # noqa: E402 - found on the path of the caller

from operad.runtime.barrier import confine, limit  # noqa: E402
from operad.runtime.values.errors import InputError, MissingExtraError, describe  # noqa: E402

_SIZE = 8
_ERROR_CHARS = 1_000
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class Request(msgspec.Struct):
    """A document to be read.

    Attributes:
        function: The function that reads it, as ``module:name``.
        modules: Modules to import before the fork.
        arguments: Arguments of the function after the document.
        size: Size of the document, in bytes.
        seconds: Computing time.
        most_seconds: Time after which the reader is ended.
        memory_bytes: Memory beyond that of the modules, in bytes.
    """

    function: str
    modules: list[str]
    arguments: list[Any]
    size: int
    seconds: int
    most_seconds: float
    memory_bytes: int


@dataclass(slots=True, eq=False)
class _Reader:
    """A document that is read.

    Attributes:
        request: What to do.
        connection: Socket of the caller.
        pid: Process of the reader.
        deadline: Time at which the reader is ended.
        is_late: True if it was ended then.
    """

    request: Request
    connection: socket.socket
    pid: int = 0
    deadline: float = 0.0
    is_late: bool = False


class _Server:
    """Forks of readers, each with a pipe that ends when the reader does."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pid = os.getpid()
        self._poll = select.poll()
        self._poll.register(0, 0)
        self._poll.register(control.fileno(), select.POLLIN)
        self._by_connection: dict[int, _Reader] = {}
        self._by_life: dict[int, _Reader] = {}

    def serve(self) -> None:
        """Start readers on request until the caller ends."""
        while True:
            for descriptor, _ in self._poll.poll(self._milliseconds()):
                if descriptor == 0:
                    return
                if descriptor == self._control.fileno():
                    self._take_request()
                elif descriptor in self._by_life:
                    self._reap(descriptor)
                elif descriptor in self._by_connection:  # the caller is gone
                    self._give_up(self._by_connection[descriptor])
            for reader in self._by_life.values():
                if time.monotonic() > reader.deadline and not reader.is_late:
                    reader.is_late = True
                    os.kill(reader.pid, signal.SIGKILL)

    def end(self) -> None:
        """End all readers."""
        for reader in self._by_life.values():
            os.kill(reader.pid, signal.SIGKILL)

    def _milliseconds(self) -> float | None:
        deadlines = [reader.deadline for reader in self._by_life.values() if not reader.is_late]
        return max(0.0, min(deadlines) - time.monotonic()) * 1_000 + 1 if deadlines else None

    def _take_request(self) -> None:
        """Start a reader; if that is impossible, say why, for this process serves other documents, too."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MOST_REQUEST, 1)
        for connection in [socket.socket(fileno=each) for each in descriptors]:
            try:
                request = msgspec.json.decode(data, type=Request)
                _import(request.modules)
                self._start(_Reader(request, connection))
            except (msgspec.DecodeError, OSError) as error:
                with suppress(OSError):  # the caller is gone
                    connection.setblocking(False)
                    _send(connection, {"error": f"cannot start a reader: {describe(error)}", "kind": "system"})
                connection.close()

    def _start(self, reader: _Reader) -> None:
        life, of_reader = os.pipe()
        try:
            pid = os.fork()
        except OSError:  # too many processes
            os.close(life)
            os.close(of_reader)
            raise
        if not pid:
            try:
                os.close(life)
                self._leave()
                _read(reader)
            finally:
                os._exit(ENDED)
        os.close(of_reader)
        reader.pid, reader.deadline = pid, time.monotonic() + reader.request.most_seconds
        self._by_life[life] = reader
        self._poll.register(life, 0)
        self._by_connection[reader.connection.fileno()] = reader
        self._poll.register(reader.connection.fileno(), 0)  # tells of its end alone

    def _leave(self) -> None:
        """Close what a reader must not reach: the sockets of other documents, and of the caller."""
        for life, other in self._by_life.items():  # also those that were given up, and have not ended yet
            os.close(life)
            other.connection.close()
        self._control.close()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)  # a reader does not outlive the server
            if os.getppid() != self._pid:
                os._exit(ENDED)

    def _reap(self, life: int) -> None:
        """Send the status of a reader that has ended to its caller."""
        reader = self._by_life.pop(life)
        self._poll.unregister(life)
        os.close(life)
        with suppress(ProcessLookupError):
            os.kill(reader.pid, signal.SIGKILL)  # it may have closed its pipe by itself
        _, status = os.waitpid(reader.pid, 0)
        code = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status) or ENDED
        if reader.is_late or code == signal.SIGXCPU:
            code = OUT_OF_TIME
        with suppress(OSError):  # the caller may be gone
            reader.connection.send(bytes([code]), socket.MSG_DONTWAIT)
        self._forget(reader)
        reader.connection.close()

    def _give_up(self, reader: _Reader) -> None:
        os.kill(reader.pid, signal.SIGKILL)  # `_reap` follows
        self._forget(reader)

    def _forget(self, reader: _Reader) -> None:
        if self._by_connection.pop(reader.connection.fileno(), None):
            self._poll.unregister(reader.connection.fileno())


def _import(modules: list[str]) -> None:
    """Import modules before the fork.

    No deadline is watched meanwhile. That is harmless: each module is imported once, in a second or so, the kernel limits
    the computing time of readers in any case, and the caller replaces a process that takes longer than `GRACE_SECONDS`.
    """
    known = len(sys.modules)
    for name in modules:
        with suppress(Exception):  # the reader tells of it
            importlib.import_module(name)
    if len(sys.modules) > known:
        gc.collect()
        gc.freeze()  # so that readers share this memory


# The reader


def _read(reader: _Reader) -> NoReturn:
    """Read the document, answer, and end."""
    code = ENDED
    try:
        document = _received(reader.connection, reader.request.size)
        _send(reader.connection, _confine(reader.request) or _answer(reader.request, document))
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)  # without the exit functions of the modules


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    content = json.dumps(answer, ensure_ascii=False, default=asdict).encode("utf-8", "replace")
    connection.sendall(len(content).to_bytes(_SIZE, "big") + content)


def _received(connection: socket.socket, size: int) -> bytes:
    document = bytearray()
    while len(document) < size:
        piece = connection.recv(min(size - len(document), 2**20))
        if not piece:  # the caller is gone
            os._exit(ENDED)
        document += piece
    return bytes(document)


def _confine(request: Request) -> dict[str, Any] | None:
    """Take all rights from this process that reading does not need. Return the answer if that fails: no document did it."""
    try:
        _limit(request)
        confine(read=[folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the system lacks
        return {"error": f"cannot be confined: {describe(error)[:_ERROR_CHARS]}", "kind": "system"}
    return None


def _limit(request: Request) -> None:
    """Limit the computing time, memory and files of this process."""
    limit(file_bytes=0)
    limits = [(resource.RLIMIT_CPU, request.seconds, request.seconds + 1)]
    with suppress(OSError):  # macOS has no /proc, and does not limit memory
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        memory = pages * os.sysconf("SC_PAGE_SIZE") + request.memory_bytes
        limits.append((resource.RLIMIT_AS, memory, memory))
    for kind, soft, hard in limits:
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _answer(request: Request, document: bytes) -> dict[str, Any]:
    module, _, name = request.function.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return {"value": function(document, *request.arguments)}
    except MemoryError:
        raise
    except InputError as error:
        return {"error": str(error)[:_ERROR_CHARS], "kind": "input"}
    except MissingExtraError as error:
        return {"error": str(error)[:_ERROR_CHARS], "kind": "extra"}
    except ImportError as error:  # a package is broken, or out of reach
        return {"error": f"cannot import what it needs: {describe(error)[:_ERROR_CHARS]}", "kind": "system"}
    except RecursionError:
        return {"error": "nests its elements too deep to be read", "kind": "input"}
    except Exception as error:  # noqa: BLE001 - readers may raise anything for a broken document
        return {"error": describe(error)[:_ERROR_CHARS], "kind": "broken"}


if __name__ == "__main__":
    server = _Server(socket.socket(fileno=int(sys.argv[1])))
    try:
        server.serve()
    finally:
        server.end()
        os._exit(0)  # modules may have threads
