"""Measure the price of values that pass between functions: each reader gets its own.

    python test/benchmark/bench_values.py

A chain of functions returns what it gets. The table shows the processor time in microseconds per function, the minimum
of several turns, and the ratio to a text, which cannot change and is never copied.
"""

import argparse
import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from page import end, markdown, worsened, write_into
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from operad import Workflow, operator

NUMBERS = list(range(100_000))


class Claim(BaseModel):
    text: str
    number: int
    words: list[str]


def text(x: str) -> str:
    return x or "text"


def number(x: Any) -> int:
    return 1


def fields(x: Any) -> dict[str, int]:
    return {"a": 1, "b": 2}


def model(x: Any) -> Claim:
    return Claim(text="a", number=1, words=["a", "b"])


def numbers(x: Any) -> list[int]:
    return NUMBERS


def untyped(x):  # type: ignore[no-untyped-def]
    return NUMBERS


VALUES: dict[str, tuple[Callable[..., Any], int]] = {
    "text": (text, 500),
    "number": (number, 500),
    "dict of two numbers": (fields, 500),
    "model with three fields": (model, 500),
    "list of 100,000 numbers": (numbers, 10),
    "the same, without annotations": (untyped, 10),
}


def chain_of(function: Callable[..., Any], length: int) -> Workflow[Any]:
    """Return a chain in which each function gets the value of the one before, as its own annotation says."""
    flow: Workflow[Any] = Workflow()
    for place in range(length):

        def passes(x):  # type: ignore[no-untyped-def]
            return x

        if "return" in function.__annotations__:
            kind = function.__annotations__["return"]
            passes.__annotations__ = {"x": kind, "return": kind}
        step = operator(passes if place else function, id=f"n{place}", inline=True)
        flow.add(step, after=[f"n{place - 1}"] if place else [])
    return flow


def measure(name: str, turns: int) -> float:
    """Return the least microseconds of processor time per function."""
    function, length = VALUES[name]
    flow = chain_of(function, length)
    least = math.inf
    for _ in range(turns + 1):
        began = process_time()
        asyncio.run(_run(flow))
        least = min(least, process_time() - began)
    return least / length * 1e6


async def _run(flow: Workflow[Any]) -> None:
    await flow.arun({"x": "text"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = Table("value", "µs", title="A value from one function to the next (and ratio to the first line)")
    first = 0.0
    for name in VALUES:
        took = measure(name, args.turns)
        first = first or took
        table.add_row(name, f"{took:,.1f} ({took / first:.2f}x)")
    Console().print(table)
    if args.page:
        text_of_table = markdown([table], "python test/benchmark/bench_values.py")
        worse = worsened(args.page, text_of_table, "values", [*VALUES][1:4])
        write_into(args.page, text_of_table, "values")
        end(worse)


if __name__ == "__main__":
    main()
