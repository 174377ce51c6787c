"""Who counts as dead: by what a process sees itself, whatever its clock or another's says."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace

import pytest
import stored_runs
from amounts import sample

from operad.runtime import BuiltinWorkflow, Job
from operad.runtime.durable import Ledger
from operad.runtime.durable.process_ids import process_identity
from operad.runtime.durable.records import Watch
from operad.runtime.durable.tables import Executor

ELSEWHERE = "another-boot pid:[1] 7 7"
DIES = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
import stored_runs
stored_runs.execute(sys.argv[2], "unfinished", dies_at="z")
"""

AN_HOUR_AHEAD = """
import sys, time
import sqlalchemy
from operad.runtime import BuiltinWorkflow, InputError, Job
from operad.runtime.durable import Ledger

@sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "connect")
def ahead(connection, _):
    connection.create_function("julianday", 1, lambda _: (time.time() + 3600) / 86_400 + 2440587.5)

class Wait:
    def get_id(self):
        return "wait"
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return "stolen"

Wait.__module__, Wait.__qualname__ = "of_both", "Wait"  # one class, as far as runs know
ledger = Ledger(sys.argv[1])
(executor,) = ledger.store.executors()
print("silent for an hour:", executor.silent > 3000)
workflow = BuiltinWorkflow(name="w")
workflow.add_operator(Wait())
workflow.keep_in(ledger)
for act in (
    lambda: workflow.execute(Job(goal="g"), None, run_id="one"),
    lambda: ledger.delete("one"),
    lambda: ledger.restart_from("one", "wait", workflow),
):
    try:
        print("done:", act())
    except InputError as error:
        print(str(error).partition(" by ")[0])
ledger.close()
"""


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def beating(beat, process=ELSEWHERE):
    return Executor("e", process=process, beat=beat, limit=10.0, now=1e9)


def test_who_is_silent_is_dead_once_that_was_seen_for_as_long_as_it_may_be(clock):
    watch = Watch(clock)
    seen = []
    for clock.now in (0.0, 4.0, 8.0, 10.0, 10.5):
        seen.append(watch.is_dead(beating(5.0)))
    assert seen == [False, False, False, False, True]


def test_a_sign_of_life_begins_the_time_anew_though_it_be_of_an_earlier_time(clock):
    watch = Watch(clock)
    assert not watch.is_dead(beating(5.0))
    clock.now = 9.0
    assert not watch.is_dead(beating(4.0))
    clock.now = 18.0
    assert not watch.is_dead(beating(4.0))
    clock.now = 19.5
    assert watch.is_dead(beating(4.0))


def test_who_stood_still_itself_looks_anew(clock):
    watch = Watch(clock)
    watch.is_dead(beating(5.0))
    clock.now = 100.0
    assert not watch.is_dead(beating(5.0))
    clock.now = 109.0
    assert not watch.is_dead(beating(5.0))
    clock.now = 110.5
    assert watch.is_dead(beating(5.0))


def test_who_has_ended_on_this_machine_is_dead_at_once(clock):
    mine = process_identity()
    boot, space, number, start = mine.rsplit(" ", 3) if mine else pytest.skip("needs /proc")
    assert not Watch(clock).is_dead(beating(5.0, mine))
    assert Watch(clock).is_dead(beating(5.0, f"{boot} {space} {number} {int(start) + 1}"))


async def test_a_process_whose_clock_is_an_hour_ahead_takes_nothing_from_who_lives(tmp_path, forked):
    path, gate, begun = str(tmp_path / "runs.sqlite"), asyncio.Event(), asyncio.Event()

    class Wait:
        def get_id(self):
            return "wait"

        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            begun.set()
            await gate.wait()
            return "mine"

    Wait.__module__, Wait.__qualname__ = "of_both", "Wait"
    workflow, ledger = BuiltinWorkflow(name="w"), Ledger(path)
    workflow.add_operator(Wait())
    workflow.keep_in(ledger)
    run = asyncio.ensure_future(workflow.aexecute(Job(goal="g"), None, run_id="one"))  # type: ignore[arg-type]
    await begun.wait()
    done = await asyncio.to_thread(forked.run, [sys.executable, "-c", AN_HOUR_AHEAD, path])
    assert done.stdout.splitlines() == [
        "silent for an hour: True",
        *(["run 'one' is being driven"] * 2),
        "done: one-2",
    ]
    gate.set()
    assert (await run).scratchpad == "mine"
    assert ledger.run("one").drives == 1
    ledger.close()


@pytest.mark.parametrize("beat", sample(["beat + 1e9", "beat - 1e9", "0"], 3))
def test_who_is_dead_elsewhere_is_known_to_be_though_its_clock_was_wrong(tmp_path, beat, forked):
    path, ran = tmp_path / "runs.sqlite", []
    assert forked.run([sys.executable, "-c", DIES, stored_runs.__file__, path]).returncode == 9
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE operad_executors SET beat = {beat}, process = ?", (ELSEWHERE,))  # noqa: S608
    stored_runs.execute(path, "unfinished", ran)
    assert ran[0] == "check z"


def test_who_seems_to_live_by_the_clocks_is_listed_so():
    beat = Executor("e", beat=100.0, limit=10.0)
    assert [replace(beat, now=now).alive for now in (85.0, 95.0, 105.0, 115.0)] == [False, True, True, False]
