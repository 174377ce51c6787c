"""Kill, stop and starve the processes and databases of runs, many times, and see that all come out right.

    make chaos                                                      # 50 of each, an hour; writes docs/fault_injection.md
    python test/durability/chaos.py --trials 5 --only "two drivers"

It prints a table and ends with 1 when anything is wrong.
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
from scenarios import SCENARIOS, UnableError, carry_out
from trial import Found

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmark"))

from page import markdown, write_figures, write_into  # pyright: ignore[reportMissingImports]


def rows(asked: argparse.Namespace, databases: Sequence[Databases], folder: Path) -> tuple[Table, list[str]]:
    """The table, and what is wrong."""
    table = Table("what", "database", "trials", "right", "done again", "take-over, s", "a trial, s")
    wrong: list[str] = []
    for name in SCENARIOS:
        if asked.only and name not in asked.only:
            continue
        for kind in databases:
            began = monotonic()

            def one(number: int, *, name=name, kind=kind) -> Found:
                chance = random.Random(f"{asked.seed} {name} {kind.name} {number}")  # noqa: S311
                with kind.alone() if name.startswith("database gone") else nullcontext(kind) as its:
                    return carry_out(name, its, folder, chance)

            try:
                with ThreadPoolExecutor(asked.at_once) as pool:
                    found = list(pool.map(one, range(asked.trials)))
            except UnableError as reason:
                table.add_row(name, kind.name, "-", str(reason), "", "", "")
                continue
            wrong += [what for each in found for what in each.wrong]
            takeovers = [seconds for each in found for seconds in each.takeovers]
            table.add_row(
                name,
                kind.name,
                str(asked.trials),
                str(sum(not each.wrong for each in found)),
                spread([each.again for each in found], "g"),
                spread(takeovers, ".2f"),
                spread([each.seconds for each in found], ".1f"),
            )
            print(f"{monotonic() - began:5.0f} s: {name}, {kind.name}", file=sys.stderr, flush=True)
    return table, wrong


def spread(values: Sequence[float], how: str) -> str:
    """The least, the mean and the most."""
    if not values:
        return ""
    mean = sum(values) / len(values)
    return f"{min(values):{how}} / {mean:.{2 if how == '.2f' else 1}f} / {max(values):{how}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=50, help="how often each fault is tried on each database")
    parser.add_argument("--at-once", type=int, default=4, help="how many trials at once")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="only this; may be repeated")
    parser.add_argument("--page", type=Path, help="write the table between the marks of this file, if all was right")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the random moments"
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}", file=sys.stderr)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="operad-chaos-")))
        databases: list[Databases] = [Sqlite(folder)]
        if has_postgres():
            databases.append(stack.enter_context(postgres()))
        table, wrong = rows(asked, databases, folder)
    table.caption = "done again, take-over and seconds: the least / the mean / the most"
    Console(width=max(140, Console().width)).print(table)
    for what in wrong:
        print(what)
    if asked.page and not wrong:
        cells = [str(cell) for column in table.columns if column.header == "trials" for cell in column.cells]
        write_into(asked.page, markdown([table], f"python test/durability/chaos.py --trials {asked.trials}"), "chaos")
        write_figures({"chaos.trials": str(sum(int(cell) for cell in cells if cell.isdigit()))})
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
