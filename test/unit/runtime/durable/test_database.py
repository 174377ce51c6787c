"""What a database is asked before runs are kept in it, and what is said of its errors."""

import gc
import os
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from operad.runtime import InputError
from operad.runtime.durable.database import Database, is_temporary
from operad.runtime.durable.database_names import database_url


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def database(path):
    database = Database(database_url(path))
    yield database
    database.close()


@pytest.fixture
def table(path, database):
    """Execute a statement where there is a table whose column must have a value."""
    engine = create_engine(database_url(path))

    def execute(statement):
        with engine.begin() as connection:
            connection.execute(text(statement))

    execute("CREATE TABLE numbers (number INTEGER NOT NULL)")
    yield execute
    engine.dispose()


def test_an_sqlite_that_is_too_old_is_refused_before_a_file_is_made(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    with pytest.raises(InputError) as refused:
        Database(database_url(path))
    assert str(refused.value) == (
        f"{path}: durable runs in a file need SQLite 3.35 or later, and Python {platform.python_version()} here has "
        "SQLite 3.34.1; use a Python with a later SQLite, or PostgreSQL: --db postgresql://user:password@host/database"
    )
    assert not path.exists()


def test_a_row_that_the_database_refuses_is_a_fault_to_report_and_none_of_the_database(path, database, table):
    with pytest.raises(InputError) as refused:
        database.with_retries(lambda: table("INSERT INTO numbers VALUES (NULL)"))
    assert str(refused.value) == (
        f"{path}: the database refused a row: NOT NULL constraint failed: numbers.number; this is a bug in operad or "
        "dbos, and running the command again does not help: please report it, with "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, operad {version('operad')}, "
        f"dbos {version('dbos')}, sqlalchemy {version('sqlalchemy')}; earlier runs are not lost"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO numbers VALUES (NULL)",
        "INSERT INTO numbers (numeral) VALUES (1)",
        "SELECT numeral FROM numbers",
        "SELECT number FROM numerals",
    ],
)
def test_a_row_that_is_refused_and_a_column_or_table_that_is_missing_are_not_waited_for(table, statement):
    with pytest.raises(DBAPIError) as wrong:
        table(statement)
    assert not is_temporary(wrong.value)


def test_a_database_that_is_dropped_without_being_closed_lets_go_of_its_file(path):
    database = Database(database_url(path))
    database.now()
    assert open_files(path)
    del database
    gc.collect()
    assert not open_files(path)


def open_files(path):
    """The descriptors of this process for a file and those beside it."""
    names = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return [name for name in names if name.startswith(str(path))]


def test_a_connection_that_the_server_has_closed_is_replaced_before_it_is_used(postgresql):
    database = Database(database_url(postgresql.new()))
    with database.engine.connect() as first, database.engine.connect() as other:
        pid = first.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        first.rollback()
        first.close()
        assert other.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 5000)").scalar()
    with database.engine.connect() as one, database.engine.connect() as two:
        pids = [each.exec_driver_sql("SELECT pg_backend_pid()").scalar() for each in (one, two)]
    assert pid not in pids
    database.close()
