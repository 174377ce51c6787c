"""The version of the tables: runs of earlier versions go on, those of later ones are refused, what is missing is said."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import kept_before
import pytest
import sqlalchemy
from forked import OPERAD_COMMAND

from operad.runtime import InputError
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.schema_version import VERSION
from operad.runtime.durable.store import Store

OURS = [
    "operad_calls",
    "operad_events",
    "operad_executors",
    "operad_questions",
    "operad_runs",
    "operad_steps",
    "operad_takeovers",
]


@pytest.fixture
def before(tmp_path):
    """The path of a file that an earlier version wrote."""
    path = tmp_path / "before.sqlite"
    kept_before.restore(path)
    return path


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def of_sqlite(path):
    return sqlalchemy.create_engine(f"sqlite:///{path}")


def of_postgresql(url):
    return sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def described(engine):
    """The tables of ours: their columns, keys and indices."""
    there = sqlalchemy.inspect(engine)
    made = {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in there.get_columns(name)],
            there.get_pk_constraint(name)["constrained_columns"],
            sorted((index["name"], tuple(index["column_names"])) for index in there.get_indexes(name)),
        )
        for name in there.get_table_names()
        if name.startswith("operad_")
    }
    engine.dispose()
    return made


def to_version_1(engine):
    """Take back what later versions added."""
    with engine.begin() as connection:
        for statement in (
            "DROP TABLE operad_schema",
            "DROP TABLE operad_events",
            "DROP TABLE operad_steps",
            "ALTER TABLE operad_questions DROP COLUMN tool_call",
            "DROP INDEX ix_operad_runs_created",
            "DROP INDEX ix_operad_runs_state",
        ):
            connection.execute(sqlalchemy.text(statement))
    engine.dispose()


def test_a_run_that_the_version_before_kept_is_resumed(before):
    ran = []
    message = kept_before.execute(before, "unfinished", ran)
    checked = "check of x\n\ncheck of y\n\ncheck of z"
    assert ran == ["check z", f"write {checked}", f"judge write of {checked}"]
    assert message.scratchpad == f"judge of write of {checked}"
    with closing(Ledger(before)) as ledger:
        kept = ledger.run("unfinished")
        assert (kept.state, kept.drives, kept.done) == ("finished", 2, 6)


def test_a_run_that_the_version_before_finished_is_listed_shown_and_told(before):
    ran = []
    with closing(Ledger(before)) as ledger:
        assert [(run.run_id, run.state) for run in ledger.runs()] == [
            ("unfinished", "running"),
            ("finished", "finished"),
        ]
        assert [step.key for step in ledger.timeline("finished")] == [
            "fetch",
            "each[0]/check",
            "each[1]/check",
            "each[2]/check",
            "write",
            "judge",
        ]
        assert type(ledger.events("finished")[-1]).__name__ == "RunFinished"
    assert kept_before.execute(before, "finished", ran).operator_id == "judge"
    assert ran == []


def test_tables_of_the_version_before_become_those_of_a_new_file(before, tmp_path):
    for path in (before, tmp_path / "new.sqlite"):
        with closing(Ledger(path)) as ledger:
            ledger.runs()
    assert described(of_sqlite(before)) == described(of_sqlite(tmp_path / "new.sqlite"))
    assert [*described(of_sqlite(before))] == sorted([*OURS, "operad_schema"])


def test_tables_in_postgresql_are_brought_to_the_version_of_a_new_database(postgresql):
    url = postgresql.new()
    with closing(Ledger(url)) as ledger:
        ledger.runs()
    new = described(of_postgresql(url))
    to_version_1(of_postgresql(url))
    with closing(Ledger(url)) as ledger:
        assert ledger.runs() == []
    assert described(of_postgresql(url)) == new


def test_a_version_that_is_written_already_is_left_as_it_is(tmp_path):
    path = tmp_path / "new.sqlite"
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            ledger.runs()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT version FROM operad_schema").fetchall() == [(VERSION,)]


LATER = f"UPDATE operad_schema SET version = {VERSION + 1}"  # noqa: S608 - a number


@pytest.mark.parametrize("command", [["list"], ["show", "finished"], ["resume", "unfinished"], ["delete", "finished"]])
def test_a_file_of_a_later_version_is_refused_in_one_line(before, command, forked):
    with closing(Ledger(before)) as ledger:
        ledger.runs()
    change(before, LATER)
    done = forked.run([*OPERAD_COMMAND, "runs", *command, "--db", str(before)])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"its tables have version {VERSION + 1}, and this operad knows versions up to {VERSION};" in done.stderr
    assert "upgrade operad" in done.stderr


def test_a_file_of_a_later_version_takes_no_run(before):
    with closing(Ledger(before)) as ledger:
        ledger.runs()
    change(before, LATER)
    with pytest.raises(InputError, match="a later version of operad wrote this database"):
        kept_before.execute(before, "new")


def test_a_table_of_versions_that_says_nothing_is_refused(before):
    with closing(Ledger(before)) as ledger:
        ledger.runs()
    change(before, "DELETE FROM operad_schema")
    with pytest.raises(InputError, match="operad_schema holds no version"):
        Ledger(before).runs()


@pytest.mark.parametrize(
    ("change_", "said"),
    [
        ("ALTER TABLE operad_runs DROP COLUMN usage", "no such column: operad_runs.usage"),
        ("ALTER TABLE operad_executors DROP COLUMN doing", "no such column: operad_executors.doing"),
        *((f"DROP TABLE {name}", f"no such table: {name}") for name in OURS if name != "operad_runs"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_asked(before, change_, said):
    with closing(Ledger(before)) as ledger:
        ledger.runs()
    change(before, change_)
    with pytest.raises(InputError, match=f"a table or column is missing: {said}"):
        Ledger(before).runs()


@pytest.mark.parametrize("change_", ["DROP TABLE operad_questions", "ALTER TABLE operad_runs DROP COLUMN usage"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_goes_missing_later_is_waited_for_by_nobody(tmp_path, kind, change_, request):
    url = str(tmp_path / "runs.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql").new()
    with closing(Ledger(url)) as ledger:
        ledger.store.runs()
        engine = of_sqlite(url) if kind == "sqlite" else of_postgresql(url)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(change_))
        engine.dispose()
        with pytest.raises(InputError, match="a table or column is missing"):
            _ = ledger.store.runs(), ledger.store.questions("x")


def test_two_that_bring_the_tables_to_this_version_at_once_both_have_them(before):
    with ThreadPoolExecutor(4) as threads:
        stores = [threads.submit(Store, database_url(before)) for _ in range(4)]
        for store in stores:
            assert len(store.result().runs()) == 2
            store.result().close()
