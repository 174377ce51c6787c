"""Measure many durable runs at once, beside the same work in DBOS and LangGraph, and a server beside a bare route.

    python test/benchmark/bench_load_durable.py
    python test/benchmark/bench_load_durable.py --runs 20000 --at-once 1000 --only "Operad"

A run has two operators, which wait for 10 ms each, like a fast model. Every run is checked. Each line is measured in a
process and a database of its own, after some runs that do not count. LangGraph stores the state of a step before the next
one by default while the next one runs; with "sync" it stores it before, as Operad and DBOS do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1] / "durability"))

from databases import Sqlite, has_postgres, postgres  # pyright: ignore[reportMissingImports]
from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table

from operad import Job, Workflow, operator
from operad.runtime import Agent, Profile
from operad.runtime.durable import Ledger
from operad.runtime.durable.shared_agents import Served
from operad.runtime.durable.worker import Worker

SECONDS = 0.01
"""Seconds that an operator waits."""

AT_ONCE = {1: 20, 100: 300, 1000: 1000}
"""Numbers of runs at once, and how many runs are measured."""

REQUESTS, REQUESTS_AT_ONCE = 1000, 200

One = Callable[[str, int], Awaitable[str]]
"""Function that executes a run with an id and a number, and returns ``a<number>b``."""

EXPERT = """workflow: Echo
nodes:
  begin: {type: start, variables: {query: string}}
  say: {type: answer, after: begin, answer: "a{{#begin.query#}}b"}
"""


@operator
async def first(job: Job) -> str:
    await asyncio.sleep(SECONDS)
    return f"a{job.goal}"


@operator
async def second(first: str) -> str:
    await asyncio.sleep(SECONDS)
    return f"{first}b"


def served() -> Served:
    return Served("load", [Agent(Profile(name="load"), Workflow(first >> second, name="load"), None)])  # type: ignore[arg-type]


@asynccontextmanager
async def operad(url: str, *, workers: bool = False) -> AsyncGenerator[One, None]:
    with Ledger(url, workers=served() if workers else None) as ledger:
        workflow = Workflow(first >> second, name="load", durable=ledger)

        async def one(run_id: str, number: int) -> str:
            return (await workflow.arun(str(number), run_id=run_id)).text

        yield one


@asynccontextmanager
async def dbos(url: str) -> AsyncGenerator[One, None]:
    peer: Any = import_module("dbos")
    DBOS, SetWorkflowID = peer.DBOS, peer.SetWorkflowID  # noqa: N806 - its names

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})

    @DBOS.step()
    async def one_step(text: str) -> str:
        await asyncio.sleep(SECONDS)
        return f"a{text}"

    @DBOS.step()
    async def other_step(text: str) -> str:
        await asyncio.sleep(SECONDS)
        return f"{text}b"

    @DBOS.workflow()
    async def both(number: str) -> str:
        return await other_step(await one_step(number))

    DBOS.launch()

    async def one(run_id: str, number: int) -> str:
        with SetWorkflowID(run_id):
            return await both(str(number))

    yield one
    DBOS.destroy()


class State(TypedDict):
    text: str


@asynccontextmanager
async def langgraph(url: str, *, durability: Any = None) -> AsyncGenerator[One, None]:
    from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingImports]

    async def one_node(state: State) -> State:
        await asyncio.sleep(SECONDS)
        return {"text": f"a{state['text']}"}

    async def other_node(state: State) -> State:
        await asyncio.sleep(SECONDS)
        return {"text": f"{state['text']}b"}

    graph: Any = StateGraph(State)
    graph.add_node("first", one_node)
    graph.add_node("second", other_node)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    async with checkpointer(url) as saver:
        compiled = graph.compile(checkpointer=saver)

        async def one(run_id: str, number: int) -> str:
            config = {"configurable": {"thread_id": run_id}}
            return (await compiled.ainvoke({"text": str(number)}, config, durability=durability))["text"]

        yield one


@asynccontextmanager
async def checkpointer(url: str) -> AsyncGenerator[Any, None]:
    if url.startswith("sqlite"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # pyright: ignore[reportMissingImports]

        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # pyright: ignore[reportMissingImports]
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool  # pyright: ignore[reportMissingImports]

    options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}  # as its documentation says
    async with AsyncConnectionPool(url, min_size=15, max_size=15, timeout=120, kwargs=options, open=False) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await saver.setup()
        yield saver


WHO: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any], int]] = {
    "Operad": (operad, {}, 0),
    "Operad, 1 worker": (operad, {"workers": True}, 1),
    "Operad, 2 workers": (operad, {"workers": True}, 2),
    "DBOS steps": (dbos, {}, 0),
    "LangGraph": (langgraph, {"durability": "async"}, 0),
    "LangGraph, sync": (langgraph, {"durability": "sync"}, 0),
}
"""Measured programs: a context that yields the function that executes a run, its options, and the number of workers."""


async def load(who: str, url: str, runs: int, at_once: int) -> dict[str, float]:
    """Execute runs, and return the figures; at most `at_once` are in progress."""
    context, options, _ = WHO[who]
    seconds: list[float] = []
    async with context(url, **options) as one:

        async def several(numbers: Iterator[int], prefix: str) -> None:
            for number in numbers:
                began = perf_counter()
                text = await one(f"{prefix}{number}", number)
                seconds.append(perf_counter() - began)
                if text != f"a{number}b":
                    raise SystemExit(f"{who}: run {number} said {text!r}")

        async def all_of(count: int, prefix: str) -> None:
            numbers = iter(range(count))
            await asyncio.gather(*(several(numbers, prefix) for _ in range(at_once)))

        await all_of(min(at_once, 50), "warm")
        seconds.clear()
        before, began = resident(), perf_counter()
        await all_of(runs, "run")
        whole = perf_counter() - began
        after = resident()
    ordered = sorted(seconds)
    middle, late = (ordered[math.ceil(len(ordered) * share) - 1] for share in (0.5, 0.99))
    return {
        "rate": runs / whole,
        "p50": middle,
        "p99": late,
        "growth": (after - before) / runs * 1000,
        "ended": len(ordered),
    }


def resident() -> float:
    """Return the resident memory of the process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def working(url: str, count: int) -> Generator[None]:
    command = [sys.executable, __file__, "--work", url]
    workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


async def work(url: str) -> None:
    await Worker(url, [served()], concurrency=100).serve(asyncio.Event())


def apart(who: str, url: str, runs: int, at_once: int) -> dict[str, float]:
    """Measure in a new process."""
    command = [sys.executable, __file__, "--measure", json.dumps([who, url, runs, at_once])]
    with working(url, WHO[who][2]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise SystemExit(f"{who}, {at_once} at once: {done.stderr[-2000:]}")
    print(f"{who}, {at_once} at once: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)  # takes minutes
    return json.loads(done.stdout.splitlines()[-1])


# The server


def bare(port: int) -> None:
    """Serve a route that returns a constant."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def reply(request: Any) -> Any:
        await request.json()
        return JSONResponse({"choices": [{"message": {"content": "axb"}}]})

    app = Starlette(routes=[Route("/v1/chat/completions", reply, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error")


async def requests(port: int) -> dict[str, float]:
    """Send the requests, and return the figures."""
    import httpx

    seconds: list[float] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120, limits=limits) as client:
        body = {"model": "Echo", "messages": [{"role": "user", "content": "x"}]}

        async def several(numbers: Iterator[int]) -> None:
            for _ in numbers:
                began = perf_counter()
                reply = await client.post("/v1/chat/completions", json=body)
                seconds.append(perf_counter() - began)
                if reply.status_code != 200 or reply.json()["choices"][0]["message"]["content"] != "axb":
                    raise SystemExit(f"{reply.status_code}: {reply.text}")

        async def all_of(count: int) -> float:
            numbers, began = iter(range(count)), perf_counter()
            await asyncio.gather(*(several(numbers) for _ in range(REQUESTS_AT_ONCE)))
            return perf_counter() - began

        await all_of(REQUESTS_AT_ONCE)
        seconds.clear()
        whole = await all_of(REQUESTS)
    ordered = sorted(seconds)
    return {"rate": REQUESTS / whole, "p50": ordered[REQUESTS // 2], "p99": ordered[math.ceil(REQUESTS * 0.99) - 1]}


def serving(folder: Path, options: list[str] | None) -> dict[str, float]:
    """Start a server, and return the figures of its requests; None for the options starts the bare route."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    expert = folder / "echo.yaml"
    expert.write_text(EXPERT)
    ours = [
        sys.executable,
        "-m",
        "operad",
        "serve",
        str(expert),
        "--port",
        str(port),
        "--max-runs",
        "400",
        *(options or []),
    ]
    command = [sys.executable, __file__, "--bare", str(port)] if options is None else ours
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None:
                raise SystemExit(f"{command} ended with {server.returncode}")
            sleep(0.05)
        return asyncio.run(requests(port))
    finally:
        server.terminate()
        server.wait()


def runs_table(measured: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]) -> Table:
    counts = list(next(iter(measured.values())))
    table = Table(
        "runs",
        *(f"{count:,} at once: runs a second" for count in counts),
        *(f"{count:,} at once: 50 %, 99 %, ms" for count in counts),
        "memory, KiB a run",
        title="Durable runs of two operators of 10 ms (and how many times slower than Operad on the same database)",
    )
    for (database, who), figures in measured.items():
        ours = measured.get((database, "Operad"), figures)
        rates = (f"{each['rate']:,.0f} ({ours[count]['rate'] / each['rate']:.2f}x)" for count, each in figures.items())
        late = (f"{each['p50'] * 1000:,.0f}, {each['p99'] * 1000:,.0f}" for each in figures.values())
        table.add_row(f"{database}, {who}", *rates, *late, f"{figures[counts[-1]]['growth'] * 1.024:.1f}")
    return table


def requests_table(measured: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(
        "server",
        "requests a second",
        "50 %, ms",
        "99 %, ms",
        title=f"{REQUESTS:,} requests, {REQUESTS_AT_ONCE} at once (and how many times slower)",
    )
    most = next(iter(measured.values()))["rate"]
    for who, each in measured.items():
        rate = f"{each['rate']:,.0f} ({most / each['rate']:.2f}x)"
        table.add_row(who, rate, f"{each['p50'] * 1000:,.0f}", f"{each['p99'] * 1000:,.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, help="runs: see --at-once")
    parser.add_argument("--at-once", type=int, help="measure only this number of runs at once")
    parser.add_argument("--only", action="append", choices=list(WHO), help="measure only this; may be repeated")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables between the marks of this file")
    args = parser.parse_args()
    if args.work:
        asyncio.run(work(args.work))
    elif args.bare:
        bare(args.bare)
    elif args.measure:
        print(json.dumps(asyncio.run(load(*json.loads(args.measure)))))
    else:
        measure(args)


def measure(args: argparse.Namespace) -> None:
    counts = {args.at_once: args.runs or args.at_once} if args.at_once else AT_ONCE
    console = Console(width=max(200, Console().width))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = [Sqlite(folder), *([stack.enter_context(postgres())] if has_postgres() else [])]
        measured = {
            (kind.name, who): {count: apart(who, kind.new(), runs, count) for count, runs in counts.items()}
            for kind in kinds
            for who in args.only or WHO
            if not (WHO[who][2] and isinstance(kind, Sqlite))  # workers need a server
        }
        tables = [runs_table(measured)]
        if not args.only:
            servers = {"a bare Starlette route": serving(folder, None), "operad serve": serving(folder, [])}
            servers |= {f"operad serve, {kind.name}": serving(folder, ["--db", kind.new()]) for kind in kinds}
            tables.append(requests_table(servers))
    for table in tables:
        console.print(table)
    if args.page:
        text = markdown(tables, "python test/benchmark/bench_load_durable.py")
        worse = worsened(args.page, text, "load-durable", ["operad serve"])
        write_into(args.page, text, "load-durable")
        end(worse)


if __name__ == "__main__":
    main()
