"""What the engines cost: beside a loop written by hand on the standard library, and beside AWEL's own runner.

Three parts: microseconds per operator that does nothing; how near a run of sleeping operators
comes to its critical path; and the faults of AWEL's default runner, row by row of what ours must
do. All engines are measured in turns in one process, so that a busy machine slows them alike;
ratios are what counts. What may hang or crash runs in a process of its own.

    python test/benchmark/bench_engine.py [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from importlib import import_module
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from operad.runtime.errors import describe
from operad.runtime.message import Job, WorkflowMessage
from operad.runtime.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

Graph = Mapping[str, Sequence[str]]
"""The ids of the nodes before each node."""

Go = Callable[[], Awaitable[Any]]

JOB = Job(goal="nothing")
STDLIB, BUILTIN, DBGPT, STOCK = "graphlib + asyncio", "BuiltinWorkflow", "DbgptWorkflow", "AWEL's runner"


# Graphs


def chain(size: int) -> Graph:
    return {str(n): [str(n - 1)] if n else [] for n in range(size)}


def fan(size: int) -> Graph:
    branches = [str(n) for n in range(size)]
    return {"source": [], **{branch: ["source"] for branch in branches}, "join": branches}


def layered(layers: int, width: int, parents: int = 3, seed: int = 0) -> Graph:
    chance = random.Random(seed)  # noqa: S311
    before: dict[str, Sequence[str]] = {"input": []}
    last = ["input"]
    for layer in range(layers):
        above = last
        last = [f"{layer}.{n}" for n in range(width)]
        before.update({node: sorted(chance.sample(above, min(parents, len(above)))) for node in last})
    return {**before, "tail": last}


# Engines


class Nap:
    """An operator that sleeps so many seconds, or does nothing at all."""

    def __init__(self, op_id: str, seconds: float = 0.0) -> None:
        self._id = op_id
        self._seconds = seconds

    def get_id(self) -> str:
        return self._id

    async def execute(
        self,
        reasoner: Any,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return WorkflowMessage(scratchpad=self._id)


Naps = Mapping[str, Nap]


def in_workflow(kind: type[Workflow], graph: Graph, naps: Naps) -> Go:
    workflow = kind()
    for node, before in graph.items():
        workflow.add_operator(naps[node], [naps[parent] for parent in before])
    return partial(workflow.aexecute, JOB, None)  # type: ignore[arg-type]


async def by_waiting(graph: Graph, naps: Naps) -> None:
    """By hand: wait for the first of all running tasks."""
    said: dict[str, WorkflowMessage] = {}
    running: dict[asyncio.Task[WorkflowMessage], str] = {}
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    while sorter.is_active():
        for node in sorter.get_ready():
            inputs = [said[parent] for parent in graph[node]]
            running[asyncio.create_task(naps[node].execute(None, JOB, inputs))] = node
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            node = running.pop(task)
            said[node] = task.result()
            sorter.done(node)


async def by_queue(graph: Graph, naps: Naps) -> None:
    """By hand: each task reports to a queue."""
    said: dict[str, WorkflowMessage] = {}
    finished: asyncio.Queue[asyncio.Task[WorkflowMessage]] = asyncio.Queue()
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    running: dict[asyncio.Task[WorkflowMessage], str] = {}
    while sorter.is_active():
        for node in sorter.get_ready():
            task = asyncio.create_task(naps[node].execute(None, JOB, [said[parent] for parent in graph[node]]))
            running[task] = node
            task.add_done_callback(finished.put_nowait)
        task = await finished.get()
        node = running.pop(task)
        said[node] = task.result()
        sorter.done(node)


def in_stock_awel(graph: Graph, naps: Naps) -> Go:
    """AWEL's operators under AWEL's runner: maps, joins where there are several parents."""
    awel = import_awel()

    async def nap(name: str, *_: Any) -> WorkflowMessage:
        return await naps[name].execute(None, JOB)

    runner = awel.DefaultWorkflowRunner()
    with awel.DAG("bench"):
        nodes: dict[str, Any] = {}
        for name, before in graph.items():
            kind = awel.JoinOperator if len(before) > 1 else awel.MapOperator
            nodes[name] = node = kind(as_function(nap, name), runner=runner)
            for parent in before:
                node << nodes[parent]  # pyright: ignore[reportUnusedExpression]
    return partial(nodes[list(graph)[-1]].call, 1)


def as_function(coroutine_function: Callable[..., Any], *bound: Any) -> Callable[..., Any]:
    async def function(*args: Any) -> Any:  # AWEL awaits nothing but what `async def` made
        return await coroutine_function(*bound, *args)

    return function


def import_awel() -> Any:
    import_module("operad.runtime.awel")  # imports dbgpt without what it prints
    return sys.modules["dbgpt.core.awel"]


# Overhead


OVERHEAD: Mapping[str, Graph] = {
    "chain 10": chain(10),
    "chain 100": chain(100),
    "chain 1000": chain(1000),
    "fan 10": fan(10),
    "fan 100": fan(100),
    "fan 1000": fan(1000),
    "layered 1000": layered(100, 10),
}

STOCK_FAILS = {
    "chain 1000": "RecursionError",
    "layered 1000": "would not end: it walks every path",
}

Microseconds = dict[str, "float | str"]


async def overhead(repeats: int = 9, operators_per_repeat: int = 2000) -> dict[str, Microseconds]:
    """Per case and engine, the median microseconds per operator."""
    measured: dict[str, Microseconds] = {}
    for case, graph in OVERHEAD.items():
        naps = {node: Nap(node) for node in graph}
        engines: dict[str, Go] = {
            "wait": partial(by_waiting, graph, naps),
            "queue": partial(by_queue, graph, naps),
            BUILTIN: in_workflow(BuiltinWorkflow, graph, naps),
            DBGPT: in_workflow(DbgptWorkflow, graph, naps),
        }
        if case not in STOCK_FAILS:
            engines[STOCK] = in_stock_awel(graph, naps)
        seconds = await in_turns(engines, repeats, max(1, operators_per_repeat // len(graph)))
        found: dict[str, float] = {name: 1e6 * median(taken) / len(graph) for name, taken in seconds.items()}
        by_hand = min(found.pop("wait"), found.pop("queue"))  # the faster of two honest loops
        measured[case] = {STDLIB: by_hand, **found, **({STOCK: STOCK_FAILS[case]} if case in STOCK_FAILS else {})}
    return measured


async def in_turns(engines: Mapping[str, Go], repeats: int, calls: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for go in engines.values():
        await go()  # builds, and warms up
    for _ in range(repeats):
        for name, go in engines.items():
            started = time.perf_counter()
            for _ in range(calls):
                await go()
            seconds[name].append((time.perf_counter() - started) / calls)
    return seconds


# Makespan


async def makespan(repeats: int = 3) -> dict[str, float]:
    """Per engine, the median makespan over the critical path: 10 layers of 10 that sleep 10 to 80 ms."""
    graph = layered(10, 10, seed=1)
    chance = random.Random(2)  # noqa: S311
    sleeps = {node: 0.0 if node in ("input", "tail") else chance.uniform(0.01, 0.08) for node in graph}
    naps = {node: Nap(node, seconds) for node, seconds in sleeps.items()}
    ends: dict[str, float] = {}
    for node, before in graph.items():
        ends[node] = sleeps[node] + max((ends[parent] for parent in before), default=0.0)
    engines: dict[str, Go] = {
        STDLIB: partial(by_queue, graph, naps),
        BUILTIN: in_workflow(BuiltinWorkflow, graph, naps),
        DBGPT: in_workflow(DbgptWorkflow, graph, naps),
    }
    seconds = await in_turns(engines, repeats, 1)
    started = time.perf_counter()
    await in_stock_awel(graph, naps)()
    seconds[STOCK] = [time.perf_counter() - started]
    return {name: median(taken) / ends["tail"] for name, taken in seconds.items()}


# AWEL's runner beside ours: each row is a function of the runner that says what happened


def maps_and_join(runner: Any, functions: Sequence[Callable[..., Any]]) -> Any:
    """A trigger, a map for each function, and a join of them all."""
    awel = import_awel()
    with awel.DAG("row"):
        source, end = awel.TriggerOperator(runner=runner), awel.JoinOperator(lambda *x: x, runner=runner)
        for function in functions:
            source >> awel.MapOperator(function, runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
    return end


def timed(go: Go) -> str:
    started = time.perf_counter()
    try:
        asyncio.run(go())  # type: ignore[arg-type]
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # noqa: BLE001 - a row says what happened
        return describe(error)
    return f"{time.perf_counter() - started:.3g} s"


def eight_branches(runner: Any) -> str:
    async def sleep(_: Any) -> None:
        await asyncio.sleep(0.1)

    return timed(partial(maps_and_join(runner, [sleep] * 8).call, 1))


def long_chain(size: int, runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("chain"):
        end = awel.TriggerOperator(runner=runner)
        for _ in range(size):
            end = end >> awel.MapOperator(lambda x: x + 1, runner=runner)
    return timed(partial(end.call, 1))


def diamonds(stages: int, runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("diamonds"):
        end = awel.TriggerOperator(runner=runner)
        for _ in range(stages):
            join = awel.JoinOperator(lambda a, b: a + b, runner=runner)
            for _ in range(2):
                end >> awel.MapOperator(lambda x: 1, runner=runner) >> join  # pyright: ignore[reportUnusedExpression]
            end = join
    return timed(partial(end.call, 1))


def failing_sibling(runner: Any) -> str:
    story: list[str] = []

    async def fail(_: Any) -> None:
        await asyncio.sleep(0.01)
        raise LookupError

    async def work(_: Any) -> None:
        story.append("sibling started")
        try:
            await asyncio.sleep(1)
        finally:
            story.append("cancelled and ended")

    timed(partial(maps_and_join(runner, [fail, work]).call, 1))
    return ", ".join(story) or "sibling never started"


def thousand_failing_calls(runner: Any) -> str:
    async def fail(_: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError

    end = maps_and_join(runner, [fail])

    async def calls() -> None:
        await asyncio.gather(*(asyncio.create_task(end.call(1)) for _ in range(1000)), return_exceptions=True)

    asyncio.run(calls())
    return f"{len(end.dag._event_loop_task_id_to_ctx)} contexts leaked"


def eight_threads(runner: Any) -> str:
    async def pause(x: Any) -> Any:
        await asyncio.sleep(0)
        return x

    end = maps_and_join(runner, [pause] * 3)
    right: list[int] = []

    def fifty_calls(thread: int) -> None:
        async def calls() -> None:
            async def one(number: int) -> None:
                if await end.call(number) == (number,) * 3:
                    right.append(number)

            numbers = range(thread * 50, thread * 50 + 50)
            await asyncio.gather(*map(one, numbers), return_exceptions=True)

        asyncio.run(calls())

    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=fifty_calls, args=[n], daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 8
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    hung = sum(thread.is_alive() for thread in threads)
    return f"{len(right)} of 400 right" + (f", {hung} threads hang" if hung else "")


def cycle(runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("cycle"):
        a, b = (awel.MapOperator(lambda x: x, task_name=name, runner=runner) for name in "ab")
        a >> b >> a  # pyright: ignore[reportUnusedExpression]
    return timed(partial(b.call, 1))


def two_consumers(runner: Any) -> str:
    awel = import_awel()

    class Count(awel.StreamifyAbsOperator):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            for number in range(input_value):
                yield number

    class Collect(awel.UnstreamifyAbsOperator):
        async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
            return [number async for number in input_value]

    with awel.DAG("stream"):
        stream, end = Count(runner=runner), awel.JoinOperator(lambda a, b: (a, b), runner=runner)
        awel.TriggerOperator(runner=runner) >> stream  # pyright: ignore[reportUnusedExpression]
        stream >> Collect(runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
        stream >> Collect(runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
    return " and ".join(map(str, asyncio.run(end.call(3))))


def join_after_skip(runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("skip"):
        branch = awel.BranchOperator({lambda _: True: "a", lambda _: False: "b"}, runner=runner)
        end = awel.JoinOperator(lambda a, b: (a, b), runner=runner)
        awel.TriggerOperator(runner=runner) >> branch  # pyright: ignore[reportUnusedExpression]
        for name in "ab":
            arm = awel.MapOperator(lambda x: x, task_name=name, runner=runner)
            branch >> arm >> end  # pyright: ignore[reportUnusedExpression]
    return " and ".join(map(str, asyncio.run(end.call(1))))


ROWS: Mapping[str, Callable[[Any], str]] = {
    "8 branches of 0.1 s": eight_branches,
    "chain of 5,000": partial(long_chain, 5_000),
    "chain of 20,000": partial(long_chain, 20_000),
    "12 diamonds in a row": partial(diamonds, 12),
    "1,000 diamonds in a row": partial(diamonds, 1000),
    "a node raises": failing_sibling,
    "1,000 failing calls": thousand_failing_calls,
    "8 threads, 8 loops, one DAG": eight_threads,
    "a cycle": cycle,
    "one stream, two consumers": two_consumers,
    "a join after a skipped branch": join_after_skip,
}

TOO_LONG = {("1,000 diamonds in a row", "stock"): "would not end: it walks 2^1000 paths"}


def beside_stock() -> dict[str, dict[str, str]]:
    return {row: {runner: in_own_process(row, runner) for runner in ("stock", "ours")} for row in ROWS}


def in_own_process(row: str, runner: str) -> str:
    if (row, runner) in TOO_LONG:
        return TOO_LONG[row, runner]
    command = [sys.executable, __file__, "--row", row, "--runner", runner]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "did not end in 20 s"
    return done.stdout.strip() or f"exit status {done.returncode}"


def run_row(row: str, runner: str) -> None:
    awel = import_awel()
    from operad.runtime.awel import AwelRunner

    print(ROWS[row](awel.DefaultWorkflowRunner() if runner == "stock" else AwelRunner()), flush=True)
    os._exit(0)  # threads may hang


# Report


def report(measured: Mapping[str, Any]) -> None:
    console = Console()
    costs = Table("case", STDLIB, BUILTIN, DBGPT, STOCK, title="Microseconds per operator (and ratio to the first)")
    for case, engines in measured["overhead"].items():
        costs.add_row(case, *(cell(engines[name], engines[STDLIB]) for name in (STDLIB, BUILTIN, DBGPT, STOCK)))
    console.print(costs)
    spans = Table(*measured["makespan"], title="Makespan / critical path: 10 layers of 10 that sleep 10 to 80 ms")
    spans.add_row(*(f"{ratio:.3f}" for ratio in measured["makespan"].values()))
    console.print(spans)
    rows = Table("what", STOCK, "ours", title="AWEL's runner beside ours")
    for row, said in measured["awel"].items():
        rows.add_row(row, escape(said["stock"]), escape(said["ours"]))
    console.print(rows)


def cell(value: float | str, unit: float) -> str:
    return value if isinstance(value, str) else f"{value:.1f} ({value / unit:.2f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--runner", choices=("stock", "ours"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.row:
        run_row(asked.row, asked.runner)
    measured = {
        "overhead": asyncio.run(overhead()),
        "makespan": asyncio.run(makespan()),
        "awel": beside_stock(),
    }
    if asked.json:
        print(json.dumps(measured, indent=2))
    else:
        report(measured)


if __name__ == "__main__":
    main()
