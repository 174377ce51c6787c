"""Notifications reach those who listen, and what is missed is found by looking."""

import asyncio
import logging
import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("sqlalchemy")

from operad.runtime.durable import dispatch, notifications
from operad.runtime.durable.database import Database
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.dispatch import Waiting
from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.notifications import Listener, channel_of

RENDEZVOUS = 30.0


class Ears:
    """What listens, and remembers what it heard."""

    def __init__(self):
        self.heard = queue.Queue()

    def __call__(self, text):
        self.heard.put(text)

    def next(self):
        return self.heard.get(timeout=RENDEZVOUS)


@pytest.fixture
def ears():
    return Ears()


@pytest.fixture
def listen(database, ears, monkeypatch):
    """Begins to listen, and tries again soon; what listens is stopped in the end."""
    monkeypatch.setattr(notifications, "AGAIN", 0.05)
    every = []

    def listen(name):
        every.append(Listener(database, channel_of(name), ears))
        return every[-1]

    yield listen
    for each in every:
        each.stop()


def is_true(condition):
    """Wait until something is so."""
    for _ in range(int(RENDEZVOUS / 0.01)):
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


@pytest.fixture
def database(postgresql):
    database = Database(database_url(postgresql.new()))
    yield database
    database.close()


def test_a_channel_passes_on_what_is_sent_to_it_and_nothing_else(database, ears, listen):
    listener = listen("driver")
    assert ears.next() == "", "something may have been missed before"
    assert listener.listening
    database.notify(channel_of("another"), "x")
    database.notify(channel_of("driver"), "y")
    assert ears.next() == "y"


def test_a_connection_that_is_lost_is_made_again(database, ears, listen, caplog):
    listener = listen("driver")
    assert ears.next() == ""
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND left(query, 6) = 'LISTEN'"
    with caplog.at_level(logging.WARNING), database.engine.begin() as connection:
        connection.exec_driver_sql(ending)
        assert (ears.next(), ears.next()) == ("", ""), "it stopped listening, and began anew"
    assert listener.listening
    (record,) = caplog.records
    assert record.message.startswith("no notifications, looking more often until they arrive: ")
    database.notify(channel_of("driver"), "x")
    assert ears.next() == "x"


def test_a_pooler_that_passes_on_no_notifications_is_named(database, listen, caplog, monkeypatch):
    monkeypatch.setattr(database, "notify", lambda *_: None)
    with caplog.at_level(logging.WARNING):
        listener = listen("driver")
        assert is_true(lambda: "notifications do not arrive; is there a connection pooler in between?" in caplog.text)
    assert not listener.listening


# Those who wait


class Outcomes:
    """Work that has ended, as it is read."""

    def __init__(self):
        self.ended = set()
        self.looks = queue.Queue()

    def __call__(self, ids):
        self.looks.put(set(ids))
        return {each: f"outcome of {each}" for each in ids if each in self.ended}


@pytest.fixture
def outcomes():
    return Outcomes()


@pytest.fixture
def waits(outcomes):
    waits = Waiting(outcomes, lambda _: cast("Any", SimpleNamespace(listening=True, stop=lambda: None)))
    yield waits
    waits.stop()


async def ended(outcome):
    return await asyncio.wait_for(outcome, RENDEZVOUS)


async def test_an_outcome_that_is_announced_is_the_only_one_looked_for(waits, outcomes, monkeypatch):
    monkeypatch.setattr(dispatch, "SAFETY_LOOK", 1000.0)
    with waits.expecting("a") as first, waits.expecting("b"):
        outcomes.ended = {"a", "b"}
        waits._hear("a")
        assert await ended(first) == "outcome of a"
        assert outcomes.looks.get() == {"a"}


async def test_work_that_was_requested_before_is_looked_for_at_once(waits, outcomes, monkeypatch):
    monkeypatch.setattr(dispatch, "SAFETY_LOOK", 1000.0)
    outcomes.ended = {"a"}
    with waits.expecting("a", perhaps_ended=True) as outcome:
        assert await ended(outcome) == "outcome of a"


@pytest.mark.parametrize(("listening", "pause"), [(True, "SAFETY_LOOK"), (False, "LOOK")])
async def test_an_outcome_that_is_not_announced_is_found_by_the_next_look_at_all(
    listening, pause, waits, outcomes, monkeypatch
):
    waits._listener.listening = listening
    for name in ("SAFETY_LOOK", "LOOK"):
        monkeypatch.setattr(dispatch, name, 0.05 if name == pause else 1000.0)
    with waits.expecting("a") as outcome:
        assert await asyncio.to_thread(outcomes.looks.get) == {"a"}
        outcomes.ended = {"a"}
        assert await ended(outcome) == "outcome of a"


async def test_an_outcome_that_cannot_be_read_is_read_again(outcomes, monkeypatch):
    monkeypatch.setattr(dispatch, "SAFETY_LOOK", 1000.0)
    monkeypatch.setattr(dispatch, "LOOK", 0.01)
    failures = [OSError("gone")]

    def read(ids):
        if failures:
            raise failures.pop()
        return outcomes(ids)

    waits = Waiting(read, lambda _: cast("Any", SimpleNamespace(listening=True, stop=lambda: None)))
    outcomes.ended = {"a"}
    with waits.expecting("a") as outcome:
        waits._hear("a")
        assert await ended(outcome) == "outcome of a"
    waits.stop()


# Requests


async def test_requests_that_come_while_others_are_written_are_written_together():
    written, go_on, begun = [], threading.Event(), threading.Event()

    def write(these):
        written.append(list(these))
        begun.set()
        assert go_on.wait(RENDEZVOUS)
        return these

    requests = GroupCommit(write, "test")
    first = asyncio.ensure_future(requests.put("0"))
    await asyncio.to_thread(begun.wait, RENDEZVOUS)
    others = [asyncio.ensure_future(requests.put(str(number))) for number in range(1, 50)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *others)
    assert written == [["0"], [str(number) for number in range(1, 50)]]


async def test_a_request_that_cannot_be_written_concerns_no_other():
    begun, go_on, written = threading.Event(), threading.Event(), []

    def write(these):
        begun.set()
        assert go_on.wait(RENDEZVOUS)
        if "bad" in these:
            raise ValueError("bad")
        written.extend(these)
        return these

    requests = GroupCommit(write, "test")
    every = [asyncio.ensure_future(requests.put("first"))]
    await asyncio.to_thread(begun.wait, RENDEZVOUS)
    every += [asyncio.ensure_future(requests.put(each)) for each in ("good", "bad", "better")]
    await asyncio.sleep(0)
    go_on.set()
    said = await asyncio.gather(*every, return_exceptions=True)
    assert [type(each) for each in said] == [str, str, ValueError, str]
    assert written == ["first", "good", "better"]
