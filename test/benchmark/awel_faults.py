"""Compare faults of AWEL's default runner with the behaviour of Operad's.

Each row is a function that takes the runner and returns what happened; it runs in its own process.

    python test/benchmark/awel_faults.py
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from engines import Go, import_awel

from operad.runtime.values.errors import describe

RUNNERS = ("stock", "ours")


def maps_and_join(runner: Any, functions: Sequence[Callable[..., Any]]) -> Any:
    """Return a trigger, a map for each function, and a join of all maps."""
    awel = import_awel()
    with awel.DAG("row"):
        source, end = awel.TriggerOperator(runner=runner), awel.JoinOperator(lambda *x: x, runner=runner)
        for function in functions:
            source >> awel.MapOperator(function, runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
    return end


def timed(go: Go) -> str:
    started = time.perf_counter()
    try:
        asyncio.run(go())  # type: ignore[arg-type]
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # noqa: BLE001 - a row says what happened
        return describe(error)
    return f"{time.perf_counter() - started:.3g} s"


def eight_branches(runner: Any) -> str:
    async def sleep(_: Any) -> None:
        await asyncio.sleep(0.1)

    return timed(partial(maps_and_join(runner, [sleep] * 8).call, 1))


def long_chain(size: int, runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("chain"):
        end = awel.TriggerOperator(runner=runner)
        for _ in range(size):
            end = end >> awel.MapOperator(lambda x: x + 1, runner=runner)
    return timed(partial(end.call, 1))


def diamonds(stages: int, runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("diamonds"):
        end = awel.TriggerOperator(runner=runner)
        for _ in range(stages):
            join = awel.JoinOperator(lambda a, b: a + b, runner=runner)
            for _ in range(2):
                end >> awel.MapOperator(lambda x: 1, runner=runner) >> join  # pyright: ignore[reportUnusedExpression]
            end = join
    return timed(partial(end.call, 1))


def failing_sibling(runner: Any) -> str:
    story: list[str] = []

    async def fail(_: Any) -> None:
        await asyncio.sleep(0.01)
        raise LookupError

    async def work(_: Any) -> None:
        story.append("sibling started")
        try:
            await asyncio.sleep(1)
        finally:
            story.append("cancelled and ended")

    timed(partial(maps_and_join(runner, [fail, work]).call, 1))
    return ", ".join(story) or "sibling never started"


def thousand_failing_calls(runner: Any) -> str:
    async def fail(_: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError

    end = maps_and_join(runner, [fail])

    async def calls() -> None:
        await asyncio.gather(*(asyncio.create_task(end.call(1)) for _ in range(1000)), return_exceptions=True)

    asyncio.run(calls())
    return f"{len(end.dag._event_loop_task_id_to_ctx)} contexts leaked"


def eight_threads(runner: Any) -> str:
    async def pause(x: Any) -> Any:
        await asyncio.sleep(0)
        return x

    end = maps_and_join(runner, [pause] * 3)
    right: list[int] = []

    def fifty_calls(thread: int) -> None:
        async def calls() -> None:
            async def one(number: int) -> None:
                if await end.call(number) == (number,) * 3:
                    right.append(number)

            numbers = range(thread * 50, thread * 50 + 50)
            await asyncio.gather(*map(one, numbers), return_exceptions=True)

        asyncio.run(calls())

    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=fifty_calls, args=[n], daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 8
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    hung = sum(thread.is_alive() for thread in threads)
    return f"{len(right)} of 400 right" + (f", {hung} threads hang" if hung else "")


def cycle(runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("cycle"):
        a, b = (awel.MapOperator(lambda x: x, task_name=name, runner=runner) for name in "ab")
        a >> b >> a  # pyright: ignore[reportUnusedExpression]
    return timed(partial(b.call, 1))


def two_consumers(runner: Any) -> str:
    awel = import_awel()

    class Count(awel.StreamifyAbsOperator):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            for number in range(input_value):
                yield number

    class Collect(awel.UnstreamifyAbsOperator):
        async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
            return [number async for number in input_value]

    with awel.DAG("stream"):
        stream, end = Count(runner=runner), awel.JoinOperator(lambda a, b: (a, b), runner=runner)
        awel.TriggerOperator(runner=runner) >> stream  # pyright: ignore[reportUnusedExpression]
        stream >> Collect(runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
        stream >> Collect(runner=runner) >> end  # pyright: ignore[reportUnusedExpression]
    return " and ".join(map(str, asyncio.run(end.call(3))))


def join_after_skip(runner: Any) -> str:
    awel = import_awel()
    with awel.DAG("skip"):
        branch = awel.BranchOperator({lambda _: True: "a", lambda _: False: "b"}, runner=runner)
        end = awel.JoinOperator(lambda a, b: (a, b), runner=runner)
        awel.TriggerOperator(runner=runner) >> branch  # pyright: ignore[reportUnusedExpression]
        for name in "ab":
            arm = awel.MapOperator(lambda x: x, task_name=name, runner=runner)
            branch >> arm >> end  # pyright: ignore[reportUnusedExpression]
    return " and ".join(map(str, asyncio.run(end.call(1))))


ROWS: Mapping[str, Callable[[Any], str]] = {
    "8 branches of 0.1 s": eight_branches,
    "chain of 5,000": partial(long_chain, 5_000),
    "chain of 20,000": partial(long_chain, 20_000),
    "12 diamonds in a row": partial(diamonds, 12),
    "1,000 diamonds in a row": partial(diamonds, 1000),
    "a node raises": failing_sibling,
    "1,000 failing calls": thousand_failing_calls,
    "8 threads, 8 loops, one DAG": eight_threads,
    "a cycle": cycle,
    "one stream, two consumers": two_consumers,
    "a join after a skipped branch": join_after_skip,
}

TOO_LONG = {("1,000 diamonds in a row", "stock"): "would not end: it walks 2^1000 paths"}


def faults() -> dict[str, dict[str, str]]:
    """Return the behaviour of each runner by row."""
    return {row: {runner: in_own_process(row, runner) for runner in RUNNERS} for row in ROWS}


def in_own_process(row: str, runner: str) -> str:
    if (row, runner) in TOO_LONG:
        return TOO_LONG[row, runner]
    command = [sys.executable, __file__, "--row", row, "--runner", runner]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "did not end in 20 s"
    return done.stdout.strip() or f"exit status {done.returncode}"


def run_row(row: str, runner: str) -> None:
    awel = import_awel()
    from operad.runtime.graph.awel import AwelRunner

    print(ROWS[row](awel.DefaultWorkflowRunner() if runner == "stock" else AwelRunner()), flush=True)
    os._exit(0)  # threads may hang


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--runner", choices=RUNNERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        run_row(args.row, args.runner)
    for row, said in faults().items():
        print(f"{row}: {said['stock']}; ours: {said['ours']}")


if __name__ == "__main__":
    main()
