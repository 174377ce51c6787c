"""Many durable runs at once: none waits in a thread for work that needs that thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from amounts import amount

from operad import Job, Workflow, operator
from operad.runtime import InputError
from operad.runtime.durable import threads
from operad.runtime.durable.ledger import Ledger

MANY = amount(8, 40)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, tmp_path):
    url = tmp_path / "runs.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgresql").new()
    with Ledger(url) as ledger:
        yield ledger


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """A single thread for database calls: a call in it that waited for another one would wait for ever."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(threads, "_threads", pool)
        yield
        monkeypatch.undo()


def workflow(ledger, gate=None):
    """Return a workflow of two operators; the second one waits for the gate."""

    @operator
    async def first(job: Job) -> str:
        return f"a{job.goal}"

    @operator
    async def second(first: str) -> str:
        if gate is not None:
            await gate.wait()
        return f"{first}b"

    return Workflow(first >> second, name="two", durable=ledger)


async def ended(runs: Any) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*runs, return_exceptions=True), 60)


async def test_runs_that_end_at_the_same_time_all_end(ledger):
    gate = asyncio.Event()
    flow = workflow(ledger, gate)
    runs = [asyncio.ensure_future(flow.arun(str(number), run_id=f"r{number}")) for number in range(MANY)]
    while len(await asyncio.to_thread(ledger.runs)) < MANY:
        pass
    gate.set()
    assert [result.text for result in await ended(runs)] == [f"a{number}b" for number in range(MANY)]
    assert {run.state for run in ledger.runs()} == {"finished"}


async def test_runs_that_are_cancelled_at_the_same_time_are_resumed_at_the_same_time(ledger):
    flow = workflow(ledger, asyncio.Event())
    runs = [asyncio.ensure_future(flow.arun(str(number), run_id=f"r{number}")) for number in range(MANY)]
    while sum(run.done for run in await asyncio.to_thread(ledger.runs)) < MANY:
        pass
    for run in runs:
        run.cancel()
    assert {type(each) for each in await ended(runs)} == {asyncio.CancelledError}
    assert {(run.state, run.driver) for run in ledger.runs()} == {("running", "")}
    again = [workflow(ledger).arun(str(number), run_id=f"r{number}") for number in range(MANY)]
    assert [result.text for result in await ended(again)] == [f"a{number}b" for number in range(MANY)]
    assert {run.drives for run in ledger.runs()} == {2}


async def test_a_run_that_is_resumed_while_its_end_is_recorded_waits_for_it(ledger):
    flow, run = workflow(ledger, asyncio.Event()), None
    run = asyncio.ensure_future(flow.arun("x", run_id="run"))
    while not any(each.done for each in await asyncio.to_thread(ledger.runs)):
        pass
    run.cancel()
    again = [workflow(ledger).arun("x", run_id="run") for _ in range(3)]
    results = await ended([run, *again])
    assert isinstance(results[0], asyncio.CancelledError)
    assert sorted(type(each).__name__ for each in results[1:]) == ["InputError", "InputError", "Result"]
    assert [str(each) for each in results[1:] if isinstance(each, InputError)] == [
        "run 'run' is being driven by this process already; wait for it, or cancel it"
    ] * 2


async def test_a_ledger_that_is_closed_while_others_start_runs_ends_its_own(ledger, tmp_path):
    flow = workflow(ledger, asyncio.Event())
    run = asyncio.ensure_future(flow.arun("x", run_id="own"))
    while not any(each.done for each in await asyncio.to_thread(ledger.runs)):
        pass
    closing = asyncio.ensure_future(asyncio.to_thread(ledger.close))
    (cancelled,) = await ended([run])
    with Ledger(ledger.url.render_as_string(hide_password=False)) as other:
        others = [workflow(other).arun(str(number), run_id=f"r{number}") for number in range(MANY)]
        results = await ended(others)
        await closing
        assert isinstance(cancelled, asyncio.CancelledError)
        assert [result.text for result in results] == [f"a{number}b" for number in range(MANY)]
        assert (await workflow(other).arun("x", run_id="own")).text == "axb"
