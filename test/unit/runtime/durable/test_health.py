"""Health of a process that drives runs: which part is stuck, soon and without hanging."""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from operad import Job, Workflow, operator
from operad.runtime.durable import health, threads
from operad.runtime.durable.health import DurableHealth
from operad.runtime.durable.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "runs.sqlite") as ledger:
        yield ledger


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Checks whose results are not used again."""
    monkeypatch.setattr(health, "_KNOWN_SECONDS", 0.0)


async def hasty(ledger, monkeypatch):
    """Return a check that waits briefly, of a database that is open already."""
    checked = DurableHealth(ledger)
    assert await checked.stuck() == {}
    monkeypatch.setattr(health, "PATIENCE", 0.5)
    return checked


def locked(ledger):
    """Return a connection that keeps others from writing into the file until it is closed."""
    other = sqlite3.connect(ledger.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return closing(other)


async def test_nothing_is_stuck_before_the_first_run_and_after_it(ledger):
    @operator
    def greet(job: Job) -> str:
        return f"Hello {job.goal}"

    checked = DurableHealth(ledger)
    assert await checked.stuck() == {}
    await Workflow(greet, durable=ledger).arun("Ada", run_id="run")
    assert await checked.stuck() == {}


async def test_a_database_without_an_answer_is_stuck_until_it_answers(ledger, caplog, monkeypatch):
    checked = await hasty(ledger, monkeypatch)
    with locked(ledger):
        assert await checked.stuck() == {"database": "no answer within 0.5 s"}
        assert await checked.stuck() == {"database": "no answer within 0.5 s"}
    while await checked.stuck():
        pass
    assert caplog.messages == ["stuck: database: no answer within 0.5 s"]


async def test_a_database_that_cannot_be_used_is_stuck(tmp_path):
    (tmp_path / "runs.sqlite").write_bytes(b"something else " * 100)
    with Ledger(tmp_path / "runs.sqlite") as ledger:
        assert "file is not a database" in (await DurableHealth(ledger).stuck())["database"]


async def test_a_record_and_a_heartbeat_that_wait_too_long_are_stuck(ledger, monkeypatch):
    checked = await hasty(ledger, monkeypatch)
    monkeypatch.setattr(health, "LONGEST_WAIT", 0.1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @operator
    async def work(job: Job) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    run = asyncio.ensure_future(Workflow(work, durable=ledger).arun("x", run_id="run"))
    await begun.wait()
    with locked(ledger):
        go_on.set()
        while (stuck := await checked.stuck()).keys() != {"database", "writer", "scheduler"}:
            pass
    assert stuck["writer"].startswith("the writer has waited for")
    assert stuck["scheduler"].startswith("the heartbeat has waited for")
    assert (await run).text == "done"


async def test_calls_without_a_free_thread_are_stuck(ledger, monkeypatch):
    checked = await hasty(ledger, monkeypatch)
    pool, go_on = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr(threads, "_threads", pool)
    waiting = asyncio.ensure_future(threads.in_thread(go_on.wait, 60))
    try:
        assert await checked.stuck() == {"scheduler": "no thread was free within 0.5 s"}
    finally:
        go_on.set()
        await waiting
        pool.shutdown()
