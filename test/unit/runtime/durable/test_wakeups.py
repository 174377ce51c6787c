"""Wake-ups reach those who listen, and what is missed is found by looking."""

import asyncio
import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("dbos")

from operad.runtime import InputError
from operad.runtime.durable import outcome_waiter, wakeups
from operad.runtime.durable.database import Database
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.dbos_details import check_details
from operad.runtime.durable.dispatch import Request
from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.outcome_waiter import Waiting
from operad.runtime.durable.rows import DONE, EndedWork
from operad.runtime.durable.wakeups import LONGEST_TEXT, PipeWakeups, ServerWakeups, channel
from operad.runtime.durable.work_signal import WorkSignal

RENDEZVOUS = 30.0

LISTENS = """
import sys, time
from pathlib import Path
from operad.runtime.durable.wakeups import PipeWakeups
PipeWakeups(Path(sys.argv[1]), ["topic"], lambda topic, text: print(topic, text, flush=True))
time.sleep(600)
"""


class Ears:
    """What listens, and remembers what it heard."""

    def __init__(self):
        self.heard = queue.Queue()

    def __call__(self, topic, text):
        self.heard.put((topic, text))

    def next(self):
        return self.heard.get(timeout=RENDEZVOUS)


@pytest.fixture
def ears():
    return Ears()


@pytest.fixture
def made(monkeypatch):
    """Wake-ups that are stopped in the end, and try again soon."""
    monkeypatch.setattr(wakeups, "AGAIN", 0.05)
    every = []

    def make(kind, *args):
        every.append(kind(*args))
        return every[-1]

    yield make
    for each in every:
        each.stop()


def is_true(condition):
    """Wait until something is so."""
    for _ in range(int(RENDEZVOUS / 0.01)):
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


# Named pipes


def test_a_pipe_passes_on_what_is_sent_to_its_topic_and_nothing_else(tmp_path, ears, made):
    folder = tmp_path / "runs.sqlite.wake"
    made(PipeWakeups, folder, ["queue a", "queue b"], ears)
    assert {ears.next(), ears.next()} == {("queue a", ""), ("queue b", "")}, "it may have missed something before"
    sender = made(PipeWakeups, folder, [], print)
    sender.send("queue c", "nobody")
    sender.send("queue b", "run:step")
    assert ears.next() == ("queue b", "run:step")
    with sender.sending(["queue a"]) as before_commit:
        before_commit(None)
        assert ears.heard.empty(), "nothing is sent before the commit"
    assert ears.next() == ("queue a", "")


def test_a_path_may_be_longer_than_that_of_a_socket(tmp_path, ears, made):
    folder = tmp_path / ("long" * 50)
    made(PipeWakeups, folder, ["topic"], ears)
    ears.next()
    made(PipeWakeups, folder, [], print).send("topic", "x")
    assert ears.next() == ("topic", "x")


@pytest.mark.parametrize("text", ["x" * (LONGEST_TEXT + 1), "two\nlines"])
def test_a_text_that_does_not_fit_is_left_out_which_means_look_at_everything(text, tmp_path, ears, made):
    made(PipeWakeups, tmp_path / "wake", ["topic"], ears)
    ears.next()
    made(PipeWakeups, tmp_path / "wake", [], print).send("topic", text)
    assert ears.next() == ("topic", "")


def test_the_pipe_of_a_killed_process_is_deleted_by_the_next_sender(tmp_path, ears, made, forked):
    folder = tmp_path / "wake"
    listening = forked.begin([sys.executable, "-c", LISTENS, str(folder)], stdout=subprocess.PIPE, text=True)
    assert listening.stdout
    assert listening.stdout.readline() == "topic \n"
    listening.kill()
    listening.communicate()
    assert len(os.listdir(folder)) == 1
    made(PipeWakeups, folder, ["topic"], ears)
    ears.next()
    made(PipeWakeups, folder, [], print).send("topic", "x")
    assert ears.next() == ("topic", "x")
    assert len(os.listdir(folder)) == 1


def test_a_process_that_stands_still_holds_up_no_sender(tmp_path, made, forked):
    folder = tmp_path / "wake"
    listening = forked.begin([sys.executable, "-c", LISTENS, str(folder)], stdout=subprocess.PIPE, text=True)
    assert listening.stdout
    assert listening.stdout.readline() == "topic \n"
    listening.send_signal(signal.SIGSTOP)
    sender = made(PipeWakeups, folder, [], print)
    for _ in range(300):
        sender.send("topic", "x" * LONGEST_TEXT)
    listening.kill()
    listening.communicate()


def test_a_folder_that_cannot_be_made_is_told_of_once_and_tried_again(tmp_path, ears, made, caplog):
    folder = tmp_path / "wake"
    folder.write_text("a file")
    with caplog.at_level(logging.WARNING):
        listener = made(PipeWakeups, folder, ["topic"], ears)
        assert is_true(lambda: caplog.records)
        assert not listener.listening
        folder.unlink()
        assert ears.next() == ("topic", "")
    assert listener.listening
    (record,) = caplog.records
    assert record.message.startswith("no wake-ups, polling instead until they are possible again: ")


def test_a_pipe_that_somebody_deleted_is_made_again(tmp_path, ears, made):
    folder = tmp_path / "wake"
    listener = made(PipeWakeups, folder, ["topic"], ears)
    ears.next()
    (folder / os.listdir(folder)[0]).unlink()
    assert (ears.next(), ears.next()) == (("topic", ""), ("topic", "")), "it stopped listening, and began anew"
    assert listener.listening
    made(PipeWakeups, folder, [], print).send("topic", "x")
    assert ears.next() == ("topic", "x")


def test_nothing_is_written_into_a_planted_file_or_through_a_planted_link(tmp_path, made):
    folder, other = tmp_path / "wake", tmp_path / "other"
    folder.mkdir()
    other.write_text("mine")
    (folder / f"{channel('topic')}.file").write_text("")
    (folder / f"{channel('topic')}.link").symlink_to(other)
    made(PipeWakeups, folder, [], print).send("topic", "x")
    assert ((folder / f"{channel('topic')}.file").read_text(), other.read_text()) == ("", "mine")


def test_the_pipes_of_a_process_are_deleted_when_it_stops(tmp_path, ears, made):
    listener = made(PipeWakeups, tmp_path / "wake", ["topic"], ears)
    ears.next()
    listener.stop()
    assert is_true(lambda: not (tmp_path / "wake").exists())


# Notifications of a server


@pytest.fixture
def database(postgresql):
    database = Database(database_url(postgresql.new()))
    yield database
    database.close()


def test_a_server_passes_on_what_is_sent(database, ears, made):
    listener = made(ServerWakeups, database, ["queue a", "driver"], ears)
    assert is_true(lambda: listener.listening)
    made(ServerWakeups, database, [], print).send("driver", "run:step")
    assert is_true(lambda: ears.next() == ("driver", "run:step"))


def test_a_notification_comes_after_the_commit_of_what_it_is_about(database, ears, made):
    listener = made(ServerWakeups, database, ["queue a"], ears)
    assert is_true(lambda: listener.listening and ears.heard.qsize() >= 2)
    ears.heard = queue.Queue()
    sender = made(ServerWakeups, database, [], print)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE work (number integer)")
    with sender.sending(["queue a"]) as before_commit, database.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO work VALUES (1)")
        before_commit(connection)
        sender.send("queue a", "later")
        assert ears.next() == ("queue a", "later"), "the other one waits for the commit"
    assert ears.next() == ("queue a", "")
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT number FROM work").scalar() == 1


def test_a_connection_that_is_lost_is_made_again(database, ears, made, caplog):
    listener = made(ServerWakeups, database, ["queue a"], ears)
    assert is_true(lambda: listener.listening)
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE left(query, 6) = 'LISTEN'"
    with caplog.at_level(logging.WARNING), database.engine.begin() as connection:
        connection.exec_driver_sql(ending)
        assert is_true(lambda: "no wake-ups, polling instead" in caplog.text)
    assert is_true(lambda: listener.listening)
    ears.heard = queue.Queue()
    listener.send("queue a", "x")
    assert is_true(lambda: ears.next() == ("queue a", "x"))


def test_a_pooler_that_passes_on_no_notifications_is_named(database, ears, made, caplog, monkeypatch):
    monkeypatch.setattr(database, "notify", lambda *_: None)
    with caplog.at_level(logging.WARNING):
        listener = made(ServerWakeups, database, ["queue a"], ears)
        assert is_true(lambda: "notifications do not arrive; is there a connection pooler in between?" in caplog.text)
    assert not listener.listening


def test_what_cannot_be_sent_is_not_an_error(tmp_path, made):
    nowhere = Database(database_url("postgresql://nobody@127.0.0.1:1/none"))
    made(ServerWakeups, nowhere, [], print).send("topic", "x")
    nowhere.close()


# Those who wait


class Outcomes:
    """Steps that have ended, as they are read."""

    def __init__(self):
        self.ended = set()
        self.looks = queue.Queue()

    def __call__(self, step_ids):
        self.looks.put(set(step_ids))
        return [EndedWork(each, DONE) for each in step_ids if each in self.ended]


@pytest.fixture
def outcomes():
    return Outcomes()


@pytest.fixture
def waits(outcomes):
    waits = Waiting(outcomes, lambda _: cast("Any", SimpleNamespace(listening=True, stop=lambda: None)))
    yield waits
    waits.stop()


async def ended(outcome):
    return (await asyncio.wait_for(outcome, RENDEZVOUS)).step_id


async def test_an_outcome_that_is_announced_is_the_only_one_looked_for(waits, outcomes, monkeypatch):
    monkeypatch.setattr(outcome_waiter, "SAFETY_LOOK", 1000.0)
    with waits.expecting("a") as first, waits.expecting("b"):
        await asyncio.to_thread(outcomes.looks.get)
        outcomes.ended = {"a", "b"}
        waits._hear("", "a")
        assert await ended(first) == "a"
        assert outcomes.looks.get() == {"a"}


async def test_an_outcome_that_is_announced_before_it_can_be_read_is_found(waits, outcomes, monkeypatch):
    monkeypatch.setattr(outcome_waiter, "SAFETY_LOOK", 1000.0)
    with waits.expecting("a") as outcome:
        await asyncio.to_thread(outcomes.looks.get)
        waits._hear("", "a")
        assert await asyncio.to_thread(outcomes.looks.get) == {"a"}
        outcomes.ended = {"a"}
        assert await ended(outcome) == "a"


async def test_an_outcome_whose_announcement_is_lost_is_found_by_the_next_look_at_all(waits, outcomes, monkeypatch):
    monkeypatch.setattr(outcome_waiter, "SAFETY_LOOK", 0.05)
    with waits.expecting("a") as outcome:
        await asyncio.to_thread(outcomes.looks.get)
        outcomes.ended = {"a"}
        assert await ended(outcome) == "a"


async def test_an_outcome_is_looked_for_all_the_time_while_wakeups_do_not_arrive(waits, outcomes, monkeypatch):
    monkeypatch.setattr(outcome_waiter, "SAFETY_LOOK", 1000.0)
    waits.wakeups.listening = False
    with waits.expecting("a") as outcome:
        for _ in range(3):
            await asyncio.to_thread(outcomes.looks.get)
        outcomes.ended = {"a"}
        assert await ended(outcome) == "a"


def test_a_worker_polls_when_it_is_woken_and_ends_when_it_is_told_to(monkeypatch):
    monkeypatch.setattr("operad.runtime.durable.work_signal.SAFETY_POLL", 1000.0)
    signal = WorkSignal(lambda: True)
    signal.wake()
    assert signal.wait(0.0) is False
    signal.set()
    assert signal.wait(0.0) is True


@pytest.mark.parametrize(("listening", "interval"), [(True, "SAFETY_POLL"), (False, "POLL")])
def test_a_worker_that_is_not_woken_polls_by_itself(listening, interval, monkeypatch):
    for name in ("SAFETY_POLL", "POLL"):
        monkeypatch.setattr(f"operad.runtime.durable.work_signal.{name}", 0.01 if name == interval else 1000.0)
    assert WorkSignal(lambda: listening).wait(0.0) is False


class Taker:
    """A signal, and how often it was woken."""

    def __init__(self, places):
        self.signal = WorkSignal(lambda: True, places)

    def is_woken(self):
        woken = self.signal._woken.is_set()
        self.signal._woken.clear()
        return woken


def test_a_worker_polls_again_when_a_place_gets_free_and_it_had_taken_all_it_could():
    taker = Taker(2)
    taker.signal.begin()
    assert not taker.is_woken()
    taker.signal.leave()
    assert not taker.is_woken(), "there was room for more, and no more work"
    taker.signal.begin()
    taker.signal.begin()
    taker.signal.leave()
    assert taker.is_woken()


def test_a_worker_polls_again_when_all_that_it_took_is_known_only_after_the_first_has_left():
    taker = Taker(2)
    taker.signal.begin()
    taker.signal.leave()
    assert not taker.is_woken()
    taker.signal.begin()
    assert taker.is_woken()


# Requests


def request(step_id):
    return Request("queue", step_id, "text", "version")


async def test_requests_that_come_while_others_are_written_are_written_together():
    written, go_on, begun = [], threading.Event(), threading.Event()

    def write(these):
        written.append([each.step_id for each in these])
        begun.set()
        assert go_on.wait(RENDEZVOUS)
        return these

    requests = GroupCommit(write, "test")
    first = asyncio.ensure_future(requests.put(request("0")))
    await asyncio.to_thread(begun.wait, RENDEZVOUS)
    others = [asyncio.ensure_future(requests.put(request(str(number)))) for number in range(1, 50)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *others)
    assert written == [["0"], [str(number) for number in range(1, 50)]]


async def test_a_request_that_cannot_be_written_concerns_no_other():
    begun, go_on, written = threading.Event(), threading.Event(), []

    def write(these):
        begun.set()
        assert go_on.wait(RENDEZVOUS)
        if any(each.step_id == "bad" for each in these):
            raise ValueError("bad")
        written.extend(each.step_id for each in these)
        return these

    requests = GroupCommit(write, "test")
    every = [asyncio.ensure_future(requests.put(request("first")))]
    await asyncio.to_thread(begun.wait, RENDEZVOUS)
    every += [asyncio.ensure_future(requests.put(request(each))) for each in ("good", "bad", "better")]
    await asyncio.sleep(0)
    go_on.set()
    said = await asyncio.gather(*every, return_exceptions=True)
    assert [type(each) for each in said] == [Request, Request, ValueError, Request]
    assert written == ["first", "good", "better"]


# Another version of dbos


def test_a_version_of_dbos_that_differs_is_an_error_that_names_it(monkeypatch):
    check_details()
    monkeypatch.setattr("dbos._queue.queue_worker_thread", lambda dbos, queue: None)
    with pytest.raises(InputError, match=r"dbos 3\.\d.*queue_worker_thread takes \(dbos, queue\) instead of \(stop_ev"):
        check_details()
    monkeypatch.delattr("dbos._queue.queue_worker_thread")
    with pytest.raises(InputError, match=r"dbos\._queue\.queue_worker_thread is missing"):
        check_details()


@pytest.mark.parametrize(
    "name",
    [
        "_dbos._dbos_global_instance",
        "_dbos.DBOSRegistry",
        "_dbos.DBOS._sys_db",
        "_serialization.DefaultSerializer.deserialize",
        "_sys_db.SystemDatabase.await_workflow_result",
    ],
)
def test_a_version_of_dbos_without_a_name_that_is_used_is_an_error(monkeypatch, name):
    monkeypatch.delattr(f"dbos.{name}")
    with pytest.raises(InputError, match=rf"dbos\.{re.escape(name)}.* is missing"):
        check_details()


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [
        ("_client.DBOSClient", "_sys_db"),
        ("_dbos.DBOS", "_background_jobs_stop_event"),
        ("_dbos.DBOS", "background_thread_stop_events"),
        ("_dbos.DBOSRegistry", "internal_queue_map"),
    ],
)
def test_a_version_of_dbos_whose_instances_lack_an_attribute_that_is_used_is_an_error(monkeypatch, kind, attribute):
    module, _, name = kind.partition(".")
    constructor = getattr(import_module(f"dbos.{module}"), name).__init__
    names = tuple("renamed" if each == attribute else each for each in constructor.__code__.co_names)
    monkeypatch.setattr(constructor, "__code__", constructor.__code__.replace(co_names=names))
    with pytest.raises(InputError, match=rf"dbos\.{re.escape(kind)}\.{attribute} is missing"):
        check_details()
