"""Additional outputs of a command: traces for a collector, events for the log."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer
from rich.console import Console

from operad.cli.follow import say
from operad.runtime.events import Listener
from operad.runtime.observe.logs import log_event
from operad.runtime.observe.tracing import OpenTelemetryListener
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install
from operad.runtime.workflow.workflow import Workflow

T = TypeVar("T")

CONSOLE, OTLP = "console", "otlp"
LONGEST_FLUSH = 5.0
"""Maximum number of seconds to send remaining spans at the end."""

DELAY = 1.0
"""Seconds for which spans wait to be sent in one batch."""

AT_ONCE, MOST_WAITING = 64, 4096
"""Maximum number of spans in a batch, and of spans that wait to be sent."""

MOST_ATTRIBUTES = 512
"""Maximum number of attributes of a span."""

Traced = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="WHERE",
        help="Write spans: console (JSON lines on stderr), the URL of a collector (OTLP over HTTP), or otlp, "
        "with the standard OTEL_EXPORTER_OTLP_… variables, which also hold the headers.",
    ),
]


MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve Prometheus metrics at http://HOST:PORT/metrics.")
]
MetricsHost = Annotated[
    str, typer.Option(help="Address for the metrics: by default this machine only; 0.0.0.0 for all.")
]


@contextmanager
def listening(where: str | None) -> Generator[Sequence[Listener], None, None]:
    """Yield the listeners for a command's runs; at the end, send the remaining spans within `LONGEST_FLUSH` seconds.

    Args:
        where: Destination of spans, as `Traced`; None for none.

    Raises:
        InputError: The destination is not valid.
        MissingExtraError: The extra ``tracing`` is not installed.
    """
    logged: list[Listener] = [log_event] if logging.getLogger("operad").isEnabledFor(logging.INFO) else []
    if where is None:
        yield logged
        return
    listener, close = _tracing(where)
    try:
        yield [listener, *logged]
    finally:
        close()


async def listened(workflow: Workflow, where: str | None, work: Coroutine[Any, Any, T]) -> T:
    """Await a workflow's run with the listeners of `listening`, and return its result.

    Args:
        where: Destination of its spans.
    """
    try:
        with listening(where) as listeners:
            for listener in listeners:
                workflow.add_listener(listener)
            return await work
    finally:
        work.close()


def _tracing(where: str) -> tuple[Listener, Callable[[], None]]:
    """Return a listener that sends spans to a destination, and a function that sends the remaining ones."""
    _check_destination(where)
    logging.getLogger("opentelemetry").setLevel(
        logging.CRITICAL
    )  # its warnings repeat headers; `_flush` prints one line instead
    try:
        sdk: Any = import_module("opentelemetry.sdk.trace")
        export: Any = import_module("opentelemetry.sdk.trace.export")
        resources: Any = import_module("opentelemetry.sdk.resources")
        api: Any = import_module("opentelemetry.trace")
        http = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
        exporter: Any = None if where == CONSOLE else import_module(http).OTLPSpanExporter
    except ImportError as error:
        raise MissingExtraError(f"--trace needs OpenTelemetry: {pip_install('tracing')} ({error})") from error
    name = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "operad"}
    provider = sdk.TracerProvider(
        resource=resources.Resource.create({**name, "service.version": version("operad")}),
        span_limits=sdk.SpanLimits(max_attributes=MOST_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        api.set_tracer_provider(provider)  # spans that operators and tools create go there, too
    listener = OpenTelemetryListener(provider)
    if where == CONSOLE:
        console_exporter = export.ConsoleSpanExporter(out=sys.stderr, formatter=_span_line)
        provider.add_span_processor(export.SimpleSpanProcessor(console_exporter))
        return listener, lambda: None
    counting_exporter = _CountingExporter(_exporter(where, exporter), export.SpanExportResult.SUCCESS)
    batches = export.BatchSpanProcessor(
        counting_exporter,
        max_queue_size=MOST_WAITING,
        max_export_batch_size=AT_ONCE,
        schedule_delay_millis=DELAY * 1000,
    )
    provider.add_span_processor(batches)
    return listener, lambda: _flush(provider, counting_exporter, where)


def _span_line(span: Any) -> str:
    return f"{span.to_json(indent=None)}\n"


class _CountingExporter:
    """Exporter that counts the spans that could not be sent.

    Attributes:
        failed: Number of spans that the collector did not accept.
    """

    def __init__(self, exporter: Any, success: Any) -> None:
        self._exporter = exporter
        self._success = success
        self.failed = 0

    def export(self, spans: Sequence[Any]) -> Any:
        result = self._exporter.export(spans)
        if result is not self._success:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _flush(provider: Any, sent: _CountingExporter, where: str) -> None:
    """Send remaining spans, within `LONGEST_FLUSH` seconds; print a warning if some could not be sent."""
    ended = threading.Event()

    def flush() -> None:
        provider.force_flush()
        ended.set()

    threading.Thread(target=flush, name="operad-traces", daemon=True).start()
    if not ended.wait(LONGEST_FLUSH) or sent.failed:
        destination = where if where != OTLP else "the collector that OTEL_EXPORTER_OTLP_ENDPOINT names"
        say(
            Console(stderr=True),
            f"traces: not all spans have reached {destination}; is it running, and does it accept OTLP?",
        )


def _exporter(where: str, exporter_type: Callable[..., Any]) -> Any:
    if where == OTLP:
        return exporter_type()
    return exporter_type(endpoint=where if urlsplit(where).path.strip("/") else f"{where.rstrip('/')}/v1/traces")


def _check_destination(where: str) -> None:
    """Check the destination of spans."""
    if where in (CONSOLE, OTLP):
        return
    try:
        url = urlsplit(where)
        good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        url, good = None, False
    if url is not None and (url.username or url.password or url.query or url.fragment):
        raise InputError("--trace: leave logins and keys out of the address; give them in OTEL_EXPORTER_OTLP_HEADERS")
    if not good:
        shown = repr(where) if "@" not in where else "this"
        raise InputError(
            f"--trace: {shown} is not a destination for spans: write console, otlp, or the URL of a collector, "
            "such as http://127.0.0.1:6006/v1/traces"
        )
