import asyncio
import heapq
import os
import random
import sqlite3
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from typing import Any, cast

import pytest

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Budget,
    BuiltinWorkflow,
    Expert,
    Job,
    MonoModelReasoner,
    OperatorError,
    Policy,
    Profile,
    Timeout,
)
from operad.runtime.durable import Ledger, Served, Worker
from operad.runtime.durable.database import Database
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.shared_limits import CountedCalls, LimitsInDatabase
from operad.runtime.durable.store import Store
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import LONGEST_HOLD_OFF, WINDOW, Limiter, Limits
from operad.runtime.policies.policy import NO_POLICY
from operad.runtime.testing import Fail, Say, ScriptedModel, run_on_fake_clock

THREE = Limits(requests_per_minute=3)
SOME = Limits(requests_per_minute=600, tokens_per_minute=10**6)
EPOCH = 1_700_000_000.0


class Clock:
    """The database's clock, set by hand."""

    def __init__(self):
        self.read = lambda: 0.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    now = property(lambda database: database.sa.literal_column(repr(EPOCH + clock.read())))
    monkeypatch.setattr(Database, "clock", now)
    return clock


@pytest.fixture
def store(tmp_path):
    store = Store(database_url(tmp_path / "runs.sqlite"))
    yield store
    store.close()


def let_in(path):
    """When each call was let in, and for whom, in order: a trigger keeps what the store forgets."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute("SELECT at, caller FROM let_in ORDER BY rowid").fetchall()


def watch(store):
    with closing(sqlite3.connect(store.database.url.database)) as connection, connection:
        connection.execute("CREATE TABLE let_in (at REAL, caller TEXT)")
        connection.execute(
            "CREATE TRIGGER watching AFTER INSERT ON operad_calls WHEN NEW.kind = 'call' "
            "BEGIN INSERT INTO let_in VALUES (NEW.at, NEW.caller); END"
        )


def most_in_a_window(times, window):
    return max(sum(start <= other < start + window for other in times) for start in times)


def kept(store):
    with closing(sqlite3.connect(store.database.url.database)) as connection, connection:
        return Counter(kind for (kind,) in connection.execute("SELECT kind FROM operad_calls"))


# What the store lets in


def test_the_fourth_call_is_let_in_when_the_first_is_a_minute_old(store, clock):
    for at in (0.0, 10.0, 20.0):
        clock.read = lambda at=at: at
        assert store.calls.admit("k", THREE, "a") == 0
    assert store.calls.admit("k", THREE, "b") == pytest.approx(40)
    clock.read = lambda: 59.9
    assert store.calls.admit("k", THREE, "b") == pytest.approx(0.1)
    clock.read = lambda: 60.0
    assert store.calls.admit("k", THREE, "b") == 0
    assert store.calls.admit("k", THREE, "b") == pytest.approx(10)


def test_other_limits_are_not_touched(store, clock):
    assert [store.calls.admit(key, Limits(requests_per_minute=1), "a") for key in "kl"] == [0, 0]


def test_who_was_first_is_let_in_first_though_it_asks_later(store, clock):
    one = Limits(requests_per_minute=1)
    assert store.calls.admit("k", one, "a") == 0
    clock.read = lambda: 1.0
    assert store.calls.admit("k", one, "far away") == pytest.approx(59)
    clock.read = lambda: 2.0
    assert store.calls.admit("k", one, "near") == pytest.approx(58)
    clock.read = lambda: 60.0
    assert store.calls.admit("k", one, "near") > 0
    clock.read = lambda: 61.0
    assert store.calls.admit("k", one, "far away") == 0
    assert store.calls.admit("k", one, "near") == pytest.approx(60)


def test_who_dies_while_it_waits_loses_its_place(store, clock):
    one = Limits(requests_per_minute=1)
    assert store.calls.admit("k", one, "a") == 0
    clock.read = lambda: 1.0
    assert store.calls.admit("k", one, "dies") == pytest.approx(59)
    clock.read = lambda: 2.0
    store.calls.admit("k", one, "b")
    clock.read = lambda: 60.0
    assert 0 < store.calls.admit("k", one, "b") < 1
    clock.read = lambda: 62.0
    assert store.calls.admit("k", one, "b") == 0


def test_calls_of_a_process_that_died_count_until_they_are_a_minute_old(store, clock):
    assert [store.calls.admit("k", THREE, "dies") for _ in range(3)] == [0] * 3
    assert store.calls.admit("k", THREE, "b") == pytest.approx(60)
    clock.read = lambda: 60.0
    assert store.calls.admit("k", THREE, "b") == 0


def test_tokens_of_all_are_counted_together(store, clock):
    limits = Limits(tokens_per_minute=100)
    assert store.calls.admit("k", limits, "a") == 0
    store.calls.spend("k", 60)
    clock.read = lambda: 10.0
    assert store.calls.admit("k", limits, "b") == 0
    store.calls.spend("k", 40)
    assert store.calls.admit("k", limits, "a") == pytest.approx(50)
    clock.read = lambda: 60.0
    assert store.calls.admit("k", limits, "a") == 0


def test_who_is_told_to_wait_has_all_wait(store, clock):
    store.calls.hold_off("k", 30)
    store.calls.hold_off("k", 20)
    assert store.calls.admit("k", THREE, "b") == pytest.approx(30)
    store.calls.hold_off("k", float("inf"))
    assert store.calls.admit("k", THREE, "b") == pytest.approx(LONGEST_HOLD_OFF)


def test_a_clock_that_is_put_back_holds_nobody_for_long(store, clock):
    clock.read = lambda: 1e6
    assert [store.calls.admit("k", THREE, "a") for _ in range(3)] == [0] * 3
    clock.read = lambda: 0.0
    assert store.calls.admit("k", THREE, "a") == 0


def test_what_no_longer_counts_is_forgotten(store, clock):
    for at in range(10):
        clock.read = lambda at=at: at * 30.0
        store.calls.admit("k", Limits(requests_per_minute=5, tokens_per_minute=100), "a")
        store.calls.spend("k", 1)
    assert kept(store) == {"call": 2, "tokens": 2}
    clock.read = lambda: 1000.0
    store.leave("a")
    assert kept(store) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_in_no_minute_more_are_let_in_whoever_asks_and_all_take_turns(store, clock, seed):
    """Each of four asks again when it was told to, more or less, and at once after it was let in."""
    watch(store)
    chance, limits = random.Random(seed), Limits(requests_per_minute=5)  # noqa: S311
    asks = sorted((chance.uniform(0, 5), caller) for caller in "abcd")
    while asks[0][0] < 8 * WINDOW:
        now, caller = heapq.heappop(asks)
        clock.read = lambda now=now: now
        wait = store.calls.admit("k", limits, caller)
        heapq.heappush(asks, (now + wait + chance.uniform(0, 0.5), caller))
    begun = let_in(store.database.url.database)
    assert most_in_a_window([at for at, _ in begun], WINDOW) == 5
    assert len(begun) >= 5 * 7
    shares = Counter(caller for _, caller in begun[5:])
    assert len(shares) == 4
    assert min(shares.values()) >= 0.6 * max(shares.values())


# Processes


def on(clock, store, main):
    """Run `main` on a clock of its own, which is the database's, too."""

    async def timed():
        clock.read = asyncio.get_running_loop().time
        return await main()

    return run_on_fake_clock(timed(), patience=1.0)


def process(store, name, group="queue"):
    return LimitsInDatabase(store.calls, group, name)


def endpoint(limits, name="model at endpoint"):
    return Limiter(limits, name, everywhere=True)


async def begins(shared, limiter, calls, tokens=0):
    """When each of so many calls, all made at once, is let in."""

    async def call():
        async with limiter.admitted():
            await shared.admit(limiter)
            begun = asyncio.get_running_loop().time()
            await shared.spent(limiter, tokens)
            return begun

    return await asyncio.gather(*(call() for _ in range(calls)))


def test_two_processes_keep_the_limit_of_an_endpoint_together(store, clock):
    async def main():
        shares = (begins(process(store, name, name), endpoint(Limits(requests_per_minute=4)), 6) for name in "ab")
        return await asyncio.gather(*shares)

    one, other = on(clock, store, main)
    assert most_in_a_window(one + other, WINDOW) == 4
    assert max(one + other) == pytest.approx(120, abs=1)
    assert min(one) < 61  # neither goes without
    assert min(other) < 61


def test_a_workflow_is_the_same_only_to_those_who_have_the_same_agents(store, clock):
    async def main():
        limits = Limits(requests_per_minute=1)
        who = [("a", "queue"), ("b", "queue"), ("c", "another")]
        shares = (begins(process(store, name, group), Limiter(limits, "workflow x"), 1) for name, group in who)
        return sorted(round(at) for (at,) in await asyncio.gather(*shares))

    assert on(clock, store, main) == [0, 0, 60]


def test_tokens_and_holding_off_reach_the_others(store, clock):
    async def main():
        one, other = process(store, "a"), process(store, "b")
        limits = Limits(tokens_per_minute=100)
        await begins(one, endpoint(limits), 1, tokens=100)
        (after_tokens,) = await begins(other, endpoint(limits), 1)
        await one.hold_off(endpoint(limits), 30)
        (after_hold,) = await begins(other, endpoint(limits), 1)
        return after_tokens, after_hold

    assert on(clock, store, main) == pytest.approx((60, 90), abs=0.1)


def test_a_call_that_is_cancelled_while_it_waits_makes_room_for_the_next(store, clock):
    async def main():
        shared, limiter = process(store, "a"), endpoint(Limits(requests_per_minute=1))
        await begins(shared, limiter, 1)
        other = endpoint(Limits(requests_per_minute=1))
        waiting = [asyncio.ensure_future(begins(shared, other, 1)) for _ in range(2)]
        await asyncio.sleep(10)
        waiting[0].cancel()
        return await waiting[1]

    assert on(clock, store, main) == pytest.approx([60], abs=0.1)


class NoStore:
    def __getattr__(self, name):
        if name == "calls":
            return self
        raise AssertionError(f"the database is asked to {name}")


async def test_for_limits_of_one_process_alone_the_database_is_not_asked():
    shared, limiter = process(NoStore(), "a"), endpoint(Limits(concurrency=2))
    await begins(shared, limiter, 3, tokens=5)
    await shared.hold_off(limiter, 30)
    await process(NoStore(), "a").spent(endpoint(Limits(requests_per_minute=2)), 5)


def test_neither_address_nor_key_is_in_the_database(store):
    shared = process(store, "a")
    asyncio.run(shared.admit(endpoint(THREE, "model https://user:secret@host/v1")))
    with closing(sqlite3.connect(store.database.url.database)) as connection, connection:
        assert "secret" not in "\n".join(connection.iterdump())


def begin(forked, what, *arguments):
    """Have a process of its own run a function of this file, whose arguments are texts."""
    return forked.begin([sys.executable, __file__, what, *arguments])


def call(url, name, calls):
    """Makes calls one after the other; one that is called "dies" is killed after them, while it waits."""

    async def main():
        store = Store(database_url(url))
        shared = LimitsInDatabase(store.calls, "queue", name, window=0.5)
        limiter = endpoint(Limits(requests_per_minute=4))
        for _ in range(int(calls)):
            await shared.admit(limiter)
        if name == "dies":
            asyncio.get_running_loop().call_later(0.05, os._exit, 1)
            for _ in range(100):
                await shared.admit(limiter)

    asyncio.run(main())


def calls_of_processes(forked, url):
    """Three processes make 22 calls or a few more, of which there may be 4 in any half second."""
    processes = [begin(forked, "call", url, name, calls) for name, calls in (("a", 9), ("b", 9), ("dies", 4))]
    assert [each.wait(120) for each in processes] == [0, 0, 1]


def crowd(store):
    """How many of eight callers who ask at once are let in, for each of ten limits of three."""

    def ask(key, who, together):
        together.wait()
        return store.calls.admit(key, THREE, f"{who}")

    with ThreadPoolExecutor(8) as threads:
        for key in map(str, range(10)):
            asked = [threads.submit(ask, key, who, together) for together in [threading.Barrier(8)] for who in range(8)]
            yield sum(not each.result() for each in asked)


def test_of_those_who_ask_at_once_no_more_are_let_in(store):
    assert list(crowd(store)) == [3] * 10


def test_processes_keep_a_limit_together_in_sqlite(store, forked):
    watch(store)
    calls_of_processes(forked, store.database.url.database)
    begun = [at for at, _ in let_in(store.database.url.database)]
    assert len(begun) >= 22
    assert most_in_a_window(begun, 0.5) <= 4


@pytest.mark.slow
def test_processes_keep_a_limit_together_in_postgresql(postgresql, forked):
    url = postgresql.new()
    store = Store(database_url(url))
    try:
        text = import_module("sqlalchemy").text
        with store.database.engine.begin() as connection:
            connection.execute(text("CREATE TABLE let_in (at double precision)"))
            connection.execute(
                text(
                    f"ALTER DATABASE {database_url(url).database} SET default_transaction_isolation TO 'repeatable read'"
                )
            )
            connection.execute(
                text(
                    "CREATE RULE watching AS ON INSERT TO operad_calls WHERE NEW.kind = 'call' AND length(NEW.key) > 9 "
                    "DO ALSO INSERT INTO let_in VALUES (NEW.at)"
                )
            )
        assert list(crowd(store)) == [3] * 10
        calls_of_processes(forked, url)
        store.calls.hold_off("k", 30)
        store.calls.spend("k", 10)
        assert 25 < store.calls.admit("k", Limits(tokens_per_minute=10), "a") <= 60
        store.leave("a")
        with store.database.engine.begin() as connection:
            begun = list(connection.execute(text("SELECT at FROM let_in")).scalars())
    finally:
        store.close()
    assert len(begun) >= 22
    assert most_in_a_window(begun, 0.5) <= 4


# Runs


def agents_of(base_url, limits=None, policy=NO_POLICY):
    """An expert whose one operator is inside of two workflows; the endpoint has `limits`, and so have they."""
    inner = BuiltinWorkflow(name="inner", limits=limits and Limits(requests_per_minute=500), policy=policy)
    inner.add_operator(Operator(OperatorConfig(instruction="Answer.", id="answer")))
    outer = BuiltinWorkflow(name="outer", limits=limits and Limits(tokens_per_minute=10**6), budget=Budget(seconds=100))
    outer.add_operator(inner)
    model = Model(name="scripted", base_url=base_url, max_retries=0, limits=limits)
    expert = Expert(Profile(name="expert"), outer, MonoModelReasoner(model))
    return expert, Served("agents", [expert])


def rows(url):
    with closing(sqlite3.connect(url)) as connection, connection:
        return connection.execute("SELECT key, kind, tokens FROM operad_calls ORDER BY kind, key").fetchall()


def counted(url):
    return Counter(kind for _, kind, _ in rows(url))


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "runs.sqlite")
    yield ledger
    ledger.close()


def test_a_kept_run_notes_each_call_once_for_each_limit_around_it(ledger):
    with ScriptedModel([Say("one")]) as scripted:
        expert, _ = agents_of(scripted.base_url, SOME)
        expert.workflow.keep_in(ledger)
        message = expert.execute(Job(goal="Say it."))
    assert counted(ledger.url.database) == {"call": 2, "tokens": 2}
    assert {tokens for _, kind, tokens in rows(ledger.url.database) if kind == "tokens"} == {message.usage.tokens}


def test_a_kept_run_tells_others_when_its_endpoint_wants_no_calls(ledger):
    with ScriptedModel([Fail(429, "slow down", headers={"Retry-After": "7"})]) as scripted:
        expert, _ = agents_of(scripted.base_url, Limits(requests_per_minute=600))
        expert.workflow.keep_in(ledger)
        with pytest.raises(OperatorError, match="no room"):
            expert.execute(Job(goal="Say it."))
    assert counted(ledger.url.database)["hold"] == 1


@pytest.mark.parametrize("limits", [None, Limits(concurrency=3)])
def test_without_limits_a_minute_no_run_asks_the_database_for_them(ledger, monkeypatch, limits):
    for name in ("admit", "spend", "hold_off"):
        monkeypatch.setattr(CountedCalls, name, lambda *_: pytest.fail("the database was asked"))
    with ScriptedModel([Say("one")]) as scripted:
        workflow = BuiltinWorkflow()
        workflow.add_operator(Operator(OperatorConfig(instruction="Answer.", id="answer")))
        workflow.keep_in(ledger)
        model = scripted.model.model_copy(update={"limits": limits})
        workflow.execute(Job(goal="Say it."), MonoModelReasoner(model))


class Slow:
    """Shared limits for whose every answer one waits for long; and a ledger that has runs keep them."""

    workers = None

    def __init__(self):
        self.asked = Counter()

    async def execute(self, workflow, run, call):
        run.shared_limits = self
        return await run.execute()

    async def admit(self, limiter):
        await self.spent(limiter, 1)

    async def spent(self, limiter, tokens):
        self.asked[limiter.name.partition(" http")[0]] += tokens
        await asyncio.sleep(10)


def test_the_time_of_an_operator_stands_still_while_it_waits_and_while_it_is_counted():
    shared = Slow()

    async def main():
        with ScriptedModel([Say("one")]) as scripted:
            expert, _ = agents_of(scripted.base_url, SOME, Policy(timeout=Timeout(run=5)))
            expert.workflow.keep_in(cast("Any", shared))
            message = await expert.aexecute(Job(goal="Say it."))
        return message.usage.tokens, asyncio.get_running_loop().time()

    tokens, seconds = run_on_fake_clock(main(), patience=1.0)
    assert shared.asked == dict.fromkeys(("workflow outer", "workflow inner", "scripted"), 1 + tokens)
    assert seconds >= 60


def test_a_database_that_is_gone_is_waited_for(store, monkeypatch, caplog):
    def now(self, connection):
        monkeypatch.undo()
        connection.exec_driver_sql("ROLLBACK")
        raise import_module("sqlalchemy").exc.OperationalError("", {}, Exception("the connection broke"))

    monkeypatch.setattr(Database, "time_in", now)
    assert store.calls.admit("k", THREE, "a") == 0
    assert "waiting for the database: the connection broke" in caplog.text


def work(url, base_url):
    _, served = agents_of(base_url, SOME)
    asyncio.run(Worker(url, [served]).serve(asyncio.Event()))


@pytest.mark.slow
def test_workers_keep_the_limits_that_the_driver_would(postgresql, forked):
    there = postgresql.new()

    def rows():
        query = "SELECT key, kind, tokens FROM operad_calls ORDER BY kind, key"
        with ledger.store.database.engine.begin() as connection:
            return connection.exec_driver_sql(query).all()

    with ScriptedModel(lambda _: Say("one")) as scripted:
        expert, served = agents_of(scripted.base_url, SOME)
        worker = begin(forked, "work", there, scripted.base_url)
        ledger = Ledger(there, workers=served)
        try:
            expert.workflow.keep_in(ledger)
            expert.execute(Job(goal="Say it."))
            done_there = rows()
            with ledger.store.database.engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM operad_calls")
            served._addresses.clear()  # so that all is done here
            expert.execute(Job(goal="Say it."))
            done_here = rows()
        finally:
            ledger.close()
            worker.kill()
            worker.wait(60)
    assert len(done_there) == 4
    assert done_there == done_here


if __name__ == "__main__":
    {"call": call, "work": work}[sys.argv[1]](*sys.argv[2:])
