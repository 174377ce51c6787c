"""Runs as OpenTelemetry spans, written as they happen, for any collector."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from operad.runtime import events
from operad.runtime.events import Event, current_scope
from operad.runtime.events.log import repeated, traced
from operad.runtime.observe.trace import Graph, Span, Trace, structural
from operad.runtime.values.errors import MissingExtraError
from operad.runtime.values.fault import verdict_text
from operad.runtime.values.message import WorkflowStatus
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import cut
from operad.runtime.values.valid_json import to_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as Written
    from opentelemetry.trace import Tracer, TracerProvider

_SKIPPED = ("attempt", "pause")
"""Kinds of spans that are exported as events of their operator's span."""

_BEGINS = events.RunStarted | events.OperatorStarted | events.ModelAsked | events.ToolCalled
_ENDS = (
    events.RunFinished | events.RunFailed | events.OperatorFinished | events.OperatorFailed | events.OperatorCancelled
)
_NOTES = (
    events.AnswerRejected
    | events.ConversationShortened
    | events.MaxTurnsReached
    | events.ModelRetried
    | events.SettingsDropped
    | events.FellBack
    | events.CacheHit
    | events.MessageKept
    | events.BlameUnknown
)
_STAMP = frozenset(Event.__struct_fields__)
_TRUE = ("1", "true", "yes", "on")
_MOST_OF_A_NAME = 200
_MOST_OF_AN_ERROR = 4_000


class OpenTelemetryListener:
    """Listener of a workflow that exports its runs as OpenTelemetry spans in OpenInference's conventions.

        flow = Workflow(facts >> answer, listeners=[OpenTelemetryListener()])

    There are spans for the run, rounds, operators, items of maps, calls of models and tools, searches and questions.

    The span of an operator or a tool is OpenTelemetry's current span while the operator or tool runs, so that spans of
    other libraries are nested in it. A run that starts inside a span is nested in that span. For other runs, the trace
    id is derived from the run id, so that all processes that work on a run write one trace, also after a crash.

    One listener serves any number of runs, workflows and threads.

    Args:
        provider: Tracer provider; None for the one set with ``opentelemetry.trace.set_tracer_provider``.
        content: True to export texts: jobs, messages, answers, arguments, results, errors. If
            ``OPENINFERENCE_HIDE_INPUTS`` or ``OPENINFERENCE_HIDE_OUTPUTS`` is true, inputs or outputs are omitted.

    Raises:
        MissingExtraError: The extra ``tracing`` is not installed.
    """

    def __init__(self, provider: TracerProvider | None = None, *, content: bool = True) -> None:
        try:
            self._api: Any = import_module("opentelemetry.trace")
            self._context: Any = import_module("opentelemetry.context")
            self._sdk: Any = import_module("opentelemetry.sdk.trace")
            self._conventions: Any = import_module("operad.runtime.observe.openinference")
        except ImportError as error:
            raise MissingExtraError(f"traces need OpenTelemetry: {pip_install('tracing')} ({error})") from error
        self._provider = provider
        self._shown = self._conventions.Shown(
            inputs=content and not _is_set("OPENINFERENCE_HIDE_INPUTS"),
            outputs=content and not _is_set("OPENINFERENCE_HIDE_OUTPUTS"),
        )
        self._runs: dict[str, _RunExport | None] = {}

    def __call__(self, event: Event) -> None:
        """Export an event."""
        if isinstance(event, events.RunStarted):
            self._runs[event.run_id] = None if self._is_part_of_traced_run() else self._export_of(event.run_id)
        elif isinstance(event, events.OperatorStarted) and event.run_id not in self._runs:
            self._runs[event.run_id] = self._export_of(event.run_id, elsewhere=True)
        run = self._runs.get(event.run_id)
        if run is not None:
            run.apply(event)
        if isinstance(event, events.RunFinished | events.RunFailed) or (run is not None and run.is_over):
            self._runs.pop(event.run_id, None)

    def _export_of(self, run_id: str, *, elsewhere: bool = False) -> _RunExport:
        """Return a new export of a run; `elsewhere` is True if another process drives the run."""
        provider = self._provider or self._api.get_tracer_provider()
        tracer: Any = provider.get_tracer("operad")
        if isinstance(tracer, self._sdk.Tracer):
            tracer = copy(tracer)
            tracer.id_generator = _Ids(run_id, tracer.id_generator)
        return _RunExport(tracer, self._api, self._context, self._conventions, self._shown, elsewhere=elsewhere)

    def _is_part_of_traced_run(self) -> bool:
        """Return True if the run is inside a run that this listener traces."""
        scope = current_scope()
        return scope is not None and any(self._runs.get(each.run.log.run_id) for each in scope.outwards())


class _Ids:
    """Id generator that derives trace ids from the run id, and takes span ids from the program's generator."""

    def __init__(self, run_id: str, span_ids: Any) -> None:
        self._run_id = run_id
        self._span_ids = span_ids

    def generate_trace_id(self) -> int:
        return trace_id_of(self._run_id)

    def generate_span_id(self) -> int:
        return self._span_ids.generate_span_id()

    def is_trace_id_random(self) -> bool:
        return False


class _RunExport:
    """Export of a run, or of operators that this process executes in a run which another process drives.

    Args:
        tracer: Tracer that writes the spans.
        api: Module ``opentelemetry.trace``.
        context: Module ``opentelemetry.context``.
        conventions: Module `openinference`.
        shown: Parts of the content that are exported.
    """

    def __init__(
        self, tracer: Tracer, api: Any, context: Any, conventions: Any, shown: Any, *, elsewhere: bool
    ) -> None:
        self._tracer = tracer
        self._api = api
        self._context = context
        self._conventions = conventions
        self._shown = shown
        self._is_driven_elsewhere = elsewhere
        self._trace = Trace()
        self._written: dict[int, Written] = {}  # exported spans that are open, by the id of the trace's span
        self._before: dict[int, Context] = {}  # the context before a span became the current one
        self._items: dict[int, list[Span]] = {}  # items of a map, by the id of the map's span
        self._session = ""
        self._around: Context | None = None

    @property
    def is_over(self) -> bool:
        """True if another process drives the run, and all operators executed here have ended."""
        return self._is_driven_elsewhere and not self._written

    def apply(self, event: Event) -> None:
        """Start, change and end exported spans according to an event."""
        repeat = repeated()
        known = len(self._trace.spans)
        if self._is_driven_elsewhere and not known:
            self._trace.apply(
                events.RunStarted(run_id=event.run_id, time=event.time, workflow="", goal="", operators={})
            )
            known = 1
        changed = self._trace.apply(event)
        for span in changed:
            if span.id >= known and span.kind not in _SKIPPED and not (repeat and repeat.traced):
                self._begin(span, event, now=repeat is None)
        self._note(event, changed, told=repeat is not None and repeat.traced)
        for span in reversed(changed):
            if span.end is not None and span.kind != "item":
                self._end(span, event)
        if isinstance(event, _ENDS) and repeat is None and changed:
            self._restore_current(changed[0])

    # The beginning and the end

    def _begin(self, span: Span, event: Event, *, now: bool) -> None:
        outer = self._enclosing(span)
        current = self._api.get_current_span()
        if self._is_driven_elsewhere and outer is None and current.get_span_context().is_remote:
            self._written[span.id] = current  # the driver of the run exports this span
        else:
            if self._around is None:
                self._around = self._context.get_current()  # with the baggage of the caller, such as the user's id
            context = None if outer is None else self._api.set_span_in_context(outer, self._around)
            attributes = _sendable(self._location_attributes(span))
            self._written[span.id] = self._tracer.start_span(
                _name(span), context, attributes=attributes, start_time=_nanoseconds(span.start)
            )
        if span.kind == "item" and span.parent is not None:
            self._items.setdefault(span.parent, []).append(span)
        if now and isinstance(event, _BEGINS):
            self._make_current(span)

    def _enclosing(self, span: Span) -> Written | None:
        """Return the nearest enclosing span that is exported."""
        while span.parent is not None:
            if written := self._written.get(span.parent):
                return written
            span = self._trace.spans[span.parent]
        return None

    def _location_attributes(self, span: Span) -> dict[str, Any]:
        """Return the attributes of a span that are known at its start: its kind, and its place in the run."""
        attributes: dict[str, Any] = {
            **self._conventions.of_kind(self._conventions.kind_of(span)),
            "operad.kind": span.kind,
            "operad.run_id": self._trace.run_id,
        }
        if span.kind == "run":
            attributes["operad.workflow"] = self._trace.workflow
        if span.path:
            attributes["operad.path"] = "/".join(span.path)
        if span.round:
            attributes["operad.round"] = span.round
        if span.attempt:
            attributes["operad.attempt"] = span.attempt
        return attributes

    def _make_current(self, span: Span) -> None:
        """Make a span the current one in the context in which the event was written, which is that of the operator."""
        written = self._written[span.id]
        self._before[span.id] = before = self._context.get_current()
        self._context.attach(self._api.set_span_in_context(written, before))
        if span.kind in ("run", "operator"):
            traced.set(True)
        scope = current_scope()
        if span.kind == "operator" and scope is not None and not self._session:
            self._session = scope.run.root.job.session_id
            if root := self._written.get(0):
                root.set_attributes(_sendable(self._conventions.of_session(self._session)))

    def _restore_current(self, span: Span) -> None:
        """Restore the context before `_make_current`; a token could not be used, as it is valid in one context only."""
        if (before := self._before.pop(span.id, None)) is not None:
            self._context.attach(before)

    def _end(self, span: Span, event: Event) -> None:
        written = self._written.pop(span.id, None)
        for item in self._items.pop(span.id, ()):  # items end with their map, because another round might have followed
            self._end(item, event)
        if written is None:
            return
        if span.kind in ("model", "tool"):
            before = self._before.pop(span.id, None)
            if before is not None and self._api.get_current_span() is written:
                self._context.attach(before)
        if written.is_recording():
            self._set_outcome(span, written)
        written.end(_nanoseconds(span.end if span.end is not None else event.time))
        span.details.clear()  # to save memory in long runs

    def _set_outcome(self, span: Span, written: Written) -> None:
        """Set the attributes, status and exception of a span that has ended."""
        graph = self._trace.graphs.get(structural(span.path[:-1])) or Graph("", {})
        if span.kind == "run":
            span.details["goal"] = self._trace.goal
        attributes = self._conventions.attributes_of(span, self._shown) | self._conventions.of_kind(
            self._conventions.kind_of(span, graph.judges)
        )
        if self._session:
            attributes |= self._conventions.of_session(self._session)
        written.set_attributes(_sendable(attributes))
        code = self._api.StatusCode
        fault = _fault(span)
        if fault is None:
            written.set_status(code.OK if span.state in ("done", "cached", "kept") else code.UNSET)
            return
        description = to_text(fault[:_MOST_OF_AN_ERROR]) if self._shown.outputs else ""
        written.set_status(code.ERROR, description or None)
        if span.state == "failed":
            written.add_event("exception", self._exception(fault), _nanoseconds(span.end or span.start))

    # Events within spans

    def _note(self, event: Event, changed: Sequence[Span], *, told: bool) -> None:
        """Export an event that occurred within a span, unless it was exported when it first happened (`told`)."""
        written = self._written.get(changed[0].id) if changed else None
        if written is None or told:
            return
        at = _nanoseconds(event.time)
        match event:
            case events.KnowledgeRetrieved():
                context = self._api.set_span_in_context(written, self._around)
                attributes = _sendable(
                    {
                        **self._location_attributes(changed[0]),
                        **(self._conventions.of_session(self._session) if self._session else {}),
                        "operad.kind": "knowledge",
                        **self._conventions.looked_up(event, self._trace.goal, self._shown),
                    }
                )
                self._tracer.start_span("knowledge", context, attributes=attributes, start_time=at).end(at)
            case events.OperatorRetried():
                more = {"operad.attempt": event.attempt, "operad.delay": event.delay}
                written.add_event("exception", {**self._exception(event.error), **more}, at)
                written.set_attribute("operad.attempt", event.attempt + 1)
            case _ if isinstance(event, _NOTES):
                fields = event.as_dict() if self._shown.outputs else {}
                attributes = {
                    f"operad.{name}": cut(str(value), _MOST_OF_AN_ERROR)
                    for name, value in fields.items()
                    if name not in _STAMP
                }
                written.add_event(type(event).__name__, _sendable(attributes), at)
            case _:
                pass

    def _exception(self, error: str) -> dict[str, str]:
        """Return the attributes of OpenTelemetry's event ``exception`` for an error text such as ``KeyError: 'x'``."""
        kind, colon, text = error.partition(": ")
        named = bool(colon) and kind.isidentifier()
        attributes = {"exception.type": kind if named or error.isidentifier() else "OperadError"}
        if not self._shown.outputs:
            return attributes
        return _sendable({**attributes, "exception.message": (text if named else error)[:_MOST_OF_AN_ERROR]})


def trace_id_of(run_id: str) -> int:
    """Return the trace id, of 128 bits, of a run that did not start inside a span."""
    return int.from_bytes(hashlib.sha256(f"operad:{run_id}".encode()).digest()[:16], "big") or 1


def carried() -> str:
    """Return the current span as text for `continued` in another process (W3C's ``traceparent``); empty without one."""
    if "opentelemetry.trace" not in sys.modules:
        return ""
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return carrier.get("traceparent", "")


def continued(text: str) -> None:
    """Make a span of another process the current one in this context."""
    if text and "opentelemetry.trace" in sys.modules:
        import_module("opentelemetry.context").attach(_propagator().extract({"traceparent": text}))


def _propagator() -> Any:
    return import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()


def _fault(span: Span) -> str | None:
    """Return the error or the verdict because of which a span counts as failed; None if it does not."""
    details = span.details
    if span.state == "failed" or (span.kind == "run" and span.state == "stopped" and not details.get("asks")):
        return str(details.get("error") or details.get("result") or "failed")
    verdict: dict[str, Any] = {"run": details.get("message", {}), "round": details}.get(span.kind, {})
    if (status := verdict.get("status", "SUCCESS")) != "SUCCESS":
        return verdict_text(WorkflowStatus(status), str(verdict.get("evaluation", "")))
    return None


def _name(span: Span) -> str:
    return f"round {span.name}" if span.kind == "round" else to_text(span.name[:_MOST_OF_A_NAME]) or span.kind


def _sendable(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that an exporter can encode."""
    return {name: _sendable_value(value) for name, value in attributes.items()}


def _sendable_value(value: Any) -> Any:
    if isinstance(value, str):
        return to_text(value)
    return [to_text(each) for each in cast("list[str]", value)] if isinstance(value, list) else value


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in _TRUE
