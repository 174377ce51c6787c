"""Schedules: each time fires once, late if it was missed, and not while the run before is in progress."""

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from serving import Code, offered, order

from operad.configs.runnable import Source
from operad.operators.nodes.flow import Trigger
from operad.runtime import InputError
from operad.runtime.durable import Ledger
from operad.runtime.testing import run_on_fake_clock
from operad.server.api.experts import by_name, offers_of
from operad.server.api.runs import Runs
from operad.server.api.schedules import Schedules
from operad.server.api.triggers import Starter
from operad.server.http.bounds import DEFAULT_BOUNDS, Bounds

DAILY = Starter(Trigger("schedule", cron="0 7 * * *", timezone="Europe/Berlin"), "Write the digest")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


class Clock:
    """Clock that a test sets."""

    def __init__(self, text):
        self.now = at(text)

    def __call__(self):
        return self.now

    def set(self, text):
        self.now = at(text)


class Server:
    """Schedules of a server, with the goals that its runs got."""

    def __init__(self, clock, url=None, work=None, schedule=DAILY, bounds=DEFAULT_BOUNDS):
        self.goals = []
        offer = replace(offered(Code(work or self.note)), schedule=schedule)
        self.ledger: Any = None if url is None else Ledger(url, source="expert")
        if self.ledger:
            offer = offer.kept_in(self.ledger)
        self.offer = offer
        self.runs = Runs(by_name([offer]), bounds)
        self.schedules = Schedules(self.runs, clock)

    async def note(self, job):
        self.goals.append(f"{job.goal} {job.started_by}")
        return "done"

    async def fire(self):
        """Fire what is due, and wait for the runs to end."""
        await self.schedules.fire_due()
        await asyncio.gather(*(run.task for run in self.runs.open if run.task and not run.questions))


@asynccontextmanager
async def servers(number, *given, **options):
    each = [Server(*given, **options) for _ in range(number)]
    try:
        yield each
    finally:
        for server in each:
            await server.runs.end(0)
            if server.ledger:
                await asyncio.to_thread(server.ledger.close)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return tmp_path / "runs.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgresql").new()


async def test_two_servers_of_a_database_fire_each_time_once(url):
    clock = Clock("2026-11-28T06:00")
    async with servers(2, clock, url) as (one, other):
        await one.fire()
        await other.fire()
        for day in (28, 29, 30):
            clock.set(f"2026-11-{day}T07:00")
            await asyncio.gather(one.fire(), other.fire())
            await asyncio.gather(one.fire(), other.fire())
        fired = [f"Write the digest schedule 2026-11-{day}T07:00:00+01:00" for day in (28, 29, 30)]
        assert sorted(one.goals + other.goals) == fired
        kept = await asyncio.to_thread(one.ledger.runs)
        assert sorted((run.started_by, run.state, run.drives) for run in kept) == [
            (f"schedule 2026-11-{day}T07:00:00+01:00", "finished", 1) for day in (28, 29, 30)
        ]


async def test_of_the_times_that_no_server_saw_the_last_fires_once_late(url, caplog):
    caplog.set_level(logging.INFO)
    clock = Clock("2026-11-20T12:00")
    async with servers(1, clock, url) as (server,):
        await server.fire()
        assert server.goals == []  # earlier times do not fire
    clock.set("2026-11-28T09:30")
    async with servers(1, clock, url) as (server,):
        await server.fire()
        await server.fire()
        assert server.goals == ["Write the digest schedule 2026-11-28T07:00:00+01:00"]
        assert "9000 s late; earlier times that were missed are skipped" in caplog.text


async def test_a_time_is_skipped_while_the_run_of_the_one_before_is_in_progress(tmp_path, caplog):
    clock, going = Clock("2026-11-28T06:00"), asyncio.Event()
    began = []

    async def slow(job):
        began.append(job.started_by)
        await going.wait()
        return "done"

    async with servers(2, clock, tmp_path / "runs.sqlite", work=slow) as (one, other):
        await one.schedules.fire_due()
        clock.set("2026-11-28T07:00")
        await one.schedules.fire_due()
        while not began:
            await asyncio.sleep(0.01)
        clock.set("2026-11-29T07:00")
        await asyncio.gather(one.schedules.fire_due(), other.schedules.fire_due())
        assert "2026-11-29T07:00:00+01:00 is skipped" in caplog.text
        going.set()
        await one.fire()
        clock.set("2026-11-30T07:00")
        await one.fire()
        assert began == ["schedule 2026-11-28T07:00:00+01:00", "schedule 2026-11-30T07:00:00+01:00"]


async def test_a_run_that_waits_for_a_person_holds_up_no_time(tmp_path):
    clock = Clock("2026-11-28T06:00")
    async with servers(1, clock, tmp_path / "runs.sqlite", work=order) as (server,):
        await server.fire()
        for day in (28, 29):
            clock.set(f"2026-11-{day}T07:00")
            await server.schedules.fire_due()
            while not all(run.questions for run in server.runs.open):
                await asyncio.sleep(0.01)
        assert len(server.runs.open) == 2


async def test_a_firing_without_room_is_tried_again(caplog):
    clock = Clock("2026-11-28T06:00")
    async with servers(1, clock, work=order, bounds=Bounds(runs=1)) as (server,):
        await server.fire()
        other, _ = await server.runs.begin(server.offer, server.offer.job("it", "", {}))
        clock.set("2026-11-28T07:00")
        await server.schedules.fire_due()
        assert "will be tried again" in caplog.text
        await server.runs.cancel(other)
        await server.schedules.fire_due()
        assert [run.job.started_by for run in server.runs.open] == ["schedule 2026-11-28T07:00:00+01:00"]


async def test_two_schedules_that_cannot_fire_are_each_said_once(caplog):
    clock, offers = Clock("2026-11-28T00:00"), [replace(offered(Code(order), name=n), schedule=DAILY) for n in "ab"]
    runs = Runs(by_name(offers), DEFAULT_BOUNDS)
    runs.ending, schedules = True, Schedules(runs, clock)
    with caplog.at_level(logging.WARNING):
        await schedules.fire_due()
        clock.set("2026-11-28T07:00")
        for _ in range(3):
            await schedules.fire_due()
    assert [record.message[:2] for record in caplog.records] == ["a:", "b:"]


async def test_a_run_whose_server_dies_before_it_starts_is_taken_up(tmp_path):
    clock = Clock("2026-11-28T06:00")
    path = tmp_path / "runs.sqlite"
    async with servers(1, clock, path) as (server,):
        await server.fire()
        server.runs._start = lambda *_: None  # pyright: ignore
        clock.set("2026-11-28T07:00")
        await server.schedules.fire_due()
    async with servers(1, clock, path) as (server,):
        await server.runs.take_up()
        await server.fire()
        assert server.goals == ["Write the digest schedule 2026-11-28T07:00:00+01:00"]


def test_a_server_without_a_database_fires_at_each_time():
    async def main():
        loop = asyncio.get_running_loop()
        begin = at("2026-10-24T12:00")
        server = Server(lambda: begin + loop.time())
        firing = asyncio.ensure_future(server.schedules.fire_until_end())
        await asyncio.sleep(2 * 86_400)
        firing.cancel()
        return server.goals

    assert run_on_fake_clock(main()) == [f"Write the digest schedule 2026-10-{day}T07:00:00+01:00" for day in (25, 26)]


FILE = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter, desc: Greets people.}
    workflow: [[*greet]]
    schedule: {cron: 0 7 * * *, timezone: Europe/Berlin}
    webhook: {inputs: {kind: header.x-kind, id: body.order.id}}
"""
FLOW = """
workflow: tick
nodes:
  1:
    type: start
    variables: {name: string}
    defaults: {name: Ada}
    trigger: {kind: schedule, cron: "*/5 * * * *"}
  2: {type: end, after: 1, outputs: {name: 1.name}}
"""


def test_a_file_says_its_triggers(tmp_path):
    (tmp_path / "a.yaml").write_text(FILE)
    (tmp_path / "b.yaml").write_text(FLOW)
    expert: Any = offers_of(Source(file=str(tmp_path / "a.yaml"), model="m", base_url="http://127.0.0.1:9/v1"))[0]
    flow: Any = offers_of(Source(file=str(tmp_path / "b.yaml")))[0]
    assert (expert.schedule.goal, expert.schedule.trigger.cron) == ("Greets people.", "0 7 * * *")
    assert expert.webhook.trigger.inputs == [("kind", "header", "x-kind"), ("id", "body", "order.id")]
    assert (flow.schedule.trigger.cron, flow.webhook) == ("*/5 * * * *", None)


def test_a_schedule_whose_inputs_do_not_fit_is_refused_before_it_is_served(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(FILE.replace("Greet.", '"Greet {name}."').replace("Berlin}", "Berlin, inputs: {nam: Ada}}"))
    with pytest.raises(InputError, match=r"(?s)the schedule of 'Greeter'.*'nam'"):
        offers_of(Source(file=str(file), model="m", base_url="http://127.0.0.1:9/v1"))
