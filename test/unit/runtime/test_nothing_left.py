"""However a run ends, it leaves no thread, task, connection or registered run."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from operad import (
    Job,
    OperatorError,
    PausedError,
    Policy,
    RunContext,
    Timeout,
    Workflow,
    events,
    operator,
)
from operad.runtime.durable import Ledger
from operad.runtime.values.function_threads import abandoned_functions
from operad.runtime.values.sync import background_loop

TIMES = 10
RENDEZVOUS = 30.0


def fails(job: Job) -> str:
    raise ValueError("no")


def gives_up(job: Job):
    while True:
        yield "x "


async def waits(job: Job) -> str:
    await asyncio.Event().wait()
    return ""


async def asks(context: RunContext) -> str:
    return await context.ask("Go on?")


inner = Workflow(operator(fails, id="inner"), name="inner")


def runs_another(job: Job) -> str:
    return inner.run("q").text


def failing(flow: Workflow[Any] | None = None) -> Workflow[Any]:
    flow = flow or Workflow([operator(fails), operator(waits, id="beside")])
    with pytest.raises(OperatorError):
        flow.run("q")
    return flow


def timed_out() -> Workflow[Any]:
    return failing(Workflow(operator(waits, policy=Policy(timeout=Timeout(run=0.01)))))


def timed_out_generator() -> Workflow[Any]:
    return failing(Workflow(operator(gives_up, policy=Policy(timeout=Timeout(run=0.01)))))


def nested() -> Workflow[Any]:
    return failing(Workflow([operator(runs_another, id=f"n{number}") for number in range(3)]))


def cancelled() -> Workflow[Any]:
    flow = Workflow(operator(waits))

    async def main() -> None:
        run = flow.start("q")
        async for event in run:
            if isinstance(event, events.OperatorStarted):
                break
        await run.cancel()

    asyncio.run(main())
    return flow


def stream_left() -> Workflow[Any]:
    flow = Workflow(operator(waits))
    for event in flow.stream("q"):
        if isinstance(event, events.OperatorStarted):
            break
    return flow


def text_left() -> Workflow[Any]:
    flow = Workflow(operator(gives_up))
    for _ in flow.stream_text("q"):
        break
    return flow


def paused() -> Workflow[Any]:
    flow = Workflow(operator(asks), name="asks")
    with suppress(PausedError):
        flow.run("q", run_id="r")
    asyncio.run(flow.cancel("r"))
    return flow


def paused_on_disk(folder: Path) -> Workflow[Any]:
    with closing(Ledger(folder / "runs.sqlite")) as ledger:
        flow = Workflow(operator(asks), name="asks", durable=ledger)
        with suppress(PausedError):
            flow.run("q", run_id=f"r-{time.monotonic_ns()}")
    return flow


def failing_on_disk(folder: Path) -> Workflow[Any]:
    with closing(Ledger(folder / "runs.sqlite")) as ledger:
        return failing(Workflow(operator(fails), name="fails", durable=ledger))


ENDINGS: dict[str, Callable[..., Workflow[Any]]] = {
    "an operator fails": lambda _: failing(),
    "an operator is timed out": lambda _: timed_out(),
    "a generator is timed out": lambda _: timed_out_generator(),
    "functions run a workflow that fails": lambda _: nested(),
    "the run is cancelled": lambda _: cancelled(),
    "its stream is left": lambda _: stream_left(),
    "the stream of its text is left": lambda _: text_left(),
    "it is paused and cancelled": lambda _: paused(),
    "it is durable and paused": paused_on_disk,
    "it is durable and fails": failing_on_disk,
}


def there() -> dict[str, int]:
    """Number of threads, of tasks of the background loop, and of open sockets and files of databases.

    Threads of functions that have ended wait for other functions, and end after some seconds.
    """

    async def tasks() -> int:
        return len(asyncio.all_tasks()) - 1

    own = [thread for thread in threading.enumerate() if thread.name.startswith("operad") and thread.is_alive()]
    opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)]
    return {
        "threads": len(
            [thread for thread in own if not thread.name.startswith(("operad-function", "operad-database"))]
        ),
        "tasks": asyncio.run_coroutine_threadsafe(tasks(), background_loop()).result(RENDEZVOUS),
        "connections": len([path for path in opened if path.startswith("socket:") or ".sqlite" in path]),
        "abandoned": len(abandoned_functions()),
    }


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts the files that this process has open")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_leaves_nothing_when(ending: str, tmp_path: Path):
    end = ENDINGS[ending]
    flow = end(tmp_path)
    before = there()
    for _ in range(TIMES):
        flow = end(tmp_path)
    until = time.monotonic() + RENDEZVOUS
    while not (is_so := all(now <= before[what] for what, now in there().items())) and time.monotonic() < until:
        threading.Event().wait(0.02)
    assert is_so, (before, there())
    assert len(flow._runs) == 0  # as test_load.py counts the runs in progress
