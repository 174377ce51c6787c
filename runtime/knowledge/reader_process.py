"""Reading of documents in limited processes: a hostile document costs a few seconds, and harms nothing else.

Parsers of documents are large, and written in C for a part; some take unbounded time and memory for a small file. So
each document is read by a process of its own, with limits of computing time, memory and size of the answer, without
the rights to write, start programs or open connections. The process is forked from one that has the parsers imported
(`reader_server`), which starts with the first document and ends with this process.

Every wait is bounded: at most `MOST_READERS` documents are read at once, each has a deadline, and others wait for a place
in the order of their arrival. A caller that is given up stops waiting at once.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from operad.runtime.values.errors import InputError, MissingExtraError, OperadError
from operad.runtime.values.forks import after_fork, leave_to_parent
from operad.runtime.values.function_threads import current_call

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits of reading one document.

    Attributes:
        seconds: Computing time, in whole seconds.
        memory_bytes: Memory beyond that of the loaded parsers, in bytes; macOS does not limit it.
        answer_bytes: Size of the text that is read, in bytes.
    """

    seconds: int = 30
    memory_bytes: int = 2**30
    answer_bytes: int = 2**27


LIMITS = ReadingLimits()
"""Default limits of reading a document."""

MOST_READERS = 4
"""Maximum number of documents that are read at once; others wait."""

TIMES_SECONDS = 4
"""Time limit of a reader, as a multiple of its computing time: others may compute, too."""

GRACE_SECONDS = 30
"""Seconds beyond the time limit of a reader, after which the process that should have ended it is replaced."""

_MOST_REQUEST = 2_000
_SIZE = 8
_OUT_OF_MEMORY, _OUT_OF_TIME = 102, 103
_REMEDY = "save it anew with the program that made it, or cut out the relevant part"


class _Answer(msgspec.Struct):
    """Answer of a reader: a value, or an error with its kind: ``input``, ``extra``, ``system`` or ``broken``."""

    value: msgspec.Raw = msgspec.Raw()
    error: str = ""
    kind: str = ""


def read(
    function: Callable[..., T],
    document: bytes,
    *arguments: Any,
    answer: type[T],
    what: str,
    modules: Sequence[str] = (),
    limits: ReadingLimits = LIMITS,
) -> T:
    """Call a function with a document in a limited process.

    The process ends early if the function in whose thread this is called is given up, as by a timeout.

    Args:
        function: Function of a module, which is called with the document and the arguments.
        arguments: Further arguments, with a form in JSON.
        answer: Type of the return value, which is checked: a process that has read a hostile document is not trusted.
        what: Kind of document, for errors: ``.pdf file``.
        modules: Modules that the function imports late; they are imported once for all documents.

    Raises:
        InputError: The document cannot be read, or not within the limits; the message gives the reason and a remedy,
            without a name.
        MissingExtraError: The function needs a package that is not installed.
        CancelledError: The caller was given up; that of `concurrent.futures`.
        OperadError: The process cannot be started or confined, or does not answer.
    """
    request = json.dumps({
        "function": f"{function.__module__}:{function.__qualname__}",
        "modules": [function.__module__, *modules],
        "arguments": arguments,
        "size": len(document),
        "seconds": math.ceil(limits.seconds),
        "most_seconds": TIMES_SECONDS * math.ceil(limits.seconds),
        "memory_bytes": limits.memory_bytes,
    }).encode()  # fmt: skip
    if len(request) > _MOST_REQUEST:
        raise InputError(f"cannot be read as a {what}: its name is too long")
    for _ in range(2):  # the server may have been ended from outside
        content = _exchange(request, document, limits)
        if content is not None:
            break
    else:
        raise OperadError(
            "the process that reads documents ends again and again; is something on this machine ending it?"
        )
    try:
        found = msgspec.json.decode(content, type=_Answer)
        if not found.error:
            return msgspec.json.decode(found.value, type=answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"cannot be read as a {what}: its reader gave no valid answer; {_REMEDY}") from error
    if found.kind == "extra":
        raise MissingExtraError(found.error)
    if found.kind == "system":
        raise OperadError(f"the process that reads documents {found.error}")
    raise InputError(found.error if found.kind == "input" else f"cannot be read as a {what}: {found.error}")


def _ending(status: int, limits: ReadingLimits) -> str:
    """Return the message for a reader that ended without an answer."""
    if status == _OUT_OF_TIME:
        return f"takes more than the maximum of {limits.seconds:g} s of computing time to read; {_REMEDY}"
    if status == _OUT_OF_MEMORY:
        return f"takes more than the maximum of {limits.memory_bytes:,} bytes of memory to read; {_REMEDY}"
    ended = f" ({signal.Signals(status).name})" if status in set(signal.Signals) else ""
    return (
        f"made its reader fail{ended}: it is broken, or takes more than the maximum of {limits.memory_bytes:,} bytes of "
        f"memory to read; {_REMEDY}"
    )


def _exchange(request: bytes, document: bytes, limits: ReadingLimits) -> bytes | None:
    """Send a document to a reader. Return its answer; None if the server ended."""
    ours, theirs = socket.socketpair()
    is_cancelled = False

    def end() -> None:
        with suppress(OSError):  # the other side is gone
            ours.shutdown(socket.SHUT_RDWR)  # ends the reader, and the wait of this thread

    def cancel() -> None:
        nonlocal is_cancelled
        is_cancelled = True
        end()
        _server.look_again()

    call = current_call()
    with ExitStack() as stack:
        stack.enter_context(ours)
        stack.enter_context(theirs)
        stack.callback(end)
        if call is not None:
            stack.enter_context(call.waiting(cancel))
        stack.enter_context(_server.place(lambda: is_cancelled))
        deadline = time.monotonic() + TIMES_SECONDS * math.ceil(limits.seconds) + GRACE_SECONDS
        server = _server.send(request, theirs)
        theirs.close()
        try:
            content = _talk(ours, document, limits, deadline)
        except TimeoutError as error:
            _server.replace(server)
            raise OperadError(
                "the process that reads documents does not answer, and was ended; is it stopped, or this machine overloaded?"
            ) from error
        if is_cancelled:
            raise CancelledError("reading the document was given up")
        if not content and _server.has_ended(server):
            return None
        size = int.from_bytes(content[:_SIZE], "big")
        if size and len(content) >= _SIZE + size:
            return bytes(content[_SIZE : _SIZE + size])
        raise InputError(_ending(content[-1] if content else 0, limits))


def _talk(ours: socket.socket, document: bytes, limits: ReadingLimits, deadline: float) -> bytearray:
    """Send a document, and return what comes back until the connection ends or the answer is complete.

    Raises:
        InputError: The answer is too large.
        TimeoutError: The deadline has passed.
    """

    def set_timeout() -> None:
        ours.settimeout(max(0.001, deadline - time.monotonic()))

    with suppress(ConnectionError):  # the reader ended early; its status follows
        set_timeout()
        ours.sendall(document)
    content = bytearray()
    size = _SIZE
    with suppress(ConnectionError):
        while len(content) < size:
            set_timeout()
            piece = ours.recv(2**18)
            if not piece:
                break
            content += piece
            if size == _SIZE <= len(content):
                size += int.from_bytes(content[:_SIZE], "big")
                if size > limits.answer_bytes:
                    raise InputError(
                        f"holds a text of more than the maximum of {limits.answer_bytes:,} bytes; split it"
                    )
    return content


class _Server:
    """The process from which readers are forked.

    The lock is never held during a wait for the process, which may be stopped.
    """

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._free = MOST_READERS

    @contextmanager
    def place(self, is_cancelled: Callable[[], bool]) -> Generator[None, None, None]:
        """Wait for one of the places of readers, and hold it; `look_again` makes it ask whether the caller was given up.

        The wait is bounded, because each holder has a deadline.

        Raises:
            CancelledError: The caller was given up.
        """
        changed, has_place = self._changed, False
        try:
            with changed:
                changed.wait_for(lambda: self._free or is_cancelled())
                if is_cancelled():
                    raise CancelledError("reading the document was given up")
                self._free -= 1
                has_place = True
            yield
        finally:
            with changed:
                self._free += has_place
                changed.notify()  # also without a place: it may have been woken up instead of another

    def look_again(self) -> None:
        """Let all that wait for a place ask whether they were given up."""
        with self._changed:
            self._changed.notify_all()

    def send(self, request: bytes, connection: socket.socket) -> socket.socket:
        """Send a request with the socket for the document and the answer; the process is started if it does not run.

        Returns:
            The socket of the process, for `replace`.
        """
        with self._lock:
            control = self._running()
            try:
                socket.send_fds(control, [request], [connection.fileno()])
            except OSError:  # it has just ended, or takes no requests, of which there are only a few at once
                self.end()
                control = self._running()
                with suppress(OSError):  # it ends at once; then the connection ends, too
                    socket.send_fds(control, [request], [connection.fileno()])
            return control

    def _running(self) -> socket.socket:
        if self._control is None or self._process is None or self._process.poll() is not None:
            self._control = self._start()
        return self._control

    def has_ended(self, control: socket.socket) -> bool:
        """Return True if the process of a socket has ended, or ends within a moment."""
        with self._lock:
            if self._control is not control or self._process is None:
                return True
            process = self._process
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
            return True
        return False

    def replace(self, control: socket.socket) -> None:
        """End the process of a socket, because it does not answer; the next request starts another."""
        with self._lock:
            if self._control is control:
                self.end()

    def _start(self) -> socket.socket:
        self.end()
        if not hasattr(socket, "send_fds"):
            raise OperadError("documents are read in limited processes, which need Linux or macOS")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        ours.setblocking(False)
        with theirs:
            path = json.dumps([os.path.abspath(folder) for folder in sys.path])
            program = Path(__file__).with_name("reader_server.py")
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-I", "-B", "-X", "utf8", str(program), str(theirs.fileno()), path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=os.sep,
                    env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # so that Ctrl-C reaches this process alone
                )
            except OSError as error:
                ours.close()
                raise OperadError(f"the process that reads documents cannot be started: {error}") from error
        return ours

    def end(self) -> None:
        """End the process with its readers."""
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(1)
                self._process.kill()
                self._process.wait()
            self._control = self._process = None

    def leave(self) -> None:
        """Leave the process to the parent of this forked process."""
        self._renew()
        if self._control is not None and self._process is not None and self._process.stdin is not None:
            leave_to_parent(self._process)
            self._control.close()
            self._process.stdin.close()
        self._control = self._process = None


_server = _Server()
after_fork(lambda: _server.leave())
atexit.register(_server.end)
