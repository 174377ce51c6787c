"""The events of a durable run, as its page reads them."""

import asyncio
import threading
import time
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from operad.runtime import Job, PausedError, RunContext, Workflow, events
from operad.runtime import operator as as_operator
from operad.runtime.durable import Ledger
from operad.server.view.sources import LedgerSource

RENDEZVOUS = 60.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr("operad.server.view.sources.POLL", 0.0)
    monkeypatch.setattr("operad.runtime.durable.ledger.BEAT", 0.02)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "runs.sqlite")
    yield ledger
    ledger.close()


def asks(job: Job) -> str:
    return job.goal


async def confirm(asks: str, context: RunContext) -> str:
    return f"{asks} {await context.ask('Sure?', 'boolean')}"


def flow_in(ledger):
    return Workflow(as_operator(asks) >> as_operator(confirm), durable=ledger, name="asks")


async def read_until(source: LedgerSource, kind: type[Any]):
    """All events that the source gives until one of a kind is among them."""
    read: list[Any] = []
    end = time.monotonic() + RENDEZVOUS
    while not any(isinstance(event, kind) for event in read):
        assert time.monotonic() < end, f"there was no {kind.__name__}"
        read += await source.news()
        await asyncio.sleep(0.01)
    return read


async def read_until_as_stored(source: LedgerSource, read: list[Any], ledger: Ledger, note: str = ""):
    """The stored events of the run, once the events read since it began anew, if it did, are these."""
    end = time.monotonic() + RENDEZVOUS
    while True:
        begun = max(number for number, event in enumerate(read) if isinstance(event, events.RunStarted))
        if read[begun:] == (stored := ledger.events("r")) and source.note(ended=False).startswith(note):
            return stored
        assert time.monotonic() < end, f"{read[begun:]} are not {stored}"
        read += await source.news()
        await asyncio.sleep(0.01)


async def test_the_events_of_a_run_in_progress_are_read_once_each_as_they_were_recorded(ledger):
    flow, heard = flow_in(ledger), []
    flow.add_listener(heard.append)
    with pytest.raises(PausedError):
        await flow.arun("go", run_id="r")
    while not ledger.events("r"):
        await asyncio.sleep(0.01)
    source = LedgerSource(ledger, "r")
    read = await read_until(source, events.Interrupted)
    await flow.aresume("r", {"confirm": True})
    read += await read_until(source, events.RunFinished)
    assert read == heard
    assert not await source.news()
    assert await LedgerSource(ledger, "r").news() == heard


async def test_the_events_of_a_run_that_is_interrupted_and_resumed_are_read_further(ledger):
    flow = flow_in(ledger)
    with pytest.raises(PausedError):
        await flow.arun("go", run_id="r")
    source = LedgerSource(ledger, "r")
    read = await read_until(source, events.Interrupted)
    await flow.cancel("r")
    await read_until_as_stored(source, read, ledger, "no process drives this run")
    await flow_in(ledger).aresume("r", {"confirm": False})
    assert isinstance((await read_until_as_stored(source, read, ledger))[-1], events.RunFinished)


async def test_a_call_that_is_cancelled_loses_no_events(ledger, monkeypatch):
    flow = flow_in(ledger)
    with pytest.raises(PausedError):
        await flow.arun("go", run_id="r")
    source, reads = LedgerSource(ledger, "r"), Ledger.events_after
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(*given):
        began.set()
        go_on.wait(RENDEZVOUS)
        read = reads(*given)
        ended.set()
        return read

    await flow.aresume("r", {"confirm": True})
    monkeypatch.setattr(Ledger, "events_after", slow)
    reading = asyncio.ensure_future(source.news())
    assert await asyncio.to_thread(began.wait, RENDEZVOUS)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    go_on.set()
    assert await asyncio.to_thread(ended.wait, RENDEZVOUS)
    await asyncio.sleep(0.1)
    assert [type(event).__name__ for event in await source.news()][:1] == ["RunStarted"]
