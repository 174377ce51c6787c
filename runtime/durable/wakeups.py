"""Wake-ups between processes: a message that something in the database is worth a look.

A wake-up is a hint. The work and its outcomes are in the database, so whoever misses a wake-up finds them at its next
look, which is due after a few seconds; while wake-ups cannot be received, looks follow each other as fast as without.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import select
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from operad.runtime.durable.database import Database
from operad.runtime.durable.places import SQLITE
from operad.runtime.values.message import new_id

_logger = logging.getLogger(__name__)

Heard = Callable[[str, str], None]
"""Function called for each wake-up, in a thread of its own: (topic, text). An empty text means: look at everything."""

BeforeCommit = Callable[[Any], None]
"""Function called with the connection of a transaction before its commit."""

LONGEST_TEXT = 500
"""Length in bytes from which a text is left out; pipes pass on 512 bytes at once everywhere, PostgreSQL 8,000."""

AGAIN = 1.0
"""Seconds between two attempts to receive wake-ups after a failure, and between two checks that this is still possible."""


class Wakeups(Protocol):
    """Wake-ups sent and received by this process.

    Attributes:
        listening: True while this process receives wake-ups.
    """

    listening: bool

    def send(self, topic: str, text: str = "") -> None:
        """Wake the processes that listen to a topic, after what they are to look at was committed. Never raises."""
        ...

    def sending(self, topics: Iterable[str]) -> AbstractContextManager[BeforeCommit]:
        """Wake the processes that listen to topics, when the transaction in this context is committed.

        Returns:
            Function to call with the connection of the transaction before its commit.
        """
        ...

    def stop(self) -> None:
        """Stop receiving."""
        ...


def wakeups(database: Database, topics: Sequence[str], heard: Heard) -> Wakeups:
    """Return the wake-ups of a database: notifications of PostgreSQL, or named pipes beside an SQLite file.

    Args:
        database: The database.
        topics: Topics to listen to.
        heard: Called for each wake-up. It is also called once per topic when listening begins or ends, because
            earlier wake-ups may have been missed.
    """
    if database.url.get_backend_name() == SQLITE:
        return PipeWakeups(Path(f"{database.url.database}.wake"), topics, heard)
    return ServerWakeups(database, topics, heard)


def channel(topic: str) -> str:
    """Return the name of a topic in PostgreSQL and in the file system, which are limited in length and letters."""
    return f"operad_{hashlib.sha256(topic.encode()).hexdigest()[:24]}"


def short(text: str) -> str:
    """Return a text that fits into a wake-up; empty if it is too long or has several lines."""
    return "" if len(text.encode(errors="replace")) > LONGEST_TEXT or "\n" in text else text


class _Listener:
    """Thread that listens, and begins anew after each failure."""

    def __init__(self, topics: Sequence[str], heard: Heard) -> None:
        self.listening = False
        self._topics: Mapping[str, str] = {channel(topic): topic for topic in topics}
        self._heard = heard
        self._stopped = threading.Event()
        self._told = False
        if topics:
            threading.Thread(target=self._go, name="operad-wakeups", daemon=True).start()

    def _listen(self) -> None:
        """Listen until stopped.

        Raises:
            Exception: Listening is not possible, or not any more.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Stop receiving."""
        self._stopped.set()

    def _go(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - without wake-ups, everything goes on more slowly
                self._turn(listening=False)
                self._tell(f"no wake-ups, polling instead until they are possible again: {_first_line(error)}")
            self._stopped.wait(AGAIN)

    def _turn(self, *, listening: bool) -> None:
        if listening != self.listening:
            self.listening = listening
            for topic in self._topics.values():
                self._heard(topic, "")
        if listening:
            self._told = False

    def _tell(self, what: str) -> None:
        if not self._told and not self._stopped.is_set():
            self._told = True
            _logger.warning("%s", what)


class ServerWakeups(_Listener):
    """Notifications of PostgreSQL, received over a connection of their own.

    Args:
        database: The database.
        topics: Topics to listen to.
        heard: Called for each wake-up.
    """

    def __init__(self, database: Database, topics: Sequence[str], heard: Heard) -> None:
        self._database = database
        super().__init__(topics, heard)

    def send(self, topic: str, text: str = "") -> None:
        """See `Wakeups.send`."""
        try:
            self._database.notify(channel(topic), short(text))
        except Exception as error:  # noqa: BLE001 - it is only a hint
            _logger.debug("cannot send a wake-up: %s", _first_line(error))

    @contextmanager
    def sending(self, topics: Iterable[str]) -> Generator[BeforeCommit, None, None]:
        """See `Wakeups.sending`. The server sends notifications of a transaction after its commit."""

        def before_commit(connection: Any) -> None:
            for topic in topics:
                self._database.notify(channel(topic), "", connection)

        yield before_commit

    def _listen(self) -> None:
        with self._database.connection_of_its_own() as connection:
            for name in self._topics:
                connection.execute(f"LISTEN {name}")
            self._database.notify(next(iter(self._topics)), "")  # a pooler may accept LISTEN, and pass on nothing
            while not self._stopped.is_set():
                for notification in connection.notifies(timeout=AGAIN):
                    self._turn(listening=True)
                    self._heard(self._topics.get(notification.channel, ""), notification.payload)
                if not self.listening:
                    raise ConnectionError("notifications do not arrive; is there a connection pooler in between?")


class PipeWakeups(_Listener):
    """Named pipes in a folder beside an SQLite file, one per listening process and topic.

    Unlike Unix sockets, the path of a pipe may have any length. A pipe without a reader is left over from a
    process that was killed; the next sender deletes it.

    Args:
        folder: The folder. It is created if missing.
        topics: Topics to listen to.
        heard: Called for each wake-up.
    """

    def __init__(self, folder: Path, topics: Sequence[str], heard: Heard) -> None:
        self._folder = folder
        self._own = new_id()[:16]
        self._lock = threading.Lock()
        self._pipes: dict[int, str] = {}
        super().__init__(topics, heard)

    def send(self, topic: str, text: str = "") -> None:
        """See `Wakeups.send`."""
        name, line = channel(topic), f"{short(text)}\n".encode(errors="replace")
        try:
            found = [entry for entry in os.listdir(self._folder) if entry.startswith(f"{name}.")]
        except OSError:
            return  # no process has listened yet
        for entry in found:
            _write(self._folder / entry, line)

    @contextmanager
    def sending(self, topics: Iterable[str]) -> Generator[BeforeCommit, None, None]:
        """See `Wakeups.sending`."""
        yield lambda _: None
        for topic in topics:
            self.send(topic)

    def stop(self) -> None:
        """Stop receiving, and delete the pipes of this process."""
        super().stop()
        with self._lock:
            for pipe in self._pipes:
                with suppress(OSError):
                    os.write(pipe, b"\n")

    def _listen(self) -> None:
        if not hasattr(os, "mkfifo"):
            raise OSError(errno.ENOSYS, "this system has no named pipes")
        with self._opened() as pipes:
            self._turn(listening=True)
            rest = dict.fromkeys(pipes, b"")
            while not self._stopped.is_set():
                ready, _, _ = select.select(list(pipes), [], [], AGAIN)
                for pipe in ready:
                    *lines, rest[pipe] = (rest[pipe] + os.read(pipe, 65_536))[-65_536:].split(b"\n")
                    for line in dict.fromkeys(lines):
                        self._heard(self._topics[pipes[pipe]], line.decode(errors="replace"))
                if not ready:
                    for name in self._topics:
                        (self._folder / f"{name}.{self._own}").stat()  # raises if it was deleted

    @contextmanager
    def _opened(self) -> Generator[Mapping[int, str], None, None]:
        """Create and open the pipes of this process; close and delete them in the end."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for name in self._topics:
                with self._lock:
                    self._pipes[self._open(name)] = name
            yield dict(self._pipes)
        finally:
            with self._lock:
                for pipe, name in self._pipes.items():
                    os.close(pipe)
                    (self._folder / f"{name}.{self._own}").unlink(missing_ok=True)
                self._pipes.clear()
            with suppress(OSError):
                self._folder.rmdir()

    def _open(self, name: str) -> int:
        """Create a pipe, and open it before others can see it: they delete pipes without a reader."""
        hidden = self._folder / f".{name}.{self._own}"
        hidden.unlink(missing_ok=True)
        os.mkfifo(hidden, 0o600)
        try:
            pipe = os.open(hidden, os.O_RDWR | os.O_NONBLOCK)  # open for writing as well, so that it never ends
            hidden.rename(self._folder / f"{name}.{self._own}")
        finally:
            hidden.unlink(missing_ok=True)
        return pipe


def _write(path: Path, line: bytes) -> None:
    """Write a line into a pipe; delete a pipe without a reader."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:
            with suppress(OSError):
                path.unlink()
        return
    try:
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            os.write(pipe, line)
    except OSError:
        pass  # full, because its process stands still or is busy: it has enough to look at
    finally:
        os.close(pipe)


def _first_line(error: Any) -> str:
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    return said[0] if said else type(error).__name__
