"""Outcomes of operators: written together, by the driver of their run alone, and once where they come soon."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from operad import Workflow, operator
from operad.runtime import InputError, Job
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.rows import DONE, StepRow, StoredRun
from operad.runtime.durable.step_writer import StepWriter
from operad.runtime.durable.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """Tables with a run of this process and one of another process."""
    url = tmp_path / "runs.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgresql").new()
    store = Store(database_url(url))
    for run_id, driver in (("mine", "me"), ("mine-too", "me"), ("other", "somebody")):
        assert store.create(StoredRun(run_id, driver=driver))
    yield store
    store.close()


def outcomes(store, run_id):
    return {row.key: (row.outcome, row.status) for row in store.steps.of_run(run_id, outcomes=True)}


def test_of_several_records_of_an_operator_the_last_counts(store):
    store.steps.write("me", [StepRow("mine", "a", began=1.0), StepRow("mine-too", "a", began=1.0)])
    assert outcomes(store, "mine") == {"a": (None, "PENDING")}
    store.steps.write(
        "me",
        [StepRow("mine", "b", began=3.0), StepRow("mine", "b", "B", 3.0, 4.0), StepRow("mine", "a", "A", 1.0, 2.0)],
    )
    assert outcomes(store, "mine") == {"a": ("A", DONE), "b": ("B", DONE)}
    assert [(row.key, row.outcome, row.began, row.ended) for row in store.steps.of_run("mine")] == [
        ("a", None, 1.0, 2.0),
        ("b", None, 3.0, 4.0),
    ]
    store.steps.forget("mine", ["a"])
    assert [*outcomes(store, "mine")] == ["b"]
    store.forget(["mine"])
    assert (outcomes(store, "mine"), [*outcomes(store, "mine-too")]) == ({}, ["a"])


def test_nothing_is_written_for_a_run_that_another_process_drives(store):
    with pytest.raises(InputError, match="run 'other' is driven by another process now"):
        store.steps.write("me", [StepRow("mine", "a", "A"), StepRow("other", "a", "A")])
    assert outcomes(store, "mine") == outcomes(store, "other") == {}


async def test_a_lost_run_does_not_keep_others_from_being_written(store):
    hold, first = threading.Event(), threading.Event()

    def write(steps):
        first.set()
        hold.wait(60)
        store.steps.write("me", steps)

    commits = GroupCommit(write)
    puts = [commits.put(StepRow("mine", "first", "1"))]
    puts += [commits.put(StepRow(run_id, "a", "A")) for run_id in ("mine", "other", "mine-too")]
    tasks = [asyncio.ensure_future(put) for put in puts]
    await asyncio.to_thread(first.wait, 60)
    hold.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done] == [type(None), type(None), InputError, type(None)]
    assert sorted(outcomes(store, "mine")) == ["a", "first"]
    assert [*outcomes(store, "mine-too")] == ["a"]


class OperationalError(Exception):
    """What a database raises that cannot be reached."""


async def test_values_are_not_tried_one_by_one_while_the_database_is_gone():
    hold, tried = threading.Event(), list[int]()

    def write(values):
        hold.wait(60)
        tried.append(len(values))
        raise InputError("gone for too long") from OperationalError("connection refused")

    commits = GroupCommit(write)
    tasks = [asyncio.ensure_future(commits.put(number)) for number in range(5)]
    await asyncio.sleep(0)
    hold.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done] == [InputError] * 5
    assert (sum(tried), len(tried) <= 2) == (5, True)


def test_who_takes_a_run_over_waits_for_what_its_driver_is_writing(postgresql):
    """Otherwise the new driver could read the outcomes before the old one commits another."""
    store = Store(database_url(postgresql.new()))
    store.create(StoredRun("run", driver="old"))
    taken: list[float] = []
    with store.database.engine.begin() as connection:
        connection.execute(store.steps._held, {"driver": "old", "run_ids": ["run"]})
        taking = threading.Thread(target=lambda: taken.append(store.take("run", "old", "new") and time.monotonic()))
        taking.start()
        taking.join(0.2)
        assert taking.is_alive()
        before = time.monotonic()
    taking.join(60)
    assert taken[0] >= before
    store.close()


class Written:
    """A store that notes what is written."""

    def __init__(self):
        self.rows = []
        self.database = self.steps = self

    def now(self):
        return 1_000_000.0

    def write(self, driver, rows):
        self.rows += [(driver, row.key, row.outcome) for row in rows]


async def test_an_operator_that_ends_soon_is_written_once_and_one_that_lasts_when_it_is_in_progress():
    store = Written()
    writer = StepWriter(store, "me")  # type: ignore[arg-type]
    with writer.recorded("run", "short") as keep:
        await keep("S")
    assert store.rows == [("me", "short", "S")]
    with writer.recorded("run", "long") as keep:
        while len(store.rows) == 1:
            await asyncio.sleep(0.001)
        await keep("L")
    assert store.rows[1:] == [("me", "long", None), ("me", "long", "L")]


async def test_an_operator_that_is_stopped_at_once_is_written_as_begun():
    store = Written()
    writer = StepWriter(store, "me")  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError), writer.recorded("run", "stopped"):
        raise asyncio.CancelledError
    await asyncio.to_thread(writer.wait)
    assert store.rows == [("me", "stopped", None)]


def test_a_process_keeps_runs_in_several_databases_at_once(tmp_path):
    @operator
    def greet(job: Job) -> str:
        return f"Hello {job.goal}"

    ledgers = [Ledger(tmp_path / f"{number}.sqlite") for number in range(2)]
    for number, ledger in enumerate(ledgers):
        Workflow(greet, durable=ledger, name="greet").run("Ada", run_id=f"run-{number}")
    assert [[run.run_id for run in ledger.runs()] for ledger in ledgers] == [["run-0"], ["run-1"]]
    for ledger in ledgers:
        ledger.close()


ALONE = """
import sys
from operad import Job, Workflow, operator

@operator
def greet(job: Job) -> str:
    return f"Hello {job.goal}"

print(Workflow(greet, durable=sys.argv[1], name="greet").run("Ada", run_id="run").text, "dbos" in sys.modules)
"""


@pytest.mark.slow
def test_a_run_without_workers_needs_neither_dbos_nor_its_tables(tmp_path):
    path = tmp_path / "runs.sqlite"
    done = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True, check=True)
    assert done.stdout == "Hello Ada False\n"
    with closing(sqlite3.connect(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "operad_steps" in names
    assert all(name.startswith("operad_") for name in names)


def test_an_outcome_that_is_no_text_is_an_error(tmp_path):
    store = Store(database_url(tmp_path / "runs.sqlite"))
    store.create(StoredRun("run", driver="me"))
    store.steps.write("me", [StepRow("run", "a", "A")])
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        connection.execute("UPDATE operad_steps SET outcome = x'00ff'")
    with pytest.raises(InputError, match="the stored outcome of 'run:a' is not a text"):
        store.steps.of_run("run", outcomes=True)
    store.close()
