"""Trace of a run: a tree of spans, built from its events.

A span is a period of time: the run, a round, an operator in a round, an item of a map, an attempt, the pause before
the next attempt, a call of a model or a tool, or a question to a person.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.events.types import plain
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus

Kind = Literal["run", "round", "operator", "item", "attempt", "pause", "model", "tool", "question"]
State = Literal["running", "done", "failed", "stopped", "skipped", "cached", "kept"]

MOST_STREAMED = 100_000
"""Maximum number of characters of a streamed answer to store until the whole answer is known."""

_STAMP = frozenset(Event.__struct_fields__)
_VERDICT = [name for name in events.RoundFinished.__struct_fields__ if name not in _STAMP]


@dataclass(slots=True, eq=False)
class Span:
    """A period of time in a run.

    Attributes:
        id: Index in the trace, from 0.
        parent: Id of the enclosing span; None for the run itself.
        name: Name of the span: the id of an operator, the name of a model or a tool, or the number of a round.
        path: Path in the run, as in events; empty for a span of the whole run.
        round: Round of the workflow; 0 for the run.
        attempt: Attempt of the operator; 0 if there is none.
        start: Time of the start, in seconds since the epoch.
        end: Time of the end; None while the span is in progress.
        state: State, or outcome.
        usage: Usage of model calls in the span, as far as known.
        details: Further JSON values, such as the goal, the message or the error.
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
        """Duration in seconds; 0 while the span is in progress."""
        return 0.0 if self.end is None else max(0.0, self.end - self.start)


@dataclass(slots=True, frozen=True)
class Graph:
    """Structure of a workflow.

    Attributes:
        before: Ids of the predecessors of each operator.
        judges: Ids of the evaluators.
        instructions: Instructions of operators and evaluators that have one, by id.
        ports: Ports of the edges to each operator, by predecessor.
    """

    workflow: str
    before: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])

    def joined(self, other: Graph) -> Graph:
        """Return the union of two graphs of one path, such as a leader's, whose operators differ from job to job."""
        return Graph(
            other.workflow,
            {**self.before, **other.before},
            tuple(dict.fromkeys((*self.judges, *other.judges))),
            {**self.instructions, **other.instructions},
            {**self.ports, **other.ports},
        )


class Trace:
    """Spans of a run, updated by its events: call `apply` with each event, in order.

    Attributes:
        run_id: Id of the run.
        workflow: Name of the workflow.
        goal: Goal of the job.
        inputs: Named values of the job.
        spans: All spans, in the order of their ids; the first is the span of the run.
        graphs: Workflows in the run, by the path of the operator that runs them, without indices of items. The
            workflow of the run itself has the path ``()``.
        version: Number of events applied.
        began: Version of the run's first event; earlier versions belong to another run.
        graphs_version: Version of the last event that described a workflow.
        now: Time of the last event, in seconds since the epoch.
        names: Names of operators for people, by their ids; others are shown by their ids.
    """

    def __init__(self, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.version = 0
        self.names = names
        self._clear()

    def _clear(self) -> None:
        self.run_id = ""
        self.workflow = ""
        self.goal = ""
        self.inputs: Mapping[str, Any] = {}
        self.spans: list[Span] = []
        self.graphs: dict[tuple[str, ...], Graph] = {}
        self.began = self.graphs_version = self.version
        self.now = 0.0
        self._open: dict[tuple[object, ...], Span] = {}
        self._open_in: dict[int | None, dict[tuple[object, ...], Span]] = {}

    @classmethod
    def of(cls, happened: Iterable[Event]) -> Trace:
        """Return the trace of some events."""
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
        """Return the direct children of a span, optionally only of some kinds, in the order of their start."""
        return [child for child in self.spans if child.parent == span.id and (not kinds or child.kind in kinds)]

    def apply(self, event: Event) -> Sequence[Span]:
        """Apply an event.

        Returns:
            The spans that the event started, changed or ended; enclosing spans come first.
        """
        self.version += 1
        if isinstance(event, events.RunStarted):  # events of another run follow, or the same run starts again
            self._clear()
        self.now = max(self.now, event.time)
        changed = self._spans_changed_by(event)
        for span in changed:
            span.version = self.version
        return changed

    def _spans_changed_by(self, event: Event) -> Sequence[Span]:
        match event:
            case events.RunStarted():
                return self._run_started(event)
            case events.RunFinished():
                return self._run_ended(event, "done", event.message.usage, message=plain(event.message))
            case events.RunFailed():
                state = "stopped" if event.error == events.CANCELLED else "failed"
                return self._run_ended(event, state, event.usage, error=event.error)
            case events.WorkflowEntered():
                return self._workflow_entered(event)
            case events.RoundStarted():
                return self._round_started(event)
            case events.RoundFinished():
                return self._round_ended(event)
            case events.OperatorStarted():
                return [self._begin(("operator", event.path), self._enclosing(event), "operator", event)]
            case events.OperatorKept():
                return self._operator_kept(event)
            case events.OperatorSkipped():
                span = self._begin(("operator", event.path), self._enclosing(event), "operator", event)
                return self._end_operator(event, span, "skipped", reason=event.reason)
            case _:
                return self._changed_in_operator(event)

    def _changed_in_operator(self, event: Event) -> Sequence[Span]:
        """Apply an event of an operator that has started."""
        span = self._operator(event.path)
        if span is None:
            return self._add_note(event, self._open.get(("round", event.path)) or self.root)
        match event:
            case events.OperatorFinished():
                state = span.state if span.state in ("cached", "kept") else "done"
                span.usage = event.message.usage
                return self._end_operator(event, span, state, message=plain(event.message))
            case events.OperatorFailed() | events.OperatorCancelled():
                span.usage = event.usage
                error = {"error": event.error} if isinstance(event, events.OperatorFailed) else {}
                return self._end_operator(event, span, "failed" if error else "stopped", **error)
            case events.OperatorRetried():
                return self._attempt_failed(event, span)
            case events.CacheHit() | events.MessageKept():
                span.state = "cached" if isinstance(event, events.CacheHit) else "kept"
                return [span]
            case events.FellBack():
                span.details["fell_back"] = event.error
                return self._add_note(event, span)
            case events.TaskBuilt():
                span.details.setdefault("tasks", []).append(plain(event.task))
                return [span]
            case events.Progress():
                span.details["progress"] = [event.done, event.total]
                return [span]
            case _:
                return self._changed_by_call(event, span)

    def _changed_by_call(self, event: Event, span: Span) -> Sequence[Span]:
        """Apply an event of a model call, a tool call or a question of an operator."""
        match event:
            case events.ModelAsked():
                asked = self._begin(("model", event.call_id), span, "model", event, event.model)
                told = {"provider": event.provider} if event.provider else {}
                asked.details.update(messages=plain(event.messages), tools=plain(event.tools), **told)
                return [asked]
            case events.TokenStreamed():
                return self._text_streamed(event, span)
            case events.ModelAnswered():
                return self._model_answered(event, span)
            case events.ModelFailed():
                return self._end(("model", event.call_id), event, "failed", error=event.error)
            case events.ToolCalled():
                called = self._begin(("tool", event.path, event.call_id), span, "tool", event, event.tool)
                called.details["arguments"] = plain(event.arguments)
                return [called]
            case events.ToolReturned():
                state = "failed" if event.failed else "done"
                return self._end(("tool", event.path, event.call_id), event, state, result=event.result)
            case events.Interrupted():
                asked = self._begin(("question", event.interrupt_id), span, "question", event, event.interrupt_id)
                asked.details.update(question=event.question, schema=plain(event.schema))
                if event.tool is not None:  # as text, because JavaScript rounds large numbers
                    asked.details["arguments"] = json.dumps(event.arguments, indent=2, ensure_ascii=False, default=str)
                return [asked]
            case events.Resumed():
                return self._end(
                    ("question", event.interrupt_id), event, "done", **({"by": event.by} if event.by else {})
                )
            case _:
                return self._add_note(event, span)

    # The run and its rounds

    def _run_started(self, event: events.RunStarted) -> Sequence[Span]:
        self.run_id, self.workflow, self.goal = event.run_id, event.workflow, event.goal
        self.inputs = plain(event.inputs)
        self.graphs[()] = _graph_of(event)
        root = self._begin(("run",), None, "run", event, event.workflow)
        if self.inputs:
            root.details["inputs"] = self.inputs
        if event.started_by:
            root.details["started_by"] = event.started_by
        return [root]

    def _run_ended(self, event: Event, state: State, usage: Usage, **details: object) -> Sequence[Span]:
        if self.root:
            self.root.usage = usage
        stopped = [self._end(key, event, "stopped") for key in [*reversed(self._open)] if key != ("run",)]
        if state == "stopped" and any(span.kind == "question" and span.state == "stopped" for span in self.spans):
            details["asks"] = True  # it did not work, but waited for a person
        return [*self._end(("run",), event, state, **details), *(span for spans in stopped for span in spans)]

    def _workflow_entered(self, event: events.WorkflowEntered) -> Sequence[Span]:
        path, graph = structural(event.path), _graph_of(event)
        known = self.graphs.get(path)
        joined = known.joined(graph) if known else graph
        if joined != known:  # all items of a map have the same graph
            self.graphs[path], self.graphs_version = joined, self.version
        operator = self._operator(event.path)
        if operator is None or not _is_item(event):
            return [operator] if operator else []
        item = self._begin(("item", event.path), operator, "item", event, event.path[-1])
        if event.item is not None:
            item.details["item"] = plain(event.item)
        return [operator, item]

    def _round_started(self, event: events.RoundStarted) -> Sequence[Span]:
        closed = self._end(("round", event.path), event, "stopped")  # an earlier round that ended without a verdict
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
        verdict = {name: plain(getattr(event, name)) for name in _VERDICT}
        ended = self._end(("round", event.path), event, "done", **verdict)
        if item := self._open.get(("item", event.path)):  # ended for now; `_round_started` opens it again
            item.end, item.state = event.time, "done" if event.status is WorkflowStatus.SUCCESS else "failed"
            return [item, *ended]
        return ended

    def _operator_kept(self, event: events.OperatorKept) -> Sequence[Span]:
        """Note an operator that keeps its message in the details of the round; count kept items of a map in the map."""
        if _is_item(event):
            span = self._operator(event.path)
            if span is not None:
                span.details["kept_items"] = span.details.get("kept_items", 0) + 1
        else:
            span = self._open.get(("round", event.path[:-1]))
            if span is not None:
                span.details.setdefault("kept", []).append(event.operator_id)
        return [span] if span is not None else []

    def _enclosing(self, event: Event) -> Span | None:
        """Return the span that contains the operator of an event: a round, an operator or the run."""
        return self._open.get(("round", event.path[:-1])) or self._operator(event.path[:-1]) or self.root

    def _operator(self, path: tuple[str, ...]) -> Span | None:
        """Return the span of the operator in progress at a path; for an item of a map, that of the map."""
        span = self._open.get(("operator", path))
        if span is None and path and (item := MapItem.parse(path[-1])):
            span = self._open.get(("operator", (*path[:-1], item.map_id)))
        return span

    # Operators and their attempts

    def _attempt_failed(self, event: events.OperatorRetried, span: Span) -> Sequence[Span]:
        attempt = self._add_attempt(span, event.attempt, event.time, "failed", error=event.error)
        pause = self._add(span, "pause", event, str(event.attempt))
        pause.end, pause.state = event.time + event.delay, "done"
        span.attempt = event.attempt + 1
        span.details["next_attempt_at"] = pause.end
        return [span, *self._end_children(span, event), attempt, pause]

    def _add_attempt(self, span: Span, number: int, end: float, state: State, **details: object) -> Span:
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
        children = self._end_children(span, event)
        last = [self._add_attempt(span, span.attempt, event.time, state)] if "next_attempt_at" in span.details else []
        return [*self._end(("operator", span.path), event, state, **details), *children, *last]

    def _end_children(self, operator: Span, event: Event) -> list[Span]:
        """End the spans inside an operator that are still open when the operator or its attempt ends."""
        ended: list[Span] = []
        while children := self._open_in.get(operator.id):
            key, _ = children.popitem()
            ended += self._end(key, event, "stopped")
        return ended

    # Models

    def _text_streamed(self, event: events.TokenStreamed, span: Span) -> Sequence[Span]:
        children = self._open_in.get(span.id, {})
        writer = next((child for child in reversed(children.values()) if child.kind == "model"), span)
        text = writer.details.get("text", "")
        if len(text) < MOST_STREAMED:
            writer.details["text"] = (text + event.text)[:MOST_STREAMED]
        return [writer]

    def _model_answered(self, event: events.ModelAnswered, span: Span) -> Sequence[Span]:
        if ("model", event.call_id) not in self._open:  # its start was not reported
            asked = self._begin(("model", event.call_id), span, "model", event, event.model)
            asked.start -= event.usage.seconds
        ended = self._end(("model", event.call_id), event, "done", text=event.text, tool_calls=plain(event.tool_calls))
        for call in ended:
            if event.finish_reason:
                call.details["finish_reason"] = event.finish_reason
            call.usage = event.usage
        enclosing = [span]
        while span.parent is not None:
            span = self.spans[span.parent]
            enclosing.insert(0, span)
        for outer in enclosing:
            outer.usage = outer.usage + event.usage
        return [*enclosing, *ended]

    # Spans

    def _add_note(self, event: Event, span: Span | None) -> Sequence[Span]:
        """Record an event that starts, changes or ends no span as a note of the span in which it occurred."""
        if span is None:
            return []
        fields = {name: value for name, value in event.as_dict().items() if name not in _STAMP}
        span.details.setdefault("notes", []).append({"time": event.time, **fields})
        return [span]

    def _begin(self, key: tuple[object, ...], outer: Span | None, kind: Kind, event: Event, name: str = "") -> Span:
        """Start a span inside another one, and keep it open under a key until `_end` is called with the key."""
        self._end(key, event, "stopped")  # an earlier span with this key whose end was not reported
        span = self._add(outer, kind, event, name or event.operator_id)
        self._open[key] = span
        self._open_in.setdefault(span.parent, {})[key] = span
        return span

    def _add(self, outer: Span | None, kind: Kind, event: Event, name: str) -> Span:
        parent = outer.id if outer else None
        span = Span(len(self.spans), parent, kind, name, event.path, event.round, event.attempt, event.time)
        self.spans.append(span)
        return span

    def _end(self, key: tuple[object, ...], event: Event, state: State, **details: object) -> Sequence[Span]:
        """End the open span with a key; return it, or nothing if there is none or its end is known already."""
        span = self._open.pop(key, None)
        if span is None:
            return []
        siblings = self._open_in.setdefault(span.parent, {})
        siblings.pop(key, None)
        siblings.update(self._open_in.pop(span.id, {}))  # children that are still open move to the enclosing span
        if span.end is not None:
            return []
        span.end, span.state, span.version = max(span.start, event.time), state, self.version
        span.details.update(details)
        return [span]


def answer_text(message: Mapping[str, Any], path: Sequence[str]) -> str:
    """Return the answer in a message of a span or, if the path is that of an item of a map, in the part of the item."""
    item, parts = MapItem.parse(path[-1]), message.get("parts") or ()
    if item and item.index < len(parts):
        message = parts[item.index]
    text: str = message.get("scratchpad", "")
    return text or json.dumps(message.get("outputs", {}), ensure_ascii=False, default=str, indent=1)


def structural(path: Sequence[str]) -> tuple[str, ...]:
    """Return a path without the indices of map items, so that it is equal for all items."""
    return tuple(map(without_index, path))


def _graph_of(event: events.RunStarted | events.WorkflowEntered) -> Graph:
    return Graph(event.workflow, event.operators, event.judges, event.instructions, event.ports)


def _is_item(event: Event) -> bool:
    """Return True if an event concerns an item of a map: the last part of its path is the map's id with an index."""
    return bool(event.path) and event.path[-1] != event.operator_id
