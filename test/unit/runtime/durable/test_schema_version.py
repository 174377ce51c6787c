"""The version of the tables: files of other versions are refused, and what is missing is said."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy
import stored_runs
from amounts import sample
from forked import OPERAD_COMMAND

from operad.runtime import InputError
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import VERSION

OURS = [
    "operad_calls",
    "operad_events",
    "operad_executors",
    "operad_questions",
    "operad_runs",
    "operad_schedules",
    "operad_steps",
    "operad_work",
]


@pytest.fixture
def stored(tmp_path):
    """The path of a file with a run."""
    path = tmp_path / "runs.sqlite"
    stored_runs.execute(path, "finished")
    return path


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def of_version(version):
    return f"UPDATE operad_schema SET version = {version}"  # noqa: S608 - a number


def engine_of(url):
    return sqlalchemy.create_engine(
        f"sqlite:///{url}" if "://" not in url else url.replace("postgresql://", "postgresql+psycopg://")
    )


def test_a_version_that_is_written_already_is_left_as_it_is(tmp_path):
    path = tmp_path / "new.sqlite"
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            ledger.runs()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT version FROM operad_schema").fetchall() == [(VERSION,)]


REFUSED = [
    (of_version(VERSION + 1), f"a later version of operad wrote this database: its tables have version {VERSION + 1}", "upgrade operad"),
    (of_version(VERSION - 1), f"an earlier development version of operad wrote this database: its tables have version {VERSION - 1}", "finish its runs there, or name another database with --db"),
    ("DROP TABLE operad_schema", "an earlier development version of operad wrote this database: its tables have version 1", "or name another database with --db"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "change_", "said", "remedy"),
    sample(
        [
            (command, *refused)
            for command in (["list"], ["show", "finished"], ["resume", "finished"], ["delete", "finished"])
            for refused in REFUSED
        ],
        4,
    ),
)
def test_a_file_of_another_version_is_refused_in_one_line(stored, command, change_, said, remedy, forked):
    change(stored, change_)
    done = forked.run([*OPERAD_COMMAND, "runs", *command, "--db", str(stored)])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{said}, and this operad uses version {VERSION};" in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_file_of_another_version_takes_no_run_and_stays_as_it_is(stored, version):
    change(stored, of_version(version))
    before = stored.read_bytes()
    with pytest.raises(InputError, match="version of operad wrote this database"):
        stored_runs.execute(stored, "new")
    assert stored.read_bytes() == before


def test_a_table_of_versions_that_says_nothing_is_refused(stored):
    change(stored, "DELETE FROM operad_schema")
    with pytest.raises(InputError, match="operad_schema holds no version"):
        Ledger(stored).runs()


@pytest.mark.parametrize(
    ("change_", "said"),
    [
        ("ALTER TABLE operad_runs DROP COLUMN usage", "no such column: operad_runs.usage"),
        ("ALTER TABLE operad_executors DROP COLUMN doing", "no such column: operad_executors.doing"),
        *((f"DROP TABLE {name}", f"no such table: {name}") for name in OURS if name != "operad_runs"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_asked(stored, change_, said):
    change(stored, change_)
    with pytest.raises(InputError, match=f"a table or column is missing: {said}"):
        Ledger(stored).runs()


@pytest.mark.parametrize("change_", ["DROP TABLE operad_questions", "ALTER TABLE operad_runs DROP COLUMN usage"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_goes_missing_later_is_waited_for_by_nobody(tmp_path, kind, change_, request):
    url = str(tmp_path / "runs.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql").new()
    with closing(Ledger(url)) as ledger:
        ledger.store.runs()
        engine = engine_of(url)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(change_))
        engine.dispose()
        with pytest.raises(InputError, match="a table or column is missing"):
            _ = ledger.store.runs(), ledger.store.questions("x")


def test_four_that_create_the_tables_at_once_all_have_them(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        stores = [threads.submit(Store, database_url(tmp_path / "new.sqlite")) for _ in range(4)]
        for store in stores:
            assert store.result().runs() == []
            store.result().close()
