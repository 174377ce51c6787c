"""A run as a tree of spans, made from its events: the page, reports, notebooks and traces all show this.

A span is something that takes time: the run, a round, an operator in a round, an item of a map, an attempt, the pause
before the next, a call of a model or a tool, a question to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus

Kind = Literal["run", "round", "operator", "item", "attempt", "pause", "model", "tool", "question"]
State = Literal["running", "done", "failed", "stopped", "skipped", "cached", "kept"]

MOST_STREAMED = 100_000
"""Maximum number of characters kept of a streamed answer, until the whole answer is known."""

_INDEX = re.compile(r"\[\d+\]$")
_STAMP = frozenset(Event.__struct_fields__)
_VERDICT = frozenset(events.RoundFinished.__struct_fields__) - _STAMP


@dataclass(slots=True, eq=False)
class Span:
    """A period of time in a run.

    Attributes:
        id: Index in the trace, from 0.
        parent: Id of the enclosing span; None for the run itself.
        kind: Kind of span.
        name: Name: an operator's id, a model's or a tool's name, a round's number.
        path: Path in the run, as in events; empty for a span of the whole run.
        round: Round of the workflow; 0 for the run.
        attempt: Attempt of the operator; 0 if there is none.
        start: Start, in seconds since the epoch.
        end: End; None while it is in progress.
        state: State, or outcome.
        usage: Usage of models in it, as far as known.
        details: Further plain values.
        version: Version of the trace in which the span last changed.
    """

    id: int
    parent: int | None
    kind: Kind
    name: str
    path: tuple[str, ...]
    round: int
    attempt: int
    start: float
    end: float | None = None
    state: State = "running"
    usage: Usage = NO_USAGE
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    version: int = 0

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 while it is in progress."""
        return 0.0 if self.end is None else max(0.0, self.end - self.start)


@dataclass(slots=True, frozen=True)
class Graph:
    """Structure of a workflow.

    Attributes:
        workflow: Its name.
        before: Per operator, the operators before it.
        judges: Ids of its evaluators.
        instructions: Purposes of operators and evaluators, if declared.
        ports: Per operator, the ports that edges to it leave from, by the operator before it.
    """

    workflow: str
    before: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])

    def joined(self, other: Graph) -> Graph:
        """Return the union of two structures: a leader's workflow has other operators each time."""
        return Graph(
            other.workflow,
            {**self.before, **other.before},
            tuple(dict.fromkeys((*self.judges, *other.judges))),
            {**self.instructions, **other.instructions},
            {**self.ports, **other.ports},
        )


class Trace:
    """The spans of a run, updated by its events: call `apply` with each, in their order.

    Attributes:
        run_id: Id of the run.
        workflow: Name of the workflow.
        goal: Goal of the job.
        spans: All spans, by their id; the run's own first.
        graphs: Workflows in the run, by the path of the operator that runs them, without the indices of
            items; that of the run itself under ``()``.
        version: Number of events applied.
        began: Version of the run's first event; earlier versions were of another run.
        graphs_version: Version of the last event that described a workflow.
        now: Time of the last event, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.version = 0
        self._clear()

    def _clear(self) -> None:
        self.run_id = ""
        self.workflow = ""
        self.goal = ""
        self.spans: list[Span] = []
        self.graphs: dict[tuple[str, ...], Graph] = {}
        self.began = self.graphs_version = self.version
        self.now = 0.0
        self._open: dict[tuple[object, ...], Span] = {}
        self._open_in: dict[int | None, dict[tuple[object, ...], Span]] = {}

    @classmethod
    def of(cls, happened: Iterable[Event]) -> Trace:
        """Return the trace of these events."""
        trace = cls()
        for event in happened:
            trace.apply(event)
        return trace

    @property
    def root(self) -> Span | None:
        """Span of the run; None before its first event."""
        return self.spans[0] if self.spans else None

    @property
    def ended(self) -> bool:
        """True if the run has ended."""
        return bool(self.spans) and self.spans[0].end is not None

    def changed_since(self, version: int) -> list[Span]:
        """Return the spans that changed after a version."""
        return [span for span in self.spans if span.version > version]

    def within(self, span: Span, *kinds: Kind) -> list[Span]:
        """Return the direct children of a span, of these kinds or of all, in order of their beginning."""
        return [each for each in self.spans if each.parent == span.id and (not kinds or each.kind in kinds)]

    def apply(self, event: Event) -> Sequence[Span]:
        """Apply an event.

        Returns:
            The spans that it began, changed or ended, enclosing ones first.
        """
        self.version += 1
        if isinstance(event, events.RunStarted):  # the events of another run follow, or those of the same run again
            self._clear()
        self.now = max(self.now, event.time)
        changed = self._changed_by(event)
        for span in changed:
            span.version = self.version
        return changed

    def _changed_by(self, event: Event) -> Sequence[Span]:
        match event:
            case events.RunStarted():
                return self._run_started(event)
            case events.RunFinished():
                return self._run_ended(event, "done", event.message.usage, message=event.as_dict()["message"])
            case events.RunFailed():
                state = "stopped" if event.error == events.CANCELLED else "failed"
                return self._run_ended(event, state, event.usage, error=event.error)
            case events.WorkflowEntered():
                return self._entered(event)
            case events.RoundStarted():
                return self._round_started(event)
            case events.RoundFinished():
                return self._round_ended(event)
            case events.OperatorStarted():
                return [self._begin(("operator", event.path), self._around(event), "operator", event)]
            case events.OperatorSkipped():
                span = self._begin(("operator", event.path), self._around(event), "operator", event)
                return self._end_operator(event, span, "skipped", reason=event.reason)
            case _:
                return self._changed_in_operator(event)

    def _changed_in_operator(self, event: Event) -> Sequence[Span]:
        span = self._operator(event.path)
        if span is None:
            return self._noted(event, self._open.get(("round", event.path)) or self.root)
        match event:
            case events.OperatorFinished():
                state = span.state if span.state in ("cached", "kept") else "done"
                span.usage = event.message.usage
                return self._end_operator(event, span, state, message=event.as_dict()["message"])
            case events.OperatorFailed() | events.OperatorCancelled():
                span.usage = event.usage
                error = {"error": event.error} if isinstance(event, events.OperatorFailed) else {}
                return self._end_operator(event, span, "failed" if error else "stopped", **error)
            case events.OperatorRetried():
                return self._retried(event, span)
            case events.CacheHit() | events.MessageKept():
                span.state = "cached" if isinstance(event, events.CacheHit) else "kept"
                return [span]
            case events.TaskBuilt():
                span.details.setdefault("tasks", []).append(event.as_dict()["task"])
                return [span]
            case events.Progress():
                span.details["progress"] = [event.done, event.total]
                return [span]
            case _:
                return self._called(event, span)

    def _called(self, event: Event, span: Span) -> Sequence[Span]:
        """Update calls of models and tools, and questions to persons, of an operator."""
        match event:
            case events.ModelAsked():
                told = event.as_dict()
                asked = self._begin(("model", event.call_id), span, "model", event, event.model)
                asked.details.update(messages=told["messages"], tools=told["tools"])
                return [asked]
            case events.TokenStreamed():
                return self._streamed(event, span)
            case events.ModelAnswered():
                return self._answered(event, span)
            case events.ModelFailed():
                return self._end(("model", event.call_id), event, "failed", error=event.error)
            case events.ToolCalled():
                called = self._begin(("tool", event.path, event.call_id), span, "tool", event, event.tool)
                called.details["arguments"] = event.as_dict()["arguments"]
                return [called]
            case events.ToolReturned():
                state = "failed" if event.failed else "done"
                return self._end(("tool", event.path, event.call_id), event, state, result=event.result)
            case events.Interrupted():
                told = event.as_dict()
                asked = self._begin(("question", event.interrupt_id), span, "question", event, event.interrupt_id)
                asked.details.update(question=event.question, schema=told["schema"])
                return [asked]
            case events.Resumed():
                return self._end(("question", event.interrupt_id), event, "done")
            case _:
                return self._noted(event, span)

    # The run and its rounds

    def _run_started(self, event: events.RunStarted) -> Sequence[Span]:
        self.run_id, self.workflow, self.goal = event.run_id, event.workflow, event.goal
        self.graphs[()] = _graph_of(event)
        return [self._begin(("run",), None, "run", event, event.workflow)]

    def _run_ended(self, event: Event, state: State, usage: Usage, **details: object) -> Sequence[Span]:
        if self.root:
            self.root.usage = usage
        left = [self._end(key, event, "stopped") for key in [*reversed(self._open)] if key != ("run",)]
        return [*self._end(("run",), event, state, **details), *(span for spans in left for span in spans)]

    def _entered(self, event: events.WorkflowEntered) -> Sequence[Span]:
        place, graph = structural(event.path), _graph_of(event)
        known = self.graphs.get(place)
        joined = known.joined(graph) if known else graph
        if joined != known:  # each item of a map says the same
            self.graphs[place], self.graphs_version = joined, self.version
        operator = self._operator(event.path)
        if operator is None or not _is_item(event):
            return [operator] if operator else []
        item = self._begin(("item", event.path), operator, "item", event, event.path[-1])
        if event.item is not None:
            item.details["item"] = event.as_dict()["item"]
        return [operator, item]

    def _round_started(self, event: events.RoundStarted) -> Sequence[Span]:
        closed = self._end(("round", event.path), event, "stopped")  # an earlier round that failed without a verdict
        item = self._open.get(("item", event.path))
        if item:
            item.end, item.state = None, "running"
        span = self._begin(
            ("round", event.path),
            item or self._operator(event.path) or self.root,
            "round",
            event,
            str(event.round),
        )
        span.details["operators"] = list(event.operators)
        return [*([item] if item else []), *closed, span]

    def _round_ended(self, event: events.RoundFinished) -> Sequence[Span]:
        verdict = {name: value for name, value in event.as_dict().items() if name in _VERDICT}
        ended = self._end(("round", event.path), event, "done", **verdict)
        if item := self._open.get(("item", event.path)):  # unless another round follows
            item.end, item.state = event.time, "done" if event.status is WorkflowStatus.SUCCESS else "failed"
            return [item, *ended]
        return ended

    def _around(self, event: Event) -> Span | None:
        return self._open.get(("round", event.path[:-1])) or self._operator(event.path[:-1]) or self.root

    def _operator(self, path: tuple[str, ...]) -> Span | None:
        """Return the operator in progress at a path; for an item of a map, the map."""
        span = self._open.get(("operator", path))
        if span is None and path and _INDEX.search(path[-1]):
            span = self._open.get(("operator", (*path[:-1], _INDEX.sub("", path[-1]))))
        return span

    # Operators and their attempts

    def _retried(self, event: events.OperatorRetried, span: Span) -> Sequence[Span]:
        attempt = self._attempt(span, event.attempt, event.time, "failed", error=event.error)
        pause = self._add(span, "pause", event, str(event.attempt))
        pause.end, pause.state = event.time + event.delay, "done"
        span.attempt = event.attempt + 1
        span.details["next_attempt_at"] = pause.end
        return [span, *self._left_open(span, event), attempt, pause]

    def _attempt(self, span: Span, number: int, end: float, state: State, **details: object) -> Span:
        attempt = Span(
            len(self.spans),
            span.id,
            "attempt",
            str(number),
            span.path,
            span.round,
            number,
            span.details.pop("next_attempt_at", span.start),
            end,
            state,
            details=dict(details),
        )
        self.spans.append(attempt)
        return attempt

    def _end_operator(self, event: Event, span: Span, state: State, **details: object) -> Sequence[Span]:
        left = self._left_open(span, event)
        last = [self._attempt(span, span.attempt, event.time, state)] if "next_attempt_at" in span.details else []
        return [*self._end(("operator", span.path), event, state, **details), *left, *last]

    def _left_open(self, around: Span, event: Event) -> list[Span]:
        """End all spans that an operator leaves open when it ends."""
        ended: list[Span] = []
        while inside := self._open_in.get(around.id):
            key, _ = inside.popitem()
            ended += self._end(key, event, "stopped")
        return ended

    # Models

    def _streamed(self, event: events.TokenStreamed, span: Span) -> Sequence[Span]:
        inside = self._open_in.get(span.id, {})
        writing = next((each for each in reversed(inside.values()) if each.kind == "model"), span)
        text = writing.details.get("text", "")
        if len(text) < MOST_STREAMED:
            writing.details["text"] = (text + event.text)[:MOST_STREAMED]
        return [writing]

    def _answered(self, event: events.ModelAnswered, span: Span) -> Sequence[Span]:
        if ("model", event.call_id) not in self._open:  # its start was not reported
            asked = self._begin(("model", event.call_id), span, "model", event, event.model)
            asked.start -= event.usage.seconds
        told = event.as_dict()
        ended = self._end(("model", event.call_id), event, "done", text=event.text, tool_calls=told["tool_calls"])
        if event.finish_reason:
            for each in ended:
                each.details["finish_reason"] = event.finish_reason
        for each in ended:
            each.usage = event.usage
        around: list[Span] = []
        while span.parent is not None:
            around.append(span)
            span = self.spans[span.parent]
        for each in (span, *around):
            each.usage = each.usage + event.usage
        return [span, *reversed(around), *ended]

    # Spans

    def _noted(self, event: Event, span: Span | None) -> Sequence[Span]:
        """Record an event that changes no span but is shown."""
        if span is None:
            return []
        said = {name: value for name, value in event.as_dict().items() if name not in _STAMP}
        span.details.setdefault("notes", []).append({"time": event.time, **said})
        return [span]

    def _begin(self, key: tuple[object, ...], around: Span | None, kind: Kind, event: Event, name: str = "") -> Span:
        self._end(key, event, "stopped")  # a span whose end was not reported
        span = self._add(around, kind, event, name or event.operator_id)
        self._open[key] = span
        self._open_in.setdefault(span.parent, {})[key] = span
        return span

    def _add(self, around: Span | None, kind: Kind, event: Event, name: str) -> Span:
        parent = around.id if around else None
        span = Span(len(self.spans), parent, kind, name, event.path, event.round, event.attempt, event.time)
        self.spans.append(span)
        return span

    def _end(self, key: tuple[object, ...], event: Event, state: State, **details: object) -> Sequence[Span]:
        span = self._open.pop(key, None)
        if span is None:
            return []
        around = self._open_in.setdefault(span.parent, {})
        around.pop(key, None)
        around.update(self._open_in.pop(span.id, {}))  # spans that it leaves open now belong to the enclosing span
        if span.end is not None:
            return []
        span.end, span.state, span.version = max(span.start, event.time), state, self.version
        span.details.update(details)
        return [span]


def structural(path: Sequence[str]) -> tuple[str, ...]:
    """Return a path without the indices of items: equal for the same place of a workflow."""
    return tuple(_INDEX.sub("", part) for part in path)


def _graph_of(event: events.RunStarted | events.WorkflowEntered) -> Graph:
    return Graph(event.workflow, event.operators, event.judges, event.instructions, event.ports)


def _is_item(event: Event) -> bool:
    """Return True if it concerns an item of a map: its path ends with the map's id and the item's number."""
    return bool(event.path) and event.path[-1] != event.operator_id
