"""Runs of a server that are stored in a database, which may be slow, and shared with other processes."""

import asyncio
import sqlite3
import threading
from contextlib import aclosing
from typing import Any

import pytest
from openai import APIError, InternalServerError
from pydantic import BaseModel, Field
from serving import HELLO, Code, echo, offered, order, served, words

from operad.runtime.durable.ledger import Ledger
from operad.runtime.events import RunFinished
from operad.runtime.testing import ScriptedReasoner
from operad.server.api.runs import Runs
from operad.server.http.bounds import DEFAULT_BOUNDS
from operad.server.http.problems import RefusedError

pytest.importorskip("sqlalchemy")


async def wait(job):
    await asyncio.Event().wait()


@pytest.fixture
def server(tmp_path):
    """Return a function that makes the runs of a server; all servers have the same database."""
    ledgers = []

    def make(work=wait):
        ledgers.append(Ledger(tmp_path / "runs.sqlite", source="expert"))
        offer = offered(Code(work)).kept_in(ledgers[-1])
        return Runs({offer.name: offer}, DEFAULT_BOUNDS), offer

    yield make
    for ledger in ledgers:
        ledger.close()


def job(offer, goal="go"):
    return offer.job(goal, "", {})


async def until_stored(offer, run_id, state="running"):
    while (kept := await asyncio.to_thread(offer.ledger.store.run, run_id)) is None or kept.state != state:
        await asyncio.sleep(0.02)


async def test_a_list_of_runs_does_not_wait_for_the_database(server, monkeypatch):
    runs, offer = server(echo)

    def read(run_id):
        raise AssertionError("the database was read in the event loop")

    monkeypatch.setattr(offer.ledger, "open_questions", read)
    run, _ = await runs.begin(offer, job(offer))
    assert [(each.id, each.shown_state) for each in runs.listed()] == [(run.id, "running")]  # its task has not begun
    await run.task
    assert run.shown_state == "finished"


async def test_a_finished_run_whose_end_waits_for_the_database_is_not_called_in_progress(server, tmp_path):
    runs, offer = server(echo)
    holder = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)

    def hold(event):
        if isinstance(event, RunFinished):
            holder.execute("BEGIN IMMEDIATE")

    offer.agent.workflow.add_listener(hold)
    run, _ = await runs.begin(offer, job(offer))
    assert runs.progress() == "1 run in progress"
    async with aclosing(run.log.follow()) as entries:
        async for _ in entries:
            if run.message is not None:
                break
    assert runs.progress() == "0 runs in progress, 1 finished but not yet recorded"
    holder.rollback()
    holder.close()
    await run.task
    assert runs.progress() == "0 runs in progress"


async def test_a_run_of_another_process_is_cancelled_there(server):
    runs, offer = server()
    run, _ = await runs.begin(offer, job(offer), "r")
    await until_stored(offer, "r")
    others, _ = server()
    found = await others.find("r")
    assert found.task is None
    await others.cancel(found)
    assert (found.state, found.ended is not None) == ("cancelled", True)
    await asyncio.wait_for(asyncio.wait([run.task]), 10)
    assert run.error == "run 'r' was cancelled; to resume it: operad runs resume r"
    await others.forget(found)
    assert await asyncio.to_thread(offer.ledger.store.run, "r") is None


async def test_an_unknown_run_of_a_database_is_not_said_to_be_gone_after_a_time(server):
    runs, _ = server()
    with pytest.raises(RefusedError, match="A finished run is available until it is deleted from the database"):
        await runs.find("none")


async def test_a_run_whose_driver_is_unknown_does_not_delay_others(server, monkeypatch):
    runs, offer = server()
    first, _ = await runs.begin(offer, job(offer), "slow")
    await until_stored(offer, "slow")
    others, offer = server()
    asked, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(offer.ledger, "is_driven", lambda kept: asked.set() or go_on.wait(60))
    slow = asyncio.ensure_future(others.begin(offer, job(offer), "slow"))
    same = asyncio.ensure_future(others.begin(offer, job(offer), "slow"))
    await asyncio.to_thread(asked.wait, 60)
    run, is_new = await asyncio.wait_for(others.begin(offer, job(offer), "fast"), 60)
    assert is_new
    assert not slow.done()
    go_on.set()
    assert [is_new for _, is_new in await asyncio.gather(slow, same)] == [False, False]
    await others.cancel(run)
    await runs.cancel(first)


async def test_an_abandoned_run_that_is_requested_twice_at_once_starts_once(server):
    began = asyncio.Event()

    async def begin(job):
        began.set()
        await wait(job)

    runs, offer = server(begin)
    first, _ = await runs.begin(offer, job(offer), "r")
    await asyncio.wait_for(began.wait(), 30)  # a run that is cancelled before keeps this process as its driver
    first.task.cancel()
    await asyncio.wait([first.task])
    others, offer = server()
    both = await asyncio.gather(*(others.begin(offer, job(offer), "r") for _ in range(2)))
    assert sorted(is_new for _, is_new in both) == [False, True]
    assert both[0][0] is both[1][0]
    await others.cancel(both[0][0])


async def test_an_abandoned_run_that_is_taken_up_twice_at_once_starts_once(server):
    began, times = asyncio.Event(), 0

    async def begin(job):
        nonlocal times
        times += 1
        began.set()
        await wait(job)

    runs, offer = server(begin)
    first, _ = await runs.begin(offer, job(offer), "r")
    await asyncio.wait_for(began.wait(), 30)
    first.task.cancel()
    await asyncio.wait([first.task])
    others, offer = server(begin)
    found = await asyncio.gather(others.take_up(), others.take_up(), others.begin(offer, job(offer), "r"))
    run = await others.find("r")
    assert sorted([*found[0], *found[1], *(["r"] if found[2][1] else [])]) == ["r"]
    while times < 2:
        await asyncio.sleep(0.02)
    assert [each.id for each in others.open] == ["r"]
    await others.cancel(run)
    assert (times, run.state) == (2, "cancelled")


async def test_no_run_is_taken_up_by_a_server_that_ends(server):
    began = asyncio.Event()

    async def begin(job):
        began.set()
        await wait(job)

    runs, offer = server(begin)
    first, _ = await runs.begin(offer, job(offer), "r")
    await asyncio.wait_for(began.wait(), 30)
    first.task.cancel()
    await asyncio.wait([first.task])
    others, _ = server(begin)
    taking_up = asyncio.ensure_future(others.take_up())
    await asyncio.sleep(0)
    await others.end(0)
    assert (await taking_up, others.open) == ([], [])


async def test_runs_of_other_programs_in_the_database_are_not_those_of_the_server(tmp_path):
    ledgers = [Ledger(tmp_path / "runs.sqlite", source=source) for source in (None, "file", None)]
    offers = [
        offered(Code(echo), name=name).kept_in(ledger)
        for name, ledger in zip(("Mine", "Filed", "Foreign"), ledgers, strict=True)
    ]
    foreign = Runs({"Foreign": offers[2]}, DEFAULT_BOUNDS)
    run, _ = await foreign.begin(offers[2], job(offers[2]), "f")
    assert run.task
    await run.task
    runs = Runs({offer.name: offer for offer in offers[:2]}, DEFAULT_BOUNDS)
    for offer in offers[:2]:
        run, _ = await runs.begin(offer, job(offer), offer.name)
        assert run.task
        await run.task
    assert {each.run_id for each in await runs.stored(10)} == {"Mine", "Filed"}
    for ledger in ledgers:
        ledger.close()


async def test_runs_belong_to_their_expert_whatever_the_options_they_began_with(tmp_path):
    expert = {"file": "/e.yaml", "expert": "Expert"}
    sources: list[Any] = [
        {**expert, "model": "old"},
        {**expert, "model": "new"},
        {"file": "/e.yaml", "expert": "Expert 2"},
    ]
    ledgers = [Ledger(tmp_path / "runs.sqlite", source=source) for source in sources]
    began, go_on = asyncio.Event(), asyncio.Event()

    async def work(job):
        if job.goal == "cut":
            began.set()
            await go_on.wait()
        return "done"

    before, after, other = (offered(Code(work)).kept_in(ledger) for ledger in ledgers)
    runs = Runs({"Expert": before}, DEFAULT_BOUNDS)
    done: Any = (await runs.begin(before, job(before), "done"))[0]
    await done.task
    cut: Any = (await runs.begin(before, job(before, "cut"), "cut"))[0]
    await asyncio.wait_for(began.wait(), 30)
    cut.task.cancel()
    await asyncio.wait([cut.task])
    go_on.set()

    foreign = Runs({"Expert 2": other}, DEFAULT_BOUNDS)
    assert (await foreign.stored(10), await foreign.look("done")) == ([], None)
    restarted = Runs({"Expert": after}, DEFAULT_BOUNDS)
    assert {each.run_id for each in await restarted.stored(10)} == {"done", "cut"}
    found: Any = await restarted.look("done")
    assert found.message is not None
    assert await restarted.take_up() == ["cut"]
    found = await restarted.find("cut")
    await found.task
    assert found.shown_state == "finished"
    for ledger in ledgers:
        ledger.close()


async def test_a_repeated_request_with_answers_finds_the_run_of_another_process(server):
    asked = {"answers": {"code": True}}
    runs, offer = server()
    first, _ = await runs.begin(offer, job(offer), "r", **asked)
    await until_stored(offer, "r")
    others, offer = server()
    found, is_new = await others.begin(offer, job(offer), "r", **asked)
    assert (found.id, found.task, is_new) == ("r", None, False)
    await runs.cancel(first)


async def test_answers_of_a_run_that_was_resumed_after_a_restart_are_refused_until_it_has_ended(server):
    go_on = asyncio.Event()

    async def work(job):
        await go_on.wait()
        return "done"

    asked = {"answers": {"code": True}}
    runs, offer = server(work)
    first, _ = await runs.begin(offer, job(offer), "r", **asked)
    await until_stored(offer, "r")
    first.task.cancel()
    await asyncio.wait([first.task])
    later, offer = server(work)
    assert await later.take_up() == ["r"]
    with pytest.raises(
        RefusedError, match=r"run 'r' was resumed after a restart, without answers given in advance: 'code'"
    ):
        await later.begin(offer, job(offer), "r", **asked)
    go_on.set()
    resumed = await later.find("r")
    await resumed.task
    assert await later.begin(offer, job(offer), "r", **asked) == (resumed, False)


async def test_a_database_that_does_not_answer_is_said_once_and_so_is_its_return(server, monkeypatch, caplog):
    runs, _ = server()
    tries = iter([OSError("gone"), OSError("gone"), OSError("gone"), None])
    back = asyncio.Event()

    async def take_up(*, waiting):
        if fault := next(tries, None):
            raise fault
        asyncio.get_running_loop().call_soon(back.set)

    monkeypatch.setattr(runs, "take_up", take_up)
    monkeypatch.setattr("operad.server.api.runs._TAKE_OVER_INTERVAL", 0)
    runs.start()
    await back.wait()
    await runs.end(0)
    assert ["gone" in record.getMessage() for record in caplog.records] == [True, False]


# Answers in the form that a client of the OpenAI protocols asks for


ROME = '{"name": "Rome", "people": 7}'


class City(BaseModel):
    name: str
    people: int


class Village(BaseModel):
    name: str
    people: int = Field(le=5)


def city():
    return offered(words(output_schema="{name: string, people: integer}"), reasoner=ScriptedReasoner(ROME))


async def test_an_answer_is_parsed_by_the_type_that_the_client_asks_for():
    async with served(city()) as here, here.openai() as client:
        chat = await client.chat.completions.parse(model="Expert", messages=[HELLO], response_format=City)
        response = await client.responses.parse(model="Expert", input="Hello", text_format=City)
        async with client.chat.completions.stream(model="Expert", messages=[HELLO], response_format=City) as stream:
            streamed = await stream.get_final_completion()
    parsed = [chat.choices[0].message.parsed, response.output_parsed, streamed.choices[0].message.parsed]
    assert parsed == [City(name="Rome", people=7)] * 3


async def test_an_answer_that_does_not_fit_is_an_error_that_names_the_run_and_the_fault():
    async with served(city()) as here, here.openai(max_retries=0) as client:
        with pytest.raises(InternalServerError, match="people") as chat:
            await client.chat.completions.parse(model="Expert", messages=[HELLO], response_format=Village)
        with pytest.raises(InternalServerError, match="people"):
            await client.responses.parse(model="Expert", input="Hello", text_format=Village)
        with pytest.raises(APIError, match="people"):
            async with client.chat.completions.stream(
                model="Expert", messages=[HELLO], response_format=Village
            ) as stream:
                await stream.get_final_completion()
        runs = (await here.http.get("/runs")).json()["runs"]
    assert chat.value.status_code == 502
    assert [run["state"] for run in runs] == ["finished"] * 3
    assert runs[2]["id"] in chat.value.message


@pytest.mark.parametrize("said", ["Rome", f"It is {ROME}", "[]", "NaN"])
async def test_an_answer_that_is_no_json_object_is_an_error(said):
    async def work(job):
        return said

    async with served(offered(Code(work))) as here, here.openai(max_retries=0) as client:
        with pytest.raises(InternalServerError):
            await client.chat.completions.create(
                model="Expert", messages=[HELLO], response_format={"type": "json_object"}
            )


async def test_a_question_is_asked_in_words():
    async with served(offered(Code(order))) as here, here.openai() as client:
        asked = await client.chat.completions.create(
            model="Expert", messages=[HELLO], response_format={"type": "json_object"}
        )
    assert "Order Hello?" in asked.choices[0].message.content
