"""Measure whether a long-running process grows over 20,000 mixed executions.

    python test/benchmark/soak.py
    python test/benchmark/soak.py --executions 2000 --kept 0

Executions succeed, fail, are cancelled at their start, in their middle or at their end, time out, are retried, work in a
thread, fail in a thread, and ask a person who answers, in turn. Every 200th is stored in an SQLite file. At intervals it
prints the memory of the process, its threads, open files, tasks of the event loop, Python objects, and the runs that the
workflow counts as in progress.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from operad.runtime import (
    BuiltinWorkflow,
    Job,
    OperadError,
    PausedError,
    Policy,
    Retry,
    Timeout,
    Workflow,
    WorkflowMessage,
    interrupt,
)
from operad.runtime.durable import Ledger

JOB = Job(goal="soak", inputs={"text": "x" * 500})


async def succeed() -> str:
    await asyncio.sleep(0)
    return "done " * 50


async def fail() -> str:
    await asyncio.sleep(0)
    raise ValueError("broken")


async def never() -> str:
    await asyncio.Event().wait()
    return ""


async def in_thread() -> str:
    return await asyncio.to_thread(lambda: "done " * 50)


async def fail_in_thread() -> str:
    return await asyncio.to_thread(lambda: str(1 // 0))


async def ask() -> str:
    return str(await interrupt("Sure?", "boolean"))


class Do:
    """Operator that calls a function."""

    def __init__(self, name: str, work: Callable[[], Awaitable[str]] = succeed) -> None:
        self._name, self._work = name, work

    def get_id(self) -> str:
        return self._name

    async def execute(self, *_: object, **__: object) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=await self._work())


NOTHING, TRIES, SHORT = Policy(), Policy(retry=Retry(2, first_delay=0.0001)), Policy(timeout=Timeout(run=0.005))

MAPPED: list[tuple[str, Callable[[], Awaitable[str]], Policy, int | None]] = [
    ("succeeds", succeed, NOTHING, None),
    ("fails", fail, NOTHING, None),
    ("is cancelled as it begins", succeed, NOTHING, 0),
    ("is cancelled in its midst", never, NOTHING, 20),
    ("is cancelled as it ends", succeed, NOTHING, 9),
    ("takes too long", never, SHORT, None),
    ("is tried again", fail, TRIES, None),
    ("works in a thread", in_thread, NOTHING, None),
    ("fails in a thread", fail_in_thread, NOTHING, None),
    ("asks a person", ask, NOTHING, None),
]
"""Kinds of executions: name, work of the operator, its policy, and the turns of the event loop until it is cancelled."""


def workflow_of(work: Callable[[], Awaitable[str]], policy: Policy) -> Workflow:
    workflow = BuiltinWorkflow(name="soak")
    first, second = Do("first"), Do("second", work)
    beside, last = Do("beside"), Do("last")
    workflow.add_operator(first)
    workflow.add_operator(second, [first], policy=policy)
    workflow.add_operator(beside, [first])
    workflow.add_operator(last, [second, beside])
    return workflow


async def execute(workflow: Workflow, turns: int | None, run_id: str) -> str:
    """Execute a workflow, cancel it after a number of turns, and return its outcome."""
    task = asyncio.ensure_future(workflow.aexecute(JOB, None, run_id=run_id))  # type: ignore[arg-type]
    if turns is not None:
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
    except PausedError as paused:
        await workflow.aresume(run_id, {question.id: True for question in paused.questions})
        return "answered"
    except OperadError:
        return "failed"
    return "finished"


def held(workflows: list[Workflow]) -> dict[str, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "MB": pages * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "objects": len(gc.get_objects()),
        "runs": sum(len(workflow._runs) for workflow in workflows),  # pyright: ignore[reportPrivateUsage]
    }


async def soak(executions: int, kept: int, every: int, ledger: Ledger) -> None:
    plain = [workflow_of(work, policy) for _, work, policy, _ in MAPPED]
    lasting = [workflow_of(work, policy) for _, work, policy, _ in MAPPED]
    for workflow in lasting:
        workflow.keep_in(ledger)
    outcomes: dict[str, int] = {}
    began = time.monotonic()
    for number in range(executions + 1):
        if number % every == 0:
            now: dict[str, Any] = {"executions": number, **held([*plain, *lasting])}
            print("  ".join(f"{name} {value:>9,}" for name, value in now.items()), flush=True)
        kind = (number + number // len(MAPPED)) % len(MAPPED)
        is_kept = bool(kept) and number % kept == 0
        made = await execute((lasting if is_kept else plain)[kind], MAPPED[kind][3], f"run-{number}")
        outcomes[made] = outcomes.get(made, 0) + 1
    print(f"{time.monotonic() - began:.0f} s; {', '.join(f'{count:,} {name}' for name, count in outcomes.items())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--kept", type=int, default=200, help="store every nth execution; 0 for none")
    parser.add_argument("--every", type=int, default=2_000, help="print after every n executions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "runs.sqlite")
        with suppress(KeyboardInterrupt):
            asyncio.run(soak(args.executions, args.kept, args.every, ledger))
        ledger.close()


if __name__ == "__main__":
    main()
