"""Measure the cost of traces and metrics, on workflows of operators that do nothing.

    python test/benchmark/bench_tracing.py

The table shows, for each shape and listener, the microseconds per operator, and the ratio to a run without listeners. For
comparison: an operator that asks a model takes about 100,000 µs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from operad.runtime import BuiltinWorkflow, Job
from operad.runtime.observe.metrics import Metrics
from operad.runtime.observe.tracing import OpenTelemetryListener
from operad.runtime.testing import ScriptedReasoner


class Nothing:
    """An operator that does nothing."""

    def __init__(self, op_id: str) -> None:
        self._id = op_id

    def get_id(self) -> str:
        return self._id

    async def execute(self, reasoner: Any, job: Any, *_: Any, **__: Any) -> str:
        await asyncio.sleep(0)
        return ""


class Nowhere(SpanExporter):
    """Exporter that discards spans."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def wide(count: int) -> BuiltinWorkflow:
    """Return a workflow of concurrent operators, and one after them."""
    workflow, last = BuiltinWorkflow(), Nothing("last")
    workflow.add_operator(last)
    for number in range(count - 1):
        workflow.add_operator(Nothing(f"n{number}"), next_ops=[last])
    return workflow


def deep(count: int) -> BuiltinWorkflow:
    """Return a workflow of operators in sequence."""
    workflow, before = BuiltinWorkflow(), list[Nothing]()
    for number in range(count):
        operator = Nothing(f"n{number}")
        workflow.add_operator(operator, before)
        before = [operator]
    return workflow


def spans() -> Any:
    """Return a listener that writes spans to an exporter that discards them."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    return OpenTelemetryListener(provider)


def listen_only(_: object) -> None:
    """Receive an event and do nothing."""


LISTENERS: dict[str, Callable[[], Any]] = {
    "nobody": lambda: None,
    "one that does nothing": lambda: listen_only,
    "metrics": Metrics,
    "spans": spans,
}


def seconds(shape: Callable[[int], BuiltinWorkflow], count: int, listener: Any, repeat: int) -> float:
    """Return the median seconds of a run."""
    workflow = shape(count)
    if listener:
        workflow.add_listener(listener)
    times: list[float] = []
    for _ in range(repeat):
        began = time.perf_counter()
        workflow.execute(Job(goal=""), ScriptedReasoner([]))
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--operators", type=int, default=1000)
    args.add_argument("--repeat", type=int, default=6)
    options = args.parse_args()
    print(f"{options.operators} operators that do nothing; the median of {options.repeat - 1} runs\n")
    print(f"{'shape':<6} {'who listens':<22} {'µs an operator':>15} {'times':>7}")
    for shape in (wide, deep):
        alone = 0.0
        for name, make in LISTENERS.items():
            took = seconds(shape, options.operators, make(), options.repeat)
            alone = alone or took
            print(f"{shape.__name__:<6} {name:<22} {1e6 * took / options.operators:>15.1f} {took / alone:>7.1f}")


if __name__ == "__main__":
    main()
