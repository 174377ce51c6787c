"""The driver: what runs beside what, and what is left when a step fails or the caller goes away.

Nothing here is timed. What must be concurrent meets at a barrier, where one step after another
would wait for ever; `RENDEZVOUS` bounds how long a failing test takes.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.runtime.graph import engine
from operad.runtime.graph.schedule import Plan, Progress

RENDEZVOUS = 10.0

Step = Callable[[int], Awaitable[None]]


def chain(size: int) -> Plan:
    return Plan({str(n): [str(n - 1)] if n else [] for n in range(size)})


def fan(size: int) -> Plan:
    return Plan({str(n): [] for n in range(size)})


def diamonds(stages: int) -> Plan:
    before: dict[str, list[str]] = {"0": []}
    for stage in range(1, stages + 1):
        top, left, right, bottom = str(stage - 1), f"{stage}l", f"{stage}r", str(stage)
        before.update({left: [top], right: [top], bottom: [left, right]})
    return Plan(before)


async def drive(plan: Plan, step: Step) -> None:
    """Drive a whole plan with a step that knows nothing of it."""
    progress = Progress(plan)

    async def and_go_on(node: int) -> list[int]:
        await step(node)
        return progress.finish(node)

    await engine.run_graph(progress.ready, and_go_on)


async def run(plan: Plan, step: Step) -> None:
    await asyncio.wait_for(drive(plan, step), RENDEZVOUS)


class Meeting:
    """A place where so many must be at the same time."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._complete = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._complete.set()
        await self._complete.wait()


class LetGo:
    """Something that a step holds while it runs."""


# What runs, and when


async def test_nothing_to_run_is_done_at_once() -> None:
    async def step(node: int) -> None:
        raise AssertionError(node)

    await run(Plan({}), step)


@settings(max_examples=amount(20, 60))
@given(st.data())
async def test_every_step_runs_once_after_those_before_it(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 15))
    before = {
        str(n): data.draw(st.lists(st.sampled_from(range(n)).map(str), max_size=3, unique=True)) if n else []
        for n in range(size)
    }
    pauses = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    plan = Plan(before)
    finished: list[int] = []

    async def step(node: int) -> None:
        assert set(plan.parents[node]) <= set(finished)
        for _ in range(pauses[node]):
            await asyncio.sleep(0)
        finished.append(node)

    await run(plan, step)

    assert sorted(finished) == list(range(size))


async def test_steps_that_become_ready_together_run_together_after_a_step_that_suspended() -> None:
    plan = Plan({"first": [], **{str(n): ["first"] for n in range(20)}})
    meeting = Meeting(20)

    async def step(node: int) -> None:
        await (meeting.wait() if node else asyncio.sleep(0.01))

    await run(plan, step)


async def test_a_step_starts_while_a_slower_branch_still_runs() -> None:
    plan = Plan({"slow": [], "quick": [], "after quick": ["quick"]})
    started = asyncio.Event()

    async def step(node: int) -> None:
        if plan.ids[node] == "slow":
            await started.wait()
        elif plan.ids[node] == "after quick":
            started.set()

    await run(plan, step)


async def test_a_thousand_suspending_steps_start_within_some_ten_turns_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "LONGEST_TURN", 60.0)  # however slow the machine is
    started = turns = 0
    everyone = asyncio.Event()

    async def step(node: int) -> None:
        nonlocal started
        started += 1
        if started == 1000:
            everyone.set()
        await everyone.wait()

    driving = asyncio.create_task(run(fan(1000), step))
    while not everyone.is_set():
        await asyncio.sleep(0)
        turns += 1
    await driving

    assert turns <= 15


@pytest.mark.parametrize("plan", [chain(20_000), diamonds(1000)], ids=["chain of 20,000", "1,000 diamonds"])
async def test_depth_costs_no_recursion_and_every_step_runs_once(plan: Plan) -> None:
    ran: list[int] = []

    async def step(node: int) -> None:
        ran.append(node)

    await run(plan, step)

    assert sorted(ran) == list(range(len(plan.ids)))


@pytest.mark.parametrize("plan", [chain(400), fan(400)], ids=["chain", "fan"])
async def test_the_loop_breathes_while_steps_never_suspend(plan: Plan) -> None:
    ran = 0
    most_between_turns = 0

    async def step(node: int) -> None:
        nonlocal ran
        ran += 1
        until = asyncio.get_running_loop().time() + 0.0005
        while asyncio.get_running_loop().time() < until:
            pass

    driving = asyncio.create_task(run(plan, step))
    while not driving.done():
        before = ran
        await asyncio.sleep(0)
        most_between_turns = max(most_between_turns, ran - before)

    assert ran == 400
    assert most_between_turns <= 30  # 5 ms hold ten of these steps; 400 would be no breath at all


# Failure


async def test_the_first_error_reaches_the_caller_unchanged() -> None:
    error = KeyError("first")

    async def step(node: int) -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        await run(fan(3), step)

    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None


async def test_when_a_step_fails_its_siblings_are_cancelled_and_have_ended() -> None:
    meeting = Meeting(5)
    ended: list[int] = []

    async def step(node: int) -> None:
        try:
            await meeting.wait()
            if node == 3:
                raise ValueError(node)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append(node)

    with pytest.raises(ValueError, match="3"):
        await run(fan(5), step)

    assert sorted(ended) == [0, 1, 2, 3, 4]


async def test_nothing_starts_after_a_failure() -> None:
    started: list[str] = []
    plan = Plan({"fails": [], "never": ["fails"], "lives": [], "never either": ["lives"]})

    async def step(node: int) -> None:
        started.append(plan.ids[node])
        if plan.ids[node] == "fails":
            await asyncio.sleep(0)
            raise ValueError("enough")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return  # swallows it

    with pytest.raises(ValueError, match="enough"):
        await run(plan, step)

    assert sorted(started) == ["fails", "lives"]


async def test_an_error_raised_while_being_cancelled_does_not_hide_the_first() -> None:
    meeting = Meeting(2)

    async def step(node: int) -> None:
        await meeting.wait()
        if node == 0:
            raise ValueError("first")
        try:
            await asyncio.sleep(60)
        finally:
            raise RuntimeError("second")

    with pytest.raises(ValueError, match="first"):
        await run(fan(2), step)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
async def test_even_errors_that_end_programs_wait_for_the_siblings(error: BaseException) -> None:
    meeting = Meeting(2)
    ended: list[int] = []

    async def step(node: int) -> None:
        try:
            await meeting.wait()
            if node == 0:
                raise error
            await asyncio.sleep(60)
        finally:
            ended.append(node)

    with pytest.raises(type(error)) as caught:
        await drive(fan(2), step)

    assert caught.value is error or isinstance(error, asyncio.CancelledError)
    assert sorted(ended) == [0, 1]


# Cancellation


async def test_cancelling_the_caller_cancels_every_step_and_waits_for_them() -> None:
    meeting = Meeting(6)
    ended: list[int] = []

    async def step(node: int) -> None:
        try:
            await meeting.wait()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(node)

    driving = asyncio.create_task(drive(fan(5), step))
    await meeting.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving

    assert sorted(ended) == [0, 1, 2, 3, 4]


async def test_a_step_that_swallows_cancellation_is_awaited_and_the_caller_is_cancelled_all_the_same() -> None:
    started, release = asyncio.Event(), asyncio.Event()
    ended = False

    async def step(node: int) -> None:
        nonlocal ended
        started.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        ended = True

    driving = asyncio.create_task(drive(fan(1), step))
    await started.wait()
    for _ in range(3):  # impatient
        driving.cancel()
        await asyncio.sleep(0)
    assert not driving.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await driving

    assert ended


async def test_cancelled_before_the_first_turn_no_step_starts() -> None:
    started: list[int] = []

    async def step(node: int) -> None:
        started.append(node)

    driving = asyncio.create_task(drive(fan(3), step))
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving

    assert started == []


# What a step may do


async def test_context_variables_are_the_callers_and_stay_with_the_step() -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("caller")
    meeting = Meeting(4)
    seen: list[str] = []

    async def step(node: int) -> None:
        seen.append(name.get())
        name.set(str(node))
        await meeting.wait()
        assert name.get() == str(node)

    await run(fan(4), step)

    assert seen == ["caller"] * 4
    assert name.get() == "caller"


async def test_steps_run_one_after_another_by_one_worker_do_not_see_each_others_context() -> None:
    name: ContextVar[str] = ContextVar("name", default="caller")
    seen: list[str] = []

    async def step(node: int) -> None:
        seen.append(name.get())
        name.set(str(node))

    await run(chain(5), step)

    assert seen == ["caller"] * 5


async def test_a_tasks_and_callbacks_of_a_step_run_in_its_context() -> None:
    name: ContextVar[str] = ContextVar("name", default="caller")
    seen: dict[str, str] = {}

    async def step(node: int) -> None:
        name.set("step")
        asyncio.get_running_loop().call_soon(lambda: seen.update(callback=name.get()))
        seen["task"] = await asyncio.create_task(get())
        seen["thread"] = await asyncio.to_thread(name.get)

    async def get() -> str:
        return name.get()

    await run(fan(1), step)

    assert seen == {"callback": "step", "task": "step", "thread": "step"}


async def test_a_timeout_inside_a_step_is_the_steps_own() -> None:
    meeting = Meeting(3)
    outcomes: dict[int, str] = {}

    async def step(node: int) -> None:
        await meeting.wait()
        try:
            await asyncio.wait_for(asyncio.sleep(60 if node == 1 else 0), 0.01 if node == 1 else RENDEZVOUS)
            outcomes[node] = "done"
        except TimeoutError:
            outcomes[node] = "too late"

    await run(fan(3), step)

    assert outcomes == {0: "done", 1: "too late", 2: "done"}


@pytest.mark.skipif(not hasattr(asyncio, "timeout"), reason="Python 3.11")
async def test_a_timeout_block_ends_its_step_alone_and_those_after_it_run_undisturbed() -> None:
    late: list[int] = []
    task = None

    async def step(node: int) -> None:
        nonlocal task
        task = asyncio.current_task()
        if node % 2 == 0:
            try:
                async with asyncio.timeout(0):
                    await asyncio.sleep(60)
            except TimeoutError:
                late.append(node)
        else:
            await asyncio.sleep(0)
        assert task is asyncio.current_task()
        assert not asyncio.current_task().cancelling()  # pyright: ignore

    await run(chain(6), step)

    assert late == [0, 2, 4]


async def test_a_step_may_drive_a_plan_of_its_own() -> None:
    meeting = Meeting(9)

    async def step(node: int) -> None:
        await drive(fan(3), lambda _: meeting.wait())

    await run(fan(3), step)


async def test_one_plan_serves_many_runs_at_once() -> None:
    plan = diamonds(5)
    counts = [0] * 50

    async def one(number: int) -> None:
        async def step(node: int) -> None:
            counts[number] += 1
            await asyncio.sleep(0)

        await drive(plan, step)

    await asyncio.gather(*map(one, range(50)))

    assert counts == [16] * 50


# What is left


@pytest.mark.usefixtures("without_gc")
@pytest.mark.parametrize("ending", ["success", "failure", "failure of what it awaits", "cancellation"])
def test_nothing_is_left_for_the_garbage_collector_after(ending: str) -> None:
    held: list[weakref.ref[LetGo]] = []
    meeting: list[Meeting] = []

    async def fail(own: LetGo) -> None:
        await asyncio.sleep(0)
        raise ValueError(own)

    async def once() -> None:
        thing = LetGo()
        held.append(weakref.ref(thing))

        async def step(node: int) -> None:
            own = thing
            await meeting[-1].wait()
            if ending == "failure" and node == 1:
                raise ValueError(own)
            if ending == "failure of what it awaits" and node == 1:
                await asyncio.gather(fail(own), asyncio.sleep(0))
            if ending == "cancellation":
                await asyncio.sleep(60)

        await drive(fan(4), step)

    async def repeatedly() -> None:
        for _ in range(20):
            meeting.append(Meeting(5 if ending == "cancellation" else 4))
            driving = asyncio.create_task(once())
            if ending == "cancellation":
                await meeting[-1].wait()
                driving.cancel()
            with suppress(ValueError, asyncio.CancelledError):
                await driving
            del driving
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(repeatedly())  # the test's own task may be of a kind that keeps errors

    assert [ref() for ref in held] == [None] * 20
