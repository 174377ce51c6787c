"""What it costs to keep runs in a database: milliseconds an operator, beside the engine that keeps nothing.

    python test/benchmark/bench_durable.py

An operator does nothing but make its message. Workers are this machine's, in processes of their own. All are
measured in turns and the least counts; on a busy machine only the ratios say anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "durability"))

from databases import Sqlite, has_postgres, postgres  # pyright: ignore[reportMissingImports]
from graphs import JOB, Graph, chain, fan
from page import markdown, write_into
from rich.console import Console
from rich.table import Table

from operad.runtime import Agent, BuiltinWorkflow, Profile, Workflow, WorkflowMessage
from operad.runtime.durable import Ledger
from operad.runtime.durable.served import Served
from operad.runtime.durable.worker import Worker

SHAPES: Mapping[str, Graph] = {"chain 50": chain(50), "wide 50": fan(50)}
PLAIN = "nothing kept"

Measure = Callable[[Graph], float]


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


def plainly(graph: Graph) -> float:
    return seconds_of(workflow_of(graph))


def kept_in(url: str, *, workers: bool) -> Measure:
    def measure(graph: Graph) -> float:
        workflow = workflow_of(graph)
        workflow.keep_in(Ledger(url, workers=served(workflow) if workers else None))
        return seconds_of(workflow)

    return measure


def seconds_of(workflow: Workflow) -> float:
    began = perf_counter()
    workflow.execute(JOB, None)  # type: ignore[arg-type]
    return perf_counter() - began


@contextmanager
def working(url: str, shape: str) -> Iterator[None]:
    """Two workers, while this lasts."""
    command = [sys.executable, __file__, "--work", json.dumps([url, shape])]
    workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


async def work(url: str, shape: str) -> None:
    await Worker(url, [served(workflow_of(SHAPES[shape]))], concurrency=4).serve(asyncio.Event())


def in_one_process(url: str, workers: bool, turns: int) -> dict[str, float]:
    """Per shape, the least seconds; the first turn makes the tables, and does not count."""
    measure = kept_in(url, workers=workers) if url else plainly
    costs: dict[str, float] = {}
    for shape, graph in SHAPES.items():
        with working(url, shape) if workers else ExitStack():
            measure(graph)
            costs[shape] = min(measure(graph) for _ in range(turns))
    return costs


def apart(url: str, workers: bool, turns: int) -> dict[str, float]:
    """The same in a process of its own, as one has one database."""
    command = [sys.executable, __file__, "--measure", json.dumps([url, workers, turns])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table_of(measured: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("where", *SHAPES, title="Milliseconds an operator, and how often the first line")
    for where, costs in measured.items():
        cells = [
            f"{1000 * cost / len(SHAPES[shape]):.3f} ({cost / measured[PLAIN][shape]:.0f}x)"
            for shape, cost in costs.items()
        ]
        table.add_row(where, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    asked = parser.parse_args()
    if asked.work:
        asyncio.run(work(*json.loads(asked.work)))
        return
    if asked.measure:
        print(json.dumps(in_one_process(*json.loads(asked.measure))))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = [Sqlite(folder), *([stack.enter_context(postgres())] if has_postgres() else [])]
        measured = {PLAIN: apart("", False, asked.turns)}
        for kind in kinds:
            measured[kind.name] = apart(kind.new(), False, asked.turns)
            measured[f"{kind.name}, 2 workers"] = apart(kind.new(), True, asked.turns)
    Console().print(table_of(measured))
    if asked.page:
        write_into(asked.page, markdown([table_of(measured)], "python test/benchmark/bench_durable.py"), "durable")


if __name__ == "__main__":
    main()
