"""Measure how long a cancelled run takes to end, at various places, and what it leaves behind.

python test/benchmark/bench_cancel.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from operad.operators import Operator, OperatorConfig
from operad.runtime import Action, DbgptWorkflow, Job, Limits, Map, MonoModelReasoner, Policy, Retry, Tool, Workflow
from operad.runtime.testing import CallTools, Hang, ScriptedModel

JOB = Job(goal="nothing", inputs={"items": list("abcdef")})
UNDER_WAY = 0.5
"""Seconds from the start of a run to its cancellation."""


class Do:
    def __init__(self, op_id: str, work: Callable[[], Awaitable[str]]) -> None:
        self._id = op_id
        self._work = work

    def get_id(self) -> str:
        return self._id

    async def execute(self, *_: Any, **__: Any) -> str:
        return await self._work()


async def sleep() -> str:
    """Sleep."""
    await asyncio.sleep(60)
    return ""


def block() -> str:
    """Sleep in a thread, which continues after the run was cancelled."""
    time.sleep(2)
    return ""


async def fail() -> str:
    raise ConnectionError


def of(*operators: Any, policy: Policy | None = None, limits: Limits | None = None) -> Workflow:
    workflow = DbgptWorkflow(limits=limits)
    for operator in operators:
        workflow.add_operator(operator, policy=policy)
    return workflow


def calling(tool: Callable[..., Any]) -> Operator:
    return Operator(OperatorConfig(instruction="Call it.", actions=[Action(name="call", tools=(Tool.of(tool),))]))


async def consume(workflow: Workflow, reasoner: Any) -> None:
    stream = workflow.stream(JOB, reasoner)
    try:
        async for _ in stream:
            pass
    finally:
        await stream.aclose()


async def measure(name: str, workflow: Workflow, reasoner: Any = None) -> None:
    for way, run in (("aexecute", workflow.aexecute(JOB, reasoner)), ("stream", consume(workflow, reasoner))):
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(run)
        await asyncio.sleep(UNDER_WAY)
        began = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        seconds = time.perf_counter() - began
        left = len(asyncio.all_tasks() - before - {task})
        print(f"{name:22} {way:9} {1000 * seconds:6.1f} ms, {left} tasks left")


async def main() -> None:
    with ScriptedModel(lambda _: Hang()) as endpoint:
        asking = of(Operator(OperatorConfig(instruction="Answer.")))
        await measure("HTTP in mid-answer", asking, MonoModelReasoner(endpoint.model))
    for tool in (sleep, block):
        with ScriptedModel(lambda _, name=tool.__name__: CallTools([(name, {})])) as endpoint:
            await measure(f"tool that {tool.__name__}s", of(calling(tool)), MonoModelReasoner(endpoint.model))
    await measure("map of workflows", of(Map("each", Do("sleep", sleep), over="items")))
    await measure("wait before a retry", of(Do("fail", fail), policy=Policy(retry=Retry(first_delay=60))))
    await measure("queue of a limit", of(*(Do(name, sleep) for name in "abc"), limits=Limits(concurrency=1)))


asyncio.run(main())
