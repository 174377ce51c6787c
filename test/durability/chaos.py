"""Inject faults into the processes and databases of durable runs, and check the result of each run.

    make chaos                                                      # 50 trials per fault, an hour; writes docs/fault_injection.md
    python test/durability/chaos.py --trials 5 --only "two drivers"

It prints a table of the faults. The exit code is 1 if a run went wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from time import monotonic

from databases import Databases, Sqlite, has_postgres, postgres
from rich.console import Console
from rich.table import Table
from scenarios import SCENARIOS, UnsupportedError, run_scenario
from trial import TrialResult

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmark"))

from page import markdown, write_figures, write_into  # pyright: ignore[reportMissingImports]


def measure(args: argparse.Namespace, databases: Sequence[Databases], folder: Path) -> tuple[Table, list[str]]:
    """Run the trials; return the table and the problems found."""
    table = Table("fault", "database", "trials", "right", "repeated", "takeover, s", "duration, s")
    problems: list[str] = []
    for name in SCENARIOS:
        if args.only and name not in args.only:
            continue
        for kind in databases:
            began = monotonic()

            def run_trial(number: int, *, name=name, kind=kind) -> TrialResult:
                rng = random.Random(f"{args.seed} {name} {kind.name} {number}")  # noqa: S311
                with kind.exclusive() if name.startswith("database gone") else nullcontext(kind) as databases:
                    return run_scenario(name, databases, folder, rng)

            try:
                with ThreadPoolExecutor(args.at_once) as pool:
                    results = list(pool.map(run_trial, range(args.trials)))
            except UnsupportedError as reason:
                table.add_row(name, kind.name, "-", str(reason), "", "", "")
                continue
            problems += [problem for result in results for problem in result.problems]
            takeovers = [seconds for result in results for seconds in result.takeovers]
            table.add_row(
                name,
                kind.name,
                str(args.trials),
                str(sum(not result.problems for result in results)),
                spread([result.repeated for result in results], "g"),
                spread(takeovers, ".2f"),
                spread([result.seconds for result in results], ".1f"),
            )
            print(f"{monotonic() - began:5.0f} s: {name}, {kind.name}", file=sys.stderr, flush=True)
    return table, problems


def spread(values: Sequence[float], spec: str) -> str:
    """Return minimum, mean and maximum as text."""
    if not values:
        return ""
    mean = sum(values) / len(values)
    return f"{min(values):{spec}} / {mean:.{2 if spec == '.2f' else 1}f} / {max(values):{spec}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=50, help="the number of trials per fault and database")
    parser.add_argument("--at-once", type=int, default=4, help="the number of trials in parallel")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="run only this fault; may be repeated")
    parser.add_argument(
        "--page", type=Path, help="write the table between the marks of this file, if no run went wrong"
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="the seed of the random moments"
    )
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="operad-chaos-")))
        databases: list[Databases] = [Sqlite(folder)]
        if has_postgres():
            databases.append(stack.enter_context(postgres()))
        table, problems = measure(args, databases, folder)
    table.caption = "repeated, takeover and duration: minimum / mean / maximum"
    Console(width=max(140, Console().width)).print(table)
    for problem in problems:
        print(problem)
    if args.page and not problems:
        cells = [str(cell) for column in table.columns if column.header == "trials" for cell in column.cells]
        write_into(args.page, markdown([table], f"python test/durability/chaos.py --trials {args.trials}"), "chaos")
        write_figures({"chaos.trials": f"{sum(int(cell) for cell in cells if cell.isdigit()):,}"})
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
