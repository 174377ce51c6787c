"""Many runs: listed in parts, deleted a few at a time, and their room given back."""

import sqlite3
from contextlib import closing

import pytest
import stored_runs

from operad.runtime import BuiltinWorkflow, InputError, Job
from operad.runtime.durable import Ledger
from operad.runtime.durable.records import Retention

TABLES = ("operad_runs", "operad_events", "operad_steps")


def counts(path):
    with closing(sqlite3.connect(path)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}  # noqa: S608


@pytest.fixture
def many(tmp_path):
    """The path of a file with 400 runs, of which each has six operators."""
    path = tmp_path / "runs.sqlite"
    stored_runs.execute(path, "finished")
    stored_runs.fill(path, 400)
    return path


def test_what_is_deleted_gives_its_room_back(many):
    before = many.stat().st_size
    assert before > 2_000_000
    with closing(Ledger(many)) as ledger:
        ledger.delete(*(run.run_id for run in ledger.runs() if run.run_id != "finished"))
        ledger.give_back_space()
        assert len(ledger.timeline("finished")) == 6
    assert counts(many) == dict(zip(TABLES, (1, 7, 6), strict=True))
    assert many.stat().st_size < before / 4


def test_others_write_between_the_parts_of_a_deletion(many):
    with closing(Ledger(many)) as ledger, closing(sqlite3.connect(many, timeout=0, isolation_level=None)) as other:
        left = []
        for place, _ in enumerate(ledger.deleting([run.run_id for run in ledger.runs()])):
            if place % 50 == 49:  # right after a part: no lock is held
                other.execute("UPDATE operad_runs SET updated = updated")
                left.append(other.execute("SELECT count(*) FROM operad_runs").fetchone()[0])
    assert left == [350, 300, 250, 200, 150, 100, 50, 0]


def test_a_deletion_that_is_left_half_done_leaves_whole_runs(many):
    with closing(Ledger(many)) as ledger:
        deletion = ledger.deleting([run.run_id for run in ledger.runs()])
        next(deletion)
        del deletion  # as Ctrl-C leaves it
    assert counts(many) == dict(zip(TABLES, (350, 2450, 2100), strict=True))


def test_of_runs_of_which_one_is_not_there_none_is_deleted(many):
    with closing(Ledger(many)) as ledger, pytest.raises(InputError, match="no run has the id 'run-1000'"):
        ledger.delete(*(f"run-{number}" for number in range(1, 100)), "run-1000")
    assert counts(many)["operad_runs"] == 400


def test_a_list_in_parts_has_every_run_once_though_some_began_at_the_same_time(many):
    with closing(sqlite3.connect(many)) as connection, connection:
        connection.execute("UPDATE operad_runs SET created = 5 WHERE run_id LIKE 'run-1%'")
    with closing(Ledger(many)) as ledger:
        everything = [run.run_id for run in ledger.runs()]
        found, part = [], ledger.runs(37)
        while part:
            found += [run.run_id for run in part]
            part = ledger.runs(37, found[-1])
    assert found == everything
    assert len(set(found)) == 400


def test_deleting_in_postgresql_takes_what_is_kept_of_operators(postgresql):
    url = postgresql.new()
    for name in ("one", "one2", "two"):
        stored_runs.execute(url, name)
    with closing(Ledger(url)) as ledger:
        ledger.delete("one", "two")
        ledger.give_back_space()
        assert [run.run_id for run in ledger.runs()] == ["one2"]
        assert [len(ledger.store.steps.of_run(name)) for name in ("one", "one2", "two")] == [0, 6, 0]


def kept_ids(path):
    with closing(Ledger(path)) as ledger:
        return [run.run_id for run in ledger.runs()]


def finish(path, run_id, name="w", **retention):
    ledger = Ledger(path, retention=Retention(**retention))
    workflow = BuiltinWorkflow(name=name)
    workflow.add_operator(stored_runs.Step("do"))
    workflow.keep_in(ledger)
    workflow.execute(Job(goal="g"), None, run_id=run_id)  # type: ignore[arg-type]
    ledger.close()


def test_a_run_that_finishes_lets_go_of_those_beyond_the_newest(tmp_path):
    path = tmp_path / "runs.sqlite"
    finish(path, "of-another", name="another")
    for number in range(4):
        finish(path, f"run-{number}", max_runs=2)
    assert kept_ids(path) == ["run-3", "run-2", "of-another"]


def test_a_run_that_finishes_lets_go_of_those_that_are_old_and_of_no_others(tmp_path):
    path = tmp_path / "runs.sqlite"
    for run_id in ("finished", "unfinished"):
        stored_runs.execute(path, run_id)
    for run_id in ("old", "new"):
        finish(path, run_id, name="before")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE operad_runs SET updated = updated - 100 WHERE run_id IN ('old', 'unfinished')")
        connection.execute("UPDATE operad_runs SET state = 'running' WHERE run_id = 'unfinished'")
        connection.execute("UPDATE operad_runs SET updated = updated + 1e6 WHERE run_id = 'finished'")
    finish(path, "last", name="before", max_age=50.0)
    assert sorted(kept_ids(path)) == ["finished", "last", "new", "unfinished"]
