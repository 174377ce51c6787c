"""Wake-ups between processes after changes of the database.

A wake-up is only a hint, because the work and its outcomes are in the database. A process that misses a wake-up finds
them with its next poll, a few seconds later. While wake-ups cannot be received, processes poll more often.
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
from typing import Any

from operad.runtime.durable.database import Database, first_line
from operad.runtime.durable.database_names import SQLITE
from operad.runtime.values.message import new_id

_logger = logging.getLogger(__name__)

Heard = Callable[[str, str], None]
"""Function that is called for each wake-up with (topic, text), in a separate thread. Empty text: look at everything."""

BeforeCommit = Callable[[Any], None]
"""Function that is called with the connection of a transaction before its commit."""

LONGEST_TEXT = 500
"""Maximum number of bytes of a text; longer texts are left out. Pipes write 512 bytes atomically on every system."""

AGAIN = 1.0
"""Seconds between two attempts to receive wake-ups after a failure, and between two checks of the connection."""


def wakeups(database: Database, topics: Sequence[str], heard: Heard) -> Wakeups:
    """Return the wake-ups of a database: notifications of PostgreSQL, or named pipes beside an SQLite file.

    Args:
        database: The database.
        topics: Topics to listen to.
        heard: Function to call for each wake-up. It is also called once per topic when listening starts or ends,
            because wake-ups may have been missed.
    """
    if database.url.get_backend_name() == SQLITE:
        return PipeWakeups(Path(f"{database.url.database}.wake"), topics, heard)
    return ServerWakeups(database, topics, heard)


def channel(topic: str) -> str:
    """Return a topic as a name that is valid in PostgreSQL and in file systems: short, and of plain characters."""
    return f"operad_{hashlib.sha256(topic.encode()).hexdigest()[:24]}"


def short(text: str) -> str:
    """Return a text for a wake-up; empty if the text is too long or has several lines."""
    return "" if len(text.encode(errors="replace")) > LONGEST_TEXT or "\n" in text else text


class Wakeups:
    """Wake-ups of this process; a thread listens for them, and starts again after each failure.

    Attributes:
        listening: True while this process receives wake-ups.
    """

    def __init__(self, topics: Sequence[str], heard: Heard) -> None:
        self.listening = False
        self._topics: Mapping[str, str] = {channel(topic): topic for topic in topics}
        self._heard = heard
        self._stopped = threading.Event()
        self._warned = False
        if topics:
            threading.Thread(target=self._run, name="operad-wakeups", daemon=True).start()

    def send(self, topic: str, text: str = "") -> None:
        """Wake the processes that listen to a topic; call it after the commit of what they read. Never raises."""
        raise NotImplementedError

    def sending(self, topics: Iterable[str]) -> AbstractContextManager[BeforeCommit]:
        """Return a context for a transaction, at whose commit the processes that listen to topics are woken.

        Returns:
            A context manager that yields a function to call with the connection of the transaction before its commit.
        """
        raise NotImplementedError

    def _listen(self) -> None:
        """Listen until stopped.

        Raises:
            Exception: Listening is not possible, or no longer possible.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Stop receiving wake-ups."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - without wake-ups, processes poll more often
                self._set_listening(listening=False)
                self._warn_once(f"no wake-ups, polling instead until they are possible again: {first_line(error)}")
            self._stopped.wait(AGAIN)

    def _set_listening(self, *, listening: bool) -> None:
        """Set `listening`; after a change, report each topic once, because wake-ups may have been missed."""
        if listening != self.listening:
            self.listening = listening
            for topic in self._topics.values():
                self._heard(topic, "")
        if listening:
            self._warned = False

    def _warn_once(self, what: str) -> None:
        if not self._warned and not self._stopped.is_set():
            self._warned = True
            _logger.warning("%s", what)


class ServerWakeups(Wakeups):
    """Wake-ups as notifications of PostgreSQL, received over a separate connection.

    Args:
        database: The database.
        topics: Topics to listen to.
        heard: Function to call for each wake-up.
    """

    def __init__(self, database: Database, topics: Sequence[str], heard: Heard) -> None:
        self._database = database
        super().__init__(topics, heard)

    def send(self, topic: str, text: str = "") -> None:
        """See `Wakeups.send`."""
        try:
            self._database.notify(channel(topic), short(text))
        except Exception as error:  # noqa: BLE001 - a wake-up is only a hint
            _logger.debug("cannot send a wake-up: %s", first_line(error))

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
            # Test whether notifications arrive: a connection pooler may accept LISTEN, and pass on nothing.
            self._database.notify(next(iter(self._topics)), "")
            while not self._stopped.is_set():
                for notification in connection.notifies(timeout=AGAIN):
                    self._set_listening(listening=True)
                    self._heard(self._topics.get(notification.channel, ""), notification.payload)
                if not self.listening:
                    raise ConnectionError("notifications do not arrive; is there a connection pooler in between?")


class PipeWakeups(Wakeups):
    """Wake-ups through named pipes in a folder beside an SQLite file, one per listening process and topic.

    Unlike that of a Unix socket, the path of a pipe may have any length. A pipe without a reader is left over from a
    process that was killed; the next sender deletes it.

    Args:
        folder: The folder. It is created if missing.
        topics: Topics to listen to.
        heard: Function to call for each wake-up.
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
            return  # the folder is missing, because no process listens
        for entry in found:
            _write_line(self._folder / entry, line)

    @contextmanager
    def sending(self, topics: Iterable[str]) -> Generator[BeforeCommit, None, None]:
        """See `Wakeups.sending`."""
        yield lambda _: None
        for topic in topics:
            self.send(topic)

    def stop(self) -> None:
        """Stop receiving wake-ups, and delete the pipes of this process."""
        super().stop()
        with self._lock:
            for pipe in self._pipes:
                with suppress(OSError):
                    os.write(pipe, b"\n")

    def _listen(self) -> None:
        if not hasattr(os, "mkfifo"):
            raise OSError(errno.ENOSYS, "this system has no named pipes")
        with self._open_pipes() as pipes:
            self._set_listening(listening=True)
            rest = dict.fromkeys(pipes, b"")
            while not self._stopped.is_set():
                ready, _, _ = select.select(list(pipes), [], [], AGAIN)
                for pipe in ready:
                    *lines, rest[pipe] = (rest[pipe] + os.read(pipe, 65_536))[-65_536:].split(b"\n")
                    for line in dict.fromkeys(lines):
                        self._heard(self._topics[pipes[pipe]], line.decode(errors="replace"))
                if not ready:
                    for name in self._topics:
                        (self._folder / f"{name}.{self._own}").stat()  # raises if the pipe was deleted

    @contextmanager
    def _open_pipes(self) -> Generator[Mapping[int, str], None, None]:
        """Yield the pipes of this process, created and opened, by descriptor; close and delete them at the end."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for name in self._topics:
                with self._lock:
                    self._pipes[self._open_pipe(name)] = name
            yield dict(self._pipes)
        finally:
            with self._lock:
                for pipe, name in self._pipes.items():
                    os.close(pipe)
                    (self._folder / f"{name}.{self._own}").unlink(missing_ok=True)
                self._pipes.clear()
            with suppress(OSError):
                self._folder.rmdir()

    def _open_pipe(self, name: str) -> int:
        """Create and open a pipe; it gets its name last, because other processes delete pipes without a reader."""
        hidden = self._folder / f".{name}.{self._own}"
        hidden.unlink(missing_ok=True)
        os.mkfifo(hidden, 0o600)
        try:
            pipe = os.open(hidden, os.O_RDWR | os.O_NONBLOCK)  # also for writing, so that reading never hits its end
            hidden.rename(self._folder / f"{name}.{self._own}")
        finally:
            hidden.unlink(missing_ok=True)
        return pipe


def _write_line(path: Path, line: bytes) -> None:
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
        pass  # the pipe is full, because its process is stopped or busy, and has wake-ups to read
    finally:
        os.close(pipe)
