"""Program of the process that reads documents: for each one it forks a limited process, which reads it and ends.

The modules of readers are imported before the fork, so a document costs milliseconds. This process never looks at a
document: it starts readers, ends them at their time limit or when the caller is gone, and says how they ended. It ends
itself, with all readers, when its stdin ends, which the caller holds open.

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
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

MOST_REQUEST = 2_000
"""Maximum size of a request in bytes; macOS sends no larger datagrams."""

MOST_READERS = 4
"""Maximum number of documents that are read at once; others wait."""

TIMES_SECONDS = 4
"""Time limit of a reader, as a multiple of its computing time: others may compute, too."""

ENDED, OUT_OF_MEMORY, OUT_OF_TIME = 101, 102, 103
"""Statuses of readers that no signal ended."""

if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])

from operad.runtime.barrier import confine, limit  # noqa: E402 - found on the path of the caller
from operad.runtime.values.errors import InputError, MissingExtraError, describe  # noqa: E402

_SIZE = 8
_ERROR_CHARS = 1_000
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(slots=True, eq=False)
class _Reader:
    """A document that is read.

    Attributes:
        request: What to do.
        connection: Socket of the caller.
        pid: Process of the reader; 0 while the document waits.
        deadline: Time at which the reader is ended.
        is_late: True if it was ended then.
    """

    request: Mapping[str, Any]
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
        self._waiting: deque[_Reader] = deque()
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
            while self._waiting and len(self._by_life) < MOST_READERS:
                self._start(self._waiting.popleft())

    def end(self) -> None:
        """End all readers."""
        for reader in self._by_life.values():
            os.kill(reader.pid, signal.SIGKILL)

    def _milliseconds(self) -> float | None:
        deadlines = [reader.deadline for reader in self._by_life.values() if not reader.is_late]
        return max(0.0, min(deadlines) - time.monotonic()) * 1_000 + 1 if deadlines else None

    def _take_request(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._control, MOST_REQUEST, 1)
        request = json.loads(data)
        connection = socket.socket(fileno=descriptors[0])
        known = len(sys.modules)
        for name in request["modules"]:
            with suppress(ImportError):  # the reader tells of it
                importlib.import_module(name)
        if len(sys.modules) > known:
            gc.collect()
            gc.freeze()  # so that readers share this memory
        reader = _Reader(request, connection)
        self._by_connection[connection.fileno()] = reader
        self._poll.register(connection.fileno(), 0)  # tells of its end alone
        self._waiting.append(reader)

    def _start(self, reader: _Reader) -> None:
        life, of_reader = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(life)
            self._leave(reader)
            _read(reader)
        os.close(of_reader)
        reader.pid, reader.deadline = pid, time.monotonic() + TIMES_SECONDS * reader.request["seconds"]
        self._by_life[life] = reader
        self._poll.register(life, 0)

    def _leave(self, reader: _Reader) -> None:
        """Close what a reader must not reach: the sockets of other documents, and of the caller."""
        for other in {*self._by_connection.values()} - {reader}:
            other.connection.close()
        for life in self._by_life:
            os.close(life)
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
        self._close(reader)

    def _give_up(self, reader: _Reader) -> None:
        if reader.pid:
            os.kill(reader.pid, signal.SIGKILL)  # `_reap` follows
            self._poll.unregister(reader.connection.fileno())
            del self._by_connection[reader.connection.fileno()]
        else:
            self._waiting.remove(reader)
            self._close(reader)

    def _close(self, reader: _Reader) -> None:
        if self._by_connection.pop(reader.connection.fileno(), None):
            self._poll.unregister(reader.connection.fileno())
        reader.connection.close()


# The reader


def _read(reader: _Reader) -> NoReturn:
    """Read the document, answer, and end."""
    code = ENDED
    try:
        document = _received(reader.connection, reader.request["size"])
        try:
            _confine(reader.request)
            answer = _answer(reader.request, document)
        except OSError as error:
            answer = {"error": str(error), "kind": "system"}
        content = json.dumps(answer, ensure_ascii=False, default=asdict).encode("utf-8", "replace")
        reader.connection.sendall(len(content).to_bytes(_SIZE, "big") + content)
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)  # without the exit functions of the modules


def _received(connection: socket.socket, size: int) -> bytes:
    document = bytearray()
    while len(document) < size:
        piece = connection.recv(min(size - len(document), 2**20))
        if not piece:  # the caller is gone
            os._exit(ENDED)
        document += piece
    return bytes(document)


def _confine(request: Mapping[str, Any]) -> None:
    """Limit the computing time, memory and files of this process, and take all rights from it that reading does not need.

    Raises:
        OSError: The kernel refused.
    """
    limit(file_bytes=0)
    limits = [(resource.RLIMIT_CPU, request["seconds"], request["seconds"] + 1)]
    with suppress(OSError):  # macOS has no /proc, and does not limit memory
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        memory = pages * os.sysconf("SC_PAGE_SIZE") + request["memory_bytes"]
        limits.append((resource.RLIMIT_AS, memory, memory))
    for kind, soft, hard in limits:
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))
    confine(read=[folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))])


def _answer(request: Mapping[str, Any], document: bytes) -> dict[str, Any]:
    module, _, name = request["function"].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    try:
        return {"value": function(document, *request["arguments"])}
    except MemoryError:
        raise
    except InputError as error:
        return {"error": str(error)[:_ERROR_CHARS], "kind": "input"}
    except MissingExtraError as error:
        return {"error": str(error)[:_ERROR_CHARS], "kind": "extra"}
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
