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
from operad.runtime import InputError, Job, WorkflowMessage, events
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.group_commit import MOST, GroupCommit
from operad.runtime.durable.history import Recorder
from operad.runtime.durable.run_writer import Progress, RunWriter, TakeOver
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import DONE, RUNNING, StepRow, StoredRun
from operad.runtime.events import RunLog


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """Tables with a run of this process and one of another process."""
    url = tmp_path / "runs.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgresql").new()
    store = Store(database_url(url))
    for run_id, driver in (("mine", "me"), ("mine-too", "me"), ("other", "somebody")):
        assert store.create(StoredRun(run_id, driver=driver))
    yield store
    store.close()


def step(run_id, *values, **more):
    return Progress(run_id, step=StepRow(run_id, *values, **more))


def state(run_id, **values):
    return Progress(run_id, values=values)


HAPPENED = (events.RoundStarted(operators=()),)


def outcomes(store, run_id):
    return {row.key: (row.outcome, row.status) for row in store.steps.of_run(run_id, outcomes=True)}


def test_of_several_records_of_an_operator_the_last_counts(store):
    store.changes.write("me", [step("mine", "a", began=1.0), step("mine-too", "a", began=1.0)])
    assert outcomes(store, "mine") == {"a": (None, "PENDING")}
    store.changes.write(
        "me",
        [step("mine", "b", began=3.0), step("mine", "b", "B", 3.0, 4.0), step("mine", "a", "A", 1.0, 2.0)],
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


def test_runs_are_taken_over_together_as_they_were_read_and_without_unfinished_operators(store):
    store.changes.write("me", [step("mine", "a", "A"), step("mine", "b"), step("mine-too", "a")])
    store.changes.write("me", [state("mine", state="failed", error="late")])
    changes = [
        TakeOver("other", "somebody", RUNNING),
        TakeOver("mine", "me", RUNNING),  # its state is another
        TakeOver("mine-too", "somebody", RUNNING),  # its driver is another
        step("other", "a", "A"),
        TakeOver("other", "somebody", RUNNING),
    ]
    assert store.changes.write("new", changes) == [True, False, False, True, False]
    kept = [store.run(run_id) for run_id in ("other", "mine", "mine-too")]
    assert [(run.driver, run.drives, run.state) for run in kept if run] == [
        ("new", 2, RUNNING),
        ("me", 1, "failed"),
        ("me", 1, RUNNING),
    ]
    assert outcomes(store, "mine") == {"a": ("A", DONE), "b": (None, "PENDING")}
    assert store.changes.write("new", [TakeOver("mine", "me", "failed")]) == [True]
    assert outcomes(store, "mine") == {"a": ("A", DONE)}
    assert [*outcomes(store, "mine-too")] == ["a"]


def test_nothing_is_written_for_a_run_that_another_process_drives(store):
    changes = [step("mine", "a", "A"), step("other", "a", "A"), state("other", state="failed")]
    assert store.changes.write("me", [*changes, Progress("other", HAPPENED, 1)]) == [True, False, False, False]
    assert (outcomes(store, "mine"), outcomes(store, "other")) == ({"a": ("A", DONE)}, {})
    assert (store.run("other").state, bool(store.event_parts("other"))) == ("running", False)


def test_what_is_written_together_has_the_order_in_which_it_came(store):
    changes = [
        state("mine", state="asks", done=1),
        StoredRun("new", driver="me"),
        state("mine", done=2),
        state("mine-too", state="finished", driver=""),
        state("mine-too", state="running"),
        StoredRun("mine-too", driver="me"),
        StoredRun("new", driver="me"),
        step("new", "a", "A"),
    ]
    assert store.changes.write("me", changes) == [True, True, True, True, False, False, False, True]
    found = {run.run_id: (run.state, run.done, run.driver) for run in store.runs()}
    assert found["mine"] == ("asks", 2, "me")
    assert (found["mine-too"], found["new"]) == (("finished", 0, ""), ("running", 0, "me"))
    assert outcomes(store, "new") == {"a": ("A", DONE)}


def test_events_that_are_written_twice_are_stored_once(store):
    parts = [Progress("mine", HAPPENED, 1), Progress("mine", HAPPENED, 2), Progress("mine-too", HAPPENED, 1)]
    store.changes.write("me", parts)
    assert store.changes.write("me", [Progress("mine", HAPPENED, 2), Progress("mine", HAPPENED, 3)]) == [True, True]

    def numbers(run_id, after=0):
        return [part.number for part in store.event_parts(run_id, after)]

    assert (numbers("mine"), numbers("mine", 1), numbers("mine-too"), numbers("other")) == ([1, 2, 3], [2, 3], [1], [])
    assert store.changes.write("me", [Progress("mine", HAPPENED, 4, is_whole=True)]) == [True]
    assert (numbers("mine"), numbers("mine-too")) == ([4], [1])


def test_an_outcome_is_stored_although_its_events_are_too_long(store, monkeypatch, caplog):
    long = (events.RoundStarted(operators=("x" * 1000,)),)
    monkeypatch.setattr("operad.runtime.durable.codec.MAX_TEXT", 500)
    assert store.changes.write("me", [Progress("mine", long, 1, StepRow("mine", "a", "A"))]) == [True]
    assert (outcomes(store, "mine"), store.event_parts("mine")) == ({"a": ("A", DONE)}, [])
    assert "mine: 1 events are not recorded: the events have 1," in caplog.text


def test_the_events_of_an_operator_are_written_with_its_outcome_or_not_at_all(store):
    taken_over = Progress("other", HAPPENED, 1, StepRow("other", "a", "A"), {"done": 1})
    assert store.changes.write(
        "me", [taken_over, taken_over._replace(run_id="mine", step=StepRow("mine", "a", "A"))]
    ) == [
        False,
        True,
    ]
    found = {
        run_id: (outcomes(store, run_id), len(store.event_parts(run_id)), store.run(run_id).done)
        for run_id in ("mine", "other")
    }
    assert found == {"mine": ({"a": ("A", DONE)}, 1, 1), "other": ({}, 0, 0)}


async def test_a_change_that_cannot_be_written_concerns_no_other(store):
    hold, first = threading.Event(), threading.Event()

    def write(changes):
        first.set()
        hold.wait(60)
        if any(each.step.key == "bad" for each in changes):
            raise InputError("refused")
        return store.changes.write("me", changes)

    commits = GroupCommit(write, "test")
    puts = [commits.put(step("mine", "first", "1"))]
    puts += [commits.put(step(*row)) for row in (("mine", "a", "A"), ("mine", "bad", "B"), ("other", "a", "A"))]
    tasks = [asyncio.ensure_future(put) for put in puts]
    await asyncio.to_thread(first.wait, 60)
    hold.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each if isinstance(each, bool) else type(each) for each in done] == [True, True, InputError, False]
    assert sorted(outcomes(store, "mine")) == ["a", "first"]


async def test_a_value_that_comes_after_the_end_of_the_thread_is_an_error_at_once():
    commits = GroupCommit(lambda values: values, "test")
    commits.close()
    with pytest.raises(InputError, match="the database was closed, or this process exits, before"):
        await commits.put(1)
    assert commits.waiting_seconds == 0


async def test_as_many_values_share_a_transaction_as_one_may_have():
    hold, groups = threading.Event(), list[int]()

    def write(values):
        hold.wait(60)
        groups.append(len(values))
        return values

    commits = GroupCommit(write, "test")
    puts = [commits.put_soon(number) for number in range(2 * MOST + 2)]
    assert commits.waiting_seconds > 0
    hold.set()
    assert await asyncio.gather(*map(asyncio.wrap_future, puts)) == [*range(2 * MOST + 2)]
    assert (max(groups), sum(groups)) == (MOST, 2 * MOST + 2)


class OperationalError(Exception):
    """What a database raises that cannot be reached."""


async def test_values_are_not_tried_one_by_one_while_the_database_is_gone():
    hold, tried = threading.Event(), list[int]()

    def write(values):
        hold.wait(60)
        tried.append(len(values))
        raise InputError("gone for too long") from OperationalError("connection refused")

    commits = GroupCommit(write, "test")
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

    def takes():
        return store.changes.write("new", [TakeOver("run", "old", RUNNING)]) == [True]

    with store.database.engine.begin() as connection:
        connection.execute(store.changes.held, {"driver": "old", "run_ids": ["run"]})
        taking = threading.Thread(target=lambda: taken.append(takes() and time.monotonic()))
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
        self.database = self

    def now(self):
        return 1_000_000.0

    def write(self, driver, changes):
        self.rows += [(driver, each.step.key, each.step.outcome, named(each.events)) for each in changes if each.step]
        return [True for _ in changes]


def named(happened):
    return [type(event).__name__ for event in happened]


async def test_an_operator_that_ends_soon_is_written_once_and_one_that_lasts_when_it_is_in_progress():
    store, log = Written(), RunLog("run")
    recorder = Recorder(log, RunWriter(store, "me"))  # type: ignore[arg-type]
    with recorder.recorded("short") as keep:
        log.write(events.OperatorStarted(), ("short",))
        await keep("S")
    assert store.rows == [("me", "short", "S", ["OperatorStarted"])]
    with recorder.recorded("long") as keep:
        log.write(events.OperatorFinished(seconds=1, message=WorkflowMessage()), ("short",))
        log.write(events.OperatorStarted(), ("long",))
        while len(store.rows) == 1:
            await asyncio.sleep(0.001)
        log.write(events.CacheHit(), ("long",))
        await keep("L")
    assert store.rows[1:] == [
        ("me", "long", None, ["OperatorFinished", "OperatorStarted"]),
        ("me", "long", "L", ["CacheHit"]),
    ]


async def test_an_operator_that_is_stopped_at_once_is_written_as_begun():
    store = Written()
    writer = RunWriter(store, "me")  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError), Recorder(RunLog("run"), writer).recorded("stopped"):
        raise asyncio.CancelledError
    await writer.release("run")  # written after everything before
    assert store.rows == [("me", "stopped", None, [])]


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

print(Workflow(greet, durable=sys.argv[1], name="greet").run("Ada", run_id="run").text, "pgqueuer" in sys.modules)
"""


@pytest.mark.slow
def test_a_run_without_workers_needs_neither_pgqueuer_nor_its_tables(tmp_path):
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
    store.changes.write("me", [step("run", "a", "A")])
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        connection.execute("UPDATE operad_steps SET outcome = x'00ff'")
    with pytest.raises(InputError, match="the stored outcome of 'run:a' is not a text"):
        store.steps.of_run("run", outcomes=True)
    store.close()
