"""Measure the milliseconds per operator of durable runs, compared with runs without a database.

    python test/benchmark/bench_durable.py

An operator only creates its message. Workers are processes on this machine. For comparison, single commits are measured.
The measurements take turns, and the minimum counts; on a busy machine, only the ratios are meaningful.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "durability"))

from databases import Sqlite, has_postgres, postgres  # pyright: ignore[reportMissingImports]
from graphs import JOB, Graph, chain, fan
from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from operad.runtime import Agent, BuiltinWorkflow, Profile, Workflow, WorkflowMessage
from operad.runtime.durable import Ledger
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.shared_agents import Served
from operad.runtime.durable.store import Store
from operad.runtime.durable.worker import Worker

SHAPES: Mapping[str, Graph] = {"chain 50": chain(50), "wide 50": fan(50)}
PLAIN = "nothing kept"

IDLE = "idle worker"
IDLE_AFTER, IDLE_FOR = 10.0, 20.0
"""Seconds after its start from which, and for which, an idle worker is watched."""


class Nothing:
    """An operator that does nothing."""

    def __init__(self, id: str) -> None:
        self._id = id

    def get_id(self) -> str:
        return self._id

    async def execute(self, *_: object, **__: object) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=self._id)


def workflow_of(graph: Graph) -> Workflow:
    workflow = BuiltinWorkflow(name="nothing")
    made = {node: Nothing(str(node)) for node in graph}
    for node, before in graph.items():
        workflow.add_operator(made[node], [made[parent] for parent in before])
    return workflow


def served(workflow: Workflow) -> Served:
    return Served("nothing", [Agent(Profile(name="nothing"), workflow, None)])  # type: ignore[arg-type]


def plainly(url: str, graph: Graph) -> float:
    return seconds_of(workflow_of(graph))


def kept(url: str, graph: Graph) -> float:
    workflow = workflow_of(graph)
    if not _opened:
        _opened.append(Ledger(url))
    workflow.keep_in(_opened[0])
    return seconds_of(workflow)


_opened: list[Ledger] = []
"""The ledger of this process: a program opens its database once."""


def with_workers(url: str, graph: Graph) -> float:
    workflow = workflow_of(graph)
    workflow.keep_in(Ledger(url, workers=served(workflow)))
    return seconds_of(workflow)


def commits(url: str, graph: Graph) -> float:
    """Write and commit a row for each operator."""
    Store(database_url(url)).close()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sql("CREATE TABLE IF NOT EXISTS rows_of_ours (number integer)"))
    began = perf_counter()
    for _ in graph:
        with engine.begin() as connection:
            connection.execute(sql("INSERT INTO rows_of_ours VALUES (1)"))
    return perf_counter() - began


MEASURES: Mapping[str, Callable[[str, Graph], float]] = {
    each.__name__: each for each in (plainly, kept, with_workers, commits)
}


def seconds_of(workflow: Workflow) -> float:
    began = perf_counter()
    workflow.execute(JOB, None)  # type: ignore[arg-type]
    return perf_counter() - began


@contextmanager
def working(url: str, shape: str, count: int) -> Generator[list[int]]:
    """Run workers until the block ends; yield their process ids."""
    command = [sys.executable, __file__, "--work", json.dumps([url, shape])]
    workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield [worker.pid for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


async def work(url: str, shape: str) -> None:
    await Worker(url, [served(workflow_of(SHAPES[shape]))], concurrency=4).serve(asyncio.Event())


def in_one_process(url: str, name: str, workers: int, turns: int) -> dict[str, float]:
    """Return the minimum seconds by shape; the first turn creates the tables and does not count."""
    costs: dict[str, float] = {}
    for shape, graph in SHAPES.items():
        with working(url, shape, workers):
            MEASURES[name](url, graph)
            costs[shape] = min(MEASURES[name](url, graph) for _ in range(turns))
    return costs


def apart(url: str, name: str, turns: int, *, workers: int = 0) -> dict[str, float]:
    """Measure in a new process, because a process has one database."""
    command = [sys.executable, __file__, "--measure", json.dumps([url, name, workers, turns])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def idle(url: str) -> float:
    """Return the share of a core that an idle worker uses."""
    with working(url, next(iter(SHAPES)), 1) as (pid,):
        sleep(IDLE_AFTER)
        before = processor_seconds(pid)
        sleep(IDLE_FOR)
        return (processor_seconds(pid) - before) / IDLE_FOR


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process; needs ``/proc``."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table_of(measured: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("where", *SHAPES, IDLE, title="Milliseconds per operator (and ratio to the first line)")
    for where, costs in measured.items():
        cells = [
            f"{1000 * costs[shape] / len(graph):.3f} ({costs[shape] / measured[PLAIN][shape]:.0f}x)"
            for shape, graph in SHAPES.items()
        ]
        table.add_row(where, *cells, f"{100 * costs[IDLE]:.2f} % of a core" if IDLE in costs else "")
    return table


def rows(kind: Any, turns: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield all measurements of one kind of database."""
    yield f"{kind.name}, a commit each", apart(kind.new(), "commits", turns)
    yield kind.name, apart(kind.new(), "kept", turns)
    if isinstance(kind, Sqlite):
        return
    for count in (1, 2, 4):
        costs = apart(kind.new(), "with_workers", turns, workers=count)
        yield (
            f"{kind.name}, {count} worker{'s' * (count > 1)}",
            costs | ({IDLE: idle(kind.new())} if count == 1 else {}),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    if args.work:
        asyncio.run(work(*json.loads(args.work)))
        return
    if args.measure:
        print(json.dumps(in_one_process(*json.loads(args.measure))))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = [Sqlite(folder), *([stack.enter_context(postgres())] if has_postgres() else [])]
        measured = {PLAIN: apart("", "plainly", args.turns)}
        for kind in kinds:
            measured.update(rows(kind, args.turns))
    Console().print(table_of(measured))
    if args.page:
        text = markdown([table_of(measured)], "python test/benchmark/bench_durable.py")
        worse = worsened(
            args.page,
            text,
            "durable",
            [where for where in measured if not where.endswith("a commit each")],
        )
        write_into(args.page, text, "durable")
        end(worse)


if __name__ == "__main__":
    main()
