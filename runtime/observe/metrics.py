"""Prometheus metrics of runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from operad.runtime import events
from operad.runtime.events import Event, current_scope
from operad.runtime.events.log import repeated
from operad.runtime.values.errors import InputError, MissingExtraError, describe
from operad.runtime.values.pip import pip_install
from operad.runtime.values.valid_json import to_text

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper limits of the histograms' buckets."""

MOST_NAMES = 500
"""Maximum number of distinct names of operators, of models and of tools; models may invent any number of names."""

MOST_OF_A_NAME = 200
"""Maximum number of characters of a name in a label."""

OTHER = "other"
"""Label for names above the maximum number."""


class Metrics:
    """Listener of a workflow that counts events, in its own registry.

    Repeated events, of work done earlier or by a worker, are skipped, because they were counted when they happened.

    Raises:
        MissingExtraError: The extra ``tracing`` is not installed.

    Attributes:
        registry: The metrics.
    """

    def __init__(self) -> None:
        made = _client()
        self.registry: CollectorRegistry = made.CollectorRegistry(auto_describe=True)

        def metric(kind: str, name: str, help_text: str, *labels: str, **more: Any) -> Any:
            return getattr(made, kind)(f"operad_{name}", help_text, labels, registry=self.registry, **more)

        self._started = metric("Counter", "runs_started", "Runs that began.", "workflow")
        self._ended = metric("Counter", "runs_finished", "Runs that ended, by how.", "workflow", "status")
        self._running = metric("Gauge", "operators_running", "Operators at work.")
        self._seconds = metric(
            "Histogram",
            "operator_seconds",
            "How long operators took.",
            "workflow",
            "operator",
            "state",
            buckets=SECONDS,
        )
        self._retries = metric("Counter", "operator_retries", "Attempts that failed.", "workflow", "operator")
        self._calls = metric("Counter", "model_calls", "Calls of models.", "model", "state")
        self._again = metric("Counter", "model_retries", "Requests to models that were sent again.", "model")
        self._tokens = metric("Counter", "model_tokens", "Tokens that models read and wrote.", "model", "kind")
        self._cost = metric("Counter", "model_cost", "What models cost, in US dollars, as far as known.", "model")
        self._unpriced = metric("Counter", "model_calls_unpriced", "Calls of models of unknown price.", "model")
        self._tools = metric("Counter", "tool_calls", "Calls of tools.", "tool", "state")
        self._tool_seconds = metric("Histogram", "tool_seconds", "How long tools took.", "tool", buckets=SECONDS)
        self._questions = metric("Gauge", "open_questions", "Questions that wait for a person.")
        self._names: dict[str, set[tuple[str, ...]]] = {}
        self._workflows: dict[str, str] = {}
        self._done_before: set[tuple[str, tuple[str, ...]]] = set()
        self._asked: dict[tuple[str, tuple[str, ...]], set[str]] = {}

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case events.RunStarted():
                [self._workflows[event.run_id]] = self._limited_names("workflow", event.workflow)
                self._started.labels(self._workflows[event.run_id]).inc()
            case events.RunFinished():
                self._ended.labels(self._workflows.pop(event.run_id, OTHER), event.message.status.value).inc()
            case events.RunFailed():
                self._ended.labels(self._workflows.pop(event.run_id, OTHER), "failed").inc()
            case events.OperatorStarted():
                self._running.inc()
            case events.OperatorFinished() | events.OperatorFailed() | events.OperatorCancelled():
                self._operator_ended(event)
            case events.MessageKept() | events.CacheHit():
                self._done_before.add((event.run_id, event.path))
            case events.Interrupted() | events.Resumed():
                self._count_question(event)
            case _ if repeated() is None:
                self._count_call(event)
            case _:
                pass

    def _operator_ended(
        self, event: events.OperatorFinished | events.OperatorFailed | events.OperatorCancelled
    ) -> None:
        self._running.dec()
        place = event.run_id, event.path
        if self._asked.pop(place, None):  # an operator that has ended no longer waits for answers
            self._questions.set(sum(map(len, self._asked.values())))
        if place in self._done_before:
            self._done_before.discard(place)
            return
        state = type(event).__name__.removeprefix("Operator").lower()
        self._seconds.labels(*self._operator(), state).observe(event.seconds)

    def _count_call(self, event: Event) -> None:
        match event:
            case events.OperatorRetried():
                self._retries.labels(*self._operator()).inc()
            case events.ModelAnswered():
                [model], usage = self._limited_names("model", event.model), event.usage
                self._calls.labels(model, "answered").inc()
                self._tokens.labels(model, "prompt").inc(usage.prompt_tokens)
                self._tokens.labels(model, "completion").inc(usage.completion_tokens)
                if usage.unpriced:
                    self._unpriced.labels(model).inc(usage.unpriced)
                if usage.known_cost is not None:
                    self._cost.labels(model).inc(usage.known_cost)
            case events.ModelRetried():
                self._again.labels(*self._limited_names("model", event.model)).inc()
            case events.ModelFailed():
                self._calls.labels(*self._limited_names("model", event.model), "failed").inc()
            case events.ToolReturned():
                [tool] = self._limited_names("tool", event.tool)
                self._tools.labels(tool, "failed" if event.failed else "returned").inc()
                self._tool_seconds.labels(tool).observe(event.seconds)
            case _:
                pass

    def _count_question(self, event: events.Interrupted | events.Resumed) -> None:
        asked = self._asked.setdefault((event.run_id, event.path), set())
        (asked.add if isinstance(event, events.Interrupted) else asked.discard)(event.interrupt_id)
        self._questions.set(sum(map(len, self._asked.values())))

    # Names

    def _operator(self) -> tuple[str, str]:
        """Return the workflow and the operator in which the current code runs."""
        scope = current_scope()
        if scope is None:
            return OTHER, OTHER
        workflow, operator = self._limited_names("operator", scope.run.workflow, scope.operator_id)
        return workflow, operator

    def _limited_names(self, kind: str, *names: str) -> tuple[str, ...]:
        """Return names as labels, or `OTHER` for each if there are too many distinct names of this kind."""
        names = tuple(to_text(name[:MOST_OF_A_NAME]) for name in names)
        known = self._names.setdefault(kind, set())
        if names not in known and len(known) >= MOST_NAMES:
            return (OTHER,) * len(names)
        known.add(names)
        return names

    # Further gauges

    def watch(self, name: str, help_text: str, look: Callable[[], float]) -> None:
        """Add a gauge that is read whenever the metrics are requested.

        Args:
            name: Name of the gauge, after ``operad_``.
            look: Function that returns the value.
        """
        _client().Gauge(f"operad_{name}", help_text, registry=self.registry).set_function(look)


def exposition(registry: CollectorRegistry) -> tuple[bytes, str]:
    """Return the metrics in the text format of Prometheus, and its content type."""
    made = _client()
    return made.generate_latest(registry), made.CONTENT_TYPE_LATEST


def serve(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> tuple[int, Callable[[], None]]:
    """Serve metrics at ``http://HOST:PORT/metrics`` in a thread.

    Args:
        port: Port; 0 for any free port.
        host: Address to listen at; the default can be reached from this machine only.

    Returns:
        The port, and a function that stops the server.

    Raises:
        InputError: The port is not available.
    """
    try:
        server, thread = _client().start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"metrics cannot be served at {host}:{port}: {describe(error)}; choose another host or port"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return int(server.server_port), stop


def _client() -> Any:
    try:
        return import_module("prometheus_client")
    except ImportError as error:
        raise MissingExtraError(f"metrics need prometheus-client: {pip_install('tracing')} ({error})") from error
