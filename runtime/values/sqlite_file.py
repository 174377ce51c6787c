"""SQLite files of Operad: opened late, marked by an application id, shared by threads and processes."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.forks import around_fork

if TYPE_CHECKING:
    import sqlite3

BUSY_SECONDS = 10.0
"""Seconds to wait for another process that is writing."""

FORK_SECONDS = 5.0
"""Maximum seconds that a fork waits for a statement in progress."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """Kind of SQLite file.

    Attributes:
        name: Name of the kind in error messages, such as ``a cache``.
        application_id: Mark of the kind: the `application_id` of the SQLite format.
        version: Version of its tables; files of other versions are refused.
        tables: Statements that create the tables.
        upgrades: Statements that make the tables of an older version those of this one, by that version.
        private: True to create files readable by their owner only.
    """

    name: str
    application_id: int
    version: int
    tables: Sequence[str]
    upgrades: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    private: bool = False


class SqliteFile:
    """An SQLite file of a `FileKind`. If the file was deleted or replaced since it was opened, it is opened again.

    Args:
        path: Path of the file, created on first use. None for a database in memory, whose content is lost on closing.
    """

    def __init__(self, path: str | Path | None, kind: FileKind) -> None:
        self.path = ":memory:" if path is None else Path(path).expanduser().absolute()
        self._kind = kind
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        self._closing: weakref.finalize[..., SqliteFile] | None = None
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._is_held = False
        around_fork(self._hold, self._release)

    def check(self) -> None:
        """Check that the file can be used, if it exists; no file is created.

        Raises:
            InputError: As for `connection`, or the path is not a regular file.
        """
        if not os.path.exists(self.path):  # also for ":memory:"
            return
        if not os.path.isfile(self.path):
            problem = (
                "is a folder; name a file in it"
                if os.path.isdir(self.path)
                else "is not a regular file; name another one"
            )
            raise InputError(f"{self.path}: {problem}")
        with self.connection():
            pass
        self.close()

    @contextmanager
    def connection(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield the connection, to one thread at a time. Statements outside a transaction are committed automatically.

        Raises:
            InputError: SQLite reports an error, or the file is of another kind.
        """
        import sqlite3  # imported late: most runs need no file

        try:
            with self._lock:
                if self._opened is not None and self._is_replaced():
                    self._close_replaced()
                if self._opened is None:
                    self._opened = self._open()
                    self._closing = weakref.finalize(self, self._opened.close)
                yield self._opened
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second if SQLite's own message is damaged, too
            remedy = "the file was not changed: move it away, or name another one"
            if isinstance(error, sqlite3.OperationalError):
                remedy = "check that its folder exists, permissions, free space, and other programs that use it"
            raise InputError(f"{self.path}: cannot be used as {self._kind.name}: {error}; {remedy}") from error

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield the connection in a transaction that excludes other writers; it is rolled back if the block raises.

        Raises:
            InputError: As for `connection`.
        """
        with self.connection() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._closing:
            self._closing()
        self._opened = self._closing = None

    def _hold(self) -> None:
        """Close the file for a fork: SQLite forbids to use, or only to close, a connection in a forked process."""
        self._is_held = self._lock.acquire(timeout=FORK_SECONDS)
        if self._is_held and self.path != ":memory:":
            self._close()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lock.release()

    def _is_replaced(self) -> bool:
        """Return True if the file at the path is missing, or is another file than the open one."""
        return self.path != ":memory:" and _identity(self.path) != self._identities[str(self.path)]

    def _close_replaced(self) -> None:
        """Close a replaced or deleted file; remove its journal files, which SQLite would replay into the next file."""
        self._close()
        for path in self._journal_paths():
            identity = self._identities.get(path)
            if identity and identity == _identity(path):
                with suppress(OSError):
                    os.unlink(path)

    def _journal_paths(self) -> Sequence[str]:
        return [os.path.realpath(self.path) + suffix for suffix in ("-wal", "-shm")]

    def _open(self) -> sqlite3.Connection:
        """Open the file, create its tables if it is new, and return the connection."""
        import sqlite3

        if self._kind.private and self.path != ":memory:":
            with suppress(OSError):  # the file exists, or SQLite reports the error; journal files get its mode
                os.close(os.open(os.path.realpath(self.path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                self._initialise(connection)
            with suppress(sqlite3.OperationalError):  # another process is setting the same mode
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # creates the journal files
            self._identities = {path: _identity(path) for path in (str(self.path), *self._journal_paths())}
        except BaseException:
            connection.close()
            raise
        return connection

    def _initialise(self, connection: sqlite3.Connection) -> None:
        """Write the mark of this kind and the tables into a new file, or upgrade it; refuse a file of another kind."""
        kind = self._kind
        application, version, tables = (
            connection.execute(question).fetchone()[0]
            for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if (application, version) == (kind.application_id, kind.version):
            return
        if application == kind.application_id and version not in kind.upgrades:
            raise InputError(
                f"{self.path}: is {kind.name} of another version of operad (format {version}, not {kind.version}); "
                "delete it, or name another file"
            )
        is_older = application == kind.application_id
        if not is_older and (application or version or tables):
            raise InputError(f"{self.path}: is an SQLite file, but not {kind.name} of operad; name another file")
        for statement in kind.upgrades[version] if is_older else kind.tables:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {kind.application_id}")
        connection.execute(f"PRAGMA user_version = {kind.version}")


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
