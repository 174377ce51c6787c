"""What a database is asked before runs are kept in it, and what is said of its errors."""

import ctypes
import gc
import os
import platform
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from operad.runtime import InputError
from operad.runtime.durable.database import STATEMENTS, Database, is_temporary
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.store import Store


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
        f"{path}: the database refused a row: NOT NULL constraint failed: numbers.number; this is a bug in operad, "
        "and running the command again does not help: please report it, with "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, operad {version('operad')}, "
        f"sqlalchemy {version('sqlalchemy')}; earlier runs are not lost"
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


def test_a_process_that_stops_between_two_rows_is_idle_for_the_server_which_ends_its_transaction(postgresql):
    psycopg = pytest.importorskip("psycopg")
    states = []

    class Row(int):
        """A value that looks at the state of its connection when it is sent."""

    class Sent(psycopg.adapt.Dumper):
        oid = 20

        def dump(self, obj):
            asked = text("SELECT state, split_part(query, ' ', 1) FROM pg_stat_activity WHERE pid = :pid")
            states.append(tuple(other.execute(asked, {"pid": pid}).one()))
            return str(int(obj)).encode()

    database = Database(database_url(postgresql.new()))
    looking = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with looking.connect() as other, database.engine.begin() as connection:
        driver: Any = connection.connection.driver_connection
        driver.adapters.register_dumper(Row, Sent)
        pid = driver.info.backend_pid
        connection.exec_driver_sql("CREATE TABLE numbers (number bigint)")
        connection.execute(
            text("INSERT INTO numbers VALUES (:number)"), [{"number": Row(number)} for number in range(3)]
        )
        assert connection.exec_driver_sql("SELECT sum(number) FROM numbers").scalar() == 3
    assert states == [("idle in transaction", last) for last in ("CREATE", "INSERT", "INSERT")]
    database.close()


# Files that cannot be written or read

_COUNT_RUNS = """
import sys
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.store import Store
from operad.runtime.values.errors import InputError
try:
    print(len(Store(database_url(sys.argv[1]), reading=sys.argv[2] == "reading").runs()))
except InputError as error:
    print(error)
"""


def obey_permissions():
    """Take the capabilities from root that override the permissions of files."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    for override in (1, 2):
        if prctl:
            prctl(24, override, 0, 0, 0)


def read_by_a_user(path, how="reading"):
    """What a process says of a database whose permissions it obeys."""
    command = [sys.executable, "-c", _COUNT_RUNS, str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=obey_permissions, timeout=60)
    return done.stdout.strip() or done.stderr


def kept(path):
    """Create a database of runs, with a row that another process could have written."""
    Store(database_url(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(operad_runs)")]
        values = ", ".join("'x'" for _ in names)
        connection.execute(f"INSERT INTO operad_runs ({', '.join(names)}) VALUES ({values})")  # noqa: S608
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="root of other systems obeys no permissions")
@pytest.mark.parametrize("mode", [0o444, 0o644])
@pytest.mark.slow
def test_a_file_in_a_folder_that_cannot_be_written_can_be_inspected(tmp_path, mode):
    path = kept(tmp_path / "runs.sqlite")
    path.chmod(mode)
    tmp_path.chmod(0o555)
    try:
        assert read_by_a_user(path) == "1"
        assert "this user may not" in read_by_a_user(path, "writing")
        assert os.listdir(tmp_path) == ["runs.sqlite"]
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="root of other systems obeys no permissions")
def test_a_file_that_cannot_be_read_or_brought_up_to_date_says_so(tmp_path):
    path = kept(tmp_path / "runs.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE operad_schema SET version = 2")
    path.chmod(0o444)
    assert "its tables have version 2" in read_by_a_user(path)
    path.chmod(0)
    assert "unable to open database file; this user may not open the file" in read_by_a_user(path)


def test_a_damaged_file_is_not_said_to_be_safe(path):
    kept(path)
    os.truncate(path, 20_000)
    with pytest.raises(
        InputError, match=r"malformed; the file is damaged, and running the command again does not help"
    ):
        Store(database_url(path), reading=True)


def test_a_file_of_another_program_is_not_changed_by_who_only_reads(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (a)")
    content = path.read_bytes()
    with pytest.raises(InputError, match="is an SQLite file of another program; name another one with --db"):
        Store(database_url(path), reading=True)
    assert path.read_bytes() == content


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_what_is_no_regular_file_is_refused_without_being_opened(path):
    os.mkfifo(path)
    for reading in (True, False):
        with pytest.raises(InputError, match="is not a regular file; name another one with --db"):
            Store(database_url(path), reading=reading)


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="counts objects of CPython's sqlite3")
def test_a_connection_keeps_few_of_the_statements_that_differ_with_the_number_of_their_rows(database):
    with database.reader.connect() as connection:
        before = kept_statements()
        for number in range(1, 10 * STATEMENTS):
            connection.execute(text(f"SELECT 1 IN ({', '.join(['1'] * number)})")).all()
        assert kept_statements() - before <= STATEMENTS


def kept_statements():
    gc.collect()
    return sum(f"{type(each).__module__}.{type(each).__qualname__}" == "sqlite3.Statement" for each in gc.get_objects())
