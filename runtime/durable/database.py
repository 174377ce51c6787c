"""The database of runs: connections, its clock, retries while it cannot be reached, and explanations of errors."""

from __future__ import annotations

import logging
import os
import platform
import select
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import wraps
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import quote

from operad.runtime.durable.database_names import POSTGRES, SQLITE, display_name, sqlalchemy, state_folder
from operad.runtime.durable.process_ids import who_writes
from operad.runtime.values.errors import InputError
from operad.runtime.values.forks import ProcessLock, after_fork, around_fork, leave_to_parent

if TYPE_CHECKING:
    from sqlalchemy import URL


FORK_SECONDS = 5.0
"""Maximum seconds that a fork waits for transactions in progress."""


def guard_forks(engine: Any) -> None:
    """Keep the connections of an engine of SQLAlchemy from the children of this process, and the child's from the parent.

    A child may not even close a connection of its parent: on a server, that would end the session of the parent; in an
    SQLite file, the child would believe to hold the locks of the parent. A fork therefore waits for the transactions of
    an SQLite file, and closes its connections, which the parent opens again. The child of a process with connections
    to a server leaves them open and unused.
    """
    _Guard(engine)  # its listeners belong to the engine


class _Guard:
    """Connections of an engine that are in use, and whether more may be."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._moving = threading.Condition(threading.Lock())
        self._in_use: set[Any] = set()
        self._is_held = False
        listen = sqlalchemy().event.listen
        listen(engine, "do_connect", self._connect)
        listen(engine, "checkout", self._take)
        listen(engine, "checkin", self._give)
        if engine.dialect.name == SQLITE:
            around_fork(self._hold, self._release)
        after_fork(self._renew)

    def _connect(self, dialect: Any, record: Any, args: Any, options: Any) -> Any:
        self._take(None, record)
        try:
            return dialect.connect(*args, **options)
        except BaseException:
            self._give(None, record)
            raise

    def _take(self, _: Any, record: Any, *__: Any) -> None:
        with self._moving:
            self._in_use.add(record)

    def _give(self, _: Any, record: Any) -> None:
        with self._moving:
            self._in_use.discard(record)
            self._moving.notify_all()

    def _hold(self) -> None:
        self._is_held = self._moving.acquire(timeout=FORK_SECONDS)
        if not self._is_held:
            return
        if not self._moving.wait_for(lambda: not self._in_use, FORK_SECONDS):
            _logger.warning(
                "%s: this process forks in the middle of a transaction; the child should use another file, or be "
                "started with the method 'spawn'",
                self._engine.url.database,
            )
        self._engine.dispose()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._moving.release()

    def _renew(self) -> None:
        """Begin anew in a child, with connections of its own."""
        self._moving = threading.Condition(threading.Lock())
        self._in_use = set()
        leave_to_parent(self._engine.pool)
        self._engine.dispose(close=False)


_logger = logging.getLogger(__name__)

PATIENCE = 300.0
"""Seconds for which calls are retried while the database cannot be reached."""

IDLE = 10.0
"""Seconds after which the server aborts an idle transaction: that of a stopped process would block others."""

OLDEST_SQLITE = (3, 35)
"""Lowest version of SQLite with ``RETURNING``."""

STATEMENTS = 16
"""Number of prepared statements that a connection to a file keeps.

Statements that write many rows differ with the number of rows, and take up to a hundred kilobytes each. With the 128 that
Python keeps by default, the connections of a process would take tens of megabytes, and be no faster.
"""

_PAGES = 500
"""Number of pages of a file that are released at once."""

BREATH = 0.03
"""Seconds to pause between two parts of long work, so that others can write."""

_SECONDS = {"connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5"}
"""Options of connections to PostgreSQL, with which an unreachable server is noticed within a minute."""

_PAUSE = 0.5
_BUSY_MS = 5_000
_LOG_INTERVAL = 30.0
"""Seconds between two log lines about a database that is waited for."""

P = ParamSpec("P")
T = TypeVar("T")

# This module joins its threads at exit. It is imported first because exit functions run in reverse order, and
# `_exiting` must be set before the threads are joined.
import_module("concurrent.futures.thread")
_exiting = threading.Event()
_at_exit: Callable[[Callable[[], None]], None] = cast("Any", threading)._register_atexit
_at_exit(_exiting.set)


def retried(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Decorate a method that is one transaction of its object's `database`; see `Database.with_retries`."""

    @wraps(method)
    def with_retries(tables: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        return tables.database.with_retries(lambda: method(tables, *args, **kwargs))

    return with_retries


class Database:
    """Connections to a database.

    Args:
        url: The database, as returned by `database_url`. A missing SQLite file is created.
        reading: True for commands that only read: an SQLite file that this user may not write is opened for reading.

    Attributes:
        name: Name of the database in messages.
        errors: Type of the errors that the database raises.
        sa: The package `sqlalchemy`.
        is_sqlite: True for an SQLite file; False for PostgreSQL.
        read_only: True if an SQLite file is opened for reading.
        engine: The engine, whose transactions lock an SQLite file for writing.
        reader: The engine for transactions that only read, and so do not wait for writers.

    Raises:
        InputError: The file cannot be created, or SQLite is too old.
    """

    def __init__(self, url: URL, *, reading: bool = False) -> None:
        sa = self.sa = sqlalchemy()
        self.url = url
        self.name = display_name(url)
        self.errors: type[Exception] = sa.exc.SQLAlchemyError
        self.is_sqlite = url.get_backend_name() == SQLITE
        self._lock = ProcessLock()
        self._last_logged = -_LOG_INTERVAL
        if self.is_sqlite:
            _check_version(self.name)
        path = Path(str(url.database))
        self.read_only = self.is_sqlite and reading and path.exists() and not _is_writable(path)
        if self.is_sqlite and not self.read_only:
            _create_file(path)
        if self.is_sqlite and not path.is_file():
            raise InputError(f"{path}: is not a regular file; name another one with --db")
        self.engine = self._make_engine(url, reading)
        guard_forks(self.engine)
        self.reader = self.engine.execution_options(reads=True)
        # Close the connections of an instance that is garbage-collected without `close`.
        weakref.finalize(self, self.engine.dispose).atexit = False

    def _make_engine(self, url: URL, reading: bool) -> Any:
        sa = self.sa
        if not self.is_sqlite:
            timeouts = {name: seconds for name, seconds in _SECONDS.items() if name not in url.query}
            address = url.set(drivername=f"{POSTGRES}+psycopg").update_query_dict(timeouts)
            options = {"pool_size": 5, "max_overflow": 10, "pool_pre_ping": True}
            # In stricter levels, a transaction that waited for a lock does not see the changes made under that lock.
            engine = sa.create_engine(address, isolation_level="READ COMMITTED", **options)

            @sa.event.listens_for(engine, "connect")
            def _limit(connection: Any, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
                connection.execute(f"SET idle_in_transaction_session_timeout = {round(IDLE * 1000)}")
                connection.commit()

            @sa.event.listens_for(engine, "do_executemany")
            def _one_by_one(cursor: Any, statement: str, rows: Any, _: Any) -> bool:  # pyright: ignore[reportUnusedFunction]
                # psycopg would send all rows before it reads an answer. If the process is stopped meanwhile, the server does
                # not count the transaction as idle, and its locks would block other processes for ever.
                for row in rows:
                    cursor.execute(statement, row)
                return True

            ping_by_looking(engine)
            return engine
        options = {"cached_statements": STATEMENTS}
        engine = sa.create_engine(_for_reading(url) if self.read_only else url, connect_args=options)

        @sa.event.listens_for(engine, "connect")
        def _set_up(connection: Any, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            connection.isolation_level = None  # SQLAlchemy begins transactions explicitly, as below
            connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            is_new = not connection.execute("PRAGMA page_count").fetchone()[0]
            if reading and not is_new:  # the file may belong to another program
                return
            if is_new:  # in an existing file, this statement would wait for writers
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # lets the file shrink
            # The journal mode is stored in the file. Writing takes a quarter of the time.
            connection.execute("PRAGMA journal_mode=WAL")

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            reads = connection.get_execution_options().get("reads")  # a reading transaction does not wait for writers
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def with_retries(self, work: Callable[[], T], patience: float = PATIENCE) -> T:
        """Call a function that uses the database, and return its result.

        The call is retried while the database cannot be reached, and while another process writes into an SQLite file.
        The wait for such a process has no limit, because only its end frees the file.

        Args:
            patience: Seconds for which the call is retried while the database cannot be reached.

        Raises:
            InputError: The database is unreachable for too long, another error occurred, or this process exits.
        """
        began = time.monotonic()
        while True:
            try:
                return work()
            except self.errors as error:
                waited, is_held = time.monotonic() - began, self.is_sqlite and is_locked(error)
                if not (is_held or (is_temporary(error) and waited <= patience)) or _exiting.is_set():
                    raise self.explained(error) from error
                self.log_wait(f"waiting for the database: {first_line(error)}{self._hint() if is_held else ''}")
            _exiting.wait(_PAUSE)

    def rows(self, query: Any) -> Sequence[Any]:
        """Return the rows of a query, in a transaction that does not wait for writers; see `with_retries`."""

        def read() -> Sequence[Any]:
            with self.reader.connect() as connection:
                return connection.execute(query).all()

        return self.with_retries(read)

    def change(self, *statements: Any) -> bool:
        """Execute statements in one transaction; return True if the last one changed a row; see `with_retries`."""

        def write() -> bool:
            changed = False
            with self.engine.begin() as connection:
                for statement in statements:
                    changed = connection.execute(statement).rowcount > 0
            return changed

        return self.with_retries(write)

    def log_wait(self, what: str) -> None:
        """Log a warning about a wait, unless one was logged recently."""
        with self._lock:
            now = time.monotonic()
            if now - self._last_logged < _LOG_INTERVAL:
                return
            self._last_logged = now
        _logger.warning("%s: %s", self.name, what)

    def _hint(self) -> str:
        """Return advice about the process that holds the file."""
        process = who_writes(Path(str(self.url.database)))
        if process is None:
            return "; another process is writing into it: is that process stopped?"
        return (
            f"; process {process} is writing into it: if that process is stopped, kill -CONT {process} continues it, "
            f"and kill -KILL {process} ends it"
        )

    def explained(self, error: Exception) -> InputError:
        """Return an `InputError` that explains an error of the database."""
        return InputError(explanation(error, self.name, is_sqlite=self.is_sqlite))

    def give_back_space(self) -> None:
        """Shrink an SQLite file to its content, in small steps. A server shrinks its tables by itself."""
        if self.is_sqlite:
            self.with_retries(self._shrink)

    def _shrink(self) -> None:
        with closing(self.engine.raw_connection()) as pooled:
            connection = pooled.driver_connection

            def free_pages() -> int:
                return connection.execute("PRAGMA freelist_count").fetchone()[0]

            free, before = free_pages(), sys.maxsize
            while 0 < free < before:  # a file that another program created may not be able to shrink
                connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")  # `execute` would stop after one page
                time.sleep(BREATH)
                free, before = free_pages(), free
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    @contextmanager
    def connection_of_its_own(self) -> Generator[Any, None, None]:
        """Yield a psycopg connection outside of the pool, in autocommit mode, and close it at the end."""
        pooled = self.engine.raw_connection()
        with closing(pooled.driver_connection) as connection:
            pooled.detach()
            connection.autocommit = True
            yield connection

    def connect_once(self) -> Any:
        """Return a connection for a single statement that changes no rows.

        On a server, the statement runs without a transaction, which saves two round trips.
        """
        if self.is_sqlite:
            return self.reader.connect()
        return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def notify(self, channel: str, text: str, connection: Any = None) -> None:
        """Send a notification of PostgreSQL.

        Args:
            text: The payload.
            connection: Connection whose transaction sends the notification at its commit. None to send it now, without
                retries and without waiting for the disk, because a notification is only a hint.
        """
        values = {"channel": channel, "text": text}
        if connection is not None:
            connection.execute(self.sa.text("SELECT pg_notify(:channel, :text)"), values)
            return
        statement = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :text)"
        with self.connect_once() as own_connection:
            own_connection.execute(self.sa.text(statement), values)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def now(self) -> float:
        """Return the time by the database's clock."""
        return float(self.rows(self.sa.select(self.clock))[0][0])

    @property
    def clock(self) -> Any:
        """SQL expression of the current time, in seconds since the epoch."""
        clock = (
            "(julianday('now') - 2440587.5) * 86400.0"
            if self.is_sqlite
            else "cast(extract(epoch from clock_timestamp()) as double precision)"
        )
        return self.sa.literal_column(clock)

    def time_in(self, connection: Any) -> float:
        """Return the time by the database's clock, within a transaction."""
        return float(connection.execute(self.sa.select(self.clock)).scalar())


def ping_by_looking(engine: Any) -> None:
    """Make an engine of PostgreSQL test pooled connections without a round trip.

    A server that closes a connection writes to it first. Hence a connection without data to read is still good, and
    only a connection with data to read is tested with a statement.
    """
    ping = engine.dialect.do_ping
    if engine.dialect.name == SQLITE or not hasattr(select, "poll"):  # a file needs no test, and Windows has no poll
        return

    def do_ping(connection: Any) -> bool:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return ping(connection) if poll.poll(0) else True

    engine.dialect.do_ping = do_ping


def _check_version(name: str) -> None:
    """Check that the SQLite of this Python supports durable runs."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise InputError(
            f"{name}: durable runs in a file need SQLite {oldest} or later, and Python {platform.python_version()} here "
            f"has SQLite {sqlite3.sqlite_version}; use a Python with a later SQLite, or PostgreSQL: "
            "--db postgresql://user:password@host/database"
        )


def _is_writable(path: Path) -> bool:
    """Return True if this user may write a file, and may create the journal files beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _for_reading(url: URL) -> URL:
    """Return the URL that opens an SQLite file for reading.

    In a folder that cannot be written, SQLite cannot create the index of the file's write-ahead log. Without such a log,
    it needs none if the file counts as unchangeable.
    """
    path = Path(str(url.database))
    options = {"uri": "true", "mode": "ro"}
    with suppress(OSError):
        log = Path(f"{path}-wal")
        if not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size):
            options["immutable"] = "1"
    return url.set(database=f"file:{quote(str(path))}", query=options)


def _create_file(path: Path) -> None:
    """Create a missing database file, readable by its owner only, and the folder of the default location."""
    try:
        if path.parent == state_folder():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not path.parent.exists():
            raise InputError(f"{path}: the folder {path.parent} does not exist; create it, or name another file")
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be created: {error.strerror or error}; name another file with --db"
        ) from error


# Errors: which are temporary, and explanations with what to do


_ENDED_IDLE = "25P03"
_MISSING = ("42P01", "42703")
"""PostgreSQL's codes for a missing table and a missing column."""

_REMEDIES = {
    "file is not a database": "the file was not changed: name another one",
    "malformed": "the file is damaged, and running the command again does not help: restore it from a copy, or save what "
    "is readable with `sqlite3 FILE .recover`",
    "readonly": "this user may not write the file or its folder: change their permissions, run the command as their "
    "owner, or name another database with --db; operad runs list and show need no such permission",
    "unable to open database": "this user may not open the file, or may not write into its folder: change their "
    "permissions, run the command as their owner, or copy the file with its -wal file to another folder",
    "permission denied for": "the role of the URL lacks rights on the tables of runs: grant them, or use their owner",
    "read-only transaction": "the server or the role only permits reading: use a URL of the primary server",
}
"""Remedies for errors that running the same command again does not mend, by a part of the message."""


def explanation(error: Exception, name: str, *, is_sqlite: bool) -> str:
    """Return the message for an error of a database: what happened, and what to do."""
    errors = sqlalchemy().exc
    if isinstance(error, (errors.IntegrityError, errors.DataError)):  # the value is refused every time
        return (
            f"{name}: the database refused a row: {first_line(error)}; this is a bug in operad, and "
            f"running the command again does not help: please report it, with {_versions(is_sqlite)}; earlier runs "
            "are not lost"
        )
    if is_missing(error):
        return (
            f"{name}: a table or column is missing: {first_line(error)}; the file was deleted, or changed by a program "
            "other than operad: restore it from a copy, or name another database with --db"
        )
    text = f"{name}: cannot be used for runs: {first_line(error)}"
    for sign, remedy in _REMEDIES.items():
        if sign in text:
            return f"{text}; {remedy}"
    if not is_sqlite and is_unreachable(error):
        return f"{text}; check that the server runs, and that the address is right"
    return (
        f"{text}; kept runs are not lost: check that the database exists and has space left, and run the same command "
        "again"
    )


def _versions(is_sqlite: bool) -> str:
    """Return the versions of the software involved, for a bug report."""
    packages = [f"{package} {metadata.version(package)}" for package in ("operad", "sqlalchemy")]
    sqlite = [f"SQLite {sqlite3.sqlite_version}"] if is_sqlite else []
    return ", ".join([f"Python {platform.python_version()}", *sqlite, *packages])


def is_temporary(error: Exception) -> bool:
    """Return True for a temporary error: the connection broke, or the server is starting."""
    if getattr(getattr(error, "orig", None), "sqlstate", None) == _ENDED_IDLE:
        return True
    if is_missing(error):
        return False
    text = str(error).lower()
    lost = getattr(error, "connection_invalidated", False) or type(error).__name__ in (
        "OperationalError",
        "TimeoutError",
    )
    return lost and not any(
        sign in text
        for sign in (
            "disk is full",
            "no space",
            "unable to open database",
            "readonly",
            "password authentication",
            "does not exist",
            "not a database",
            "malformed",
            "could not decode",
        )
    )


def is_unreachable(error: Exception) -> bool:
    """Return True if no server answered; False if one refused the connection with a reason."""
    text = str(error).lower()
    return (
        any(sign in text for sign in ("connection failed", "resolve host", "timeout expired")) and "fatal" not in text
    )


def is_missing(error: Exception) -> bool:
    """Return True for the error of a missing table or column, which is permanent."""
    orig = getattr(error, "orig", None)
    text = first_line(error).lower()
    return getattr(orig, "sqlstate", None) in _MISSING or any(
        sign in text for sign in ("no such table", "no such column", "has no column named")
    )


def is_locked(error: Exception) -> bool:
    """Return True if another process has been writing into the file for longer than the busy timeout."""
    return "database is locked" in str(getattr(error, "orig", None) or error)


def first_line(error: Exception) -> str:
    """Return the first line of a database error, without the statement and its values."""
    return next(iter(str(getattr(error, "orig", None) or error).strip().splitlines()), type(error).__name__)
