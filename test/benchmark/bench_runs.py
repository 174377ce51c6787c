# ruff: noqa: S608 - the statements are our own
"""Measure a database with many runs: bytes per run, listing, deletion, and how long writers wait meanwhile.

    python test/benchmark/bench_runs.py --runs 100000 --delete 7800 --pages

One run of six operators is stored, and its rows are copied. Commands are timed as from a shell.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import stored_runs  # pyright: ignore[reportMissingImports]
from page import machine, write_figures

OPERAD = (sys.executable, "-c", "from operad.cli.entry import main; main()")


def timed(name: str, path: Path, *arguments: str) -> float:
    """Run a command, print its seconds and its maximum memory, and return its CPU seconds."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OPERAD_DB": str(path)}
    done = subprocess.run([*OPERAD, "runs", *arguments], env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {seconds:.2f} s, {cpu:.2f} s of CPU, {after.ru_maxrss / 1024:.0f} MB at most", flush=True)
    if done.returncode:
        print(done.stderr)
    return cpu


class Writer:
    """Thread that writes to the file repeatedly and records the longest time."""

    def __init__(self, path: Path) -> None:
        self.worst = 0.0
        self.writes = 0
        self._path = path
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _go(self) -> None:
        with closing(sqlite3.connect(self._path, timeout=300, isolation_level=None)) as connection:
            while not self._stopped.wait(0.05):
                began = time.perf_counter()
                connection.execute("UPDATE operad_runs SET updated = updated WHERE run_id = 'finished'")
                self.worst = max(self.worst, time.perf_counter() - began)
                self.writes += 1


def size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*") if each.is_file())


def queries(path: Path) -> dict[str, float]:
    """Time the queries of a list in this process; return the milliseconds of each."""
    from operad.runtime.durable import Ledger

    found: dict[str, float] = {}
    with closing(Ledger(path)) as ledger:
        ledger.store.database.now()
        for name, ask in (
            ("50 runs", lambda: ledger.runs(51)),
            ("one run's operators", lambda: ledger.timeline("run-50")),
        ):
            found[name] = 1000 * min(_seconds(ask) for _ in range(5))
            print(f"query of {name}: {found[name]:.1f} ms")
    return found


def _seconds(ask: object) -> float:
    began = time.perf_counter()
    ask()  # type: ignore[operator]
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--delete", type=int, default=7_800, help="the number of runs to delete, the oldest first")
    parser.add_argument("--pages", action="store_true", help="write the figures in docs/durable.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        stored_runs.execute(path, "finished")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        empty = size(path)
        stored_runs.fill(path, args.runs)
        each = (size(path) - empty) / args.runs
        print(f"{args.runs:,} runs of 6 operators: {each:,.0f} bytes a run")
        timed("operad runs list", path, "list")
        timed("operad runs --help, for comparison", path, "--help")
        took = queries(path)
        before = size(path)
        with closing(sqlite3.connect(path)) as connection, connection:  # the oldest are old
            connection.execute(
                "UPDATE operad_runs SET updated = 0 WHERE run_id IN "
                f"(SELECT run_id FROM operad_runs WHERE run_id <> 'finished' ORDER BY created LIMIT {args.delete})"
            )
        with Writer(path) as writer:
            cpu = timed(f"deleting {args.delete:,} runs", path, "delete", "--older-than", "9999d")
        print(f"  another's {writer.writes} writes took {1000 * writer.worst:.0f} ms at most")
        print(f"  the file: {before:,} bytes before, {size(path):,} after")
        if args.pages:
            write_figures(
                {
                    "runs.bytes": f"{each / 1000:,.0f} kB",
                    "runs.query": f"{took['50 runs']:.0f} ms",
                    "runs.deleted": f"{args.delete:,} of {args.runs:,}",
                    "runs.cpu": f"{1000 * cpu / args.delete:.1f} s",
                    "runs.delay": f"{writer.worst:.2f} s",
                    "runs.freed": f"{(before - size(path)) / 1e6:.0f} MB",
                    "runs.measured": f"{date.today():%d %B %Y}, {machine().rstrip('.')}",
                }
            )


if __name__ == "__main__":
    main()
