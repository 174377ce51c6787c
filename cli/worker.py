"""`operad worker` and `operad workers`."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from operad.cli.columns import print_table
from operad.cli.durable import Database, Files, open_ledger
from operad.cli.follow import say
from operad.cli.options import BaseUrl, ModelName, PricesFile, ServedFiles, ServicesFile
from operad.cli.process import put
from operad.cli.remarks import Lossy
from operad.cli.telemetry import MetricsHost, MetricsPort, Traced, listening
from operad.cli.trust_store import Trusted, trusting
from operad.configs.models import model_line
from operad.configs.runnable import Source, make
from operad.runtime.durable.database_names import display_name
from operad.runtime.durable.run_owner import LIMIT
from operad.runtime.durable.shared_agents import Served
from operad.runtime.durable.tables import Executor
from operad.runtime.durable.worker import MOST_COUNTED, Worker
from operad.runtime.observe.metrics import Metrics, serve
from operad.runtime.values.errors import InputError, describe

if TYPE_CHECKING:
    from sqlalchemy import URL

_logger = logging.getLogger(__name__)


def worker(
    configs: ServedFiles,
    db: Database = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Maximum number of operators at once, per file.")] = 4,
    files: Files = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    services: ServicesFile = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds for operators in progress to finish at the end.")] = 30.0,
    lossy: Lossy = False,
    limit: Annotated[
        float, typer.Option(min=2, help="Seconds without a heartbeat after which other workers take over its work.")
    ] = LIMIT,
    trace: Traced = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    trust: Trusted = False,
) -> None:
    """Execute the operators of runs that were started with --workers, on any machine.

    It works until SIGTERM or Ctrl-C; then it takes no more operators, finishes those in progress, and ends with exit
    status 0. A second signal ends it immediately. Operators of a worker that dies go to another worker. Models and
    keys are the worker's own, from its files and its environment.
    """
    services_path = services and str(services)
    sources = [
        Source(file=file, model=model, base_url=base_url, services=services_path, lossy=lossy) for file in configs
    ]
    runnables = trusting(lambda trusted: [make(source, trusted) for source in sources], trust)
    served = [runnable.served() for runnable in runnables]
    queues = [runnable.queue for runnable in served]
    if len(set(queues)) < len(queues):
        raise InputError("two of these files define the same agents; name each file once")
    ledger = open_ledger(db, sources[0], files=files)
    _ = ledger.store  # reports problems of the database before the worker starts
    ledger.close()
    url = ledger.url
    console = Console(stderr=True)
    for line in dict.fromkeys(model_line(agent.reasoner) for runnable in runnables for agent in runnable.team):
        if line:
            say(console, line)
    with ExitStack() as stack:
        listeners = [*stack.enter_context(listening(trace))]
        metrics = None if metrics_port is None else Metrics()
        works = Worker(
            url.render_as_string(hide_password=False),
            served,
            concurrency=concurrency,
            files=files,
            limit=limit,
            listeners=[*listeners, metrics] if metrics else listeners,
        )
        if metrics and metrics_port is not None:
            port, stop = _serve_metrics(works, metrics, metrics_port, metrics_host)
            stack.callback(stop)
            say(console, f"metrics: http://{metrics_host}:{port}/metrics")
        _run_worker(works, served, url, grace, console)


def _serve_metrics(works: Worker, metrics: Metrics, port: int, host: str) -> tuple[int, Callable[[], None]]:
    """Serve metrics, also those of the worker itself; return the port, and a function that stops serving."""

    def waiting() -> float:
        try:
            return float(sum(works.waiting().values()))
        except Exception as error:  # noqa: BLE001 - a fault of the database must not affect other metrics
            _logger.debug("the lengths of the queues are not known: %s", describe(error))
            return math.nan

    at_once = works.executor.concurrency * len(works.executor.queues)
    metrics.watch("worker_slots", "Maximum number of operators at once.", lambda: at_once)
    metrics.watch("worker_slots_busy", "Number of operators that it executes now.", lambda: works.busy)
    metrics.watch("worker_queue", f"Operators that wait for a worker; counted to {MOST_COUNTED} a queue.", waiting)
    return serve(metrics.registry, port, host)


def _run_worker(works: Worker, served: Sequence[Served], url: URL, grace: float, console: Console) -> None:
    say(console, f"worker: {works.executor.id}, version {works.executor.version}, {display_name(url)}")
    for served_file in served:
        say(
            console, f"serves: {served_file.name} ({served_file.queue}), {works.executor.concurrency} operators at once"
        )
    asyncio.run(_serve(works, grace, console))


async def _serve(works: Worker, grace: float, console: Console) -> None:
    stop, loop, serving = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()

    def end() -> None:
        if stop.is_set():
            if serving:
                serving.cancel()
            return
        say(console, f"shutting down: operators in progress have {grace:g} s; a second signal ends them at once")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        await works.serve(stop, grace)
    except asyncio.CancelledError:
        say(console, "ended; unfinished operators go to other workers")


def workers(
    db: Database = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the processes that drive runs or execute operators, with their current step."""
    ledger = open_ledger(db)
    executors = ledger.store.executors()
    if as_json:
        put(json.dumps([_as_json(executor) for executor in executors], indent=2, ensure_ascii=False))
        return
    rows: list[Sequence[str]] = []
    for executor in executors:
        state = "alive" if executor.alive else f"silent for {executor.silent:.0f} s"
        current = ", ".join(executor.doing) or ("nothing" if executor.kind == "worker" else "")
        rows.append((executor.id, executor.kind, state, executor.version, ", ".join(executor.queues), current))
    if rows:
        print_table(("id", "kind", "state", "version", "serves", "at"), rows)
    else:
        say(Console(stderr=True), "there are no drivers and no workers; start a worker: operad worker FILE")


def _as_json(executor: Executor) -> dict[str, object]:
    return {
        "id": executor.id,
        "kind": executor.kind,
        "alive": executor.alive,
        "silent_seconds": round(executor.silent, 1),
        "version": executor.version,
        "queues": executor.queues,
        "concurrency": executor.concurrency,
        "doing": executor.doing,
        "started": executor.started,
    }
