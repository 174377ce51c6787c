"""A database that runs are kept in: how it is reached, what its clock says, and how it is waited for."""

from __future__ import annotations

import logging
import os
import platform
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from functools import wraps
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from operad.runtime.durable.places import POSTGRES, SQLITE, shown, sqlalchemy, who_writes
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL

_logger = logging.getLogger(__name__)

PATIENCE = 300.0
"""Seconds that a database that is gone is waited for."""

IDLE = 10.0
"""Seconds after which a server ends a transaction of a process that stands still in it, and holds others up."""

OLDEST_SQLITE = (3, 35)
"""The first version of SQLite with ``RETURNING``, by which dbos takes work."""

_ENDED_IDLE = "25P03"
_MISSING = ("42P01", "42703")
"""What PostgreSQL calls a table, and a column, that is not there."""

_PAGES = 500
"""How many pages of a file are given back at once."""

BREATH = 0.03
"""Seconds between two parts of what takes long, in which others may write."""

_PAUSE = 0.5
_BUSY_MS = 5_000
_SAID_AGAIN = 30.0
"""Seconds between two words about what is waited for."""

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound="Database")

import_module("concurrent.futures.thread")  # has threads waited for at the end, and must be told of it after `_ending`
_ending = threading.Event()
_at_exit: Callable[[Callable[[], None]], None] = cast("Any", threading)._register_atexit
_at_exit(_ending.set)


def patiently(method: Callable[Concatenate[D, P], T]) -> Callable[Concatenate[D, P], T]:
    """Have a method wait for a database that is gone; see `Database.insist`."""

    @wraps(method)
    def waiting(database: D, *args: P.args, **kwargs: P.kwargs) -> T:
        return database.insist(lambda: method(database, *args, **kwargs))

    return waiting


class Database:
    """A database.

    Args:
        url: Where it is, as `database_url` gives it. A file is made when it is not there.

    Attributes:
        url: The same.
        name: What it is called to people.
        errors: What is raised about it.

    Raises:
        InputError: The file cannot be made, or SQLite is too old.
    """

    def __init__(self, url: URL) -> None:
        sa = self._sa = sqlalchemy()
        self.url = url
        self.name = shown(url)
        self.errors: type[Exception] = sa.exc.SQLAlchemyError
        self._is_sqlite = url.get_backend_name() == SQLITE
        self._lock = threading.Lock()
        self._said = -_SAID_AGAIN
        if self._is_sqlite:
            _check_version(self.name)
            _claim(Path(str(url.database)))
        self._engine = self._make_engine(url)
        self._reader = self._engine.execution_options(reads=True)
        weakref.finalize(self, self._engine.dispose).atexit = False  # connections of who was dropped without `close`

    def _make_engine(self, url: URL) -> Any:
        sa = self._sa
        if not self._is_sqlite:
            wait = {"connect_timeout": "10"} if "connect_timeout" not in url.query else {}
            address = url.set(drivername=f"{POSTGRES}+psycopg").update_query_dict(wait)
            options = {"pool_size": 5, "max_overflow": 10, "pool_pre_ping": True}
            # In the others, who has waited for a lock does not see what was done under it.
            engine = sa.create_engine(address, isolation_level="READ COMMITTED", **options)

            @sa.event.listens_for(engine, "connect")
            def _limit(connection: Any, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
                connection.execute(f"SET idle_in_transaction_session_timeout = {round(IDLE * 1000)}")
                connection.commit()

            return engine
        engine = sa.create_engine(url)

        @sa.event.listens_for(engine, "connect")
        def _set_up(connection: Any, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            connection.isolation_level = None  # SQLAlchemy says when a transaction begins, as below
            connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            if not connection.execute("PRAGMA page_count").fetchone()[
                0
            ]:  # in a file that is there, it would wait for writers
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that the file can become smaller
            connection.execute("PRAGMA journal_mode=WAL")  # of the file, for dbos as well: a quarter of the time

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            reads = connection.get_execution_options().get("reads")  # which waits for nobody who writes
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def insist(self, work: Callable[[], T], patience: float = PATIENCE) -> T:
        """Have something done with the database, again and again while it is gone, or while another writes into its file.

        Who writes, and stands still in that, is waited for as long as it takes: nothing else helps.

        Args:
            work: What is done.
            patience: Seconds that a database that is gone is waited for.

        Raises:
            InputError: It is gone for too long, something else is wrong with it, or this process ends.
        """
        began = time.monotonic()
        while True:
            try:
                return work()
            except self.errors as error:
                waited, is_held = time.monotonic() - began, self._is_sqlite and _is_held(error)
                if not (is_held or (passes(error) and waited <= patience)) or _ending.is_set():
                    raise self.wrong(error) from error
                self._say(f"waiting for it: {_first_line(error)}{self._hint() if is_held else ''}")
            _ending.wait(_PAUSE)

    def set_up(self, work: Callable[[], T]) -> T:
        """Have dbos do what it does at first, which writes: as soon as nobody else does.

        Raises:
            InputError: The database cannot be reached or used.
        """

        def in_turn() -> T:
            with self._engine.begin():  # dbos itself waits for longer than whoever presses Ctrl-C
                pass
            return work()

        return self.insist(in_turn, patience=0.0)

    def _say(self, what: str) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._said < _SAID_AGAIN:
                return
            self._said = now
        _logger.warning("%s: %s", self.name, what)

    def _hint(self) -> str:
        """What can be done about who holds the file."""
        process = who_writes(Path(str(self.url.database)))
        if process is None:
            return "; another process is in the midst of writing: is it stopped?"
        return (
            f"; process {process} is in the midst of writing: if it is stopped, kill -CONT {process} has it go on, "
            f"and kill -KILL {process} ends it"
        )

    def wrong(self, error: Exception) -> InputError:
        """What is wrong with the database, for people."""
        sa = self._sa
        if isinstance(error, (sa.exc.IntegrityError, sa.exc.DataError)):  # what was written, not the place it went to
            return InputError(
                f"{self.name}: the database refused a row: {_first_line(error)}; this is a fault of operad or dbos, and "
                f"giving the command again does not help: report it, with {_versions(self._is_sqlite)}; earlier runs "
                "are not lost"
            )
        if is_missing(error):
            return InputError(
                f"{self.name}: a table or column is missing: {_first_line(error)}; the file was deleted, or changed by a program "
                "other than operad: restore it from a copy, or name another database with --db"
            )
        return InputError(
            f"{self.name}: cannot be used for runs: {_first_line(error)}; what was kept is not lost: see that the "
            "database is there and has room, and give the same command again"
        )

    def give_back_space(self, *, whole: bool = False) -> bool:
        """Have the file become as small as what is in it, a little at a time; a server does so by itself.

        Args:
            whole: Whether a file that an earlier version made may be written anew, once: all others wait for that.

        Returns:
            Whether it could; False for a file that an earlier version made.
        """
        return not self._is_sqlite or self.insist(lambda: self._shrink(whole))

    def _shrink(self, whole: bool) -> bool:
        with closing(self._engine.raw_connection()) as pooled:
            connection = pooled.driver_connection

            def ask(statement: str) -> Any:
                return (connection.execute(statement).fetchone() or (None,))[0]

            if not ask("PRAGMA auto_vacuum"):
                if not whole:
                    return False
                ask("PRAGMA auto_vacuum=INCREMENTAL")
                ask("VACUUM")
            while ask("PRAGMA freelist_count"):
                connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")  # `execute` ends after a page
                time.sleep(BREATH)
            ask("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @patiently
    def now(self) -> float:
        """The database's clock."""
        with self._reader.connect() as connection:
            return self._now_in(connection)

    @property
    def _now(self) -> Any:
        clock = (
            "(julianday('now') - 2440587.5) * 86400.0"
            if self._is_sqlite
            else "cast(extract(epoch from clock_timestamp()) as double precision)"
        )
        return self._sa.literal_column(clock)

    def _now_in(self, connection: Any) -> float:
        return float(connection.execute(self._sa.select(self._now)).scalar())


def _check_version(name: str) -> None:
    """See that the SQLite of this Python can hold runs.

    Raises:
        InputError: It is too old.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise InputError(
            f"{name}: durable runs in a file need SQLite {oldest} or later, and Python {platform.python_version()} here "
            f"has SQLite {sqlite3.sqlite_version}; use a Python with a later SQLite, or PostgreSQL: "
            "--db postgresql://user:password@host/database"
        )


def _versions(is_sqlite: bool) -> str:
    """The versions of what takes part in keeping runs, for a report."""
    packages = [f"{package} {metadata.version(package)}" for package in ("operad", "dbos", "sqlalchemy")]
    sqlite = [f"SQLite {sqlite3.sqlite_version}"] if is_sqlite else []
    return ", ".join([f"Python {platform.python_version()}", *sqlite, *packages])


def _claim(path: Path) -> None:
    """Make the file of a database for its owner's eyes alone, where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {error.strerror or error}; name another file: --db FILE") from error


def passes(error: Exception) -> bool:
    """Whether it may well work a little later: the connection broke, or the server starts."""
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


def is_missing(error: Exception) -> bool:
    """Whether a table or a column is not there, which does not pass."""
    orig = getattr(error, "orig", None)
    said = _first_line(error).lower()
    return getattr(orig, "sqlstate", None) in _MISSING or any(
        sign in said for sign in ("no such table", "no such column", "has no column named")
    )


def _is_held(error: Exception) -> bool:
    """Whether somebody else writes into the file, and has for longer than one waits at a time."""
    return "database is locked" in str(getattr(error, "orig", None) or error)


def _first_line(error: Exception) -> str:
    """What the database says, without the statement and what was in it."""
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    return said[0] if said else type(error).__name__
