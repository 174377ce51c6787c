"""Run many workflows at once against an endpoint that answers slowly, returns errors and hangs.

    python test/benchmark/bench_load.py              # 1,000 runs of 10 operators, all started at once
    python test/benchmark/bench_load.py --long       # 50,000 runs, in minutes
    python test/benchmark/bench_load.py --client     # the cost of a model call, compared with the openai client

The endpoint is a real one in its own process on this machine: it answers chat completions after `--seconds`, one in a
hundred with HTTP 500 or 503, and does not answer another one in a hundred.
The operators, the reasoner and the model client are the real ones, with a `Retry`, a `Timeout` and
`Limits(concurrency=)`.

The ideal is the waiting time that the endpoint itself causes: the time of all requests, including hangs until their time
limit, divided by the concurrency, but at least the longest path through a run. The exit status is 1 if a run does not
succeed, or if something is left behind. If CPU seconds and seconds of waiting for a processor are close to the measured
seconds, the processor was the limit: lower the concurrency, or wait until the machine is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from answers import Endpoint, Served, Serving, serving
from graphs import Graph, critical_path
from page import markdown, write_into
from rich.console import Console
from rich.table import Table

from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, MonoModelReasoner, Policy, Retry, Timeout, WorkflowStatus
from operad.runtime.events import Event, OperatorRetried
from operad.runtime.models.messages import Message
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limits
from operad.runtime.values.errors import OperatorError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SILENCE = 10.0
"""Time limit of an attempt, in multiples of the time of an answer, but at least a second, for a busy machine."""

WARM_UP = 20
"""Runs before the measurement, which import, build and start everything once."""

CALLS, TURNS = 400, 7
"""Number of calls of a measurement, and of measurements."""

LEFT = ("tasks", "runs", "threads", "open files")

SAMPLES = 50
"""Number of samples of the memory over all runs."""

REPORT: Graph = {
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
"""Workflow of a report: branches that join, and a chain at the end."""


@dataclass(frozen=True)
class Load:
    """Size of the load: runs, operators per run, concurrent runs and calls."""

    runs: int
    operators: int
    at_once: int
    concurrency: int
    endpoint: Endpoint

    @property
    def silence(self) -> float:
        """Return the seconds without activity after which an attempt ends."""
        return max(1.0, SILENCE * self.endpoint.seconds)


@dataclass
class Memory:
    """Samples of the memory: runs ended, and MiB resident."""

    samples: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    def look(self, ended: int) -> None:
        self.samples.append((ended, resident()))

    def per_thousand(self, after: float) -> float:
        """Return the KiB that a thousand runs add: the slope of a line through the samples after that share of the runs."""
        late = [sample for sample in self.samples if sample[0] >= after * self.samples[-1][0]]
        middle, level = (sum(each) / len(late) for each in zip(*late, strict=True))
        spread = sum((ended - middle) ** 2 for ended, _ in late)
        return sum((ended - middle) * (held - level) for ended, held in late) / spread * 1000 * 1024 if spread else 0.0


@dataclass(frozen=True)
class Held:
    """Objects of a process while no event loop runs: those of Operad's classes, by class."""

    threads: int
    files: int
    objects: Counter[str]

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        ours = (type(each) for each in gc.get_objects() if str(type(each).__module__).startswith("operad."))
        return cls(
            threads=threading.active_count(),
            files=len(os.listdir("/proc/self/fd")),
            objects=Counter(kind.__qualname__ for kind in ours),
        )


@dataclass
class Course:
    """Figures of all runs.

    Attributes:
        outcomes: The number of runs by outcome.
        retried: The number of retries.
        memory: The samples of the memory.
        seconds: Seconds from the start of the first run to the end of the last one.
        cpu: CPU seconds of the process.
        starved: Seconds in which the process was ready while other processes had the processors.
        tasks: Tasks left after all runs.
        live: Runs that the workflow still knew after all runs.
    """

    outcomes: Counter[str] = field(default_factory=Counter[str])
    retried: int = 0
    memory: Memory = field(default_factory=Memory)
    seconds: float = 0.0
    cpu: float = 0.0
    starved: float = 0.0
    tasks: int = 0
    live: int = 0

    def heard(self, event: Event) -> None:
        self.retried += isinstance(event, OperatorRetried)


@dataclass(frozen=True)
class Measured:
    """Result of a load; `left` counts what was not there before."""

    load: Load
    course: Course
    served: Served
    left: Mapping[str, int]

    @property
    def ideal(self) -> float:
        served = self.served
        return self._ideal((served.answers + served.errors) * self.load.endpoint.seconds)

    @property
    def ideal_here(self) -> float:
        """Return the ideal with the time that the endpoint really took, which is more on a busy machine."""
        return self._ideal(self.served.taken)

    def _ideal(self, taken: float) -> float:
        graph = graph_of(self.load.operators)
        longest_way = critical_path(graph, dict.fromkeys(graph, self.load.endpoint.seconds))
        return max((taken + self.served.hangs * self.load.silence) / self.load.concurrency, longest_way)


def workflow_of(graph: Graph, policy: Policy, heard: Any) -> BuiltinWorkflow:
    workflow = BuiltinWorkflow(policy=policy, listeners=[heard])
    operators = {
        node: Operator(OperatorConfig(id=node, instruction=f"Write the part of the report called {node}."))
        for node in graph
    }
    for node, before in graph.items():
        workflow.add_operator(operators[node], [operators[parent] for parent in before])
    return workflow


def graph_of(operators: int) -> Graph:
    """Return the report graph, cut or repeated to the number of operators."""
    whole: dict[str, Sequence[str]] = {}
    last: list[str] = []
    for number in range(-(-operators // len(REPORT))):
        suffix = f"-{number}" if number else ""
        whole |= {f"{n}{suffix}": [f"{p}{suffix}" for p in before] or last for n, before in REPORT.items()}
        last = [f"answer{suffix}"]
    return dict(list(whole.items())[:operators])


def measure(load: Load, serving: Serving) -> Measured:
    asyncio.run(run_all(replace(load, runs=WARM_UP, at_once=WARM_UP), serving))
    held, before = Held.now(), serving.served()
    course = asyncio.run(run_all(load, serving))
    now = Held.now()
    left = {
        "tasks": course.tasks,
        "runs": course.live,
        "threads": now.threads - held.threads,
        "open files": now.files - held.files,
        **(now.objects - held.objects),
    }
    return Measured(load, course, since(before, serving.served()), left)


async def run_all(load: Load, serving: Serving) -> Course:
    course = Course()
    policy = Policy(retry=Retry(attempts=6, first_delay=load.endpoint.seconds), timeout=Timeout(idle=load.silence))
    workflow = workflow_of(graph_of(load.operators), policy, course.heard)
    numbers, every = iter(range(load.runs)), max(1, load.runs // SAMPLES)
    # It does not try again by itself: the policy does.
    limits = Limits(concurrency=load.concurrency)
    model = Model(name="load", base_url=serving.base_url, max_retries=0, limits=limits)
    reasoner = MonoModelReasoner(model)

    async def one_after_another() -> None:
        for number in numbers:
            course.outcomes[await outcome(workflow, Job(goal=f"Report {number} on the harbour."), reasoner)] += 1
            if (ended := course.outcomes.total()) % every == 0:
                course.memory.look(ended)

    began, cpu, waited = time.perf_counter(), time.process_time(), waited_for_processors()
    await asyncio.gather(*(one_after_another() for _ in range(load.at_once)))
    course.seconds, course.cpu = time.perf_counter() - began, time.process_time() - cpu
    course.starved = waited_for_processors() - waited
    gc.collect()
    for _ in range(5):  # generators that were left in the middle are closed by tasks of their own
        await asyncio.sleep(0)
    course.tasks = len(asyncio.all_tasks() - {asyncio.current_task()})
    course.live = len(workflow._runs)  # pyright: ignore[reportPrivateUsage]
    await model.aclose()
    return course


async def outcome(workflow: BuiltinWorkflow, job: Job, reasoner: MonoModelReasoner) -> str:
    try:
        return (await workflow.aexecute(job, reasoner)).status.value
    except OperatorError as error:
        return str(error)


def since(before: Served, after: Served) -> Served:
    return Served(**{name: count - getattr(before, name) for name, count in asdict(after).items()})


def waited_for_processors() -> float:
    """Return the seconds in which the thread of the event loop was ready and did not run."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def resident() -> float:
    """Return the resident memory of the process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# What a call costs


Call = Callable[[], Awaitable[object]]

ASKED: Any = [{"role": "user", "content": "Report on the harbour. " * 20}]


async def per_call(serving: Serving, concurrency: int) -> dict[str, list[float]]:
    """Measure the CPU seconds of a call by client, in turns."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    direct = DefaultAsyncHttpxClient(trust_env=False)
    client = AsyncOpenAI(base_url=serving.base_url, api_key="none", max_retries=0, http_client=direct)
    model = Model(name="load", base_url=serving.base_url, max_retries=0)
    limited = model.model_copy(update={"limits": Limits(concurrency=concurrency)})
    kinds: Mapping[str, Call] = {
        "openai's client": partial(by_openai, client),
        "Model": partial(model.complete, [Message.user(ASKED[0]["content"])]),
        "Model with limits": partial(limited.complete, [Message.user(ASKED[0]["content"])]),
    }
    costs: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(TURNS + 1):
        for kind, call in kinds.items():
            began = time.process_time()
            await many(call, CALLS, concurrency)
            if turn:  # the first one opens connections
                costs[kind].append((time.process_time() - began) / CALLS)
    for each in (model, limited):
        await each.aclose()
    await client.close()
    return costs


async def by_openai(client: AsyncOpenAI) -> str:
    """Call the openai client as its documentation shows it."""
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    text = ""
    async with await client.chat.completions.create(model="load", messages=ASKED, **options) as stream:
        async for chunk in stream:
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    return text


async def many(call: Call, calls: int, at_once: int) -> None:
    left = iter(range(calls))

    async def one_after_another() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(one_after_another() for _ in range(at_once)))


# Saying it


def table_of(measured: Measured) -> Table:
    load, served, course = measured.load, measured.served, measured.course
    samples = course.memory.samples
    early = next(held for ended, held in samples if ended >= load.runs / 5)
    left = {name: count for name, count in measured.left.items() if count or name in LEFT}
    rows = {
        "runs that ended": ", ".join(f"{count:,} {outcome}" for outcome, count in course.outcomes.items()),
        "requests": f"{served.requests:,}: {served.answers:,} answered after {load.endpoint.seconds:g} s, "
        f"{served.errors:,} refused, {served.hangs:,} hung for {load.silence:g} s",
        "attempts made again": f"{course.retried:,}, needed {served.errors + served.hangs:,}",
        "connections opened": f"{served.connections:,}",
        "measured": f"{course.seconds:.1f} s",
        "ideal": f"{measured.ideal:.1f} s, ratio {course.seconds / measured.ideal:.3f}",
        "ideal, late answers counted": f"{measured.ideal_here:.1f} s, ratio {course.seconds / measured.ideal_here:.3f}",
        "waited for a processor": f"{course.starved:.1f} s, {course.starved / course.seconds:.0%} of the time",
        "CPU": f"{course.cpu:.1f} s, {course.cpu / course.seconds:.0%} of a core; "
        f"{course.cpu / served.requests * 1e3:.2f} ms a request",
        "CPU of the endpoint": f"{served.cpu:.1f} s, {served.cpu / served.requests * 1e3:.2f} ms a request",
        "memory": f"{samples[0][1]:.1f} MiB at first, {early:.1f} after a fifth of the runs, "
        f"{samples[-1][1]:.1f} at the end, {max(held for _, held in samples):.1f} at most",
        "growth after a fifth": f"{course.memory.per_thousand(0.2):+.1f} KiB for 1,000 runs",
        "left at the end": ", ".join(f"{count} {name}" for name, count in left.items()),
    }
    title = (
        f"{load.runs:,} runs of {load.operators} operators, {load.at_once:,} at once; {load.concurrency} calls at once"
    )
    table = Table(show_header=False, title=title)
    for name, said in rows.items():
        table.add_row(name, said)
    busy = f"{os.getloadavg()[0]:.1f}"
    table.caption = (
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, load average {busy}"
    )
    return table


def costs_table(costs: Mapping[str, Sequence[float]]) -> Table:
    table = Table("", title="CPU of a call that streams 8 chunks")
    for column in ("ms", "ratio"):
        table.add_column(column, justify="right")
    beside = median(next(iter(costs.values())))
    for who, seconds in costs.items():
        table.add_row(who, f"{median(seconds) * 1e3:.2f}", f"{median(seconds) / beside:.2f}")
    return table


def faults(measured: Measured) -> Iterator[str]:
    load, outcomes = measured.load, measured.course.outcomes
    if outcomes != {WorkflowStatus.SUCCESS.value: load.runs}:
        yield f"not every run succeeded: {dict(outcomes)}"
    for name, count in measured.left.items():
        if count > 0:
            yield f"{count} {name} more than before"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, help="runs: 1,000, or 50,000 with --long")
    parser.add_argument("--operators", type=int, help="operators per run: 10, or 2 with --long")
    parser.add_argument("--at-once", type=int, help="concurrent runs: all, or 1,000 with --long")
    parser.add_argument("--concurrency", type=int, help="concurrent model calls: 10, or 20 with --long")
    parser.add_argument("--seconds", type=float, help="seconds per answer: 0.1, or 0.02 with --long")
    parser.add_argument("--long", action="store_true", help="50,000 runs")
    parser.add_argument("--client", action="store_true", help="measure the cost of a call")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    logging.getLogger("operad").setLevel(logging.ERROR)
    console = Console(width=max(120, Console().width))
    if args.client:
        with serving(Endpoint(seconds=0.02, errors=0, hangs=0)) as served:
            console.print(costs_table(asyncio.run(per_call(served, args.concurrency or 20))))
        return
    runs = args.runs or (50_000 if args.long else 1000)
    load = Load(
        runs=runs,
        operators=args.operators or (2 if args.long else 10),
        at_once=args.at_once or (min(runs, 1000) if args.long else runs),
        concurrency=args.concurrency or (20 if args.long else 10),
        endpoint=Endpoint(seconds=args.seconds or (0.02 if args.long else 0.1)),
    )
    with serving(load.endpoint) as served:
        measured = measure(load, served)
    if args.json:
        args.json.write_text(json.dumps(asdict(measured), indent=2) + "\n", encoding="utf-8")
    console.print(table_of(measured))
    if args.page:
        write_into(args.page, markdown([table_of(measured)], "python test/benchmark/bench_load.py"), "load")
    if found := list(faults(measured)):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
