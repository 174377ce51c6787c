"""Measure the overhead of the engines, compared with a hand-written loop and with other frameworks.

    make bench                                          # everything; writes the table of the README
    python test/benchmark/bench_engine.py --quick       # Operad and the hand-written loop only
    python test/benchmark/bench_engine.py --json FILE   # all figures, in seconds

The engines take turns, and the medians count; on a busy machine, only the ratios are meaningful. A node only creates its
message, so the time is that of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from awel_faults import faults
from engines import FIELD, OURS, STDLIB
from graphs import Graph, chain, critical_path, fan, layered
from memory import RUNS, Growth
from page import end, machine, worsened, write_figures, write_into
from page import markdown as for_page
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from turns import Case, Cost, Process, Unable, in_turns, processes_of

from operad import Operator, OperatorConfig, WorkflowMessage, operator
from operad.runtime import BuiltinWorkflow
from operad.runtime.testing import ScriptedReasoner

BY_HAND = "graphlib + asyncio"
STARTED = perf_counter()

SHAPES: Mapping[str, Graph] = {
    "chain 10": chain(10),
    "chain 100": chain(100),
    "chain 1000": chain(1000),
    "fan 10": fan(10),
    "fan 100": fan(100),
    "fan 1000": fan(1000),
    "layered 1000": layered(100, 10),
}

SLEEPING = layered(10, 10, parents=2)
SMALL = layered(6, 3)
FUNCTIONS = 300
"""Number of operators in the chain of functions."""

FEW = chain(5)
SIZES = (1_000, 10_000, 100_000)

Costs = Mapping[str, "Cost | str"]


# Measuring


def overhead(engines: Sequence[Process], turns: int) -> tuple[dict[str, Costs], dict[str, Costs]]:
    """Return the costs by shape, of operators that never suspend and of operators that suspend once."""
    never: dict[str, Costs] = {}
    once: dict[str, Costs] = {}
    for shape, graph in SHAPES.items():
        never[shape] = by_hand_once(in_turns(Case(graph), engines, turns))
        able = [engine for engine in engines if not isinstance(never[shape].get(engine.engine), str)]
        once[shape] = {**never[shape], **by_hand_once(in_turns(Case(graph, sleeps=0.0), able, turns))}
        show_progress(shape)
    return never, once


def makespan(engines: Sequence[Process]) -> dict[str, float | str]:
    """Measure the duration in critical paths: 10 layers of 10 nodes that sleep 10 ms, one in five 80 ms."""
    chance = random.Random(0)  # noqa: S311
    sleeps = {node: 0.08 if chance.random() < 0.2 else 0.01 for node in SLEEPING}
    ideal = critical_path(SLEEPING, sleeps)
    costs = by_hand_once(in_turns(Case(SLEEPING, sleeps), engines, turns=3))
    show_progress("makespan")
    return {engine: cost.run / ideal if isinstance(cost, Cost) else cost for engine, cost in costs.items()}


def a_thousand_at_once(engines: Sequence[Process]) -> Costs:
    costs = by_hand_once(in_turns(Case(SMALL, at_once=1000), engines, turns=3))
    show_progress("1,000 runs at once")
    return costs


def one_after_another(engines: Sequence[Process]) -> Costs:
    costs = by_hand_once(in_turns(Case(FEW), engines, turns=9))
    show_progress("runs one after another")
    return costs


def scale(engines: Sequence[Process], sizes: Sequence[int]) -> dict[str, Costs]:
    """Return the costs to build, check and run workflows, by number of operators."""
    costs: dict[str, Costs] = {}
    for size in sizes:
        costs[f"{size:,}"] = by_hand_once(in_turns(Case(layered(size // 10, 10)), engines, turns=3))
        show_progress(f"{size:,} operators")
    return costs


def memory(engines: Sequence[Process]) -> dict[str, Growth | str]:
    grown: dict[str, Growth | str] = {}
    for engine in engines:
        try:
            grown[engine.engine] = engine.growth()
        except Unable as reason:
            grown[engine.engine] = str(reason)
    show_progress("memory")
    return grown


def by_hand_once(costs: Costs) -> Costs:
    """Replace the two hand-written loops by the faster one."""
    loops = [cost for loop in STDLIB if isinstance(cost := costs[loop], Cost)]
    others = {name: cost for name, cost in costs.items() if name not in STDLIB}
    return {BY_HAND: min(loops, key=lambda cost: cost.run), **others}


def functions() -> dict[str, float]:
    """Seconds of processor time per operator of a chain: a no-op `Operator` subclass, and functions that do as little."""

    said = WorkflowMessage(scratchpad="x")

    class Noop(Operator):
        async def execute(self, *_: Any, **__: Any) -> WorkflowMessage:
            return said

    async def awaited(x: str) -> str:
        return x

    def plain(x: str) -> str:
        return x

    kinds: dict[str, Callable[[str], Any]] = {
        "Operator subclass": lambda key: Noop(OperatorConfig(instruction="Nothing.", id=key)),
        "async function": lambda key: operator(id=key)(awaited),
        "sync function, inline=True": lambda key: operator(id=key, inline=True)(plain),
        "sync function, in a thread": lambda key: operator(id=key)(plain),
    }
    flows: dict[str, BuiltinWorkflow[Any]] = {}
    for kind, make in kinds.items():
        flows[kind] = BuiltinWorkflow(name=kind)
        for number in range(FUNCTIONS):
            flows[kind].add_operator(make(f"n{number}"), [f"n{number - 1}"] if number else [])
    costs = dict.fromkeys(kinds, math.inf)

    async def run() -> None:
        for _ in range(20):  # in turns; the least counts, as other programs only add to it
            for kind, flow in flows.items():
                start = process_time()
                await flow.aexecute("x", ScriptedReasoner([]))
                costs[kind] = min(costs[kind], (process_time() - start) / FUNCTIONS)

    asyncio.run(run())
    show_progress("functions")
    return costs


def show_progress(done: str) -> None:
    print(f"{perf_counter() - STARTED:4.0f} s: {done}", file=sys.stderr, flush=True)


# Tables


def tables(measured: Mapping[str, Any]) -> Iterator[Table]:
    for what, title in (
        ("never suspends", "Microseconds per operator that does nothing (and ratio to the first line)"),
        ("suspends once", "Microseconds per operator that suspends once"),
    ):
        yield by_shape(measured[what], title)
    yield together(measured["makespan / critical path"], measured["1,000 at once"], measured["one after another"])
    yield by_size(measured["scale"])
    yield growths(measured["memory"])
    table = Table("operator that does nothing", "µs", "ratio", title="Functions as operators, in a chain")
    for kind, cost in measured["functions"].items():
        unit = measured["functions"]["Operator subclass"]
        table.add_row(kind, f"{1e6 * cost:.1f}", f"{cost / unit:.2f}")
    yield table
    if rows := measured.get("awel"):
        table = Table("what", "AWEL's runner", "ours", title="AWEL's runner beside ours")
        for row, said in rows.items():
            table.add_row(row, escape(said["stock"]), escape(said["ours"]))
        yield table


def by_shape(costs: Mapping[str, Costs], title: str) -> Table:
    table = Table("engine", *costs, title=title)
    for engine in next(iter(costs.values())):
        cells: list[str] = []
        for shape, of in costs.items():
            cost, unit = of[engine], of[BY_HAND]
            assert isinstance(unit, Cost)
            cells.append(
                f"{1e6 * cost.run / len(SHAPES[shape]):.1f} ({ratio(cost, unit)})" if isinstance(cost, Cost) else cost
            )
        table.add_row(engine, *cells)
    return table


def together(spans: Mapping[str, float | str], at_once: Costs, in_turn: Costs) -> Table:
    table = Table(
        "engine",
        "makespan / critical path",
        f"1,000 runs of {len(SMALL)} operators at once, ms",
        f"runs a second of {len(FEW)} operators, one after another",
    )
    for engine, span in spans.items():
        cost, each = at_once[engine], in_turn[engine]
        table.add_row(
            engine,
            span if isinstance(span, str) else f"{span:.3f}",
            f"{1e3 * cost.run:.0f}" if isinstance(cost, Cost) else cost,
            f"{1 / each.run:,.0f}" if isinstance(each, Cost) else each,
        )
    return table


def by_size(costs: Mapping[str, Costs]) -> Table:
    table = Table("engine", *costs, title="Layers of 10: s to build and check; s to run; µs per operator")
    for engine in next(iter(costs.values())):
        cells: list[str] = []
        for size, of in costs.items():
            cost = of[engine]
            each = 1e6 / int(size.replace(",", ""))
            cells.append(f"{cost.build:.3f}; {cost.run:.4f}; {cost.run * each:.1f}" if isinstance(cost, Cost) else cost)
        table.add_row(engine, *cells)
    return table


def growths(grown: Mapping[str, Growth | str]) -> Table:
    title = f"Left behind by {RUNS:,} runs, in thirds: done, failed, cancelled"
    table = Table("engine", "objects", "bytes allocated", "KiB resident", title=title)
    for engine, growth in grown.items():
        cells = [growth] if isinstance(growth, str) else map(str, asdict(growth).values())
        table.add_row(engine, *cells)
    return table


def ratio(cost: Cost, unit: Cost) -> str:
    return f"{cost.run / unit.run:.{2 if cost.run < 10 * unit.run else 0}f}x"


# The README's table

IN_README = ("chain 10", "chain 100", "fan 10", "fan 100", "layered 1000")
OPERAD = "BuiltinWorkflow, events on"
README_ENGINES = {BY_HAND: BY_HAND, "Operad": OPERAD, "langgraph": "langgraph"}


def markdown(measured: Mapping[str, Any]) -> str:
    costs = measured["never suspends"]
    lines = [f"| | {' | '.join(IN_README)} |", "|---|" + "---:|" * len(IN_README)]
    for label, engine in README_ENGINES.items():
        cells: list[str] = []
        for shape in IN_README:
            cost, unit = costs[shape][engine], costs[shape][BY_HAND]
            each = f"1 ({1e6 * cost.run / len(SHAPES[shape]):.1f} µs)" if engine == BY_HAND else ""
            cells.append(each or (ratio(cost, unit) if isinstance(cost, Cost) else cost))
        lines.append(f"| {label}{release(engine)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", machine(), ""])


def figures_of(measured: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the ratios in sentences of other pages: minimum and maximum over all shapes."""
    costs = measured["never suspends"]

    def span(engine: str) -> str:
        ratios = [costs[shape][engine].run / costs[shape][BY_HAND].run for shape in SHAPES]
        places = 1 if min(ratios) < 10 else 0
        return f"{min(ratios):.{places}f} to {max(ratios):.{places}f} times"

    return {"engine.operad": span(OPERAD), "engine.langgraph": span("langgraph")}


def release(engine: str) -> str:
    if engine not in FIELD:
        return ""
    try:
        return f" (dbgpt {version('dbgpt')})" if engine.startswith("AWEL") else f" {version(engine)}"
    except PackageNotFoundError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="measure only Operad and the hand-written loop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, in seconds")
    parser.add_argument("--markdown", action="store_true", help="print the README's table instead of all tables")
    parser.add_argument(
        "--readme", type=Path, nargs="+", default=[], metavar="FILE", help="write that table between the marks of these"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write all tables between the marks of this file")
    args = parser.parse_args()
    with ExitStack() as stack:
        own = processes_of(list(OURS), stack)
        by_hand = processes_of(STDLIB, stack)
        all_engines = [*by_hand, *own, *processes_of([] if args.quick else list(FIELD), stack)]
        quiet = [engine for engine in own if "events" not in engine.engine]
        never, once = overhead(all_engines, turns=4 if args.quick else 9)
        measured: dict[str, Any] = {
            "never suspends": never,
            "suspends once": once,
            "makespan / critical path": makespan(all_engines),
            "1,000 at once": a_thousand_at_once(all_engines),
            "one after another": one_after_another(all_engines),
            "scale": scale([*by_hand, *quiet], SIZES[:-1] if args.quick else SIZES),
            "memory": memory(quiet[:1] if args.quick else own),
            "functions": functions(),
        }
    if not args.quick:
        measured["awel"] = faults()
    if args.json:
        args.json.write_text(json.dumps(measured, default=asdict, indent=2) + "\n", encoding="utf-8")
    for readme in args.readme:
        write_into(readme, markdown(measured))
    if args.readme and not args.quick:
        write_figures(figures_of(measured))
    worse: list[str] = []
    if args.page:
        command = f"python test/benchmark/bench_engine.py{' --quick' if args.quick else ''}"
        text = for_page(tables(measured), command)
        worse = worsened(args.page, text, "engine", OURS)
        write_into(args.page, text, "engine")
    if args.markdown:
        print(markdown(measured))
    else:
        console = Console(width=max(150, Console().width))
        for table in tables(measured):
            console.print(table)
    end(worse)


if __name__ == "__main__":
    main()
