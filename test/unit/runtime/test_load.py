"""Hundreds of runs at once against a model that refuses and hangs: all end, and nothing of them stays."""

import asyncio
import gc
import itertools
import socket
import threading
from collections import Counter
from typing import Any

import pytest
from amounts import amount
from pydantic import SecretStr

from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, MonoModelReasoner, Policy, Retry, Timeout, WorkflowStatus
from operad.runtime.events import Event, OperatorRetried
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.testing import Fail, Hang, Say, ScriptedModel, ScriptedReasoner, run_on_fake_clock
from operad.runtime.values.errors import ModelError

REPORT = {
    "question": [],
    "facts": ["question"],
    "figures": ["question"],
    "sources": ["question"],
    "check": ["facts", "sources"],
    "sums": ["figures"],
    "outline": ["facts", "figures"],
    "draft": ["check", "sums", "outline"],
    "review": ["draft"],
    "answer": ["draft", "review"],
}
POLICY = Policy(retry=Retry(attempts=6, first_delay=0.1), timeout=Timeout(idle=1.0))


def workflow_of(graph, policy=POLICY, **options):
    workflow = BuiltinWorkflow(policy=policy, **options)
    operators = {node: Operator(OperatorConfig(id=node, instruction=f"Write {node}.")) for node in graph}
    for node, before in graph.items():
        workflow.add_operator(operators[node], [operators[parent] for parent in before])
    return workflow


def live_runs(workflow: Any) -> int:
    return len(workflow._runs)


def our_objects():
    """How many objects of our classes there are, by class."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("operad."))


def open_sockets():
    return sum(isinstance(each, socket.socket) and each.fileno() != -1 for each in gc.get_objects())


class Moody:
    """Answers after 0.1 s; refuses every hundredth time, and another hundredth time hangs."""

    def __init__(self):
        self.calls = itertools.count(1)
        self.faults = Counter[str]()
        self.inside = self.most = 0

    async def __call__(self, task):
        number = next(self.calls)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            if number % 100 == 50:
                self.faults["hung"] += 1
                await asyncio.Event().wait()
            await asyncio.sleep(0.1)
            if number % 100 == 0:
                self.faults["refused"] += 1
                raise ModelError("no room", transient=True)
        finally:
            self.inside -= 1
        return f"What {task.instruction} asks."


async def run_many(workflow, reasoner, runs):
    jobs = (Job(goal=f"Report {number}.") for number in range(runs))
    messages = await asyncio.gather(*(workflow.aexecute(job, reasoner) for job in jobs))
    return Counter(message.status for message in messages)


@pytest.mark.slow
def test_all_of_many_runs_end_though_calls_are_refused_and_hang():
    moody, heard = Moody(), Counter[type[Event]]()
    limits = Limits(concurrency=20)
    workflow = workflow_of(REPORT, limits=limits, listeners=[lambda event: heard.update([type(event)])])
    threads = threading.active_count()

    async def main():
        statuses = await run_many(workflow, ScriptedReasoner(moody), 300)
        return statuses, asyncio.all_tasks() - {asyncio.current_task()}

    statuses, tasks = run_on_fake_clock(main())
    assert statuses == {WorkflowStatus.SUCCESS: 300}
    assert min(moody.faults["hung"], moody.faults["refused"]) >= 30
    assert heard[OperatorRetried] == moody.faults.total()
    assert next(moody.calls) - 1 == 300 * len(REPORT) + heard[OperatorRetried]
    assert moody.most == limits.concurrency
    assert not tasks
    assert live_runs(workflow) == 0
    assert threading.active_count() <= threads  # a thread of an earlier test may end meanwhile


@pytest.mark.slow
def test_what_a_process_holds_does_not_grow_with_the_runs_it_has_seen():
    workflow = workflow_of(REPORT, limits=Limits(concurrency=20))

    def held_after(runs):
        run_on_fake_clock(run_many(workflow, ScriptedReasoner(Moody()), runs))
        return our_objects()

    held_after(20)  # what is built once
    few = held_after(50)
    assert held_after(200) - few == Counter()


async def test_calls_of_a_real_endpoint_leave_no_connection_and_no_task_behind():
    numbers, runs = itertools.count(1), amount(12, 40)

    def answer(request):
        number = next(numbers)
        return Fail(503) if number % 20 == 0 else Hang() if number % 20 == 10 else Say("Nothing of note.")

    graph = {"facts": [], "figures": [], "answer": ["facts", "figures"]}
    policy = Policy(retry=Retry(attempts=6, first_delay=0.01), timeout=Timeout(idle=0.5))
    workflow = workflow_of(graph, policy)
    before, tasks = open_sockets(), asyncio.all_tasks()
    with ScriptedModel(answer) as scripted:
        limits = Limits(concurrency=10)
        model = Model(
            name="load", base_url=scripted.base_url, api_key=SecretStr("scripted"), max_retries=0, limits=limits
        )
        statuses = await run_many(workflow, MonoModelReasoner(model), runs)
        await model.aclose()
        asked = len(scripted.requests)
    assert statuses == {WorkflowStatus.SUCCESS: runs}
    assert asked >= runs * len(graph) + asked // 10
    assert live_runs(workflow) == 0
    gc.collect()
    for _ in range(5):  # generators that were left in the middle are closed by tasks of their own
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    del scripted
    gc.collect()
    assert open_sockets() == before


async def test_places_that_become_free_together_are_taken_together():
    """One call let in at a time would take a busy event loop a turn for each."""
    limiter, gate, inside = Limiter(Limits(concurrency=20)), asyncio.Event(), 0

    async def call():
        nonlocal inside
        async with limiter.admitted():
            inside += 1
            await gate.wait()
            inside -= 1
            gate.clear()

    calls = [asyncio.create_task(call()) for _ in range(60)]
    await asyncio.sleep(0)
    assert inside == 20
    gate.set()
    for _ in range(6):
        await asyncio.sleep(0)
    assert inside == 20
    assert sum(task.done() for task in calls) == 20
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
